/*
 * Pressure (PSI): how long tasks stalled for lack of processors, memory or I/O, of the machine or
 * of a cgroup of the unified hierarchy.
 */
#ifndef GS_SOURCES_HOST_PRESSURE_H
#define GS_SOURCES_HOST_PRESSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/node/job_usage.h"

struct gs_host_stalls {
	int64_t total_us[GS_STALL_COUNT]; /* since the start; -1 unknown */
	int64_t cpu_full_us; /* all tasks of a cgroup waited for a processor; before 5.13: -1 */
};

/* The machine's: folder is "/proc/pressure", files are named "cpu". False: nothing could be read.
 */
bool gs_host_stalls_read(const char *folder, struct gs_host_stalls *ret_pressure);

/* Of the cgroup of a process, or (pid 0) of a path below the mount. sysfs_root is
 * "/sys/fs/cgroup"; where version 1 has that place, version 2 stands in its folder "unified". */
bool gs_host_stalls_of_cgroup(const char *sysfs_root, const char *proc_root, uint32_t pid,
			      const char *path, struct gs_host_stalls *ret_pressure);

/* The number after total= in the line that begins with the word ("some", "full") of a text of PSI
 * (Documentation/accounting/psi.rst). -1: it has none. */
int64_t gs_host_parse_stalls(const char *text, const char *word);

#endif
