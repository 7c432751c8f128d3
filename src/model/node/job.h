/*
 * Whose work it is: a job of Slurm, or what takes its place without one. Plain values, made by
 * sources/identity, used by every room above it. Texts are "" and numbers -1 when unknown.
 */
#ifndef GS_MODEL_NODE_JOB_H
#define GS_MODEL_NODE_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gs_job_kind {
	GS_JOB_NONE = 0,
	GS_JOB_SLURM = 1,
	GS_JOB_POD = 2,       /* Kubernetes */
	GS_JOB_CONTAINER = 3, /* outside of a pod */
	GS_JOB_UNIT = 4,      /* systemd service or scope */
	GS_JOB_CGROUP = 5,
	GS_JOB_USER = 6,
	GS_JOB_TREE = 7, /* a process and its descendants */
};

struct gs_job {
	uint32_t kind; /* enum gs_job_kind */
	char id[64];   /* what users call it: "4711", "4711_3" (array), "4711+1" (het), a pod's uid,
			* a unit's name, a user's, "tree of 1234" */
	int64_t job_id;                      /* Slurm's number */
	int64_t array_job_id, array_task_id; /* of an array */
	int64_t het_job_id, het_offset;      /* of a het job */
	char sluid[16];                      /* of this run of the job, Slurm 26.05 */
	char cluster[64];                    /* Slurm's ClusterName */
	char name[128];                      /* as the user called it */
	char user[32];                       /* whose it is */
	int64_t uid;                         /* likewise */
	char account[64];                    /* of Slurm */
	char partition[64];                  /* likewise */
	char qos[32];                        /* likewise */
	char nodes[256];                     /* as Slurm writes the list */
	char pod[128], namespace[64];        /* of Kubernetes */
	int32_t n_cpus;                      /* allocated on this node */
	int64_t mem_bytes;                   /* allocated on this node */
	uint64_t gpu_mask;        /* allocated here, by index in the snapshot of sources/gpu */
	int64_t start_s, limit_s; /* time of day; seconds */
	uint32_t source;          /* enum gs_job_source, ored: where this was learned */
	/* Only the process says that it is of this job: by its environment, or by a cgroup that its
	 * user may make. The id says so too, uid and user are the process's own, account is "". */
	bool is_claimed;
};

/* Nothing is known of it: no text, no kind, numbers that may be missing -1. */
extern const struct gs_job gs_job_unknown;

/* Claims that are followed beside jobs, in room of their own, and of each user. */
#define GS_JOB_CLAIMS_MAX      32
#define GS_JOB_CLAIMS_USER_MAX 8

enum gs_job_source {
	GS_JOB_FROM_CGROUP = 1,
	GS_JOB_FROM_ENVIRON = 2,
	GS_JOB_FROM_NODE = 4,       /* local Slurm: scontrol listpids, spool folder */
	GS_JOB_FROM_CONTROLLER = 8, /* squeue or scontrol show job, asked once by job */
	GS_JOB_FROM_DROP = 16,      /* files that a prolog left */
};

struct gs_job_task {        /* of one process */
	char step[24];      /* "batch", "extern", "interactive", "0", "1+0"; "" none */
	int32_t task_id;    /* Slurm's, of the step here; -1 none, -2 adopted or external */
	int32_t rank;       /* SLURM_PROCID or what MPI launchers set */
	int32_t local_rank; /* among those of this node */
	bool launched;      /* the rank is an MPI launcher's or torchrun's, not srun's */
};

/* Whether it is one of several that work together. The script of a batch job has a rank of srun's
 * too, which says nothing; what torchrun or mpirun start in it are ranks. */
bool gs_job_task_is_rank(const struct gs_job_task *task);

/* The same work: runs of a job of Slurm have one number, and a claim is of one user. */
bool gs_job_is_same(const struct gs_job *a, const struct gs_job *b);

/* "proven" or "claimed"; "" where there is nothing to prove: membership in a unit needs no proof. */
const char *gs_job_proof_name(const struct gs_job *job);

/* What of a job of Slurm its controller is asked for, where this machine does not say it. */
enum gs_job_asked {
	GS_JOB_ASKED_NAME,
	GS_JOB_ASKED_USER,
	GS_JOB_ASKED_CPUS,
	GS_JOB_ASKED_LIMIT,
	GS_JOB_ASKED_COUNT
};

/* What of a job is not known because its controller has not answered: 1 << enum gs_job_asked,
 * ored. A controller that has answered has said all that there is: a job may have no limit. */
unsigned gs_job_unanswered(const struct gs_job *job);

/* "name", "user", "cpus", "time_limit". */
const char *gs_job_asked_name(enum gs_job_asked answer);

#endif
