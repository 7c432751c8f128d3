/*
 * What the kernel does for processes and cgroups: time by state, system calls, I/O, network. All is
 * added up in the kernel (model/trace/taskstats.h), so that a reader may come as seldom as it likes.
 *
 * One thread at a time may use a probe. Nothing is pinned: when the process ends, the probes go.
 */
#ifndef GS_SOURCES_TASKSTATS_TASKSTATS_H
#define GS_SOURCES_TASKSTATS_TASKSTATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/trace/taskstats.h"
#include "model/trace/taskstats_rows.h"

/* "all", "syscall", "sched", "io", "net" or several with commas, ored into *ret_families.
 * -EINVAL with words that name the bad one. */
int gs_taskstats_families_parse(const char *text, uint32_t *ret_families, struct gs_err *err);

struct gs_taskstats_options {
	size_t size;          /* of this struct */
	uint32_t families;    /* enum gs_taskstats_family, ored; 0: all */
	const uint32_t *pids; /* n_pids processes, with all their threads */
	size_t n_pids;
	const uint64_t *cgroups; /* ids (inode numbers of the folders) of the unified hierarchy:
				    with all below them */
	size_t n_cgroups;
	bool all;            /* every process of the machine; kernel threads are left out */
	bool no_follow;      /* leave out children that the processes make from now on */
	bool by_cgroup;      /* add up by cgroup instead of by process */
	bool no_call_times;  /* count calls and errors only: half the cost */
	uint32_t call_every; /* of calls that do not sleep time one in so many, at random; those
				that sleep or move bytes are timed all the same. 1: all; 0: 16 */
	uint32_t max_keys;   /* processes or cgroups held at once; 0: 4096 */
	uint32_t max_cells;  /* rows of all tables; 0: 32768 */
	const uint32_t *gpu_majors; /* character devices that are GPUs; NULL: /proc/devices */
	size_t n_gpu_majors;
};

struct gs_taskstats_probe;

/* Load, attach and follow. -EPERM, -ENOTSUP and others with words in err. In a container
 * that has process ids of its own these are meant, and what runs outside of it is not counted. */
int gs_taskstats_probe_new(const struct gs_taskstats_options *options,
			   struct gs_taskstats_probe **ret_probe, struct gs_err *err);
void gs_taskstats_probe_free(struct gs_taskstats_probe *probe);

/* Follow one more, with the threads it has by now. -ESRCH: no such process. */
int gs_taskstats_probe_follow_pid(struct gs_taskstats_probe *probe, uint32_t pid,
				  struct gs_err *err);
/* Several at once, for the cost of one; those that have ended are passed over. A negative errno with
 * err. */
int gs_taskstats_probe_follow_pids(struct gs_taskstats_probe *probe, const uint32_t *pids,
				   size_t n_pids, struct gs_err *err);

/* Families that this kernel lacks a tracepoint for come as a line each, NULL after the last. */
const char *gs_taskstats_probe_missing(const struct gs_taskstats_probe *probe, size_t i);

/* Some threads of a process: its leader alone, or some of the others together. What they did. */
struct gs_taskstats_group {
	uint64_t worked_ns, queue_ns; /* on CPU, for disks, for a GPU; waiting for a processor */
	uint64_t lock_ns, wire_ns;    /* waiting for locks, less idle_ns; for the network */
	uint64_t wall_ns;             /* in all */
};

#define GS_TASKSTATS_GROUPS 9 /* the leader's, and those of struct gs_taskstats_config's mask */

/* The group that was at work for the largest share of its time; one that lived for less than the
 * leader, which is the first, is compared by the leader's time. Of several the first. */
void gs_taskstats_lead_of(const struct gs_taskstats_group group[GS_TASKSTATS_GROUPS],
			  struct gs_taskstats_lead *ret_lead);

struct gs_taskstats_row { /* a process or a cgroup */
	uint64_t id;      /* pid, or the cgroup's id */
	/* Of the process, boot clock: distinguishes users of one pid; 0 cgroups. */
	uint64_t start_ns;
	uint32_t pid, parent_pid, uid; /* of the process that was seen first */
	uint64_t cgroup;               /* id of its cgroup */
	char comm[16];                 /* of that process */
	uint32_t n_threads;            /* alive */
	struct gs_taskstats work;      /* sums over its threads */
	struct gs_taskstats_lead lead; /* the threads that set its pace */
	struct gs_taskstats_group group[GS_TASKSTATS_GROUPS]; /* they sum to work */
	struct gs_taskstats_call_row *calls;                  /* by time, largest first */
	size_t n_calls;
	struct gs_taskstats_disk_row *disks; /* as the next two, in no order */
	size_t n_disks;
	struct gs_taskstats_mount_row *mounts;
	size_t n_mounts;
	struct gs_taskstats_peer_row *peers;
	size_t n_peers;
};

struct gs_taskstats_losses { /* since the start; all 0: nothing is missing */
	uint64_t keys_full;  /* threads not followed: no room for their process */
	uint64_t cells_full; /* calls, requests left out of a table, not out of the sums */
	uint64_t threads;    /* threads not followed: the kernel had no memory for their mark */
	uint64_t requests;   /* block requests, sockets, ring operations: no room to follow them */
	/* requests whose start or end was not seen: their bytes are counted, their time is not */
	uint64_t ends;
	uint64_t aio;  /* operations of libaio whose bytes could not be read */
	uint64_t torn; /* rows read while they changed, too often: may be off by one event */
	/* events that came while the same program ran on the same processor: the kernel skips it */
	uint64_t missed;
};

struct gs_taskstats_snapshot {
	uint64_t mono_ns; /* the times below are as of here */
	/* What was there when following began is followed since a moment between these two. */
	uint64_t begun_ns, ready_ns;
	struct gs_taskstats_row *rows;
	size_t n_rows;
	/* Requests to devices without an owner: the kernel writing back, mostly. Only with
	 * options.all. */
	struct gs_taskstats_disk_row *unowned;
	size_t n_unowned;
	/* Bytes of requests of followed threads at the devices now, not counted yet. One whose end
	 * was not seen stays among them until the kernel uses its memory for another. */
	uint64_t open_requests, open_bytes;
	struct gs_taskstats_losses losses;
};

/* Everything now. The snapshot is the caller's, freed by the function below. A negative errno with
 * err. */
int gs_taskstats_probe_read(struct gs_taskstats_probe *probe,
			    struct gs_taskstats_snapshot **ret_snapshot, struct gs_err *err);
void gs_taskstats_snapshot_free(struct gs_taskstats_snapshot *snapshot);

/* Give back the room of processes (cgroups) that had no living thread at the last reading, whose
 * snapshot this is: keep their rows. For a reader that runs for long. Returns how many; 0 also when
 * there is no memory. */
size_t gs_taskstats_probe_forget_ended(struct gs_taskstats_probe *probe,
				       const struct gs_taskstats_snapshot *snapshot);

/* The kernel's tables are not mapped until they are read next, so that they do not count as this
 * program's resident memory. For a reader that comes every few seconds: mapping costs some 100 us.
 */
void gs_taskstats_probe_rest(struct gs_taskstats_probe *probe);

#endif
