/*
 * From what the probe hands over to totals and files: feed makes records of it, span completes
 * them, and view, trace files and .gst files take them. The consumer thread brings events, the
 * control thread brings news of attaching; one lock serialises the two.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "analysis/rules/trace.h"
#include "core/base/clock.h"
#include "core/base/output.h"
#include "commands/common/cli.h"
#include "commands/common/show_findings.h"
#include "commands/common/summary.h"
#include "commands/trace_output/trace_budget.h"
#include "output/hang_watch/hang_watch.h"
#include "commands/trace_output/trace_head.h"
#include "commands/trace_output/trace_keep.h"
#include "commands/trace_output/trace_layers.h"
#include "commands/trace_output/trace_output_int.h"
#include "commands/trace_output/trace_source.h"
#include "commands/trace_output/trace_stress.h"
#include "model/trace/func.h"
#include "model/trace/mark.h"
#include "output/trace_export/export.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/aggregate/kernel_choose.h"
#include "pipeline/correlate/correlate.h"
#include "pipeline/gpu_activity/gpu_activity.h"
#include "pipeline/ingest/ingest.h"
#include "pipeline/inside/inside.h"
#include "pipeline/kineto/work.h"
#include "pipeline/recording/recording.h"
#include "commands/trace_output/trace_spans.h"
#include "sources/identity/identity.h"
#include "sources/uprobe/uprobe.h"

unsigned trace_output_flags(const struct trace_options *options)
{
	return geteuid() == 0 && !options->command ? GS_OUTPUT_PRIVATE : 0;
}

static int open_file(struct trace_output *o, const char *path, struct gs_err *err)
{
	struct file_output *f = &o->files[o->n_files];
	bool is_private = trace_output_flags(o->options) & GS_OUTPUT_PRIVATE;
	const struct gs_sink *sink;
	int r;

	*f = (struct file_output){.path = path};
	if (gs_export_knows(path)) {
		struct gs_export_options eo = {.size = sizeof(eo),
					       .max_bytes = o->options->max_bytes,
					       .flame_by = o->options->flame_by,
					       .is_private = is_private};

		r = gs_export_open(path, &eo, &f->export, err);
		if (r < 0)
			return r;
		sink = gs_export_sink(f->export);
	} else {
		struct gs_recording_options jo = {.size = sizeof(jo),
						  .max_bytes = o->options->max_bytes,
						  .sync_every_ms = 5000,
						  .is_private = is_private};

		r = gs_recording_create(path, &jo, &f->journal, err);
		if (r < 0)
			return r;
		sink = gs_recording_sink(f->journal);
	}
	o->n_files++;
	return gs_ingest_add_sink(o->feed, path, sink);
}

/* For all files that show streams. */
static void take_span(void *ctx, const struct gs_activity_span *span)
{
	struct trace_output *o = ctx;

	for (size_t i = 0; i < o->n_files; i++)
		if (o->files[i].export)
			gs_export_take_span(o->files[i].export, span);
}

/* As of the end that the files know. */
void trace_output_report_pending(struct trace_output *o)
{
	for (size_t i = 0; i < o->n_files; i++)
		if (o->files[i].export) {
			gs_activity_report_pending(gs_aggregate_activity(o->view),
						   gs_export_now_ns(o->files[i].export));
			break;
		}
}

/* Before anything else looks at them. */
static int push_chosen(void *ctx, const struct gs_batch *batch)
{
	struct trace_output *o = ctx;
	const struct gs_sink *next = gs_correlate_sink(o->span);
	struct gs_batch chosen;
	int r = gs_aggregate_kernels_choose(o->kernels, batch, &chosen);

	return r < 0 ? r : next->push(next->ctx, &chosen);
}

static int choose_kernels(struct trace_output *o)
{
	const struct trace_globs *globs = &o->options->kernels;
	const struct gs_sink stage = {.push = push_chosen, .ctx = o};

	if (!globs->n)
		return 0;
	o->kernels = gs_aggregate_kernels_new(globs->glob, globs->n);
	if (!o->kernels)
		return -ENOMEM;
	gs_ingest_set_stage(o->feed, &stage);
	return 0;
}

/* --python-filter. 0 or -ENOMEM. */
static int set_line_filter(const struct trace_options *o, struct gs_aggregate *view)
{
	bool none = o->line_filters.n == 1 && strcmp(o->line_filters.glob[0], "none") == 0;

	return gs_aggregate_set_line_filter(view, o->line_filters.glob,
					    none ? 0 : o->line_filters.n);
}

