/*
 * What native_ask.c (in the holder) asks of native_serve.c (in a reader) about the files of code:
 * where their segments are, the rows of their unwind tables, and the names of addresses. The reader
 * knows a file by the number that the holder gave it, for as long as it lives; -ESTALE: it is
 * another reader, which does not know it.
 */
#ifndef GS_SOURCES_UNWIND_NATIVE_WIRE_H
#define GS_SOURCES_UNWIND_NATIVE_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "sources/elf/code.h"
#include "core/reader/wire.h"
#include "sources/unwind/cfi.h"

enum native_request {                  /* the first byte of a request */
		      NATIVE_OPEN = 1, /* file, name, and the file itself: segments, whether it has
					* a .symtab, build id, debug link */
		      NATIVE_ROW,      /* file, address: result of gs_cfi_find(), memory, the row */
		      NATIVE_DEBUG,    /* file, by build id, trusted, name, and the file: taken */
		      NATIVE_NAME,     /* file, address: memory, the name */
		      NATIVE_DROP,     /* file: the memory of its tables is wanted back */
		      NATIVE_CLOSE,    /* file */
		      NATIVE_MADE,     /* process, address, time, and its map or none: the name */
		      NATIVE_FORGET,   /* process */
		      NATIVE_KERNEL,   /* file, address: memory, the name of the kernel whose stub
					* begins there */
		      NATIVE_HANDLES,  /* file: memory, variables that have handles of kernels */
		      NATIVE_NEEDS,    /* file, compute capability, names of kernels: memory, what
					* each needs */
};

#define NATIVE_MAX_NAME 4096

/* take: false: no file can be so. Errors of put stay in out. */
void native_put_segments(struct gs_wire_out *out, const struct gs_elf_segments *segments);
bool native_take_segments(struct gs_wire_in *in, struct gs_elf_segments *ret_segments);

/* False: no row can be so. Errors of put stay in out. */
void native_put_row(struct gs_wire_out *out, const struct gs_cfi_row *row);
bool native_take_row(struct gs_wire_in *in, struct gs_cfi_row *ret_row);

#endif
