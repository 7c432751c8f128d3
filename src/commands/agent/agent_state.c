/* What was read last, joined from readings of single groups, and the XIDs of all time. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_schedule.h"
#include "commands/agent/agent_state.h"
#include "analysis/gpu_health/gpu_health.h"

int agent_state_init(struct agent_state *s, const struct agent_conf *conf)
{
	memset(s, 0, sizeof(*s));
	s->xids = calloc(AGENT_XIDS_MAX, sizeof(*s->xids));
	if (!s->xids)
		return -ENOMEM;
	pthread_mutex_init(&s->lock, NULL);
	s->conf = *conf;
	s->last_reload_ok = true;
	s->started_wall_ns = (int64_t)gs_clock_wall_ns();
	return 0;
}

void agent_state_fini(struct agent_state *s)
{
	gs_gpu_snapshot_free(&s->latest);
	free(s->xids);
	s->xids = NULL;
	pthread_mutex_destroy(&s->lock);
}

static int find_gpu(const struct gs_gpu_snapshot *s, const char *uuid)
{
	for (uint32_t i = 0; i < s->n_gpus; i++)
		if (strcmp(s->info[i].uuid, uuid) == 0)
			return (int)i;
	return -1;
}

static void merge_gpu(struct gs_gpu_sample *fresh, const struct gs_gpu_sample *before,
		      unsigned groups)
{
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		if (!(groups & agent_group_bit[agent_group_of(f)]) && !gs_gpu_has(fresh, f)) {
			fresh->why[f] = before->why[f];
			fresh->value[f] = before->value[f];
		}
	if (!(groups & GS_GPU_READ_LINKS) && !fresh->n_links) {
		fresh->n_links = before->n_links;
		memcpy(fresh->link, before->link, sizeof(fresh->link));
	}
	for (unsigned i = 0; i < GS_GPU_PARTS; i++)
		if (!fresh->part_ns[i])
			fresh->part_ns[i] = before->part_ns[i];
	/* Nothing of the GPU itself was read: it was, and is, of the time before. */
	if (!(groups & ~GS_GPU_READ_EVENTS))
		fresh->time_ns = before->time_ns;
}

/* The processes of the snapshot before, on the GPUs that are still there. */
static int keep_processes(struct gs_gpu_snapshot *fresh, const struct gs_gpu_snapshot *before)
{
	uint32_t n = 0;

	free(fresh->process);
	fresh->n_processes = 0;
	fresh->process = calloc(before->n_processes + 1, sizeof(*fresh->process));
	if (!fresh->process)
		return -ENOMEM;
	for (uint32_t i = 0; i < before->n_processes; i++) {
		const struct gs_gpu_process *p = &before->process[i];
		int gpu = p->gpu < before->n_gpus ? find_gpu(fresh, before->info[p->gpu].uuid) : -1;

		if (gpu < 0)
			continue;
		fresh->process[n] = *p;
		fresh->process[n++].gpu = (uint32_t)gpu;
	}
	fresh->n_processes = n;
	return 0;
}

int agent_merge(struct gs_gpu_snapshot *fresh, const struct gs_gpu_snapshot *before,
		unsigned groups)
{
	if (!before)
		return 0;
	if (!(groups & GS_GPU_READ_EVENTS)) /* then it was not read */
		fresh->lost_events = before->lost_events;
	if (fresh->state == GS_GPU_STATE_HUNG) /* then nothing was read */
		groups = 0;
	for (uint32_t i = 0; i < fresh->n_gpus; i++) {
		int old = find_gpu(before, fresh->info[i].uuid);

		if (old >= 0 && !fresh->sample[i].lost && !before->sample[old].lost)
			merge_gpu(&fresh->sample[i], &before->sample[old], groups);
	}
	return groups & GS_GPU_READ_PROCESSES ? 0 : keep_processes(fresh, before);
}

static void count_xid(struct agent_state *s, const struct gs_gpu_event *e)
{
	struct gs_metrics_xid *x = NULL;

	for (size_t i = 0; i < s->n_xids && !x; i++)
		if (s->xids[i].xid == e->xid && strcmp(s->xids[i].uuid, e->uuid) == 0 &&
		    strcmp(s->xids[i].pci_bus_id, e->pci_bus_id) == 0)
			x = &s->xids[i];
	if (!x && s->n_xids == AGENT_XIDS_MAX) {
		s->xids_dropped++;
		return;
	}
	if (!x) {
		x = &s->xids[s->n_xids++];
		memcpy(x->uuid, e->uuid, sizeof(x->uuid));
		memcpy(x->pci_bus_id, e->pci_bus_id, sizeof(x->pci_bus_id));
		x->xid = e->xid;
	}
	x->count++;
	x->time_ns = e->time_ns;
}

void agent_state_put(struct agent_state *s, struct gs_gpu_snapshot **snapshot, unsigned groups,
		     struct gs_gpu *gpu)
{
	struct gs_gpu_snapshot *fresh = gs_take(*snapshot), *old;
	uint64_t now = gs_clock_mono_ns();

	pthread_mutex_lock(&s->lock);
	/* Without memory for the last processes there are none until they are read again. */
	(void)agent_merge(fresh, s->latest, groups);
	for (uint32_t i = 0; i < fresh->n_events; i++)
		if (fresh->event[i].xid)
			count_xid(s, &fresh->event[i]);
	agent_schedule_adapt(&s->schedule, &s->conf, groups, s->latest, fresh, now);
	old = s->latest;
	gs_gpu_health_follow(old, fresh);
	s->latest = fresh;
	s->samples++;
	s->empty_samples += fresh->n_gpus == 0;
	s->sample_ns = fresh->read_ns;
	s->sampled_ns = now;
	if (gpu) {
		s->n_call_costs =
			gs_gpu_costs(gpu, GS_GPU_COST_BY_CALL, s->call_cost, GS_GPU_COSTS_MAX);
		s->n_part_costs =
			gs_gpu_costs(gpu, GS_GPU_COST_BY_PART, s->part_cost, GS_GPU_COSTS_MAX);
	}
	pthread_mutex_unlock(&s->lock);
	gs_gpu_snapshot_free(&old);
}
