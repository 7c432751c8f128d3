/*
 * Notices of newly mapped executable files, new programs (exec) and ended processes, for all
 * processes of the machine, through perf's side-band records: no tracefs, no BPF, no cost but at
 * the mmap itself.
 */
#ifndef GS_WATCH_WATCH_H
#define GS_WATCH_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"

struct gs_watch;

enum gs_watch_kind {
	GS_WATCH_MAP = 1,  /* path was mapped executable */
	GS_WATCH_EXEC = 2, /* the process runs another program now */
	GS_WATCH_FORK = 3, /* a new process (threads are not told) */
	GS_WATCH_EXIT = 4, /* a process ended */
};

struct gs_watch_notice {
	enum gs_watch_kind kind;
	pid_t pid;
	pid_t parent_pid;                    /* FORK */
	uint64_t time_ns;                    /* monotonic */
	uint64_t ino;                        /* MAP */
	uint64_t start, len_bytes, file_off; /* MAP: where in memory, and of which part */
	const char *path;                    /* MAP: as the process names it; lent */
};

typedef void (*gs_watch_fn)(void *ctx, const struct gs_watch_notice *notice);

/* Opens one software event on each CPU. -EPERM/-EACCES: says which capability lacks. */
int gs_watch_new(struct gs_watch **ret_watch, struct gs_err *err);
void gs_watch_free(struct gs_watch **watch);

/* An epoll descriptor that turns readable as soon as a notice is there. Owned by the watch. The
 * kernel signals a notice once, and adding the descriptor to a loop can use that up: call
 * gs_watch_poll() once after adding it. */
int gs_watch_fd(const struct gs_watch *watch);

/* Deliver what is there, ordered by time over all CPUs. Returns how many were delivered. */
int gs_watch_poll(struct gs_watch *watch, gs_watch_fn fn, void *ctx);

/* Notices that the kernel dropped since the start. */
uint64_t gs_watch_lost(const struct gs_watch *watch);

#endif
