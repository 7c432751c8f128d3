/*
 * What GPUs counted of themselves while calls were traced, beside what the calls say of the same time:
 * the first is measured by the device, the second are bounds as the host sees them.
 */
#include "output/gpu_report/gpus.h"

#include <math.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/summary/activity.h"

#define GAP 2

static void put_heads(struct gs_grid *g)
{
	static const char *const heads[] = {"busy", ">=", "<=", "off by", "in", "memory", "power"};

	gs_grid_left(g, GS_INK_DIM, "GPU", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++)
		gs_grid_right(g, GS_INK_DIM, heads[i]);
	gs_grid_rest(g, GS_INK_DIM, "", GS_CUT_END);
}

static void put_ratio(struct gs_grid *g, double ratio)
{
	char text[24];

	snprintf(text, sizeof(text), "%.1f %%", 100 * ratio);
	gs_grid_right(g, ratio >= 0 ? GS_INK_PLAIN : GS_INK_DIM, ratio >= 0 ? text : "-");
}

static bool is_outside(const struct gs_gpu_summary *s)
{
	return s->compared_busy_ratio < s->least_ratio || s->compared_busy_ratio > s->most_ratio;
}

/* How far truth is from the two bounds, above (+) or below, in points of percent. */
static void put_distance(struct gs_grid *g, const struct gs_gpu_summary *s)
{
	char text[40];

	snprintf(text, sizeof(text), "%+.1f, %+.1f",
		 100 * (s->compared_busy_ratio - s->least_ratio),
		 100 * (s->compared_busy_ratio - s->most_ratio));
	gs_grid_right(g, is_outside(s) ? GS_INK_WARN : GS_INK_PLAIN, text);
}

static void put_gpu(struct gs_grid *g, const struct gs_gpu_summary *s)
{
	char text[24], out[GS_FMT_BYTES];

	gs_grid_left(g, GS_INK_PLAIN, s->number, GS_CUT_END);
	put_ratio(g, s->why ? s->busy_ratio : s->compared_busy_ratio);
	put_ratio(g, s->why ? -1 : s->least_ratio);
	put_ratio(g, s->why ? -1 : s->most_ratio);
	if (s->why) {
		gs_grid_right(g, GS_INK_DIM, "-");
		gs_grid_right(g, GS_INK_DIM, "-");
	} else {
		put_distance(g, s);
		gs_grid_right(g, GS_INK_PLAIN, gs_fmt_ns(out, s->compared_ns));
	}
	gs_grid_right(g, s->memory_peak_bytes >= 0 ? GS_INK_PLAIN : GS_INK_DIM,
		      s->memory_peak_bytes >= 0 ? gs_fmt_bytes(out, (uint64_t)s->memory_peak_bytes)
						: "-");
	snprintf(text, sizeof(text), "%.0f W", s->power_watts);
	gs_grid_right(g, s->power_watts >= 0 ? GS_INK_PLAIN : GS_INK_DIM,
		      s->power_watts >= 0 ? text : "-");
	gs_grid_rest(g, GS_INK_DIM, s->name, GS_CUT_END);
}

static void put_remark(struct gs_page *page, const char *text)
{
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_DIM, text);
}

/* What is not compared, and why. */
static void put_rest(struct gs_page *page, const struct gs_gpu_summary *s)
{
	char text[160], time[GS_FMT_BYTES];

	if (s->why)
		snprintf(text, sizeof(text), "GPU %s is not compared: %s.", s->number,
			 gs_activity_compared_text(s->why));
	else if (s->others_ns)
		snprintf(text, sizeof(text), "GPU %s: without %s in which other processes used it.",
			 s->number, gs_fmt_ns(time, s->others_ns));
	else
		return;
	put_remark(page, text);
}

void gs_report_gpus(struct gs_page *page, const struct gs_summary *s)
{
	struct gs_grid g = {.page = page, .measuring = true};
	bool hidden = false, compared = false, outside = false;

	if (!s->n_gpus)
		return;
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "GPUs: measured by the device, and bounds from host calls",
		     GS_CUT_END);
	gs_page_line(page);
	for (int pass = 0; pass < 2; pass++) {
		put_heads(&g);
		for (size_t i = 0; i < s->n_gpus; i++)
			put_gpu(&g, &s->gpus[i]);
		if (pass == 0)
			gs_grid_fit(&g, 0, 1);
	}
	for (size_t i = 0; i < s->n_gpus; i++) {
		put_rest(page, &s->gpus[i]);
		hidden |= s->gpus[i].others_hidden && !s->gpus[i].why;
		compared |= !s->gpus[i].why;
		outside |= !s->gpus[i].why && is_outside(&s->gpus[i]);
	}
	put_remark(
		page,
		"busy, memory, power: measured by the GPU, read by its driver; busy while a kernel ran.");
	if (compared)
		put_remark(
			page,
			">=, <=: bounds from host calls, of kernels and copies. off by: distance of busy from them, in points.");
	if (outside)
		put_remark(
			page,
			"Outside of the bounds: the driver's counter is coarse, and does not count copies.");
	if (hidden)
		put_remark(
			page,
			"Whether other processes used it is not known: the driver uses other process ids.");
}

static double known_or_nan(double v)
{
	return v >= 0 ? v : NAN;
}

static void put_gpu_doc(struct gs_doc *doc, const struct gs_gpu_summary *s)
{
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_text(doc, "gpu", s->number);
	gs_doc_put_text(doc, "gpu_uuid", s->uuid);
	gs_doc_put_text(doc, "name", s->name);
	gs_doc_put_u64(doc, "samples", s->n_samples);
	gs_doc_put_double(doc, "device_busy_ratio", known_or_nan(s->busy_ratio));
	gs_doc_put_double(doc, "device_power_watts", known_or_nan(s->power_watts));
	gs_doc_put_i64_if(doc, "device_memory_peak_bytes", s->memory_peak_bytes,
			  s->memory_peak_bytes >= 0);
	gs_doc_put_text(doc, "not_compared", gs_activity_compared_name(s->why));
	gs_doc_put_u64(doc, "compared_ns", s->compared_ns);
	gs_doc_put_u64(doc, "other_processes_ns", s->others_ns);
	gs_doc_put_bool(doc, "other_processes_known", !s->others_hidden);
	gs_doc_put_double(doc, "compared_device_busy_ratio", s->why ? NAN : s->compared_busy_ratio);
	gs_doc_put_double(doc, "host_busy_min_ratio", s->why ? NAN : s->least_ratio);
	gs_doc_put_double(doc, "host_busy_max_ratio", s->why ? NAN : s->most_ratio);
	gs_doc_end(doc);
}

void gs_report_gpus_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	gs_doc_begin_list(doc, "gpus", s->n_gpus);
	for (size_t i = 0; i < s->n_gpus; i++)
		put_gpu_doc(doc, &s->gpus[i]);
	gs_doc_end(doc);
}
