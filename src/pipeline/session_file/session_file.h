/*
 * Sessions as `session export` writes them as JSON, and gswarm-profiler, whose form it is: frames
 * with arrays, one value a GPU.
 */
#ifndef GS_PIPELINE_SESSION_FILE_SESSION_FILE_H
#define GS_PIPELINE_SESSION_FILE_SESSION_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/err.h"
#include "model/node/host.h"

/* Takes the GPUs of one node in one frame, and what is known of the machine; lent. 0, or a negative errno,
 * which ends the reading. */
typedef int (*gs_session_file_fn)(void *ctx, const struct gs_node_snapshot *snapshot);

struct gs_session_file_stats {
	uint64_t n_frames;
	uint64_t n_samples; /* of GPUs */
	uint64_t n_absent;  /* of GPUs of nodes that were away then: they are left out */
	/* Of n_frames: gswarm-profiler wrote them, which swaps rx and tx: they are corrected. */
	uint64_t n_foreign;
};

/* Is it the JSON of a session? By its first keys; the file stands at its begin then. False for a pipe. */
bool gs_session_file_is_one(FILE *file);

/* All frames, in their order. -EBADMSG: err says which part is not as it should be; what was before it
 * was taken. -ENOMEM, or what fn returns. */
int gs_session_file_read(FILE *file, gs_session_file_fn fn, void *ctx,
			 struct gs_session_file_stats *ret_stats, struct gs_err *err);

/* The field of a value that nvitop names so, and what makes base units of it. False: it is none of ours. */
bool gs_session_file_nvitop(const char *name, enum gs_gpu_field *ret_field, double *ret_factor);

#endif
