/*
 * Keeps NVIDIA's devices allowed for as long as a program runs, beside managers that write the rules
 * of the same control groups: looks at them now and then, and grants again what was taken.
 *
 * It does not fight: a group gets its devices back at most `retries` times an hour. Then it is left
 * alone for the rest of that hour, which is reported, as a manager that takes them away for good may
 * have a reason.
 */
#ifndef GS_SOURCES_DEVICE_CGROUP_KEEPER_H
#define GS_SOURCES_DEVICE_CGROUP_KEEPER_H

#include "sources/device_cgroup/device_cgroup.h"

struct gs_device_keeper;

struct gs_device_keeper_options {
	size_t size;           /* of this struct */
	const char *host_root; /* copied; NULL: "/" */
	bool self;             /* all devices, for the group of the calling process */
	bool holders;          /* for the group of each process that has some open: these */
	unsigned retries;      /* an hour */
	/* One line for people; from gs_device_keeper_tick() and gs_device_keeper_free(). */
	void (*report)(void *ctx, const char *text);
	void *ctx;
};

struct gs_device_keeper_stats {
	unsigned n_allowed, n_forbidden, n_unknown; /* groups that were seen last, by state */
	unsigned n_paused;                          /* of these, left alone for now */
	uint64_t grants, regrants; /* of devices to groups: the first, and all later ones */
	uint64_t errors;           /* looks and grants that failed */
	uint64_t dropped;          /* groups and processes beyond the limits */
};

/* The options are copied, host_root too. 0, -ENOMEM; -EINVAL: host_root is too long. */
int gs_device_keeper_new(const struct gs_device_keeper_options *options,
			 struct gs_device_keeper **ret);

/* Look at all of them once. now_ns: of one clock that does not go back. */
void gs_device_keeper_tick(struct gs_device_keeper *keeper, uint64_t now_ns);

/* So far; the groups as of the last look. */
void gs_device_keeper_stats(const struct gs_device_keeper *keeper,
			    struct gs_device_keeper_stats *ret);

/* What was granted to the calling process's group is undone, if it was not so before. What jobs got
 * stays, as they go on. */
void gs_device_keeper_free(struct gs_device_keeper **keeper);

#endif
