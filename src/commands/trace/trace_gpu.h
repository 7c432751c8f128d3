/*
 * GPUs beside the calls: a thread of its own asks the drivers what the GPUs of the traced processes do,
 * and hands records to the output. No event waits for it: a driver that does not answer is waited for
 * by this thread alone, and at the end for a second at most.
 */
#ifndef GS_COMMANDS_TRACE_TRACE_GPU_H
#define GS_COMMANDS_TRACE_TRACE_GPU_H

#include "core/base/err.h"

struct trace_gpu;
struct trace_options;
struct trace_output;

/* Begins to sample; *ret_gpu stays NULL where the options want none (all functions take that). output is
 * borrowed. 0, -ENOMEM, or -EAGAIN when there is no thread. */
int trace_gpu_start(const struct trace_options *options, struct trace_output *output,
		    struct trace_gpu **ret_gpu, struct gs_err *err);

/* A last sample, unless the driver does not answer; then nothing more comes. Logs what it has cost. */
void trace_gpu_stop(struct trace_gpu **gpu);

#endif
