/*
 * Between the files of place that know jobs: pure parsers, each takes bytes of any content; and
 * commands.
 */
#ifndef GS_SOURCES_IDENTITY_JOB_INT_H
#define GS_SOURCES_IDENTITY_JOB_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/buf.h"
#include "model/node/gpu.h"
#include "model/node/job.h"
#include "sources/identity/job_command.h"

#define GS_JOB_GPUS_MAX 64

/* Nothing known. */
void gs_job_task_clear(struct gs_job_task *task);

/* The id that users write, out of the numbers. */
void gs_job_name_id(struct gs_job *job);

/* A decimal number that is all of text[0..bytes), blanks around it aside. */
bool gs_job_number(const char *text, size_t bytes, int64_t *ret);

/* --- environment --- */

struct gs_job_environ {
	struct gs_job job; /* kind GS_JOB_SLURM when it names a job */
	struct gs_job_task task;
	char node[64];   /* SLURMD_NODENAME */
	int64_t restart; /* how often the job was requeued; -1 */
	bool has_gpus;
	uint64_t gpus; /* SLURM_JOB_GPUS, or SLURM_STEP_GPUS: Slurm's indices */
};

void gs_job_parse_environ(const char *data, size_t bytes, struct gs_job_environ *ret);

/* --- the controller's answers --- */

struct gs_job_answer {
	struct gs_job job;
	bool has_gpus;
	uint64_t gpus; /* on this node: Slurm's indices */
};

/* What `scontrol show job --json` and `squeue --json` say of a job, 22.05 to 26.05. job_id or, when
 * that is negative, sluid names it; node (may be "") is ours. 0, -ENOENT (not in it), -EBADMSG. */
int gs_job_parse_json(const char *data, size_t bytes, int64_t job_id, const char *sluid,
		      const char *node, struct gs_job_answer *ret);

/* The same of `scontrol -o -d show job` with SLURM_TIME_FORMAT=%s. uid: of the job when known, or
 * -1: a name that looks like the rest of a record cannot pass the job on to another user. */
int gs_job_parse_text(const char *text, size_t bytes, int64_t job_id, const char *node, int64_t uid,
		      struct gs_job_answer *ret);

struct gs_job_pid { /* a line of `scontrol listpids` */
	uint32_t pid;
	uint64_t start_ticks; /* of the process, by the caller: pids are given away again */
	int64_t job_id;
	struct gs_job_task task;
};

/* How many lines were written, max at most. */
size_t gs_job_parse_pids(const char *text, size_t bytes, struct gs_job_pid *ret, size_t max);

/* --- lists --- */

/* Visit the names of a node list: "n1,rack[0-1]n[08-12,14]". at: 0, 1, ... False from visit ends
 * it. How many were visited, 100,000 at most. */
size_t gs_job_each_node(const char *list, bool (*visit)(void *ctx, const char *name, size_t at),
			void *ctx);

/* Where name stands in the list, -1 nowhere. */
int64_t gs_job_node_position(const char *list, const char *name);

/* "0,2-3": bits. Numbers of GS_JOB_GPUS_MAX and more are left out. False: not such a list. */
bool gs_job_indices(const char *text, size_t bytes, uint64_t *ret_mask);

/* The GPUs in "gpu:a100:2(IDX:0-1),nic:1(IDX:0)", also "gpu(IDX:0)" and "gpu:2(IDX:0-1)"; false:
 * none is named by index. */
bool gs_job_gres(const char *text, size_t bytes, uint64_t *ret_mask);

/* --- GPUs --- */

struct gs_job_gpu {
	char uuid[80];
	char bus_id[32];
	int32_t minor;       /* -1 unknown, or a part of another GPU */
	int32_t index;       /* NVML's; -1 a part of another GPU */
	uint8_t n_instances; /* of MIG: compute instances, 255 at most */
	char instance[16];   /* the last of them: GI/CI */
};

struct gs_job_gpus {
	struct gs_job_gpu gpu[GS_JOB_GPUS_MAX];
	uint32_t n;
	bool one_model; /* of all, as the driver's files say */
	/* What Slurm's index means: the device's minor number in the order of gres.conf, or, found
	 * by NVML itself (AutoDetect), its index there. */
	bool by_nvml;
	uint32_t n_minors; /* 0: the minor number is the index */
	int32_t minor[GS_JOB_GPUS_MAX];
};

/* Out of <proc>/driver/nvidia/gpus/<bus id>/information, in the order of the bus ids. */
void gs_job_gpus_read(int proc_fd, struct gs_job_gpus *gpus);
/* One such file; false when it names no GPU. */
bool gs_job_parse_information(const char *text, size_t bytes, struct gs_job_gpu *ret);
void gs_job_parse_gres_conf(const char *text, size_t bytes, const char *node,
			    struct gs_job_gpus *gpus);

/* Masks in indices of the snapshot. */
uint64_t gs_job_gpus_of_slurm(const struct gs_job_gpus *gpus, uint64_t indices);
uint64_t gs_job_gpus_of_index(const struct gs_job_gpus *gpus, uint32_t index);
uint64_t gs_job_gpus_of_minor(const struct gs_job_gpus *gpus, uint32_t minor);

/* A file that a prolog left, by its name and content: which jobs have which GPUs. Calls each for
 * every job in it. uid -1 unknown. False: nothing in it. */
bool gs_job_parse_drop(const char *name, const char *text, size_t bytes,
		       const struct gs_job_gpus *gpus,
		       void (*each)(void *ctx, int64_t job_id, int64_t uid, uint64_t mask),
		       void *ctx);

/* The GPUs whose device files the process has open. */
uint64_t gs_job_gpus_open(int process_fd, const struct gs_job_gpus *gpus);

#endif
