#include "output/gpu_report/gpu_time.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "model/summary/gpu_time.h"

#define GAP 2

static void put_time(struct gs_grid *g, uint64_t ns)
{
	char out[GS_FMT_BYTES];

	gs_grid_right(g, ns ? GS_INK_PLAIN : GS_INK_DIM, ns ? gs_fmt_ns(out, ns) : "-");
}

static void put_share(struct gs_grid *g, uint64_t ns, uint64_t of_ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%.1f %%", of_ns ? 100 * (double)ns / (double)of_ns : 0);
	gs_grid_right(g, ns && of_ns ? GS_INK_PLAIN : GS_INK_DIM, ns && of_ns ? text : "-");
}

static void put_heads(struct gs_grid *g, const char *first, const char *const *heads, size_t n,
		      const char *last)
{
	gs_grid_left(g, GS_INK_DIM, first, GS_CUT_END);
	for (size_t i = 0; i < n; i++)
		gs_grid_right(g, GS_INK_DIM, heads[i]);
	gs_grid_rest(g, GS_INK_DIM, last, GS_CUT_END);
}

static void put_kernel(struct gs_grid *g, const struct gs_gpu_time *t,
		       const struct gs_gpu_time_kernel *k)
{
	char out[GS_FMT_BYTES];

	gs_grid_left(g, k->short_name[0] ? GS_INK_PLAIN : GS_INK_DIM,
		     k->short_name[0] ? k->short_name : "not known", GS_CUT_END);
	gs_grid_right(g, GS_INK_PLAIN, gs_fmt_count(out, k->runs));
	put_time(g, k->total_ns);
	put_share(g, k->total_ns, t->kernel_ns);
	put_time(g, k->total_ns / k->runs);
	put_time(g, k->min_ns);
	put_time(g, k->max_ns);
	gs_grid_rest(g, GS_INK_PLAIN, "", GS_CUT_END);
}

static void put_kernels(struct gs_page *page, const struct gs_gpu_time *t, unsigned n_top)
{
	static const char *const heads[] = {"runs", "time", "of all", "mean", "min", "max"};
	size_t n = n_top && t->n_kernels > (size_t)n_top + 1 ? n_top : t->n_kernels;
	struct gs_grid g = {.page = page, .measuring = true};
	char text[96];

	for (int pass = 0; pass < 2; pass++) {
		put_heads(&g, "kernel", heads, GS_ARRAY_LEN(heads), "");
		for (size_t i = 0; i < n; i++)
			put_kernel(&g, t, &t->kernels[i]);
		if (pass == 0)
			gs_grid_fit(&g, 0, 0);
	}
	if (n == t->n_kernels)
		return;
	snprintf(text, sizeof(text), "... and %zu more (--top 0 shows all)", t->n_kernels - n);
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_DIM, text);
}

static void put_device(struct gs_grid *g, const struct gs_gpu_time_device *d)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu32, d->process);
	gs_grid_left(g, GS_INK_PLAIN, text, GS_CUT_END);
	snprintf(text, sizeof(text), "%" PRIu32, d->device);
	gs_grid_right(g, GS_INK_PLAIN, text);
	put_time(g, d->window_ns);
	put_share(g, d->busy_ns[GS_GPU_TIME_ANY], d->window_ns);
	put_share(g, d->busy_ns[GS_GPU_TIME_COMPUTE], d->window_ns);
	put_share(g, d->busy_ns[GS_GPU_TIME_COMM], d->window_ns);
	put_share(g, d->busy_ns[GS_GPU_TIME_COPY], d->window_ns);
	put_share(g,
		  gs_gpu_time_both(d, GS_GPU_TIME_COMPUTE, GS_GPU_TIME_COMM,
				   GS_GPU_TIME_COMPUTE_COMM),
		  d->busy_ns[GS_GPU_TIME_COMM]);
	put_share(g,
		  gs_gpu_time_both(d, GS_GPU_TIME_COMPUTE, GS_GPU_TIME_COPY,
				   GS_GPU_TIME_COMPUTE_COPY),
		  d->busy_ns[GS_GPU_TIME_COPY]);
	put_time(g, d->gap_ns);
	put_time(g, d->gap_max_ns);
	gs_grid_rest(g, GS_INK_PLAIN, "", GS_CUT_END);
}

