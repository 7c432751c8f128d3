/*
 * The summary as a tree of maps, lists and plain values: which keys there are, in which order, and
 * what is unknown. JSON and YAML spell this one tree, so they cannot differ. doc/summary.md tells
 * every key; a test compares it with what is written here.
 *
 * What is not known is null. Handles are texts in hex: a 64-bit number does not survive readers
 * that keep numbers as doubles.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "export/summary_int.h"
#include "model/func.h"
#include "model/hist.h"
#include "model/record.h"

static void begin_map(struct gs_doc *doc, const char *key)
{
	doc->ops->begin(doc, key, false, false, false);
}

/* A map of plain values in a list. */
static void begin_flat(struct gs_doc *doc)
{
	doc->ops->begin(doc, NULL, false, false, true);
}

static void begin_list(struct gs_doc *doc, const char *key, size_t n)
{
	doc->ops->begin(doc, key, true, n == 0, false);
}

static void end(struct gs_doc *doc)
{
	doc->ops->end(doc);
	gs_pen_yield(doc->pen);
}

static void put_null(struct gs_doc *doc, const char *key)
{
	doc->ops->key(doc, key);
	gs_pen_puts(doc->pen, "null");
}

static void put_u64(struct gs_doc *doc, const char *key, uint64_t v)
{
	doc->ops->key(doc, key);
	gs_pen_printf(doc->pen, "%llu", (unsigned long long)v);
}

static void put_u64_if(struct gs_doc *doc, const char *key, uint64_t v, bool known)
{
	if (known)
		put_u64(doc, key, v);
	else
		put_null(doc, key);
}

static void put_i64_if(struct gs_doc *doc, const char *key, int64_t v, bool known)
{
	if (!known) {
		put_null(doc, key);
		return;
	}
	doc->ops->key(doc, key);
	gs_pen_printf(doc->pen, "%lld", (long long)v);
}

/* Tenths: a printed double would take the decimal sign of the user's language. */
static void put_tenths(struct gs_doc *doc, const char *key, unsigned tenths)
{
	doc->ops->key(doc, key);
	gs_pen_printf(doc->pen, "%u.%u", tenths / 10, tenths % 10);
}

static void put_bool(struct gs_doc *doc, const char *key, bool v)
{
	doc->ops->key(doc, key);
	gs_pen_puts(doc->pen, v ? "true" : "false");
}

/* The empty text is an unknown one. */
static void put_text(struct gs_doc *doc, const char *key, const char *text)
{
	if (!text || !*text) {
		put_null(doc, key);
		return;
	}
	doc->ops->key(doc, key);
	gs_pen_check(doc->pen, doc->ops->text(&doc->pen->buf, text));
}

static void put_handle(struct gs_doc *doc, const char *key, uint64_t handle)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)handle);
	put_text(doc, key, handle ? text : NULL);
}

/* RFC 3339 in UTC, with all of its nanoseconds. */
static void put_time(struct gs_doc *doc, const char *key, int64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / 1000000000);
	char date[32] = "", text[64];
	struct tm tm;

	if (wall_ns <= 0 || !gmtime_r(&seconds, &tm) ||
	    !strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm)) {
		put_null(doc, key);
		return;
	}
	snprintf(text, sizeof(text), "%s.%09uZ", date, (unsigned)(wall_ns % 1000000000));
	put_text(doc, key, text);
}

static void put_functions(struct gs_doc *doc, const struct gs_function_list *list)
{
	begin_list(doc, "functions", list->n);
	for (size_t i = 0; i < list->n; i++) {
		const struct gs_function_stats *f = &list->items[i];

		begin_flat(doc);
		put_text(doc, "layer", gs_layer_name(f->layer));
		put_text(doc, "name", f->name);
		put_text(doc, "class", gs_class_name(f->func_class));
		put_u64(doc, "calls", f->calls);
		put_u64(doc, "errors", f->errors);
		put_u64(doc, "total_ns", f->total_ns);
		put_u64_if(doc, "mean_ns", f->mean_ns, f->calls);
		put_u64_if(doc, "p50_ns", f->p50_ns, f->calls);
		put_u64_if(doc, "p95_ns", f->p95_ns, f->calls);
		put_u64_if(doc, "p99_ns", f->p99_ns, f->calls);
		put_u64_if(doc, "max_ns", f->max_ns, f->calls);
		put_u64(doc, "bytes", f->bytes);
		put_u64(doc, "inner_calls", f->inner);
		end(doc);
	}
	end(doc);
}

