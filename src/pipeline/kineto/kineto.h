/*
 * Converts traces to records: those of PyTorch's profiler (Kineto), eACGM and others in Chrome's
 * Trace Event Format, and eACGM's text. Operators, calls of CUDA, Python functions and annotations
 * become calls of threads; kernels, copies and fills of GPUs keep the times that the GPU measured.
 * Complete events ("ph": "X") are read, and pairs of a begin ("B") and an end ("E"). Results of
 * calls, bytes, stacks and the wall-clock account are not in such a trace and stay unknown.
 *
 * In: a file, read once and event by event. Out: records in the order in which gpuscope trace writes them, to a sink.
 */
#ifndef GS_PIPELINE_KINETO_KINETO_H
#define GS_PIPELINE_KINETO_KINETO_H

#include <stdio.h>

#include "core/base/err.h"
#include "model/trace/record.h"

#define GS_KINETO_EVENTS_MAX (1u << 22) /* more are counted */

struct gs_kineto_stats {
	uint64_t n_calls, n_gpu_work;
	uint64_t n_other;    /* events that are none of these, such as counters and flows */
	uint64_t n_bad;      /* without a name or a time; lines of text that are no event */
	uint64_t n_unpaired; /* begins without an end, ends without a begin */
	uint64_t n_left_out; /* past the limits of events, names, threads */
};

/* name: of the trace, for its session. file is read to its end. -EBADMSG: err says what it is not, or where it
 * breaks off (what was before it has not been pushed); -ENODATA: nothing in it is shown; -ENOMEM; or what the sink
 * returns. */
int gs_kineto_read(FILE *file, const char *name, const struct gs_sink *sink,
		   struct gs_kineto_stats *ret_stats, struct gs_err *err);

#endif
