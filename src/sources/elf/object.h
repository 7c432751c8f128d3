/*
 * Data of a program that lies at an address, not in code: where a variable is once the file is
 * mapped. Addresses are those of the file; gs_elf_bias() of sources/elf/code.h says what a mapping
 * adds.
 */
#ifndef GS_SOURCES_ELF_OBJECT_H
#define GS_SOURCES_ELF_OBJECT_H

#include "sources/elf/elf.h"

/* Address and size of variables by name, from .dynsym and then .symtab; ret_vaddr[i] is 0 for a
 * name that is not there. 0 or a negative errno (the tables are malformed or too big). */
int gs_elf_objects(struct gs_elf *elf, const char *const *names, size_t n, uint64_t *ret_vaddr);

/* The first bytes of a variable as the file has them, before any relocation. 0, -ENOENT: they are
 * not in the file (.bss), or another negative errno. */
int gs_elf_object_read(struct gs_elf *elf, uint64_t vaddr, void *buf, size_t bytes);

#endif
