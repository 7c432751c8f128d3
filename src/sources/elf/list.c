/*
 * All functions of a file, for globs. The symbols are read in blocks. Their names lie all over the
 * string table (linkers sort it by the ends of names), which may have 100 MB: so each is read where
 * it lies, through a window that serves those which do follow each other.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/elf/elf_int.h"

#define BLOCK_SYMBOLS 8192u
#define WINDOW_BYTES  512u
#define NAME_BYTES    4096u

struct window { /* a piece of the string table */
	char *data;
	uint64_t off, bytes;
};

static int fill_window(const struct gs_elf *elf, const struct gs_elf_table *t, struct window *w,
		       uint64_t off, uint64_t bytes)
{
	uint64_t left = t->str_bytes - off;
	int r;

	w->off = off;
	w->bytes = left < bytes ? left : bytes;
	r = gs_elf_pread(elf, t->str_off + off, w->data, w->bytes);
	if (r < 0)
		w->bytes = 0;
	return r;
}

/* The name at off of the string table; NULL when it has no end within NAME_BYTES. */
static int name_at(const struct gs_elf *elf, const struct gs_elf_table *t, struct window *w,
		   uint64_t off, const char **ret_name)
{
	int r;

	*ret_name = NULL;
	if (off >= t->str_bytes)
		return 0;
	if (off >= w->off && off < w->off + w->bytes &&
	    memchr(w->data + (off - w->off), 0, w->bytes - (off - w->off))) {
		*ret_name = w->data + (off - w->off);
		return 0;
	}
	r = fill_window(elf, t, w, off, WINDOW_BYTES);
	if (r == 0 && !memchr(w->data, 0, w->bytes))
		r = fill_window(elf, t, w, off, NAME_BYTES);
	if (r == 0 && memchr(w->data, 0, w->bytes))
		*ret_name = w->data;
	return r;
}

/* "name@@VERSION" in a .symtab is name. */
static void cut_version(const char *name, char *out)
{
	const char *at = strchr(name, '@');
	size_t n = at && at > name ? (size_t)(at - name) : strlen(name);

	if (n >= NAME_BYTES)
		n = NAME_BYTES - 1;
	memcpy(out, name, n);
	out[n] = '\0';
}

static int walk_table(const struct gs_elf *elf, const struct gs_elf_table *t, bool dynamic,
		      gs_elf_function_fn fn, void *ctx)
{
	GS_FREE Elf64_Sym *block = malloc(BLOCK_SYMBOLS * sizeof(*block));
	GS_FREE char *data = malloc(NAME_BYTES);
	GS_FREE char *plain = malloc(NAME_BYTES);
	struct window w = {.data = data};
	int r = 0;

	if (!block || !data || !plain)
		return -ENOMEM;
	for (uint64_t done = 0; r == 0 && done < t->n_symbols;) {
		size_t n = BLOCK_SYMBOLS;

		r = gs_elf_read_symbols(elf, t, &done, block, &n);
		for (size_t k = 0; r == 0 && k < n; k++) {
			struct gs_elf_function f = {.dynamic = dynamic};
			const Elf64_Sym *s = &block[k];
			const char *name;
			uint64_t room;

			if (ELF64_ST_TYPE(s->st_info) != STT_FUNC &&
			    ELF64_ST_TYPE(s->st_info) != STT_GNU_IFUNC)
				continue;
			if (s->st_shndx == SHN_UNDEF ||
			    !gs_elf_vaddr_to_off(elf, s->st_value, true, &f.file_off, &room))
				continue;
			r = name_at(elf, t, &w, s->st_name, &name);
			if (r < 0 || !name || !*name)
				continue;
			cut_version(name, plain);
			f.name = plain;
			f.size_bytes = s->st_size;
			f.local = ELF64_ST_BIND(s->st_info) == STB_LOCAL;
			f.indirect = ELF64_ST_TYPE(s->st_info) == STT_GNU_IFUNC;
			r = fn(ctx, &f);
		}
		done += n;
	}
	return r;
}

int gs_elf_functions(struct gs_elf *elf, gs_elf_function_fn fn, void *ctx, struct gs_err *err)
{
	int r = gs_elf_read_sections(elf);

	if (r == 0 && elf->dynsym.n_symbols)
		r = walk_table(elf, &elf->dynsym, true, fn, ctx);
	if (r == 0 && elf->symtab.n_symbols)
		r = walk_table(elf, &elf->symtab, false, fn, ctx);
	if (r < 0 && r != -ENOMEM)
		return gs_err_set(err, r, "cannot read the symbols of %s: %s", elf->path,
				  r == -ENOEXEC ? "they are malformed or truncated"
						: gs_foreign_reason(r));
	return r;
}
