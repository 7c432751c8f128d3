/*
 * Attaching one family's program to places in a file, by what the kernel offers: one session link,
 * else a pair of multi links (entry and return), else two single links for each place. A multi link
 * fails as a whole when one place is refused; it is then made in halves until the refused ones are
 * known by name.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/mem.h"
#include "probe/link_create.h"
#include "probe/probe_int.h"

int link_create_uprobe_multi(int prog_fd, unsigned attach_type, unsigned flags, const char *path,
			     const unsigned long *offsets, const unsigned long *ref_ctrs,
			     const uint64_t *cookies, size_t n, pid_t pid)
{
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, multi_flags, pid, pad;
	} attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = attach_type,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offsets,
		.ref_ctr_offsets = (uintptr_t)ref_ctrs,
		.cookies = (uintptr_t)cookies,
		.cnt = (uint32_t)n,
		.multi_flags = flags,
		.pid = (uint32_t)pid,
	};
	long fd = syscall(__NR_bpf, BPF_LINK_CREATE, &attr, offsetof(__typeof__(attr), pad));

	return fd < 0 ? -errno : (int)fd;
}

int links_keep(struct links *links, int fd)
{
	int *fds = realloc(links->fds, (links->n + 1) * sizeof(*fds));

	if (!fds) {
		close(fd);
		return -ENOMEM;
	}
	links->fds = fds;
	links->fds[links->n++] = fd;
	return 0;
}

void links_close(struct links *links)
{
	for (size_t i = 0; i < links->n; i++)
		close(links->fds[i]);
	free(links->fds);
	*links = (struct links){0};
}

static int attach_multi(struct links *links, const struct bpf_program *prog, unsigned type,
			unsigned flags, const char *path, pid_t pid, const struct place *places,
			size_t n)
{
	GS_FREE unsigned long *offsets = calloc(n, sizeof(*offsets));
	GS_FREE uint64_t *cookies = calloc(n, sizeof(*cookies));
	int fd;

	if (!offsets || !cookies)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		offsets[i] = places[i].file_off;
		cookies[i] = places[i].func | places[i].cookie;
	}
	fd = link_create_uprobe_multi(bpf_program__fd(prog), type, flags, path, offsets, NULL,
				      cookies, n, pid);
	return fd < 0 ? fd : links_keep(links, fd);
}

/* Number of the uprobe event source, and nothing else of sysfs: return probes are bit 0 of config
 * since the source exists (kernel/trace/trace_event_perf.c, 4.17). */
int link_uprobe_event_type(void)
{
	GS_FCLOSE FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type;

	if (!f || fscanf(f, "%d", &type) != 1)
		return -EOPNOTSUPP;
	return type;
}

/* The raw calls rather than libbpf's: its object would switch the event off when it goes, and a
 * link descriptor of our own lets all ways of attaching be closed alike. The link holds the event.
 */
static int attach_single(struct links *links, const struct bpf_program *prog, bool ret,
			 const char *path, pid_t pid, const struct place *place)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .perf_event.bpf_cookie = place->func | place->cookie);
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.config = ret,
		.config1 = (uintptr_t)path,
		.config2 = place->file_off,
	};
	int type = link_uprobe_event_type(), link;
	GS_CLOSE int event = -1;

	if (type < 0)
		return type;
	attr.type = (uint32_t)type;
	event = (int)syscall(__NR_perf_event_open, &attr, pid ? pid : -1, pid ? -1 : 0, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	link = bpf_link_create(bpf_program__fd(prog), event, BPF_PERF_EVENT, &opts);
	return link < 0 ? link : links_keep(links, link);
}

/* All places at once, both ends of the call. Links made before a failure are closed again. */
static int attach_all(struct links *links, const struct kernel_side *k,
		      const struct features *features, enum family family, const char *path,
		      pid_t pid, const struct place *places, size_t n)
{
	bool returns = k->leave[family] != NULL; /* of the session program: in the same link */
	size_t before = links->n;
	int r = 0;

	if (k->session[family]) {
		return attach_multi(links, k->session[family], ATTACH_UPROBE_SESSION, 0, path, pid,
				    places, n);
	}
	if (features->multi) {
		if (returns)
			r = attach_multi(links, k->leave[family], ATTACH_UPROBE_MULTI,
					 UPROBE_MULTI_RETURN, path, pid, places, n);
		if (r == 0)
			r = attach_multi(links, k->enter[family], ATTACH_UPROBE_MULTI, 0, path, pid,
					 places, n);
	} else {
		r = n == 1 ? 0 : -E2BIG;
		if (r == 0 && returns)
			r = attach_single(links, k->leave[family], true, path, pid, places);
		if (r == 0)
			r = attach_single(links, k->enter[family], false, path, pid, places);
	}
	while (r < 0 && links->n > before)
		close(links->fds[--links->n]);
	return r;
}

static int attach_halves(struct links *links, const struct kernel_side *k,
			 const struct features *features, enum family family, const char *path,
			 pid_t pid, const struct place *places, size_t n, int *status)
{
	int r = attach_all(links, k, features, family, path, pid, places, n), done;

	if (r == 0) {
		memset(status, 0, n * sizeof(*status));
		return (int)n;
	}
	if (n == 1) {
		*status = r;
		return 0;
	}
	done = attach_halves(links, k, features, family, path, pid, places, n / 2, status);
	return done + attach_halves(links, k, features, family, path, pid, places + n / 2,
				    n - n / 2, status + n / 2);
}

int links_attach(struct links *links, const struct kernel_side *k, const struct features *features,
		 enum family family, const char *path, pid_t pid, const struct place *places,
		 size_t n, int *status)
{
	int done;

	if (!k->session[family] && !k->enter[family])
		return -EOPNOTSUPP;
	done = attach_halves(links, k, features, family, path, pid, places, n, status);
	return done > 0 ? done : status[0];
}
