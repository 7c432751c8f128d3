/*
 * What each stream was asked for, and when it had work: bounds that the host's calls give
 * (pipeline/gpu_activity).
 */
#include "output/gpu_report/streams.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/summary/activity.h"
#include "output/gpu_report/cells.h"

/* Columns that are there only when they have something. */
struct columns {
	bool device, collectives, fills;
};

static uint64_t launches_of(const struct gs_activity_totals *t)
{
	return t->n[GS_ACTIVITY_KERNELS] + t->n[GS_ACTIVITY_GRAPHS];
}

/* Copies of all directions. */
static uint64_t sum_copies(const uint64_t *by_work)
{
	uint64_t n = 0;

	for (unsigned w = GS_ACTIVITY_COPIES; w < GS_ACTIVITY_WORKS; w++)
		n += by_work[w];
	return n;
}

static struct columns find_columns(const struct gs_activity_summary *a)
{
	struct columns c = {0};

	for (size_t i = 0; i < a->n_streams; i++) {
		const struct gs_activity_totals *t = &a->streams[i].totals;

		c.device |= a->streams[i].context != 0;
		c.collectives |= t->n[GS_ACTIVITY_COLLECTIVES] > 0;
		c.fills |= t->n[GS_ACTIVITY_MEMSETS] > 0;
	}
	return c;
}

static void put_stream_heads(struct gs_grid *g, struct columns columns)
{
	gs_grid_left(g, GS_INK_DIM, "stream", GS_CUT_END);
	if (columns.device)
		gs_grid_right(g, GS_INK_DIM, "GPU");
	gs_grid_right(g, GS_INK_DIM, "launches");
	if (columns.collectives)
		gs_grid_right(g, GS_INK_DIM, "colls");
	if (columns.fills)
		gs_grid_right(g, GS_INK_DIM, "fills");
	gs_grid_right(g, GS_INK_DIM, "copies");
	gs_grid_right(g, GS_INK_DIM, "to GPU");
	gs_grid_right(g, GS_INK_DIM, "others");
	gs_grid_right(g, GS_INK_DIM, "queue");
	gs_grid_right(g, GS_INK_DIM, "busy <=");
	gs_grid_right(g, GS_INK_DIM, ">=");
	gs_grid_right(g, GS_INK_DIM, "empty");
	gs_grid_right(g, GS_INK_DIM, "waited");
	gs_grid_rest(g, GS_INK_DIM, "process", GS_CUT_END);
}

static void name_stream(char *text, size_t bytes, const struct gs_activity_stream *s)
{
	char nth[24] = "";

	if (s->nth)
		snprintf(nth, sizeof(nth), " #%" PRIu32, s->nth + 1);
	if (!s->stream)
		snprintf(text, bytes, "default");
	else if (s->thread)
		snprintf(text, bytes, "default of %" PRIu32, s->thread);
	else
		snprintf(text, bytes, "0x%" PRIx64 "%s", s->stream, nth);
}

/* context: its handle, 0 the device's primary one. */
static void put_device_number(struct gs_grid *g, uint32_t device, uint64_t context)
{
	char text[16] = "?";

	if (device != GS_ACTIVITY_DEVICE_UNKNOWN)
		snprintf(text, sizeof(text), "%" PRIu32 "%s", device, context ? "+" : "");
	gs_grid_right(g, GS_INK_PLAIN, text);
}

static void put_stream(struct gs_grid *g, const struct gs_activity_stream *s,
		       struct columns columns)
{
	const struct gs_activity_totals *t = &s->totals;
	const unsigned to_gpu = GS_ACTIVITY_COPIES + GS_COPY_H2D;
	uint64_t n = gs_activity_totals_work(t);
	char text[64];

	name_stream(text, sizeof(text), s);
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_START);
	if (columns.device)
		put_device_number(g, s->context, s->context_handle);
	report_put_count(g, launches_of(t));
	if (columns.collectives)
		report_put_count(g, t->n[GS_ACTIVITY_COLLECTIVES]);
	if (columns.fills)
		report_put_count(g, t->n[GS_ACTIVITY_MEMSETS]);
	report_put_count(g, sum_copies(t->n));
	report_put_bytes(g, t->bytes[to_gpu]);
	report_put_bytes(g, sum_copies(t->bytes) - t->bytes[to_gpu]);
	report_put_count(g, n ? t->depth_sum / n : 0);
	report_put_time(g, t->busy_max_ns);
	report_put_time(g, t->busy_min_ns);
	report_put_time(g, t->gap_ns);
	report_put_time(g, t->wait_ns);
	snprintf(text, sizeof(text), "%" PRIu32, s->process);
	gs_grid_rest(g, GS_INK_PLAIN, text, GS_CUT_END);
}

