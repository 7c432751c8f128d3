/*
 * Functions are taken off, or, of those that are only counted, the probes where they are left: a
 * group's links are replaced by new ones without them, while its other functions are being called.
 * Made in steps, one a call:
 *
 *   STEADY  calls of the functions that go, which are only counted now, have all returned; new
 *           links are attached beside the old ones; until now they count nothing
 *   BOTH    for BOTH_NS; a hit that the new ones have seen is theirs, any other one still the
 *           old ones' (of threads that were just past the new ones): GS_TURN_BOTH
 *   NEW     the new ones count; the old ones are kept until the calls that entered by them have
 *           returned, since of a session link only the very link that saw the entry sees the return
 *
 * So of the functions that stay no call is missed or counted twice. A call that lasts longer than
 * PATIENCE_NS, or GOING_NS of a function that goes, loses its return, and is counted as
 * GS_LOSS_UNMATCHED. A group of which nothing is to
 * stay needs no new links; so does one of a single place, as they are where there are no multi
 * links.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "model/trace/func.h"
#include "sources/uprobe/uprobe_int.h"

#define PATIENCE_NS 2000000000ull
#define GOING_NS    50000000ull /* the same of functions that go: they cost while they stay */
#define BOTH_NS     50000000ull /* longer than anything is between the two links of one hit */

enum phase { STEADY, WAITING, BOTH, NEW, STUCK };

static bool is_exit(const struct gs_attach_plan_place *p)
{
	return p->cookie & GS_COOKIE_EXIT;
}

static bool is_going(const struct gs_uprobe *probe, const struct gs_attach_plan_place *p)
{
	unsigned mode = __atomic_load_n(&probe->kernel.modes->mode[p->func], __ATOMIC_RELAXED);

	return mode == GS_MODE_OFF || (mode == GS_MODE_COUNT && is_exit(p));
}

static size_t n_going(const struct gs_uprobe *probe, const struct uprobe_link_group *g)
{
	size_t n = 0;

	for (size_t i = 0; g->places && i < g->n; i++)
		n += is_going(probe, &g->places[i]);
	return n;
}

static void close_all(int *fds, unsigned *n)
{
	while (*n)
		close(fds[--*n]);
}

static void set_turn(const struct gs_uprobe *probe, const struct uprobe_link_group *g,
		     unsigned turn)
{
	__atomic_store_n(&probe->kernel.modes->turn[g->number], (uint8_t)turn, __ATOMIC_SEQ_CST);
}

/* Some file no longer has the probes of these functions. */
static void note_off(struct gs_uprobe *probe, const struct uprobe_link_group *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (uprobe_files_is_off(probe, g->places[i].func))
			probe->off_somewhere[g->places[i].func] = true;
}

/* The old links go on being g->old, and g is what comes. */
static int attach_rest(struct gs_uprobe *probe, struct uprobe_link_group *g, const char *path,
		       pid_t pid)
{
	struct uprobe_link_group next = {
		.family = g->family, .number = g->number, .turn = !g->turn};
	int r;

	next.places = calloc(g->n, sizeof(*next.places));
	if (!next.places)
		return -ENOMEM;
	for (size_t i = 0; i < g->n; i++)
		if (!is_going(probe, &g->places[i]))
			next.places[next.n++] = g->places[i];
	r = uprobe_attach_group(&next, &probe->kernel, &probe->features, path, pid);
	if (r < 0) {
		free(next.places);
		return r;
	}
	note_off(probe, g);
	memcpy(next.old, g->fds, sizeof(next.old));
	next.n_old = g->n_fds;
	free(g->places);
	*g = next;
	return 0;
}

static bool is_in(const struct uprobe_link_group *g, uint16_t func)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->places[i].func == func)
			return true;
	return false;
}

static bool is_of(const struct gs_uprobe *probe, const struct uprobe_link_group *g, uint16_t id,
		  bool going)
{
	uint16_t func = uprobe_placed_as(probe, id);

	return is_in(g, func) && (!going || probe->kernel.modes->mode[func] >= GS_MODE_COUNT);
}

/* Has a thread entered one of the group's functions (going: one of those that go) before that time,
 * and not returned? */
