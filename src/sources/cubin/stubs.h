/*
 * Which kernel a function of the host stands for. A program launches a kernel by the address of a host
 * function (its stub); which kernel that is, the program says to the runtime at its start, by
 * __cudaRegisterFunction(handle, stub, name, name, -1, ...). Those calls stand in the file with
 * their arguments, so the answer needs neither symbols nor a running process.
 *
 * What nvcc 13 compiles launches by a handle instead, which the stub gets once, by
 * __cudaGetKernel(&handle, stub), and keeps in a variable. Where those are stands in the file too.
 */
#ifndef GS_SOURCES_CUBIN_STUBS_H
#define GS_SOURCES_CUBIN_STUBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sources/elf/elf.h"

#define GS_CUBIN_STUBS_MAX                                                                         \
	262144u /* of one file: 4 MiB; more are left out and counted as refused */

struct gs_cubin_stubs;

/* Look through the code of a file, which is read once. A file without CUDA code gives an empty list. 0,
 * -ENOMEM, or the error of reading. */
int gs_cubin_stubs_new(struct gs_elf *elf, struct gs_cubin_stubs **ret_stubs);
void gs_cubin_stubs_free(struct gs_cubin_stubs **stubs);

/* A variable that has the handle of a kernel once that was launched. */
struct gs_cubin_handle {
	uint64_t vaddr; /* of the variable */
	uint64_t stub;  /* virtual address of the host function */
};

/* All of the file, by rising address; lent. */
const struct gs_cubin_handle *gs_cubin_stubs_handles(const struct gs_cubin_stubs *stubs,
						     size_t *ret_n);

/* Memory that the list takes; how many stubs it has. */
size_t gs_cubin_stubs_bytes(const struct gs_cubin_stubs *stubs);
size_t gs_cubin_stubs_count(const struct gs_cubin_stubs *stubs);

/* The name of the kernel, as the compiler mangled it, whose stub begins at this virtual address of the
 * file that the list was made from. False: none does. */
bool gs_cubin_stubs_name(const struct gs_cubin_stubs *stubs, const struct gs_elf *elf,
			 uint64_t vaddr, char *ret_name, size_t bytes);

#endif
