/*
 * What a thread waits for: the system call it is in, and the file that the call is about. Numbers
 * are those of x86-64 (arch/x86/entry/syscalls/syscall_64.tbl), named by the C library's header.
 */
#include "sources/host/wait.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/mem.h"

#define POLL_LOOK 8 /* of a call that waits for many files, so many are looked at */

/* Who waits for sockets for no longer than that looks for work now and then, as far as can be seen from outside:
 * whether data came is not known. Who waits for an answer gives it longer. */
#define LOOK_NS 100000000

int gs_host_parse_syscall(const char *text, struct host_syscall *ret)
{
	char *end;

	if (strncmp(text, "running", 7) == 0)
		return 0;
	*ret = (struct host_syscall){.nr = strtol(text, &end, 10)};
	if (end == text || ret->nr < -1)
		return -1;
	for (int i = 0; ret->nr >= 0 && i < 6; i++) {
		const char *at = end;

		ret->arg[i] = strtoull(at, &end, 16);
		if (end == at)
			return -1;
	}
	return 1;
}

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

enum gs_taskstats_time gs_host_wait_of_link(const char *link)
{
	if (starts_with(link, "socket:"))
		return GS_TIME_NETWORK;
	if (starts_with(link, "pipe:") || starts_with(link, "/dev/pts/") ||
	    starts_with(link, "/dev/tty") || starts_with(link, "anon_inode:[eventfd") ||
	    starts_with(link, "anon_inode:inotify") || starts_with(link, "anon_inode:[signalfd") ||
	    starts_with(link, "anon_inode:[pidfd"))
		return GS_TIME_PIPE;
	if (starts_with(link, "anon_inode:[timerfd"))
		return GS_TIME_SLEEP;
	if (starts_with(link, "/dev/nvidia") || starts_with(link, "/dev/dri/") ||
	    starts_with(link, "/dev/kfd"))
		return GS_TIME_GPU;
	if (starts_with(link, "anon_inode:[io_uring]"))
		return GS_TIME_DISK;
	return link[0] == '/' && !starts_with(link, "/dev/") ? GS_TIME_DISK : GS_TIME_OTHER;
}

static enum gs_taskstats_time of_fd(int proc_fd, uint32_t pid, uint64_t fd)
{
	char name[64], link[256];
	ssize_t n;

	snprintf(name, sizeof(name), "%u/fd/%u", pid, (unsigned)fd);
	n = readlinkat(proc_fd, name, link, sizeof(link) - 1);
	if (n < 0)
		return GS_TIME_OTHER;
	link[n] = '\0';
	return gs_host_wait_of_link(link);
}

/* The first of several files that has something. */
static enum gs_taskstats_time better_wait(enum gs_taskstats_time a, enum gs_taskstats_time b)
{
	/* A program that waits for requests also has a pipe or event to be woken by. */
	if (a == GS_TIME_NETWORK || b == GS_TIME_OTHER)
		return a;
	return b == GS_TIME_NETWORK || a == GS_TIME_OTHER ? b : a;
}

/* What /proc/PID/fdinfo/FD says of a file; false: it cannot be read. */
static bool read_fdinfo(int proc_fd, uint32_t pid, uint64_t number, char *text, size_t bytes)
{
	GS_CLOSE int fd = -1;
	char name[64];
	ssize_t n;

	snprintf(name, sizeof(name), "%u/fdinfo/%u", pid, (unsigned)number);
	fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, bytes - 1) : -1;
	if (n < 0)
		return false;
	text[n] = '\0';
	return true;
}

/* A ring whose operations have all completed is waited on for work: servers have a thread for that
 * (MariaDB's InnoDB). The counters are of 32 bits and only grow. Linux 5.14 (io_uring/fdinfo.c). */
static enum gs_taskstats_time of_uring(int proc_fd, uint32_t pid, uint64_t ring_fd)
{
	const char *taken, *completed;
	char text[4096];

	if (!read_fdinfo(proc_fd, pid, ring_fd, text, sizeof(text)))
		return GS_TIME_DISK;
	taken = strstr(text, "\nCachedSqHead:");
	completed = strstr(text, "\nCachedCqTail:");
	if (!taken || !completed)
		return GS_TIME_DISK;
	return (uint32_t)strtoull(taken + 14, NULL, 10) ==
			       (uint32_t)strtoull(completed + 14, NULL, 10)
		       ? GS_TIME_OTHER
		       : GS_TIME_DISK;
}

static enum gs_taskstats_time of_epoll(int proc_fd, uint32_t pid, uint64_t epoll_fd)
{
	enum gs_taskstats_time cause = GS_TIME_OTHER;
	char text[4096], *at = text;

	if (!read_fdinfo(proc_fd, pid, epoll_fd, text, sizeof(text)))
		return GS_TIME_OTHER;
	for (int i = 0; i < POLL_LOOK && (at = strstr(at, "tfd:")); i++) {
		at += 4;
		cause = better_wait(cause, of_fd(proc_fd, pid, strtoull(at, NULL, 10)));
	}
	return cause;
}

static bool peek_memory(uint32_t pid, uint64_t address, void *out, size_t bytes)
{
	struct iovec to = {out, bytes}, from = {(void *)(uintptr_t)address, bytes};

	return process_vm_readv((pid_t)pid, &to, 1, &from, 1, 0) == (ssize_t)bytes;
}

static enum gs_taskstats_time of_poll(int proc_fd, uint32_t pid, uint64_t address, uint64_t n)
{
	enum gs_taskstats_time cause = GS_TIME_OTHER;
	struct pollfd fds[POLL_LOOK];

