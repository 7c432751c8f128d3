/*
 * Variables and sections by name: one pass over a symbol table with its strings in memory. Only
 * for programs whose tables are small (an interpreter, not a library of 450 MB): more than
 * MAX_BYTES is refused.
 */
#include "sources/elf/object.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/elf/elf_int.h"

#define MAX_BYTES    (16u << 20) /* of one table or its strings */
#define MAX_SECTIONS 1024u

static int read_block(const struct gs_elf *elf, uint64_t off, uint64_t bytes, char **ret)
{
	GS_FREE char *p = NULL;
	int r;

	if (bytes > MAX_BYTES)
		return -EFBIG;
	p = malloc(bytes + 1);
	if (!p)
		return -ENOMEM;
	r = gs_elf_pread(elf, off, p, bytes);
	if (r < 0)
		return r;
	p[bytes] = 0; /* the last text ends in any case */
	*ret = p;
	p = NULL;
	return 0;
}

static int search_table(const struct gs_elf *elf, const struct gs_elf_table *table,
			const char *const *names, size_t n, uint64_t *ret_vaddr)
{
	GS_FREE char *symbols = NULL, *strings = NULL;
	int r;

	if (!table->n_symbols)
		return 0;
	if (table->n_symbols > MAX_BYTES / sizeof(Elf64_Sym))
		return -EFBIG;
	r = read_block(elf, table->sym_off, table->n_symbols * sizeof(Elf64_Sym), &symbols);
	if (r == 0)
		r = read_block(elf, table->str_off, table->str_bytes, &strings);
	if (r < 0)
		return r;
	for (uint64_t i = 0; i < table->n_symbols; i++) {
		Elf64_Sym sym;

		memcpy(&sym, symbols + i * sizeof(sym), sizeof(sym));
		if (ELF64_ST_TYPE(sym.st_info) != STT_OBJECT || sym.st_shndx == SHN_UNDEF ||
		    sym.st_name >= table->str_bytes)
			continue;
		for (size_t k = 0; k < n; k++)
			if (!ret_vaddr[k] && strcmp(strings + sym.st_name, names[k]) == 0)
				ret_vaddr[k] = sym.st_value;
	}
	return 0;
}

int gs_elf_objects(struct gs_elf *elf, const char *const *names, size_t n, uint64_t *ret_vaddr)
{
	int r = gs_elf_read_sections(elf);

	memset(ret_vaddr, 0, n * sizeof(*ret_vaddr));
	if (r < 0)
		return r;
	r = search_table(elf, &elf->dynsym, names, n, ret_vaddr);
	for (size_t k = 0; r == 0 && k < n; k++)
		if (!ret_vaddr[k])
			return search_table(elf, &elf->symtab, names, n, ret_vaddr);
	return r;
}

int gs_elf_object_read(struct gs_elf *elf, uint64_t vaddr, void *buf, size_t bytes)
{
	uint64_t off, there;

	if (!gs_elf_vaddr_to_off(elf, vaddr, false, &off, &there) || there < bytes)
		return -ENOENT;
	return gs_elf_pread(elf, off, buf, bytes);
}
