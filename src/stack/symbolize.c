#include "stack/symbolize.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "base/mem.h"
#include "elf/code.h"
#include "stack/demangle.h"

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
	char debug_path[PATH_MAX];
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

/* A checksum is taken of the whole file. Whoever may write beside a program could make it any
 * length: so only of what root has put there, and of a size that such a file may have. */
static bool may_sum(const struct gs_symbols *s, struct gs_elf *debug, const char *path)
{
	const struct gs_foreign *file = gs_elf_file(debug);
	uint64_t most = gs_elf_file(s->elf)->bytes;

	most = most > UINT64_MAX / MAX_DEBUG_TIMES ? most : MAX_DEBUG_TIMES * most;
	if (most < MIN_DEBUG_BYTES)
		most = MIN_DEBUG_BYTES;
	if ((file->uid == 0 || strncmp(path, "/usr/lib/debug/", 15) == 0) && file->bytes <= most)
		return true;
	gs_guard_refuse(GS_REFUSED_DEBUG, 1, path);
	return false;
}

/* Open path when it is the debug file: that of the build id, or of the checksum. */
static bool try_debug(struct gs_symbols *s, const char *path, const char *build_id, uint32_t crc)
{
	struct gs_elf *elf = NULL;
	const char *own;
	bool good;

	if (gs_elf_open_debug(path, NULL, &elf, NULL) < 0)
		return false;
	own = gs_elf_build_id(elf);
	/* A debug file whose notes were dropped has no id: its place in the tree is its name. */
	good = build_id ? !*own || strcmp(own, build_id) == 0
			: may_sum(s, elf, path) && checksum_is(gs_elf_file(elf), crc);
	if (!good || !gs_elf_has_symtab(elf)) {
		gs_elf_close(&elf);
		return false;
	}
	s->debug = elf;
	snprintf(s->debug_path, sizeof(s->debug_path), "%s", path);
	return true;
}

static bool find_by_build_id(struct gs_symbols *s, const char *root)
{
	const char *id = gs_elf_build_id(s->elf);
	char path[PATH_MAX];

	if (strlen(id) < 4)
		return false;
	snprintf(path, sizeof(path), "%s/usr/lib/debug/.build-id/%.2s/%s.debug", root, id, id + 2);
	return try_debug(s, path, id, 0);
}

static bool find_by_link(struct gs_symbols *s, const char *root, const char *path)
{
	static const char *const forms[] = {"%s%.*s/%s", "%s%.*s/.debug/%s",
					    "%s/usr/lib/debug%.*s/%s"};
	const char *slash = strrchr(path, '/');
	char name[256], full[2 * PATH_MAX];
	uint32_t crc;

	if (!slash || path[0] != '/' || !gs_elf_debug_link(s->elf, name, &crc))
		return false;
	for (size_t i = 0; i < GS_ARRAY_LEN(forms); i++) {
		if ((size_t)snprintf(full, sizeof(full), forms[i], root, (int)(slash - path), path,
				     name) >= PATH_MAX)
			continue;
		if (try_debug(s, full, NULL, crc))
			return true;
	}
	return false;
}

/* ---- the index ------------------------------------------------------------------------- */

static int add(void *ctx, uint64_t idx, const struct gs_elf_code_symbol *sym)
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
	if (s->n == s->capacity) {
		size_t capacity = s->capacity ? 2 * s->capacity : 512;
		struct entry *grown = realloc(s->entries, capacity * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->entries = grown;
		s->capacity = capacity;
	}
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
static void sort(struct gs_symbols *s)
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

int gs_symbols_new(struct gs_elf *elf, const char *path, const char *const *roots, size_t n_roots,
		   struct gs_symbols **ret_symbols)
{
	GS_CLEANUP(gs_symbols_free) struct gs_symbols *s = calloc(1, sizeof(*s));
	bool found;
	int r;

	if (!s)
		return -ENOMEM;
	s->elf = elf;
	found = gs_elf_has_symtab(elf);
	for (size_t i = 0; !found && i < n_roots; i++)
		found = find_by_build_id(s, roots[i]);
	for (size_t i = 0; !found && i < n_roots; i++)
		found = find_by_link(s, roots[i], path);
	s->kind = found ? GS_ELF_SYMTAB : GS_ELF_DYNSYM;
	r = gs_elf_each_code_symbol(s->debug ? s->debug : elf, s->kind, add, s);
	if (r == -ENOMEM)
		return r;
	/* Tables that cannot be read to their end name what they could be read for. */
	sort(s);
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

const char *gs_symbols_source(const struct gs_symbols *s)
{
	return s->debug_path;
}

/* The symbol that covers the address: the nearest one with a size that reaches so far, or, where
 * none has, the nearest when it has no size (assembler). */
static bool find(const struct gs_symbols *s, uint64_t vaddr, struct gs_elf_code_symbol *ret)
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

	if (bytes == 0 || !find(s, vaddr, &sym) ||
	    !gs_elf_symbol_name(elf, s->kind, sym.name_off, text, sizeof(text)))
		return false;
	version = strchr(text, '@');
	if (version && version > text)
		*version = 0;
	if (!gs_demangle(text, ret_name, bytes))
		snprintf(ret_name, bytes, "%s", text);
	return true;
}
