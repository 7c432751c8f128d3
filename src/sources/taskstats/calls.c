/*
 * What each system call means to the work probes, by name, so that the three numberings need one
 * table: why a thread sleeps in it, and what its result says of a file.
 */
#include "sources/taskstats/taskstats_int.h"

#include <string.h>

#include "core/base/mem.h"

static const struct {
	const char *name;
	struct gs_taskstats_call_desc desc;
} known[] = {
	{"read", {GS_WAIT_FD0, GS_OP_READ}},
	{"pread64", {GS_WAIT_FD0, GS_OP_READ}},
	{"readv", {GS_WAIT_FD0, GS_OP_READ}},
	{"preadv", {GS_WAIT_FD0, GS_OP_READ}},
	{"preadv2", {GS_WAIT_FD0, GS_OP_READ}},
	{"write", {GS_WAIT_FD0, GS_OP_WRITE}},
	{"pwrite64", {GS_WAIT_FD0, GS_OP_WRITE}},
	{"writev", {GS_WAIT_FD0, GS_OP_WRITE}},
	{"pwritev", {GS_WAIT_FD0, GS_OP_WRITE}},
	{"pwritev2", {GS_WAIT_FD0, GS_OP_WRITE}},
	{"sendfile", {GS_WAIT_FD0, GS_OP_SENDFILE}},
	{"sendfile64", {GS_WAIT_FD0, GS_OP_SENDFILE}},
	{"copy_file_range", {GS_WAIT_FD0, GS_OP_COPY}},
	{"splice", {GS_WAIT_FD0, GS_OP_COPY}},
	{"tee", {GS_WAIT_FD0, GS_OP_NONE}},
	{"vmsplice", {GS_WAIT_FD0, GS_OP_NONE}},
	{"ioctl", {GS_WAIT_FD0, GS_OP_NONE}},
	{"fsync", {GS_WAIT_FD0, GS_OP_NONE}},
	{"fdatasync", {GS_WAIT_FD0, GS_OP_NONE}},
	{"sync_file_range", {GS_WAIT_FD0, GS_OP_NONE}},
	{"ftruncate", {GS_WAIT_FD0, GS_OP_NONE}},
	{"fallocate", {GS_WAIT_FD0, GS_OP_NONE}},
	{"getdents", {GS_WAIT_FD0, GS_OP_NONE}},
	{"getdents64", {GS_WAIT_FD0, GS_OP_NONE}},
	{"close", {GS_WAIT_DISK, GS_OP_NONE}},
	{"sync", {GS_WAIT_DISK, GS_OP_NONE}},
	{"syncfs", {GS_WAIT_DISK, GS_OP_NONE}},
	{"io_getevents", {GS_WAIT_DISK, GS_OP_AIO}},
	{"io_pgetevents", {GS_WAIT_DISK, GS_OP_AIO}},
	{"io_pgetevents_time64", {GS_WAIT_DISK, GS_OP_AIO}},

	{"recvfrom", {GS_WAIT_NETWORK, GS_OP_READ}},
	{"recvmsg", {GS_WAIT_NETWORK, GS_OP_READ}},
	{"sendto", {GS_WAIT_NETWORK, GS_OP_WRITE}},
	{"sendmsg", {GS_WAIT_NETWORK, GS_OP_WRITE}},
	{"recvmmsg", {GS_WAIT_NETWORK, GS_OP_READ_MANY}},
	{"recvmmsg_time64", {GS_WAIT_NETWORK, GS_OP_READ_MANY}},
	{"sendmmsg", {GS_WAIT_NETWORK, GS_OP_WRITE_MANY}},
	{"accept", {GS_WAIT_NETWORK, GS_OP_ACCEPT}},
	{"accept4", {GS_WAIT_NETWORK, GS_OP_ACCEPT}},
	{"connect", {GS_WAIT_NETWORK, GS_OP_NONE}},
	{"shutdown", {GS_WAIT_NETWORK, GS_OP_NONE}},
	{"socketcall", {GS_WAIT_NETWORK, GS_OP_NONE}},

	{"futex", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"futex_time64", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"futex_waitv", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"futex_wait", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"semop", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"semtimedop", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"semtimedop_time64", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"flock", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"fcntl", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"fcntl64", {GS_WAIT_LOCK, GS_OP_NONE}},
	{"mmap", {GS_WAIT_MAP, GS_OP_NONE}},
	{"mmap2", {GS_WAIT_MAP, GS_OP_NONE}},
	{"munmap", {GS_WAIT_MAP, GS_OP_NONE}},
	{"mprotect", {GS_WAIT_MAP, GS_OP_NONE}},
	{"mremap", {GS_WAIT_MAP, GS_OP_NONE}},
	{"madvise", {GS_WAIT_MAP, GS_OP_NONE}},
	{"brk", {GS_WAIT_MAP, GS_OP_NONE}},

	{"nanosleep", {GS_WAIT_SLEEP, GS_OP_NONE}},
	{"clock_nanosleep", {GS_WAIT_SLEEP, GS_OP_NONE}},
	{"clock_nanosleep_time64", {GS_WAIT_SLEEP, GS_OP_NONE}},
	{"restart_syscall", {GS_WAIT_SLEEP, GS_OP_NONE}},
	{"pause", {GS_WAIT_SLEEP, GS_OP_NONE}},
	{"rt_sigtimedwait", {GS_WAIT_SLEEP, GS_OP_NONE}},
	{"rt_sigtimedwait_time64", {GS_WAIT_SLEEP, GS_OP_NONE}},
	{"rt_sigsuspend", {GS_WAIT_SLEEP, GS_OP_NONE}},
	{"sigsuspend", {GS_WAIT_SLEEP, GS_OP_NONE}},

	{"wait4", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"waitid", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"waitpid", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"vfork", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"clone", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"clone3", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"msgrcv", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"msgsnd", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"mq_timedreceive", {GS_WAIT_PIPE, GS_OP_NONE}},
	{"mq_timedsend", {GS_WAIT_PIPE, GS_OP_NONE}},

	{"poll", {GS_WAIT_POLL, GS_OP_NONE}},
	{"ppoll", {GS_WAIT_POLL, GS_OP_NONE}},
	{"ppoll_time64", {GS_WAIT_POLL, GS_OP_NONE}},
	{"select", {GS_WAIT_SELECT, GS_OP_NONE}},
	{"_newselect", {GS_WAIT_SELECT, GS_OP_NONE}},
	{"pselect6", {GS_WAIT_SELECT, GS_OP_NONE}},
	{"pselect6_time64", {GS_WAIT_SELECT, GS_OP_NONE}},
	{"epoll_wait", {GS_WAIT_EPOLL, GS_OP_NONE}},
	{"epoll_pwait", {GS_WAIT_EPOLL, GS_OP_NONE}},
	{"epoll_pwait2", {GS_WAIT_EPOLL, GS_OP_NONE}},
	{"io_uring_enter", {GS_WAIT_URING, GS_OP_NONE}},
};

static struct gs_taskstats_call_desc describe_call(const char *name)
{
	for (size_t i = 0; name && i < GS_ARRAY_LEN(known); i++) {
		if (strcmp(known[i].name, name) == 0)
			return known[i].desc;
	}
	return (struct gs_taskstats_call_desc){GS_WAIT_OTHER, GS_OP_NONE};
}

void taskstats_calls_fill(struct gs_taskstats_call_desc calls[2][GS_TASKSTATS_TABLE_CALLS])
{
	for (uint32_t abi = 0; abi < 2; abi++) {
		for (uint32_t nr = 0; nr < GS_TASKSTATS_TABLE_CALLS; nr++)
			calls[abi][nr] =
				describe_call(gs_taskstats_call_word(GS_TASKSTATS_CALL(abi, nr)));
	}
}
