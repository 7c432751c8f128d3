/*
 * What unwinding and naming addresses need of an ELF file: its unwind tables, its symbols by
 * address, and the file that holds its debug information. Like sources/elf/elf.h nothing is loaded
 * whole, and nothing in the file is trusted.
 */
#ifndef GS_SOURCES_ELF_CODE_H
#define GS_SOURCES_ELF_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sources/elf/elf.h"

/* A run of bytes of the file, and where the loader puts it (before relocation). */
struct gs_elf_part {
	uint64_t vaddr; /* 0: not loaded */
	uint64_t off;   /* in the file */
	uint64_t bytes;
};

#define GS_ELF_SEGMENTS_MAX 32 /* the linkers make one or two */

/* The executable segments of a file: all that is needed to know where in it code is, and where it
 * was loaded. */
struct gs_elf_segments {
	struct gs_elf_part parts[GS_ELF_SEGMENTS_MAX]; /* n of them, as the file has them */
	unsigned n;                                    /* segments */
};

/* -ENOEXEC: more than any program has. */
int gs_elf_code_segments(const struct gs_elf *elf, struct gs_elf_segments *ret_segments);

/* The virtual address at which the byte at file_off of an executable segment is loaded. False:
 * none is. */
bool gs_elf_vaddr_of(const struct gs_elf_segments *segments, uint64_t file_off,
		     uint64_t *ret_vaddr);

/* What is added to addresses of the file when the byte at map_off of it is mapped executable at
 * map_start. -ENOENT: no executable segment begins there. */
int gs_elf_bias(const struct gs_elf_segments *segments, uint64_t map_start, uint64_t map_off,
		uint64_t *ret_bias);

/* Bytes of the file by the address where they are loaded; up to so many, how many there were, or a
 * negative errno (-ENOEXEC: no segment of the file has the address). */
long gs_elf_read_vaddr(const struct gs_elf *elf, uint64_t vaddr, void *buf, size_t bytes);

/* The table of PT_GNU_EH_FRAME, or a section by its name. 0, -ENOENT or -ENOEXEC. */
int gs_elf_unwind_index(const struct gs_elf *elf, struct gs_elf_part *ret_part);
int gs_elf_section_bytes(const struct gs_elf *elf, const char *name, struct gs_elf_part *ret_part);

/* A name and the CRC of .gnu_debuglink. False: there is none. */
bool gs_elf_debug_link(const struct gs_elf *elf, char ret_name[256], uint32_t *ret_crc);

enum gs_elf_table_kind { GS_ELF_SYMTAB, GS_ELF_DYNSYM };

struct gs_elf_code_symbol {
	uint64_t vaddr;      /* where it begins */
	uint64_t size_bytes; /* 0: not known */
	uint64_t name_off;   /* for gs_elf_symbol_name() */
	uint8_t rank;        /* 1 local, 2 weak, 3 global: the best of several is shown */
};

/* Visit each symbol that names code (functions, indirect functions, and untyped labels of
 * assembler in executable segments), in the order of the table, with its index. 0, what fn
 * returned, or a negative errno. */
int gs_elf_each_code_symbol(struct gs_elf *elf, enum gs_elf_table_kind kind,
			    int (*fn)(void *ctx, uint64_t idx, const struct gs_elf_code_symbol *s),
			    void *ctx);

/* One symbol by its index. False: it is not there or names no code. */
bool gs_elf_code_symbol_at(const struct gs_elf *elf, enum gs_elf_table_kind kind, uint64_t idx,
			   struct gs_elf_code_symbol *ret_symbol);

/* The text at an offset of the table's strings, cut at bytes - 1. */
bool gs_elf_symbol_name(const struct gs_elf *elf, enum gs_elf_table_kind kind, uint64_t name_off,
			char *ret_name, size_t bytes);

#endif
