/*
 * The calls of __cudaRegisterFunction, found by what loads their arguments. nvcc (crt/host_runtime.h,
 * __cudaRegisterEntry) and clang write the same five in the same way, optimised or not:
 *
 *	lea   name(%rip), %rdx		what the kernel is called, a text of constant data
 *	mov   %rdx, %rcx		twice
 *	lea   stub(%rip), %rsi		the host function
 *	mov   $-1, %r8d			no limit of threads
 *	call  __cudaRegisterFunction
 *
 * in an order that varies. A handle is got by
 *
 *	lea   stub(%rip), %rsi		or by way of %rax, as the next
 *	lea   handle(%rip), %rdi
 *	call  __cudaGetKernel
 *
 * where stub is one that was registered. No other function takes -1 fifth beside an address of code second and one of a
 * text third that reads as an identifier. Where the called function is does not matter, so a
 * runtime that was linked in, in a stripped program, is no different.
 */
#include "sources/cubin/stubs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/cubin/cubin.h"
#include "sources/elf/code.h"

#define BLOCK_BYTES (256u << 10)
#define MOST_APART  128 /* bytes from the first of the five to the call */
#define LEA_BYTES   7
#define INSTRUCTION 8 /* bytes of the longest of them, which a block must not cut */

struct stub {
	uint64_t vaddr;
	uint64_t name_vaddr;
};

struct gs_cubin_stubs {
	struct stub *stubs; /* owned, by rising vaddr once complete */
	size_t n, room;
	struct gs_cubin_handle *handles; /* owned, likewise */
	size_t n_handles, handles_room;
};

/* What was loaded lately. at: the address of the instruction; 0 not seen since the last call. */
struct loads {
	uint64_t stub_at, stub;
	uint64_t name_at, name;
	uint64_t handle_at, handle;
	uint64_t other_at, other; /* in %rax */
	uint64_t minus_one_at;
	uint64_t inside_until; /* bytes before it belong to an instruction that was taken */
};

struct scan {
	struct gs_elf *elf;
	struct gs_cubin_stubs *list;
	struct gs_elf_segments code;
	struct loads loads;
};

static bool is_code(const struct scan *s, uint64_t vaddr)
{
	for (unsigned i = 0; i < s->code.n; i++)
		if (vaddr - s->code.parts[i].vaddr < s->code.parts[i].bytes)
			return true;
	return false;
}

/* As compilers mangle: letters, digits, _, $ and '.'. */
static bool is_name(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		char c = text[i];

		if (c == '\0')
			return i > 0;
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
		      (i > 0 && ((c >= '0' && c <= '9') || c == '.'))))
			return false;
	}
	return false;
}

static int add_stub(struct scan *s, uint64_t stub, uint64_t name)
{
	struct gs_cubin_stubs *list = s->list;
	char begin[32];
	long n;

	n = gs_elf_read_vaddr(s->elf, name, begin, sizeof(begin));
	/* Of a long name the beginning; it is looked at whole when it is asked for. */
	if (n <= 0 || (!memchr(begin, 0, (size_t)n) && n < (long)sizeof(begin)))
		return 0;
	if (!memchr(begin, 0, (size_t)n))
		begin[n - 1] = '\0';
	if (!is_name(begin, (size_t)n))
		return 0;
	if (list->n == GS_CUBIN_STUBS_MAX) {
		gs_guard_refuse(GS_REFUSED_MEMORY, 1, gs_elf_path(s->elf));
		return -ENOSPC;
	}
	if (!gs_vec_reserve(&list->stubs, &list->room, list->n + 1))
		return -ENOMEM;
	list->stubs[list->n++] = (struct stub){stub, name};
	return 0;
}

/* Whether stub is one is known at the end alone. */
static int add_handle(struct scan *s, uint64_t vaddr, uint64_t stub)
{
	struct gs_cubin_stubs *list = s->list;

	if (list->n_handles == GS_CUBIN_STUBS_MAX) {
		gs_guard_refuse(GS_REFUSED_MEMORY, 1, gs_elf_path(s->elf));
		return -ENOSPC;
	}
	if (!gs_vec_reserve(&list->handles, &list->handles_room, list->n_handles + 1))
		return -ENOMEM;
	list->handles[list->n_handles++] = (struct gs_cubin_handle){vaddr, stub};
	return 0;
}

