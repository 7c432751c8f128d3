/*
 * Whose work is this process: the job, step, task and rank of Slurm, or without Slurm the pod,
 * container, unit, group, user or process tree.
 *
 * What this machine says comes first and costs a few small files a process: its cgroup, then its
 * environment. What the process, or a cgroup that is not root's, says is a claim, and is shown as
 * such until it is proven (job_claim.c has the table of who is believed). What only others know
 * (names, limits, which GPUs) is asked for in the background, once a job: gs_jobs_lookup() never
 * waits, the answers come in while gs_jobs_ask() is called. Without Slurm's commands everything
 * else works.
 *
 * One thread at a time. Control bytes in names are '?'.
 */
#ifndef GS_SOURCES_IDENTITY_JOB_H
#define GS_SOURCES_IDENTITY_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/node/gpu.h"
#include "model/node/job.h"

struct gs_jobs;

struct gs_jobs_options {
	size_t size;             /* of this struct, for later versions */
	const char *proc_root;   /* NULL: "/proc" */
	const char *cgroup_root; /* NULL: "/sys/fs/cgroup"; distinguishes the runs of one job */
	/* Folders with Slurm's scontrol, by colons; NULL: /usr/bin:/usr/local/bin:
	 * /opt/slurm/bin:/usr/local/slurm/bin. The environment's PATH is not used. */
	const char *command_path;
	bool no_node;           /* do not ask the slurmd of this node */
	bool no_controller;     /* do not ask slurmctld */
	const char *slurm_conf; /* NULL: $SLURM_CONF, or where Slurm looks for it itself */
	const char *gres_conf;  /* NULL: gres.conf beside slurm.conf, or in /etc/slurm */
	/* Folders of files that a prolog leaves, one a GPU, by colons; NULL: /run/gpustat:
	 * /run/dcgm-job-mapping:/var/run/exporter */
	const char *drop_folders;
	const char *node;    /* this node's name in Slurm; NULL: what processes or uname() say */
	uint64_t cache_ns;   /* how long a process's answer is good; 0: 30 s */
	uint64_t command_ns; /* how long one command may take; 0: 5 s */
	uint64_t (*now_ns)(void); /* boot clock; NULL: the real one */
	uint32_t trusted_uid;     /* whose folders prove as much as root's: of tests without root */
};

/* What could not be had; every failure is one of these. */
struct gs_jobs_stats {
	uint64_t n_commands;         /* started */
	uint64_t n_commands_failed;  /* of them; the next four: without an answer ... */
	uint64_t n_commands_late;    /* ... in time */
	uint64_t n_answers_bad;      /* ... that could be read */
	uint64_t n_answers_long;     /* ... that was bounded */
	uint64_t n_environs_refused; /* no right to read: the rank is not known */
	uint64_t n_environs_long;    /* only their first 2 MiB were read */
	uint64_t n_jobs_full;        /* processes of jobs beyond the 4,096 that are kept */
	uint64_t n_drops_bad;        /* files of a prolog without a job in them, or not root's */
	uint64_t n_claims_left_out;  /* distinct ones, of users who claim too many jobs */
};

/* 0, -EINVAL (an option's folder list is too long) or -ENOMEM. */
int gs_jobs_new(const struct gs_jobs_options *options, struct gs_jobs **ret_jobs,
		struct gs_err *err);
void gs_jobs_free(struct gs_jobs **jobs);

/* The job of a process, read now unless what is known is young enough; NULL: of none, or it is gone
 * and was never seen. A process that ended keeps its answer until its pid is taken by another one
 * (another start time). Lent until the next call of this header. ret_task: its place in the job, empty
 * when there is none; may be NULL. */
const struct gs_job *gs_jobs_lookup(struct gs_jobs *jobs, uint32_t pid,
				    struct gs_job_task *ret_task);

/* Read pid again at its next lookup: after an exec, or when it was moved to another group. */
void gs_jobs_forget(struct gs_jobs *jobs, uint32_t pid);

/* Go on with what is asked in the background, for wait_ns at most (0: only look). How many
 * questions are still open. */
size_t gs_jobs_ask(struct gs_jobs *jobs, uint64_t wait_ns);

/* The job that users call id: "4711", "4711_3", "4711+1" (also by the number that Slurm gave this
 * very task or component), a unit's or user's name, ... The newest run of it; one that is only
 * claimed by its whole id alone. NULL: not known here. */
const struct gs_job *gs_jobs_by_id(struct gs_jobs *jobs, const char *id);

/* What is known now of a job that was seen before; a claim may have been proven. NULL: gone. */
const struct gs_job *gs_jobs_now(struct gs_jobs *jobs, const struct gs_job *job);

struct gs_jobs_process {
	uint32_t pid;
	uint32_t job;            /* index in the list's jobs */
	uint64_t start_ns;       /* boot clock */
	struct gs_job_task task; /* which part of its job it is */
};

struct gs_jobs_list {
	struct gs_job *job; /* owned; by id */
	size_t n_jobs;
	struct gs_jobs_process *process; /* owned; by job, then by pid */
	size_t n_processes;
};

/* Every job on this node with its processes, and jobs that a prolog left a file of; kinds: 1 <<
 * GS_JOB_..., ored, 0 all. Reads all of /proc, and open device files to find GPUs. */
int gs_jobs_list(struct gs_jobs *jobs, uint32_t kinds, struct gs_jobs_list *ret_list);
void gs_jobs_list_fini(struct gs_jobs_list *list);

/* The GPUs as a snapshot of sources/gpu has them, so that gpu_mask counts as it does. Without it they
 * are taken from the driver's /proc files, in the order of their PCI bus ids, which is NVML's. */
int gs_jobs_set_gpus(struct gs_jobs *jobs, const struct gs_gpu_snapshot *gpus);

/* So far. */
void gs_jobs_stats(const struct gs_jobs *jobs, struct gs_jobs_stats *ret_stats);

/* What `scontrol --version` says, "22.05.8"; "" without Slurm. Waits for it for options.command_ns at most.
 */
void gs_jobs_slurm_version(const struct gs_jobs *jobs, char *out, size_t bytes);

/* What `scontrol ping` says, its first line, "" nothing. 0: a slurmctld answers; -ENOENT: no scontrol; -EHOSTDOWN: none
 * answers; -ETIMEDOUT: scontrol took longer than options.command_ns; or another negative errno. */
int gs_jobs_ping_controller(const struct gs_jobs *jobs, char *out, size_t bytes);

/* The user's name, or number; nothing when uid is negative. */
void gs_jobs_name_user(int64_t uid, char *out, size_t bytes);

#endif
