/* Turns events of the kernel side into records, and passes these to totals, findings, files and the queue of items. */
#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "library/gpuscope/live_int.h"
#include "output/hang_watch/hang_watch.h"
#include "pipeline/correlate/correlate.h"
#include "pipeline/ingest/ingest.h"
#include "pipeline/recording/recording.h"
#include "sources/identity/identity.h"

static int push_findings(void *ctx, const struct gs_batch *batch)
{
	return gs_findings_push(((struct live_output *)ctx)->findings, batch);
}

static int push_queue(void *ctx, const struct gs_batch *batch)
{
	return record_queue_push(((struct live_output *)ctx)->queue, batch);
}

/* Adds the sinks. Totals come first, because findings follow their steps. */
static int add_sinks(struct live_output *o, const struct gs_trace_options *options,
		     struct gs_err *err)
{
	const struct gs_sink findings = {.push = push_findings, .ctx = o};
	const struct gs_sink items = {.push = push_queue, .ctx = o};
	int r = gs_ingest_add_sink(o->feed, "summary", gs_aggregate_sink(o->view));

	if (r == 0)
		r = gs_ingest_add_sink(o->feed, "findings", &findings);
	if (r == 0)
		r = output_files_open(&o->files, options->outputs, options->n_outputs, true, false,
				      o->view, err);
	for (size_t i = 0; r == 0 && i < o->files.n; i++)
		r = gs_ingest_add_sink(o->feed, o->files.at[i].path,
				       output_file_sink(&o->files.at[i]));
	if (r == 0)
		r = gs_ingest_add_sink(o->feed, "items", &items);
	return r;
}

