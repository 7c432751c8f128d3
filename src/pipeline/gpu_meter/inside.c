/* Processes whose jobs have their calls reported from inside (sources/companion): those get no probes for the calls that they
 * report, and what probes see of them nevertheless, because a library has probes for others, is left out. */
#include "model/trace/func.h"
#include "pipeline/gpu_meter/gpu_meter_int.h"
#include "pipeline/inside/inside.h"
#include "sources/companion/companion.h"

/* Of a process that began while it was watched all is wanted, of one that ran already what comes from now on, as by probes. */
static enum gs_companion_share share_of(void *ctx, uint32_t pid)
{
	struct gs_gpu_meter *m = ctx;
	uint64_t one;

	if (gs_map_get(&m->followed, pid, &one))
		return GS_COMPANION_WHOLE;
	return gs_map_get(&m->asked, pid, &one) ? GS_COMPANION_FROM_NOW : GS_COMPANION_LEAVE;
}

static void on_missing(void *ctx, uint64_t n)
{
	((struct gs_gpu_meter *)ctx)->n_lost += n;
}

int gs_gpu_meter_read_inside(struct gs_gpu_meter *m, const char *folder, struct gs_err *err)
{
	const struct gs_companion_files_options o = {
		.size = sizeof(o), .parent = folder, .takes = share_of, .ctx = m};
	const struct gs_inside_taker taker = {
		.event = meter_take_event, .missing = on_missing, .ctx = m};
	bool wanted[GS_FUNC_FIXED];
	int r;

	gs_gpu_meter_functions(wanted);
	r = gs_companion_files_new(&o, &m->shared, err);
	if (r == 0)
		r = gs_inside_new(m->shared, wanted, &m->inside);
	if (r == 0)
		gs_inside_set_taker(m->inside, &taker);
	else
		meter_inside_close(m);
	return r;
}

void meter_inside_close(struct gs_gpu_meter *m)
{
	gs_inside_free(&m->inside);
	gs_companion_files_free(&m->shared);
}

void meter_inside_ask(struct gs_gpu_meter *m, const pid_t *pids, size_t n)
{
	if (!m->inside)
		return;
	gs_map_fini(&m->asked);
	m->asked = GS_MAP_INIT(GS_GPU_METER_PROCESSES_MAX * 2);
	for (size_t i = 0; i < n; i++)
		(void)gs_map_put(&m->asked, (uint32_t)pids[i], 1);
}

void meter_inside_forget(struct gs_gpu_meter *m)
{
	gs_map_fini(&m->followed);
	m->followed = GS_MAP_INIT(METER_MAPS_MAX);
	/* What they have written until now counts; from here on probes may see them. */
	meter_inside_poll(m);
}

bool meter_inside_take(struct gs_gpu_meter *m, const struct gs_event *event)
{
	const struct gs_event_task *task = (const void *)event;
	const struct gs_event_call *call = (const void *)event;

	if (!m->inside)
		return false;
	if (event->kind == GS_EV_CALL && event->bytes == sizeof(*call))
		return gs_inside_covers(m->inside, call->pid, call->func);
	if (event->kind != GS_EV_TASK || event->bytes < sizeof(*task))
		return false;
	/* Known at once: its file is looked for before its libraries get probes. */
	if (task->change == GS_TASK_FORK)
		(void)gs_map_put(&m->followed, task->pid, 1);
	gs_inside_task(m->inside, task);
	return true;
}

void meter_inside_exec(struct gs_gpu_meter *m, uint32_t pid, uint64_t mono_ns)
{
	if (!m->inside || share_of(m, pid) == GS_COMPANION_LEAVE)
		return;
	(void)gs_map_put(&m->followed, pid, 1);
	gs_inside_exec(m->inside, pid, mono_ns);
}

bool meter_inside_leaves_out(struct gs_gpu_meter *m, uint32_t pid, const char *path)
{
	return m->inside && pid && gs_inside_attaches(m->inside, pid, path) <= 0;
}

void meter_inside_poll(struct gs_gpu_meter *m)
{
	struct gs_inside_late late;
	uint32_t pid;

	if (!m->inside)
		return;
	(void)gs_inside_poll(m->inside, true); /* what there is more comes with the next one */
	while (m->probe && (pid = gs_inside_next_late(m->inside, &late)) > 0)
		(void)gs_uprobe_attach_process(m->probe, (pid_t)pid);
}

unsigned gs_gpu_meter_inside(const struct gs_gpu_meter *m)
{
	return m->shared ? gs_companion_files_open(m->shared) : 0;
}

unsigned gs_gpu_meter_unread(const struct gs_gpu_meter *m, int *ret_reason)
{
	*ret_reason = 0;
	return m->shared ? gs_companion_files_refused(m->shared, ret_reason) : 0;
}