static void put_processes(struct gs_doc *doc, const struct gs_summary *s)
{
	begin_list(doc, "processes", s->n_processes);
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_process_summary *p = &s->processes[i];

		begin_map(doc, NULL);
		put_u64(doc, "pid", p->pid);
		put_u64_if(doc, "ns_pid", p->ns_pid, p->ns_pid);
		put_u64_if(doc, "parent_pid", p->parent_pid, p->parent_pid);
		/* A process that ended unread has no ids of its own known. */
		put_u64_if(doc, "uid", p->uid, p->ns_pid);
		put_text(doc, "comm", p->comm);
		put_text(doc, "exe", p->exe);
		put_text(doc, "cmdline", p->cmdline);
		put_text(doc, "container", p->container);
		put_functions(doc, &p->functions);
		begin_list(doc, "threads", p->n_threads);
		for (size_t j = 0; j < p->n_threads; j++) {
			begin_map(doc, NULL);
			put_u64(doc, "tid", p->threads[j].tid);
			put_text(doc, "comm", p->threads[j].comm);
			put_functions(doc, &p->threads[j].functions);
			end(doc);
		}
		end(doc);
		end(doc);
	}
	end(doc);
}

static void put_uses(struct gs_doc *doc, const struct gs_summary *s)
{
	begin_list(doc, "by_operator", s->n_uses);
	for (size_t i = 0; i < s->n_uses; i++) {
		const struct gs_use_summary *u = &s->uses[i];

		begin_flat(doc);
		put_text(doc, "layer", gs_layer_name(u->layer));
		put_text(doc, "name", u->name);
		put_u64(doc, "launches", u->launches);
		put_u64(doc, "copies", u->copies);
		put_u64(doc, "allocs", u->allocs);
		put_u64(doc, "collectives", u->collectives);
		put_u64(doc, "other_calls", u->others);
		put_u64(doc, "total_ns", u->total_ns);
		put_u64(doc, "bytes", u->bytes);
		end(doc);
	}
	end(doc);
}

static void put_errors(struct gs_doc *doc, const struct gs_summary *s)
{
	begin_list(doc, "errors", s->n_errors);
	for (size_t i = 0; i < s->n_errors; i++) {
		const struct gs_error_count *e = &s->errors[i];

		begin_flat(doc);
		put_text(doc, "layer", gs_layer_name(e->layer));
		put_text(doc, "function", e->function);
		put_i64_if(doc, "code", e->code, e->code);
		put_text(doc, "name", e->name);
		put_u64(doc, "count", e->count);
		end(doc);
	}
	end(doc);
}

static void put_open_calls(struct gs_doc *doc, const struct gs_summary *s)
{
	begin_list(doc, "open_calls", s->n_open_calls);
	for (size_t i = 0; i < s->n_open_calls; i++) {
		const struct gs_open_call *c = &s->open_calls[i];

		begin_flat(doc);
		put_u64(doc, "pid", c->pid);
		put_u64(doc, "tid", c->tid);
		put_text(doc, "comm", c->comm);
		put_text(doc, "layer", gs_layer_name(c->layer));
		put_text(doc, "function", c->function);
		put_u64(doc, "age_ns", c->age_ns);
		put_u64(doc, "depth", c->depth);
		end(doc);
	}
	end(doc);
}

static void put_comms(struct gs_doc *doc, const struct gs_summary *s)
{
	bool counted = s->mode == GS_SESSION_EVENTS;

	begin_list(doc, "communicators", s->n_comms);
	for (size_t i = 0; i < s->n_comms; i++) {
		const struct gs_comm_summary *c = &s->comms[i];

		begin_flat(doc);
		put_u64(doc, "pid", c->pid);
		put_handle(doc, "handle", c->comm);
		put_handle(doc, "id_hash", c->id_hash);
		put_handle(doc, "parent", c->parent);
		put_i64_if(doc, "rank", c->rank, c->rank >= 0);
		put_i64_if(doc, "ranks", c->n_ranks, c->n_ranks >= 0);
		put_text(doc, "origin", c->origin);
		put_u64_if(doc, "calls", c->calls, counted);
		put_u64_if(doc, "bytes", c->bytes, counted);
		end(doc);
	}
	end(doc);
}

