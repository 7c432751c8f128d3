/* Launches by kernel. */
#include "output/report/summary_kernel.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/fmt.h"
#include "model/trace/record_kernel.h"

#define FAILED_COLUMNS 16 /* for how many launches of a kernel failed */

static void put_heads(struct gs_grid *g, bool graphs)
{
	static const char *const heads[] = {"launches", "share", "blocks",
					    "threads",  "regs",  "shared"};

	gs_grid_left(g, GS_INK_DIM, "kernel", GS_CUT_END);
	for (size_t i = 0; i < GS_ARRAY_LEN(heads); i++) {
		gs_grid_right(g, GS_INK_DIM, heads[i]);
		if (i == 0 && graphs)
			gs_grid_right(g, GS_INK_DIM, "in graphs");
	}
	gs_grid_rest(g, GS_INK_DIM, "", GS_CUT_END);
}

/* A mean of whole numbers: with a digit after the point where that says something. */
static void put_mean(struct gs_grid *g, uint64_t sum, uint64_t n)
{
	char text[32], out[GS_FMT_BYTES];

	if (!n || !sum) {
		gs_grid_right(g, GS_INK_DIM, "-");
		return;
	}
	if (sum % n && sum / n < 100) {
		snprintf(text, sizeof(text), "%.1f", (double)sum / (double)n);
		gs_grid_right(g, GS_INK_PLAIN, text);
		return;
	}
	gs_grid_right(g, GS_INK_PLAIN, gs_fmt_count(out, (sum + n / 2) / n));
}

static void put_number(struct gs_grid *g, uint64_t n)
{
	char out[GS_FMT_BYTES];

	gs_grid_right(g, n ? GS_INK_PLAIN : GS_INK_DIM, n ? gs_fmt_count(out, n) : "-");
}

/* Of a kernel that only graphs ran nothing is known but that. */
static void put_share(struct gs_grid *g, uint64_t launches, uint64_t of)
{
	char text[32] = "-";

	if (launches)
		snprintf(text, sizeof(text), "%.1f%%", 100 * (double)launches / (double)of);
	gs_grid_right(g, launches ? GS_INK_PLAIN : GS_INK_DIM, text);
}

static void put_kernel(struct gs_grid *g, const struct gs_summary *s,
		       const struct gs_kernel_summary *k, bool graphs)
{
	uint64_t n = k->launches ? k->launches : 1;
	uint64_t shared = k->static_shared_bytes + k->dynamic_shared_bytes / n;
	char text[64], out[GS_FMT_BYTES];

	if (k->how) {
		gs_grid_left(g, GS_INK_PLAIN, k->short_name, GS_CUT_END);
	} else {
		snprintf(text, sizeof(text), "not known: 0x%" PRIx64, k->function);
		gs_grid_left(g, GS_INK_DIM, text, GS_CUT_START);
	}
	put_number(g, k->launches);
	if (graphs)
		put_number(g, k->graph_runs);
	put_share(g, k->launches, s->kernel_launches);
	put_mean(g, k->blocks, k->launches);
	put_mean(g, k->threads, k->launches);
	snprintf(text, sizeof(text), "%" PRIu32, k->registers);
	gs_grid_right(g, k->sm ? GS_INK_PLAIN : GS_INK_DIM, k->sm ? text : "-");
	/* Without the static part the sum would be too small. */
	gs_grid_right(g, k->sm ? GS_INK_PLAIN : GS_INK_DIM,
		      k->sm ? gs_fmt_bytes(out, shared) : "-");
	snprintf(text, sizeof(text), "%" PRIu64 " failed", k->failed);
	gs_grid_rest(g, GS_INK_WARN, k->failed ? text : "", GS_CUT_END);
}