static void put_stream_rows(struct gs_grid *g, const struct gs_activity_summary *a, size_t n,
			    struct columns columns)
{
	put_stream_heads(g, columns);
	for (size_t i = 0; i < n; i++)
		put_stream(g, &a->streams[i], columns);
}

static void put_device_heads(struct gs_grid *g)
{
	static const char *const heads[] = {"GPU",    "streams", "busy <=", "of run", ">=",
					    "of run", "empty",   "longest", "waited"};

	gs_grid_left(g, GS_INK_DIM, "process", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++)
		gs_grid_right(g, GS_INK_DIM, heads[i]);
	gs_grid_rest(g, GS_INK_DIM, "UUID", GS_CUT_END);
}

static void put_share(struct gs_grid *g, uint64_t ns, uint64_t of_ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%.1f %%", of_ns ? 100 * (double)ns / (double)of_ns : 0);
	gs_grid_right(g, of_ns ? GS_INK_PLAIN : GS_INK_DIM, of_ns ? text : "-");
}

static void put_device(struct gs_grid *g, const struct gs_activity_context *c, uint64_t run_ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu32, c->process);
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	put_device_number(g, c->context, c->handle);
	report_put_count(g, c->n_streams);
	report_put_time(g, c->busy_max_ns);
	put_share(g, c->busy_max_ns, run_ns);
	report_put_time(g, c->busy_min_ns);
	put_share(g, c->busy_min_ns, run_ns);
	report_put_time(g, c->gap_ns);
	report_put_time(g, c->gap_max_ns);
	report_put_time(g, c->wait_ns);
	gs_grid_rest(g, c->gpu[0] ? GS_INK_PLAIN : GS_INK_DIM, c->gpu[0] ? c->gpu : "-",
		     GS_CUT_END);
}

static bool has_own_context(const struct gs_activity_summary *a)
{
	for (size_t i = 0; i < a->n_contexts; i++)
		if (a->contexts[i].handle && a->contexts[i].context != GS_ACTIVITY_DEVICE_UNKNOWN)
			return true;
	return false;
}

static void put_limits(struct gs_page *page, const struct gs_activity_summary *a)
{
	char text[160], out[GS_FMT_BYTES];

	for (unsigned i = 0; i < GS_ACTIVITY_LIMITS; i++) {
		if (!a->limit_hits[i])
			continue;
		snprintf(text, sizeof(text), "Too many to follow: %s %s.",
			 gs_fmt_count(out, a->limit_hits[i]), gs_activity_limit_text(i));
		report_put_remark(page, text);
	}
	if (!a->n_unread)
		return;
	snprintf(text, sizeof(text), "Without a stream, which could not be read: %s launches.",
		 gs_fmt_count(out, a->n_unread));
	report_put_remark(page, text);
}

void gs_report_streams(struct gs_page *page, const struct gs_summary *s, unsigned n_top)
{
	static const struct gs_activity_summary none;
	const struct gs_activity_summary *a = s->activity ? s->activity : &none;
	size_t n = n_top && a->n_streams > (size_t)n_top + 1 ? n_top : a->n_streams;
	struct gs_grid g = {.page = page, .measuring = true};
	struct columns columns = find_columns(a);
	char text[96];

	report_put_title(page, "Streams, by the time in which they may have had work");
	if (!n) {
		report_put_remark(
			page,
			"No call with a stream was recorded: calls that were added up have no streams.");
		return;
	}
	put_stream_rows(&g, a, n, columns);
	while (gs_grid_piece(&g, 0))
		put_stream_rows(&g, a, n, columns);
	if (n < a->n_streams) {
		snprintf(text, sizeof(text), "... and %zu more (--top 0 shows all)",
			 a->n_streams - n);
		report_put_remark(page, text);
	}
	report_put_title(page, "GPUs, by process");
	g = (struct gs_grid){.page = page, .measuring = true};
	for (int pass = 0; pass < 2; pass++) {
		put_device_heads(&g);
		for (size_t i = 0; i < a->n_contexts; i++)
			put_device(&g, &a->contexts[i], s->duration_ns);
		if (pass == 0)
			gs_grid_fit(&g, 0, 1);
	}
	report_put_remark(
		page,
		"Bounds as the host sees them: work was pending at most from the call that queued it to the call that found it done (<=), and at least while the host waited for it (>=). empty: nothing was queued. queue: mean number of operations pending when one was queued.");
	if (has_own_context(a))
		report_put_remark(page, "+: in a context of its own (cuCtxCreate).");
	put_limits(page, a);
}

