/*
 * Access to NVIDIA's character devices that lasts.
 *
 * A container gets its GPUs when NVIDIA's runtime writes to its control group. What wrote the rules
 * of that group in the first place (systemd, a container runtime) knows nothing of it: as soon as it
 * writes them again, after `systemctl daemon-reload` for example, a device cannot be opened any more,
 * and NVML answers "Unknown Error" (NVIDIA/nvidia-container-toolkit, issue 48).
 *
 * gs_device_grant() gives the group of a process such access in all places that hold rules:
 * - version 1 of control groups: devices.allow;
 * - version 2: the eBPF program of the group is replaced in one step by one that allows NVIDIA's
 *   devices first and is the old one for the rest. It is never detached: without it, all devices
 *   would be allowed. A second program beside it would not help: all of them have to allow;
 * - a drop-in of systemd (DeviceAllow=), so that systemd's own rules allow the devices from then on.
 *
 * It reads and writes as the calling process may: see gpuscope-devices(8) for the rights needed.
 * No state is kept in memory; calls of several processes for one group do not spoil each other.
 */
#ifndef GS_SOURCES_DEVICE_CGROUP_DEVICE_CGROUP_H
#define GS_SOURCES_DEVICE_CGROUP_DEVICE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum gs_device_choice {
	GS_DEVICE_ALL = 0,  /* all devices of NVIDIA's drivers, present and future */
	GS_DEVICE_HELD = 1, /* those that the process has open: it gets no device that it had not */
};

struct gs_device_options {
	size_t size;                  /* of this struct */
	const char *host_root;        /* where the root of the host is seen; NULL: "/" */
	enum gs_device_choice choice; /* which devices */
	bool ancestors;               /* also in the groups above, where their rules forbid */
	bool no_drop_in;              /* leave systemd's configuration alone */
};

enum gs_device_state {
	GS_DEVICE_ABSENT = 0,   /* no such hierarchy, or no unit of systemd's with rules */
	GS_DEVICE_UNRESTRICTED, /* there are no rules */
	GS_DEVICE_ALLOWED,      /* the rules allow all of the devices; nothing was changed */
	GS_DEVICE_GRANTED,      /* changed by this call: they do now */
	GS_DEVICE_FORBIDDEN,    /* they do not; `reason` says which and where */
	GS_DEVICE_REVOKED,      /* as it was before the grant, by this call */
	GS_DEVICE_UNKNOWN,      /* could not be read or decided; `reason` says why */
	GS_DEVICE_STATE_COUNT
};

#define GS_DEVICE_PATH_BYTES 4096

struct gs_device_result {
	enum gs_device_state v1, v2, drop_in; /* of each version of control groups; of systemd */
	bool superseded; /* a program of ours stands beside a newer one of its owner's, and has rules
			  * of before: a grant takes it away */
	unsigned n_changes; /* rules, programs and files that this call changed */
	/* In the hierarchy of each version; "" where that is not there. */
	char cgroup_v1[GS_DEVICE_PATH_BYTES], cgroup_v2[GS_DEVICE_PATH_BYTES];
	char unit[256];         /* of systemd, that the group belongs to; "" none */
	char drop_in_path[512]; /* on the host; "" none */
	char devices[512];      /* "195:* 511:0" */
	char reason[512];       /* of FORBIDDEN and UNKNOWN; "" none */
};

/* "granted", ... */
const char *gs_device_state_name(enum gs_device_state state);

/* Whether the rules of the process's group allow the devices; nothing is changed. pid: as the /proc
 * below host_root has it. 0, or a negative errno with err: -ESRCH no such process, -ENODEV no driver
 * of NVIDIA's (HELD: the process holds none of its devices), -EINVAL a path or name that is refused,
 * -EPERM, -EACCES a right is missing, -ENOTSUP a program that cannot be kept. */
int gs_device_check(int pid, const struct gs_device_options *options,
		    struct gs_device_result *ret_result, struct gs_err *err);

/* Allow them. What could be done is done, also when an error is returned: the result says what.
 * 0 and a state FORBIDDEN: rules of a group above still forbid. */
int gs_device_grant(int pid, const struct gs_device_options *options,
		    struct gs_device_result *ret_result, struct gs_err *err);

/* Undo what gs_device_grant() did to this group, and only that. choice does not matter. A negative
 * errno with err. */
int gs_device_revoke(int pid, const struct gs_device_options *options,
		     struct gs_device_result *ret_result, struct gs_err *err);

/* The calling process as the /proc below host_root has it. Negative: it is not in there. */
int gs_device_own_pid(const struct gs_device_options *options);

/* Whether nothing is known to forbid the devices. */
bool gs_device_is_open(const struct gs_device_result *result);

/* Processes that have an NVIDIA device open, other than the caller, at most max of them, in order of
 * their numbers. ret_n is how many there are in all. */
int gs_device_find_holders(const struct gs_device_options *options, int *ret_pids, unsigned max,
			   unsigned *ret_n, struct gs_err *err);

#endif
