/*
 * Processes: one read of /proc/PID/stat each. It has everything that changes; whoever asks for
 * few (those on GPUs) pays for few.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "host/room_int.h"

#define PROCESS_MAX  65536
#define ANCESTOR_MAX 64

struct growing { /* processes of the snapshot being made, and what is kept of them */
	struct gs_host_process *process;
	struct host_seen *seen;
	size_t n, capacity;
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

static int grow(struct growing *g)
{
	size_t capacity = g->capacity ? g->capacity * 2 : 64;
	void *p = realloc(g->process, capacity * sizeof(*g->process));

	if (!p)
		return -ENOMEM;
	g->process = p;
	p = realloc(g->seen, capacity * sizeof(*g->seen));
	if (!p)
		return -ENOMEM;
	g->seen = p;
	g->capacity = capacity;
	return 0;
}

/* Read one process into g. 1 it is there (or was already), 0 it is gone, negative: no memory. */
static int add(struct gs_host *h, struct growing *g, uint32_t pid, uint32_t flags, uint64_t now_ns,
	       uint32_t *ret_parent)
{
	struct gs_host_process *p;
	const struct host_seen *before;
	struct gs_host_stat stat;
	struct host_seen *kept;
	uint64_t at;
	int r;

	if (gs_map_get(&g->by_pid, pid, &at)) {
		if (!flags)
			g->process[at].flags = 0;
		*ret_parent = g->process[at].parent_pid;
		return 1;
	}
	r = gs_host_read_stat(h, pid, &stat);
	if (r < 0) {
		if (r != -ENOENT && r != -ESRCH) /* those just ended, or are not visible */
			h->failed_reads++;
		return 0;
	}
	if (g->n == g->capacity && grow(g) < 0)
		return -ENOMEM;
	r = gs_map_put(&g->by_pid, pid, g->n);
	if (r < 0)
		return r == -ENOBUFS ? 0 : r;
	p = &g->process[g->n];
	kept = &g->seen[g->n++];
	*p = (struct gs_host_process){
		.pid = pid,
		.parent_pid = stat.parent_pid,
		.uid = UINT32_MAX,
		.n_threads = stat.n_threads,
		.flags = flags,
		.state = stat.state,
		.cpu_ratio = -1,
		.rss_bytes = (int64_t)(stat.rss_pages * h->page_bytes),
		.cpu_ns = stat.cpu_ticks * h->ns_per_tick,
		.start_ns = stat.start_ticks * h->ns_per_tick,
	};
	memcpy(p->comm, stat.comm, sizeof(p->comm));
	*kept = (struct host_seen){.pid = pid,
				   .change = GS_HOST_NEW,
				   .start_ticks = stat.start_ticks,
				   .cpu_ticks = stat.cpu_ticks};
	memcpy(kept->comm, stat.comm, sizeof(kept->comm));
	before = seen_of(h, pid);
	if (before && before->start_ticks == stat.start_ticks) {
		uint64_t elapsed_ns = now_ns - h->processes_ns;

		if (elapsed_ns && stat.cpu_ticks >= before->cpu_ticks)
			p->cpu_ratio =
				(double)((stat.cpu_ticks - before->cpu_ticks) * h->ns_per_tick) /
				(double)elapsed_ns;
		kept->change = memcmp(before->comm, kept->comm, sizeof(kept->comm)) == 0
				       ? GS_HOST_SAME
				       : GS_HOST_RENAMED;
	}
	*ret_parent = stat.parent_pid;
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
			r = add(h, g, (uint32_t)pid, 0, now_ns, &parent);
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

	if (all)
		r = add_all(h, &g, now_ns);
	for (size_t i = 0; r >= 0 && i < n_pids && !all; i++) {
		uint32_t parent = 0;

		r = add(h, &g, pids[i], 0, now_ns, &parent);
		for (unsigned up = 0; r > 0 && parent && up < ANCESTOR_MAX; up++)
			r = add(h, &g, parent, GS_HOST_PROCESS_ANCESTOR, now_ns, &parent);
	}
	gs_map_fini(&g.by_pid);
	if (r < 0) {
		free(g.process);
		free(g.seen);
		return r;
	}
	if (g.n) {
		qsort(g.process, g.n, sizeof(*g.process), by_process_pid);
		qsort(g.seen, g.n, sizeof(*g.seen), by_seen_pid);
	}
	free(h->seen);
	h->seen = g.seen;
	h->n_seen = g.n;
	h->processes_ns = now_ns;
	s->process = g.process;
	s->n_processes = (uint32_t)g.n;
	return 0;
}
