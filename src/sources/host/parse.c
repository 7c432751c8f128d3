/* Texts of /proc, taken apart. The name of a task may hold blanks, parentheses and newlines. */
#include "sources/host/host_int.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/pidns.h"

static bool take_number(const char **at, const char *end, uint64_t *ret)
{
	const char *p = *at;
	uint64_t v = 0;

	while (p < end && *p >= '0' && *p <= '9')
		v = v * 10 + (uint64_t)(*p++ - '0');
	if (p == *at)
		return false;
	*at = p;
	*ret = v;
	return true;
}

bool gs_host_parse_stat(const char *text, size_t bytes, struct gs_host_stat *ret)
{
	/* Fields as proc(5) counts them. */
	enum {
		STATE = 3,
		PARENT = 4,
		FLAGS = 9,
		UTIME = 14,
		STIME = 15,
		THREADS = 20,
		START = 22,
		RSS = 24
	};
	const char *end = text + bytes, *open = memchr(text, '(', bytes);
	const char *close = memrchr(text, ')', bytes), *p;
	uint64_t value[RSS + 1] = {0};
	char state = '?';
	size_t n;

	if (!open || !close || close < open)
		return false;
	p = close + 1;
	for (int field = STATE; field <= RSS; field++) {
		while (p < end && *p == ' ')
			p++;
		if (p == end || *p == '\n')
			return false;
		if (field == STATE)
			state = *p;
		else if (*p != '-' && !take_number(&p, end, &value[field]))
			return false;
		while (p < end && *p != ' ' && *p != '\n')
			p++;
	}
	/* The last field must have ended: a text cut within a number would lie. */
	if (p == end)
		return false;
	*ret = (struct gs_host_stat){
		.state = isalpha((unsigned char)state) ? state : '?',
		.parent_pid = (uint32_t)value[PARENT],
		.n_threads = (int32_t)value[THREADS],
		.cpu_ticks = value[UTIME] + value[STIME],
		.start_ticks = value[START],
		.rss_pages = value[RSS],
		.is_kernel = value[FLAGS] & GS_PF_KTHREAD,
	};
	n = (size_t)(close - open - 1);
	if (n >= sizeof(ret->comm))
		n = sizeof(ret->comm) - 1;
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)open[1 + i];

		ret->comm[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	return true;
}

/* After the newline; NULL at the end. */
static const char *next_line(const char *line)
{
	const char *eol = strchr(line, '\n');

	return eol && eol[1] ? eol + 1 : NULL;
}

void gs_host_parse_cpu(const char *text, struct gs_host_counters *c, int32_t *n_cpus)
{
	int32_t n = 0;

	for (const char *l = text; l; l = next_line(l)) {
		/* user nice system idle iowait irq softirq steal; guest time is in user */
		unsigned long long v[8] = {0};

		if (strncmp(l, "cpu", 3) != 0)
			continue;
		if (isdigit((unsigned char)l[3])) {
			n++;
			continue;
		}
		if (sscanf(l + 3, "%llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
			   &v[3], &v[4], &v[5], &v[6], &v[7]) < 4)
			continue;
		c->cpu_total = 0;
		for (size_t i = 0; i < 8; i++)
			c->cpu_total += v[i];
		c->cpu_idle = v[3] + v[4];
		c->cpu_iowait = v[4];
	}
	if (n)
		*n_cpus = n;
}

