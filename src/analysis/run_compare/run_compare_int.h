/* What the files of the room share. Inside the room only. */
#ifndef GS_ANALYSIS_RUN_COMPARE_RUN_COMPARE_INT_H
#define GS_ANALYSIS_RUN_COMPARE_RUN_COMPARE_INT_H

#include "analysis/run_compare/run_compare.h"
#include "core/base/map.h"

struct run_item {
	enum gs_run_compare_kind kind;
	char *name;                                          /* owned */
	double ns[GS_RUN_COMPARE_BLOCKS];                    /* of a step of that block */
	double calls[GS_RUN_COMPARE_BLOCKS];                 /* likewise */
	uint64_t now_ns, now_calls, before_ns, before_calls; /* sums until a bound */
	bool spread_unknown; /* ns is the mean of all blocks in each */
};

struct run_gpu {                               /* gpu.c */
	struct gs_run_compare_window *windows; /* owned */
	size_t n_windows;
	struct run_gpu_step *steps; /* owned; those within windows */
	size_t n_steps;
	unsigned n_blocks; /* of them; 0: too few steps */
	double n_in_block[GS_RUN_COMPARE_BLOCKS], step_ns[GS_RUN_COMPARE_BLOCKS];
	bool kept[GS_RUN_COMPARE_BLOCKS];
	struct run_gpu_device *devices; /* owned */
	size_t n_devices, devices_capacity;
	uint64_t n_lost; /* pieces of work, at least */
};

struct run_whole {            /* whole.c */
	uint64_t duration_ns; /* 0: no command that ended by itself */
	uint64_t part_ns[GS_PART_COUNT];
	bool has_account; /* part_ns is known */
};

#define RUN_GPU_IDLE "idle" /* ends the names of such items */

struct gs_run_compare_run {
	char *file, *command, *host, *anchor, *comm; /* owned */
	uint32_t pid, tid, mode;
	uint64_t cost_ppm, n_lost;
	bool cost_known, complete;
	size_t n_steps;
	unsigned n_blocks; /* 0: too few steps */
	uint64_t bound_ns[GS_RUN_COMPARE_BLOCKS + 1];
	double n_in_block[GS_RUN_COMPARE_BLOCKS]; /* steps */
	double step_ns[GS_RUN_COMPARE_BLOCKS];    /* the mean of each */
	bool kept[GS_RUN_COMPARE_BLOCKS];         /* not trimmed */
	bool has_account, has_python, has_partial;
	bool no_memory;                              /* for an item */
	uint64_t wall_ns[GS_RUN_COMPARE_BLOCKS + 1]; /* of the account, until each bound */
	uint64_t part_ns[GS_RUN_COMPARE_BLOCKS + 1][GS_PART_COUNT];
	struct run_gpu gpu;
	struct run_whole whole;
	struct run_item *items; /* owned */
	size_t n_items, capacity, n_left_out;
	struct gs_map by_key; /* index in items */
};

struct run_estimate {
	double mean, variance; /* of the mean; NAN: not known */
	double freedom;        /* degrees of it */
};

/* Blocks at each end that are trimmed. */
unsigned run_compare_n_trimmed(unsigned n_blocks);

/* Of so many steps: at least four in a block where there are enough of them. 0: too few. */
unsigned run_compare_n_blocks(size_t n_steps);

/* Which blocks are not trimmed, by the length of a step in each. */
void run_compare_trim(const double *step_ns, unsigned n_blocks, bool *kept);

/* What it owns. */
void run_compare_free_gpu(struct run_gpu *gpu);

/* What is kept of the whole recording. */
void run_compare_set_whole(struct gs_run_compare_run *run, const struct gs_summary *whole);

/* The first run that is no command that ended by itself; NULL: none. */
const struct gs_run_compare_run *
run_compare_without_whole(const struct gs_run_compare_run *const *runs, size_t n);

/* Compares whole runs, all of which have one: fills result->whole and adds items. 0 or -ENOMEM. */
int run_compare_whole(struct gs_run_compare_result *result);

/* The same in words, to stand before the reason why there is no step time: "whole runs ...; ", or "". */
void run_compare_put_whole(const struct gs_run_compare_result *result, char *out, size_t bytes);

/* Is it of GPUs' own times, and thus of the blocks in struct run_gpu? */
static inline bool run_compare_is_gpu(enum gs_run_compare_kind kind)
{
	return kind >= GS_RUN_COMPARE_GPU;
}

/* Mean over the kept blocks, and how sure it is. */
struct run_estimate run_compare_estimate(const double *values, const bool *kept, unsigned n);

/* Of a side: runs of one estimate each. other: the other side, whose spread between runs stands in where this
 * one has a single run. */
struct run_estimate run_compare_combine(const struct run_estimate *runs, size_t n,
					const struct run_estimate *other, size_t n_other);

/* The one less the other. */
struct gs_run_compare_value run_compare_subtract(struct run_estimate a, struct run_estimate b);

/* changed more than base, in percent of base, which is above 0. */
struct gs_run_compare_value run_compare_percent(struct run_estimate base,
						struct run_estimate changed);

/* Half of the 95 % interval of an estimate. */
double run_compare_plus_minus(double variance, double freedom);

/* The item of that kind and name, made when it is new. NULL: no memory, or too many (counted). */
struct run_item *run_compare_item(struct gs_run_compare_run *run, enum gs_run_compare_kind kind,
				  const char *name);
const struct run_item *run_compare_find_item(const struct gs_run_compare_run *run,
					     enum gs_run_compare_kind kind, const char *name);

#endif
