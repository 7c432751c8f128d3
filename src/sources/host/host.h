/*
 * The machine and its processes, out of procfs: one pass over a few files for the machine and one
 * small file for each process that is asked for. Numbers only; who a process is (user, container,
 * command line) is said by sources/identity.
 *
 * One thread at a time.
 */
#ifndef GS_SOURCES_HOST_HOST_H
#define GS_SOURCES_HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "model/node/host.h"

struct gs_host;

/* proc_root is "/proc", or another folder in tests. A negative errno with err. */
int gs_host_open(const char *proc_root, struct gs_host **ret_host, struct gs_err *err);
void gs_host_close(struct gs_host **host);

/* Read now. Of the processes: those of pids with their ancestors, or every one but threads of the
 * kernel when all is set; then those that used no processor time lately and are not of pids are as
 * they were up to three readings ago. A pid that is not there is left out. Rates are of the time
 * since the call before. The snapshot is the caller's; its texts but comm are still empty. -ENOMEM.
 */
int gs_host_read(struct gs_host *host, const uint32_t *pids, size_t n_pids, bool all,
		 struct gs_host_snapshot **ret_snapshot);

enum gs_host_change {
	GS_HOST_SAME = 0,
	GS_HOST_NEW = 1,     /* not seen before, or another process has the pid now */
	GS_HOST_RENAMED = 2, /* its name changed: as a rule it runs another program */
};
/* What happened to a pid between the last two calls of gs_host_read() that read it. */
enum gs_host_change gs_host_change_of(const struct gs_host *host, uint32_t pid);

/* The name of a user, "" when there is none; kept after the first look-up. Lent for as long as the
 * room is open. */
const char *gs_host_user_name(struct gs_host *host, uint32_t uid);

/* Append the environment of a process as it was started: terminated texts, "NAME=value". -EACCES,
 * -ENOENT, ... */
int gs_host_read_environ(struct gs_host *host, uint32_t pid, struct gs_buf *buf);

/* Send a signal to the process that has this pid and began at start_ns (0: any process with the pid).
 * -ESRCH: it is gone, also when another has its pid now; -EPERM. */
int gs_host_signal(struct gs_host *host, uint32_t pid, uint64_t start_ns, int number);

#endif
