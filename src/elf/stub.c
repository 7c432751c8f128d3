/*
 * What a stub of the procedure linkage table leads to. It jumps to an address that the loader puts
 * into a slot; the relocation of the slot has the name.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "elf/elf_int.h"

#define WINDOW_RELOCATIONS 2730 /* 64 KiB */

struct relocations {
	uint64_t vaddr, bytes;
};

static bool off_to_vaddr(const struct gs_elf *elf, uint64_t off, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < elf->n_loads; i++) {
		const struct gs_elf_load *l = &elf->loads[i];

		if (!l->executable || off < l->off || off - l->off >= l->bytes)
			continue;
		*ret_vaddr = l->vaddr + (off - l->off);
		return true;
	}
	return false;
}

/* [endbr64] [bnd] jmp *slot(%rip) */
static bool slot_of(const struct gs_elf *elf, uint64_t file_off, uint64_t *ret_slot)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint8_t code[11];
	uint64_t vaddr;
	size_t at = 0;
	int32_t rel;

	if (!off_to_vaddr(elf, file_off, &vaddr) ||
	    gs_elf_pread(elf, file_off, code, sizeof(code)) < 0)
		return false;
	if (memcmp(code, endbr64, sizeof(endbr64)) == 0)
		at = sizeof(endbr64);
	if (code[at] == 0xf2)
		at++;
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return false;
	memcpy(&rel, code + at + 2, sizeof(rel));
	*ret_slot = vaddr + at + 6 + (uint64_t)(int64_t)rel;
	return true;
}

static int read_name(const struct gs_elf *elf, uint64_t symbol, char *ret_name, size_t bytes)
{
	uint64_t off = elf->dynsym.sym_off + symbol * sizeof(Elf64_Sym), left;
	Elf64_Sym sym;
	int r;

	if (!elf->dynsym.sym_off)
		return -ENOENT;
	r = gs_elf_pread(elf, off, &sym, sizeof(sym));
	if (r < 0)
		return r;
	if (sym.st_name >= elf->dynsym.str_bytes)
		return -ENOEXEC;
	left = elf->dynsym.str_bytes - sym.st_name;
	r = gs_elf_pread(elf, elf->dynsym.str_off + sym.st_name, ret_name,
			 left < bytes ? left : bytes);
	if (r < 0)
		return r;
	return memchr(ret_name, 0, left < bytes ? left : bytes) ? 0 : -ENOENT;
}

/* The symbol whose address goes into the slot. */
static int find_symbol(const struct gs_elf *elf, const struct relocations *table, uint64_t slot,
		       uint64_t *ret_symbol)
{
	GS_FREE Elf64_Rela *window = calloc(WINDOW_RELOCATIONS, sizeof(*window));
	uint64_t off, bytes, n, done = 0;

	if (!window)
		return -ENOMEM;
	if (!table->vaddr || !gs_elf_vaddr_to_off(elf, table->vaddr, false, &off, &bytes))
		return -ENOENT;
	n = (table->bytes < bytes ? table->bytes : bytes) / sizeof(*window);
	while (done < n) {
		size_t part =
			n - done < WINDOW_RELOCATIONS ? (size_t)(n - done) : WINDOW_RELOCATIONS;
		int r = gs_elf_pread(elf, off + done * sizeof(*window), window,
				     part * sizeof(*window));

		if (r < 0)
			return r;
		for (size_t i = 0; i < part; i++) {
			uint64_t type = ELF64_R_TYPE(window[i].r_info);

			if (window[i].r_offset != slot ||
			    (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT))
				continue;
			*ret_symbol = ELF64_R_SYM(window[i].r_info);
			return 0;
		}
		done += part;
	}
	return -ENOENT;
}

int gs_elf_stub_name(struct gs_elf *elf, uint64_t file_off, char *ret_name, size_t bytes)
{
	GS_FREE Elf64_Dyn *dynamic = NULL;
	struct relocations lazy = {0}, others = {0};
	uint64_t slot, symbol;
	size_t n;
	int r;

	if (!slot_of(elf, file_off, &slot))
		return -ENOENT;
	r = gs_elf_read_dynamic(elf, &dynamic, &n);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (dynamic[i].d_tag == DT_JMPREL)
			lazy.vaddr = dynamic[i].d_un.d_ptr;
		else if (dynamic[i].d_tag == DT_PLTRELSZ)
			lazy.bytes = dynamic[i].d_un.d_val;
		else if (dynamic[i].d_tag == DT_RELA)
			others.vaddr = dynamic[i].d_un.d_ptr;
		else if (dynamic[i].d_tag == DT_RELASZ)
			others.bytes = dynamic[i].d_un.d_val;
	}
	r = find_symbol(elf, &lazy, slot, &symbol);
	if (r == -ENOENT)
		r = find_symbol(elf, &others, slot, &symbol);
	return r < 0 ? r : read_name(elf, symbol, ret_name, bytes);
}
