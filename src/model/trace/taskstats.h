/*
 * What the kernel did for a process or a cgroup: counters that only grow, summed in the kernel over
 * all threads, ended ones included. Read two of them and take the difference. Compiled by the BPF
 * compiler too.
 *
 * Every ns of a thread between its start (or the moment from which it was followed) and its end is
 * in exactly one of the time counters, so they sum to (threads x wall time).
 *
 * Fields that many have, all counts: calls; reads, writes, sends, receives, accepts: calls (of disks:
 * requests), failed ones too; errors: of these, failed; connects: connections that were made,
 * failed_connects: that were not; retransmits: segments of TCP.
 */
#ifndef GS_MODEL_TRACE_TASKSTATS_H
#define GS_MODEL_TRACE_TASKSTATS_H

#ifndef __bpf__
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>
#endif

#define GS_TASKSTATS_LOG2     40 /* buckets: 2^i .. 2^(i+1) ns, the last takes all above */
#define GS_TASKSTATS_IO_KINDS 8
#define GS_TASKSTATS_IDLE_NS  1000000000ull

/* Where the time of its threads went. */
enum gs_taskstats_time {
	GS_TIME_CPU = 0,
	/* could run, but other tasks did */
	GS_TIME_RUNQUEUE = 1,
	/* uninterruptible, or waiting for a page or block */
	GS_TIME_DISK = 2,
	/* in a call on a socket; poll and epoll with sockets among theirs */
	GS_TIME_NETWORK = 3,
	/* futex, System V semaphores, the lock of its memory map */
	GS_TIME_LOCK = 4,
	/* in a call into the GPU's driver (ioctl, poll of its files) */
	GS_TIME_GPU = 5,
	/* asked to: nanosleep, timers, pause, poll of nothing */
	GS_TIME_SLEEP = 6,
	/* pipes, ttys, eventfd, waiting for children */
	GS_TIME_PIPE = 7,
	GS_TIME_OTHER = 8,
	GS_TIME_COUNT
};

/* Kinds of files; bytes as returned, not as asked for. */
enum gs_taskstats_io {
	GS_IO_FILE = 0,    /* regular, on a disk */
	GS_IO_NETFILE = 1, /* regular, on a network, cluster or FUSE file system */
	GS_IO_TMPFS = 2,
	GS_IO_PIPE = 3,
	GS_IO_SOCKET = 4,
	GS_IO_DEVICE = 5,
	GS_IO_TTY = 6,
	GS_IO_OTHER = 7, /* proc, sys, eventfd and the like */
};

struct gs_taskstats_io_count {
	__u64 reads, writes;
	__u64 read_bytes, write_bytes;
	__u64 errors;
	__u64 total_ns; /* of the calls that returned */
};

struct gs_taskstats { /* one process or cgroup */
	__u64 time_ns[GS_TIME_COUNT];
	/* Of the time waiting for locks, that in waits of GS_TASKSTATS_IDLE_NS and more: threads of a
	 * pool that wait for work, as a rule, not for a lock that another holds. */
	__u64 idle_ns;
	__u64 switches_voluntary, switches_forced, migrations;
	__u64 wakeups; /* also of a thread that had not left its processor yet */
	/* Turns on a processor that have ended, as the scheduler counts them: before each, the
	 * thread waited for it. Those waits by length, from being woken, born or preempted to
	 * running; some have none: the kernel passes over a probe now and then, and their time is
	 * part of what the thread slept for. */
	__u64 queue_waits;
	__u64 queue_hist[GS_TASKSTATS_LOG2];
	__u64 threads_started, threads_ended; /* started: those alive when following began too */
	__u64 syscalls, syscall_errors, syscall_ns;
	struct gs_taskstats_io_count io[GS_TASKSTATS_IO_KINDS];
	__u64 disk_reads, disk_writes;            /* requests that reached a block device */
	__u64 disk_read_bytes, disk_write_bytes;  /* as far as it is known from whom they come */
	__u64 disk_ns;                            /* their time at the device, summed */
	__u64 net_sent_bytes, net_received_bytes; /* of sockets that leave the program's host or
						     may: not of unix sockets and netlink */
	__u64 net_connects, net_accepts, net_retransmits;
	__u64 faults_minor, faults_major;
	__u64 oom_kills;
};

/* Of one process: the threads that set its pace. They are the group of threads (the leader alone,
 * or some of the others together) that was at work most, for its time. Helpers, whose waits decide
 * nothing, are in other groups as far as there are enough. */
struct gs_taskstats_lead {
	__u64 busy_ns;          /* on CPU, waiting for one, for disks, for a GPU */
	__u64 lock_ns, wire_ns; /* waiting for locks, less idle_ns; for the network */
	__u64 wall_ns;          /* of them in all */
	__u64 lived_ns;         /* of the leader of the process, while it was followed */
};

/* Families of probes. */
enum gs_taskstats_family {
	GS_TASKSTATS_SCHED = 1,   /* time by state, switches, migrations, page faults, OOM kills */
	GS_TASKSTATS_SYSCALL = 2, /* system calls by number, io_uring operations */
	GS_TASKSTATS_IO = 4,      /* bytes by kind of file and mount, block devices */
	GS_TASKSTATS_NET = 8,     /* bytes of sockets, connections, retransmits, peers */
	GS_TASKSTATS_ALL = 15,
};