int live_output_init(struct live_output *o, const struct gs_trace_options *options,
		     const struct live_plan *plan, const struct gs_func_set *funcs,
		     const char *attach_mode, struct gs_err *err)
{
	struct gs_ingest_options fo = {
		.size = sizeof(fo),
		.mode = options->flags & GS_TRACE_SUMMARY_ONLY ? GS_SESSION_SUMMARY
							       : GS_SESSION_EVENTS,
		.command = plan->target,
		.attach_mode = attach_mode,
		.users = plan->users,
		.boot_minus_mono_ns = gs_clock_boot_minus_mono_ns(),
		.funcs = funcs,
	};
	int r;

	o->boot_minus_mono_ns = fo.boot_minus_mono_ns;
	r = record_queue_new(options->queue_items, &o->queue);
	if (r < 0)
		return r;
	if (options->flags & GS_TRACE_NO_ITEMS)
		record_queue_discard(o->queue);
	fo.place = o->place = gs_identity_new("/proc");
	r = o->place ? gs_ingest_new(&fo, &o->feed) : -ENOMEM;
	if (r == 0)
		r = gs_aggregate_new(&o->view);
	if (r == 0)
		r = gs_findings_new(o->view, &o->findings);
	if (r == 0 && options->hang_after_ns) {
		o->hangs = gs_hang_watch_new(options->hang_after_ns, false, o->view,
					     fo.boot_minus_mono_ns);
		r = o->hangs ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = add_sinks(o, options, err);
	if (r == 0)
		r = gs_correlate_new(gs_ingest_outlet(o->feed), &o->span);
	if (r == 0)
		gs_ingest_set_stage(o->feed, gs_correlate_sink(o->span));
	return r;
}

void live_output_fini(struct live_output *o)
{
	output_files_abandon(&o->files);
	gs_ingest_free(&o->feed);
	gs_correlate_free(&o->span);
	gs_findings_free(&o->findings);
	gs_hang_watch_free(&o->hangs);
	gs_aggregate_free(&o->view);
	gs_identity_free(&o->place);
	record_queue_free(&o->queue);
}

/* --- news of attaching --- */

void live_output_attach(struct live_output *o, const struct gs_attach *attach)
{
	pthread_mutex_lock(&o->lock);
	gs_ingest_attach(o->feed, attach);
	pthread_mutex_unlock(&o->lock);
}

void live_output_loss(struct live_output *o, enum gs_loss cause, const char *detail, uint64_t count)
{
	pthread_mutex_lock(&o->lock);
	gs_ingest_loss(o->feed, GS_LAYER_NONE, cause, detail, count);
	pthread_mutex_unlock(&o->lock);
}

void live_output_process(struct live_output *o, pid_t pid)
{
	pthread_mutex_lock(&o->lock);
	gs_identity_refresh(o->place, (uint32_t)pid);
	gs_identity_process(o->place, (uint32_t)pid);
	pthread_mutex_unlock(&o->lock);
}

void live_output_refused(struct live_output *o, struct gs_guard *guard)
{
	for (unsigned cause = 1; cause < GS_REFUSED_COUNT; cause++) {
		uint64_t n = gs_guard_refused(guard, cause, NULL, 0);

		if (n)
			live_output_loss(o, GS_LOSS_REFUSED, gs_refused_words(cause), n);
	}
}

/* --- what the kernel side saw --- */

static struct gs_ingest *feed_of(void *ctx)
{
	return ((struct live_output *)ctx)->feed;
}

static void on_event(void *ctx, const struct gs_event *event)
{
	gs_hang_watch_event(((struct live_output *)ctx)->hangs, event);
	gs_ingest_event(feed_of(ctx), event);
}

static void on_cell(void *ctx, const struct gs_thread *thread, const struct gs_cell *before,
		    const struct gs_cell *now)
{
	gs_ingest_cell(feed_of(ctx), thread, before, now);
}

static void on_open_call(void *ctx, const struct gs_thread *thread, const struct gs_frame *frame,
			 unsigned depth, uint64_t now_mono_ns)
{
	gs_ingest_open_call(feed_of(ctx), thread, frame, depth, now_mono_ns);
}

static void on_user_cell(void *ctx, const struct gs_user_sum *sum)
{
	gs_ingest_user(feed_of(ctx), sum);
}

static void on_mpi(void *ctx, const struct gs_mpi_row *before, const struct gs_mpi_row *now)
{
	gs_ingest_mpi(feed_of(ctx), before, now);
}

static void on_open_scope(void *ctx, const struct gs_thread *thread, unsigned depth,
			  uint64_t now_mono_ns)
{
	gs_ingest_open_scope(feed_of(ctx), thread, depth, now_mono_ns);
}

static void on_account(void *ctx, const struct gs_account_reading *reading)
{
	gs_hang_watch_account(((struct live_output *)ctx)->hangs, reading);
	gs_ingest_account(feed_of(ctx), reading);
}

static struct gs_uprobe_handler handler_of(struct live_output *o)
{
	return (struct gs_uprobe_handler){.event = on_event,
					  .cell = on_cell,
					  .open_call = on_open_call,
					  .user_cell = on_user_cell,
					  .mpi = on_mpi,
					  .open_scope = on_open_scope,
					  .account = on_account,
					  .ctx = o};
}

static void put_loss(void *ctx, unsigned layer, enum gs_loss cause, uint64_t count)
{
	gs_ingest_loss(feed_of(ctx), layer, cause, NULL, count);
}

void live_output_poll(struct live_output *o, struct gs_uprobe *probe, bool drain)
{
	struct gs_uprobe_handler h = handler_of(o);
	int n;

	pthread_mutex_lock(&o->lock);
	n = gs_uprobe_poll(probe, &h);
	if (drain) {
		gs_uprobe_drain(probe, &h);
		gs_uprobe_report_losses(probe, &o->losses, put_loss, o);
		/* The calls that are looked at are those that were handed on. */
		gs_ingest_flush(o->feed);
		gs_hang_watch_tick(o->hangs, probe);
		/* Without stacks of ranks, which take helper processes to read. */
		gs_hang_watch_record_all(o->hangs, o->feed);
	}
	/* A caller waits for what has come. */
	if (n > 0 || drain)
		gs_ingest_flush(o->feed);
	pthread_mutex_unlock(&o->lock);
}

int live_output_end(struct live_output *o, struct gs_uprobe *probe, int exit_status,
		    const char *reason, struct gs_err *err)
{
	struct gs_uprobe_handler h = handler_of(o);
	const char *name = NULL;
	int r, closed;

	pthread_mutex_lock(&o->lock);
	gs_uprobe_stop(probe, &h);
	gs_uprobe_report_losses(probe, &o->losses, put_loss, o);
	if (gs_correlate_untracked(o->span))
		gs_ingest_loss(o->feed, GS_LAYER_NONE, GS_LOSS_BLOCKS, NULL,
			       gs_correlate_untracked(o->span));
	gs_ingest_flush(o->feed);
	gs_hang_watch_stop(o->hangs);
	gs_hang_watch_record_all(o->hangs, o->feed);
	gs_ingest_end(o->feed, exit_status, reason);
	r = gs_ingest_sink_error(o->feed, &name);
	if (r < 0)
		gs_err_set(err, r, "stopped writing %s: %s", name, strerror(-r));
	closed = output_files_close(&o->files, r < 0 ? NULL : err);
	o->ended = true;
	pthread_mutex_unlock(&o->lock);
	record_queue_end(o->queue);
	return r < 0 ? r : closed;
}
