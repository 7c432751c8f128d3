/*
 * Finding the entry of a function. Linkers write a sorted table of all of them (.eh_frame_hdr), in
 * which an address is found with some 20 reads of eight bytes, so nothing of it is kept in memory.
 * Files without it (linked statically, or by old linkers) are scanned once, from the section's
 * header.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/unwind/cfi_int.h"

#define MAX_ENTRY_BYTES (64u << 10)  /* of one CIE or FDE */
#define MAX_SCAN_BYTES  (256u << 20) /* of a section without an index */
#define MAX_SCANNED     (1u << 18)   /* functions in it: 4 MiB of index */

/* ---- bytes ----------------------------------------------------------------------------- */

void gs_cfi_cursor_skip(struct gs_cfi_cursor *c, uint64_t bytes)
{
	if (bytes > (uint64_t)(c->end - c->p)) {
		c->bad = true;
		c->p = c->end;
		return;
	}
	c->p += bytes;
}

uint64_t gs_cfi_cursor_uint(struct gs_cfi_cursor *c, unsigned bytes)
{
	const uint8_t *p = c->p;
	uint64_t v = 0;

	gs_cfi_cursor_skip(c, bytes);
	if (!c->bad)
		memcpy(&v, p, bytes);
	return v;
}

int64_t gs_cfi_cursor_int(struct gs_cfi_cursor *c, unsigned bytes)
{
	uint64_t v = gs_cfi_cursor_uint(c, bytes);
	unsigned shift = 64 - 8 * bytes;

	return (int64_t)(v << shift) >> shift;
}

uint64_t gs_cfi_cursor_uleb(struct gs_cfi_cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		uint8_t byte = (uint8_t)gs_cfi_cursor_uint(c, 1);

		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		if (c->bad || !(byte & 0x80))
			return v;
	}
}

int64_t gs_cfi_cursor_sleb(struct gs_cfi_cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)gs_cfi_cursor_uint(c, 1);
		if (shift < 64)
			v |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (!c->bad && byte & 0x80);
	if (shift < 64 && byte & 0x40)
		v |= ~0ull << shift;
	return (int64_t)v;
}

uint64_t gs_cfi_cursor_pointer(struct gs_cfi_cursor *c, uint8_t encoding, uint64_t data_vaddr)
{
	uint64_t base = 0, at = gs_cfi_cursor_vaddr(c), v;

	if (encoding == GS_PE_OMIT)
		return 0;
	switch (encoding & 0x0f) {
	case 0x00: /* absptr */
	case 0x04:
	case 0x0c:
		v = gs_cfi_cursor_uint(c, 8);
		break;
	case 0x01:
		v = gs_cfi_cursor_uleb(c);
		break;
	case 0x02:
		v = gs_cfi_cursor_uint(c, 2);
		break;
	case 0x03:
		v = gs_cfi_cursor_uint(c, 4);
		break;
	case 0x09:
		v = (uint64_t)gs_cfi_cursor_sleb(c);
		break;
	case 0x0a:
		v = (uint64_t)gs_cfi_cursor_int(c, 2);
		break;
	case 0x0b:
		v = (uint64_t)gs_cfi_cursor_int(c, 4);
		break;
	default:
		c->bad = true;
		return 0;
	}
	switch (encoding & 0x70) {
	case 0x00:
		break;
	case 0x10: /* pcrel */
		base = at;
		break;
	case 0x30: /* datarel */
		base = data_vaddr;
		break;
	default: /* textrel, funcrel, aligned: no compiler writes them on x86-64 */
		c->bad = true;
		return 0;
	}
	return v ? v + base : 0;
}

/* ---- entries --------------------------------------------------------------------------- */

struct entry {          /* a CIE or FDE, read */
	uint8_t *data;  /* owned: all after the length */
	uint64_t vaddr; /* of data */
	uint64_t bytes;
};

static void entry_fini(struct entry *e)
{
	free(e->data);
}

/* -ENOENT: the end mark. */
static int read_entry(const struct gs_cfi *cfi, uint64_t vaddr, struct entry *ret)
{
	uint32_t head[3] = {0};
	long n = gs_elf_read_vaddr(cfi->elf, vaddr, head, sizeof(head));

	*ret = (struct entry){.bytes = head[0], .vaddr = vaddr + 4};
	if (n < 4)
		return n < 0 ? (int)n : -ENOEXEC;
	if (head[0] == 0xffffffff && n == sizeof(head)) {
		memcpy(&ret->bytes, &head[1], 8);
		ret->vaddr = vaddr + 12;
	}
	if (ret->bytes == 0)
		return -ENOENT;
	if (ret->bytes < 4 || ret->bytes > MAX_ENTRY_BYTES)
		return -ENOEXEC;
	ret->data = malloc(ret->bytes);
	if (!ret->data)
		return -ENOMEM;
	n = gs_elf_read_vaddr(cfi->elf, ret->vaddr, ret->data, ret->bytes);
	if (n != (long)ret->bytes) {
		free(ret->data);
		ret->data = NULL;
		return n < 0 ? (int)n : -ENOEXEC;
	}
	return 0;
}