static bool is_near(uint64_t at, uint64_t call)
{
	return at && call - at <= MOST_APART;
}

/* A call ends what was loaded for it. */
static int take_call(struct scan *s, uint64_t at)
{
	const struct loads l = s->loads;

	s->loads = (struct loads){0};
	if (!l.minus_one_at)
		return is_near(l.stub_at, at) && is_near(l.handle_at, at) && is_code(s, l.stub) &&
				       !is_code(s, l.handle)
			       ? add_handle(s, l.handle, l.stub)
			       : 0;
	if (!is_near(l.stub_at, at) || !is_near(l.name_at, at) || !is_near(l.minus_one_at, at) ||
	    !is_code(s, l.stub))
		return 0;
	return add_stub(s, l.stub, l.name);
}

static void take_address(struct scan *s, uint64_t at, unsigned reg, uint64_t value)
{
	if (reg == 6) { /* rsi */
		s->loads.stub_at = at;
		s->loads.stub = value;
	} else if (reg == 2 || reg == 1) { /* rdx, rcx */
		s->loads.name_at = at;
		s->loads.name = value;
	} else if (reg == 7) { /* rdi */
		s->loads.handle_at = at;
		s->loads.handle = value;
	} else if (reg == 0) {
		s->loads.other_at = at;
		s->loads.other = value;
	}
}

/* What begins at p, which lies at the address at; INSTRUCTION bytes are there. */
static int take_instruction(struct scan *s, const uint8_t *p, uint64_t at)
{
	int32_t word;

	if (at < s->loads.inside_until)
		return 0;
	switch (p[0]) {
	case 0x48: /* lea disp32(%rip), %r64; mov %rax, %rsi or %rdi */
		if (p[1] == 0x89 && (p[2] == 0xc6 || p[2] == 0xc7) &&
		    at == s->loads.other_at + LEA_BYTES)
			take_address(s, at, p[2] & 7, s->loads.other);
		if (p[1] != 0x8d || (p[2] & 0xc7) != 0x05)
			return 0;
		s->loads.inside_until = at + LEA_BYTES;
		memcpy(&word, p + 3, sizeof(word));
		take_address(s, at, p[2] >> 3 & 7, at + LEA_BYTES + (uint64_t)(int64_t)word);
		return 0;
	case 0xbe: /* mov $imm32, %esi: where code has fixed addresses */
	case 0xbf: /* %edi */
	case 0xba:
	case 0xb9:
		memcpy(&word, p + 1, sizeof(word));
		if (s->code.n && s->code.parts[0].vaddr >= 0x10000 && (uint32_t)word >= 0x10000)
			take_address(s, at, p[0] & 7, (uint32_t)word);
		return 0;
	case 0x41: /* mov $-1, %r8d */
		if (p[1] == 0xb8 && memcmp(p + 2, "\xff\xff\xff\xff", 4) == 0)
			s->loads.minus_one_at = at;
		return 0;
	case 0xe8: /* call rel32; by chance it mostly leads nowhere */
		memcpy(&word, p + 1, sizeof(word));
		return is_code(s, at + 5 + (uint64_t)(int64_t)word) ? take_call(s, at) : 0;
	case 0xff: /* call *slot(%rip) */
		return p[1] == 0x15 ? take_call(s, at) : 0;
	default:
		return 0;
	}
}

/* Every byte may begin an instruction, but those of an address that is loaded: the others begin none of
 * these by mere chance often enough to matter. */
static const bool may_begin[256] = {[0x41] = true, [0x48] = true, [0xb9] = true, [0xba] = true,
				    [0xbe] = true, [0xbf] = true, [0xe8] = true, [0xff] = true};

static int scan_part(struct scan *s, const struct gs_elf_part *part, uint8_t *block)
{
	uint64_t off = part->off, end = part->off + part->bytes;

	while (off < end) {
		uint64_t next = gs_foreign_skip_hole(gs_elf_file(s->elf), off, end), vaddr;
		long n;
		int r;

		if (next > off)
			s->loads = (struct loads){0};
		off = next;
		if (off >= end)
			break;
		n = gs_elf_read(s->elf, off, block,
				end - off < BLOCK_BYTES ? (size_t)(end - off) : BLOCK_BYTES);
		if (n < 0)
			return (int)n;
		if (n <= INSTRUCTION)
			break;
		vaddr = part->vaddr + (off - part->off);
		for (long i = 0; i + INSTRUCTION <= n; i++) {
			if (!may_begin[block[i]])
				continue;
			r = take_instruction(s, block + i, vaddr + (uint64_t)i);
			if (r < 0)
				return r;
		}
		off += (uint64_t)n - INSTRUCTION + 1;
		if (gs_guard_stopped())
			return -ECANCELED;
	}
	return 0;
}