static void put_devices(struct gs_page *page, const struct gs_gpu_time *t)
{
	static const char *const heads[] = {"GPU",  "window", "busy",        "compute",
					    "NCCL", "copies", "NCCL hidden", "copies hidden",
					    "idle", "longest"};
	struct gs_grid g = {.page = page, .measuring = true};

	for (int pass = 0; pass < 2; pass++) {
		put_heads(&g, "process", heads, GS_ARRAY_LEN(heads), "");
		for (size_t i = 0; i < t->n_devices; i++)
			put_device(&g, &t->devices[i]);
		if (pass == 0)
			gs_grid_fit(&g, 0, 0);
	}
	gs_page_gap(page, GAP);
	gs_page_words(
		page, GS_INK_DIM,
		"Times measured on the GPU (CUPTI), in windows in which all of the process's GPU work is known. hidden: while compute ran, too. idle: between work.");
}

/* What spoils the figures, or why there are none. */
static void put_limits(struct gs_page *page, const struct gs_gpu_time *t)
{
	char text[256], out[GS_FMT_BYTES];
	const struct {
		uint64_t n;
		const char *what;
	} rows[] = {{t->dropped, "records dropped by CUPTI"},
		    {t->discarded, "buffers of records dropped because they came too fast"},
		    {t->bad, "invalid records"},
		    {t->untimed, "GPU operations without times from CUPTI"},
		    {t->left_out, "GPU operations beyond the limit"},
		    {t->yielded, "windows ended by the program's own profiler"}};

	for (size_t i = 0; i < GS_ARRAY_LEN(rows); i++) {
		if (!rows[i].n)
			continue;
		snprintf(text, sizeof(text), "%s %s.", gs_fmt_count(out, rows[i].n), rows[i].what);
		gs_page_gap(page, GAP);
		gs_page_words(page, GS_INK_DIM, text);
	}
	if (!t->refusal[0])
		return;
	snprintf(text, sizeof(text), "GPU time of a process: %s.", t->refusal);
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_WARN, text);
}

/* "GPU 0 of 4242: busy 82.8 % of 1.00 s, idle 160 ms; most of it ampere_sgemm (75.3 %)" */
void gs_report_gpu_time_brief(struct gs_page *page, const struct gs_summary *s)
{
	const struct gs_gpu_time *t = s->gpu_time;
	const struct gs_gpu_time_device *best = NULL;
	char text[512], window[GS_FMT_BYTES], gap[GS_FMT_BYTES], more[256] = "";

	if (!t)
		return;
	for (size_t i = 0; i < t->n_devices; i++)
		if (!best ||
		    t->devices[i].busy_ns[GS_GPU_TIME_ANY] > best->busy_ns[GS_GPU_TIME_ANY])
			best = &t->devices[i];
	if (t->n_kernels && t->kernel_ns)
		snprintf(more, sizeof(more), "; %.1f %% of kernels' time: %s",
			 100 * (double)t->kernels[0].total_ns / (double)t->kernel_ns,
			 t->kernels[0].short_name[0] ? t->kernels[0].short_name : "not known");
	if (best && best->window_ns)
		snprintf(text, sizeof(text),
			 "measured on the device: GPU %" PRIu32 " of %" PRIu32
			 " was busy for %.1f %% of %s, at most %s idle%s (--by kernel)",
			 best->device, best->process,
			 100 * (double)best->busy_ns[GS_GPU_TIME_ANY] / (double)best->window_ns,
			 gs_fmt_ns(window, best->window_ns), gs_fmt_ns(gap, best->gap_max_ns),
			 more);
	else
		snprintf(text, sizeof(text), "GPU time is not known: %s",
			 t->refusal[0] ? t->refusal : "no GPU had work in a window");
	gs_page_gap(page, GAP);
	gs_page_words(page, GS_INK_PLAIN, text);
}

