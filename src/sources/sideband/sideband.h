/*
 * Notices of newly mapped executable files, new programs (exec) and ended processes, for all
 * processes of the machine, through perf's side-band records: no tracefs, no BPF, no cost but at
 * the mmap itself.
 */
#ifndef GS_SOURCES_SIDEBAND_SIDEBAND_H
#define GS_SOURCES_SIDEBAND_SIDEBAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"

struct gs_sideband;

enum gs_sideband_kind {
	GS_SIDEBAND_MAP = 1,  /* path was mapped executable */
	GS_SIDEBAND_EXEC = 2, /* the process runs another program now */
	GS_SIDEBAND_FORK = 3, /* a new process (threads are not reported) */
	GS_SIDEBAND_EXIT = 4, /* a process ended */
};

struct gs_sideband_notice {
	enum gs_sideband_kind kind; /* which of the fields below are set */
	pid_t pid;
	pid_t parent_pid;                    /* FORK */
	uint64_t time_ns;                    /* monotonic */
	uint64_t dev, ino;                   /* MAP: as st_dev and st_ino; dev not on btrfs */
	uint64_t start, len_bytes, file_off; /* MAP: where in memory, and of which part */
	const char *path;                    /* MAP: as the process names it; lent */
};

/* False: not now. This notice and those after it are kept for the next poll. */
typedef bool (*gs_sideband_fn)(void *ctx, const struct gs_sideband_notice *notice);

/* Opens one software event on each CPU. -EPERM/-EACCES: says which capability lacks. */
int gs_sideband_new(struct gs_sideband **ret_watch, struct gs_err *err);
void gs_sideband_free(struct gs_sideband **watch);

/* An epoll descriptor that turns readable as soon as a notice is there. Owned by the watch. The
 * kernel signals a notice once, and adding the descriptor to a loop can use that up: call
 * gs_sideband_poll() once after adding it. */
int gs_sideband_fd(const struct gs_sideband *watch);

/* Deliver what was kept, then what is there, ordered by time over all CPUs. Returns how many were
 * delivered. */
int gs_sideband_poll(struct gs_sideband *watch, gs_sideband_fn fn, void *ctx);

/* The same of what was kept alone. */
int gs_sideband_poll_kept(struct gs_sideband *watch, gs_sideband_fn fn, void *ctx);

/* Notices that the kernel dropped since the start, as far as it has said: of a ring it says so with the next
 * notice in it. */
uint64_t gs_sideband_lost(const struct gs_sideband *watch);

/* Ask how many it has dropped so far, so that gs_sideband_lost() has all. Nothing before Linux 6.0. */
void gs_sideband_count_lost(struct gs_sideband *watch);

#endif
