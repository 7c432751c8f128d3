/*
 * Data of a program that lies at an address, not in code: where a variable or a section is once
 * the file is mapped. Addresses are those of the file; gs_elf_bias() tells what a mapping adds.
 */
#ifndef GS_ELF_OBJECT_H
#define GS_ELF_OBJECT_H

#include "elf/elf.h"

/* Address and size of variables by name, from .dynsym and then .symtab; ret_vaddr[i] is 0 for a
 * name that is not there. 0 or a negative errno (the tables are malformed or too big). */
int gs_elf_objects(struct gs_elf *elf, const char *const *names, size_t n, uint64_t *ret_vaddr);

/* The address of a section of this name; -ENOENT when there is none. */
int gs_elf_section(struct gs_elf *elf, const char *name, uint64_t *ret_vaddr);

/* What is added to addresses of the file when the byte at map_off of it is mapped executable at
 * map_start. -ENOENT: no executable segment begins there. */
int gs_elf_bias(const struct gs_elf *elf, uint64_t map_start, uint64_t map_off, uint64_t *ret_bias);

#endif
