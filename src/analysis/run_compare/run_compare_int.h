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

/* Mean over the kept blocks, and how sure it is. */
struct run_estimate run_compare_estimate(const double *values, const bool *kept, unsigned n);

/* Of a side: runs of one estimate each. other: the other side, whose spread between runs stands in where this
 * one has a single run. */
struct run_estimate run_compare_combine(const struct run_estimate *runs, size_t n,
					const struct run_estimate *other, size_t n_other);

/* The one less the other. */
struct gs_run_compare_value run_compare_subtract(struct run_estimate a, struct run_estimate b);

/* Half of the 95 % interval of an estimate. */
double run_compare_plus_minus(double variance, double freedom);

/* The item of that kind and name, made when it is new. NULL: no memory, or too many (counted). */
struct run_item *run_compare_item(struct gs_run_compare_run *run, enum gs_run_compare_kind kind,
				  const char *name);
const struct run_item *run_compare_find_item(const struct gs_run_compare_run *run,
					     enum gs_run_compare_kind kind, const char *name);

#endif
