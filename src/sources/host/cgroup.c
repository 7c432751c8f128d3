/* Memory and processors of a cgroup: version 2, or the controllers' own hierarchies of version 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/host/host_int.h"
#include "sources/host/taskstats.h"

#define PATH_BYTES 1024
/* Version 1 writes "no limit" as the largest multiple of a page (mm/page_counter.c). */
#define NO_LIMIT (INT64_MAX / 4096 * 4096 - 4096)

static ssize_t read_text(const char *path, char *text, size_t bytes)
{
	GS_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, bytes - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return n;
}

/* The number in a file, or after a word in it; -1: not there, "max", no limit. */
static int64_t read_number(const char *folder, const char *file, const char *word)
{
	char path[PATH_BYTES + 64], text[4096], *at = text, *end;
	long long v;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	if (read_text(path, text, sizeof(text)) <= 0)
		return -1;
	if (word) {
		size_t n = strlen(word);

		while (at && (strncmp(at, word, n) != 0 || at[n] != ' ')) {
			at = strchr(at, '\n');
			at = at ? at + 1 : NULL;
		}
		if (!at)
			return -1;
		at += n;
	}
	v = strtoll(at, &end, 10);
	return end == at || v < 0 || v >= NO_LIMIT ? -1 : v;
}

bool gs_host_parse_cgroup(const char *text, const char *hierarchy, char *out, size_t bytes)
{
	size_t n = strlen(hierarchy);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *names, *path, *end;

		line += *line == '\n';
		names = strchr(line, ':');
		path = names ? strchr(names + 1, ':') : NULL;
		if (!path)
			return false;
		end = path + strcspn(path, "\n");
		for (const char *at = ++names; at <= path; at += strcspn(at, ",:") + 1)
			if (strcspn(at, ",:") == n && strncmp(at, hierarchy, n) == 0) {
				snprintf(out, bytes, "%.*s", (int)(end - path - 1), path + 1);
				return true;
			}
	}
	return false;
}

/* The lowest limit of the group and those above it. */
static int64_t lowest_limit(const char *mount, const char *path, const char *file)
{
	char folder[PATH_BYTES * 2];
	int64_t best = -1;
	size_t above;

	above = (size_t)snprintf(folder, sizeof(folder), "%s", mount);
	snprintf(folder + above, sizeof(folder) - above, "%s", path);
	for (;;) {
		int64_t v = read_number(folder, file, NULL);
		char *slash;

		if (v >= 0 && (best < 0 || v < best))
			best = v;
		slash = strrchr(folder, '/');
		if (!slash || (size_t)(slash - folder) < above)
			return best;
		*slash = '\0';
	}
}

/* Processors that the group in this folder may use; -1: no quota. */
static double quota_of(const char *folder, bool v2)
{
	char file[PATH_BYTES * 2 + 16], text[64];
	long long quota, period;

	if (!v2) {
		quota = read_number(folder, "cpu.cfs_quota_us", NULL);
		period = read_number(folder, "cpu.cfs_period_us", NULL);
	} else {
		snprintf(file, sizeof(file), "%s/cpu.max", folder);
		if (read_text(file, text, sizeof(text)) <= 0 ||
		    sscanf(text, "%lld %lld", &quota, &period) != 2)
			return -1;
	}
	return quota > 0 && period > 0 ? (double)quota / (double)period : -1;
}

static void read_throttling(const char *folder, bool v2, struct gs_host_cgroup *c)
{
	c->periods = read_number(folder, "cpu.stat", "nr_periods");
	c->throttled_periods = read_number(folder, "cpu.stat", "nr_throttled");
	c->throttled_ns = read_number(folder, "cpu.stat", v2 ? "throttled_usec" : "throttled_time");
	if (v2 && c->throttled_ns >= 0)
		c->throttled_ns *= 1000;
}

/* Of the group and those above it, the one with the lowest quota stops its tasks first. */
static void read_quota(const char *mount, const char *path, bool v2, struct gs_host_cgroup *c)
{
	char folder[PATH_BYTES * 2];
	size_t above = (size_t)snprintf(folder, sizeof(folder), "%s", mount);
	char *slash;

	snprintf(folder + above, sizeof(folder) - above, "%s", path);
	for (;;) {
		double cores = quota_of(folder, v2);

		if (cores > 0 && (c->cores < 0 || cores < c->cores)) {
			c->cores = cores;
			read_throttling(folder, v2, c);
		}
		slash = strrchr(folder, '/');
		if (!slash || (size_t)(slash - folder) < above)
			return;
		*slash = '\0';
	}
}

struct stat_words { /* of memory.stat, with all groups below */
	const char *anonymous, *cache, *shmem, *active_file, *inactive_file, *slab;
};

