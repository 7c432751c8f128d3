/*
 * What a stub leads to. It jumps to an address that the loader puts into a slot; the relocation of
 * the slot has the name, or, where the function is one of this file, its address.
 */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/elf/code.h"
#include "sources/elf/elf_int.h"

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

/* What the loader puts into the slot: the address of a symbol (is_symbol), else of a place in this
 * file. */
static int find_slot(const struct gs_elf *elf, const struct relocations *table, uint64_t slot,
		     bool is_symbol, uint64_t *ret_value)
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

			if (window[i].r_offset != slot)
				continue;
			if (is_symbol ? type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT
				      : type != R_X86_64_RELATIVE)
				continue;
			*ret_value = is_symbol ? ELF64_R_SYM(window[i].r_info)
					       : (uint64_t)window[i].r_addend;
			return 0;
		}
		done += part;
	}
	return -ENOENT;
}

static int find_tables(struct gs_elf *elf, struct relocations *lazy, struct relocations *others)
{
	GS_FREE Elf64_Dyn *dynamic = NULL;
	size_t n;
	int r = gs_elf_read_dynamic(elf, &dynamic, &n);

	*lazy = *others = (struct relocations){0};
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (dynamic[i].d_tag == DT_JMPREL)
			lazy->vaddr = dynamic[i].d_un.d_ptr;
		else if (dynamic[i].d_tag == DT_PLTRELSZ)
			lazy->bytes = dynamic[i].d_un.d_val;
		else if (dynamic[i].d_tag == DT_RELA)
			others->vaddr = dynamic[i].d_un.d_ptr;
		else if (dynamic[i].d_tag == DT_RELASZ)
			others->bytes = dynamic[i].d_un.d_val;
	}
	return r;
}

int gs_elf_stub_name(struct gs_elf *elf, uint64_t file_off, char *ret_name, size_t bytes)
{
	struct relocations lazy, others;
	uint64_t slot, symbol;
	int r;

	if (!slot_of(elf, file_off, &slot))
		return -ENOENT;
	r = find_tables(elf, &lazy, &others);
	if (r < 0)
		return r;
	r = find_slot(elf, &lazy, slot, true, &symbol);
	if (r == -ENOENT)
		r = find_slot(elf, &others, slot, true, &symbol);
	return r < 0 ? r : read_name(elf, symbol, ret_name, bytes);
}

/* ---- functions without a symbol ---- */

/* The head of .eh_frame_hdr as every linker writes it: version 1, then encodings of the address of
 * .eh_frame (pcrel sdata4), of the number of entries (udata4) and of the table (datarel sdata4). */
static const uint8_t index_head[4] = {1, 0x1b, 0x03, 0x3b};

struct index_entry { /* by rising address, from the beginning of the section */
	int32_t function, table;
};

/* How far it is from the function there to the next one that has an entry. */
static int function_bytes(const struct gs_elf *elf, uint64_t vaddr, uint64_t *ret_bytes)
{
	struct gs_elf_part index;
	struct index_entry e[2];
	uint32_t low = 0, n;
	uint8_t head[12];
	int r = gs_elf_unwind_index(elf, &index);

	if (r < 0)
		return r;
	if (index.bytes < sizeof(head) || gs_elf_pread(elf, index.off, head, sizeof(head)) < 0 ||
	    memcmp(head, index_head, sizeof(index_head)) != 0)
		return -ENOENT;
	memcpy(&n, head + 8, sizeof(n));
	if (n > (index.bytes - sizeof(head)) / sizeof(*e))
		return -ENOEXEC;
	for (uint32_t high = n; low + 1 < high;) {
		uint32_t middle = low + (high - low) / 2;

		r = gs_elf_pread(elf, index.off + sizeof(head) + middle * sizeof(*e), e,
				 sizeof(*e));
		if (r < 0)
			return r;
		if (index.vaddr + (uint64_t)(int64_t)e->function <= vaddr)
			low = middle;
		else
			high = middle;
	}
	if (low + 1 >= n)
		return -ENOENT;
	r = gs_elf_pread(elf, index.off + sizeof(head) + low * sizeof(*e), e, sizeof(e));
	if (r < 0)
		return r;
	if (index.vaddr + (uint64_t)(int64_t)e[0].function != vaddr ||
	    e[1].function <= e[0].function)
		return -ENOENT;
	*ret_bytes = (uint64_t)((int64_t)e[1].function - e[0].function);
	return 0;
}

int gs_elf_stub_body(struct gs_elf *elf, uint64_t file_off, uint64_t *ret_off, uint64_t *ret_bytes)
{
	struct relocations lazy, others;
	uint64_t slot, vaddr, left;
	int r;

	if (!slot_of(elf, file_off, &slot))
		return -ENOENT;
	r = find_tables(elf, &lazy, &others);
	if (r == 0)
		r = find_slot(elf, &others, slot, false, &vaddr);
	if (r == 0)
		r = function_bytes(elf, vaddr, ret_bytes);
	if (r < 0)
		return r;
	if (!gs_elf_vaddr_to_off(elf, vaddr, true, ret_off, &left) || left < *ret_bytes)
		return -ENOENT;
	return 0;
}

int gs_elf_function_bytes(struct gs_elf *elf, uint64_t file_off, uint64_t *ret_bytes)
{
	uint64_t vaddr;

	if (!off_to_vaddr(elf, file_off, &vaddr))
		return -ENOENT;
	return function_bytes(elf, vaddr, ret_bytes);
}