static bool is_open(const struct gs_uprobe *probe, const struct uprobe_link_group *g,
		    uint64_t before_ns, bool going)
{
	const struct uprobe_kernel_side *k = &probe->kernel;
	unsigned n = uprobe_reach_threads(k);

	for (unsigned i = 1; i < n; i++) {
		const struct gs_thread *t = &k->threads[i];

		if (!t->pid || t->ended)
			continue;
		for (unsigned d = 0; d < t->depth && d < GS_DEPTH_MAX; d++)
			if (t->frame[d].start_ns < before_ns &&
			    is_of(probe, g, t->frame[d].func, going))
				return true;
		for (unsigned d = 0; d < t->scope_depth && d < GS_SCOPE_MAX; d++)
			if (t->scope[d].start_ns < before_ns &&
			    is_of(probe, g, t->scope[d].func, going))
				return true;
	}
	return false;
}

/* path leads to the file by a descriptor of ours, which says nothing to others. */
static void report_stuck(struct gs_uprobe *probe, const char *path, int status)
{
	char name[PATH_MAX];
	ssize_t n = readlink(path, name, sizeof(name) - 1);

	name[n > 0 ? n : 0] = '\0';
	uprobe_files_report_failure(probe, n > 0 ? name : path, NULL,
				    "probes could not be removed: their calls are still counted",
				    status, 0);
}

static void begin_group(struct gs_uprobe *probe, struct uprobe_link_group *g, const char *path,
			pid_t pid)
{
	size_t going = n_going(probe, g);
	uint64_t start_ns = gs_clock_mono_ns();
	int r = -ENOBUFS;

	if (!going)
		return;
	if (!g->turned_ns)
		g->turned_ns = start_ns;
	if (is_open(probe, g, start_ns, true) && start_ns - g->turned_ns < GOING_NS) {
		g->phase = WAITING;
		return;
	}
	g->phase = STEADY;
	g->turned_ns = 0;
	if (going == g->n) {
		close_all(g->fds, &g->n_fds);
		note_off(probe, g);
		g->n = 0;
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH, "%zu probes were taken off in %.1f ms", going,
		       (double)(gs_clock_mono_ns() - start_ns) / 1e6);
		return;
	}
	if (g->number)
		r = attach_rest(probe, g, path, pid);
	if (r < 0) {
		report_stuck(probe, path, r);
		g->phase = STUCK;
		return;
	}
	set_turn(probe, g, g->turn | GS_TURN_BOTH);
	g->phase = BOTH;
	g->turned_ns = gs_clock_mono_ns();
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
	       "%zu probes go, %zu stay and were attached again in %.1f ms", going, g->n,
	       (double)(gs_clock_mono_ns() - start_ns) / 1e6);
}

/* True when there is a next step. */
static bool step_group(struct gs_uprobe *probe, struct uprobe_link_group *g, const char *path,
		       pid_t pid)
{
	uint64_t start_ns;

	switch ((enum phase)g->phase) {
	case STEADY:
	case WAITING:
		begin_group(probe, g, path, pid);
		break;
	case BOTH:
		if (gs_clock_mono_ns() - g->turned_ns < BOTH_NS)
			break;
		set_turn(probe, g, g->turn);
		g->turned_ns = gs_clock_mono_ns();
		g->phase = NEW;
		break;
	case NEW:
		/* Other links than those of sessions see returns whichever link saw the entry. */
		if (probe->kernel.session[g->family] && is_open(probe, g, g->turned_ns, false) &&
		    gs_clock_mono_ns() - g->turned_ns < PATIENCE_NS)
			break;
		start_ns = gs_clock_mono_ns();
		close_all(g->old, &g->n_old);
		g->phase = STEADY;
		g->turned_ns = 0;
		gs_log(GS_LOG_INFO, GS_LOG_ATTACH, "old probes were taken off in %.1f ms",
		       (double)(gs_clock_mono_ns() - start_ns) / 1e6);
		return n_going(probe, g) > 0; /* asked for meanwhile */
	case STUCK:
		break;
	}
	return g->phase != STEADY && g->phase != STUCK;
}

bool uprobe_links_regroup(struct gs_uprobe *probe, struct links *links, const char *path, pid_t pid)
{
	bool more = false;

	for (size_t i = 0; i < links->n; i++)
		more |= step_group(probe, &links->groups[i], path, pid);
	return more;
}

bool uprobe_links_will_lose(const struct links *links, uint16_t func)
{
	for (size_t i = 0; i < links->n; i++) {
		const struct uprobe_link_group *g = &links->groups[i];

		/* The old ones still count what the new ones lack. A group that is stuck keeps all. */
		if (g->phase == BOTH || (g->phase != STUCK && g->places && is_in(g, func)))
			return true;
	}
	return false;
}
