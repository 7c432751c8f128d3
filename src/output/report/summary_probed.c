#include "output/report/summary_probed.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "model/trace/func.h"
#include "model/trace/record_stack.h"
#include "model/trace/user_probe.h"

#define MAX_LEAKS 10 /* in the table, unless all are wanted */
#define BAR_WIDTH 40

static const char *aggregate_name(unsigned aggregate)
{
	static const char *const w[] = {"none", "count", "sum", "hist", "hist"};

	return aggregate < GS_ARRAY_LEN(w) ? w[aggregate] : "unknown";
}

/* --- table --- */

static void put_title(struct gs_page *page, const char *title)
{
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, title, GS_CUT_END);
	gs_page_line(page);
}

static void GS_PRINTF(3, 4) put_line(struct gs_page *page, unsigned indent, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	gs_page_gap(page, indent);
	gs_page_rest(page, GS_INK_PLAIN, text, GS_CUT_END);
	gs_page_line(page);
}

static const char *format_value(char out[GS_FMT_BYTES], const struct gs_aggregate_summary *a,
				uint64_t v)
{
	char count[GS_FMT_BYTES];

	if (a->aggregate == GS_AGGREGATE_HIST_DURATION)
		return gs_fmt_ns(out, v);
	if (a->value_type == GS_VALUE_BYTES)
		return gs_fmt_bytes(out, v);
	if (a->is_signed && (int64_t)v < 0)
		snprintf(out, GS_FMT_BYTES, "-%s", gs_fmt_count(count, 0 - v));
	else
		gs_fmt_count(out, v);
	return out;
}

static void put_ranges(struct gs_page *page, const struct gs_aggregate_summary *a)
{
	char from[GS_FMT_BYTES], to[GS_FMT_BYTES], count[GS_FMT_BYTES], bar[BAR_WIDTH + 1];
	uint64_t most = 1;

	for (size_t i = 0; i < a->n_ranges; i++)
		if (a->ranges[i].count > most)
			most = a->ranges[i].count;
	for (size_t i = 0; i < a->n_ranges; i++) {
		const struct gs_hist_range *r = &a->ranges[i];
		size_t n = (size_t)((double)r->count / (double)most * BAR_WIDTH);

		memset(bar, '#', n);
		bar[n] = '\0';
		put_line(page, 4, "%12s .. %-12s %10s  %s", format_value(from, a, r->from),
			 r->to == UINT64_MAX ? "" : format_value(to, a, r->to),
			 gs_fmt_count(count, r->count), bar);
	}
}

static void put_aggregate(struct gs_page *page, const struct gs_aggregate_summary *a)
{
	char count[GS_FMT_BYTES], sum[GS_FMT_BYTES], min[GS_FMT_BYTES], max[GS_FMT_BYTES];
	char p50[GS_FMT_BYTES], p99[GS_FMT_BYTES], more[128] = "";

	if (a->aggregate == GS_AGGREGATE_COUNT) {
		put_line(page, 2, "%s in %s (%u): %s", a->function, a->comm, a->pid,
			 gs_fmt_count(count, a->count));
		return;
	}
	if (a->n_ranges)
		snprintf(more, sizeof(more), ", p50 %s, p99 %s", format_value(p50, a, a->p50),
			 format_value(p99, a, a->p99));
	put_line(page, 2, "%s in %s (%u): %s of %s values: sum %s, min %s, max %s%s", a->function,
		 a->comm, a->pid, a->value, gs_fmt_count(count, a->count),
		 format_value(sum, a, a->sum), format_value(min, a, a->min),
		 format_value(max, a, a->max), more);
	put_ranges(page, a);
}

static void put_allocator(struct gs_page *page, const struct gs_allocator_summary *a)
{
	char live[GS_FMT_BYTES], peak[GS_FMT_BYTES], n[GS_FMT_BYTES], f[GS_FMT_BYTES];
	char total[GS_FMT_BYTES], reserved[GS_FMT_BYTES];

	if (a->device < 0) {
		put_line(page, 2, "%s (%u): %s frees of blocks from before tracing", a->comm,
			 a->pid, gs_fmt_count(n, a->unknown_frees));
		return;
	}
	put_line(page, 2, "%s (%u) device %d: live %s, peak %s; %s allocations (%s), %s frees",
		 a->comm, a->pid, a->device, gs_fmt_bytes(live, a->live_bytes),
		 gs_fmt_bytes(peak, a->peak_bytes), gs_fmt_count(n, a->allocations),
		 gs_fmt_bytes(total, a->total_bytes), gs_fmt_count(f, a->frees));
	if (a->reserved_bytes && a->reserved_bytes >= a->process_live_bytes)
		put_line(
			page, 4,
			"reserved from CUDA %s (peak %s): %.1f %% of it in use, %.1f %% idle or lost to fragmentation",
			gs_fmt_bytes(reserved, a->reserved_bytes),
			gs_fmt_bytes(peak, a->peak_reserved_bytes),
			100.0 * (double)a->process_live_bytes / (double)a->reserved_bytes,
			100.0 - 100.0 * (double)a->process_live_bytes / (double)a->reserved_bytes);
}