static int push_findings(void *ctx, const struct gs_batch *batch)
{
	return gs_findings_push(((struct trace_output *)ctx)->findings, batch);
}

/* After the view, whose steps they are of. */
static int follow_findings(struct trace_output *o, struct gs_err *err)
{
	const struct gs_sink sink = {.push = push_findings, .ctx = o};
	int r = gs_findings_new(o->view, &o->findings);

	if (r == 0 && o->options->findings)
		r = gs_findings_set(o->findings, o->options->findings, err);
	return r == 0 ? gs_ingest_add_sink(o->feed, "findings", &sink) : r;
}

static int build_summary(struct trace_output *o, const char *attach_mode, const char *target,
			 const struct gs_func_set *funcs, struct gs_reader *stacks,
			 struct gs_err *err)
{
	const struct trace_options *options = o->options;
	struct gs_ingest_options fo = {
		.size = sizeof(fo),
		/* From inside calls come one by one, whatever is written of them. */
		.mode = options->summary_only && !options->inside_calls && !options->inside_ops
				? GS_SESSION_SUMMARY
				: GS_SESSION_EVENTS,
		.command = target,
		.attach_mode = attach_mode,
		.users = options->users,
		.boot_minus_mono_ns = gs_clock_boot_minus_mono_ns(),
		.funcs = funcs,
		.reader = stacks,
	};
	int r;

	o->place = gs_identity_new("/proc");
	if (!o->place)
		return -ENOMEM;
	fo.place = o->place;
	r = gs_ingest_new(&fo, &o->feed);
	if (r == 0)
		r = gs_aggregate_new(&o->view);
	if (r == 0)
		r = gs_activity_set_bounds(gs_aggregate_activity(o->view), &options->stream_limits);
	if (r == 0 && options->py_stack_at) {
		o->source = trace_source_new();
		r = o->source ? 0 : -ENOMEM;
	}
	if (r == 0 && (options->hang_after_ns || options->head.n_addresses) && !options->estimate) {
		o->hang = gs_hang_watch_new(options->hang_after_ns, options->head.n_addresses > 0,
					    o->view, fo.boot_minus_mono_ns);
		r = o->hang ? 0 : -ENOMEM;
	}
	if (r == 0 && options->line_filters.n)
		r = set_line_filter(options, o->view);
	if (r == 0)
		r = trace_spans_open(options, o->feed, o->view, &o->spans, err);
	if (r == 0)
		r = gs_ingest_add_sink(o->feed, "summary", gs_aggregate_sink(o->view));
	if (r == 0 && (options->findings || options->keep_on & TRACE_KEEP_FINDING))
		r = follow_findings(o, err);
	if (r == 0)
		r = gs_correlate_new(gs_ingest_outlet(o->feed), &o->span);
	if (r == 0)
		gs_ingest_set_stage(o->feed, gs_correlate_sink(o->span));
	if (r == 0)
		r = choose_kernels(o);
	if (r == 0)
		r = trace_keep_new(options, trace_output_flags(options) & GS_OUTPUT_PRIVATE,
				   &o->keep, err);
	if (r == 0 && o->keep)
		r = gs_ingest_add_sink(o->feed, "--keep-last", trace_keep_sink(o->keep));
	for (size_t i = 0; r == 0 && !o->keep && i < options->n_outputs; i++) {
		if (!gs_cli_spans_knows(options->outputs[i]))
			r = open_file(o, options->outputs[i], err);
		if (r == 0 && gs_export_shows_streams(options->outputs[i]))
			gs_activity_set_sink(gs_aggregate_activity(o->view), take_span, o);
	}
	if (r == 0 && options->head.n_addresses) {
		r = trace_head_new(&options->head, target, options->summary_only, &o->head, err);
		if (r == 0)
			r = gs_ingest_add_sink(o->feed, "to the head", trace_head_sink(o->head));
	}
	return r;
}

int trace_output_new(const struct trace_options *options, const char *attach_mode,
		     const char *target, const struct gs_func_set *funcs, struct gs_reader *stacks,
		     struct trace_output **ret_output, struct gs_err *err)
{
	struct trace_output *o = calloc(1, sizeof(*o));
	int r;

