/*
 * Whose group is this: the job of Slurm, the pod of Kubernetes or the unit of systemd that a
 * /proc/PID/cgroup text names. Pure.
 */
#ifndef GS_SOURCES_IDENTITY_JOB_CGROUP_H
#define GS_SOURCES_IDENTITY_JOB_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "model/node/job.h"

/* Whose folder a group is. What root alone can have made is proof of what it is called. */
enum gs_job_owner {
	GS_JOB_OWNER_UNKNOWN = 0, /* the folder cannot be seen from here */
	GS_JOB_OWNER_OTHER = 1,   /* it, or a folder above it, is a user's (delegated) */
	GS_JOB_OWNER_ROOT = 2,    /* it and all folders above it are root's */
};

struct gs_job_cgroup {
	uint32_t kind;   /* GS_JOB_SLURM, GS_JOB_POD, GS_JOB_UNIT, GS_JOB_CGROUP or GS_JOB_NONE */
	int64_t job_id;  /* of Slurm; -1 when the group is named by its sluid alone */
	char sluid[16];  /* "s" and 13 characters, Slurm 26.05; "" none */
	int64_t uid;     /* of Slurm's version 1 groups; -1 */
	char node[64];   /* several slurmd on one machine: the node's name; "" */
	char step[24];   /* "batch", "extern", "interactive", "0", "1+0"; "" the job itself */
	int32_t task_id; /* -1 none; GS_JOB_TASK_SPECIAL: adopted or external */
	bool is_daemon;  /* slurmstepd's own group, not the user's processes */
	char name[256];  /* pod's uid, unit's name, or the path of another group */
	/* The part of the path that is the job's own group, to be looked up below the mount of the
	 * hierarchy it was found in ("freezer", "" version 2). */
	char path[512];
	char hierarchy[32];
	uint32_t owner; /* enum gs_job_owner, of a job's and a pod's own folder */
};

#define GS_JOB_TASK_SPECIAL (-2)

/* False when the text names nothing but the root of every hierarchy. */
bool gs_job_of_cgroup(const char *cgroup_text, struct gs_job_cgroup *ret_group);

/* The owner of a folder, by its hierarchy and its path below that one's mount. */
typedef enum gs_job_owner (*gs_job_owner_fn)(void *ctx, const char *hierarchy, const char *path);

/* The same, and a job or pod in root's folder comes before any that a user can have made. */
bool gs_job_of_owned_cgroup(const char *cgroup_text, gs_job_owner_fn owner, void *ctx,
			    struct gs_job_cgroup *ret_group);

#endif
