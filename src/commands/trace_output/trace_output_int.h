/* What a trace's events become (trace_output.h), for the files of this room that open and end it. */
#ifndef GS_COMMANDS_TRACE_OUTPUT_TRACE_OUTPUT_INT_H
#define GS_COMMANDS_TRACE_OUTPUT_TRACE_OUTPUT_INT_H

#include <pthread.h>

#include "commands/trace_output/trace_layers.h"
#include "commands/trace_output/trace_output.h"
#include "commands/trace_output/trace_spans.h"
#include "commands/trace_output/trace_stress.h"
#include "sources/uprobe/uprobe.h"

struct file_output {
	const char *path;
	struct gs_export *export;     /* owned; or: */
	struct gs_recording *journal; /* owned */
};

struct trace_output {
	pthread_mutex_t lock;
	const struct trace_options *options;
	struct gs_identity *place;
	struct gs_ingest *feed;
	struct gs_correlate *span;
	struct gs_aggregate_kernels *kernels; /* owned; NULL: launches of all kernels */
	struct gs_aggregate *view;
	struct gs_findings *findings; /* owned; NULL: not wanted */
	struct trace_budget *budget;  /* borrowed; NULL none */
	struct gs_inside *inside;     /* borrowed; NULL: all is seen by probes */
	struct trace_layers layers;
	struct trace_source *source; /* owned; the control thread's alone */
	struct gs_hang_watch *hang;  /* owned; NULL: hangs are not looked for */
	struct file_output files[TRACE_MAX_OUTPUTS];
	size_t n_files;
	struct trace_spans spans;
	struct trace_head *head;        /* owned; NULL none */
	struct gs_uprobe_losses losses; /* of the kernel side */
	struct {
		int64_t counted;      /* by the kernel side */
		int64_t timed_inside; /* of these, in processes that are seen from inside */
		int64_t reported;
	} untimed; /* calls of Python functions */
	bool wants_gpu_wait;
	struct trace_progress progress;
	struct trace_stress stress;
	struct trace_keep *keep; /* owned; NULL: files are written as it comes */
};

/* enum gs_output_flag of files of this trace: root traces others, unless it runs the command. */
unsigned trace_output_flags(const struct trace_options *options);

/* Work that is not done at the end, for the files that show streams. */
void trace_output_report_pending(struct trace_output *output);

#endif
