/*
 * A machine and its processes as they are at one time: plain values, made by sources/host. A value
 * that could not be had, or a rate of a first reading, is negative and never shown as 0.
 */
#ifndef GS_MODEL_NODE_HOST_H
#define GS_MODEL_NODE_HOST_H

#include <stdint.h>

#include "model/node/gpu.h"
#include "model/node/job_account.h"

#define GS_HOST_NAME_BYTES    65
#define GS_HOST_CMDLINE_BYTES 256

struct gs_host_sample {
	uint64_t time_ns;    /* boot clock */
	uint64_t elapsed_ns; /* since the sample before; 0: the first, there are no rates */
	int32_t n_cpus;      /* -1 unknown */
	int32_t n_tasks;     /* threads of the machine; -1 unknown */
	int32_t n_running;   /* of them, on a processor or waiting for one; -1 unknown */
	uint32_t pad;
	double cpu_ratio;                        /* of all processors */
	double iowait_ratio;                     /* 0 to 1, of all processors */
	double load1, load5, load15;             /* as in /proc/loadavg */
	int64_t mem_total_bytes, mem_used_bytes; /* used: not available to a new program */
	int64_t swap_total_bytes, swap_used_bytes;
	double disk_read_bps, disk_write_bps; /* bytes a second, of whole disks */
	double net_rx_bps, net_tx_bps;        /* of all interfaces that are devices */
	uint64_t failed_reads;                /* so far: files of /proc that could not be read */
	double mem_used_ratio;                /* from nodes that do not report bytes */
	double root_used_ratio;               /* of the root file system */
};

extern const struct gs_host_sample gs_host_sample_unknown; /* nothing is known of the machine */

/* Flags, combined by or. */
enum gs_host_process_flag {
	/* only an ancestor of one that was asked for */
	GS_HOST_PROCESS_ANCESTOR = 1,
};

struct gs_host_process {
	uint32_t pid;
	uint32_t parent_pid; /* 0: none that can be seen */
	uint32_t uid;        /* UINT32_MAX unknown */
	int32_t n_threads;
	uint32_t flags; /* enum gs_host_process_flag */
	char state;     /* as in /proc/PID/stat: R, S, D, Z, T, ... */
	char pad[3];
	double cpu_ratio; /* of one processor: 2.5 are two and a half */
	int64_t rss_bytes;
	uint64_t cpu_ns;                     /* used so far, user and system */
	uint64_t start_ns;                   /* boot clock */
	char comm[16];                       /* as in /proc/PID/comm */
	char user[32];                       /* "" not known */
	char container[72];                  /* "" outside of one */
	char job[48];                        /* of a batch system; "" none, or not known */
	char cmdline[GS_HOST_CMDLINE_BYTES]; /* scrubbed; arguments with blanks between them */
};

struct gs_host_snapshot {
	struct gs_host_sample sample;    /* of the machine itself */
	struct gs_host_process *process; /* owned; by pid, rising */
	uint32_t n_processes;
};

/* Everything of one machine at one time. Immutable once handed out; freed by its holder. */
struct gs_node_snapshot {
	uint64_t time_ns; /* boot clock */
	int64_t wall_ns;
	char name[GS_HOST_NAME_BYTES]; /* of the machine */
	struct gs_gpu_snapshot *gpu;   /* owned, never NULL */
	struct gs_host_snapshot *host; /* owned, never NULL */
	struct gs_job_accounts *jobs;  /* owned; NULL: not read */
	/* Owned; of some of its processes, where their time went, by pid, rising; not those that jobs have. */
	struct gs_job_process *times;
	uint32_t n_times;
};

/* Which processes and jobs of a snapshot someone asked for. */
struct gs_node_choice {
	const uint32_t *pids; /* lent; n_pids 0: all */
	unsigned n_pids;
	bool has_user; /* only those of this user: */
	uint32_t uid;  /* number of the user */
};

/* Leaves only those; jobs are chosen by their user alone. */
void gs_node_snapshot_keep(struct gs_node_snapshot *node, const struct gs_node_choice *choice);

/* Where the time of the threads of a process went; NULL: not known. */
const struct gs_job_process *gs_node_process_times(const struct gs_node_snapshot *node,
						   const struct gs_host_process *process);

/* With all that hangs off it; NULL inside: nothing. */
void gs_host_snapshot_free(struct gs_host_snapshot **snapshot);
void gs_node_snapshot_free(struct gs_node_snapshot **snapshot);

/* How a node is called wherever people see it: its host's name, with the instance when it has one
 * of its own; where another machine has that name too, with the begin of the machine's id. Cut to
 * bytes. */
#define GS_NODE_LABEL_BYTES 160
void gs_node_label(const char *hostname, const char *instance, const char *machine_id,
		   bool name_is_shared, char *out, size_t bytes);

/* Equal for nodes whose labels differ by the machine alone. */
uint64_t gs_node_label_hash(const char *hostname, const char *instance);

/* The process of a pid; NULL: there is none. */
const struct gs_host_process *gs_host_process_of(const struct gs_host_snapshot *host, uint32_t pid);

#endif
