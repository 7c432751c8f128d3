/*
 * Differences between recorded runs: how long a step takes in each, with a 95 % confidence interval of
 * the difference, and which part of it is where: by part of the wall-clock account, operator, call,
 * Python function and line of the thread that makes the steps.
 *
 * A run is cut into blocks of successive steps, and of each block only its mean step counts: successive
 * steps are alike, and their own spread would make the interval too narrow (batch means; Law and Kelton,
 * "Simulation Modeling and Analysis"). Of the blocks a fifth at each end is trimmed, and two runs are
 * compared by Yuen's test (Biometrika 61, 1974): some long steps (a checkpoint, the first step) move
 * neither the difference nor its interval much. With several runs on a side the spread between these
 * runs counts, too (Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013): what
 * differs between equal runs is seen in no single one. With a single run on each side that spread is taken
 * to be as large as what is not known of the mean of each, and no difference below GS_RUN_COMPARE_LEAST is
 * claimed.
 *
 * Where a run has too few steps, whole commands are compared: how long they ran, and where their pace-setting
 * threads spent it. A run is one value then, and only several on a side show a difference.
 *
 * Where runs carry GPU time (companion, Kineto), the same is said of kernels, streams and GPUs, by steps that lie
 * wholly within windows in which all GPU work is known.
 *
 * In: steps of a run, summaries of all until the end of each block, and GPU work. Out: plain values, and texts.
 */
#ifndef GS_ANALYSIS_RUN_COMPARE_RUN_COMPARE_H
#define GS_ANALYSIS_RUN_COMPARE_RUN_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/text/doc.h"
#include "model/gpu_work/gpu_work.h"
#include "model/summary/summary.h"

#define GS_RUN_COMPARE_LEAST      0.01 /* part of a step */
#define GS_RUN_COMPARE_BLOCKS     32   /* at most */
#define GS_RUN_COMPARE_MIN_BLOCKS 10   /* and so many steps */
#define GS_RUN_COMPARE_ITEMS_MAX  4096 /* places of a run; more are counted */

enum gs_run_compare_kind {
	GS_RUN_COMPARE_WHOLE =
		0, /* of the wall-clock account of the whole run: its pace-setting thread */
	GS_RUN_COMPARE_PART,     /* of the wall-clock account of a step */
	GS_RUN_COMPARE_OPERATOR, /* of PyTorch, with what it called */
	GS_RUN_COMPARE_CALL,     /* any other traced function, with what it called */
	GS_RUN_COMPARE_PYTHON,   /* a Python function itself: running by samples, and waiting */
	GS_RUN_COMPARE_LINE,     /* a line of it, likewise */
	GS_RUN_COMPARE_OTHER, /* a Python function in other threads: running, disk, page faults */
	/* By the GPU's own times, of the steps' process; they may overlap with anything above. */
	GS_RUN_COMPARE_GPU,    /* a GPU: busy, by sort of work, and idle */
	GS_RUN_COMPARE_KERNEL, /* runs of a kernel, and graphs that are known as a whole */
	GS_RUN_COMPARE_STREAM, /* work in a stream of a GPU */
	GS_RUN_COMPARE_KINDS
};

struct gs_run_compare_step { /* boot time */
	uint64_t start_ns, dur_ns;
};

struct gs_run_compare_run; /* what is kept of a run */

/* file is copied. 0 or -ENOMEM. */
int gs_run_compare_new_run(const char *file, struct gs_run_compare_run **ret_run);
void gs_run_compare_free_run(struct gs_run_compare_run **run); /* NULL inside: nothing happens */

/* All steps, in the order of time, and the summary of all of the recording; both lent for the call. Once, and
 * before the bounds. 0 or -ENOMEM. */
int gs_run_compare_set_steps(struct gs_run_compare_run *run,
			     const struct gs_run_compare_step *steps, size_t n,
			     const struct gs_summary *whole);

/* Where blocks begin and the last one ends; 0: too few steps. i: below that number. */
unsigned gs_run_compare_n_bounds(const struct gs_run_compare_run *run);
uint64_t gs_run_compare_bound_ns(const struct gs_run_compare_run *run, unsigned i);

/* All from the begin of the recording until bound i, in their order: of the thread that makes steps, and
 * samples of all others. Lent for the call. 0 or -ENOMEM. */
int gs_run_compare_take(struct gs_run_compare_run *run, unsigned i, const struct gs_summary *own,
			const struct gs_summary *others);

/* A stretch in which all GPU work of a process is known; boot time. */
struct gs_run_compare_window {
	uint64_t from_ns, to_ns;
};

/* Of the process that makes the steps, in the order of time; lent for the call, and the steps once more. Once, after
 * gs_run_compare_set_steps(), and before the work. Never called: GPU time is not known. 0 or -ENOMEM. */
int gs_run_compare_set_windows(struct gs_run_compare_run *run,
			       const struct gs_run_compare_window *windows, size_t n_windows,
			       const struct gs_run_compare_step *steps, size_t n_steps);

