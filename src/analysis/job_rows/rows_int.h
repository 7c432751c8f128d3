/* Among the files of rows.h: the processes, and what is added up. */
#ifndef GS_ANALYSIS_JOB_ROWS_ROWS_INT_H
#define GS_ANALYSIS_JOB_ROWS_ROWS_INT_H

#include "analysis/job_rows/rows.h"
#include "core/base/map.h"

#define NO_ROW SIZE_MAX

enum { ROWS_MARK_BASE, ROWS_MARK_LAST, ROWS_MARKS }; /* the one before the last; the last */

struct rows_mark; /* rows_sum.c */

struct rows_process { /* one that has a row, or had one at the reading before */
	uint64_t key; /* of pid and start */
	uint32_t pid, parent_pid;
	uint32_t job;     /* or GS_ROWS_NO_JOB */
	uint32_t rank;    /* as find_rank returns it */
	uint32_t reading; /* the last one that had it */
	uint8_t n_asked;  /* how often its rank was asked for */
	bool is_alive, is_holder, is_new;
	bool has_workers;    /* children that live as it does */
	bool is_worker;      /* such a child */
	size_t parent;       /* the process that started it and is of its job; NO_ROW */
	uint64_t workers_ns; /* what its children were at work: see add_pace() */
	size_t row;          /* of the last reading; NO_ROW */
	/* Owned; ROWS_MARKS: what it had done then. NULL: it was not there. */
	struct rows_mark *mark;
};

struct rows_ended { /* what processes of a job did whose rows were given back */
	struct gs_taskstats work;
	struct gs_job_pace pace;
	struct gs_rows_calls calls;
	struct gs_taskstats_tables tables;
	uint32_t n_processes;
	struct gs_job_pace recent[ROWS_MARKS]; /* what they did since each mark */
	uint64_t marked_ns[ROWS_MARKS];        /* when that was, boot clock; 0: never */
};

struct gs_rows {
	struct gs_rows_options options;
	struct gs_taskstats_probe *probe;
	struct gs_taskstats_snapshot *now; /* owned; NULL: no reading, or it was given back */
	uint32_t families, reading;
	struct rows_process *process; /* owned */
	size_t n_processes, capacity;
	struct gs_map by_key, by_pid; /* -> process; of one pid the one that lives */
	struct gs_map asked, holders; /* pid -> job << 32 | rank; -> nothing: not read since */
	uint32_t *pending;            /* owned: to be followed at the next flush */
	size_t n_pending, pending_room;
	struct rows_ended *ended; /* owned; options.n_jobs */
	struct gs_taskstats_losses lost;
	uint64_t n_not_followed, read_ns, poll_ns, fold_ns; /* boot clock */
	char missing[200];
};

static inline bool rows_has_rank(const struct rows_process *p)
{
	return p->rank != GS_ROWS_NO_RANK && p->rank != GS_ROWS_NEVER_RANK;
}

/* The living process with this pid; else one that had it. NULL: none had. */
struct rows_process *rows_process_of_pid(const struct gs_rows *k, uint32_t pid);

/* A job has ended: its sums are 0. */
void rows_clear_ended(struct rows_ended *e);

#endif