/* tmpfs is charged as cache, but only swap takes it; it is on the lists of anonymous memory. */
static void read_stat(const char *folder, const struct stat_words *w, struct gs_host_cgroup *c)
{
	int64_t cache = read_number(folder, "memory.stat", w->cache);
	int64_t shmem = read_number(folder, "memory.stat", w->shmem);
	int64_t active = read_number(folder, "memory.stat", w->active_file);
	int64_t inactive = read_number(folder, "memory.stat", w->inactive_file);
	int64_t slab = w->slab ? read_number(folder, "memory.stat", w->slab) : 0;

	c->anonymous_bytes = read_number(folder, "memory.stat", w->anonymous);
	if (cache < 0 || active < 0 || inactive < 0)
		return;
	c->cache_bytes = shmem > cache ? 0 : cache - (shmem > 0 ? shmem : 0);
	c->reclaimable_bytes = active + inactive + (slab > 0 ? slab : 0);
	if (c->memory_bytes < 0)
		return;
	/* The two files are read one after the other. */
	c->memory_bytes =
		c->memory_bytes > c->reclaimable_bytes ? c->memory_bytes - c->reclaimable_bytes : 0;
	if (c->anonymous_bytes > c->memory_bytes)
		c->memory_bytes = c->anonymous_bytes;
	c->memory_peak_bytes = -1;
}

int64_t gs_host_memory_limit(int64_t asked_bytes, int64_t group_bytes, int64_t machine_bytes)
{
	const int64_t of[] = {asked_bytes, group_bytes};
	int64_t best = -1;

	for (size_t i = 0; i < GS_ARRAY_LEN(of); i++) {
		if (of[i] <= 0 || (best > 0 && of[i] >= best))
			continue;
		if (machine_bytes > 0 && of[i] >= machine_bytes - machine_bytes / 16)
			continue;
		best = of[i];
	}
	return best;
}

static bool read_v2(const char *mount, const char *path, struct gs_host_cgroup *c)
{
	static const struct stat_words words = {"anon",        "file",          "shmem",
						"active_file", "inactive_file", "slab_reclaimable"};
	char folder[PATH_BYTES * 2];

	snprintf(folder, sizeof(folder), "%s%s", mount, path);
	c->memory_bytes = read_number(folder, "memory.current", NULL);
	c->memory_peak_bytes = read_number(folder, "memory.peak", NULL); /* Linux 5.19 */
	read_stat(folder, &words, c);
	c->memory_limit_bytes = lowest_limit(mount, path, "memory.max");
	c->oom_kills = read_number(folder, "memory.events", "oom_kill");
	c->cpu_ns = read_number(folder, "cpu.stat", "usage_usec");
	if (c->cpu_ns >= 0)
		c->cpu_ns *= 1000;
	read_quota(mount, path, true, c);
	return c->memory_bytes >= 0 || c->cpu_ns >= 0;
}

static bool read_v1(const char *root, const char *const path[3], struct gs_host_cgroup *c)
{
	static const struct stat_words words = {"total_rss",           "total_cache",
						"total_shmem",         "total_active_file",
						"total_inactive_file", NULL};
	char mount[PATH_BYTES], folder[PATH_BYTES * 2];

	/* "" is the root of that controller: its numbers are the machine's. */
	if (path[0][0]) {
		snprintf(mount, sizeof(mount), "%s/memory", root);
		snprintf(folder, sizeof(folder), "%s%s", mount, path[0]);
		c->memory_bytes = read_number(folder, "memory.usage_in_bytes", NULL);
		c->memory_peak_bytes = read_number(folder, "memory.max_usage_in_bytes", NULL);
		read_stat(folder, &words, c);
		c->memory_limit_bytes = lowest_limit(mount, path[0], "memory.limit_in_bytes");
		c->oom_kills = read_number(folder, "memory.oom_control", "oom_kill");
	}
	if (path[1][0]) {
		snprintf(folder, sizeof(folder), "%s/cpuacct%s", root, path[1]);
		c->cpu_ns = read_number(folder, "cpuacct.usage", NULL);
	}
	if (path[2][0]) {
		snprintf(mount, sizeof(mount), "%s/cpu", root);
		read_quota(mount, path[2], false, c);
	}
	return c->memory_bytes >= 0 || c->cpu_ns >= 0 || c->cores > 0;
}

static const struct gs_host_cgroup nothing_known = {
	.memory_bytes = -1,
	.memory_peak_bytes = -1,
	.memory_limit_bytes = -1,
	.anonymous_bytes = -1,
	.cache_bytes = -1,
	.reclaimable_bytes = -1,
	.cpu_ns = -1,
	.cores = -1,
	.periods = -1,
	.throttled_periods = -1,
	.throttled_ns = -1,
	.oom_kills = -1,
};

