/*
 * Attaching a family's program to places in a file, by what the kernel offers: one session link,
 * else a pair of multi links (entry and return), else two single links for each place. A multi link
 * fails as a whole when one place is refused; it is then made in halves until the refused ones are
 * known by name.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "sources/kernel_features/link_create.h"
#include "sources/uprobe/uprobe_int.h"

#define CLOSERS            256u
#define CLOSER_STACK_BYTES (128u << 10)
#define MAX_FAILED         64u /* links of one file that are tried in vain, each some 50 ms */
#define REF_CTR_SHIFT      32  /* PERF_UPROBE_REF_CTR_OFFSET_SHIFT, kernel/events/core.c */

static int group_keep(struct uprobe_link_group *g, int fd)
{
	if (fd < 0)
		return fd;
	g->fds[g->n_fds++] = fd;
	return 0;
}

static void group_close(struct uprobe_link_group *g)
{
	while (g->n_fds)
		close(g->fds[--g->n_fds]);
	while (g->n_old)
		close(g->old[--g->n_old]);
}

void uprobe_links_close(struct links *links)
{
	for (size_t i = 0; i < links->n; i++) {
		group_close(&links->groups[i]);
		free(links->groups[i].places);
	}
	free(links->groups);
	*links = (struct links){0};
}

struct closing {
	const int *fds;
	size_t n;
	atomic_size_t next;
};

static void *close_next(void *ctx)
{
	struct closing *c = ctx;

	for (size_t i; (i = atomic_fetch_add(&c->next, 1)) < c->n;)
		close(c->fds[i]);
	return NULL;
}

/* Take all descriptors out of the groups. */
static size_t gather_fds(struct links *links, int *fds)
{
	size_t n = 0;

	for (size_t i = 0; i < links->n; i++) {
		struct uprobe_link_group *g = &links->groups[i];

		while (g->n_fds)
			fds[n++] = g->fds[--g->n_fds];
		while (g->n_old)
			fds[n++] = g->old[--g->n_old];
	}
	return n;
}

void uprobe_links_close_many(struct links *links)
{
	GS_FREE int *fds = calloc(links->n + 1, 4 * sizeof(*fds));
	struct closing c = {.fds = fds};
	pthread_t threads[CLOSERS];
	pthread_attr_t attr;
	unsigned n = 0;

	if (fds && pthread_attr_init(&attr) == 0) {
		c.n = gather_fds(links, fds);
		pthread_attr_setstacksize(&attr, CLOSER_STACK_BYTES);
		while (n < CLOSERS && n + 1 < c.n &&
		       pthread_create(&threads[n], &attr, close_next, &c) == 0)
			n++;
		close_next(&c);
		while (n)
			pthread_join(threads[--n], NULL);
		pthread_attr_destroy(&attr);
	}
	uprobe_links_close(links);
}

void uprobe_links_move(struct links *to, struct links *from)
{
	size_t bytes = (to->n + from->n + 1) * sizeof(*to->groups);
	struct uprobe_link_group *groups = realloc(to->groups, bytes);

	if (!groups) {
		uprobe_links_close(from);
		return;
	}
	to->groups = groups;
	if (from->n)
		memcpy(groups + to->n, from->groups, from->n * sizeof(*groups));
	to->n += from->n;
	free(from->groups);
	*from = (struct links){0};
}

/* --- one group --- */

static uint64_t cookie_of(const struct uprobe_link_group *g, const struct gs_attach_plan_place *p)
{
	/* The others' cookies are no functions'. */
	bool has_func = g->family != GS_FAMILY_SPAN && g->family != GS_FAMILY_UNWIND;

	return p->cookie | (uint64_t)(g->number << 1 | g->turn) << GS_COOKIE_GROUP_SHIFT |
	       (p->is_stepped && has_func ? GS_COOKIE_STEPPED : 0);
}

/* only_returns: those places that have one. */
static int attach_multi(struct uprobe_link_group *g, const struct bpf_program *prog, unsigned type,
			bool only_returns, const char *path, pid_t pid)
{
	GS_FREE unsigned long *offsets = calloc(g->n, sizeof(*offsets));
	GS_FREE unsigned long *ref_ctrs = calloc(g->n, sizeof(*ref_ctrs));
	GS_FREE uint64_t *cookies = calloc(g->n, sizeof(*cookies));
	bool counted = false;
	size_t k = 0;

	if (!offsets || !ref_ctrs || !cookies)
		return -ENOMEM;
	for (size_t i = 0; i < g->n; i++) {
		if (only_returns && !g->places[i].has_return)
			continue;
		offsets[k] = g->places[i].file_off;
		ref_ctrs[k] = g->places[i].ref_ctr_off;
		counted |= ref_ctrs[k] != 0;
		cookies[k++] = cookie_of(g, &g->places[i]);
	}
	if (!k)
		return 0;
	return group_keep(g, gs_kernel_link_create_multi(bpf_program__fd(prog), type,
							 only_returns ? UPROBE_MULTI_RETURN : 0,
							 path, offsets, counted ? ref_ctrs : NULL,
							 cookies, k, pid));
}

