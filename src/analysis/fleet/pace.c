/*
 * How fast a job goes: the time from one collective to the next, of which a lasting change is looked for. Ranks
 * that meet are all as slow as the slowest; where one is late that is the finding, and this is of what
 * slows all of them down, such as the network or storage.
 */
#include "analysis/fleet/fleet_int.h"

#include <string.h>

static bool begin_pace(struct gs_fleet *f, struct comm *c)
{
	struct gs_detect_change_options options;

	if (f->n_paces == GS_FLEET_MAX_PACES)
		return false;
	gs_detect_set_defaults(&gs_detect_change, &options);
	options.training_samples = GS_FLEET_SLOW_TRAINING;
	options.min_change = GS_FLEET_SLOW_CHANGE;
	options.usual_after_samples = GS_FLEET_SLOW_USUAL;
	if (gs_detect_new(&gs_detect_change, &options, &c->pace) < 0)
		return false;
	f->n_paces++;
	return true;
}

void fleet_forget_pace(struct gs_fleet *f, struct comm *c, int64_t now_ns)
{
	fleet_end_finding(f, &c->slow_find, now_ns);
	f->n_paces -= c->pace != NULL;
	gs_detect_free(&c->pace);
}

static void add_slowdown(struct gs_fleet *f, struct comm *c, const struct gs_detect_finding *found,
			 const struct verdict *v, int64_t now_ns)
{
	struct gs_fleet_finding *finding = fleet_add_finding(
		f, c, GS_FLEET_SLOW, (int64_t)found->since_ns, now_ns, &c->slow_find);

	if (!finding)
		return;
	finding->before_ns = found->before;
	finding->after_ns = found->after;
	finding->ratio = found->change_pct / 100;
	finding->score = found->score;
	finding->score_limit = found->limit;
	finding->is_known = v->is_known;
	finding->error_ns = v->error_ns;
	finding->has_clocks = v->has_clocks;
	memcpy(finding->job, f->ranks[c->ranks[0]].job, sizeof(finding->job));
}

void fleet_follow_pace(struct gs_fleet *f, struct comm *c, const struct verdict *v, int64_t now_ns)
{
	struct gs_detect_finding found;

	if (!c->pace && !begin_pace(f, c))
		return;
	switch (gs_detect_feed(c->pace, (uint64_t)now_ns, &v->period_ns, &found)) {
	case GS_DETECT_BEGUN:
		/* A rank that is late, or may yet be found to be, is the finding. */
		if (found.change_pct > 0 && !c->late_find && c->late_rank < 0)
			add_slowdown(f, c, &found, v, now_ns);
		break;
	case GS_DETECT_ENDED:
		fleet_end_finding(f, &c->slow_find, now_ns);
		break;
	case GS_DETECT_NOTHING:
		break;
	}
}