	if (!n)
		return GS_TIME_SLEEP; /* it waits for nothing but the time */
	if (n > POLL_LOOK)
		n = POLL_LOOK;
	if (!peek_memory(pid, address, fds, n * sizeof(fds[0])))
		return GS_TIME_OTHER;
	for (uint64_t i = 0; i < n; i++)
		if (fds[i].fd >= 0)
			cause = better_wait(cause, of_fd(proc_fd, pid, (uint64_t)fds[i].fd));
	return cause;
}

static enum gs_taskstats_time of_select(int proc_fd, uint32_t pid, const uint64_t arg[6])
{
	enum gs_taskstats_time cause = GS_TIME_OTHER;
	uint64_t bits;

	if (!arg[0] || (!arg[1] && !arg[2] && !arg[3]))
		return GS_TIME_SLEEP;
	for (int set = 1; set <= 2; set++)
		if (arg[set] && peek_memory(pid, arg[set], &bits, sizeof(bits)))
			for (; bits; bits &= bits - 1)
				cause = better_wait(cause, of_fd(proc_fd, pid,
								 (uint64_t)__builtin_ctzll(bits)));
	return cause;
}

/* A timeout that the call was given; unit_ns: of its second number, a struct timeval has microseconds. 0: none, or not
 * known. */
static uint64_t read_timeout_ns(uint32_t pid, uint64_t address, uint64_t unit_ns)
{
	int64_t t[2];

	if (!address || !peek_memory(pid, address, t, sizeof(t)) || t[0] < 0 || t[0] > LOOK_NS)
		return 0;
	return (uint64_t)t[0] * 1000000000 + (uint64_t)t[1] * unit_ns;
}

static uint64_t timeout_ns_of(uint32_t pid, const struct host_syscall *s)
{
	switch (s->nr) {
	case SYS_poll:
		return (int)s->arg[2] > 0 ? (uint64_t)(int)s->arg[2] * 1000000 : 0;
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
		return (int)s->arg[3] > 0 ? (uint64_t)(int)s->arg[3] * 1000000 : 0;
	case SYS_ppoll:
		return read_timeout_ns(pid, s->arg[2], 1);
	case 441: /* epoll_pwait2, Linux 5.11 */
		return read_timeout_ns(pid, s->arg[3], 1);
	case SYS_pselect6:
		return read_timeout_ns(pid, s->arg[4], 1);
	case SYS_select:
		return read_timeout_ns(pid, s->arg[4], 1000);
	default:
		return 0;
	}
}

static enum gs_taskstats_time of_call(int proc_fd, uint32_t pid, const struct host_syscall *s)
{
	switch (s->nr) {
	case SYS_futex:
	case 449: /* futex_waitv, Linux 5.16 */
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_flock:
		return GS_TIME_LOCK;
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_pause:
	case SYS_rt_sigtimedwait:
	case SYS_rt_sigsuspend:
		return GS_TIME_SLEEP;
	case SYS_wait4:
	case SYS_waitid:
	case SYS_msgrcv:
	case SYS_msgsnd:
		return GS_TIME_PIPE;
	case SYS_accept:
	case SYS_accept4:
		return GS_TIME_OTHER; /* for clients: it has nothing to do */
	case SYS_connect:
	case SYS_sendto:
	case SYS_recvfrom:
	case SYS_sendmsg:
	case SYS_recvmsg:
	case SYS_sendmmsg:
	case SYS_recvmmsg:
		return GS_TIME_NETWORK;
	case SYS_read:
	case SYS_write:
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_readv:
	case SYS_writev:
	case SYS_preadv:
	case SYS_pwritev:
	case SYS_preadv2:
	case SYS_pwritev2:
	case SYS_ioctl:
	case SYS_splice:
		return of_fd(proc_fd, pid, s->arg[0]);
	case SYS_sendfile:
		return better_wait(of_fd(proc_fd, pid, s->arg[0]), of_fd(proc_fd, pid, s->arg[1]));
	case SYS_poll:
	case SYS_ppoll:
		return of_poll(proc_fd, pid, s->arg[0], s->arg[1]);
	case SYS_select:
	case SYS_pselect6:
		return of_select(proc_fd, pid, s->arg);
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case 441: /* epoll_pwait2, Linux 5.11 */
		return of_epoll(proc_fd, pid, s->arg[0]);
	case 426: /* io_uring_enter, Linux 5.1 */
		return of_uring(proc_fd, pid, s->arg[0]);
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_sync:
	case SYS_syncfs:
	case SYS_io_getevents:
	case 333: /* io_pgetevents, Linux 4.18 */
	case SYS_open:
	case SYS_openat:
	case SYS_unlink:
	case SYS_rename:
	case SYS_getdents64:
		return GS_TIME_DISK;
	default:
		return GS_TIME_OTHER;
	}
}

enum gs_taskstats_time gs_host_wait_cause(int proc_fd, uint32_t pid, char state,
					  const struct host_syscall *s)
{
	enum gs_taskstats_time cause;

	if (state == 'T' || state == 't' || state == 'Z' || state == 'X')
		return GS_TIME_OTHER;
	cause = s->nr >= 0 ? of_call(proc_fd, pid, s) : GS_TIME_OTHER;
	if (cause == GS_TIME_NETWORK) {
		uint64_t ns = timeout_ns_of(pid, s);

		if (ns && ns <= LOOK_NS)
			return GS_TIME_OTHER;
	}
	/* Uninterruptible is a disk, unless the call shows something else that is known to
	 * wait so. */
	if (state == 'D' && cause != GS_TIME_GPU && cause != GS_TIME_NETWORK)
		return GS_TIME_DISK;
	return cause;
}
