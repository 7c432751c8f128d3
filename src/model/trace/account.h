/*
 * The wall-clock account of traced threads: where each ns of a thread's life went, added up in the
 * kernel (bpf/account/account.bpf.c) and read through a shared mapping. Compiled by the BPF compiler
 * too.
 *
 * A thread is in one state at a time, and outside or inside of one traced call (the outermost open
 * one), so the cells of the matrix sum to the thread's wall time exactly.
 */
#ifndef GS_MODEL_TRACE_ACCOUNT_H
#define GS_MODEL_TRACE_ACCOUNT_H

#ifndef __bpf__
#include <linux/types.h>
#include <stdint.h>
#endif

/* Stored: numbers are never reused. */
enum gs_account_state {
	GS_STATE_CPU = 0,
	/* could run, but other tasks had the processors */
	GS_STATE_RUNQUEUE = 1,
	/* futex, System V semaphores: a lock, or an event that another thread makes */
	GS_STATE_LOCK = 2,
	/* poll, select, epoll of what is none of those below, and of sockets when the time given to poll passed without
	 * data: a server that looks for work now and then */
	GS_STATE_POLL = 3,
	/* iowait, or blocked in a call on a regular file or block device */
	GS_STATE_DISK = 4,
	/* sockets of other families than AF_UNIX */
	GS_STATE_NETWORK = 5,
	/* nanosleep, pause, poll of nothing */
	GS_STATE_SLEEP = 6,
	/* pipes, unix sockets, terminals, message queues: other processes */
	GS_STATE_PIPE = 7,
	/* page faults, and changes of the memory map */
	GS_STATE_FAULT = 8,
	/* wait4, waitid */
	GS_STATE_CHILD = 9,
	GS_STATE_OTHER = 10,
	/* futex, as for a mutex that another thread holds: of GS_PART_LOCK, too */
	GS_STATE_MUTEX = 11,
	GS_STATE_COUNT
};

/* The numbers are stored. */
enum gs_account_inside {
	GS_INSIDE_NONE = 0,
	/* calls that return when the GPU is done: synchronise, blocking copies */
	GS_INSIDE_GPU_WAIT = 1,
	GS_INSIDE_CUDA = 2,
	GS_INSIDE_NCCL = 3,
	/* in a PyTorch operator, and in no call of the above */
	GS_INSIDE_OPERATOR = 4,
	GS_INSIDE_MPI = 5,
	GS_INSIDE_COUNT
};

/* Why a line of Python code waits: a state, or one of these. The numbers are stored. */
enum gs_wait_cause {
	GS_WAIT_GPU = 16,  /* in a call that returns when the GPU is done */
	GS_WAIT_GIL = 17,  /* for the interpreter's lock */
	GS_WAIT_MANY = 18, /* not looked at one by one */
	GS_WAIT_BARE = 19, /* in no Python function */
	GS_WAIT_COUNT
};

#define GS_ACCOUNT_MAX   4096 /* threads accounted for at one time */
#define GS_ACCOUNT_CALLS 512  /* system calls below have a state of their own */

/* Why a thread that sleeps in a system call sleeps: by the call, or by what it was given. */
enum gs_account_wait {
	GS_ACCOUNT_WAIT_OTHER = 0,
	GS_ACCOUNT_WAIT_FD,   /* the file of argument 0 decides */
	GS_ACCOUNT_WAIT_POLL, /* the first file of the array of struct pollfd in argument 0 */
	GS_ACCOUNT_WAIT_SELECT,
	GS_ACCOUNT_WAIT_EPOLL,
	GS_ACCOUNT_WAIT_LOCK,
	GS_ACCOUNT_WAIT_SLEEP,
	GS_ACCOUNT_WAIT_NETWORK,
	GS_ACCOUNT_WAIT_DISK,
	GS_ACCOUNT_WAIT_PIPE,
	GS_ACCOUNT_WAIT_CHILD,
	GS_ACCOUNT_WAIT_MEMORY,
};

/* Constants of a run, written before the programs are loaded. */
struct gs_account_config {
	__u8 switch_state; /* sched_switch hands over the state (Linux 5.18) */
	__u8 has_regs;     /* the kernel gives a task's registers (5.15) */
	__u8 pad[6];
	__u64 cgroup;                /* GS_FILTER_CGROUP: its id */
	__u8 wait[GS_ACCOUNT_CALLS]; /* enum gs_account_wait, by number of the call */
};

/*
 * One thread. Times of the states but GS_STATE_CPU are by what the thread was inside of;
 * time_ns[GS_STATE_CPU] counts in its first cell only: which calls it ran in follows from busy_ns,
 * the time in finished outermost calls, whatever the thread did there.
 */
