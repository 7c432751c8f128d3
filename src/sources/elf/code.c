/* Unwind tables, sections by name and symbols by address: plain reads of what is asked for. */
#include "sources/elf/code.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/elf/elf_int.h"

#define BLOCK_SYMBOLS 8192u
#define MAX_SEGMENTS  512u
#define MAX_SECTIONS  65536u

#define PAGE 4096u

int gs_elf_code_segments(const struct gs_elf *elf, struct gs_elf_segments *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < elf->n_loads; i++) {
		const struct gs_elf_load *l = &elf->loads[i];

		if (!l->executable)
			continue;
		if (ret->n == GS_ELF_SEGMENTS_MAX)
			return -ENOEXEC;
		ret->parts[ret->n++] = (struct gs_elf_part){l->vaddr, l->off, l->bytes};
	}
	return 0;
}

bool gs_elf_vaddr_of(const struct gs_elf_segments *segments, uint64_t file_off, uint64_t *ret_vaddr)
{
	for (unsigned i = 0; i < segments->n; i++) {
		const struct gs_elf_part *p = &segments->parts[i];

		if (file_off < p->off || file_off - p->off >= p->bytes)
			continue;
		*ret_vaddr = p->vaddr + (file_off - p->off);
		return true;
	}
	return false;
}

int gs_elf_bias(const struct gs_elf_segments *segments, uint64_t map_start, uint64_t map_off,
		uint64_t *ret_bias)
{
	for (unsigned i = 0; i < segments->n; i++) {
		const struct gs_elf_part *p = &segments->parts[i];

		if (p->off / PAGE * PAGE == map_off) {
			*ret_bias = map_start - p->vaddr / PAGE * PAGE;
			return 0;
		}
	}
	return -ENOENT;
}

long gs_elf_read_vaddr(const struct gs_elf *elf, uint64_t vaddr, void *buf, size_t bytes)
{
	uint64_t off, left;
	int r;

	if (!gs_elf_vaddr_to_off(elf, vaddr, false, &off, &left))
		return -ENOEXEC;
	if (bytes > left)
		bytes = left;
	r = gs_elf_pread(elf, off, buf, bytes);
	return r < 0 ? r : (long)bytes;
}

int gs_elf_unwind_index(const struct gs_elf *elf, struct gs_elf_part *ret_part)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	int r = gs_elf_pread(elf, 0, &eh, sizeof(eh));

	for (unsigned i = 0; r == 0 && i < eh.e_phnum && i < MAX_SEGMENTS; i++) {
		r = gs_elf_pread(elf, eh.e_phoff + i * sizeof(ph), &ph, sizeof(ph));
		if (r < 0 || ph.p_type != PT_GNU_EH_FRAME)
			continue;
		if (!gs_elf_inside(elf, ph.p_offset, ph.p_filesz))
			return -ENOEXEC;
		*ret_part = (struct gs_elf_part){ph.p_vaddr, ph.p_offset, ph.p_filesz};
		return 0;
	}
	return r < 0 ? r : -ENOENT;
}

static bool is_named(const struct gs_elf *elf, const Elf64_Shdr *names, const Elf64_Shdr *sh,
		     const char *name)
{
	char text[64];
	size_t bytes = strlen(name) + 1;

	return sh->sh_name < names->sh_size && bytes <= names->sh_size - sh->sh_name &&
	       bytes <= sizeof(text) &&
	       gs_elf_pread(elf, names->sh_offset + sh->sh_name, text, bytes) == 0 &&
	       memcmp(text, name, bytes) == 0;
}

static int section_header(const struct gs_elf *elf, uint64_t i, Elf64_Shdr *ret)
{
	if (i >= elf->n_sections)
		return -ENOEXEC;
	return gs_elf_pread(elf, elf->section_off + i * sizeof(*ret), ret, sizeof(*ret));
}

int gs_elf_section_bytes(const struct gs_elf *elf, const char *name, struct gs_elf_part *ret_part)
{
	Elf64_Shdr names, sh;
	Elf64_Ehdr eh;
	uint64_t idx;
	int r = gs_elf_pread(elf, 0, &eh, sizeof(eh));

	if (r < 0 || elf->n_sections == 0)
		return r < 0 ? r : -ENOENT;
	idx = eh.e_shstrndx;
	if (idx == SHN_XINDEX) {
		r = section_header(elf, 0, &sh);
		idx = sh.sh_link;
	}
	if (r == 0)
		r = section_header(elf, idx, &names);
	if (r < 0 || !gs_elf_inside(elf, names.sh_offset, names.sh_size))
		return -ENOEXEC;
	for (uint64_t i = 1; i < elf->n_sections && i < MAX_SECTIONS; i++) {
		r = section_header(elf, i, &sh);
		if (r < 0)
			return r;
		if (sh.sh_type == SHT_NOBITS || !is_named(elf, &names, &sh, name))
			continue;
		if (!gs_elf_inside(elf, sh.sh_offset, sh.sh_size))
			return -ENOEXEC;
		*ret_part = (struct gs_elf_part){sh.sh_addr, sh.sh_offset, sh.sh_size};
		return 0;
	}
	return -ENOENT;
}