	if (!o)
		return -ENOMEM;
	o->options = options;
	o->progress.gpu_wait_ratio = -1;
	pthread_mutex_init(&o->lock, NULL);
	r = build_summary(o, attach_mode, target, funcs, stacks, err);
	if (r < 0)
		trace_output_free(&o);
	else
		*ret_output = o;
	if (r == 0)
		trace_stress_begin(&o->stress, options);
	return r;
}

void trace_output_attach(struct trace_output *o, const struct gs_attach *attach)
{
	pthread_mutex_lock(&o->lock);
	trace_layers_note(&o->layers, attach);
	gs_ingest_attach(o->feed, attach);
	pthread_mutex_unlock(&o->lock);
}

void trace_output_loss(struct trace_output *o, unsigned layer, enum gs_loss cause,
		       const char *detail, uint64_t count)
{
	pthread_mutex_lock(&o->lock);
	gs_ingest_loss(o->feed, layer, cause, detail, count);
	pthread_mutex_unlock(&o->lock);
}

void trace_output_process(struct trace_output *o, pid_t pid)
{
	pthread_mutex_lock(&o->lock);
	gs_identity_refresh(o->place, (uint32_t)pid);
	gs_identity_process(o->place, (uint32_t)pid);
	pthread_mutex_unlock(&o->lock);
}

bool trace_output_has_process(struct trace_output *o, uint32_t pid)
{
	bool has;

	pthread_mutex_lock(&o->lock);
	has = gs_ingest_has_process(o->feed, pid);
	pthread_mutex_unlock(&o->lock);
	return has;
}

void trace_output_records(struct trace_output *o, const void *data, size_t bytes)
{
	pthread_mutex_lock(&o->lock);
	gs_ingest_records(o->feed, &(struct gs_batch){data, bytes});
	pthread_mutex_unlock(&o->lock);
}

void trace_output_gpu_work(struct trace_output *o, uint32_t pid, const struct gs_kineto_work *work)
{
	struct gs_rec_gpu_window window = {.what = GS_GPU_WINDOW_OPENED, .time_ns = work->from_ns};

	pthread_mutex_lock(&o->lock);
	gs_ingest_gpu_window(o->feed, pid, &window, "");
	for (uint32_t i = 0; i < work->n_names; i++)
		gs_ingest_gpu_name(o->feed, pid, i + 1, work->names[i]);
	for (uint32_t i = 0; i < work->n_rows; i++)
		gs_ingest_gpu_work(o->feed, pid, work->rows[i].name, &work->rows[i].work);
	window.what = GS_GPU_WINDOW_CLOSED;
	window.time_ns = work->to_ns;
	window.dropped = work->n_left_out;
	gs_ingest_gpu_window(o->feed, pid, &window, "");
	pthread_mutex_unlock(&o->lock);
}

void trace_output_python(struct trace_output *o, pid_t pid)
{
	trace_source_note(o->source, pid);
}

void trace_output_map(struct trace_output *o, pid_t pid, uint64_t mono_ns,
		      const struct gs_mapping *mapping)
{
	pthread_mutex_lock(&o->lock);
	gs_ingest_map(o->feed, (uint32_t)pid, mono_ns, mapping);
	pthread_mutex_unlock(&o->lock);
}

static void put_cost(struct trace_output *o)
{
	double mean;

	if (!o->budget)
		return;
	gs_ingest_counter(o->feed, GS_COUNTER_COST, (int64_t)(trace_budget_ratio(o->budget) * 1e6));
	mean = trace_budget_mean_ratio(o->budget);
	if (mean >= 0)
		gs_ingest_counter(o->feed, GS_COUNTER_MEAN, (int64_t)(mean * 1e6));
}

void trace_output_set_budget(struct trace_output *o, struct trace_budget *budget)
{
	o->budget = budget;
	if (!budget)
		return;
	gs_ingest_counter(o->feed, GS_COUNTER_CALL, (int64_t)trace_budget_call_cost_ns(budget));
	gs_ingest_counter(o->feed, GS_COUNTER_STEP, (int64_t)trace_budget_step_ns(budget));
	gs_ingest_counter(o->feed, GS_COUNTER_COST, 0);
}

void trace_output_set_inside(struct trace_output *o, struct gs_inside *inside)
{
	o->inside = inside;
	if (inside)
		gs_inside_set_feed(inside, o->feed);
}

