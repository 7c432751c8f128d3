#include "analysis/job_accounting/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/mem.h"

#define SOONEST_MS 80
#define LATEST_MS  5000

void gs_accounting_scan_fini(struct gs_accounting_scan *s)
{
	gs_map_fini(&s->asked);
}

static bool is_due(uint64_t then, uint32_t now_ms)
{
	uint32_t age_ms = now_ms - (uint32_t)(then >> 32), wait_ms = age_ms / 4;

	if (wait_ms < SOONEST_MS)
		wait_ms = SOONEST_MS;
	if (wait_ms > LATEST_MS)
		wait_ms = LATEST_MS;
	return now_ms - (uint32_t)then >= wait_ms;
}

static int visit_one(const struct gs_accounting_scan *s, struct gs_map *next, uint32_t pid,
		     uint32_t now_ms, gs_accounting_scan_visit *visit, void *ctx)
{
	uint64_t then;
	bool known = gs_map_get(&s->asked, pid, &then), ask = !known || is_due(then, now_ms);
	int r;

	if (!known)
		then = (uint64_t)now_ms << 32;
	if (ask)
		then = (then & ~(uint64_t)UINT32_MAX) | now_ms;
	r = gs_map_put(next, pid, then);
	return r < 0 ? r : visit(ctx, pid, ask);
}

int gs_accounting_scan_processes(struct gs_accounting_scan *s, const char *proc_root,
				 uint64_t now_ns, gs_accounting_scan_visit *visit, void *ctx)
{
	struct gs_map next = GS_MAP_INIT(1u << 22); /* the most pids that a kernel has */
	DIR *dir = opendir(proc_root);
	struct dirent *d;
	int r = dir ? 0 : -errno;

	while (r >= 0 && (d = readdir(dir)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
			r = visit_one(s, &next, (uint32_t)strtoul(d->d_name, NULL, 10),
				      (uint32_t)(now_ns / 1000000), visit, ctx);
	if (dir)
		closedir(dir);
	if (r < 0) {
		gs_map_fini(&next);
		return r;
	}
	gs_map_fini(&s->asked);
	s->asked = next;
	return 0;
}

static bool read_text(const char *proc_root, uint32_t pid, const char *name, char *text,
		      size_t bytes)
{
	char path[320];
	GS_CLOSE int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/%u/%s", proc_root, pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, text, bytes - 1) : -1;
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static uint32_t parent_of(const char *proc_root, uint32_t pid)
{
	char text[1024], *at;
	unsigned parent;

	return read_text(proc_root, pid, "stat", text, sizeof(text)) && (at = strrchr(text, ')')) &&
			       sscanf(at + 1, " %*c %u", &parent) == 1
		       ? parent
		       : 0;
}

bool gs_accounting_has_ended(const char *proc_root, uint32_t pid)
{
	char text[1024], *at, state;
	long n_threads;

	/* proc_pid_stat(5): the first thread may end before the others. */
	return !read_text(proc_root, pid, "stat", text, sizeof(text)) ||
	       !(at = strrchr(text, ')')) ||
	       sscanf(at + 1,
		      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
		      &state, &n_threads) != 2 ||
	       ((state == 'Z' || state == 'X') && n_threads <= 1);
}

/* Only root's: anybody can call his process what he likes. */
static bool is_slurmstepd(const char *proc_root, uint32_t pid)
{
	char name[64], path[320];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%u", proc_root, pid);
	return pid && stat(path, &st) == 0 && st.st_uid == 0 &&
	       read_text(proc_root, pid, "comm", name, sizeof(name)) &&
	       strcmp(name, "slurmstepd\n") == 0;
}

bool gs_accounting_is_holder(const char *proc_root, uint32_t pid)
{
	/* A task has its name too, until it becomes the user's program. */
	return is_slurmstepd(proc_root, pid) &&
	       !is_slurmstepd(proc_root, parent_of(proc_root, pid));
}
