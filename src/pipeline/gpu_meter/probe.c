/* Probes of the meter: which functions, and what their calls become. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/vec.h"
#include "model/trace/class.h"
#include "model/trace/func.h"
#include "pipeline/gpu_meter/gpu_meter_int.h"
#include "pipeline/inside/inside.h"

#define RESCAN_NS  1000000000ull
#define RING_BYTES (4u << 20)

/* Does the kernel side find stream and amount of the call's work in its words? */
static bool is_added_up(const struct gs_func_desc *d)
{
	switch (d->post) {
	case GS_POST_NONE:
	case GS_POST_LAUNCH_RT:
	case GS_POST_LAUNCH_DRV:
	case GS_POST_LAUNCH_EXC:
	case GS_POST_LAUNCH_EX:
	case GS_POST_COPY_ANY:
	case GS_POST_COPY_HTOD:
	case GS_POST_COPY_DTOH:
	case GS_POST_COPY_DTOD:
	case GS_POST_COPY_PEER:
	case GS_POST_EXTENT3:
	case GS_POST_FILL16:
	case GS_POST_FILL32:
		return true;
	default:
		return false;
	}
}

static uint8_t role_of(const struct gs_func *f)
{
	struct gs_activity_function a = gs_activity_function_of(f->desc.layer, f->desc.op, f->name);
	struct gs_memory_function memory =
		gs_memory_function_of(f->desc.layer, f->desc.op, f->name);

	if (f->desc.layer != GS_LAYER_CUDA_RUNTIME && f->desc.layer != GS_LAYER_CUDA_DRIVER)
		return GS_GPU_QUEUE_NOTHING;
	if (a.kind == GS_ACTIVITY_NOTHING)
		return memory.verb || f->desc.post == GS_POST_KERNEL_NAME ||
				       f->desc.post == GS_POST_KERNEL_OF
			       ? GS_GPU_QUEUE_SENT
			       : GS_GPU_QUEUE_NOTHING;
	/* Which graph is launched matters; there are few of them. */
	if (a.kind != GS_ACTIVITY_WORK || a.work == GS_ACTIVITY_GRAPHS || !is_added_up(&f->desc))
		return GS_GPU_QUEUE_ORDERS;
	return (uint8_t)((GS_GPU_QUEUE_ADDED + a.work) |
			 (a.per_thread ? GS_GPU_QUEUE_PER_THREAD : 0) |
			 (a.work == GS_ACTIVITY_COPIES ? GS_GPU_QUEUE_COPIES : 0));
}

int meter_functions_choose(struct gs_gpu_meter *m)
{
	_Static_assert(GS_ACTIVITY_WORKS <= GS_GPU_QUEUE_SORTS, "sorts of work");
	m->globs = calloc(gs_func_count() + 1, sizeof(*m->globs));
	if (!m->globs)
		return -ENOMEM;
	for (unsigned id = 1; id <= gs_func_count(); id++) {
		const struct gs_func *f = gs_func_by_id(id);

		m->function[id] = gs_activity_function_of(f->desc.layer, f->desc.op, f->name);
		m->memory_function[id] = gs_memory_function_of(f->desc.layer, f->desc.op, f->name);
		if (!f->watched_only && role_of(f))
			m->globs[m->n_globs++] = f->name;
	}
	return 0;
}

void gs_gpu_meter_functions(bool *ret_wanted)
{
	memset(ret_wanted, 0, GS_FUNC_FIXED * sizeof(*ret_wanted));
	for (unsigned id = 1; id < GS_FUNC_FIXED && id <= gs_func_count(); id++)
		ret_wanted[id] = !gs_func_by_id(id)->watched_only && role_of(gs_func_by_id(id));
}

/* --- what comes in --- */

static uint32_t thread_number(struct gs_gpu_meter *m, uint32_t tid)
{
	uint64_t number;

	if (gs_map_get(&m->thread_of, tid, &number))
		return (uint32_t)number;
	if (gs_map_put(&m->thread_of, tid, m->n_threads + 1) < 0)
		return 0;
	return ++m->n_threads;
}

