/*
 * Who has not arrived. A communicator hangs when none of its ranks has made a call for long though one of
 * them has made more than another: it waits for the call after the last that all have made. Ranks that
 * have all made as many are idle, however long.
 */
#include "analysis/fleet/fleet_int.h"

#include <string.h>

struct look {
	const struct rank *ahead; /* one that has made most calls, and is heard of */
	uint64_t least;           /* calls that all have made */
	int64_t newest_ns;        /* the last call of any that is heard of */
	int64_t as_of_ns;         /* until when all that are heard of are known */
};

static bool sends_sums(const struct rank *r, int64_t now_ns)
{
	return now_ns - r->as_of_ns < (int64_t)GS_FLEET_STALE_NS;
}

static struct look sample_ranks(const struct gs_fleet *f, const struct comm *c, int64_t now_ns)
{
	struct look l = {.least = UINT64_MAX, .as_of_ns = now_ns};

	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (r->calls < l.least)
			l.least = r->calls;
		if (rank_is_over(r) || !sends_sums(r, now_ns))
			continue;
		if (!l.ahead || r->calls > l.ahead->calls)
			l.ahead = r;
		if (r->last_ns > l.newest_ns)
			l.newest_ns = r->last_ns;
		if (r->as_of_ns < l.as_of_ns)
			l.as_of_ns = r->as_of_ns;
	}
	return l;
}

enum gs_fleet_state fleet_state_of_rank(const struct rank *r, int64_t now_ns)
{
	return r->flags & GS_RANK_ENDED  ? GS_FLEET_ENDED
	       : r->flags & GS_RANK_LEFT ? GS_FLEET_LEFT
	       : !sends_sums(r, now_ns)  ? GS_FLEET_SILENT
					 : GS_FLEET_MISSING;
}

/* The same ranks in the same states? */
static bool is_same(const struct gs_fleet_finding *a, const struct gs_fleet_finding *b)
{
	uint32_t n = a->n_about < GS_FLEET_MAX_LISTED ? a->n_about : GS_FLEET_MAX_LISTED;

	if (a->n_about != b->n_about || a->n_waiting != b->n_waiting || a->call != b->call)
		return false;
	for (uint32_t i = 0; i < n; i++)
		if (a->about[i].rank != b->about[i].rank || a->about[i].state != b->about[i].state)
			return false;
	return true;
}

static void fill_finding(const struct gs_fleet *f, const struct comm *c, const struct look *l,
			 int64_t now_ns, struct gs_fleet_finding *finding)
{
	finding->n_about = finding->n_waiting = 0;
	finding->n_seen = (int32_t)c->n;
	finding->call = l->least + 1;
	memcpy(finding->last_name, l->ahead->last_name, sizeof(finding->last_name));
	for (uint32_t i = 0; i < c->n; i++) {
		const struct rank *r = &f->ranks[c->ranks[i]];

		if (r->calls == l->least)
			fleet_list_rank(finding, r, fleet_state_of_rank(r, now_ns));
		else
			finding->n_waiting += !rank_is_over(r);
	}
}

void fleet_seek_hang(struct gs_fleet *f, struct comm *c, int64_t now_ns)
{
	struct look l = sample_ranks(f, c, now_ns);
	struct gs_fleet_finding *finding, before;

	if (!l.ahead || l.ahead->calls == l.least || fleet_is_consequence(f, c, l.least + 1) ||
	    l.as_of_ns - l.newest_ns < (int64_t)GS_FLEET_HANG_NS) {
		fleet_end_finding(f, &c->hang_find, now_ns);
		return;
	}
	if (c->hang_find) {
		finding = &f->found[c->hang_find - 1].it;
		before = *finding;
		fill_finding(f, c, &l, now_ns, finding);
		if (!is_same(&before, finding))
			fleet_touch_finding(f, c->hang_find);
		return;
	}
	finding = fleet_add_finding(f, c, GS_FLEET_HANG, l.newest_ns, now_ns, &c->hang_find);
	if (finding)
		fill_finding(f, c, &l, now_ns, finding);
}
