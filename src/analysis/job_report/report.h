/*
 * Reports of jobs: what was measured, the verdict on it, and how that is written: as
 * ebpf-hpc-monitor documents it (JSON, YAML, CSV), with more keys of ours, or as a table.
 */
#ifndef GS_ANALYSIS_JOB_REPORT_REPORT_H
#define GS_ANALYSIS_JOB_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/node/job.h"
#include "model/node/job_mpi.h"
#include "model/node/job_usage.h"
#include "model/trace/taskstats_rows.h"
#include "analysis/rules/verdict.h"

struct gs_job_report_call {                       /* a system call of the job */
	char name[48];                            /* "read" */
	uint64_t calls, errors, total_ns, max_ns; /* errors: calls that failed */
	uint64_t timed;                   /* of the calls; total_ns and hist speak for all */
	uint32_t hist[GS_TASKSTATS_LOG2]; /* 2^i .. 2^(i+1) ns */
};

struct gs_job_report_rank { /* a task of a step, with all that it started; NAN unknown */
	char step[24];
	int32_t rank;         /* its number in the step */
	uint32_t n_processes; /* that were seen */
	double cpu_s;
	double wait_s;     /* of its threads, off the processors for any cause but want of one */
	double gpu_wait_s; /* of that: in the GPU's driver */
	double gpu_ratio;  /* its share of its GPU's time, mean */
	int64_t gpu_memory_bytes; /* highest; -1 unknown */
	double file_bytes, net_bytes;
};

struct gs_job_report_imbalance {
	const char *of;     /* "cpu_seconds", "gpu_ratio"; "": there is nothing to compare */
	double ratio;       /* the largest over the mean */
	int32_t rank;       /* that has it */
	char evidence[256]; /* the same as a sentence with figures */
};

#define GS_JOB_COMMAND_BYTES 1024

struct gs_job_report {                      /* one job */
	struct gs_job job;                  /* who it is */
	char command[GS_JOB_COMMAND_BYTES]; /* of a process tree: its root's arguments; "" */
	struct gs_job_usage usage;          /* what it used */
	struct gs_figures figures;          /* the same as figures */
	struct gs_verdict verdict;          /* on these */
	uint32_t *pids; /* owned; rising: watched at the end, or all when it had ended */
	size_t n_pids;
	uint32_t n_processes_seen;
	bool ended; /* no process was left at the end */
	/* Owned; of its largest step, by number; of one task: none. */
	struct gs_job_report_rank *ranks;
	size_t n_ranks;
	struct gs_job_report_imbalance imbalance; /* gs_job_report_judge_ranks() */
	struct gs_job_report_call *calls;         /* owned; by time, largest first */
	size_t n_calls;
	bool calls_partial;                /* only the longest are in it: they do not add up */
	struct gs_taskstats_tables tables; /* devices, file systems, peers; most bytes first */
	struct gs_job_mpi mpi;             /* owned; no ranks: nothing called MPI, or unknown */
};

struct gs_doc; /* core/text/doc.h */

struct gs_job_report_session {
	int64_t start_wall_ns, end_wall_ns;
	uint64_t elapsed_ns;
	char host[65], kernel[65], slurm_version[32]; /* name, release; "" without Slurm */
	int32_t n_cpus;
	int64_t memory_bytes;
	bool ebpf, slurm, live; /* probes counted; Slurm was there; it was shown meanwhile */
	bool unfinished; /* saved by a recorder that goes on: what is left when it is killed */
	char filter[32]; /* as it was given; "" none */
	/* How each family was learned, or why it was not: "procfs, ...". */
	char source[GS_JOB_KNOWS_COUNT][320];
	char ranks_source[160]; /* likewise of ranks; "" as the others */
	uint64_t failed_reads;
	/* Of the whole machine, as a part of the interval; NAN unknown. */
	double pressure_ratio[GS_STALL_COUNT];
	uint64_t open_bytes; /* of requests at devices whose end was not seen, in no figure */
	char loss[1024];     /* what was lost, in words; "" nothing */
	struct gs_job_report *jobs; /* owned */
	size_t n_jobs;
	/* Members that JSON and YAML have beside those of a job, the last ones. NULL: none. */
	void (*put_more)(void *ctx, struct gs_doc *doc, const struct gs_job_report *job);
	void *more_ctx; /* of it */
};

/* A rank by what it and what it started did; nothing of its GPU. */
void gs_job_report_rank_of(const struct gs_taskstats *work, const char *step, int32_t rank,
			   uint32_t n_processes, struct gs_job_report_rank *ret_rank);

/* Frees the jobs and what they hold. */
void gs_job_report_session_fini(struct gs_job_report_session *session);

/* The imbalance of the ranks, into the report and its usage: before the figures. */
void gs_job_report_judge_ranks(struct gs_job_report *job);

/* The figures of what was used. */
void gs_job_report_figures_of(const struct gs_job_usage *usage, struct gs_figures *ret_figures);

/* Ns that all its processors together offered. */
double gs_job_report_core_ns(const struct gs_job_usage *usage);

enum gs_job_report_format {
	GS_JOB_TABLE = 0,
	GS_JOB_JSON = 1,
	GS_JOB_CSV = 2,
	GS_JOB_YAML = 3,
	GS_JOB_HTML = 4,
};

/* "table", "json", "csv", "yaml", "html"; by name or as the suffix of a path. -EINVAL. */
int gs_job_report_format_parse(const char *name, enum gs_job_report_format *ret_format);
int gs_job_report_format_of_path(const char *path, enum gs_job_report_format *ret_format);

struct gs_job_report_delivery;

struct gs_job_report_style {
	enum gs_job_report_format format; /* what the fields below are for is said at each */
	unsigned width;                   /* columns of the terminal, 0 no limit */
	bool color;                       /* ANSI colours in tables */
	bool verbose;                     /* tables: every figure, call and source */
	bool syscalls;                    /* the breakdown by system call */
	bool advice;                      /* recommendations */
	int precision;                    /* digits after the point; -1: as they are */
	unsigned n_jobs;                  /* most jobs in a table; 0 all */
	/* JSON of one that is sent to a head: which it is (delivery.h), and that rows were left
	 * out of its tables. NULL: of others. */
	const struct gs_job_report_delivery *delivery;
	bool trimmed;
};

/* 0, or a negative errno of writing. */
int gs_job_report_write(FILE *out, const struct gs_job_report_session *session,
			const struct gs_job_report_style *style);

/* The live table: a line for each job. 0, or the first error of writing. */
int gs_job_report_live_write(FILE *out, const struct gs_job_report_session *session,
			     const struct gs_job_report_style *style);

/* Calls on files and on sockets, of all that is in the list; -1 when calls are not known. */
int64_t gs_job_report_io_calls(const struct gs_job_report *job);
int64_t gs_job_report_net_calls(const struct gs_job_report *job);

#endif