static void take_run(void *ctx, const struct gs_gpu_queue_run *run)
{
	struct gs_gpu_meter *m = ctx;
	struct gs_activity_call call;

	if (gs_inside_sees(m->inside, run->pid))
		return;
	call = (struct gs_activity_call){
		.function = {.kind = GS_ACTIVITY_WORK, .work = (uint8_t)run->sort},
		.process = meter_process_number(m, run->pid),
		.thread = thread_number(m, run->tid),
		.start_ns = run->first_ns,
		.end_ns = run->last_ns,
		.stream = run->stream,
		.n_run = run->n};

	if (!call.process || !call.thread || run->sort >= GS_ACTIVITY_WORKS) {
		m->n_lost += run->n;
		return;
	}
	if (run->sort == GS_ACTIVITY_KERNELS)
		call.threads = run->amount;
	else
		call.bytes = run->amount;
	gs_process_gpu_take(m->sums, &call);
}

static void take_call(struct gs_gpu_meter *m, const struct gs_event_call *e)
{
	const struct gs_func *f = gs_func_by_id(e->func);
	uint32_t process = meter_process_number(m, e->pid), thread = thread_number(m, e->tid);
	struct gs_rec_call r = {.start_ns = e->start_ns,
				.dur_ns = e->dur_ns,
				.thread = thread,
				.ret = e->ret,
				.aux = e->aux,
				.call_flags = e->flags,
				.bytes = e->bytes,
				.stream = e->stream};

	if (!process || !thread || !f) {
		m->n_lost++;
		return;
	}
	/* One of many that are in the runs. */
	if (e->flags & GS_CALL_ADDED_UP) {
		meter_take_launch(m, e, process, thread);
		return;
	}
	r.failed = e->ret != 0 && e->ret != f->desc.not_error;
	memcpy(r.arg, e->arg, sizeof(r.arg));
	r.function = e->func;
	gs_process_gpu_take_record(m->sums, process, &r, m->function[e->func]);
	/* From inside launches come one by one. */
	if (m->function[e->func].kind == GS_ACTIVITY_WORK &&
	    m->function[e->func].work == GS_ACTIVITY_KERNELS && !r.failed)
		meter_take_launch(m, e, process, thread);
	if (m->memory_function[e->func].verb)
		gs_memory_take(m->memory, process, &r, m->memory_function[e->func]);
}

static void take_task(struct gs_gpu_meter *m, const struct gs_event_task *e)
{
	uint64_t number;

	if (e->change == GS_TASK_FORK) {
		if (gs_map_put(&m->born, e->pid, 1) < 0)
			m->n_lost++;
		return;
	}
	if (e->change == GS_TASK_EXIT && gs_vec_reserve(&m->gone, &m->cap_gone, m->n_gone + 1))
		m->gone[m->n_gone++] = e->tid;
	if (e->change == GS_TASK_EXIT && e->tid != e->pid)
		return;
	if (e->change == GS_TASK_EXIT)
		gs_map_del(&m->followed, e->pid);
	/* What it has queued may still be to be handed over. */
	if (gs_map_get(&m->process_of, e->pid, &number))
		m->processes[number - 1].ending_ns = e->time_ns;
	if (e->change == GS_TASK_EXEC)
		(void)gs_map_put(&m->born, e->pid, 1);
}

void meter_take_event(void *ctx, const struct gs_event *event)
{
	struct gs_gpu_meter *m = ctx;

	if (event->kind == GS_EV_CALL && event->bytes == sizeof(struct gs_event_call))
		take_call(m, (const void *)event);
	else if (event->kind == GS_EV_TASK && event->bytes >= sizeof(struct gs_event_task))
		take_task(m, (const void *)event);
	gs_ingest_event(m->feed, event);
}

static void on_event(void *ctx, const struct gs_event *event)
{
	if (!meter_inside_take(ctx, event))
		meter_take_event(ctx, event);
}

