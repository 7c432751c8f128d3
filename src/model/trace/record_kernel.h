/* What is known of a kernel that a process launches. */
#ifndef GS_MODEL_TRACE_RECORD_KERNEL_H
#define GS_MODEL_TRACE_RECORD_KERNEL_H

#include "model/trace/record.h"

/* How its name came to be known. The numbers are stored. */
enum gs_kernel_how {
	GS_KERNEL_UNKNOWN = 0,
	GS_KERNEL_REGISTERED = 1, /* the host function that was launched is registered for it */
	GS_KERNEL_SYMBOL = 2,     /* that function has this symbol */
	GS_KERNEL_LOADED = 3,     /* the program asked for it by its name */
};

/* Comes before the first launch of the function in the process; again with what was learned later, or
 * when another kernel has the same handle, or, without a name, an unknown one. 0 in what it needs: not known. */
struct gs_rec_kernel {
	struct gs_record head;
	uint32_t process;      /* id */
	uint32_t how;          /* enum gs_kernel_how */
	uint64_t function;     /* address or handle, as launches have it in arg[0] */
	uint32_t name_str;     /* demangled; 0 not known */
	uint32_t short_str;    /* what remains of it for a narrow place */
	uint32_t symbol_str;   /* as the compiler mangled it; 0 not known */
	uint32_t file_str;     /* the file with the host function; 0 none */
	uint32_t registers;    /* of a thread */
	uint32_t shared_bytes; /* static, of a block */
	uint32_t constant_bytes;
	uint32_t local_bytes; /* stack of a thread */
	uint64_t code_bytes;
	uint32_t max_threads; /* of a block, by its launch bounds */
	uint32_t
		sm; /* for which compute capability (times ten) the needs are; 0: they are not known */
};
_Static_assert(sizeof(struct gs_rec_kernel) == 72, "kernel");

#endif