struct gs_account {
	__u32 sequence; /* odd while since_ns, state and time_ns change */
	__u32 pid;      /* 0: free */
	__u32 tid;
	__u32 uid;    /* of its process */
	__u32 thread; /* its struct gs_thread; 0: it made no traced call yet */
	__u8 state;   /* enum gs_account_state, since since_ns */
	__u8 inside;  /* enum gs_account_inside, of a thread that is off its processor */
	__u8 ended;   /* 1: the thread is gone; its cells stay */
	__u8 pad;
	__u32 parent_pid; /* of its process */
	__u8 end_signal;  /* that ended its process; 0: none */
	__u8 exit_status; /* of its process: what it gave to exit(), as its parent sees it */
	__u16 end_pad;
	char comm[16];    /* of the thread */
	char process[16]; /* of its first thread */
	__u64 born_ns;    /* since when it is accounted for */
	__u64 since_ns;
	__u64 wait_until_ns; /* a poll of a socket that lasts so long had no data; 0: not in one */
	__u64 ran_ns; /* of its life on processors, when it last left one: struct sched_entity */
	__u64 time_ns[GS_STATE_COUNT][GS_INSIDE_COUNT];
	__u64 busy_ns[GS_INSIDE_COUNT];
	/* Of a thread of a Python interpreter, when its lines are asked for. */
	__u64 wait_since_ns; /* off its processor since then; 0: it is on one, or not looked at */
	__u64 wait_woken_ns; /* and could run again since then; 0: it waits */
	__u32 wait_stack;    /* its Python stack; 0: none */
	__u32 wait_cause;    /* enum gs_wait_cause, of that wait */
	__u32 wait_is_python, wait_pad; /* its process runs an interpreter, as far as is known */
	__u64 wait_bare_ns[2]; /* not reported yet: in no Python function, and not looked at */
	__u64 py_state, py_retry_ns; /* as in struct gs_thread */
	__u64 py_seen_ns;            /* when a stack was asked for last */
	__s64 py_credit_ns;          /* what reading its stacks may take */
};
_Static_assert(sizeof(struct gs_account) % 8 == 0, "gs_account");

#ifndef __bpf__

/* The account of a thread at a moment, settled: every cell is what it is called. uid, parent_pid,
 * ended, end_signal, exit_status, comm and process as in struct gs_account. */
struct gs_account_reading {
	uint32_t pid, tid, uid, parent_pid;
	uint8_t ended, end_signal, exit_status;
	uint8_t at_launch; /* read when its process had just launched work on a GPU first */
	char comm[16], process[16];
	uint64_t born_mono_ns, now_mono_ns;
	uint64_t time_ns[GS_STATE_COUNT][GS_INSIDE_COUNT];
};

#define GS_ACCOUNT_IDLE_PCT 95 /* of its time that a parked thread waits for others */

/* The account as people read it: parts that sum to the wall time. */
enum gs_account_part {
	GS_PART_GPU_WAIT = 0, /* in calls that wait for the GPU, whatever the thread did there */
	GS_PART_CUDA,         /* in other CUDA calls, on or off a processor */
	GS_PART_NCCL,         /* likewise */
	GS_PART_MPI,          /* likewise */
	GS_PART_OPERATOR,     /* on a processor in PyTorch's operators, without the calls above */
	GS_PART_CPU,          /* on a processor, in none of these */
	GS_PART_RUNQUEUE,     /* the rest by state; those inside of operators too */
	GS_PART_LOCK,
	GS_PART_POLL,
	GS_PART_PIPE,
	GS_PART_CHILD,
	GS_PART_DISK,
	GS_PART_NETWORK,
	GS_PART_SLEEP,
	GS_PART_FAULT,
	GS_PART_OTHER,
	GS_PART_COUNT
};

/* Key of JSON, words for people, and where the figure comes from. NULL for other numbers. */
const char *gs_account_part_name(unsigned part);
const char *gs_account_part_title(unsigned part);
const char *gs_account_part_source(unsigned part);
unsigned gs_account_part_of(unsigned state, unsigned inside); /* of a cell of the account */

/* One word for an enum gs_wait_cause, as in JSON. NULL for other numbers. */
const char *gs_account_wait_name(unsigned cause);

/* Fill ret_ns from the cells; returns their sum, the wall time. */
uint64_t gs_account_parts(const uint64_t time_ns[GS_STATE_COUNT][GS_INSIDE_COUNT],
			  uint64_t ret_ns[GS_PART_COUNT]);

/* Of these parts, the time in which a thread waited for others to give it work. */
uint64_t gs_account_parked_ns(const uint64_t part_ns[GS_PART_COUNT]);

/* "cpu", "runqueue", ...; "outside", "gpu_wait", ...: keys of JSON. NULL for other numbers. */
const char *gs_account_state_name(unsigned state);
const char *gs_account_inside_name(unsigned inside);

/* Settle what the kernel side added up: the time since the last change is added to the present
 * state, and time on processors is shared out. open_ns: how long the outermost open call and the
 * outermost open operator have been open, by enum gs_account_inside; 0 none. */
void gs_account_settle(const struct gs_account *account, uint64_t now_mono_ns,
		       const uint64_t open_ns[GS_INSIDE_COUNT],
		       struct gs_account_reading *ret_reading);

#endif
#endif