void gs_report_summary_kernels(struct gs_page *page, const struct gs_summary *s, unsigned n_top)
{
	size_t n = n_top && s->n_kernels > (size_t)n_top + 1 ? n_top : s->n_kernels;
	struct gs_grid g = {.page = page, .measuring = true};
	size_t keep_columns = 0;
	bool graphs = false;
	char text[160];

	for (size_t i = 0; i < n; i++) {
		keep_columns = s->kernels[i].failed ? FAILED_COLUMNS : keep_columns;
		graphs |= s->kernels[i].graph_runs > 0;
	}
	gs_page_line(page);
	gs_page_rest(page, GS_INK_BOLD, "Kernels, by launches", GS_CUT_END);
	gs_page_line(page);
	for (int pass = 0; pass < 2 && n; pass++) {
		put_heads(&g, graphs);
		for (size_t i = 0; i < n; i++)
			put_kernel(&g, s, &s->kernels[i], graphs);
		if (pass == 0)
			gs_grid_fit(&g, 0, keep_columns);
	}
	if (n < s->n_kernels) {
		snprintf(text, sizeof(text), "... and %zu more (--top 0 shows all)",
			 s->n_kernels - n);
	} else if (!s->n_kernels) {
		snprintf(
			text, sizeof(text),
			"No launch was recorded: launches that were added up have no kernel names.");
	} else {
		return;
	}
	gs_page_gap(page, 2);
	gs_page_words(page, GS_INK_DIM, text);
}

static const char *how_word(unsigned how)
{
	static const char *const words[] = {[GS_KERNEL_UNKNOWN] = "unknown",
					    [GS_KERNEL_REGISTERED] = "registered",
					    [GS_KERNEL_SYMBOL] = "symbol",
					    [GS_KERNEL_LOADED] = "loaded"};

	return how < GS_ARRAY_LEN(words) ? words[how] : words[0];
}

static void put_needs(struct gs_doc *doc, const struct gs_kernel_summary *k)
{
	gs_doc_put_u64_if(doc, "compute_capability", k->sm, k->sm);
	gs_doc_put_u64_if(doc, "registers", k->registers, k->sm);
	gs_doc_put_u64_if(doc, "static_shared_bytes", k->static_shared_bytes, k->sm);
	gs_doc_put_u64_if(doc, "constant_bytes", k->constant_bytes, k->sm);
	gs_doc_put_u64_if(doc, "local_bytes", k->local_bytes, k->sm);
	gs_doc_put_u64_if(doc, "code_bytes", k->code_bytes, k->sm);
	gs_doc_put_u64_if(doc, "max_threads", k->max_threads, k->max_threads);
}

void gs_report_summary_kernel_doc(struct gs_doc *doc, const struct gs_summary *s)
{
	char handle[24];

	gs_doc_begin_list(doc, "kernels", s->n_kernels);
	for (size_t i = 0; i < s->n_kernels; i++) {
		const struct gs_kernel_summary *k = &s->kernels[i];
		double n = (double)k->launches;

		snprintf(handle, sizeof(handle), "0x%" PRIx64, k->function);
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "name", k->name);
		gs_doc_put_text(doc, "short_name", k->short_name);
		gs_doc_put_text(doc, "symbol", k->symbol);
		gs_doc_put_text(doc, "named_by", how_word(k->how));
		gs_doc_put_text(doc, "file", k->file);
		gs_doc_put_text(doc, "function", handle);
		gs_doc_put_u64(doc, "pid", k->pid);
		gs_doc_put_u64(doc, "launches", k->launches);
		gs_doc_put_u64(doc, "failed", k->failed);
		gs_doc_put_u64(doc, "graph_runs", k->graph_runs);
		gs_doc_put_double(doc, "launches_pct", 100 * n / (double)s->kernel_launches);
		gs_doc_put_u64(doc, "total_ns", k->host_ns);
		gs_doc_put_double(doc, "blocks_mean", (double)k->blocks / n);
		gs_doc_put_double(doc, "threads_mean", (double)k->threads / n);
		gs_doc_put_double(doc, "dynamic_shared_bytes_mean",
				  (double)k->dynamic_shared_bytes / n);
		put_needs(doc, k);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}
