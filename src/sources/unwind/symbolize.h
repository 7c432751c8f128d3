/*
 * Names of addresses: an index of a file's functions by address, eight bytes each, sorted; the
 * names stay in the file and are read when asked for. 700,000 functions of a library of 450 MB are
 * 5.6 MB.
 */
#ifndef GS_SOURCES_UNWIND_SYMBOLIZE_H
#define GS_SOURCES_UNWIND_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sources/elf/elf.h"

struct gs_symbols;

/* From the best there is: .symtab, else that of the debug file, else .dynsym. elf is borrowed and
 * has to live longer; *debug is taken, it may be NULL. A file without symbols gives an empty index.
 * Negative errno: no memory. */
int gs_symbols_new(struct gs_elf *elf, struct gs_elf **debug, struct gs_symbols **ret_symbols);
void gs_symbols_free(struct gs_symbols **symbols);

size_t gs_symbols_bytes(const struct gs_symbols *symbols); /* memory that the index takes */

/* The name, demangled, of the function that the virtual address of the file lies in. False: no
 * symbol covers it. */
bool gs_symbols_name(struct gs_symbols *symbols, uint64_t vaddr, char *ret_name, size_t bytes);

/* --- debug files: what a program was stripped to --- */

/* Where the debug file of a program may be: by its build id, and by its debug link. path: as the
 * process names the program; roots: the folders that are "/" to look in, in their order. fn returns
 * true at the one that it takes, which ends the walk. build_id and link are not trusted, and may be
 * NULL. */
typedef bool (*gs_unwind_debug_path_fn)(void *ctx, const char *path, bool by_build_id);
void gs_unwind_debug_paths(const char *build_id, const char *link, const char *path,
			   const char *const *roots, size_t n_roots, gs_unwind_debug_path_fn fn,
			   void *ctx);

/* Is debug (opened as such) what elf was stripped to: by its build id, else by a checksum, which is
 * taken of files that root has put there (is_trusted, or its owner), and of no other. */
bool gs_unwind_debug_fits(struct gs_elf *elf, struct gs_elf *debug, bool by_build_id,
			  bool is_trusted);

#endif