bool gs_elf_debug_link(const struct gs_elf *elf, char ret_name[256], uint32_t *ret_crc)
{
	struct gs_elf_part part;
	char text[256 + 8] = {0};
	size_t name_bytes;

	/* The name, zeros up to a multiple of four, the CRC (GDB's manual, "Separate Debug
	 * Files"). */
	if (gs_elf_section_bytes(elf, ".gnu_debuglink", &part) < 0 || part.bytes < 8 ||
	    part.bytes > sizeof(text) || gs_elf_pread(elf, part.off, text, part.bytes) < 0)
		return false;
	name_bytes = strnlen(text, part.bytes - 4);
	if (name_bytes == 0 || name_bytes >= 256 || text[name_bytes] || strchr(text, '/') ||
	    strcmp(text, "..") == 0)
		return false;
	memcpy(ret_name, text, name_bytes + 1);
	memcpy(ret_crc, text + part.bytes - 4, 4);
	return true;
}

/* ---- symbols by address ---------------------------------------------------------------- */

static const struct gs_elf_table *table_of(const struct gs_elf *elf, enum gs_elf_table_kind kind)
{
	return kind == GS_ELF_SYMTAB ? &elf->symtab : &elf->dynsym;
}

static uint8_t rank_of(const Elf64_Sym *sym)
{
	switch (ELF64_ST_BIND(sym->st_info)) {
	case STB_LOCAL:
		return 1;
	case STB_WEAK:
		return 2;
	default:
		return 3;
	}
}

/* In a file of debug information alone the segments have no bytes: the section's number has to do.
 */
static bool names_code(const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_value == 0)
		return false;
	return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

static void fill_symbol(const Elf64_Sym *sym, struct gs_elf_code_symbol *ret)
{
	*ret = (struct gs_elf_code_symbol){.vaddr = sym->st_value,
					   .size_bytes = sym->st_size,
					   .name_off = sym->st_name,
					   .rank = rank_of(sym)};
	/* A label is shown only where no function is: many are places inside of functions. */
	if (ELF64_ST_TYPE(sym->st_info) == STT_NOTYPE)
		ret->rank = 0;
}

int gs_elf_each_code_symbol(struct gs_elf *elf, enum gs_elf_table_kind kind,
			    int (*fn)(void *ctx, uint64_t idx, const struct gs_elf_code_symbol *s),
			    void *ctx)
{
	GS_FREE Elf64_Sym *block = calloc(BLOCK_SYMBOLS, sizeof(*block));
	const struct gs_elf_table *table = table_of(elf, kind);
	struct gs_elf_code_symbol s;
	int r = gs_elf_read_sections(elf);

	if (!block)
		return -ENOMEM;
	/* A file without sections may still have a whole .dynsym. */
	if (r < 0 && (kind == GS_ELF_SYMTAB || table->n_symbols == 0))
		return r;
	for (uint64_t done = 0; done < table->n_symbols;) {
		size_t n = BLOCK_SYMBOLS;

		r = gs_elf_read_symbols(elf, table, &done, block, &n);
		if (r < 0)
			return r;
		for (size_t i = 0; i < n; i++) {
			if (!names_code(&block[i]))
				continue;
			fill_symbol(&block[i], &s);
			r = fn(ctx, done + i, &s);
			if (r)
				return r;
		}
		done += n;
	}
	return 0;
}

bool gs_elf_code_symbol_at(const struct gs_elf *elf, enum gs_elf_table_kind kind, uint64_t idx,
			   struct gs_elf_code_symbol *ret_symbol)
{
	const struct gs_elf_table *table = table_of(elf, kind);
	Elf64_Sym sym;

	if (idx >= table->n_symbols ||
	    gs_elf_pread(elf, table->sym_off + idx * sizeof(sym), &sym, sizeof(sym)) < 0 ||
	    !names_code(&sym))
		return false;
	fill_symbol(&sym, ret_symbol);
	return true;
}

bool gs_elf_symbol_name(const struct gs_elf *elf, enum gs_elf_table_kind kind, uint64_t name_off,
			char *ret_name, size_t bytes)
{
	const struct gs_elf_table *table = table_of(elf, kind);
	uint64_t left;

	if (bytes == 0 || name_off >= table->str_bytes)
		return false;
	left = table->str_bytes - name_off;
	if (left > bytes - 1)
		left = bytes - 1;
	if (gs_elf_pread(elf, table->str_off + name_off, ret_name, left) < 0)
		return false;
	ret_name[left] = 0;
	return ret_name[0] != 0;
}
