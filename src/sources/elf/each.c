/*
 * Passes over all functions, and over all texts, of a file, for callers that do not know names
 * beforehand. Nothing is loaded whole: symbols are streamed first and those that are functions kept
 * as three numbers; sorted by where their names lie, they are named by one pass over the strings.
 */
#include "sources/elf/elf_int.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/mem.h"
#include "core/base/vec.h"

#define BLOCK_BYTES   (256u << 10)
#define MAX_TEXT      4096u /* with its NUL */
#define MAX_TEXTS     (1u << 18)
#define MAX_PARTS     262144u
#define MAX_FUNCTIONS (2u << 20) /* 32 MiB */

struct function {
	uint32_t name; /* offset in the string table */
	uint32_t bytes;
	uint64_t file_off;
};

struct functions {
	struct function *items; /* owned */
	size_t n, n_room;
};

static void functions_fini(struct functions *f)
{
	free(f->items);
}

static int add_function(struct functions *f, const struct function *one)
{
	if (f->n == MAX_FUNCTIONS)
		return -EFBIG;
	if (!gs_vec_reserve(&f->items, &f->n_room, f->n + 1))
		return -ENOMEM;
	f->items[f->n++] = *one;
	return 0;
}

static int collect_functions(const struct gs_elf *elf, const struct gs_elf_table *table,
			     struct functions *f)
{
	const size_t max = BLOCK_BYTES / sizeof(Elf64_Sym);
	GS_FREE Elf64_Sym *block = calloc(max, sizeof(*block));
	int r = block ? 0 : -ENOMEM;

	for (uint64_t done = 0; r == 0 && done < table->n_symbols;) {
		size_t n = max;

		r = gs_elf_read_symbols(elf, table, &done, block, &n);
		for (size_t i = 0; r == 0 && i < n; i++) {
			const Elf64_Sym *s = &block[i];
			struct function one = {.name = s->st_name};
			uint64_t left_in_segment;

			if (ELF64_ST_TYPE(s->st_info) != STT_FUNC || s->st_shndx == SHN_UNDEF ||
			    !gs_elf_vaddr_to_off(elf, s->st_value, true, &one.file_off,
						 &left_in_segment))
				continue;
			one.bytes = s->st_size > UINT32_MAX ? UINT32_MAX : (uint32_t)s->st_size;
			r = add_function(f, &one);
		}
		done += n;
	}
	return r;
}

static int by_name(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return x->name < y->name ? -1 : x->name > y->name;
}

/* A part of the file that moves forward; MAX_TEXT bytes from any place asked for are in it, as far
 * as the region goes. */
struct window {
	const struct gs_elf *elf;
	uint64_t region_off, region_bytes;
	uint64_t from; /* of data[0], in the region */
	size_t bytes;
	char *data; /* owned; BLOCK_BYTES + MAX_TEXT */
};

static void window_fini(struct window *w)
{
	free(w->data);
}

/* What lies at pos of the region; *ret_bytes of it can be read. */
static int window_at(struct window *w, uint64_t pos, const char **ret_data, size_t *ret_bytes)
{
	if (!w->data || pos < w->from || pos - w->from + MAX_TEXT > w->bytes) {
		uint64_t left = w->region_bytes - pos;
		size_t n = left < BLOCK_BYTES + MAX_TEXT ? left : BLOCK_BYTES + MAX_TEXT;

		if (!w->data)
			w->data = malloc(BLOCK_BYTES + MAX_TEXT);
		if (!w->data)
			return -ENOMEM;
		if (w->bytes == 0 || pos < w->from || w->from + w->bytes < w->region_bytes) {
			int r = gs_elf_pread(w->elf, w->region_off + pos, w->data, n);

			if (r < 0)
				return r;
			w->from = pos;
			w->bytes = n;
		}
	}
	*ret_data = w->data + (pos - w->from);
	*ret_bytes = w->bytes - (size_t)(pos - w->from);
	return 0;
}

static int name_all(const struct gs_elf *elf, const struct gs_elf_table *table,
		    const struct functions *f, const char *prefix, gs_elf_symbol_fn fn, void *ctx)
{
	GS_CLEANUP(window_fini)
	struct window w = {
		.elf = elf, .region_off = table->str_off, .region_bytes = table->str_bytes};
	size_t prefix_bytes = strlen(prefix), n;
	const char *name;

	for (size_t i = 0; i < f->n; i++) {
		const struct function *one = &f->items[i];
		struct gs_elf_symbol symbol = {.file_off = one->file_off,
					       .size_bytes = one->bytes,
					       .found = true,
					       .dynamic = true};
		int r;

		if (one->name >= table->str_bytes)
			continue;
		r = window_at(&w, one->name, &name, &n);
		if (r < 0)
			return r;
		if (n < prefix_bytes || memcmp(name, prefix, prefix_bytes) != 0 ||
		    !memchr(name, 0, n < MAX_TEXT ? n : MAX_TEXT))
			continue;
		r = fn(ctx, name, &symbol);
		if (r != 0)
			return r;
	}
	return 0;
}

static int fail_elf(const struct gs_elf *elf, int r, struct gs_err *err)
{
	if (r == -EFBIG)
		return gs_err_set(err, r, "%s: its tables are too big", elf->path);
	if (r == -ENOEXEC)
		return gs_err_set(err, r, "%s: its tables are malformed or truncated", elf->path);
	return gs_err_set(err, r, "cannot read %s: %s", elf->path, gs_foreign_reason(r));
}

