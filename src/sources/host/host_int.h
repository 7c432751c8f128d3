/* Between the files of host: pure parsers of procfs texts, each of any content. */
#ifndef GS_SOURCES_HOST_HOST_INT_H
#define GS_SOURCES_HOST_HOST_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/node/host.h"

struct gs_host_stat { /* /proc/PID/stat */
	char comm[16];
	char state;
	uint32_t parent_pid;
	int32_t n_threads;
	uint64_t cpu_ticks; /* user and system */
	uint64_t start_ticks;
	uint64_t rss_pages;
	bool is_kernel; /* a thread of the kernel */
};

/* False when the text is not such a line. The name in it may hold anything, ')' included. */
bool gs_host_parse_stat(const char *text, size_t bytes, struct gs_host_stat *ret_stat);

struct gs_host_counters { /* of the machine, since its start; UINT64_MAX not known */
	uint64_t cpu_total, cpu_idle, cpu_iowait;     /* ticks */
	uint64_t disk_read_bytes, disk_written_bytes; /* of whole disks */
	uint64_t net_rx_bytes, net_tx_bytes;          /* without lo and what lies on others */
};

/* Each fills what it finds and leaves the rest as it was. Texts are terminated. */
void gs_host_parse_cpu(const char *stat_text, struct gs_host_counters *counters, int32_t *n_cpus);
void gs_host_parse_meminfo(const char *text, struct gs_host_sample *sample);
void gs_host_parse_loadavg(const char *text, struct gs_host_sample *sample);
void gs_host_parse_diskstats(const char *text, struct gs_host_counters *counters);
void gs_host_parse_net_dev(const char *text, struct gs_host_counters *counters);

/* The path of a hierarchy ("" version 2, else the name of a controller) in a text of
 * /proc/PID/cgroup. False: it has none. */
bool gs_host_parse_cgroup(const char *text, const char *hierarchy, char *out, size_t bytes);

#endif
