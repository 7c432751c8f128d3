/*
 * --gpu-time: GPU work of running PyTorch processes, recorded by PyTorch's own profiler (Kineto) on request of a daemon.
 * A thread acts as that daemon for the processes of -p: each profiler records for a while into a new folder in the
 * process's /tmp, and the thread passes the GPU work on to the output. Nothing is loaded into these processes.
 */
#ifndef GS_COMMANDS_TRACE_TRACE_KINETO_H
#define GS_COMMANDS_TRACE_TRACE_KINETO_H

#include <stdatomic.h>
#include <stdbool.h>

struct trace_kineto;
struct trace_options;
struct trace_output;

/* Starts the thread; output must outlive it. NULL: the options do not ask for it, or it is not possible, which is
 * reported on standard error. Free the result with trace_kineto_stop(). */
struct trace_kineto *trace_kineto_start(const struct trace_options *options,
					struct trace_output *output);

/* Waits up to some seconds for recordings in progress, unless gives_up becomes true (NULL: never), reports missing ones, removes
 * the folders but those into which a profiler still writes, frees *kineto and sets it to NULL; *kineto may be NULL. */
void trace_kineto_stop(struct trace_kineto **kineto, const atomic_bool *gives_up);

#endif
