/*
 * The ranks of a job beside each other: for each part of the account and each function the least,
 * the median and the most of them, and the one that is unlike the others.
 */
#ifndef GS_OUTPUT_REPORT_SUMMARY_RANKS_H
#define GS_OUTPUT_REPORT_SUMMARY_RANKS_H

#include "core/text/page.h"
#include "output/report/summary_int.h"

struct gs_rank {
	uint32_t pid;
	int32_t rank;                             /* -1: not known */
	const struct gs_process_summary *process; /* lent by the summary */
	const struct gs_account_thread *thread;   /* that sets its pace; NULL not known */
	uint64_t wall_ns;
};

struct gs_ranks {
	struct gs_rank *items; /* owned; by rank, then process */
	size_t n;              /* ranks */
};

/* The processes that do the same work: those with a rank in NCCL or MPI, else all that made calls.
 * 0 or -ENOMEM. */
int gs_report_ranks_find(const struct gs_summary *summary, struct gs_ranks *ret_ranks);
void gs_report_ranks_fini(struct gs_ranks *ranks);

/* How a value is spread over the ranks: its min, median and max. */
struct gs_spread {
	double min, median, max;
	size_t at_max; /* index of a rank */
	size_t odd;    /* the one that is unlike the others, SIZE_MAX: none */
};

/* least: distances from the median below it make no rank unlike the others. n > 0. 0 or -ENOMEM. */
int gs_report_spread_find(const double *values, size_t n, double least,
			  struct gs_spread *ret_spread);

/* "3", or the process where ranks are not known. */
const char *gs_report_rank_name(const struct gs_rank *rank, char out[16]);

/* Two cells: where the most is, and which rank is unlike the others. */
void gs_report_summary_put_odd(struct gs_grid *grid, const struct gs_ranks *ranks,
			       const struct gs_spread *spread);

/* The account of all, instead of that of one thread, and how late each is at collectives; false: fewer than two are accounted for. */
bool gs_report_summary_ranks_account(struct gs_page *page, const struct gs_summary *summary,
				     const struct gs_ranks *ranks);

#endif