/* A piece of that process's work, in any order, its times as the steps'. name: of a kernel, "" when it is not known;
 * lent for the call. 0 or -ENOMEM. */
int gs_run_compare_take_work(struct gs_run_compare_run *run, const struct gs_gpu_work *work,
			     const char *name);

/* After the last piece, once. 0 or -ENOMEM. */
int gs_run_compare_end_work(struct gs_run_compare_run *run);

/* As gs_run_compare_new_run() was given it; the run's own. */
const char *gs_run_compare_file(const struct gs_run_compare_run *run);
size_t gs_run_compare_n_steps(const struct gs_run_compare_run *run); /* all that were found */

struct gs_run_compare_value {
	double mean;       /* NAN: not known */
	double plus_minus; /* half the 95 % interval; NAN: not known */
};

struct gs_run_compare_item {
	enum gs_run_compare_kind kind;
	const char *name;               /* owned by the runs */
	double base_ns, changed_ns;     /* of a step, or of the whole run; 0: not seen there */
	struct gs_run_compare_value ns; /* changed less base */
	/* Of a step; 0 of parts and Python. Of GPUs: pieces of work, stretches of it, gaps. */
	double base_calls, changed_calls;
	double share; /* of the difference of the step; NAN: no difference is shown */
};

enum gs_run_compare_verdict {
	GS_RUN_COMPARE_UNKNOWN = 0, /* reason says why */
	GS_RUN_COMPARE_SAME, /* no difference is shown: there may be one within the interval */
	GS_RUN_COMPARE_SLOWER,
	GS_RUN_COMPARE_FASTER,
};

#define GS_RUN_COMPARE_NOTES      10
#define GS_RUN_COMPARE_NOTE_BYTES 320

struct gs_run_compare_result {
	/* Borrowed. */
	const struct gs_run_compare_run *const *base, *const *changed;
	size_t n_base, n_changed;
	enum gs_run_compare_verdict verdict;
	char reason[GS_RUN_COMPARE_NOTE_BYTES];
	struct gs_run_compare_value base_ns, changed_ns; /* a step */
	struct gs_run_compare_value percent;             /* changed more than base */
	/* Of whole commands, where a run has too few steps (verdict UNKNOWN) and all ended by themselves. */
	struct {
		bool is_known; /* false: nothing else is */
		/* UNKNOWN: one run on each side, so that percent has no interval. */
		enum gs_run_compare_verdict verdict;
		double base_ns, changed_ns; /* means of the sides */
		struct gs_run_compare_value percent;
	} whole;
	struct gs_run_compare_item *items; /* owned; by kind, the largest difference first */
	size_t n_items;
	const struct gs_run_compare_item
		*cause[GS_RUN_COMPARE_KINDS];    /* half or more; NULL: none */
	const struct gs_run_compare_item *named; /* of these, in the headline; NULL: not known */
	/* What a reader has to know to believe it. */
	char notes[GS_RUN_COMPARE_NOTES][GS_RUN_COMPARE_NOTE_BYTES];
	size_t n_notes;
};

/* The runs are lent as long as the result lives; at least one on each side. 0 or -ENOMEM. */
int gs_run_compare_make(const struct gs_run_compare_run *const *base, size_t n_base,
			const struct gs_run_compare_run *const *changed, size_t n_changed,
			struct gs_run_compare_result *ret);
void gs_run_compare_result_fini(struct gs_run_compare_result *result);

/* "step 6.2 % ± 0.8 slower, 71 % of it in collate (loader.py): waiting for disks". Returns out. */
#define GS_RUN_COMPARE_HEADLINE_BYTES 896
const char *gs_run_compare_headline(const struct gs_run_compare_result *result,
				    char out[GS_RUN_COMPARE_HEADLINE_BYTES]);

enum gs_run_compare_format {
	GS_RUN_COMPARE_TABLE = 0,
	GS_RUN_COMPARE_JSON = 1,
	GS_RUN_COMPARE_YAML = 2,
};

/* The same as members of a document that is begun: "version" and what follows. */
void gs_run_compare_put(struct gs_doc *doc, const struct gs_run_compare_result *results, size_t n);

/* "Slower": of the step, or where that is not known of the whole run. */
const char *gs_run_compare_verdict_title(const struct gs_run_compare_result *result);

/* What a kind is, for people: "wall-clock account". */
const char *gs_run_compare_kind_title(enum gs_run_compare_kind kind);

/* Has the item a row where there is no room for all? Not what changed by less than a thousandth of a step, nor, where
 * no difference of the step is shown, what is not of GPUs' own times. */
bool gs_run_compare_has_row(const struct gs_run_compare_result *result,
			    const struct gs_run_compare_item *item);

struct gs_run_compare_style {
	enum gs_run_compare_format format;
	unsigned width; /* of the table, in columns; 0: without limit */
	bool color;
};

/* All of them in one document. 0, or the first error of writing. */
int gs_run_compare_write(FILE *out, const struct gs_run_compare_result *results, size_t n,
			 const struct gs_run_compare_style *style);

#endif
