/*
 * What becomes of a trace: events, and what else the probe hands over, become records, and these go into files, to a
 * head and into the totals of the summary.
 */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_OUTPUT_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "commands/trace_options/trace_options.h"
#include "core/base/err.h"
#include "model/trace/attach.h"
#include "model/trace/event.h"
#include "sources/elf/library.h"
#include "pipeline/inside/inside.h"

struct gs_func_set;
struct gs_hang_found; /* analysis/hang */
struct gs_reader;
struct gs_uprobe;
struct trace_budget; /* trace_budget.h */
struct trace_output;

/* stacks reads files for native stacks; borrowed, may be NULL. */
int trace_output_new(const struct trace_options *options, const char *attach_mode,
		     const char *target, const struct gs_func_set *funcs, struct gs_reader *stacks,
		     struct trace_output **ret_output, struct gs_err *err);

/* What is seen from inside, for the output; borrowed. Before the first event. */
void trace_output_set_inside(struct trace_output *output, struct gs_inside *inside);

/* gs_inside_attaches(), _next_late() and _exec(). Control thread. */
int trace_output_attaches(struct trace_output *output, pid_t pid, const char *path);
pid_t trace_output_next_late(struct trace_output *output, struct gs_inside_late *ret_late);

/* gs_inside_expect_python(), _sees_python() and _give_python_up(). Control thread. */
void trace_output_expect_python(struct trace_output *output, pid_t pid);
bool trace_output_sees_python(struct trace_output *output, pid_t pid);
void trace_output_give_python_up(struct trace_output *output, pid_t pid);
void trace_output_exec(struct trace_output *output, pid_t pid, uint64_t mono_ns);

/* Hand it what comes from now on; borrowed. */
void trace_output_set_budget(struct trace_output *output, struct trace_budget *budget);

/* Everything from the probe goes here; any thread, serialised inside. */
void trace_output_attach(struct trace_output *output, const struct gs_attach *attach);
void trace_output_loss(struct trace_output *output, unsigned layer, enum gs_loss cause,
		       const char *detail, uint64_t count);

/* A followed process was born or runs a new program: read its names while it lives. */
void trace_output_process(struct trace_output *output, pid_t pid);

/* Have calls of the process been recorded? Any thread. */
bool trace_output_has_process(struct trace_output *output, uint32_t pid);

/* Records that were made elsewhere, whole ones that name nothing else: samples. Any thread. */
void trace_output_records(struct trace_output *output, const void *data, size_t bytes);

/* What GPUs did for a process, as its own profiler recorded it. Any thread. */
struct gs_kineto_work; /* pipeline/kineto */
void trace_output_gpu_work(struct trace_output *output, uint32_t pid,
			   const struct gs_kineto_work *work);

/* It runs an interpreter whose stacks are read. Control thread. */
void trace_output_python(struct trace_output *output, pid_t pid);

/* It has mapped code. */
void trace_output_map(struct trace_output *output, pid_t pid, uint64_t mono_ns,
		      const struct gs_mapping *mapping);

/* Read what the kernel side has; harvest: also its cells, losses, and flush. */
void trace_output_glance(struct trace_output *output, struct gs_uprobe *probe); /* for the budget */
/* True: there is much of it, come back soon. */
bool trace_output_poll(struct trace_output *output, struct gs_uprobe *probe, bool harvest);
void trace_output_stop(struct trace_output *output, struct gs_uprobe *probe);

/* A hang that was found or has ended since; its ranks are the caller's to free. False: none. Any thread. */
bool trace_output_next_hang(struct trace_output *output, struct gs_hang_found *ret_found);

/* Keep it, with the stacks of the first n_stacks of its ranks. Any thread. */
struct gs_hang_watch_stacks; /* gs_hang_watch.h */
void trace_output_hang(struct trace_output *output, const struct gs_hang_found *found,
		       const struct gs_hang_watch_stacks *stacks, size_t n_stacks);

/* --keep-last: as trace_keep_ask(), _ask_signal() and _take(). Any thread. */
struct trace_keep_copy; /* trace_keep.h */
void trace_output_ask_keep(struct trace_output *output, enum trace_keep_on on, const char *why);
struct signalfd_siginfo;
void trace_output_ask_keep_signal(struct trace_output *output,
				  const struct signalfd_siginfo *signal);
struct trace_keep_copy *trace_output_take_keep(struct trace_output *output);

struct trace_progress {                 /* as of the last harvest */
	uint64_t calls[GS_LAYER_COUNT]; /* by enum gs_layer */
	uint64_t lost;                  /* calls that are missing from the trace */
	/* Of the thread that has waited longest for the GPU: of its wall time, 0 to 1; negative: none
	 * has, or it is not looked at. */
	double gpu_wait_ratio;
};

/* As of the last harvest. Any thread. */
void trace_output_progress(struct trace_output *output, struct trace_progress *ret_progress);

/* From now on the wait for the GPU is looked at with each harvest. Before the first event. */
void trace_output_want_gpu_wait(struct trace_output *output);

/* What --estimate found, where the summary would go. 0, or the error (said already). */
int trace_output_write_plan(const struct trace_output *output);

/* Ends the stream and closes the files. 0, or the first error (said already). */
int trace_output_end(struct trace_output *output, int exit_status, const char *reason);

/* With --head: waits for delivery, some seconds at most. 0, or -ENOBUFS when records are lost (said
 * already). */
int trace_output_deliver(struct trace_output *output);

/* The findings that were not shown yet, and how many there were. 0 or negative errno. Only where the options
 * want findings. */
int trace_output_end_findings(struct trace_output *output);

/* Writes the summary where the options want it. 0 or negative errno (said already). */
int trace_output_summary(struct trace_output *output);

void trace_output_free(struct trace_output **output); /* closes what is open */

#endif