/* --- the document --- */

static void put_totals_doc(struct gs_doc *doc, const struct gs_activity_totals *t)
{
	static const char *const kinds[] = {"htoh", "htod", "dtoh", "dtod", "default", "peer"};
	uint64_t n = gs_activity_totals_work(t);
	char key[48];

	gs_doc_put_u64(doc, "launches", launches_of(t));
	gs_doc_put_u64(doc, "graph_launches", t->n[GS_ACTIVITY_GRAPHS]);
	gs_doc_put_u64(doc, "threads", t->threads);
	gs_doc_put_u64(doc, "copies", sum_copies(t->n));
	for (unsigned k = 0; k < GS_ARRAY_LEN(kinds); k++) {
		snprintf(key, sizeof(key), "copies_%s", kinds[k]);
		gs_doc_put_u64(doc, key, t->n[GS_ACTIVITY_COPIES + k]);
		snprintf(key, sizeof(key), "copies_%s_bytes", kinds[k]);
		gs_doc_put_u64(doc, key, t->bytes[GS_ACTIVITY_COPIES + k]);
	}
	gs_doc_put_u64(doc, "copied_bytes", sum_copies(t->bytes));
	gs_doc_put_u64(doc, "memsets", t->n[GS_ACTIVITY_MEMSETS]);
	gs_doc_put_u64(doc, "memset_bytes", t->bytes[GS_ACTIVITY_MEMSETS]);
	gs_doc_put_u64(doc, "collectives", t->n[GS_ACTIVITY_COLLECTIVES]);
	gs_doc_put_u64(doc, "collective_bytes", t->bytes[GS_ACTIVITY_COLLECTIVES]);
	gs_doc_put_u64(doc, "host_functions", t->n[GS_ACTIVITY_HOST_FUNCTIONS]);
	gs_doc_put_u64(doc, "captured", t->n_captured);
	gs_doc_put_u64(doc, "failed", t->n_failed);
	gs_doc_put_u64(doc, "events_recorded", t->n_records);
	gs_doc_put_u64(doc, "event_waits", t->n_event_waits);
	gs_doc_put_u64(doc, "syncs", t->n_syncs);
	gs_doc_put_u64(doc, "wait_ns", t->wait_ns);
	gs_doc_put_u64(doc, "total_ns", t->call_ns);
	gs_doc_put_u64(doc, "busy_max_ns", t->busy_max_ns);
	gs_doc_put_u64(doc, "busy_min_ns", t->busy_min_ns);
	gs_doc_put_u64(doc, "busy_spans", t->n_spans);
	gs_doc_put_u64(doc, "gaps", t->n_gaps);
	gs_doc_put_u64(doc, "gap_ns", t->gap_ns);
	gs_doc_put_u64(doc, "gap_max_ns", t->gap_max_ns);
	gs_doc_put_u64(doc, "queue_max", t->depth_max);
	gs_doc_put_double(doc, "queue_mean", n ? (double)t->depth_sum / (double)n : 0);
}

static void put_handle(struct gs_doc *doc, const char *key, uint64_t handle)
{
	char text[24] = "";

	if (handle)
		snprintf(text, sizeof(text), "0x%" PRIx64, handle);
	gs_doc_put_text(doc, key, text);
}