/* Number of the uprobe event source, or -EOPNOTSUPP; and nothing else of sysfs: return probes are
 * bit 0 of config since the source exists (kernel/trace/trace_event_perf.c, 4.17). */
int uprobe_event_type(void)
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
static int attach_single(struct uprobe_link_group *g, const struct bpf_program *prog,
			 bool is_return, const char *path, pid_t pid)
{
	const struct gs_attach_plan_place *place = g->places;
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = cookie_of(g, place));
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.config = is_return | place->ref_ctr_off << REF_CTR_SHIFT,
		.config1 = (uintptr_t)path,
		.config2 = place->file_off,
	};
	int type = uprobe_event_type();
	GS_CLOSE int event = -1;

	if (type < 0)
		return type;
	attr.type = (uint32_t)type;
	event = (int)syscall(__NR_perf_event_open, &attr, pid ? pid : -1, pid ? -1 : 0, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	return group_keep(g, bpf_link_create(bpf_program__fd(prog), event, BPF_PERF_EVENT, &opts));
}

int uprobe_attach_group(struct uprobe_link_group *g, const struct uprobe_kernel_side *k,
			const struct features *features, const char *path, pid_t pid)
{
	const struct bpf_program *session = k->session[g->family], *leave = k->leave[g->family];
	int r = 0;

	if (session) {
		r = attach_multi(g, session, ATTACH_UPROBE_SESSION, false, path, pid);
	} else if (features->multi) {
		if (leave)
			r = attach_multi(g, leave, ATTACH_UPROBE_MULTI, true, path, pid);
		if (r == 0)
			r = attach_multi(g, k->enter[g->family], ATTACH_UPROBE_MULTI, false, path,
					 pid);
	} else {
		r = g->n == 1 ? 0 : -E2BIG;
		if (r == 0 && leave && g->places->has_return)
			r = attach_single(g, leave, true, path, pid);
		if (r == 0)
			r = attach_single(g, k->enter[g->family], false, path, pid);
	}
	while (r < 0 && g->n_fds)
		close(g->fds[--g->n_fds]);
	return r;
}

/* --- all places of a file --- */

static void free_number(const struct uprobe_kernel_side *k, uint16_t number)
{
	if (number)
		k->group_used[number] = false;
}

/* One that none of the groups has. 0: there is none, or none is needed, since a group of one place
 * is never attached again. */
static uint16_t take_number(const struct uprobe_kernel_side *k, size_t n_places)
{
	if (!k->group_used || n_places < 2)
		return 0;
	for (uint16_t i = 1; i < GS_GROUP_MAX; i++) {
		if (k->group_used[i])
			continue;
		k->group_used[i] = true;
		k->modes->turn[i] = 0;
		return i;
	}
	return 0;
}

/* Places are kept where functions may be taken off again. */
static int attach_group(struct links *links, const struct uprobe_kernel_side *k,
			const struct features *features, enum gs_family family, const char *path,
			pid_t pid, const struct gs_attach_plan_place *places, size_t n)
{
	struct uprobe_link_group g = {.family = (uint8_t)family, .n = n};
	struct uprobe_link_group *groups;
	int r;

	groups = realloc(links->groups, (links->n + 1) * sizeof(*groups));
	if (!groups)
		return -ENOMEM;
	links->groups = groups;
	g.places = malloc(n * sizeof(*places));
	if (!g.places)
		return -ENOMEM;
	memcpy(g.places, places, n * sizeof(*places));
	g.number = take_number(k, n);
	r = uprobe_attach_group(&g, k, features, path, pid);
	if (r < 0) {
		free_number(k, g.number);
		free(g.places);
		return r;
	}
	if (!k->group_used) {
		free(g.places);
		g.places = NULL;
	}
	groups[links->n++] = g;
	return 0;
}

/* A multi link fails as a whole when one place is refused. */
static int attach_halves(struct links *links, const struct uprobe_kernel_side *k,
			 const struct features *features, enum gs_family family, const char *path,
			 pid_t pid, const struct gs_attach_plan_place *places, size_t n,
			 int *status)
{
	int r = -ECANCELED, done;

	if (!gs_guard_stopped())
		r = links->n_failed < MAX_FAILED
			    ? attach_group(links, k, features, family, path, pid, places, n)
			    : -EBUSY;
	if (r == -ECANCELED || r == -EBUSY) {
		for (size_t i = 0; i < n; i++)
			status[i] = r;
		return 0;
	}
	links->n_failed += r < 0 && r != -E2BIG; /* that cost nothing */
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

int uprobe_links_attach(struct links *links, const struct uprobe_kernel_side *k,
			const struct features *features, enum gs_family family, const char *path,
			pid_t pid, const struct gs_attach_plan_place *places, size_t n, int *status)
{
	int done;

	if (!k->session[family] && !k->enter[family])
		return -EOPNOTSUPP;
	done = attach_halves(links, k, features, family, path, pid, places, n, status);
	return done > 0 ? done : status[0];
}

void uprobe_links_release_numbers(const struct links *links, const struct uprobe_kernel_side *k)
{
	for (size_t i = 0; i < links->n; i++)
		free_number(k, links->groups[i].number);
}