static bool on_leaves_out(void *ctx, pid_t pid, const char *path)
{
	return meter_inside_leaves_out(ctx, (uint32_t)pid, path);
}

static void on_exec(void *ctx, pid_t pid, uint64_t mono_ns)
{
	meter_inside_exec(ctx, (uint32_t)pid, mono_ns);
}

static void on_cell(void *ctx, const struct gs_thread *thread, const struct gs_cell *before,
		    const struct gs_cell *now)
{
}

static void on_map(void *ctx, pid_t pid, uint64_t mono_ns, const struct gs_mapping *mapping)
{
	struct gs_gpu_meter *m = ctx;

	gs_ingest_map(m->feed, (uint32_t)pid, mono_ns, mapping);
}

static void on_attach(void *ctx, const struct gs_attach *attach)
{
}

/* --- life --- */

int meter_probe_open(struct gs_gpu_meter *m, const pid_t *pids, size_t n, struct gs_err *err)
{
	struct gs_uprobe_options o = {
		.size = sizeof(o),
		.pids = pids,
		.n_pids = n,
		.follow = true,
		.uid = -1,
		.layers = 1u << GS_LAYER_CUDA_RUNTIME | 1u << GS_LAYER_CUDA_DRIVER,
		.globs = m->globs,
		.n_globs = m->n_globs,
		.ring_bytes = RING_BYTES,
		.gpu_role = role_of,
		.maps = true,
		.reader = m->files,
		.on_attach = on_attach,
		.leaves_out = on_leaves_out,
		.on_exec = on_exec,
		.on_map = on_map,
		.ctx = m,
	};
	int r = gs_uprobe_new(&o, &m->probe, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		(void)gs_uprobe_attach_process(m->probe, pids[i]);
	if (r == 0)
		(void)gs_uprobe_attach_running(m->probe);
	return r;
}

/* Notices of mappings are of all processes of the machine: that some were dropped is no missing call. */
static uint64_t lost_in_kernel(const struct gs_gpu_meter *m)
{
	uint64_t n = 0;

	for (unsigned layer = 0; m->probe && layer < GS_LAYER_COUNT; layer++)
		for (unsigned cause = 0; cause < GS_LOSS_COUNT; cause++)
			if (cause != GS_LOSS_FIRST && cause != GS_LOSS_MAPS)
				n += gs_uprobe_lost(m->probe, layer, (enum gs_loss)cause);
	return n;
}

uint64_t gs_gpu_meter_lost(const struct gs_gpu_meter *m)
{
	return m->n_lost + m->n_lost_before + lost_in_kernel(m) + gs_process_gpu_left_out(m->sums);
}

static struct gs_uprobe_handler handler_of(struct gs_gpu_meter *m)
{
	return (struct gs_uprobe_handler){
		.event = on_event, .cell = on_cell, .gpu_run = take_run, .ctx = m};
}

void meter_probe_close(struct gs_gpu_meter *m)
{
	struct gs_uprobe_handler h = handler_of(m);

	if (!m->probe)
		return;
	while (gs_uprobe_poll(m->probe, &h) > 0)
		;
	gs_uprobe_drain(m->probe, &h);
	m->n_lost_before += lost_in_kernel(m);
	gs_uprobe_free(&m->probe);
}

void meter_probe_poll(struct gs_gpu_meter *m)
{
	struct gs_uprobe_handler h = handler_of(m);
	uint64_t now_ns = gs_clock_mono_ns();

	if (!m->probe)
		return;
	gs_uprobe_watch_poll(m->probe);
	if (now_ns - m->rescan_ns >= RESCAN_NS) {
		m->rescan_ns = now_ns;
		gs_uprobe_rescan(m->probe);
	}
	while (gs_uprobe_poll(m->probe, &h) > 0)
		;
	gs_uprobe_drain(m->probe, &h);
	/* Not before what they had queued has come. */
	for (size_t i = 0; i < m->n_gone; i++)
		gs_map_del(&m->thread_of, m->gone[i]);
	m->n_gone = 0;
}
