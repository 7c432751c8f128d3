/*
 * The summary as a tree of maps, lists and plain values: which keys there are, in which order, and
 * what is unknown. JSON and YAML spell this one tree, so they cannot differ. doc/summary.md describes
 * every key; a test compares it with what is written here.
 *
 * What is not known is null. Handles are texts in hex: a 64-bit number does not survive readers
 * that keep numbers as doubles.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "output/report/summary_account.h"
#include "output/report/summary_arrival.h"
#include "output/report/summary_int.h"
#include "output/gpu_report/hangs.h"
#include "output/report/summary_mpi.h"
#include "output/report/summary_probed.h"
#include "output/report/summary_python.h"
#include "output/report/summary_step.h"
#include "output/report/summary_kernel.h"
#include "output/gpu_report/memory.h"
#include "output/gpu_report/gpus.h"
#include "output/gpu_report/gpu_time.h"
#include "output/gpu_report/nccl.h"
#include "output/gpu_report/streams.h"
#include "model/trace/func.h"
#include "model/trace/hist.h"
#include "model/trace/record.h"

static void put_handle(struct gs_doc *doc, const char *key, uint64_t handle)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)handle);
	gs_doc_put_text(doc, key, handle ? text : NULL);
}

static void put_functions(struct gs_doc *doc, const struct gs_function_list *list)
{
	gs_doc_begin_list(doc, "functions", list->n);
	for (size_t i = 0; i < list->n; i++) {
		const struct gs_function_stats *f = &list->items[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "layer", gs_layer_name(f->layer));
		gs_doc_put_text(doc, "name", f->name);
		gs_doc_put_text(doc, "class", gs_class_name(f->func_class));
		gs_doc_put_u64(doc, "calls", f->calls);
		gs_doc_put_u64(doc, "errors", f->errors);
		gs_doc_put_u64_if(doc, "total_ns", f->total_ns, f->n_timed || !f->calls);
		gs_doc_put_u64_if(doc, "mean_ns", f->mean_ns, f->n_timed);
		gs_doc_put_u64_if(doc, "p50_ns", f->p50_ns, f->n_timed);
		gs_doc_put_u64_if(doc, "p95_ns", f->p95_ns, f->n_timed);
		gs_doc_put_u64_if(doc, "p99_ns", f->p99_ns, f->n_timed);
		gs_doc_put_u64_if(doc, "max_ns", f->max_ns, f->n_timed);
		gs_doc_put_u64(doc, "bytes", f->bytes);
		gs_doc_put_u64(doc, "inner_calls", f->inner);
		gs_doc_put_bool(doc, "single_stepped", f->stepped);
		gs_doc_put_bool(doc, "partial", f->partial);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_processes(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "processes", s->n_processes);
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_process_summary *p = &s->processes[i];

		gs_doc_begin_map(doc, NULL);
		gs_doc_put_u64(doc, "pid", p->pid);
		gs_doc_put_u64_if(doc, "ns_pid", p->ns_pid, p->ns_pid);
		gs_doc_put_u64_if(doc, "parent_pid", p->parent_pid, p->parent_pid);
		/* A process that ended unread has no ids of its own known. */
		gs_doc_put_u64_if(doc, "uid", p->uid, p->ns_pid);
		gs_doc_put_text(doc, "comm", p->comm);
		gs_doc_put_text(doc, "exe", p->exe);
		gs_doc_put_text(doc, "command", p->cmdline);
		gs_doc_put_text(doc, "container", p->container);
		put_functions(doc, &p->functions);
		gs_doc_begin_list(doc, "threads", p->n_threads);
		for (size_t j = 0; j < p->n_threads; j++) {
			gs_doc_begin_map(doc, NULL);
			gs_doc_put_u64(doc, "tid", p->threads[j].tid);
			gs_doc_put_text(doc, "comm", p->threads[j].comm);
			put_functions(doc, &p->threads[j].functions);
			gs_doc_end(doc);
		}
		gs_doc_end(doc);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_uses(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "by_operator", s->n_uses);
	for (size_t i = 0; i < s->n_uses; i++) {
		const struct gs_use_summary *u = &s->uses[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "layer", gs_layer_name(u->layer));
		gs_doc_put_text(doc, "name", u->name);
		gs_doc_put_u64(doc, "launches", u->launches);
		gs_doc_put_u64(doc, "copies", u->copies);
		gs_doc_put_u64(doc, "allocs", u->allocs);
		gs_doc_put_u64(doc, "collectives", u->collectives);
		gs_doc_put_u64(doc, "other_calls", u->others);
		gs_doc_put_u64(doc, "total_ns", u->total_ns);
		gs_doc_put_u64(doc, "bytes", u->bytes);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_errors(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "errors", s->n_errors);
	for (size_t i = 0; i < s->n_errors; i++) {
		const struct gs_error_count *e = &s->errors[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "layer", gs_layer_name(e->layer));
		gs_doc_put_text(doc, "function", e->function);
		gs_doc_put_i64_if(doc, "code", e->code, e->code);
		gs_doc_put_text(doc, "name", e->name);
		gs_doc_put_u64(doc, "count", e->count);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_open_calls(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "open_calls", s->n_open_calls);
	for (size_t i = 0; i < s->n_open_calls; i++) {
		const struct gs_open_call *c = &s->open_calls[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_u64(doc, "pid", c->pid);
		gs_doc_put_u64(doc, "tid", c->tid);
		gs_doc_put_text(doc, "comm", c->comm);
		gs_doc_put_text(doc, "layer", gs_layer_name(c->layer));
		gs_doc_put_text(doc, "function", c->function);
		gs_doc_put_u64(doc, "age_ns", c->age_ns);
		gs_doc_put_u64(doc, "depth", c->depth);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_comms(struct gs_doc *doc, const struct gs_summary *s)
{
	bool counted = s->mode == GS_SESSION_EVENTS;

	gs_doc_begin_list(doc, "communicators", s->n_comms);
	for (size_t i = 0; i < s->n_comms; i++) {
		const struct gs_comm_summary *c = &s->comms[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_u64(doc, "pid", c->pid);
		put_handle(doc, "handle", c->comm);
		put_handle(doc, "id_hash", c->id_hash);
		put_handle(doc, "parent", c->parent);
		gs_doc_put_i64_if(doc, "color", c->color, summary_is_split(c));
		gs_doc_put_i64_if(doc, "key", c->key, summary_is_split(c));
		gs_doc_put_i64_if(doc, "rank", c->rank, c->rank >= 0);
		gs_doc_put_i64_if(doc, "ranks", c->n_ranks, c->n_ranks >= 0);
		gs_doc_put_text(doc, "origin", c->origin);
		gs_doc_put_u64_if(doc, "calls", c->calls, counted);
		gs_doc_put_u64_if(doc, "bytes", c->bytes, counted);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_python(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "python_lines", s->n_python_lines);
	for (size_t i = 0; i < s->n_python_lines; i++) {
		const struct gs_line_stats *l = &s->python_lines[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "file", l->file);
		gs_doc_put_u64_if(doc, "line", l->line, l->line);
		gs_doc_put_text(doc, "function", l->function);
		if (l->source)
			gs_doc_put_text(doc, "source", l->source);
		gs_doc_put_u64(doc, "samples", l->samples);
		gs_doc_put_u64(doc, "sample_ns", l->sample_ns);
		gs_doc_put_u64(doc, "total_samples", l->total_samples);
		gs_doc_put_u64(doc, "total_ns", l->total_ns);
		gs_doc_put_u64(doc, "calls", l->calls);
		gs_doc_put_u64(doc, "slow_operators", l->slow_ops);
		gs_doc_put_u64(doc, "operator_ns", l->op_ns);
		gs_doc_put_u64(doc, "launches", l->launches);
		gs_doc_put_u64(doc, "collectives", l->collectives);
		gs_doc_put_u64(doc, "copies", l->copies);
		gs_doc_put_u64(doc, "allocs", l->allocs);
		gs_doc_put_u64(doc, "bytes", l->bytes);
		gs_doc_put_u64(doc, "call_ns", l->call_ns);
		gs_doc_put_u64(doc, "wait_ns", l->wait_ns);
		gs_doc_put_u64(doc, "total_wait_ns", l->total_wait_ns);
		gs_doc_put_u64_if(doc, "wall_ns", l->wall_ns, l->wall_ns);
		if (l->wait_ns)
			gs_doc_begin_flat(doc, "waits");
		for (unsigned cause = 0; cause < GS_WAIT_COUNT; cause++)
			if (l->wait_by_cause_ns[cause])
				gs_doc_put_u64(doc, gs_account_wait_name(cause),
					       l->wait_by_cause_ns[cause]);
		if (l->wait_ns)
			gs_doc_end(doc);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_put_u64_if(doc, "python_bare_samples", s->python_bare_samples, s->has_python);
	gs_doc_put_u64_if(doc, "python_bare_wait_ns", s->python_bare_wait_ns, s->has_python);
	gs_doc_put_u64_if(doc, "python_many_wait_ns", s->python_many_wait_ns, s->has_python);
}

static void put_attach(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "attached", s->n_attached);
	for (size_t i = 0; i < s->n_attached; i++) {
		const struct gs_attach_status *a = &s->attached[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "path", a->path);
		gs_doc_put_u64(doc, "probes", a->n_probes);
		gs_doc_put_u64(doc, "probes_moved", a->n_moved);
		gs_doc_put_u64(doc, "probes_stepped", a->n_stepped);
		gs_doc_put_text(doc, "remark", a->reason);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "attach_failures", s->n_attach_failures);
	for (size_t i = 0; i < s->n_attach_failures; i++) {
		const struct gs_attach_status *a = &s->attach_failures[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "path", a->path);
		gs_doc_put_text(doc, "function", a->function);
		gs_doc_put_text(doc, "reason", a->reason);
		gs_doc_put_i64_if(doc, "errno", -(int64_t)a->status, a->status < 0);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

/* Sums by layer and cause; the last row and column take numbers that only a newer writer knows. */
static void put_lost(struct gs_doc *doc, const struct gs_summary *s)
{
	uint64_t sum[GS_LAYER_COUNT + 1][GS_LOSS_COUNT + 1] = {0};
	bool seen[GS_LAYER_COUNT + 1][GS_LOSS_COUNT + 1] = {0};
	bool any[GS_LAYER_COUNT + 1] = {0};
	size_t n_details = 0;

	for (size_t i = 0; i < s->n_lost; i++) {
		const struct gs_lost_count *l = &s->lost[i];
		unsigned layer = l->layer < GS_LAYER_COUNT ? l->layer : GS_LAYER_COUNT;
		unsigned cause = l->cause < GS_LOSS_COUNT ? l->cause : GS_LOSS_COUNT;

		any[layer] = seen[layer][cause] = true;
		sum[layer][cause] += l->count;
		n_details += *gs_report_text_of(l->detail) != '\0';
	}
	doc->ops->begin(doc, "lost", false, s->n_lost == 0, false);
	for (unsigned i = 0; i <= GS_LAYER_COUNT; i++) {
		if (!any[i])
			continue;
		gs_doc_begin_map(doc, gs_layer_name(i));
		for (unsigned j = 0; j <= GS_LOSS_COUNT; j++)
			if (seen[i][j])
				gs_doc_put_u64(doc, gs_loss_name(j), sum[i][j]);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "lost_details", n_details);
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct gs_lost_count *l = &s->lost[i];

		if (!*gs_report_text_of(l->detail))
			continue;
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "layer", gs_layer_name(l->layer));
		gs_doc_put_text(doc, "cause", gs_loss_name(l->cause));
		gs_doc_put_text(doc, "detail", l->detail);
		gs_doc_put_u64(doc, "count", l->count);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_native(struct gs_doc *doc, const struct gs_native_count *n)
{
	gs_doc_begin_map(doc, "native_stacks");
	gs_doc_put_u64(doc, "taken", n->taken);
	gs_doc_put_u64(doc, "different", n->different);
	gs_doc_put_u64(doc, "cut_short", n->cut);
	gs_doc_put_u64(doc, "places_without_name", n->unnamed);
	gs_doc_end(doc);
}

void gs_report_summary_doc(struct gs_doc *doc, const struct gs_summary *s,
			   const struct gs_report_summary_style *style)
{
	const char *mode = s->mode == GS_SESSION_EVENTS    ? "events"
			   : s->mode == GS_SESSION_SUMMARY ? "summary"
			   : s->mode == GS_SESSION_SAMPLES ? "samples"
							   : NULL;

	gs_doc_begin_map(doc, NULL);
	gs_doc_put_version(doc);
	gs_doc_put_text(doc, "command", s->command);
	gs_doc_put_text(doc, "host", s->host);
	gs_doc_put_text(doc, "kernel", s->kernel);
	gs_doc_put_text(doc, "attach_mode", s->attach_mode);
	gs_doc_put_text(doc, "mode", mode);
	gs_doc_put_u64_if(doc, "tracing_cost_ppm", s->cost_ppm, s->cost_known);
	gs_doc_put_u64_if(doc, "tracing_cost_worst_ppm", s->cost_worst_ppm, s->cost_known);
	gs_doc_put_u64_if(doc, "tracing_call_cost_ns", s->call_cost_ns, s->call_cost_ns);
	gs_doc_put_time(doc, "start_time", s->start_wall_ns);
	gs_doc_put_u64(doc, "duration_ns", s->duration_ns);
	gs_doc_put_text(doc, "end_reason", s->end_reason);
	gs_doc_put_i64_if(doc, "exit_status", s->exit_status, s->exit_status >= 0);
	gs_doc_put_bool(doc, "complete", s->complete);
	gs_doc_put_tenths(doc, "percentile_error_pct", (unsigned)(GS_HIST_ERROR_PCT * 10 + 0.5));
	gs_report_summary_verdict_doc(doc, s);
	gs_report_summary_account_doc(doc, s);
	gs_report_summary_step_doc(doc, s);
	put_functions(doc, &s->functions);
	put_processes(doc, s);
	put_uses(doc, s);
	put_errors(doc, s);
	put_open_calls(doc, s);
	gs_report_hangs_doc(doc, s);
	put_comms(doc, s);
	gs_report_summary_arrival_doc(doc, s);
	gs_report_summary_mpi_doc(doc, s);
	gs_report_streams_doc(doc, s);
	gs_report_memory_doc(doc, s);
	gs_report_gpus_doc(doc, s);
	gs_report_gpu_time_doc(doc, s);
	gs_report_nccl_doc(doc, s);
	gs_report_summary_kernel_doc(doc, s);
	gs_report_summary_probed_doc(doc, s);
	gs_report_summary_python_doc(doc, s);
	put_python(doc, s);
	put_attach(doc, s);
	put_native(doc, &s->native);
	put_lost(doc, s);
	if (style->put_more)
		style->put_more(style->more_ctx, doc);
	gs_doc_end(doc);
}
