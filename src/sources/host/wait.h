/* Between the files of host: what a thread that is off the processor waits for. */
#ifndef GS_SOURCES_HOST_WAIT_H
#define GS_SOURCES_HOST_WAIT_H

#include <stdint.h>

#include "model/trace/taskstats.h"

struct host_syscall {    /* /proc/PID/task/TID/syscall */
	long nr;         /* -1: in none (a page fault) */
	uint64_t arg[6]; /* as the call was given them */
};

/* 1: in a system call; 0: running; negative: not such a text. */
int gs_host_parse_syscall(const char *text, struct host_syscall *ret_syscall);

/* proc_fd is a descriptor of proc_root. state as in /proc/PID/stat. */
enum gs_taskstats_time gs_host_wait_cause(int proc_fd, uint32_t pid, char state,
					  const struct host_syscall *syscall);

/* What waiting on the target of a link in /proc/PID/fd means. */
enum gs_taskstats_time gs_host_wait_of_link(const char *link);

#endif