/* Is the event of a call that its process reports itself, or that is handed over later? */
static bool is_of_inside(struct trace_output *o, const struct gs_event *event)
{
	switch (event->kind) {
	case GS_EV_CALL: {
		const struct gs_event_call *e = (const void *)event;

		return gs_inside_covers(o->inside, e->pid, e->func) || gs_inside_call(o->inside, e);
	}
	case GS_EV_COMM: {
		const struct gs_event_comm *e = (const void *)event;

		return gs_inside_covers(o->inside, e->pid, e->func);
	}
	case GS_EV_KERNEL: {
		const struct gs_event_kernel *e = (const void *)event;

		return gs_inside_covers(o->inside, e->pid, e->func);
	}
	case GS_EV_MARK: {
		const struct gs_event_mark *e = (const void *)event;

		return gs_inside_covers(o->inside, e->pid, e->func);
	}
	}
	return false;
}

static void on_event(void *ctx, const struct gs_event *event)
{
	struct trace_output *o = ctx;

	trace_budget_event(o->budget, event);
	gs_hang_watch_event(o->hang, event);
	if (o->inside && event->kind == GS_EV_TASK)
		gs_inside_task(o->inside, (const void *)event);
	else if (!o->inside || !is_of_inside(o, event))
		gs_ingest_event(o->feed, event);
}

/* Calls without a time: every other one is in the histogram, whose numbers wrap. */
static uint32_t untimed_of(const struct gs_cell *cell)
{
	uint32_t n = (uint32_t)cell->calls;

	for (unsigned i = 0; i < GS_HIST_N_BUCKETS; i++)
		n -= cell->hist[i];
	return n;
}

static void on_cell(void *ctx, const struct gs_thread *thread, const struct gs_cell *before,
		    const struct gs_cell *now)
{
	struct trace_output *o = ctx;

	if (!gs_inside_covers(o->inside, thread->pid, now->func))
		gs_ingest_cell(o->feed, thread, before, now);
	else if (now->func >= GS_FUNC_MAX)
		o->untimed.timed_inside += (int32_t)(untimed_of(now) - untimed_of(before));
}

static void on_mpi(void *ctx, const struct gs_mpi_row *before, const struct gs_mpi_row *now)
{
	gs_ingest_mpi(((struct trace_output *)ctx)->feed, before, now);
}

static void on_hits(void *ctx, const struct gs_thread *thread, const struct gs_hits *hits)
{
	trace_budget_hits(((struct trace_output *)ctx)->budget, thread, hits);
}

static void on_cpu(void *ctx, const struct gs_thread *thread, uint64_t cpu_ns)
{
	trace_budget_cpu(((struct trace_output *)ctx)->budget, thread, cpu_ns);
}

static void on_open_call(void *ctx, const struct gs_thread *thread, const struct gs_frame *frame,
			 unsigned depth, uint64_t now_mono_ns)
{
	struct trace_output *o = ctx;

	if (!gs_inside_covers(o->inside, thread->pid, frame->func))
		gs_ingest_open_call(o->feed, thread, frame, depth, now_mono_ns);
}

static void on_user_cell(void *ctx, const struct gs_user_sum *sum)
{
	struct trace_output *o = ctx;

	trace_budget_user(o->budget, sum);
	gs_ingest_user(o->feed, sum);
}

static void on_open_scope(void *ctx, const struct gs_thread *thread, unsigned depth,
			  uint64_t now_mono_ns)
{
	struct trace_output *o = ctx;

	if (!gs_inside_covers(o->inside, thread->pid, thread->scope[depth].func))
		gs_ingest_open_scope(o->feed, thread, depth, now_mono_ns);
}

static void on_account(void *ctx, const struct gs_account_reading *reading)
{
	struct trace_output *o = ctx;
	struct gs_account_reading now = *reading;

	gs_hang_watch_account(o->hang, reading);
	trace_stress_note(&o->stress, reading->pid, reading->ended);
	if (reading->ended)
		trace_keep_ask_ended(o->keep, reading);
	gs_inside_account(o->inside, &now);
	gs_ingest_account(o->feed, &now);
}

static struct gs_uprobe_handler handler_of(struct trace_output *o)
{
	return (struct gs_uprobe_handler){.event = on_event,
					  .cell = on_cell,
					  .hits = on_hits,
					  .cpu = on_cpu,
					  .open_call = on_open_call,
					  .mpi = on_mpi,
					  .user_cell = on_user_cell,
					  .open_scope = on_open_scope,
					  .account = on_account,
					  .ctx = o};
}

