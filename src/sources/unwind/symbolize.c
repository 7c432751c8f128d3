#include "sources/unwind/symbolize.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "core/base/mem.h"
#include "core/base/vec.h"
#include "sources/elf/code.h"
#include "core/demangle/demangle.h"

#define MAX_SYMBOLS     (2u << 20) /* of one file: 16 MiB of index */
#define LOOK_BACK       32         /* symbols before an address that may cover it */
#define MAX_NAME_BYTES  4096
#define MAX_DEBUG_TIMES 10u /* a debug file whose checksum is taken may have so much more */
#define MIN_DEBUG_BYTES (16u << 20)

#define RANK_SHIFT 30
#define INDEX_MASK ((1u << RANK_SHIFT) - 1)

struct entry {
	uint32_t vaddr; /* from base */
	uint32_t idx;   /* in the symbol table; above it the symbol's rank */
};

struct gs_symbols {
	struct gs_elf *elf;   /* borrowed, or: */
	struct gs_elf *debug; /* owned */
	enum gs_elf_table_kind kind;
	uint64_t base;
	struct entry *entries; /* owned */
	size_t n, capacity;
	bool based;
};

/* ---- the debug file -------------------------------------------------------------------- */

static bool checksum_is(struct gs_foreign *file, uint32_t crc)
{
	GS_FREE uint8_t *block = malloc(1 << 16);
	uLong sum = crc32(0, NULL, 0);
	uint64_t total = 0;
	ssize_t n = 0;

	if (!block)
		return false;
	while ((n = gs_foreign_read(file, total, block, 1 << 16)) > 0) {
		sum = crc32(sum, block, (uInt)n);
		total += (uint64_t)n;
	}
	return n == 0 && (uint32_t)sum == crc;
}

/* A checksum is taken of the whole file. A user who may write beside a program could make it any
 * length: so only of what root has put there, and of a size that such a file may have. */
static bool may_sum(struct gs_elf *elf, struct gs_elf *debug, bool is_trusted)
{
	const struct gs_foreign *file = gs_elf_file(debug);
	uint64_t most = gs_elf_file(elf)->bytes;

	most = most > UINT64_MAX / MAX_DEBUG_TIMES ? most : MAX_DEBUG_TIMES * most;
	if (most < MIN_DEBUG_BYTES)
		most = MIN_DEBUG_BYTES;
	if ((file->uid == 0 || is_trusted) && file->bytes <= most)
		return true;
	gs_guard_refuse(GS_REFUSED_DEBUG, 1, gs_elf_path(debug));
	return false;
}

bool gs_unwind_debug_fits(struct gs_elf *elf, struct gs_elf *debug, bool by_build_id,
			  bool is_trusted)
{
	const char *own = gs_elf_build_id(debug);
	char name[256];
	uint32_t crc;

	/* A debug file whose notes were dropped has no id: its place in the tree is its name. */
	if (by_build_id)
		return (!*own || strcmp(own, gs_elf_build_id(elf)) == 0) &&
		       gs_elf_has_symtab(debug);
	return gs_elf_debug_link(elf, name, &crc) && may_sum(elf, debug, is_trusted) &&
	       checksum_is(gs_elf_file(debug), crc) && gs_elf_has_symtab(debug);
}

static bool is_build_id(const char *id)
{
	size_t n = id ? strspn(id, "0123456789abcdef") : 0;

	return n >= 4 && n <= 128 && !id[n];
}

static bool is_file_name(const char *name)
{
	return name && *name && !strchr(name, '/') && strcmp(name, ".") != 0 &&
	       strcmp(name, "..") != 0;
}

void gs_unwind_debug_paths(const char *build_id, const char *link, const char *path,
			   const char *const *roots, size_t n_roots, gs_unwind_debug_path_fn fn,
			   void *ctx)
{
	static const char *const forms[] = {"%s%.*s/%s", "%s%.*s/.debug/%s",
					    "%s/usr/lib/debug%.*s/%s"};
	const char *slash = strrchr(path, '/');
	char full[2 * PATH_MAX];

	for (size_t i = 0; is_build_id(build_id) && i < n_roots; i++) {
		snprintf(full, sizeof(full), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", roots[i],
			 build_id, build_id + 2);
		if (fn(ctx, full, true))
			return;
	}
	if (!slash || path[0] != '/' || !is_file_name(link))
		return;
	for (size_t i = 0; i < n_roots; i++)
		for (size_t k = 0; k < GS_ARRAY_LEN(forms); k++)
			if ((size_t)snprintf(full, sizeof(full), forms[k], roots[i],
					     (int)(slash - path), path, link) < PATH_MAX &&
			    fn(ctx, full, false))
				return;
}

/* ---- the index ------------------------------------------------------------------------- */