/* An error of the file, not an answer of the caller's function. */
static bool is_of_reading(int r)
{
	return r == -ENOEXEC || r == -EIO || r == -EFBIG || r == -EDQUOT || r == -ECANCELED;
}

int gs_elf_each_symbol(struct gs_elf *elf, const char *prefix, gs_elf_symbol_fn fn, void *ctx,
		       struct gs_err *err)
{
	GS_CLEANUP(functions_fini) struct functions f = {0};
	const struct gs_elf_table *table = &elf->dynsym;
	int r = table->n_symbols ? 0 : gs_elf_read_sections(elf);

	if (r == 0)
		r = collect_functions(elf, table, &f);
	if (r < 0)
		return fail_elf(elf, r, err);
	if (f.n)
		qsort(f.items, f.n, sizeof(*f.items), by_name);
	r = name_all(elf, table, &f, prefix, fn, ctx);
	return is_of_reading(r) ? fail_elf(elf, r, err) : r;
}

/* The texts of one section. Each place where the needle stands belongs to one text: its beginning
 * is looked for backwards, its end forwards. */
static int texts_of(const struct gs_elf *elf, uint64_t off, uint64_t bytes, const char *needle,
		    gs_elf_text_fn fn, void *ctx, uint64_t *n_left)
{
	const size_t max = BLOCK_BYTES + 2 * MAX_TEXT;
	GS_FREE char *data = malloc(max);
	size_t kept = 0, needle_bytes = strlen(needle);
	uint64_t done = 0;

	if (!data)
		return -ENOMEM;
	while (done < bytes) {
		uint64_t data_at = gs_elf_skip_hole(elf, off + done, off + bytes) - off;
		size_t n = bytes - done < max - kept ? bytes - done : max - kept, used = 0;
		char *end, *p = data;
		bool last;
		int r;

		/* The zeros of a hole end the text before it. */
		if (data_at > done)
			n = 1;
		end = data + kept + n;
		r = gs_elf_pread(elf, off + done, data + kept, n);
		if (r < 0)
			return r;
		if (data_at > done)
			done = data_at - n;
		last = done + n == bytes;
		while (p < end &&
		       (p = memmem(p, (size_t)(end - p), needle, needle_bytes)) != NULL) {
			char *from = memrchr(data, 0, (size_t)(p - data));
			char *to = memchr(p, 0, (size_t)(end - p));

			from = from ? from + 1 : data;
			if (!to) /* whole in the next round, or too long */
				break;
			if ((size_t)(to - from) < MAX_TEXT) {
				if (!(*n_left)--)
					return -EFBIG;
				r = fn(ctx, from);
				if (r != 0)
					return r;
			}
			p = to + 1;
			used = (size_t)(p - data);
		}
		done += n;
		if (last)
			break;
		kept = (size_t)(end - data) - used;
		if (kept > MAX_TEXT)
			kept = MAX_TEXT;
		memmove(data, end - kept, kept);
	}
	return 0;
}

/* Constant data: loaded, neither written nor run, and of no kind of its own (symbols, strings and
 * relocations have theirs). */
static bool is_constant(const Elf64_Shdr *sh)
{
	return sh->sh_type == SHT_PROGBITS && (sh->sh_flags & SHF_ALLOC) &&
	       !(sh->sh_flags & (SHF_WRITE | SHF_EXECINSTR));
}

struct part {
	uint64_t off, bytes;
};

static int by_off(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->off < y->off ? -1 : x->off > y->off;
}

/* The sections of constant data. Linkers write none over another one: where two share bytes, a
 * small file would be read as a huge one. */
static int find_parts(const struct gs_elf *elf, struct gs_buf *parts)
{
	const struct part *p;
	int r = 0;

	for (uint64_t i = 0; r == 0 && i < elf->n_sections; i++) {
		Elf64_Shdr sh;

		r = gs_elf_pread(elf, elf->section_off + i * sizeof(sh), &sh, sizeof(sh));
		if (r == 0 && is_constant(&sh) && sh.sh_size &&
		    gs_elf_inside(elf, sh.sh_offset, sh.sh_size))
			r = gs_buf_put(parts, &(struct part){sh.sh_offset, sh.sh_size}, sizeof(*p));
	}
	if (parts->bytes)
		qsort(parts->data, parts->bytes / sizeof(*p), sizeof(*p), by_off);
	p = (const void *)parts->data;
	for (size_t i = 1; r == 0 && i < parts->bytes / sizeof(*p); i++)
		if (p[i].off - p[i - 1].off < p[i - 1].bytes)
			r = -ENOEXEC;
	return r;
}

int gs_elf_each_text(struct gs_elf *elf, const char *needle, gs_elf_text_fn fn, void *ctx,
		     struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf parts = GS_BUF_INIT(MAX_PARTS * sizeof(struct part));
	const struct part *p;
	uint64_t n_left = MAX_TEXTS;
	int r = find_parts(elf, &parts);

	if (r < 0)
		return fail_elf(elf, r, err);
	p = (const void *)parts.data;
	for (size_t i = 0; r == 0 && i < parts.bytes / sizeof(*p); i++) {
		r = texts_of(elf, p[i].off, p[i].bytes, needle, fn, ctx, &n_left);
		if (is_of_reading(r))
			return fail_elf(elf, r, err);
	}
	return r;
}