static void put_loss(void *ctx, unsigned layer, enum gs_loss cause, uint64_t count)
{
	struct trace_output *o = ctx;

	if (layer == GS_LAYER_PYTHON && cause == GS_LOSS_UNTIMED)
		o->untimed.counted += (int64_t)count;
	else
		gs_ingest_loss(o->feed, layer, cause, NULL, count);
}

/*
 * What the kernel side lost since the last report. A probe in an interpreter, which a process needs that is not seen from
 * inside, is hit in all processes that run this interpreter: of Python calls without a time those are none whose times come
 * from inside. The kernel side counts them in cells first. So those that it had counted as lost at the last report are in
 * the cells that have been read since; all are when it has stopped.
 */
static void report_losses(struct trace_output *o, const struct gs_uprobe *probe, bool is_last)
{
	int64_t counted = o->untimed.counted, more;

	gs_uprobe_report_losses(probe, &o->losses, put_loss, o);
	if (is_last)
		counted = o->untimed.counted;
	more = counted - o->untimed.timed_inside - o->untimed.reported;
	if (more <= 0)
		return;
	gs_ingest_loss(o->feed, GS_LAYER_PYTHON, GS_LOSS_UNTIMED, NULL, (uint64_t)more);
	o->untimed.reported += more;
}

static void note_progress(struct trace_output *o, const struct gs_uprobe *probe)
{
	uint64_t wait_ns, wall_ns;

	for (unsigned layer = 0; layer < GS_LAYER_COUNT; layer++)
		o->progress.calls[layer] = gs_aggregate_calls(o->view, layer);
	o->progress.lost = gs_aggregate_lost(o->view);
	o->progress.gpu_wait_ratio = -1;
	if (o->wants_gpu_wait && gs_uprobe_gpu_wait(probe, &wait_ns, &wall_ns) && wall_ns)
		o->progress.gpu_wait_ratio = (double)wait_ns / (double)wall_ns;
}

void trace_output_glance(struct trace_output *o, struct gs_uprobe *probe)
{
	struct gs_uprobe_handler h = handler_of(o);

	pthread_mutex_lock(&o->lock);
	gs_uprobe_poll(probe, &h);
	gs_uprobe_glance(probe, &h);
	trace_budget_tick(o->budget, probe);
	pthread_mutex_unlock(&o->lock);
}

static void show_findings(struct trace_output *o)
{
	const struct trace_options *options = o->options;

	if (o->findings && options->findings)
		gs_findings_show(o->findings, options->command ? stderr : stdout,
				 options->findings->format);
	else if (o->findings)
		gs_findings_report(o->findings, trace_keep_ask_finding, o->keep);
}

/* To the head alone: files have the calls themselves. What its spool has no room for is missed for a second. */
static void send_sums(struct trace_output *o, bool is_last)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf records = GS_BUF_INIT(1u << 20);

	if (!o->head)
		return;
	gs_hang_watch_put_sums(o->hang, is_last, &records);
	if (records.bytes)
		(void)trace_head_sink(o->head)->push(
			o->head, &(struct gs_batch){records.data, records.bytes});
}

bool trace_output_poll(struct trace_output *o, struct gs_uprobe *probe, bool harvest)
{
	struct gs_uprobe_handler h = handler_of(o);
	uint64_t now_ns;
	bool is_busy;

	pthread_mutex_lock(&o->lock);
	now_ns = gs_clock_boot_ns();
	gs_uprobe_poll(probe, &h);
	is_busy = gs_inside_poll(o->inside, harvest);
	if (harvest) {
		gs_uprobe_drain(probe, &h);
		trace_budget_tick(o->budget, probe);
		put_cost(o);
		trace_stress_tick(&o->stress, o->feed);
		report_losses(o, probe, false);
		gs_ingest_flush(o->feed);
		gs_hang_watch_tick(o->hang, probe);
		send_sums(o, false);
		note_progress(o, probe);
		show_findings(o);
		trace_keep_tick(o->keep, now_ns);
	}
	pthread_mutex_unlock(&o->lock);
	return is_busy;
}

int trace_output_end_findings(struct trace_output *o)
{
	const struct trace_options *options = o->options;

	return gs_cli_findings_end(o->findings, options->command ? stderr : stdout,
				   options->findings->format);
}

