/* What a summary says of Python: lines, functions, loaders of data. Times in ns; texts as in summary.h. */
#ifndef GS_MODEL_SUMMARY_PYTHON_H
#define GS_MODEL_SUMMARY_PYTHON_H

#include <stdint.h>

#include "model/trace/account.h"

/* A line of Python code: the samples that found it running, and the calls that came from it. Calls
 * belong to the line that their stack is shown as. */
struct gs_line_stats {
	const char *file;                 /* "" unknown */
	const char *function;             /* that the line is in */
	uint32_t line;                    /* 0 unknown */
	uint64_t samples, sample_ns;      /* at the line itself */
	uint64_t total_samples, total_ns; /* and in what it called */
	/* That came from it; calls: of all kinds. */
	uint64_t calls, launches, collectives, copies, allocs;
	uint64_t bytes; /* of those that succeeded */
	uint64_t call_ns;
	uint64_t slow_ops, op_ns; /* operators of which a stack was taken for their length */
	/* Off its processor: at the line itself, by enum gs_wait_cause, and in what it called, too. */
	uint64_t wait_ns, wait_by_cause_ns[GS_WAIT_COUNT], total_wait_ns;
	uint64_t wall_ns;     /* of the threads that it was seen in; 0 unknown */
	const uint32_t *pids; /* of the processes in whose stacks it is, each once */
	uint32_t n_pids;      /* 0: not known, or more than 64 */
	const char *source;   /* its text, without the blanks around it; NULL unknown */
};

/* A Python function of which each call was traced. */
struct gs_python_function {
	const char *name; /* "model.py:forward/12" */
	const char *file; /* its source */
	uint32_t line;    /* its first; 0 unknown */
	uint64_t calls;   /* entries: of a generator or coroutine one each time it goes on */
	uint64_t resumes; /* of these */
	uint64_t total_ns, self_ns, max_ns;
	uint64_t p50_ns, p95_ns, p99_ns;
	uint64_t launches; /* in it and in what it called */
};

/* Samples of Python code that had PyTorch's data loader on the stack. */
struct gs_loader_summary {
	uint64_t self_samples;   /* in the thread that asks for batches, in its own iterator */
	uint64_t worker_samples; /* in worker processes */
	uint64_t other_samples;  /* of all other code */
	/* The line at which most of both was; file NULL: no sample. */
	const char *file, *function;
	uint32_t line; /* 0 unknown */
	uint64_t line_samples;
	/* The thread that waited longest in its own iterator, for anything but the GPU, a processor
	 * or the interpreter's lock; 0: none. */
	uint64_t wait_ns;
	uint32_t wait_pid, wait_tid;
};

#endif
