/*
 * What the kernel side of the work probes (bpf/tasks/taskstats.bpf.c) and user space
 * (sources/taskstats/load.c) share beside the counters themselves: constants of a run, slots, cells
 * and their keys.
 */
#ifndef GS_MODEL_TRACE_TASKSTATS_SIDE_H
#define GS_MODEL_TRACE_TASKSTATS_SIDE_H

#include "model/trace/taskstats.h"

#define GS_TASKSTATS_TABLE_CALLS                                                                   \
	512 /* numbers below are described, in each of the two numberings */
#define GS_TASKSTATS_GPU_MAJORS 8

/* Why a thread that sleeps in a call sleeps: by the call alone, or by the file it was given. */
enum gs_taskstats_wait {
	GS_WAIT_OTHER = 0,
	GS_WAIT_FD0, /* decided by the file that argument 0 names */
	GS_WAIT_NETWORK,
	GS_WAIT_LOCK,
	GS_WAIT_SLEEP,
	GS_WAIT_PIPE, /* children and message queues too */
	GS_WAIT_DISK,
	GS_WAIT_POLL, /* argument 0: array of struct pollfd, 1: how many */
	GS_WAIT_SELECT,
	GS_WAIT_EPOLL,
	GS_WAIT_URING,
	GS_WAIT_MAP, /* changes the memory map: its lock, unless a page is waited for */
};

/* What the result of a call means for a file. */
enum gs_taskstats_op {
	GS_OP_NONE = 0,
	GS_OP_READ, /* bytes, from argument 0 */
	GS_OP_WRITE,
	GS_OP_READ_MANY, /* recvmmsg: messages; bytes stand in argument 1's array */
	GS_OP_WRITE_MANY,
	GS_OP_SENDFILE, /* bytes, from argument 1 to argument 0 */
	GS_OP_COPY,     /* bytes, from argument 0 to argument 2 */
	GS_OP_ACCEPT,   /* a new socket */
	GS_OP_AIO,      /* ended operations of libaio; they stand in argument 3's array */
};

struct gs_taskstats_call_desc {
	__u8 wait, op; /* enum gs_taskstats_wait, enum gs_taskstats_op */
};

struct gs_taskstats_config {
	__u32 families; /* enum gs_taskstats_family, ored */
	/* Threads of one key write to 1 + this many slots, not to fight for one, beside that of the
	 * leader of a process. */
	__u32 stripes_mask;
	/* Of all processes; children too; keys are cgroups; calls are timed. */
	__u8 all, follow, by_cgroup, call_times;
	__u8 switch_state; /* sched_switch hands over the state (Linux 5.18) */
	__u8 uring_cqe;    /* io_uring_complete hands over the entry, not its fields (6.11) */
	__u8 rq_made;      /* block_io_start says of every request who made it (6.5) */
	__u8 n_gpu_majors;
	__u32 pid_namespace;    /* whose ids processes have; 0: the kernel's own */
	__u32 call_every;       /* of calls that do not sleep, one in so many is timed; 1: all */
	__u32 n_slots, n_cells; /* places of the maps; place 0 is never given */
	__u32 gpu_majors[GS_TASKSTATS_GPU_MAJORS];
	struct gs_taskstats_call_desc
		calls[2][GS_TASKSTATS_TABLE_CALLS]; /* by enum gs_taskstats_abi */
};

struct gs_taskstats_key {
	__u64 id;       /* pid or cgroup */
	__u64 start_ns; /* of the process */
	__u32 stripe;   /* 0 the leader of a process; else by thread: stripes_mask */
	__u32 pad;
};

/*
 * The counters of a key (or of some of its threads). A time counter holds what was spent there
 * minus the begins of those who are there now, so that (counter + threads in there x now) is right
 * at any moment and no thread need be asked. Both change together: `begun` grows before, `ended`
 * after; a copy made while they were equal is whole.
 */
struct gs_taskstats_slot {
	__u64 ended;
	struct gs_taskstats work;      /* its counters, times as above */
	__u64 in_state[GS_TIME_COUNT]; /* threads there now */
	__u64 lock_since;              /* the sum of when those that wait for a lock began to */
	__u64 begun;
	struct gs_taskstats_key key;
	__u64 cgroup;               /* id of the cgroup of the process */
	__u32 pid, parent_pid, uid; /* of the process */
	__u32 used;                 /* 1: the slot has an owner */
	char comm[16];              /* of the process */
};

enum gs_taskstats_table {
	GS_TABLE_CALL = 1, /* a: GS_TASKSTATS_CALL() */
	GS_TABLE_DISK,     /* a: the kernel's device number */
	GS_TABLE_MOUNT,    /* a: the same of the file system, b: enum gs_taskstats_io */
	GS_TABLE_PEER,     /* a, b: address, c: family << 16 | port */
};

struct gs_taskstats_cell_key {
	__u32 slot;    /* whose row it is */
	__u32 table;   /* enum gs_taskstats_table */
	__u64 a, b, c; /* what they are: there */
};

struct gs_taskstats_cell {                /* a row of a table */
	struct gs_taskstats_cell_key key; /* table says which of the union */
	__u32 used;                       /* 1: the cell has an owner */
	__u32 pad;
	union { /* by key.table */
		struct gs_taskstats_syscall call;
		struct gs_taskstats_disk disk;
		struct gs_taskstats_mount mount;
		struct gs_taskstats_peer peer;
	};
};

enum gs_taskstats_loss {
	GS_TASKSTATS_LOST_KEY = 0,
	GS_TASKSTATS_LOST_CELL,
	GS_TASKSTATS_LOST_THREAD,
	GS_TASKSTATS_LOST_REQUEST,
	GS_TASKSTATS_LOST_END,
	GS_TASKSTATS_LOST_AIO,
	GS_TASKSTATS_LOST_COUNT,
};

struct gs_taskstats_request { /* a request to a block device that a followed thread made */
	__u64 issued_ns;      /* 0: not started yet */
	__u64 flush_ns;       /* when it was made, plus its data's time; 0: it waits for no flush */
	__u32 slot, bytes;    /* of the thread; of data */
	__u8 write, moves, pad[6]; /* moves: data, as a flush does not */
};

struct gs_taskstats_state {
	__u64 lost[GS_TASKSTATS_LOST_COUNT]; /* by enum gs_taskstats_loss: what found no room */
	__u64 rescan; /* grows when threads came into a followed cgroup by other ways than fork */
};

#endif