static int compare_stubs(const void *a, const void *b)
{
	const struct stub *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

static bool is_stub(const struct gs_cubin_stubs *list, uint64_t vaddr)
{
	const struct stub key = {.vaddr = vaddr};

	return list->n && bsearch(&key, list->stubs, list->n, sizeof(key), compare_stubs);
}

static int compare_handles(const void *a, const void *b)
{
	const struct gs_cubin_handle *x = a, *y = b;

	return x->vaddr < y->vaddr ? -1 : x->vaddr > y->vaddr;
}

/* Sort both lists, and leave out of the second what is none. */
static void settle_lists(struct gs_cubin_stubs *list)
{
	size_t n = 0;

	if (list->n)
		qsort(list->stubs, list->n, sizeof(*list->stubs), compare_stubs);
	for (size_t i = 0; i < list->n_handles; i++)
		if (is_stub(list, list->handles[i].stub))
			list->handles[n++] = list->handles[i];
	list->n_handles = n;
	if (n)
		qsort(list->handles, n, sizeof(*list->handles), compare_handles);
}

/* Programs without CUDA code of their own, and with a -1 by chance, are not looked through. */
static bool has_cuda_code(struct gs_elf *elf)
{
	struct gs_elf_part part;

	return gs_elf_section_bytes(elf, ".nv_fatbin", &part) == 0 ||
	       gs_elf_section_bytes(elf, "__nv_relfatbin", &part) == 0 ||
	       gs_elf_section_bytes(elf, ".nvFatBinSegment", &part) == 0;
}

int gs_cubin_stubs_new(struct gs_elf *elf, struct gs_cubin_stubs **ret_stubs)
{
	struct gs_cubin_stubs *list = calloc(1, sizeof(*list));
	GS_FREE uint8_t *block = malloc(BLOCK_BYTES);
	struct scan s = {.elf = elf, .list = list};
	int r = list && block ? 0 : -ENOMEM;

	if (r == 0 && has_cuda_code(elf)) {
		r = gs_elf_code_segments(elf, &s.code);
		for (unsigned i = 0; r == 0 && i < s.code.n; i++)
			r = scan_part(&s, &s.code.parts[i], block);
	}
	if (r < 0 && r != -ENOSPC) {
		gs_cubin_stubs_free(&list);
		return r;
	}
	settle_lists(list);
	*ret_stubs = list;
	return 0;
}

void gs_cubin_stubs_free(struct gs_cubin_stubs **stubs)
{
	if (!*stubs)
		return;
	free((*stubs)->stubs);
	free((*stubs)->handles);
	free(*stubs);
	*stubs = NULL;
}

size_t gs_cubin_stubs_bytes(const struct gs_cubin_stubs *list)
{
	return sizeof(*list) + list->room * sizeof(*list->stubs) +
	       list->handles_room * sizeof(*list->handles);
}

const struct gs_cubin_handle *gs_cubin_stubs_handles(const struct gs_cubin_stubs *list,
						     size_t *ret_n)
{
	*ret_n = list->n_handles;
	return list->handles;
}

size_t gs_cubin_stubs_count(const struct gs_cubin_stubs *list)
{
	return list->n;
}

bool gs_cubin_stubs_name(const struct gs_cubin_stubs *list, const struct gs_elf *elf,
			 uint64_t vaddr, char *ret_name, size_t bytes)
{
	const struct stub key = {.vaddr = vaddr}, *found;
	long n;

	found = list->n ? bsearch(&key, list->stubs, list->n, sizeof(key), compare_stubs) : NULL;
	if (!found)
		return false;
	n = gs_elf_read_vaddr(elf, found->name_vaddr, ret_name, bytes);
	return n > 0 && is_name(ret_name, (size_t)n);
}
