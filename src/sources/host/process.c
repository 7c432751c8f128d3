/*
 * Processes: one read of /proc/PID/stat each. It has everything that changes; who asks for
 * few (those on GPUs) pays for few. Where all are asked for, threads of the kernel are left out,
 * and a process that used no processor time in the last readings is read at each fourth only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/vec.h"
#include "sources/host/room_int.h"

#define PROCESS_MAX  65536
#define ANCESTOR_MAX 64
#define QUIET        3  /* readings without processor time, after which a process is quiet */
#define QUIET_TURNS  4  /* between two readings of a quiet one */
#define KERNEL_TURNS 16 /* after which a pid of the kernel's is looked at again */

struct growing { /* processes of the snapshot being made, and what is kept of them */
	struct gs_host_process *process;
	struct host_seen *seen;
	size_t n, capacity;
	size_t n_seen, seen_capacity;
	struct gs_map by_pid;
};

int gs_host_read_stat(struct gs_host *h, uint32_t pid, struct gs_host_stat *ret)
{
	char name[32], text[1024];
	GS_CLOSE int fd = -1;
	ssize_t n;

	snprintf(name, sizeof(name), "%u/stat", pid);
	fd = openat(h->proc_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return -errno;
	return gs_host_parse_stat(text, (size_t)n, ret) ? 0 : -EBADMSG;
}

static const struct host_seen *seen_of(const struct gs_host *h, uint32_t pid)
{
	size_t from = 0, to = h->n_seen;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (h->seen[mid].pid == pid)
			return &h->seen[mid];
		if (h->seen[mid].pid < pid)
			from = mid + 1;
		else
			to = mid;
	}
	return NULL;
}

enum gs_host_change gs_host_change_of(const struct gs_host *h, uint32_t pid)
{
	const struct host_seen *s = seen_of(h, pid);

	return s ? (enum gs_host_change)s->change : GS_HOST_NEW;
}

static int grow_items(void **items, size_t *capacity, size_t n, size_t bytes)
{
	return n < *capacity || gs_vec_grow(items, bytes, capacity, n + 1, SIZE_MAX) ? 0 : -ENOMEM;
}

/* Whether what was read last will do. Not all at the same turn: by pid. */
static bool is_fresh(const struct gs_host *h, const struct host_seen *s)
{
	if (s->is_kernel)
		return (h->turn + s->pid) % KERNEL_TURNS != 0;
	return s->quiet >= QUIET && (h->turn + s->pid) % QUIET_TURNS != 0;
}

/* What is known of a process now: read, or as it was. 0, -ENOENT: it is gone. */
static int refresh_process(struct gs_host *h, uint32_t pid, bool exact, uint64_t now_ns,
			   struct host_seen *ret, double *ret_cpu_ratio)
{
	const struct host_seen *before = seen_of(h, pid);
	struct gs_host_stat stat;
	int r;

	*ret_cpu_ratio = -1;
	if (!exact && before && is_fresh(h, before)) {
		*ret = *before;
		ret->change = GS_HOST_SAME;
		*ret_cpu_ratio = 0;
		return 0;
	}
	r = gs_host_read_stat(h, pid, &stat);
	if (r < 0) {
		if (r != -ENOENT && r != -ESRCH) /* those just ended, or are not visible */
			h->failed_reads++;
		return -ENOENT;
	}
	*ret = (struct host_seen){
		.pid = pid,
		.change = GS_HOST_NEW,
		.start_ticks = stat.start_ticks,
		.cpu_ticks = stat.cpu_ticks,
		.read_ns = now_ns,
		.parent_pid = stat.parent_pid,
		.n_threads = stat.n_threads,
		.rss_pages = stat.rss_pages,
		.state = stat.state,
		.is_kernel = stat.is_kernel,
	};
	memcpy(ret->comm, stat.comm, sizeof(ret->comm));
	if (!before || before->start_ticks != stat.start_ticks)
		return 0;
	if (now_ns > before->read_ns && stat.cpu_ticks >= before->cpu_ticks)
		*ret_cpu_ratio = (double)((stat.cpu_ticks - before->cpu_ticks) * h->ns_per_tick) /
				 (double)(now_ns - before->read_ns);
	if (stat.cpu_ticks == before->cpu_ticks)
		ret->quiet = before->quiet < QUIET ? before->quiet + 1 : QUIET;
	ret->change = memcmp(before->comm, ret->comm, sizeof(ret->comm)) == 0 ? GS_HOST_SAME
									      : GS_HOST_RENAMED;
	return 0;
}

