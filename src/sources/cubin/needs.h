/* What kernels of a file need of a GPU: found by their names in its fat binaries. */
#ifndef GS_SOURCES_CUBIN_NEEDS_H
#define GS_SOURCES_CUBIN_NEEDS_H

#include "sources/cubin/cubin.h"
#include "sources/elf/elf.h"

#define GS_CUBIN_WANTED_MAX 8192u /* kernels of one search */

struct gs_cubin_wanted {
	const char *name; /* lent: as the compiler mangled it */
	bool found;       /* the rest is known */
	bool differs;     /* for several architectures, and the device's is not known */
	struct gs_cubin_kernel kernel; /* its name is not to be used */
};

/*
 * Search all of the file's CUDA code. sm: the device's compute capability times ten: the code taken is that
 * which the device runs, of the same generation and at most as new; 0: not known, then only what is
 * the same for all architectures is found, and in files with much code nothing. Reads the file once, one element in memory at a time. 0, -ENOMEM, or the
 * error of reading; what was found before it stays. ret_counts may be NULL.
 */
int gs_cubin_find_needs(struct gs_elf *elf, uint32_t sm, struct gs_cubin_wanted *wanted, size_t n,
			struct gs_fatbin_counts *ret_counts);

#endif
