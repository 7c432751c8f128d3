/* Links of described probes: as link.c makes them, with rows for cookies, counters of static
 * probes, and places without a return (a session program says at each entry whether it wants that).
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/mem.h"
#include "model/user_probe.h"
#include "probe/link_create.h"
#include "probe/probe_int.h"

#include "user.skel.h"

#define MAX_AT_ONCE   512
#define REF_CTR_SHIFT 32 /* PERF_UPROBE_REF_CTR_OFFSET_SHIFT, kernel/events/core.c */

/* only_returns: those places that have one. */
static int attach_multi(struct links *links, const struct bpf_program *prog, unsigned type,
			bool only_returns, const char *path, pid_t pid,
			const struct user_place *places, size_t n)
{
	unsigned long offsets[MAX_AT_ONCE], ref_ctrs[MAX_AT_ONCE];
	unsigned flags = only_returns ? UPROBE_MULTI_RETURN : 0;
	uint64_t cookies[MAX_AT_ONCE];
	size_t k = 0;
	int fd;

	for (size_t i = 0; i < n; i++) {
		if (only_returns && !places[i].has_return)
			continue;
		offsets[k] = places[i].file_off;
		ref_ctrs[k] = places[i].ref_ctr_off;
		cookies[k++] = places[i].row;
	}
	if (!k)
		return 0;
	fd = link_create_uprobe_multi(bpf_program__fd(prog), type, flags, path, offsets, ref_ctrs,
				      cookies, k, pid);
	return fd < 0 ? fd : links_keep(links, fd);
}

static int attach_single(struct links *links, const struct bpf_program *prog, bool is_return,
			 const char *path, pid_t pid, const struct user_place *place)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = place->row);
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.config = is_return | place->ref_ctr_off << REF_CTR_SHIFT,
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

static int attach_all(struct links *links, const struct kernel_side *k,
		      const struct features *features, const char *path, pid_t pid,
		      const struct user_place *places, size_t n)
{
	const struct gs_user_bpf *s = k->user;
	size_t before = links->n;
	int r = 0;

	if (features->session)
		return attach_multi(links, s->progs.gs_user_session, ATTACH_UPROBE_SESSION, false,
				    path, pid, places, n);
	if (features->multi) {
		r = attach_multi(links, s->progs.gs_user_leave, ATTACH_UPROBE_MULTI, true, path,
				 pid, places, n);
		if (r == 0)
			r = attach_multi(links, s->progs.gs_user_enter, ATTACH_UPROBE_MULTI, false,
					 path, pid, places, n);
	} else {
		r = n == 1 ? 0 : -E2BIG;
		if (r == 0 && places->has_return)
			r = attach_single(links, s->progs.gs_user_leave, true, path, pid, places);
		if (r == 0)
			r = attach_single(links, s->progs.gs_user_enter, false, path, pid, places);
	}
	while (r < 0 && links->n > before)
		close(links->fds[--links->n]);
	return r;
}

/* A link fails as a whole: halves until the refused places are known. */
static unsigned attach_halves(struct links *links, const struct kernel_side *k,
			      const struct features *features, const char *path, pid_t pid,
			      const struct user_place *places, size_t n, int *status)
{
	int r = attach_all(links, k, features, path, pid, places, n);
	unsigned done;

	if (r == 0) {
		memset(status, 0, n * sizeof(*status));
		return (unsigned)n;
	}
	if (n == 1) {
		*status = r;
		return 0;
	}
	done = attach_halves(links, k, features, path, pid, places, n / 2, status);
	return done + attach_halves(links, k, features, path, pid, places + n / 2, n - n / 2,
				    status + n / 2);
}

unsigned user_links_attach(struct links *links, const struct kernel_side *k,
			   const struct features *features, const char *path, pid_t pid,
			   const struct user_place *places, size_t n, int *status)
{
	unsigned done = 0;

	for (size_t i = 0; i < n; i += MAX_AT_ONCE) {
		size_t part = n - i < MAX_AT_ONCE ? n - i : MAX_AT_ONCE;

		done += attach_halves(links, k, features, path, pid, places + i, part, status + i);
	}
	return done;
}