static int add_symbol(void *ctx, uint64_t idx, const struct gs_elf_code_symbol *sym)
{
	struct gs_symbols *s = ctx;
	int64_t at;

	if (!s->based) {
		/* Symbols of a file lie within 4 GiB (the code models of x86-64 say 2). */
		s->base = sym->vaddr > 1u << 31 ? sym->vaddr - (1u << 31) : 0;
		s->based = true;
	}
	at = (int64_t)(sym->vaddr - s->base);
	if (at < 0 || at > UINT32_MAX || idx > INDEX_MASK || s->n == MAX_SYMBOLS)
		return 0;
	if (!gs_vec_reserve(&s->entries, &s->capacity, s->n + 1))
		return -ENOMEM;
	s->entries[s->n++] =
		(struct entry){(uint32_t)at, (uint32_t)idx | (uint32_t)sym->rank << RANK_SHIFT};
	return 0;
}

static int by_vaddr(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->vaddr != y->vaddr)
		return x->vaddr < y->vaddr ? -1 : 1;
	/* The better one last; of equal ones the first of the table. */
	if (x->idx >> RANK_SHIFT != y->idx >> RANK_SHIFT)
		return x->idx >> RANK_SHIFT < y->idx >> RANK_SHIFT ? -1 : 1;
	return x->idx > y->idx ? -1 : x->idx < y->idx;
}

/* Of several names of one address only the best stays. */
static void sort_symbols(struct gs_symbols *s)
{
	struct entry *shrunk;
	size_t n = 0;

	if (s->n == 0)
		return;
	qsort(s->entries, s->n, sizeof(*s->entries), by_vaddr);
	for (size_t i = 0; i < s->n; i++) {
		if (i + 1 < s->n && s->entries[i + 1].vaddr == s->entries[i].vaddr)
			continue;
		s->entries[n++] = s->entries[i];
	}
	s->n = n;
	shrunk = realloc(s->entries, n * sizeof(*shrunk));
	if (shrunk) {
		s->entries = shrunk;
		s->capacity = n;
	}
}

int gs_symbols_new(struct gs_elf *elf, struct gs_elf **debug, struct gs_symbols **ret_symbols)
{
	GS_CLEANUP(gs_symbols_free) struct gs_symbols *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return -ENOMEM;
	s->elf = elf;
	if (!gs_elf_has_symtab(elf) && debug)
		s->debug = gs_take(*debug);
	s->kind = s->debug || gs_elf_has_symtab(elf) ? GS_ELF_SYMTAB : GS_ELF_DYNSYM;
	r = gs_elf_each_code_symbol(s->debug ? s->debug : elf, s->kind, add_symbol, s);
	if (r == -ENOMEM)
		return r;
	/* Tables that cannot be read to their end name what they could be read for. */
	sort_symbols(s);
	*ret_symbols = gs_take(s);
	return 0;
}

void gs_symbols_free(struct gs_symbols **symbols)
{
	if (!*symbols)
		return;
	gs_elf_close(&(*symbols)->debug);
	free((*symbols)->entries);
	free(*symbols);
	*symbols = NULL;
}

size_t gs_symbols_bytes(const struct gs_symbols *s)
{
	return sizeof(*s) + s->capacity * sizeof(*s->entries);
}

/* The symbol that covers the address: the nearest one with a size that reaches so far, or, where
 * none has, the nearest when it has no size (assembler). */
static bool find_symbol(const struct gs_symbols *s, uint64_t vaddr, struct gs_elf_code_symbol *ret)
{
	const struct gs_elf *elf = s->debug ? s->debug : s->elf;
	size_t low = 0, high = s->n;
	struct gs_elf_code_symbol sym;
	bool sizeless = false;

	if (vaddr < s->base || vaddr - s->base > UINT32_MAX)
		return false;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->entries[mid].vaddr <= vaddr - s->base)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = 0; i < LOOK_BACK && i < low; i++) {
		if (!gs_elf_code_symbol_at(elf, s->kind, s->entries[low - 1 - i].idx & INDEX_MASK,
					   &sym))
			continue;
		if (sym.size_bytes && vaddr - sym.vaddr < sym.size_bytes) {
			*ret = sym;
			return true;
		}
		if (i == 0 && !sym.size_bytes) {
			*ret = sym;
			sizeless = true;
		}
	}
	return sizeless;
}

bool gs_symbols_name(struct gs_symbols *s, uint64_t vaddr, char *ret_name, size_t bytes)
{
	const struct gs_elf *elf = s->debug ? s->debug : s->elf;
	char text[MAX_NAME_BYTES];
	struct gs_elf_code_symbol sym;
	char *version;

	if (bytes == 0 || !find_symbol(s, vaddr, &sym) ||
	    !gs_elf_symbol_name(elf, s->kind, sym.name_off, text, sizeof(text)))
		return false;
	version = strchr(text, '@');
	if (version && version > text)
		*version = 0;
	if (!gs_demangle_symbol(text, ret_name, bytes))
		snprintf(ret_name, bytes, "%s", text);
	return true;
}
