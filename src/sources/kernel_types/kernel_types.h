/*
 * Types of the running kernel, by which libbpf fits programs to it. Of the kernel's some 130,000 types the
 * programs of an object name some ten or forty; libbpf walks through all of them for each of these names, and
 * again for each object, which took more processor time than anything else of our own at the start of a trace.
 * Here the kernel's types are read and sorted by name once, and libbpf is given a file with those few.
 */
#ifndef GS_SOURCES_KERNEL_TYPES_KERNEL_TYPES_H
#define GS_SOURCES_KERNEL_TYPES_KERNEL_TYPES_H

#include <stddef.h>

struct btf;
struct btf_type;
struct gs_kernel_types;

/* Reads them: some ms, and some MiB until they are freed. 0, -ENOTSUP where the kernel shows none, or -ENOMEM. */
int gs_kernel_types_new(struct gs_kernel_types **ret_types);
void gs_kernel_types_free(struct gs_kernel_types **types);

/* All of them; they live as long as the table. */
const struct btf *gs_kernel_types_all(const struct gs_kernel_types *types);

/* A structure, union, enumeration (32-bit or 64-bit, by its kind) or type definition by its name. NULL: none. */
const struct btf_type *gs_kernel_types_find(const struct gs_kernel_types *types, const char *name,
					    unsigned kind);

/* What a tracepoint hands to programs: a prototype whose first argument is the tracepoint's own. NULL: the
 * kernel has no such tracepoint. */
const struct btf_type *gs_kernel_types_point(const struct gs_kernel_types *types,
					     const char *point);

/*
 * The path of a file that has those types which the programs in an ELF file (n_bytes of it) are fitted by, for
 * `btf_custom_path` of libbpf's options. libbpf may read it until the next call, or until the table is freed.
 * NULL: libbpf is to read the kernel's own types, as it does without a path. So it is when types is NULL, when
 * a named type is not among the kernel's (a module may have it), when the programs want more of a type than its
 * members, size and values, or when no file can be made.
 */
const char *gs_kernel_types_few(struct gs_kernel_types *types, const void *elf, size_t n_bytes);

#endif