static void put_stream_doc(struct gs_doc *doc, const struct gs_activity_stream *s)
{
	static const char *const blocking[] = {
		[GS_ACTIVITY_BLOCKING] = "yes", [GS_ACTIVITY_NON_BLOCKING] = "no"};
	char handle[24];

	snprintf(handle, sizeof(handle), "0x%" PRIx64, s->stream);
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_u64(doc, "pid", s->process);
	gs_doc_put_u64_if(doc, "device", s->context, s->context != GS_ACTIVITY_DEVICE_UNKNOWN);
	put_handle(doc, "context", s->context_handle);
	gs_doc_put_text(doc, "stream", handle);
	gs_doc_put_u64(doc, "reused", s->nth);
	gs_doc_put_u64_if(doc, "tid", s->thread, s->thread != 0);
	gs_doc_put_text(doc, "blocking",
			s->blocking < GS_ARRAY_LEN(blocking) && blocking[s->blocking]
				? blocking[s->blocking]
				: "");
	gs_doc_put_bool(doc, "destroyed", s->ended);
	gs_doc_put_u64(doc, "pending", s->n_pending);
	put_totals_doc(doc, &s->totals);
	gs_doc_end(doc);
}

static void put_device_doc(struct gs_doc *doc, const struct gs_activity_context *c)
{
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_u64(doc, "pid", c->process);
	gs_doc_put_u64_if(doc, "device", c->context, c->context != GS_ACTIVITY_DEVICE_UNKNOWN);
	put_handle(doc, "context", c->handle);
	gs_doc_put_text(doc, "gpu_uuid", c->gpu);
	gs_doc_put_u64(doc, "streams", c->n_streams);
	gs_doc_put_u64(doc, "streams_not_listed", c->n_rest);
	gs_doc_put_u64(doc, "work_not_listed", gs_activity_totals_work(&c->rest));
	gs_doc_put_u64(doc, "syncs", c->n_syncs);
	gs_doc_put_u64(doc, "wait_ns", c->wait_ns);
	gs_doc_put_u64(doc, "busy_max_ns", c->busy_max_ns);
	gs_doc_put_u64(doc, "busy_min_ns", c->busy_min_ns);
	gs_doc_put_u64(doc, "gaps", c->n_gaps);
	gs_doc_put_u64(doc, "gap_ns", c->gap_ns);
	gs_doc_put_u64(doc, "gap_max_ns", c->gap_max_ns);
	gs_doc_end(doc);
}

/* What each launch of a graph runs. */
static void put_graph_doc(struct gs_doc *doc, const struct gs_activity_graph *g)
{
	gs_doc_begin_map(doc, NULL);
	gs_doc_put_u64(doc, "pid", g->process);
	put_handle(doc, "graph", g->graph);
	gs_doc_put_bool(doc, "destroyed", g->destroyed);
	gs_doc_put_u64(doc, "launches", g->launches);
	gs_doc_put_u64_if(doc, "kernel_runs", g->n_kernels, g->is_sum);
	gs_doc_put_u64_if(doc, "kernels_per_launch", g->n_kernels, !g->is_sum && g->n_kernels);
	gs_doc_begin_list(doc, "kernels", g->n_different);
	for (size_t i = 0; i < g->n_different; i++) {
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "short_name", g->kernels[i].name);
		put_handle(doc, "function", g->kernels[i].function);
		gs_doc_put_u64(doc, "count", g->kernels[i].count);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_end(doc);
}

void gs_report_streams_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	static const struct gs_activity_summary none;
	const struct gs_activity_summary *a = s->activity ? s->activity : &none;

	gs_doc_begin_list(doc, "streams", a->n_streams);
	for (size_t i = 0; i < a->n_streams; i++)
		put_stream_doc(doc, &a->streams[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "stream_devices", a->n_contexts);
	for (size_t i = 0; i < a->n_contexts; i++)
		put_device_doc(doc, &a->contexts[i]);
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "graphs", a->n_graphs);
	for (size_t i = 0; i < a->n_graphs; i++)
		put_graph_doc(doc, &a->graphs[i]);
	gs_doc_end(doc);
	gs_doc_begin_flat(doc, "stream_limits");
	for (unsigned i = 0; i < GS_ACTIVITY_LIMITS; i++)
		gs_doc_put_u64(doc, gs_activity_limit_name(i), a->limit_hits[i]);
	gs_doc_put_u64(doc, "unread", a->n_unread);
	gs_doc_end(doc);
}