/* Read one process into g. exact: now, whatever is known of it, and also a thread of the kernel. 1
 * it is there (or was already), 0 it is gone or not listed, negative: no memory. */
static int add_process(struct gs_host *h, struct growing *g, uint32_t pid, uint32_t flags,
		       bool exact, uint64_t now_ns, uint32_t *ret_parent)
{
	struct host_seen seen;
	double cpu_ratio;
	uint64_t at;
	int r;

	if (gs_map_get(&g->by_pid, pid, &at)) {
		if (!flags)
			g->process[at].flags = 0;
		*ret_parent = g->process[at].parent_pid;
		return 1;
	}
	if (refresh_process(h, pid, exact, now_ns, &seen, &cpu_ratio) < 0)
		return 0;
	if (grow_items((void **)&g->seen, &g->seen_capacity, g->n_seen, sizeof(*g->seen)) < 0 ||
	    grow_items((void **)&g->process, &g->capacity, g->n, sizeof(*g->process)) < 0)
		return -ENOMEM;
	if (!exact && seen.is_kernel) {
		g->seen[g->n_seen++] = seen;
		return 0;
	}
	r = gs_map_put(&g->by_pid, pid, g->n);
	if (r < 0)
		return r == -ENOBUFS ? 0 : r;
	g->seen[g->n_seen++] = seen;
	g->process[g->n++] = (struct gs_host_process){
		.pid = pid,
		.parent_pid = seen.parent_pid,
		.uid = UINT32_MAX,
		.n_threads = seen.n_threads,
		.flags = flags,
		.state = seen.state,
		.cpu_ratio = cpu_ratio,
		.rss_bytes = (int64_t)(seen.rss_pages * h->page_bytes),
		.cpu_ns = seen.cpu_ticks * h->ns_per_tick,
		.start_ns = seen.start_ticks * h->ns_per_tick,
	};
	memcpy(g->process[g->n - 1].comm, seen.comm, sizeof(seen.comm));
	*ret_parent = seen.parent_pid;
	return 1;
}

static int add_all(struct gs_host *h, struct growing *g, uint64_t now_ns)
{
	/* A descriptor of its own: reading a folder moves its offset. */
	int fd = openat(h->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	int r = 0;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		h->failed_reads++;
		return 0;
	}
	while (r >= 0 && (d = readdir(dir))) {
		char *end;
		unsigned long pid = strtoul(d->d_name, &end, 10);
		uint32_t parent;

		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' && !*end && pid <= UINT32_MAX)
			r = add_process(h, g, (uint32_t)pid, 0, false, now_ns, &parent);
	}
	closedir(dir);
	return r < 0 ? r : 0;
}

static int by_process_pid(const void *a, const void *b)
{
	const struct gs_host_process *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static int by_seen_pid(const void *a, const void *b)
{
	const struct host_seen *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

int gs_host_read_processes(struct gs_host *h, const uint32_t *pids, size_t n_pids, bool all,
			   struct gs_host_snapshot *s)
{
	struct growing g = {.by_pid = GS_MAP_INIT(PROCESS_MAX)};
	uint64_t now_ns = gs_clock_boot_ns();
	int r = 0;

	h->turn++;
	for (size_t i = 0; r >= 0 && i < n_pids; i++) {
		uint32_t parent = 0;

		r = add_process(h, &g, pids[i], 0, true, now_ns, &parent);
		for (unsigned up = 0; r > 0 && parent && up < ANCESTOR_MAX && !all; up++)
			r = add_process(h, &g, parent, GS_HOST_PROCESS_ANCESTOR, true, now_ns,
					&parent);
	}
	if (all && r >= 0)
		r = add_all(h, &g, now_ns);
	gs_map_fini(&g.by_pid);
	if (r < 0) {
		free(g.process);
		free(g.seen);
		return r;
	}
	if (g.n)
		qsort(g.process, g.n, sizeof(*g.process), by_process_pid);
	if (g.n_seen)
		qsort(g.seen, g.n_seen, sizeof(*g.seen), by_seen_pid);
	free(h->seen);
	h->seen = g.seen;
	h->n_seen = g.n_seen;
	s->process = g.process;
	s->n_processes = (uint32_t)g.n;
	return 0;
}
