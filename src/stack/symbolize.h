/*
 * Names of addresses: an index of a file's functions by address, eight bytes each, sorted; the
 * names stay in the file and are read when asked for. 700,000 functions of a library of 450 MB are
 * 5.6 MB.
 */
#ifndef GS_STACK_SYMBOLIZE_H
#define GS_STACK_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "elf/elf.h"

struct gs_symbols;

/* From the best there is: .symtab, else that of the debug file by build id or debug link, else
 * .dynsym. elf is borrowed and has to live longer; path: as the process names the file; roots: the
 * folders that are "/" to look for debug files in, in their order. A file without symbols gives an
 * empty index. Negative errno: no memory. */
int gs_symbols_new(struct gs_elf *elf, const char *path, const char *const *roots, size_t n_roots,
		   struct gs_symbols **ret_symbols);
void gs_symbols_free(struct gs_symbols **symbols);

size_t gs_symbols_bytes(const struct gs_symbols *symbols);

/* Where the names come from: the debug file's path, or "" when it is the file itself. Lent. */
const char *gs_symbols_source(const struct gs_symbols *symbols);

/* The name, demangled, of the function that the virtual address of the file lies in. False: no
 * symbol covers it. */
bool gs_symbols_name(struct gs_symbols *symbols, uint64_t vaddr, char *ret_name, size_t bytes);

#endif
