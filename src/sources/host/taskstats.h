/*
 * What jobs do, read out of procfs again and again: the way that needs no probes and, for one's own
 * processes, no rights. Times of threads come from their scheduler counters, so they are exact;
 * what a thread that was off the processor waited for is known by the system call it was found in at
 * each look, so those shares are samples. What ended between two looks is known by the counters of
 * its process and of its parent as far as those have it.
 *
 * One thread at a time.
 */
#ifndef GS_SOURCES_HOST_TASKSTATS_H
#define GS_SOURCES_HOST_TASKSTATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/node/job_usage.h"
#include "model/trace/taskstats.h"

enum gs_host_taskstats_known {                                  /* ored */
			       GS_TASKSTATS_KNOWS_TIME = 1,     /* on CPU, and off it */
			       GS_TASKSTATS_KNOWS_RUNQUEUE = 2, /* the kernel counts it */
			       GS_TASKSTATS_KNOWS_CAUSES =
				       4, /* what threads wait for could be read */
			       GS_TASKSTATS_KNOWS_SWITCHES = 8,
			       GS_TASKSTATS_KNOWS_IO = 16,
			       GS_TASKSTATS_KNOWS_FAULTS = 32,
};

/* The same as families of a job's figures: bits of enum gs_job_family. */
uint32_t gs_host_taskstats_families(uint32_t known);

struct gs_host_taskstats_total {   /* of one group, since it was first looked at */
	struct gs_taskstats work;  /* sums of its processes, ended ones too */
	struct gs_job_pace pace;   /* of its processes, one by one */
	uint32_t known;            /* enum gs_host_taskstats_known */
	uint32_t n_processes;      /* alive at the last look */
	uint32_t n_processes_seen; /* in all */
	int64_t rss_bytes, rss_peak_bytes;
	uint64_t failed_reads; /* files that are there and could not be read */
	/* Boot clock: when the threads that were there at the first look were read first, and all of
	 * the last look last, on average. Each one's time is that between its own readings, so, as long as none
	 * comes or goes, all times together are the number of threads times to_ns - from_ns.
	 * from_ns 0: no thread was there before; to_ns 0: none was looked at again. */
	uint64_t from_ns, to_ns;
	uint32_t n_cores;       /* that its processes may run on; 0 unknown */
	uint64_t unseen_cpu_ns; /* of the CPU time: of what came and went between looks */
};

struct gs_host_taskstats;

/* proc_root is "/proc", or another folder in tests. -ENOMEM, or a negative errno with err. */
int gs_host_taskstats_open(const char *proc_root, struct gs_host_taskstats **ret_work,
			   struct gs_err *err);
void gs_host_taskstats_close(struct gs_host_taskstats **work);

/* Watch a process as one of this group (numbers from 0 on, GS_HOST_TASKSTATS_GROUPS at most). Nothing
 * happens when it is watched already. born: it started since the last look, so all that it did
 * counts; else only what it does from now on. -ESRCH: it is gone; -ENOBUFS: 65,536 are watched;
 * -EINVAL: no such group. */
#define GS_HOST_TASKSTATS_GROUPS 288 /* 256 jobs, and what claims to be one: GS_JOB_CLAIMS_MAX */
int gs_host_taskstats_add(struct gs_host_taskstats *work, uint32_t group, uint32_t pid, bool born);

/* The group counts from 0 again, for others: none of its processes may be watched any more. */
void gs_host_taskstats_reuse(struct gs_host_taskstats *work, uint32_t group);

/* Whether the pid (this process of it, by its start) is watched. */
bool gs_host_taskstats_watches(const struct gs_host_taskstats *work, uint32_t pid);

/* Look at every process now. Returns the ns that looking took. */
uint64_t gs_host_taskstats_poll(struct gs_host_taskstats *work);

struct gs_host_taskstats_process {
	uint64_t cpu_ns;   /* since it was first looked at, or born */
	uint64_t io_bytes; /* read and written, likewise */
};

/* Of one process, at the last look. False: it is not watched (any more). */
bool gs_host_taskstats_of(const struct gs_host_taskstats *work, uint32_t pid,
			  struct gs_host_taskstats_process *ret_process);

/* What a group did so far. */
void gs_host_taskstats_total(const struct gs_host_taskstats *work, uint32_t group,
			     struct gs_host_taskstats_total *ret_total);

/* The pids of a group, rising; as many as fit. How many there are. */
size_t gs_host_taskstats_pids(const struct gs_host_taskstats *work, uint32_t group, uint32_t *pids,
			      size_t n_pids);

/* The group of memory and processors that a job is confined to: both versions of cgroups. Values
 * are negative when not known or without limit. */
struct gs_host_cgroup {
	/* What it needs: its charge less what the kernel can take back at once. The kernel's peak
	 * holds the page cache too, so it is given only where the charge cannot be split. */
	int64_t memory_bytes, memory_peak_bytes, memory_limit_bytes;
	int64_t anonymous_bytes, cache_bytes; /* cache: of files, without tmpfs */
	int64_t reclaimable_bytes;            /* cache that is not locked, slabs (version 2) */
	int64_t cpu_ns;                       /* used so far */
	double cores;                         /* the lowest quota of the group and those above it */
	/* Periods of that quota with tasks that could run, those in which they were stopped, and
	 * the time that they were, summed over processors. */
	int64_t periods, throttled_periods, throttled_ns;
	int64_t oom_kills;
};

/* Of a process, by /proc/PID/cgroup, or (pid 0) of a path below the mount. sysfs_root is
 * "/sys/fs/cgroup". False: nothing could be read. */
bool gs_host_cgroup_read(const char *sysfs_root, const char *proc_root, uint32_t pid,
			 const char *path, struct gs_host_cgroup *ret_cgroup);

/* Time in which the lowest quota of a process's group and those above it stopped its tasks, so far, summed over
 * processors, ns. -1: there is no quota, or it is not known. */
int64_t gs_host_cgroup_throttled_ns(const char *sysfs_root, const char *proc_root, uint32_t pid);

/* TCP segments that were retransmitted so far, in the network namespace of a process. -1: not known. */
int64_t gs_host_tcp_retransmits(const char *proc_root, uint32_t pid);

#define GS_HOST_CGROUP_NAMES 8192 /* bytes of /proc/PID/cgroup that are looked at */

/* The names of a process's groups, as /proc/PID/cgroup has them. False: it is gone. */
bool gs_host_cgroup_names(const char *proc_root, uint32_t pid, char *text, size_t bytes);

/* The groups with these names, or (path not NULL) that of a path below the mount: they may be there
 * still when the process is gone. False: nothing could be read. */
bool gs_host_cgroup_read_named(const char *sysfs_root, const char *names, const char *path,
			       struct gs_host_cgroup *ret_cgroup);

/* The limit of a job's memory: the lower of what the batch system says was asked for and its
 * group's, each -1 when there is none. A limit like the machine's memory limits nothing; batch
 * systems are configured with some less than there is. -1: none. */
int64_t gs_host_memory_limit(int64_t asked_bytes, int64_t group_bytes, int64_t machine_bytes);

/* Memory of a process that is resident; -1: it is gone. */
int64_t gs_host_rss_bytes(const char *proc_root, uint32_t pid);

#endif
