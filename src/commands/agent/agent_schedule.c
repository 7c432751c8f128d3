/*
 * When which group of values is due. Each has its own interval; while nothing in it changes the
 * interval doubles up to a limit, and the first change brings it back. Groups that are not due are
 * not read at all. core/base/schedule.h says when turns are due, and which count as missed.
 */
#include <math.h>
#include <string.h>

#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_schedule.h"

#define TOGETHER_NS 5000000 /* groups due within 5 ms are read in one turn */

void agent_schedule_init(struct agent_schedule *s, const struct agent_conf *conf, uint64_t now_ns)
{
	for (int i = 0; i < AGENT_GROUPS; i++)
		gs_schedule_start(&s->group[i].turns, conf->group[i].interval_ns, now_ns);
	gs_schedule_start(&s->events, conf->sampling.interval_ns, now_ns);
}

uint64_t agent_schedule_next(const struct agent_schedule *s, const struct agent_conf *conf)
{
	uint64_t next = conf->sampling.events ? s->events.next_ns : UINT64_MAX;

	for (int i = 0; i < AGENT_GROUPS; i++)
		if (conf->group[i].enabled && s->group[i].turns.next_ns < next)
			next = s->group[i].turns.next_ns;
	return next;
}

unsigned agent_schedule_take(struct agent_schedule *s, const struct agent_conf *conf,
			     uint64_t now_ns)
{
	uint64_t due = agent_schedule_next(s, conf), missed = 0, skipped;
	unsigned groups = 0;

	if (due > now_ns)
		return 0;
	s->lag_ns = now_ns - due;
	for (int i = 0; i < AGENT_GROUPS; i++) {
		if (!conf->group[i].enabled || s->group[i].turns.next_ns > now_ns + TOGETHER_NS)
			continue;
		groups |= agent_group_bit[i];
		s->group[i].reads++;
		s->group[i].read_ns = now_ns;
		skipped = gs_schedule_take(&s->group[i].turns, now_ns);
		if (skipped > missed)
			missed = skipped;
	}
	if (conf->sampling.events && s->events.next_ns <= now_ns + TOGETHER_NS) {
		groups |= GS_GPU_READ_EVENTS;
		(void)gs_schedule_take(&s->events, now_ns);
	}
	s->missed += missed;
	return groups;
}

enum agent_group agent_group_of(enum gs_gpu_field field)
{
	static const enum agent_group groups[] = {
		[GS_GPU_PACE_BASIC] = AGENT_BASIC,
		[GS_GPU_PACE_HEALTH] = AGENT_HEALTH,
		[GS_GPU_PACE_LINKS] = AGENT_LINKS,
		[GS_GPU_PACE_GPM] = AGENT_GPM,
	};

	return groups[gs_gpu_pace_of(gs_gpu_part_of(field))];
}

static bool value_differs(double before, double now, double threshold)
{
	/* Beside 0 every change is endless: a millionth is taken for the least that counts. */
	return fabs(now - before) >= threshold * (fabs(before) + 1e-6) && now != before;
}

static bool gpu_changed(const struct gs_gpu_sample *a, const struct gs_gpu_sample *b,
			enum agent_group group, double threshold)
{
	if (a->lost != b->lost)
		return true;
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++) {
		const struct gs_gpu_field_info *info = gs_gpu_field_info(f);

		if (agent_group_of(f) != group)
			continue;
		if (gs_gpu_has(a, f) != gs_gpu_has(b, f))
			return true;
		if (!gs_gpu_has(b, f))
			continue;
		/* Sums of energy, time and bytes always grow; a count of errors that grows is news.
		 */
		if (info->counter ? info->unit == GS_UNIT_OF_NONE && a->value[f] != b->value[f]
				  : value_differs(a->value[f], b->value[f], threshold))
			return true;
	}
	return false;
}

static bool processes_changed(const struct gs_gpu_snapshot *a, const struct gs_gpu_snapshot *b,
			      double threshold)
{
	if (a->n_processes != b->n_processes)
		return true;
	/* Both are sorted by GPU and memory: another order is a change of memory. */
	for (uint32_t i = 0; i < b->n_processes; i++) {
		const struct gs_gpu_process *x = &a->process[i], *y = &b->process[i];

		if (x->pid != y->pid || x->gpu != y->gpu ||
		    value_differs((double)x->used_bytes, (double)y->used_bytes, threshold) ||
		    value_differs(x->sm_ratio, y->sm_ratio, threshold))
			return true;
	}
	return false;
}

bool agent_group_changed(const struct gs_gpu_snapshot *a, const struct gs_gpu_snapshot *b,
			 enum agent_group group, double threshold)
{
	if (!a || a->n_gpus != b->n_gpus || a->state != b->state)
		return true;
	if (group == AGENT_PROCESSES)
		return processes_changed(a, b, threshold);
	for (uint32_t i = 0; i < b->n_gpus; i++)
		if (strcmp(a->info[i].uuid, b->info[i].uuid) != 0 ||
		    gpu_changed(&a->sample[i], &b->sample[i], group, threshold))
			return true;
	return false;
}

void agent_schedule_adapt(struct agent_schedule *s, const struct agent_conf *conf, unsigned groups,
			  const struct gs_gpu_snapshot *before, const struct gs_gpu_snapshot *now,
			  uint64_t now_ns)
{
	for (int i = 0; i < AGENT_GROUPS; i++) {
		const struct agent_group_conf *g = &conf->group[i];
		uint64_t interval = s->group[i].turns.interval_ns, wanted;

		if (!(groups & agent_group_bit[i]) || g->max_interval_ns <= g->interval_ns)
			continue;
		if (agent_group_changed(before, now, i, g->threshold_ratio))
			wanted = g->interval_ns;
		else
			wanted = interval * 2 < g->max_interval_ns ? interval * 2
								   : g->max_interval_ns;
		gs_schedule_set_interval(&s->group[i].turns, wanted, now_ns);
	}
}