static struct gs_cfi_cursor cursor_of(const struct entry *e)
{
	return (struct gs_cfi_cursor){
		.p = e->data, .end = e->data + e->bytes, .vaddr = e->vaddr + e->bytes};
}

static void take_augmentation(struct gs_cfi_cursor *c, const char *letters, struct gs_cie *cie)
{
	uint64_t bytes = gs_cfi_cursor_uleb(c);
	const uint8_t *end;

	if (bytes > (uint64_t)(c->end - c->p)) {
		c->bad = true;
		return;
	}
	end = c->p + bytes;
	cie->augmented = true;
	for (; *letters && !c->bad; letters++) {
		switch (*letters) {
		case 'R':
			cie->fde_encoding = (uint8_t)gs_cfi_cursor_uint(c, 1);
			break;
		case 'P':
			gs_cfi_cursor_pointer(c, (uint8_t)gs_cfi_cursor_uint(c, 1) & 0x7f, 0);
			break;
		case 'L':
			gs_cfi_cursor_uint(c, 1);
			break;
		case 'S':
			cie->signal = true;
			break;
		default: /* an unknown letter: its data is skipped with the rest */
			c->p = end;
			return;
		}
	}
	if (!c->bad)
		c->p = end;
}

static int read_cie(const struct gs_cfi *cfi, uint64_t vaddr, struct gs_cie *ret)
{
	GS_CLEANUP(entry_fini) struct entry e;
	const char *letters;
	struct gs_cfi_cursor c;
	uint64_t version;
	int r = read_entry(cfi, vaddr, &e);

	if (r < 0)
		return r == -ENOENT ? -ENOEXEC : r;
	c = cursor_of(&e);
	*ret = (struct gs_cie){0};
	if (gs_cfi_cursor_uint(&c, 4) != 0)
		return -ENOEXEC;
	version = gs_cfi_cursor_uint(&c, 1);
	if (version != 1 && version != 3)
		return -ENOEXEC;
	letters = (const char *)c.p;
	gs_cfi_cursor_skip(&c, strnlen(letters, (size_t)(c.end - c.p)) + 1);
	if (c.bad)
		return -ENOEXEC;
	ret->code_align = gs_cfi_cursor_uleb(&c);
	ret->data_align = gs_cfi_cursor_sleb(&c);
	ret->ra_reg = version == 1 ? gs_cfi_cursor_uint(&c, 1) : gs_cfi_cursor_uleb(&c);
	if (letters[0] == 'z')
		take_augmentation(&c, letters + 1, ret);
	else if (letters[0])
		return -ENOEXEC;
	if (c.bad || ret->ra_reg != GS_REG_RIP)
		return -ENOEXEC;
	ret->insns = gs_cfi_cursor_vaddr(&c);
	ret->insns_end = c.vaddr;
	return 0;
}

/* 1: it is a CIE; *ret_next: the entry after it. */
static int read_fde(const struct gs_cfi *cfi, uint64_t vaddr, struct gs_fde *ret,
		    uint64_t *ret_next)
{
	GS_CLEANUP(entry_fini) struct entry e;
	struct gs_cfi_cursor c;
	uint64_t at, back, bytes;
	int r = read_entry(cfi, vaddr, &e);

	*ret_next = e.vaddr + e.bytes;
	if (r < 0)
		return r;
	c = cursor_of(&e);
	at = gs_cfi_cursor_vaddr(&c);
	back = gs_cfi_cursor_uint(&c, 4);
	if (back == 0)
		return 1;
	r = read_cie(cfi, at - back, &ret->cie);
	if (r < 0)
		return r;
	ret->start = gs_cfi_cursor_pointer(&c, ret->cie.fde_encoding, 0);
	ret->end = ret->start + gs_cfi_cursor_pointer(&c, ret->cie.fde_encoding & 0x0f, 0);
	if (ret->cie.augmented) {
		bytes = gs_cfi_cursor_uleb(&c);
		gs_cfi_cursor_skip(&c, bytes);
	}
	if (c.bad)
		return -ENOEXEC;
	ret->insns = gs_cfi_cursor_vaddr(&c);
	ret->insns_end = c.vaddr;
	return 0;
}

/* ---- finding one ----------------------------------------------------------------------- */

