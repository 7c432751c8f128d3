/*
 * What the kernel did for a process or a cgroup: counters that only grow, summed in the kernel over
 * all threads, ended ones included. Read two of them and take the difference. Compiled by the BPF
 * compiler too.
 *
 * Every ns of a thread between its start and its end is in exactly one of the time counters, so
 * they sum to (threads x wall time); the state it is in at the moment of reading is added by the
 * reader of the kernel's maps.
 */
#ifndef GS_MODEL_WORK_H
#define GS_MODEL_WORK_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define GS_WORK_SYSCALLS  1024 /* numbers told apart; larger ones are one */
#define GS_WORK_LOG2      40   /* buckets: 2^i .. 2^(i+1) ns */
#define GS_WORK_IO_KINDS  8
#define GS_WORK_NET_PEERS 256 /* by process group */

enum gs_work_time { /* where the time of its threads went */
		    GS_TIME_CPU = 0,
		    GS_TIME_RUNQUEUE = 1, /* could run, but other tasks did */
		    GS_TIME_DISK = 2,     /* uninterruptible, or waiting for a page or block */
		    GS_TIME_NETWORK =
			    3, /* in a call on a socket, poll and epoll on sockets among them */
		    GS_TIME_LOCK = 4, /* futex */
		    GS_TIME_GPU =
			    5, /* in a call into the GPU's driver (ioctl, poll of its files) */
		    GS_TIME_SLEEP = 6, /* asked to: nanosleep and timers */
		    GS_TIME_PIPE = 7,  /* pipes, ttys, eventfd, waiting for children */
		    GS_TIME_OTHER = 8,
		    GS_TIME_COUNT
};

enum gs_work_io {                    /* kinds of files; bytes as returned, not as asked for */
		  GS_IO_FILE = 0,    /* regular, on a disk */
		  GS_IO_NETFILE = 1, /* regular, on a network or cluster file system */
		  GS_IO_TMPFS = 2,
		  GS_IO_PIPE = 3,
		  GS_IO_SOCKET = 4,
		  GS_IO_DEVICE = 5,
		  GS_IO_TTY = 6,
		  GS_IO_OTHER = 7,
};

struct gs_work_io_count {
	__u64 reads, writes;
	__u64 read_bytes, write_bytes;
	__u64 errors;
	__u64 total_ns;
};

struct gs_work { /* one process or cgroup */
	__u64 time_ns[GS_TIME_COUNT];
	__u64 switches_voluntary, switches_forced, migrations;
	__u64 threads_started, threads_ended;
	__u64 syscalls, syscall_errors, syscall_ns;
	struct gs_work_io_count io[GS_WORK_IO_KINDS];
	__u64 disk_reads, disk_writes; /* requests that reached a block device */
	__u64 disk_read_bytes,
		disk_write_bytes; /* so far as they can be told from whom they come */
	__u64 disk_ns;            /* their time at the device, summed */
	__u64 net_sent_bytes, net_received_bytes;
	__u64 net_connects, net_accepts, net_retransmits;
	__u64 faults_minor, faults_major;
	__u64 oom_kills;
};

struct gs_work_syscall { /* one call of one process or cgroup */
	__u64 calls, errors, total_ns, max_ns;
	__u32 hist[GS_WORK_LOG2];
};

#endif
