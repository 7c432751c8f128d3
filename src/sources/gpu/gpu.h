/*
 * The GPUs of this machine, read through their vendors' interfaces: NVML, opened at run time, and
 * AMD's sysfs. Every call to NVML is made by one thread of this room, watched: when a call does not
 * come back the snapshot says so and the program goes on. Slow values (seconds to minutes apart)
 * keep their last reading in between; static facts are read once.
 *
 * One thread at a time calls these functions; the room's own thread is inside.
 */
#ifndef GS_SOURCES_GPU_GPU_H
#define GS_SOURCES_GPU_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/node/gpu.h"

struct gs_gpu;

/* What is read; ored. */
enum gs_gpu_group {
	GS_GPU_READ_BASIC = 1, /* utilisation, memory, temperature, power, energy, clocks */
	GS_GPU_READ_PROCESSES = 2,
	GS_GPU_READ_HEALTH = 4,  /* ECC, remaps, recovery, PCIe link and replays, limits */
	GS_GPU_READ_LINKS = 8,   /* NVLink */
	GS_GPU_READ_GPM = 16,    /* SM, tensor, DRAM, ...: Hopper and newer */
	GS_GPU_READ_EVENTS = 32, /* XIDs of NVML and of the kernel's log */
	GS_GPU_READ_ALL = 63,
};

struct gs_gpu_options {
	size_t size;     /* of this struct */
	unsigned groups; /* enum gs_gpu_group; 0: all */
	/* For tests and unusual installations; NULL: the usual places. */
	const char *nvml_path;
	/* What a user of this command sets for it, such as "--nvml PATH"; for messages. A constant;
	 * NULL: not mentioned. */
	const char *nvml_option;
	const char *sysfs_root; /* "/sys" */
	const char *proc_root;  /* "/proc" */
	const char *kmsg_path;  /* "/dev/kmsg" */
	uint64_t hang_ns;       /* a call longer than this hangs; 0: 5 s */
	uint64_t slow_ns;       /* between two readings of slow values; 0: 30 s */
	bool accounting;        /* ask for processes that ended between two samples */
	uint64_t retry_ns;      /* between two attempts to find the library; 0: 1 s, then longer */
	uint64_t leave_out;     /* bits of enum gs_gpu_part: what is never read */
	/* A reading has lasted a second, or ten more: what it waits for. Called by the thread that
	 * reads; text is lent for the call. NULL: not wanted. */
	void (*on_slow)(void *ctx, const char *text);
	void *on_slow_ctx;
	/* Of one processor's time, for all GPUs of NVML together: what costs more is read less
	 * often, which gs_gpu_sample.part_ns shows. 0: no limit, everything asked for is read. */
	double budget;
	/* With a budget: how old a value may get that is not slow, as long as the budget has room for
	 * all of them so seldom; else all get older alike, five times as old at most, but for the list
	 * of processes. What is cheap is read each time. 0: each kind of value has a limit of its own.
	 */
	uint64_t oldest_ns;
};

struct gs_gpu_uuid {
	char text[80]; /* "GPU-..."; terminated */
};

/* Works without any GPU or library: the snapshots then say why there is nothing. -ENOMEM, or
 * -EAGAIN when no thread can be started. */
int gs_gpu_open(const struct gs_gpu_options *options, struct gs_gpu **ret_gpu, struct gs_err *err);
void gs_gpu_close(struct gs_gpu **gpu);

/* Read now. The snapshot is the caller's. Returns 0 also when nothing could be read (see its
 * state), -ENOMEM otherwise. Never waits much longer than hang_ns for one call of the library, nor
 * four times that for all. */
int gs_gpu_read(struct gs_gpu *gpu, struct gs_gpu_snapshot **ret_snapshot);

/* The same of only some groups (enum gs_gpu_group, ored; of those the options name): nothing else
 * is asked of the driver. Values of other groups are as they were read last, or not there;
 * processes are there only when their group is read. */
int gs_gpu_read_groups(struct gs_gpu *gpu, unsigned groups, struct gs_gpu_snapshot **ret_snapshot);

/* Another options.budget from the next reading on, for who reads more or less often than before. */
void gs_gpu_set_budget(struct gs_gpu *gpu, double budget);

/* Of which GPUs of NVML values are read, from the next reading on; of others only the lists of
 * processes are, each second, or five times a second when n is 0. uuids NULL: of all, as at first.
 * 0 or -ENOMEM. */
int gs_gpu_set_focus(struct gs_gpu *gpu, const struct gs_gpu_uuid *uuids, size_t n);

/* Release the driver, so that a GPU can be reset or its MIG instances changed; snapshots say RELEASED until
 * gs_gpu_resume(). -ETIMEDOUT: one of its calls hangs; it is released when that comes back. */
int gs_gpu_release(struct gs_gpu *gpu);
void gs_gpu_resume(struct gs_gpu *gpu);

/* What reading through NVML has cost so far. */
enum gs_gpu_cost_by {
	GS_GPU_COST_BY_CALL, /* function of the library */
	GS_GPU_COST_BY_PART, /* enum gs_gpu_part */
};
struct gs_gpu_cost {
	const char *name; /* lent for ever */
	const char *way;  /* by part: how it is read now, "call", "fields" or "gpm"; else "" */
	uint64_t n, wall_ns, cpu_ns; /* how often it was read; what that took in all */
	uint64_t interval_ns; /* by part, with a budget: between two readings as of now, the longest
			       */
};
#define GS_GPU_COSTS_MAX 160
/* How many there are; those that were never made are left out. */
size_t gs_gpu_costs(struct gs_gpu *gpu, enum gs_gpu_cost_by by, struct gs_gpu_cost *ret_costs,
		    size_t room);

/* Whether options.accounting asked a GPU for what its administrator has not switched on. */
bool gs_gpu_accounting_off(const struct gs_gpu *gpu);

/* How two GPUs of the last snapshot are connected: "NV18", "PIX", "PXB", "PHB", "NODE", "SYS", "X",
 * "" unknown; as `nvidia-smi topo -m` writes it. Lent for ever. */
const char *gs_gpu_topology(struct gs_gpu *gpu, uint32_t a, uint32_t b);

#endif
