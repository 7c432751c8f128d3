/* What a summary says of the steps of a run. Times in ns; texts as in summary.h. */
#ifndef GS_MODEL_SUMMARY_STEP_H
#define GS_MODEL_SUMMARY_STEP_H

#include <stdint.h>

#define GS_STEP_SEVERAL "traced calls" /* which of them is not known */

/* From each call of an anchor to the next (pipeline/aggregate/step.c). */
struct gs_step_summary {
	uint64_t n_steps, n_odd; /* found, 0: none; of these with unusual calls, left out below */
	unsigned slot; /* which they are among those that gs_aggregate reports one by one ... */
	uint32_t run;  /* ... and of which run; 0 none */
	uint32_t pid, tid;
	const char *comm, *anchor;     /* of the thread; the function */
	uint64_t median_ns, p95_ns;    /* off by GS_HIST_ERROR_PCT at most */
	uint64_t max_ns, max_start_ns; /* the slowest; from the start of the trace */
	const char *longer; /* in it a function or GS_STEP_SEVERAL, "": outside of calls */
	uint64_t longer_ns, longer_mean_ns; /* there, and in the mean of all */
	uint8_t by_marks;             /* calls were added up: by marks, from return to return */
	uint64_t off_ns, off_mean_ns; /* by_marks: without a processor, likewise */
};

#endif