static int open_table(struct gs_cfi *cfi)
{
	struct gs_elf_part part;
	struct gs_cfi_cursor c;
	uint8_t head[16];
	uint64_t n;
	int r = gs_elf_unwind_index(cfi->elf, &part);

	if (r < 0)
		return r;
	if (part.bytes < 12 || gs_elf_read_vaddr(cfi->elf, part.vaddr, head, 12) != 12)
		return -ENOEXEC;
	/* Version 1; frames at pcrel sdata4; how many as udata4; pairs as datarel sdata4: what
	 * GNU ld, gold, lld and mold write. */
	if (head[0] != 1 || head[2] != 0x03 || head[3] != 0x3b)
		return -ENOENT;
	c = (struct gs_cfi_cursor){.p = head + 4, .end = head + 12, .vaddr = part.vaddr + 12};
	gs_cfi_cursor_pointer(&c, head[1], part.vaddr);
	if (c.bad || c.p != head + 8)
		return -ENOENT;
	n = gs_cfi_cursor_uint(&c, 4);
	if (n > (part.bytes - 12) / 8)
		return -ENOEXEC;
	cfi->hdr = part.vaddr;
	cfi->table = part.vaddr + 12;
	cfi->n_table = n;
	return n ? 0 : -ENOENT;
}

static int by_start(const void *a, const void *b)
{
	const struct gs_cfi_entry *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static int scan_entries(struct gs_cfi *cfi)
{
	struct gs_elf_part part;
	size_t capacity = 0;
	uint64_t next;
	int r = gs_elf_section_bytes(cfi->elf, ".eh_frame", &part);

	if (r < 0)
		return r;
	if (part.vaddr == 0 || part.bytes > MAX_SCAN_BYTES)
		return -ENOENT;
	for (uint64_t at = part.vaddr; at < part.vaddr + part.bytes; at = next) {
		struct gs_fde fde;

		r = read_fde(cfi, at, &fde, &next);
		if (r == -ENOENT || next <= at) /* the end mark */
			break;
		if (r < 0)
			return r;
		if (r == 1 || fde.start == 0 || fde.end <= fde.start)
			continue;
		if (cfi->n_entries == MAX_SCANNED)
			return -EFBIG;
		if (!gs_vec_reserve(&cfi->entries, &capacity, cfi->n_entries + 1))
			return -ENOMEM;
		cfi->entries[cfi->n_entries++] = (struct gs_cfi_entry){fde.start, at};
	}
	if (cfi->n_entries)
		qsort(cfi->entries, cfi->n_entries, sizeof(*cfi->entries), by_start);
	return cfi->n_entries ? 0 : -ENOENT;
}

int gs_cfi_new(struct gs_elf *elf, struct gs_cfi **ret_cfi)
{
	GS_CLEANUP(gs_cfi_free) struct gs_cfi *cfi = calloc(1, sizeof(*cfi));
	int r;

	if (!cfi)
		return -ENOMEM;
	cfi->elf = elf;
	r = open_table(cfi);
	if (r < 0) {
		r = scan_entries(cfi);
		if (r < 0)
			return r;
	}
	*ret_cfi = gs_take(cfi);
	return 0;
}

size_t gs_cfi_bytes(const struct gs_cfi *cfi)
{
	return cfi->n_entries * sizeof(*cfi->entries);
}

void gs_cfi_free(struct gs_cfi **cfi)
{
	if (!*cfi)
		return;
	free((*cfi)->entries);
	free(*cfi);
	*cfi = NULL;
}

/* Pair i of the table: where the function begins, and its entry. */
static int read_pair(const struct gs_cfi *cfi, uint64_t i, uint64_t ret_pair[2])
{
	int32_t pair[2];

	if (gs_elf_read_vaddr(cfi->elf, cfi->table + 8 * i, pair, 8) != 8)
		return -ENOEXEC;
	ret_pair[0] = cfi->hdr + (uint64_t)(int64_t)pair[0];
	ret_pair[1] = cfi->hdr + (uint64_t)(int64_t)pair[1];
	return 0;
}

/* The address of the last entry that begins at or before vaddr. */
static int search_index(struct gs_cfi *cfi, uint64_t vaddr, uint64_t *ret_fde)
{
	uint64_t low = 0, high = cfi->n_table ? cfi->n_table : cfi->n_entries, pair[2];

	*ret_fde = 0;
	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (!cfi->n_table) {
			pair[0] = cfi->entries[mid].start;
			pair[1] = cfi->entries[mid].fde;
		} else if (read_pair(cfi, mid, pair) < 0) {
			return -ENOEXEC;
		}
		if (pair[0] <= vaddr) {
			*ret_fde = pair[1];
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return *ret_fde ? 0 : -ENOENT;
}

int gs_cfi_find_fde(struct gs_cfi *cfi, uint64_t vaddr, struct gs_fde *ret_fde)
{
	uint64_t fde, next;
	int r = search_index(cfi, vaddr, &fde);

	if (r < 0)
		return r;
	r = read_fde(cfi, fde, ret_fde, &next);
	if (r != 0)
		return r == 1 || r == -ENOENT ? -ENOEXEC : r;
	return vaddr >= ret_fde->start && vaddr < ret_fde->end ? 0 : -ENOENT;
}