static void put_attach(struct gs_doc *doc, const struct gs_summary *s)
{
	begin_list(doc, "attached", s->n_attached);
	for (size_t i = 0; i < s->n_attached; i++) {
		const struct gs_attach_status *a = &s->attached[i];

		begin_flat(doc);
		put_text(doc, "path", a->path);
		put_u64(doc, "probes", a->n_probes);
		put_u64(doc, "probes_moved", a->n_moved);
		put_u64(doc, "probes_stepped", a->n_stepped);
		put_text(doc, "remark", a->reason);
		end(doc);
	}
	end(doc);
	begin_list(doc, "attach_failures", s->n_attach_failures);
	for (size_t i = 0; i < s->n_attach_failures; i++) {
		const struct gs_attach_status *a = &s->attach_failures[i];

		begin_flat(doc);
		put_text(doc, "path", a->path);
		put_text(doc, "function", a->function);
		put_text(doc, "reason", a->reason);
		put_i64_if(doc, "errno", -(int64_t)a->status, a->status < 0);
		end(doc);
	}
	end(doc);
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
		n_details += *gs_text_of(l->detail) != '\0';
	}
	doc->ops->begin(doc, "lost", false, s->n_lost == 0, false);
	for (unsigned i = 0; i <= GS_LAYER_COUNT; i++) {
		if (!any[i])
			continue;
		begin_map(doc, gs_layer_name(i));
		for (unsigned j = 0; j <= GS_LOSS_COUNT; j++)
			if (seen[i][j])
				put_u64(doc, gs_loss_name(j), sum[i][j]);
		end(doc);
	}
	end(doc);
	begin_list(doc, "lost_details", n_details);
	for (size_t i = 0; i < s->n_lost; i++) {
		const struct gs_lost_count *l = &s->lost[i];

		if (!*gs_text_of(l->detail))
			continue;
		begin_flat(doc);
		put_text(doc, "layer", gs_layer_name(l->layer));
		put_text(doc, "cause", gs_loss_name(l->cause));
		put_text(doc, "detail", l->detail);
		put_u64(doc, "count", l->count);
		end(doc);
	}
	end(doc);
}

static void put_native(struct gs_doc *doc, const struct gs_native_count *n)
{
	if (!n->taken && !n->different)
		return;
	begin_map(doc, "native_stacks");
	put_u64(doc, "taken", n->taken);
	put_u64(doc, "different", n->different);
	put_u64(doc, "cut_short", n->cut);
	put_u64(doc, "places_without_name", n->unnamed);
	end(doc);
}

void gs_doc_summary(struct gs_doc *doc, const struct gs_summary *s)
{
	const char *mode = s->mode == GS_SESSION_EVENTS    ? "events"
			   : s->mode == GS_SESSION_SUMMARY ? "summary"
							   : NULL;

	begin_map(doc, NULL);
	put_u64(doc, "version", GS_SUMMARY_VERSION);
	put_text(doc, "command", s->command);
	put_text(doc, "host", s->host);
	put_text(doc, "kernel", s->kernel);
	put_text(doc, "engine", s->engine);
	put_text(doc, "mode", mode);
	put_time(doc, "start_time", s->start_wall_ns);
	put_u64(doc, "duration_ns", s->duration_ns);
	put_text(doc, "end_reason", s->end_reason);
	put_i64_if(doc, "exit_status", s->exit_status, s->exit_status >= 0);
	put_bool(doc, "complete", s->complete);
	put_tenths(doc, "percentile_error_pct", (unsigned)(GS_HIST_ERROR_PCT * 10 + 0.5));
	put_functions(doc, &s->functions);
	put_processes(doc, s);
	put_uses(doc, s);
	put_errors(doc, s);
	put_open_calls(doc, s);
	put_comms(doc, s);
	put_attach(doc, s);
	put_native(doc, &s->native);
	put_lost(doc, s);
	end(doc);
}