void gs_host_parse_meminfo(const char *text, struct gs_host_sample *s)
{
	long long total = -1, available = -1, swap_total = -1, swap_free = -1;

	for (const char *l = text; l; l = next_line(l)) {
		char key[32];
		long long kib;

		if (sscanf(l, "%31[^:]: %lld kB", key, &kib) != 2 || kib < 0 || kib > 1ll << 50)
			continue;
		if (strcmp(key, "MemTotal") == 0)
			total = kib * 1024;
		else if (strcmp(key, "MemAvailable") == 0)
			available = kib * 1024;
		else if (strcmp(key, "SwapTotal") == 0)
			swap_total = kib * 1024;
		else if (strcmp(key, "SwapFree") == 0)
			swap_free = kib * 1024;
	}
	s->mem_total_bytes = total;
	s->mem_used_bytes =
		total >= 0 && available >= 0 && available <= total ? total - available : -1;
	s->swap_total_bytes = swap_total;
	s->swap_used_bytes = swap_total >= 0 && swap_free >= 0 && swap_free <= swap_total
				     ? swap_total - swap_free
				     : -1;
}

void gs_host_parse_loadavg(const char *text, struct gs_host_sample *s)
{
	double load[3];
	int running, tasks;

	if (sscanf(text, "%lf %lf %lf %d/%d", &load[0], &load[1], &load[2], &running, &tasks) != 5)
		return;
	s->load1 = load[0];
	s->load5 = load[1];
	s->load15 = load[2];
	s->n_running = running;
	s->n_tasks = tasks;
}

/*
 * Whole disks, by the names that the kernel gives them: bytes of a partition, of a mapping (dm-) or
 * of an array (md) are those of a disk already; loop and zram devices are no disks.
 */
static bool is_whole_disk(const char *name)
{
	size_t n = strlen(name);

	if (strncmp(name, "nvme", 4) == 0 || strncmp(name, "mmcblk", 6) == 0) {
		/* nvme0n1 but not nvme0n1p1, nor a path of a multipath one: nvme0c1n1 */
		const char *p = strchr(name + (name[0] == 'n' ? 4 : 6), 'p');

		return !p && !(name[0] == 'n' && strchr(name + 4, 'c'));
	}
	if (strncmp(name, "sd", 2) == 0 || strncmp(name, "vd", 2) == 0 ||
	    strncmp(name, "xvd", 3) == 0 || strncmp(name, "hd", 2) == 0)
		return n && !isdigit((unsigned char)name[n - 1]);
	return false;
}

void gs_host_parse_diskstats(const char *text, struct gs_host_counters *c)
{
	enum { SECTOR_BYTES = 512 }; /* of this file, whatever the disk's are (iostats.rst) */
	uint64_t read = 0, written = 0;
	bool found = false;

	for (const char *l = *text ? text : NULL; l; l = next_line(l)) {
		unsigned long long r, w;
		char name[64];

		if (sscanf(l, "%*u %*u %63s %*u %*u %llu %*u %*u %*u %llu", name, &r, &w) != 3)
			continue;
		found = true;
		if (!is_whole_disk(name))
			continue;
		read += r * SECTOR_BYTES;
		written += w * SECTOR_BYTES;
	}
	if (found) {
		c->disk_read_bytes = read;
		c->disk_written_bytes = written;
	}
}

/* Interfaces whose bytes pass another one as well, or never leave the machine. */
static bool is_virtual_interface(const char *name)
{
	static const char *const prefixes[] = {"lo",    "veth", "docker", "br-",  "virbr",
					       "tun",   "tap",  "cni",    "cali", "flannel",
					       "dummy", "bond", "team"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return strchr(name, '.') != NULL; /* a VLAN */
}

void gs_host_parse_net_dev(const char *text, struct gs_host_counters *c)
{
	uint64_t rx = 0, tx = 0;
	bool found = false;

	for (const char *l = *text ? text : NULL; l; l = next_line(l)) {
		unsigned long long r, t;
		char name[32];

		if (sscanf(l, " %31[^: ]: %llu %*u %*u %*u %*u %*u %*u %*u %llu", name, &r, &t) !=
		    3)
			continue;
		found = true;
		if (is_virtual_interface(name))
			continue;
		rx += r;
		tx += t;
	}
	if (found) {
		c->net_rx_bytes = rx;
		c->net_tx_bytes = tx;
	}
}
