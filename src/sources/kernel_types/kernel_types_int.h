/* What the files of this room share. */
#ifndef GS_SOURCES_KERNEL_TYPES_KERNEL_TYPES_INT_H
#define GS_SOURCES_KERNEL_TYPES_KERNEL_TYPES_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bpf/btf.h>

/* A name as libbpf compares it: "sock" of "sock___old", which is another view of the same type. */
struct kernel_name {
	const char *text; /* lent; n bytes of it */
	size_t n;
};

struct kernel_name kernel_types_name(const char *text);

/* A structure, union, enumeration or type definition: what is looked up by its name. */
bool kernel_types_is_named(const struct btf_type *type);

/* --- named.c: what the programs of an ELF file name --- */

/* Called for each name, also several times for one. False ends the walk. */
typedef bool kernel_name_fn(void *ctx, struct kernel_name name);

/* False: it was ended, or the file asks for something that is not found by name. */
bool kernel_types_walk_names(const void *elf, size_t n_bytes, kernel_name_fn *fn, void *ctx);

/* --- few.c: some types and what they are made of --- */

struct kernel_few;

/* NULL: no memory. from is lent. */
struct kernel_few *kernel_few_new(const struct btf *from);
void kernel_few_free(struct kernel_few **few);

/* The type (by its number in from) and all that it is made of, but for types that pointers point to. False: no
 * memory, or a kind of type that is not known here. */
bool kernel_few_add(struct kernel_few *few, uint32_t id);

/* A new set of the types that were added, or NULL. */
struct btf *kernel_few_build(struct kernel_few *few);

#endif