/* Which table a system call's number belongs to. */
enum gs_taskstats_abi {
	GS_TASKSTATS_ABI_64 = 0,
	GS_TASKSTATS_ABI_32 = 1, /* a 32-bit program, or int 0x80 */
	GS_TASKSTATS_ABI_X32 = 2,
	GS_TASKSTATS_ABI_URING = 3, /* an operation of io_uring: its opcode */
};

#define GS_TASKSTATS_CALL(abi, nr) ((__u32)(abi) << 16 | ((__u32)(nr)&0xffff))
#define GS_TASKSTATS_CALL_ABI(id)  ((id) >> 16)
#define GS_TASKSTATS_CALL_NR(id)   ((id)&0xffff)

/* One call of one process or cgroup. Every one is counted; every one that slept is timed, and of
 * those that did not, one in some (struct gs_taskstats_config). total_ns and hist speak for all: what
 * was not timed counts as what was is on average. `timed` says how many they rest on. */
struct gs_taskstats_syscall {
	__u64 calls, errors, total_ns, max_ns;
	__u64 timed;
	__u64 sampled, sampled_ns; /* of them, those that stand for others; 0 in what is read */
	__u32 hist[GS_TASKSTATS_LOG2];
};

struct gs_taskstats_disk { /* one block device */
	__u64 reads, writes, read_bytes, write_bytes, errors;
	__u64 total_ns, max_ns; /* from the driver's start on a request to its end */
	/* Waits until the device had emptied its write cache: fsync, O_DSYNC, O_SYNC. */
	__u64 flushes, flush_ns, flush_max_ns;
	__u32 hist[GS_TASKSTATS_LOG2];
};

struct gs_taskstats_mount {              /* one mounted file system (its device number) */
	struct gs_taskstats_io_count io; /* of files on it */
};

struct gs_taskstats_peer { /* one peer: the address, and the port when we connected to it */
	__u64 sent_bytes, received_bytes;
	__u64 sends, receives;
	__u64 connects, accepts, failed_connects, retransmits;
	__u64 connect_ns, connect_max_ns;    /* from SYN to established, successful ones */
	__u64 rtt_ns, rtt_max_ns, rtt_count; /* TCP's smoothed round trip, at each send */
};

#ifndef __bpf__

/* "cpu", "runqueue", ...; "file", "netfile", ...; NULL for other numbers. */
const char *gs_taskstats_time_name(unsigned time);
const char *gs_taskstats_io_name(unsigned io);

/* The bare name of a GS_TASKSTATS_CALL() in its numbering; NULL when no table has it. */
const char *gs_taskstats_call_word(uint32_t id);

/* The name of a GS_TASKSTATS_CALL(): "read", "read (32-bit)", "io_uring:READV"; a number that no table
 * has becomes "syscall_600". Returns buf. */
const char *gs_taskstats_call_name(uint32_t id, char *buf, size_t bytes);

/* a += b; the largest of max_ns. */
void gs_taskstats_add(struct gs_taskstats *a, const struct gs_taskstats *b);
void gs_taskstats_syscall_add(struct gs_taskstats_syscall *a, const struct gs_taskstats_syscall *b);
/* Makes total_ns what it is said to be, from what the kernel side adds up. */
void gs_taskstats_syscall_settle(struct gs_taskstats_syscall *c);
void gs_taskstats_disk_add(struct gs_taskstats_disk *a, const struct gs_taskstats_disk *b);
void gs_taskstats_peer_add(struct gs_taskstats_peer *a, const struct gs_taskstats_peer *b);
void gs_taskstats_io_add(struct gs_taskstats_io_count *a, const struct gs_taskstats_io_count *b);

/* Of the waits for a processor: those that have a length, and the q-th quantile (0..1) of the
 * lengths in ns, within the power of two that the histogram has; NAN without any. */
uint64_t gs_taskstats_queue_timed(const struct gs_taskstats *w);
double gs_taskstats_queue_quantile_ns(const struct gs_taskstats *w, double q);

/* The wall-clock account: the times of enum gs_taskstats_time, of locks without the waits of threads
 * that wait for work, and these as the last part. Returns their sum. The title is for people. */
#define GS_TASKSTATS_PART_IDLE GS_TIME_COUNT
#define GS_TASKSTATS_PARTS     (GS_TIME_COUNT + 1)
uint64_t gs_taskstats_parts(const struct gs_taskstats *w, uint64_t ret_ns[GS_TASKSTATS_PARTS]);
const char *gs_taskstats_part_title(unsigned part);

/* The sum of the time counters: threads x wall. */
uint64_t gs_taskstats_wall_ns(const struct gs_taskstats *w);

/* Bytes of regular files that reads returned and no request to a device brought: the page cache's
 * share. 0 when read-ahead brought more than was read. */
uint64_t gs_taskstats_cached_bytes(const struct gs_taskstats *w);

/* Bytes and operations on files of every kind of file system. */
struct gs_taskstats_io_count gs_taskstats_file_io(const struct gs_taskstats *w);

#endif
#endif
