/*
 * The kernel's counters of the processes of jobs, for the agent and for `gpuscope job` alike.
 *
 * Each row of the kernel's tables is a process. A row counts to the job that its process was
 * followed for, and what a process starts counts to the same job, also when it has ended before a
 * reader could look at it. The rows of ended processes are added to the sums of their job and
 * rank, and the kernel has their places for others: it has room for some thousands.
 *
 * A sum is what ended processes did plus what the rows of the last reading have. The start of
 * a process distinguishes it from others that get its number later.
 *
 * One thread at a time.
 */
#ifndef GS_ANALYSIS_JOB_ROWS_ROWS_H
#define GS_ANALYSIS_JOB_ROWS_ROWS_H

#include <stdbool.h>

#include "core/base/err.h"
#include "model/node/job_usage.h"
#include "model/trace/taskstats_rows.h"
#include "sources/taskstats/taskstats.h"

#define GS_ROWS_NO_JOB     UINT32_MAX
#define GS_ROWS_NO_RANK    0          /* not known, or not yet: it is asked for again */
#define GS_ROWS_NEVER_RANK UINT32_MAX /* there is no room for its rank */

struct gs_rows;

struct gs_rows_options {
	struct gs_taskstats_options probe; /* families, system calls, room */
	uint32_t n_jobs;                   /* jobs are numbers below this */
	/* The rank of a living process of the job, as index plus one, or one of the two values
	 * above. Processes without one are of the rank of the process that started them. */
	uint32_t (*find_rank)(void *ctx, uint32_t job, uint32_t pid);
	/* A process of this rank ended, and its row was given back. */
	void (*add_ended)(void *ctx, uint32_t job, uint32_t rank, const struct gs_taskstats *work);
	/* The job of a living process that was not followed for one, or GS_ROWS_NO_JOB. NULL:
	 * none. find_first: ask before the jobs of its ancestors are looked at, not after. */
	uint32_t (*find_job)(void *ctx, uint32_t pid);
	bool find_first;
	void *ctx;
};

/* Negative with the reason: not permitted, or not supported by this kernel. */
int gs_rows_open(const struct gs_rows_options *options, struct gs_rows **ret_rows,
		 struct gs_err *err);
void gs_rows_close(struct gs_rows **rows);

/* The process belongs to this job; its children follow by themselves. rank: as find_rank returns
 * it. It is followed from the next gs_rows_flush() on: all of a search at once, for each
 * time the kernel looks at every task. */
void gs_rows_follow(struct gs_rows *rows, uint32_t pid, uint32_t job, uint32_t rank);

/* The process starts those of this job and is none of them: its children count, it does not. */
void gs_rows_follow_holder(struct gs_rows *rows, uint32_t pid, uint32_t job);

/* Follow those, too. The moment (boot clock) from which they count; 0: there were none. */
uint64_t gs_rows_flush(struct gs_rows *rows);

/* Read the counters of all. 0, or a negative errno. */
int gs_rows_read(struct gs_rows *rows, struct gs_err *err);

/* Give back the rows of ended processes, where there are enough of them or some are old. The last
 * reading is gone then, and sums need another. */
void gs_rows_fold(struct gs_rows *rows);

/* For those who read sums at the end only: once in a while read, and give back as above. */
void gs_rows_poll(struct gs_rows *rows);

/* Until the next reading, which comes in seconds, little memory is held. */
void gs_rows_rest(struct gs_rows *rows);

/* The job has ended: its sums are 0, and its place is free for another. */
void gs_rows_end_job(struct gs_rows *rows, uint32_t job);

/* The moment (boot clock) that the last reading is of; 0 before the first. */
uint64_t gs_rows_read_ns(const struct gs_rows *rows);

/* Since when (boot clock) the threads that a job has were counted at the last reading, in the mean:
 * on a busy machine it takes a while until all are followed. 0: their times are not counted. */
uint64_t gs_rows_since_ns(const struct gs_rows *rows, uint32_t job);

/* Whether a row of the last reading is of this process, which lived then. */
bool gs_rows_has(const struct gs_rows *rows, uint32_t pid);

/* Its job and rank (index plus one). False: it was not there, or has no rank. */
bool gs_rows_rank_of(const struct gs_rows *rows, uint32_t pid, uint32_t *ret_job,
		     uint32_t *ret_rank);

struct gs_rows_sum {                   /* of a job; holders do not count */
	struct gs_taskstats work;      /* since each process was followed */
	struct gs_job_pace pace;       /* of its processes, one by one */
	uint32_t n_processes, n_alive; /* seen so far; at the last reading */
	uint32_t any_pid;              /* one of those alive; 0 none */
};

/* elapsed_ns: the most that a living process can have been followed. */
void gs_rows_sum(const struct gs_rows *rows, uint32_t job, uint64_t elapsed_ns,
		 struct gs_rows_sum *ret_sum);

/* The pace of the last part of a job, which begins at the mark before the last; without two marks,
 * when each process was followed, which was elapsed_ns ago at most. */
void gs_rows_recent(const struct gs_rows *rows, uint32_t job, uint64_t elapsed_ns,
		    struct gs_job_pace *ret_pace);

/* Make a mark of what each process has done by the last reading. */
void gs_rows_mark(struct gs_rows *rows, uint32_t job);

struct gs_rows_calls {                     /* begins as all 0 */
	struct gs_taskstats_call_row *row; /* owned; one of each id */
	size_t n_rows;
};

void gs_rows_calls_fini(struct gs_rows_calls *calls); /* it is empty then */

/* The job's system calls, and its devices, file systems and peers, are added to what is there. 0 or
 * -ENOMEM. */
int gs_rows_add_calls(const struct gs_rows *rows, uint32_t job, struct gs_rows_calls *calls);
int gs_rows_add_tables(const struct gs_rows *rows, uint32_t job,
		       struct gs_taskstats_tables *tables);

/* Every row of the last reading that has a rank of this job (index plus one). */
void gs_rows_visit_ranks(const struct gs_rows *rows, uint32_t job,
			 void (*visit)(void *ctx, uint32_t rank, const struct gs_taskstats *work),
			 void *ctx);

/* Every living process of the job, as of the last reading; start_ns: boot clock. */
void gs_rows_visit_processes(const struct gs_rows *rows, uint32_t job,
			     void (*visit)(void *ctx, uint32_t pid, uint64_t start_ns,
					   const struct gs_taskstats *work),
			     void *ctx);

/* enum gs_taskstats_family, ored: those that are counted. */
uint32_t gs_rows_families(const struct gs_rows *rows);

/* Bytes of requests to devices that have not ended, as far as was seen. */
uint64_t gs_rows_open_bytes(const struct gs_rows *rows);

/* As of the last reading. */
const struct gs_taskstats_losses *gs_rows_lost(const struct gs_rows *rows);
uint64_t gs_rows_not_followed(const struct gs_rows *rows);

/* The same in words; "" nothing. And what this kernel does not have. */
void gs_rows_losses(const struct gs_rows *rows, char *out, size_t bytes);
const char *gs_rows_missing(const struct gs_rows *rows);

#endif
