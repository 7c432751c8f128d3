/*
 * What the files of this room share about an open ELF file. Offsets are into the file; every one
 * that is kept here has been checked against the file's size when it was read from the file.
 */
#ifndef GS_SOURCES_ELF_ELF_INT_H
#define GS_SOURCES_ELF_ELF_INT_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/foreign.h"
#include "sources/elf/elf.h"

struct gs_elf_load { /* a PT_LOAD segment */
	uint64_t vaddr;
	uint64_t off;
	uint64_t bytes; /* in the file */
	bool executable;
};

struct gs_elf_table { /* a symbol table and the strings that its names lie in */
	uint64_t sym_off;
	uint64_t n_symbols; /* 0: there is none, or how many is not known */
	uint64_t str_off;
	uint64_t str_bytes;
};

struct gs_elf {
	struct gs_foreign *file; /* owned */
	uint64_t file_bytes;
	char *path; /* for error texts */

	struct gs_elf_load *loads;
	size_t n_loads;
	uint64_t dynamic_off;
	uint64_t dynamic_bytes; /* 0: a static executable */
	uint64_t section_off;
	uint64_t n_sections;

	/* From PT_DYNAMIC, where the file has one. */
	struct gs_elf_table dynsym; /* n_symbols only from DT_HASH or the section headers */
	uint64_t gnu_hash_off;      /* 0: none */

	/* From the section headers, read when first needed. */
	bool sections_read;
	int sections_result;
	struct gs_elf_table symtab;

	bool build_id_read;
	char build_id[2 * 64 + 1];
};

/* Exactly so many bytes of the file. -ENOEXEC when it ends before, or the error of
 * gs_foreign_read(). */
int gs_elf_pread(const struct gs_elf *elf, uint64_t off, void *buf, size_t bytes);

/* Where in [off, end) the first byte lies that is not in a hole of the file; end: none. What is
 * passed over reads as zeros. */
uint64_t gs_elf_skip_hole(const struct gs_elf *elf, uint64_t off, uint64_t end);

/* True when [off, off + bytes) lies in the file. */
bool gs_elf_inside(const struct gs_elf *elf, uint64_t off, uint64_t bytes);

/* Where the byte at vaddr lies in the file, and how many follow it in its segment. */
bool gs_elf_vaddr_to_off(const struct gs_elf *elf, uint64_t vaddr, bool executable,
			 uint64_t *ret_off, uint64_t *ret_bytes);

/* The entries of the dynamic segment before DT_NULL; *ret_dynamic is the caller's. */
int gs_elf_read_dynamic(const struct gs_elf *elf, Elf64_Dyn **ret_dynamic, size_t *ret_n);

/* The next symbols of a table at *done or, where holes of the file lie there, after it: up to *n of
 * them into block. *done is moved to the first of them, *n is how many there are (0 at the end). */
int gs_elf_read_symbols(const struct gs_elf *elf, const struct gs_elf_table *table, uint64_t *done,
			Elf64_Sym *block, size_t *n);

/* Find the tables of the section headers. The same answer each time. */
int gs_elf_read_sections(struct gs_elf *elf);

/* What the dynamic loader reads of a file. */
struct gs_elf_needs {
	char *rpath;   /* DT_RPATH, NULL: none */
	char *runpath; /* DT_RUNPATH, NULL: none */
	char **needed; /* DT_NEEDED in order */
	size_t n_needed;
};

/* 0 (all empty for a static executable) or a negative errno; *ret_needs is the caller's. */
int gs_elf_read_needs(struct gs_elf *elf, struct gs_elf_needs *ret_needs);
void gs_elf_needs_fini(struct gs_elf_needs *needs);

#endif