int trace_output_attaches(struct trace_output *o, pid_t pid, const char *path)
{
	int r;

	pthread_mutex_lock(&o->lock);
	r = gs_inside_attaches(o->inside, (uint32_t)pid, path);
	pthread_mutex_unlock(&o->lock);
	return r;
}

pid_t trace_output_next_late(struct trace_output *o, struct gs_inside_late *ret_late)
{
	pid_t pid;

	pthread_mutex_lock(&o->lock);
	pid = (pid_t)gs_inside_next_late(o->inside, ret_late);
	pthread_mutex_unlock(&o->lock);
	return pid;
}

void trace_output_expect_python(struct trace_output *o, pid_t pid)
{
	pthread_mutex_lock(&o->lock);
	gs_inside_expect_python(o->inside, (uint32_t)pid);
	pthread_mutex_unlock(&o->lock);
}

bool trace_output_sees_python(struct trace_output *o, pid_t pid)
{
	bool sees;

	pthread_mutex_lock(&o->lock);
	sees = gs_inside_sees_python(o->inside, (uint32_t)pid);
	pthread_mutex_unlock(&o->lock);
	return sees;
}

void trace_output_give_python_up(struct trace_output *o, pid_t pid)
{
	pthread_mutex_lock(&o->lock);
	gs_inside_give_python_up(o->inside, (uint32_t)pid);
	pthread_mutex_unlock(&o->lock);
}

void trace_output_exec(struct trace_output *o, pid_t pid, uint64_t mono_ns)
{
	pthread_mutex_lock(&o->lock);
	gs_inside_exec(o->inside, (uint32_t)pid, mono_ns);
	pthread_mutex_unlock(&o->lock);
}

void trace_output_stop(struct trace_output *o, struct gs_uprobe *probe)
{
	struct gs_uprobe_handler h = handler_of(o);

	pthread_mutex_lock(&o->lock);
	gs_inside_poll(o->inside, true); /* accounts ask for the time in calls */
	gs_uprobe_stop(probe, &h);
	gs_inside_stop(o->inside);
	trace_layers_put(&o->layers, o->inside, o->feed);
	trace_budget_tick(o->budget, NULL);
	put_cost(o);
	report_losses(o, probe, true);
	if (gs_correlate_untracked(o->span))
		gs_ingest_loss(o->feed, GS_LAYER_NONE, GS_LOSS_BLOCKS, NULL,
			       gs_correlate_untracked(o->span));
	gs_ingest_flush(o->feed);
	gs_hang_watch_stop(o->hang);
	send_sums(o, true);
	pthread_mutex_unlock(&o->lock);
}

bool trace_output_next_hang(struct trace_output *o, struct gs_hang_found *ret_found)
{
	bool found;

	pthread_mutex_lock(&o->lock);
	found = gs_hang_watch_next(o->hang, ret_found);
	pthread_mutex_unlock(&o->lock);
	return found;
}

void trace_output_hang(struct trace_output *o, const struct gs_hang_found *found,
		       const struct gs_hang_watch_stacks *stacks, size_t n_stacks)
{
	pthread_mutex_lock(&o->lock);
	gs_hang_watch_record(o->feed, found, stacks, n_stacks);
	pthread_mutex_unlock(&o->lock);
}

void trace_output_ask_keep(struct trace_output *o, enum trace_keep_on on, const char *why)
{
	pthread_mutex_lock(&o->lock);
	trace_keep_ask(o->keep, on, why);
	pthread_mutex_unlock(&o->lock);
}

void trace_output_ask_keep_signal(struct trace_output *o, const struct signalfd_siginfo *signal)
{
	pthread_mutex_lock(&o->lock);
	trace_keep_ask_signal(o->keep, signal);
	pthread_mutex_unlock(&o->lock);
}

struct trace_keep_copy *trace_output_take_keep(struct trace_output *o)
{
	struct trace_keep_copy *copy;

	pthread_mutex_lock(&o->lock);
	copy = trace_keep_take(o->keep);
	pthread_mutex_unlock(&o->lock);
	return copy;
}

void trace_output_want_gpu_wait(struct trace_output *o)
{
	o->wants_gpu_wait = true;
}

void trace_output_progress(struct trace_output *o, struct trace_progress *ret_progress)
{
	pthread_mutex_lock(&o->lock);
	*ret_progress = o->progress;
	pthread_mutex_unlock(&o->lock);
}
