/* What became of probing one file, or one function of it. Plain values; the texts are lent. */
#ifndef GS_MODEL_TRACE_ATTACH_H
#define GS_MODEL_TRACE_ATTACH_H

#include <stdint.h>

#define GS_ATTACH_INSIDE "seen from inside" /* the remark on a library that has no probes for it */
struct gs_attach {
	const char *path;     /* as the process names the file */
	const char *function; /* NULL: the whole file */
	const char *reason;   /* of a failure, or a remark; NULL none */
	int status;           /* 0, or a negative errno */
	uint32_t n_probes;
	uint32_t n_moved;   /* placed some bytes in, where the kernel need not single-step */
	uint32_t n_stepped; /* single-stepped */
	uint32_t layer;     /* enum gs_layer; 0 several */
};

/* In place of how calls were caught, of a session that was read from a trace of another profiler. */
#define GS_SESSION_IMPORTED "a trace of another profiler"

#endif