void gs_report_summary_probed_table(struct gs_page *page, const struct gs_summary *s, bool all)
{
	size_t n = all || s->n_leaks <= MAX_LEAKS ? s->n_leaks : MAX_LEAKS;
	char bytes[GS_FMT_BYTES], blocks[GS_FMT_BYTES];

	if (s->n_aggregates)
		put_title(page, "Aggregated in the kernel");
	for (size_t i = 0; i < s->n_aggregates; i++)
		put_aggregate(page, &s->aggregates[i]);
	if (s->n_allocators)
		put_title(page, "PyTorch memory");
	for (size_t i = 0; i < s->n_allocators; i++)
		put_allocator(page, &s->allocators[i]);
	if (n)
		put_title(page, "PyTorch memory not freed while tracing");
	for (size_t i = 0; i < n; i++) {
		const struct gs_leak_summary *l = &s->leaks[i];

		put_line(page, 2, "%10s in %s block%s, process %u device %d, allocated %s%s",
			 gs_fmt_bytes(bytes, l->bytes), gs_fmt_count(blocks, l->blocks),
			 l->blocks == 1 ? "" : "s", l->pid, l->device,
			 *l->site ? "under " : "outside of operators", l->site);
	}
	if (n < s->n_leaks)
		put_line(page, 2, "... and %zu more places (--top 0 shows all)", s->n_leaks - n);
}

/* --- documents --- */

static void key_text(struct gs_doc *doc, const char *key, const char *text)
{
	doc->ops->key(doc, key);
	if (*text)
		gs_pen_check(doc->pen, doc->ops->text(&doc->pen->buf, text));
	else
		gs_pen_puts(doc->pen, "null");
}

static void key_u64(struct gs_doc *doc, const char *key, uint64_t v)
{
	doc->ops->key(doc, key);
	gs_pen_printf(doc->pen, "%" PRIu64, v);
}

static void key_i64(struct gs_doc *doc, const char *key, int64_t v)
{
	doc->ops->key(doc, key);
	gs_pen_printf(doc->pen, "%" PRId64, v);
}

static void key_number(struct gs_doc *doc, const char *key, uint64_t v, bool is_signed)
{
	if (is_signed)
		key_i64(doc, key, (int64_t)v);
	else
		key_u64(doc, key, v);
}

static void doc_aggregate(struct gs_doc *doc, const struct gs_aggregate_summary *a)
{
	doc->ops->begin(doc, NULL, false, false, false);
	key_u64(doc, "pid", a->pid);
	key_text(doc, "comm", a->comm);
	key_text(doc, "layer", gs_layer_name(a->layer));
	key_text(doc, "function", a->function);
	key_text(doc, "aggregate", aggregate_name(a->aggregate));
	key_text(doc, "value", a->value);
	key_u64(doc, "count", a->count);
	if (a->aggregate != GS_AGGREGATE_COUNT) {
		key_number(doc, "sum", a->sum, a->is_signed);
		key_number(doc, "min", a->min, a->is_signed);
		key_number(doc, "max", a->max, a->is_signed);
	}
	if (a->n_ranges) {
		key_u64(doc, "p50", a->p50);
		key_u64(doc, "p95", a->p95);
		key_u64(doc, "p99", a->p99);
	}
	doc->ops->begin(doc, "histogram", true, a->n_ranges == 0, false);
	for (size_t i = 0; i < a->n_ranges; i++) {
		doc->ops->begin(doc, NULL, false, false, true);
		key_u64(doc, "from", a->ranges[i].from);
		key_u64(doc, "to", a->ranges[i].to);
		key_u64(doc, "count", a->ranges[i].count);
		doc->ops->end(doc);
	}
	doc->ops->end(doc);
	doc->ops->end(doc);
}

static void doc_allocator(struct gs_doc *doc, const struct gs_allocator_summary *a)
{
	doc->ops->begin(doc, NULL, false, false, false);
	key_u64(doc, "pid", a->pid);
	key_text(doc, "comm", a->comm);
	key_i64(doc, "device", a->device);
	key_u64(doc, "live_bytes", a->live_bytes);
	key_u64(doc, "peak_bytes", a->peak_bytes);
	key_u64(doc, "allocated_bytes", a->total_bytes);
	key_u64(doc, "allocations", a->allocations);
	key_u64(doc, "frees", a->frees);
	key_u64(doc, "unknown_frees", a->unknown_frees);
	key_u64(doc, "process_live_bytes", a->process_live_bytes);
	key_u64(doc, "process_reserved_bytes", a->reserved_bytes);
	key_u64(doc, "process_peak_reserved_bytes", a->peak_reserved_bytes);
	doc->ops->end(doc);
}

void gs_report_summary_probed_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	if (s->n_aggregates) {
		doc->ops->begin(doc, "aggregates", true, false, false);
		for (size_t i = 0; i < s->n_aggregates; i++)
			doc_aggregate(doc, &s->aggregates[i]);
		doc->ops->end(doc);
	}
	if (!s->n_allocators)
		return;
	doc->ops->begin(doc, "allocators", true, false, false);
	for (size_t i = 0; i < s->n_allocators; i++)
		doc_allocator(doc, &s->allocators[i]);
	doc->ops->end(doc);
	doc->ops->begin(doc, "unfreed", true, s->n_leaks == 0, false);
	for (size_t i = 0; i < s->n_leaks; i++) {
		const struct gs_leak_summary *l = &s->leaks[i];

		doc->ops->begin(doc, NULL, false, false, true);
		key_u64(doc, "pid", l->pid);
		key_i64(doc, "device", l->device);
		key_text(doc, "site", l->site);
		key_u64(doc, "py_stack", l->py_stack);
		key_u64(doc, "blocks", l->blocks);
		key_u64(doc, "bytes", l->bytes);
		doc->ops->end(doc);
	}
	doc->ops->end(doc);
}