void gs_report_gpu_time(struct gs_page *page, const struct gs_summary *s, unsigned n_top)
{
	const struct gs_gpu_time *t = s->gpu_time;

	if (!t)
		return;
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "GPU time, by kernel", GS_CUT_END);
	gs_page_line(page);
	if (t->n_kernels)
		put_kernels(page, t, n_top);
	if (t->n_devices) {
		gs_page_line(page);
		put_devices(page, t);
	}
	if (!t->n_kernels && !t->n_devices && !t->refusal[0]) {
		gs_page_gap(page, GAP);
		gs_page_words(page, GS_INK_DIM, "No GPU had work in a window.");
	}
	put_limits(page, t);
}

static void put_device_doc(struct gs_doc *doc, const struct gs_gpu_time_device *d)
{
	gs_doc_begin_flat(doc, NULL);
	gs_doc_put_u64(doc, "pid", d->process);
	gs_doc_put_u64(doc, "device", d->device);
	gs_doc_put_u64(doc, "kernels", d->kernels);
	gs_doc_put_u64(doc, "graphs", d->graphs);
	gs_doc_put_u64(doc, "copies", d->copies);
	gs_doc_put_u64(doc, "copied_bytes", d->copied_bytes);
	gs_doc_put_u64(doc, "fills", d->fills);
	gs_doc_put_u64(doc, "window_ns", d->window_ns);
	gs_doc_put_u64(doc, "busy_ns", d->busy_ns[GS_GPU_TIME_ANY]);
	gs_doc_put_u64(doc, "compute_ns", d->busy_ns[GS_GPU_TIME_COMPUTE]);
	gs_doc_put_u64(doc, "nccl_ns", d->busy_ns[GS_GPU_TIME_COMM]);
	gs_doc_put_u64(doc, "copy_ns", d->busy_ns[GS_GPU_TIME_COPY]);
	gs_doc_put_u64(doc, "nccl_hidden_ns",
		       gs_gpu_time_both(d, GS_GPU_TIME_COMPUTE, GS_GPU_TIME_COMM,
					GS_GPU_TIME_COMPUTE_COMM));
	gs_doc_put_u64(doc, "copy_hidden_ns",
		       gs_gpu_time_both(d, GS_GPU_TIME_COMPUTE, GS_GPU_TIME_COPY,
					GS_GPU_TIME_COMPUTE_COPY));
	gs_doc_put_u64(doc, "gaps", d->gaps);
	gs_doc_put_u64(doc, "gap_ns", d->gap_ns);
	gs_doc_put_u64(doc, "gap_max_ns", d->gap_max_ns);
	gs_doc_end(doc);
}

void gs_report_gpu_time_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	const struct gs_gpu_time *t = s->gpu_time;

	if (!t) {
		gs_doc_put_null(doc, "gpu_time");
		return;
	}
	gs_doc_begin_map(doc, "gpu_time");
	gs_doc_put_u64(doc, "windows", t->windows);
	gs_doc_put_u64(doc, "window_ns", t->window_ns);
	gs_doc_put_u64(doc, "kernel_ns", t->kernel_ns);
	gs_doc_begin_list(doc, "kernels", t->n_kernels);
	for (size_t i = 0; i < t->n_kernels; i++) {
		const struct gs_gpu_time_kernel *k = &t->kernels[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "name", k->name);
		gs_doc_put_text(doc, "short_name", k->short_name);
		gs_doc_put_u64(doc, "runs", k->runs);
		gs_doc_put_u64(doc, "total_ns", k->total_ns);
		gs_doc_put_u64(doc, "min_ns", k->min_ns);
		gs_doc_put_u64(doc, "max_ns", k->max_ns);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "devices", t->n_devices);
	for (size_t i = 0; i < t->n_devices; i++)
		put_device_doc(doc, &t->devices[i]);
	gs_doc_end(doc);
	gs_doc_put_u64(doc, "windows_yielded", t->yielded);
	gs_doc_put_u64(doc, "overhead_ns", t->overhead_ns);
	gs_doc_put_u64(doc, "untimed", t->untimed);
	gs_doc_put_u64(doc, "records_dropped", t->dropped);
	gs_doc_put_u64(doc, "buffers_discarded", t->discarded);
	gs_doc_put_u64(doc, "records_bad", t->bad);
	gs_doc_put_u64(doc, "left_out", t->left_out);
	gs_doc_put_u64(doc, "cupti_version", t->version);
	gs_doc_put_text(doc, "refusal", t->refusal);
	gs_doc_end(doc);
}
