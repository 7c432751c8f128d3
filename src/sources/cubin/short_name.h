/* Short forms of the names of kernels, which with their templates can have thousands of characters. */
#ifndef GS_SOURCES_CUBIN_SHORT_NAME_H
#define GS_SOURCES_CUBIN_SHORT_NAME_H

#include <stddef.h>

#define GS_KERNEL_SHORT_BYTES 96 /* with its zero: what is beyond is cut off */

/*
 * What people call the kernel of this name, demangled or not: without result, arguments and namespaces, and
 * of template arguments the first ones, shortened likewise; "gemm" in cutlass::Kernel<gemm> and the like,
 * which are named by their argument alone; what Triton specialised an argument for ("_0d1d2de") is left
 * out. Never empty for a name that is not.
 */
void gs_kernel_short_name(const char *name, char ret_short[GS_KERNEL_SHORT_BYTES]);

#endif
