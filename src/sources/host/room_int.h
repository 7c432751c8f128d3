/* What is inside struct gs_host, for the files of the room. */
#ifndef GS_SOURCES_HOST_ROOM_INT_H
#define GS_SOURCES_HOST_ROOM_INT_H

#include <stdbool.h>

#include "core/base/buf.h"
#include "core/base/map.h"
#include "sources/host/host.h"
#include "sources/host/host_int.h"

#define HOST_MAX_USERS 65536

enum host_file { HOST_STAT, HOST_MEMINFO, HOST_LOADAVG, HOST_DISKSTATS, HOST_NET, HOST_N_FILES };

/* A process as it was at the last reading. */
struct host_seen {
	uint32_t pid;
	uint32_t change; /* enum gs_host_change */
	uint64_t start_ticks, cpu_ticks;
	char comm[16];
	uint64_t read_ns; /* when these were read */
	uint32_t parent_pid;
	int32_t n_threads;
	uint64_t rss_pages;
	char state;
	uint8_t quiet;  /* readings in which it used no processor time */
	bool is_kernel; /* a thread of the kernel: in no list */
};

struct gs_host {
	int proc_fd;               /* owned */
	int file_fd[HOST_N_FILES]; /* owned; -1 not there */
	struct gs_buf text;        /* scratch of one file */
	uint64_t ns_per_tick, page_bytes;

	uint64_t time_ns; /* of the last reading; 0 none */
	struct gs_host_counters counters;
	struct host_seen *seen; /* owned; by pid, rising */
	size_t n_seen;
	uint32_t turn; /* of reading processes */
	uint64_t failed_reads;

	struct gs_map users; /* uid -> index of user_names */
	char **user_names;   /* owned, each too */
	size_t n_users;
};

int gs_host_read_processes(struct gs_host *h, const uint32_t *pids, size_t n_pids, bool all,
			   struct gs_host_snapshot *s);
int gs_host_read_stat(struct gs_host *h, uint32_t pid, struct gs_host_stat *ret_stat);

#endif
