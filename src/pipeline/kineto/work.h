/*
 * What GPUs did, out of a trace that PyTorch's profiler (Kineto) has written at our request: the file is a program's
 * own, so that a process without rights reads it (core/reader) and what it answers is checked.
 */
#ifndef GS_PIPELINE_KINETO_WORK_H
#define GS_PIPELINE_KINETO_WORK_H

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/reader/reader.h"
#include "model/gpu_work/gpu_work.h"

#define GS_KINETO_WORK_MAX  200000u /* kernels, copies and fills of a trace; more are counted */
#define GS_KINETO_NAMES_MAX 8192u   /* of kernels */

struct gs_kineto_work_row {
	struct gs_gpu_work work; /* times: CLOCK_MONOTONIC ns */
	uint32_t name;           /* of a kernel: its place in names, from 1; 0 none */
};

/* Nothing of it where all is 0. */
struct gs_kineto_work {
	struct gs_kineto_work_row *rows; /* owned */
	const char **names;              /* owned; the texts are parts of answer */
	uint32_t n_rows, n_names;
	uint64_t from_ns, to_ns; /* when the profiler looked, CLOCK_MONOTONIC */
	uint64_t n_left_out;     /* work past the limits */
	struct gs_buf answer;
};

/* GS_READER_KINETO of a reader. -EBADMSG: the request is none, or the file is no such trace; -ENODATA: nothing in it. */
int gs_kineto_work_serve(void **state, struct gs_reader_request *request, struct gs_wire_out *reply,
			 struct gs_err *err);

/* Has the reader read the file. fd: borrowed. wall_minus_mono_ns: how far the time of day was ahead of the monotonic
 * clock. What gs_reader_ask() or the service returned; work is to be finished in any case. */
int gs_kineto_work_ask(struct gs_reader *reader, int fd, int64_t wall_minus_mono_ns,
		       struct gs_kineto_work *ret_work, struct gs_err *err);
void gs_kineto_work_fini(struct gs_kineto_work *work);

#endif