bool gs_host_cgroup_names(const char *proc_root, uint32_t pid, char *text, size_t bytes)
{
	char file[PATH_BYTES];

	snprintf(file, sizeof(file), "%s/%u/cgroup", proc_root, pid);
	return read_text(file, text, bytes) > 0;
}

bool gs_host_cgroup_read(const char *sysfs_root, const char *proc_root, uint32_t pid,
			 const char *path, struct gs_host_cgroup *ret)
{
	char text[GS_HOST_CGROUP_NAMES];

	if (path)
		return gs_host_cgroup_read_named(sysfs_root, NULL, path, ret);
	if (gs_host_cgroup_names(proc_root, pid, text, sizeof(text)))
		return gs_host_cgroup_read_named(sysfs_root, text, NULL, ret);
	*ret = nothing_known;
	return false;
}

bool gs_host_cgroup_read_named(const char *sysfs_root, const char *names, const char *path,
			       struct gs_host_cgroup *ret)
{
	static const char *const controller[3] = {"memory", "cpuacct", "cpu"};
	char file[PATH_BYTES], of[4][PATH_BYTES];
	const char *paths[3] = {of[0], of[1], of[2]};
	bool v2, v1 = false;

	*ret = nothing_known;
	for (int i = 0; i < 4; i++)
		snprintf(of[i], sizeof(of[i]), "%s", path ? path : "");
	v2 = path != NULL;
	if (!path) {
		v2 = gs_host_parse_cgroup(names, "", of[3], sizeof(of[3]));
		for (int i = 0; i < 3; i++)
			v1 |= gs_host_parse_cgroup(names, controller[i], of[i], sizeof(of[i]));
	}
	/* "/" alone is the machine: its numbers say nothing of a job. */
	for (int i = 0; i < 4; i++)
		if (strcmp(of[i], "/") == 0)
			of[i][0] = '\0';
	if (v2 && of[3][0]) {
		if (read_v2(sysfs_root, of[3], ret))
			return true;
		/* Beside the hierarchies of version 1 it stands in a folder of its own. */
		snprintf(file, sizeof(file), "%s/unified", sysfs_root);
		*ret = nothing_known;
		if (!v1 && !path && read_v2(file, of[3], ret))
			return true;
	}
	if (!path && !v1)
		return false;
	return (of[0][0] || of[1][0] || of[2][0]) && read_v1(sysfs_root, paths, ret);
}

int64_t gs_host_cgroup_throttled_ns(const char *sysfs_root, const char *proc_root, uint32_t pid)
{
	char names[GS_HOST_CGROUP_NAMES], mount[PATH_BYTES], path[PATH_BYTES];
	struct gs_host_cgroup c = nothing_known;

	if (!gs_host_cgroup_names(proc_root, pid, names, sizeof(names)))
		return -1;
	if (gs_host_parse_cgroup(names, "cpu", path, sizeof(path))) {
		snprintf(mount, sizeof(mount), "%s/cpu", sysfs_root);
		read_quota(mount, path, false, &c);
	} else if (gs_host_parse_cgroup(names, "", path, sizeof(path))) {
		read_quota(sysfs_root, path, true, &c);
	}
	return c.throttled_ns;
}

/* /proc/PID/net/snmp (net/ipv4/proc.c): each protocol has a line of names and one of values. */
int64_t gs_host_tcp_retransmits(const char *proc_root, uint32_t pid)
{
	char path[PATH_BYTES], text[8192], *names, *values, *name, *value, *save[2];

	snprintf(path, sizeof(path), "%s/%u/net/snmp", proc_root, pid);
	if (read_text(path, text, sizeof(text)) <= 0)
		return -1;
	names = strstr(text, "\nTcp: ");
	values = names ? strstr(names + 1, "\nTcp: ") : NULL;
	if (!values)
		return -1;
	*values++ = '\0';
	values[strcspn(values, "\n")] = '\0';
	name = strtok_r(names + 1, " ", &save[0]);
	value = strtok_r(values, " ", &save[1]);
	while (name && value && strcmp(name, "RetransSegs") != 0) {
		name = strtok_r(NULL, " ", &save[0]);
		value = strtok_r(NULL, " ", &save[1]);
	}
	return name && value ? strtoll(value, NULL, 10) : -1;
}

int64_t gs_host_rss_bytes(const char *proc_root, uint32_t pid)
{
	char path[PATH_BYTES], text[128];
	unsigned long long size, resident;

	snprintf(path, sizeof(path), "%s/%u/statm", proc_root, pid);
	if (read_text(path, text, sizeof(text)) <= 0 ||
	    sscanf(text, "%llu %llu", &size, &resident) != 2 || resident > INT64_MAX / 65536)
		return -1;
	return (int64_t)(resident * (uint64_t)sysconf(_SC_PAGESIZE));
}
