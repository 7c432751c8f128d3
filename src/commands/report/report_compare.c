/*
 * gpuscope report --compare of recordings. Each file is read twice: first for its steps, which are known for
 * sure at the end alone, and for the windows in which GPU work is known; then once more, of the thread that makes
 * them, of samples of the others and of the GPU work of their process, with a summary at the end of each block of
 * steps.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run_compare/run_compare.h"
#include "commands/common/cli.h"
#include "commands/common/summary.h"
#include "commands/report/damage.h"
#include "commands/report/report_compare.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/output.h"
#include "core/base/vec.h"
#include "model/gpu_work/record.h"
#include "model/trace/dict.h"
#include "output/run_page/run_page.h"
#include "pipeline/aggregate/aggregate.h"
#include "pipeline/recording/recording.h"

#define STEPS_MAX (1u << 20) /* of a slot; a run is compared by these */
#define RUNS_MAX  64         /* files in all */

bool cmd_is_recording(const char *path)
{
	static const char magic[] = "\x89GST\r\n\x1a\n";
	char begin[sizeof(magic) - 1];
	GS_FCLOSE FILE *f = fopen(path, "re");
	size_t n = strlen(path);

	if (!f)
		return n > 4 && strcmp(path + n - 4, ".gst") == 0;
	return fread(begin, sizeof(begin), 1, f) == 1 && memcmp(begin, magic, sizeof(begin)) == 0;
}

/* --- first: which steps, and which windows --- */

#define WINDOWS_MAX (1u << 20) /* later ones are left out */

struct window { /* of a process */
	struct gs_run_compare_window span;
	uint32_t process; /* id */
	bool is_open;
};

struct windows {
	struct window *all; /* owned; in the order in which they opened */
	size_t n, capacity;
	struct gs_map open; /* process -> index */
};

static int take_window(struct windows *w, const struct gs_rec_gpu_window *r)
{
	uint64_t at;

	if (r->what == GS_GPU_WINDOW_OPENED) {
		if (w->n == WINDOWS_MAX)
			return 0;
		if (!gs_vec_reserve(&w->all, &w->capacity, w->n + 1) ||
		    gs_map_put(&w->open, r->process, w->n) < 0)
			return -ENOMEM;
		w->all[w->n++] = (struct window){{r->time_ns, r->time_ns}, r->process, true};
		return 0;
	}
	if (!gs_map_get(&w->open, r->process, &at) || !w->all[at].is_open)
		return 0;
	w->all[at].is_open = false;
	w->all[at].span.to_ns = r->time_ns;
	return 0;
}

/* A window that never closed, of a process that was killed, is as long as there is work in it. */
static void take_work_of_window(struct windows *w, const struct gs_rec_gpu_work *r)
{
	uint64_t at;

	if (gs_map_get(&w->open, r->process, &at) && w->all[at].is_open &&
	    r->work.end_ns > w->all[at].span.to_ns)
		w->all[at].span.to_ns = r->work.end_ns;
}

static int take_windows(struct windows *w, const struct gs_batch *batch)
{
	int ret = 0;

	gs_records_for_each (batch, r) {
		if (r->kind == GS_REC_GPU_WINDOW)
			ret = take_window(w, (const void *)r);
		else if (r->kind == GS_REC_GPU_WORK)
			take_work_of_window(w, (const void *)r);
		if (ret < 0)
			return ret;
	}
	return 0;
}

static int set_windows(struct gs_run_compare_run *run, const struct windows *w,
		       const struct gs_run_compare_step *steps, size_t n_steps, uint32_t process)
{
	GS_FREE struct gs_run_compare_window *own = malloc((w->n + 1) * sizeof(*own));
	size_t n = 0;

	if (!own)
		return -ENOMEM;
	for (size_t i = 0; i < w->n; i++)
		if (w->all[i].process == process)
			own[n++] = w->all[i].span;
	return gs_run_compare_set_windows(run, own, n, steps, n_steps);
}

struct slot {                              /* of an attempt at steps */
	struct gs_run_compare_step *steps; /* owned */
	size_t n, capacity;
	uint32_t run, process, tid;
};

struct steps {
	struct slot slots[GS_AGGREGATE_STEP_SLOTS];
	int r; /* -ENOMEM */
};

static void free_steps(struct steps *steps)
{
	for (unsigned i = 0; i < GS_AGGREGATE_STEP_SLOTS; i++)
		free(steps->slots[i].steps);
}

static void take_step(void *ctx, const struct gs_aggregate_step *step)
{
	struct steps *all = ctx;
	struct slot *slot = &all->slots[step->slot];

	if (slot->run != step->run)
		slot->n = 0;
	slot->run = step->run;
	slot->process = step->process;
	slot->tid = step->tid;
	if (slot->n == STEPS_MAX)
		return;
	if (!gs_vec_reserve(&slot->steps, &slot->capacity, slot->n + 1)) {
		all->r = -ENOMEM;
		return;
	}
	slot->steps[slot->n++] = (struct gs_run_compare_step){step->start_ns, step->dur_ns};
}

/* *ret: the steps that the summary shows; NULL: none. */
static int read_steps(const char *path, struct gs_run_compare_run *run, struct steps *steps,
		      const struct slot **ret, struct gs_err *err)
{
	struct windows windows = {.open = GS_MAP_INIT(1u << 20)};
	GS_CLEANUP(gs_summary_free) struct gs_summary *summary = NULL;
	struct gs_recording_reader *reader = NULL;
	struct gs_aggregate *view = NULL;
	struct gs_recording_stats stats;
	const struct slot *slot = NULL;
	struct gs_batch batch;
	int r = gs_recording_open(path, &reader, err);

	if (r == 0)
		r = gs_aggregate_new(&view);
	if (r == 0)
		gs_aggregate_set_step_receiver(view, take_step, steps);
	while (r == 0 && (r = gs_recording_next(reader, &batch)) == 0) {
		r = gs_aggregate_sink(view)->push(gs_aggregate_sink(view)->ctx, &batch);
		if (r == 0)
			r = take_windows(&windows, &batch);
	}
	r = r > 0 ? 0 : r;
	if (r == 0)
		r = gs_aggregate_make_summary(view, &summary);
	if (r == 0 && steps->r < 0)
		r = steps->r;
	if (r == 0) {
		gs_recording_stats(reader, &stats);
		cmd_report_damage(path, &stats);
		if (summary->steps.run &&
		    steps->slots[summary->steps.slot].run == summary->steps.run)
			slot = &steps->slots[summary->steps.slot];
		r = gs_run_compare_set_steps(run, slot ? slot->steps : NULL, slot ? slot->n : 0,
					     summary);
		if (r == 0 && slot)
			r = set_windows(run, &windows, slot->steps, slot->n, slot->process);
	}
	*ret = slot;
	free(windows.all);
	gs_map_fini(&windows.open);
	gs_aggregate_free(&view);
	gs_recording_reader_close(&reader);
	return r;
}

/* --- second: where their time goes --- */

struct places {
	struct gs_run_compare_run *run;
	const struct slot *steps;
	uint32_t thread;                   /* id of the steps' thread; 0: not announced yet */
	unsigned next;                     /* bound */
	struct gs_aggregate *own, *others; /* owned */
	struct gs_buf own_records, other_records; /* not pushed yet */
	struct gs_dict *dict;                     /* owned; names of kernels */
};

static int push_records(struct gs_aggregate *view, struct gs_buf *records)
{
	struct gs_batch batch = {.data = records->data, .bytes = records->bytes};
	int r = gs_aggregate_sink(view)->push(gs_aggregate_sink(view)->ctx, &batch);

	gs_buf_reset(records);
	return r;
}

static int push_all(struct places *p)
{
	int r = push_records(p->own, &p->own_records);

	return r == 0 ? push_records(p->others, &p->other_records) : r;
}

static int end_block(struct places *p)
{
	GS_CLEANUP(gs_summary_free) struct gs_summary *own = NULL;
	GS_CLEANUP(gs_summary_free) struct gs_summary *others = NULL;
	int r = push_all(p);

	if (r == 0)
		r = gs_aggregate_make_summary(p->own, &own);
	if (r == 0)
		r = gs_aggregate_make_summary(p->others, &others);
	return r == 0 ? gs_run_compare_take(p->run, p->next++, own, others) : r;
}

/* What has happened at a record of the steps' thread: calls come when they end. 0: no matter of theirs. */
static uint64_t end_of(const struct places *p, const struct gs_record *r)
{
	const struct gs_rec_call *c = (const void *)r;
	const struct gs_rec_sample *s = (const void *)r;
	const struct gs_rec_wait *w = (const void *)r;

	if (!p->thread)
		return 0;
	if (r->kind == GS_REC_CALL)
		return c->thread == p->thread ? c->start_ns + c->dur_ns : 0;
	if (r->kind == GS_REC_SAMPLE)
		return s->thread == p->thread ? s->time_ns : 0;
	if (r->kind == GS_REC_WAIT)
		return w->thread == p->thread ? w->time_ns : 0;
	return 0;
}

/* Other threads that wait for work wait longer when steps are longer, which is no reason of it. */
static bool is_of_others(const struct places *p, const struct gs_record *r)
{
	const struct gs_rec_wait *w = (const void *)r;

	if (r->kind == GS_REC_SAMPLE)
		return ((const struct gs_rec_sample *)(const void *)r)->thread != p->thread;
	return r->kind == GS_REC_WAIT && w->thread != p->thread &&
	       (w->cause == GS_STATE_DISK || w->cause == GS_STATE_FAULT);
}

/* Sums that the kernel made, of another thread. */
static bool is_foreign_sum(const struct places *p, const struct gs_record *r)
{
	if (r->kind == GS_REC_STATS)
		return ((const struct gs_rec_stats *)(const void *)r)->thread != p->thread;
	return r->kind == GS_REC_USE &&
	       ((const struct gs_rec_use *)(const void *)r)->thread != p->thread;
}

static int take_gpu_work(struct places *p, const struct gs_rec_gpu_work *r)
{
	return r->process == p->steps->process
		       ? gs_run_compare_take_work(p->run, &r->work,
						  gs_dict_string(p->dict, r->name_str))
		       : 0;
}

static int take_record(struct places *p, const struct gs_record *r)
{
	const struct gs_rec_thread *t = (const void *)r;
	uint64_t end_ns = end_of(p, r);
	bool is_timed =
		r->kind == GS_REC_CALL || r->kind == GS_REC_SAMPLE || r->kind == GS_REC_WAIT;
	int ret = 0;

	/* GPU work comes some time after the steps in which it ran, so it goes by its own times. */
	if (r->kind == GS_REC_GPU_WORK)
		return take_gpu_work(p, (const void *)r);
	if (is_foreign_sum(p, r))
		return 0;
	if (gs_dict_apply(p->dict, r) == -ENOMEM)
		return -ENOMEM;
	if (r->kind == GS_REC_THREAD && t->process == p->steps->process && t->tid == p->steps->tid)
		p->thread = t->id;
	while (ret == 0 && p->next < gs_run_compare_n_bounds(p->run) &&
	       end_ns > gs_run_compare_bound_ns(p->run, p->next))
		ret = end_block(p);
	if (ret == 0 && (!is_timed || end_ns))
		ret = gs_buf_put(&p->own_records, r, r->bytes);
	if (ret == 0 && (!is_timed || is_of_others(p, r)))
		ret = gs_buf_put(&p->other_records, r, r->bytes);
	return ret;
}

static int take_batch(struct places *p, const struct gs_batch *batch)
{
	gs_records_for_each (batch, r) {
		int ret = take_record(p, r);

		if (ret < 0)
			return ret;
	}
	return push_all(p);
}

static int read_places(const char *path, struct gs_run_compare_run *run, const struct slot *steps,
		       struct gs_err *err)
{
	struct places p = {.run = run,
			   .steps = steps,
			   .own_records = GS_BUF_INIT(1u << 28),
			   .other_records = GS_BUF_INIT(1u << 28)};
	struct gs_recording_reader *reader = NULL;
	struct gs_batch batch;
	int r = gs_recording_open(path, &reader, err);

	p.dict = gs_dict_new();
	if (r == 0 && !p.dict)
		r = -ENOMEM;
	if (r == 0)
		r = gs_aggregate_new(&p.own);
	if (r == 0)
		r = gs_aggregate_new(&p.others);
	while (r == 0 && (r = gs_recording_next(reader, &batch)) == 0)
		r = take_batch(&p, &batch);
	r = r > 0 ? 0 : r;
	while (r == 0 && p.next < gs_run_compare_n_bounds(run))
		r = end_block(&p);
	if (r == 0)
		r = gs_run_compare_end_work(run);
	gs_dict_free(&p.dict);
	gs_aggregate_free(&p.own);
	gs_aggregate_free(&p.others);
	gs_buf_fini(&p.own_records);
	gs_buf_fini(&p.other_records);
	gs_recording_reader_close(&reader);
	return r;
}

static int read_run(const char *path, struct gs_run_compare_run **ret)
{
	struct gs_err err = {{0}};
	struct steps steps = {.r = 0};
	const struct slot *slot = NULL;
	int r = gs_run_compare_new_run(path, ret);

	if (r == 0)
		r = read_steps(path, *ret, &steps, &slot, &err);
	if (r == 0 && slot && gs_run_compare_n_bounds(*ret))
		r = read_places(path, *ret, slot, &err);
	free_steps(&steps);
	if (r < 0 && !err.text[0])
		gs_err_set(&err, r, "cannot read %s: %s", path, strerror(-r));
	if (r < 0)
		gs_cli_print_message("%s", err.text);
	return r;
}

/* --- what is compared with what --- */

enum page { AS_TEXT, AS_HTML, AS_PDF };

static int write_pdf(FILE *out, const struct gs_run_compare_result *results, size_t n,
		     struct gs_err *err)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf pdf = GS_BUF_INIT(64u << 20);
	int r = gs_run_page_write_comparison_pdf(&pdf, results, n, err);

	if (r == 0 && fwrite(pdf.data, 1, pdf.bytes, out) != pdf.bytes)
		r = -EIO;
	return r;
}

static int write_results(const struct cmd_compare_runs *o, enum page page,
			 const struct gs_run_compare_result *results, size_t n,
			 struct gs_run_compare_style *style)
{
	struct gs_report_summary_style terminal = {.size = sizeof(terminal)};
	struct gs_output file = GS_OUTPUT_INIT;
	struct gs_err err = {{0}};
	FILE *out = stdout;
	int r = 0;

	if (o->output) {
		r = gs_output_open(o->output, 0, &file, &err);
		out = r == 0 ? gs_output_stream(&file) : NULL;
	}
	gs_cli_summary_page(stdout, o->output, true, o->width, &terminal);
	style->width = terminal.width;
	style->color = terminal.color;
	if (r == 0 && !out)
		r = -ENOMEM;
	if (r == 0)
		r = page == AS_PDF    ? write_pdf(out, results, n, &err)
		    : page == AS_HTML ? gs_run_page_write_comparison(out, results, n)
				      : gs_run_compare_write(out, results, n, style);
	r = gs_output_close(&file, r, &err);
	if (r < 0)
		gs_cli_print_message("cannot write %s: %s",
				     o->output ? o->output : "the comparison",
				     gs_err_text(&err, r));
	else if (o->output)
		gs_cli_report_written(o->output, NULL);
	return r;
}

static int compare_runs(const struct cmd_compare_runs *o, enum page page,
			struct gs_run_compare_style *style, struct gs_run_compare_run **runs)
{
	const struct gs_run_compare_run *const *all = (const void *)runs;
	size_t n_base = o->n_base ? o->n_base : 1, n = o->n_base ? 1 : o->n_files - 1;
	GS_FREE struct gs_run_compare_result *results = calloc(RUNS_MAX, sizeof(*results));
	int r = results ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = gs_run_compare_make(all, n_base, all + n_base + i, o->n_base ? o->n_files : 1,
					&results[i]);
	if (r < 0)
		gs_cli_print_message("%s", strerror(-r));
	else
		r = write_results(o, page, results, n, style);
	for (size_t i = 0; results && i < n; i++)
		gs_run_compare_result_fini(&results[i]);
	return r;
}

/* A suffix, or with --format, whatever the file is called. */
static bool is_page(const struct cmd_compare_runs *o, const char *word)
{
	size_t bytes = o->output ? strlen(o->output) : 0, n = strlen(word) + 1;

	if (o->format)
		return strcmp(o->format, word) == 0;
	return bytes > n && o->output[bytes - n] == '.' &&
	       strcmp(o->output + bytes - n + 1, word) == 0;
}

static int find_format(const struct cmd_compare_runs *o, enum gs_run_compare_format *ret,
		       enum page *ret_page)
{
	static const char *const words[] = {"table", "json", "yaml"};
	static const char *const suffixes[] = {".txt", ".json", ".yaml"};
	size_t bytes = o->output ? strlen(o->output) : 0;

	*ret = GS_RUN_COMPARE_TABLE;
	*ret_page = is_page(o, "html") ? AS_HTML : is_page(o, "pdf") ? AS_PDF : AS_TEXT;
	if (*ret_page != AS_TEXT)
		return *ret_page == AS_HTML || o->output ? 0 : -EINVAL;
	if (!o->format && (!o->output || strcmp(o->output, "-") == 0))
		return 0;
	for (unsigned i = 0; i < GS_ARRAY_LEN(words); i++) {
		size_t n = strlen(suffixes[i]);

		*ret = (enum gs_run_compare_format)i;
		if (o->format ? strcmp(o->format, words[i]) == 0
			      : bytes > n && strcmp(o->output + bytes - n, suffixes[i]) == 0)
			return 0;
	}
	return -EINVAL;
}

int gs_cmd_compare_runs(const struct cmd_compare_runs *o)
{
	struct gs_run_compare_run *runs[RUNS_MAX] = {0};
	struct gs_run_compare_style style = {0};
	enum page page;
	size_t n = o->n_base + o->n_files;
	int r = 0;

	if (find_format(o, &style.format, &page) < 0) {
		gs_cli_print_message(
			"a comparison of recordings is a table, JSON, YAML, a page or a PDF: --format, or -o FILE.txt, FILE.json, FILE.yaml, FILE.html or FILE.pdf");
		return GS_EXIT_USAGE;
	}
	if (n < 2 || n > RUNS_MAX) {
		gs_cli_print_message(n < 2 ? "compare with which recording? give two or more"
					   : "at most 64 recordings");
		return GS_EXIT_USAGE;
	}
	for (size_t i = 0; r == 0 && i < n; i++)
		r = read_run(i < o->n_base ? o->base[i] : o->files[i - o->n_base], &runs[i]);
	if (r == 0)
		r = compare_runs(o, page, &style, runs);
	for (size_t i = 0; i < n; i++)
		gs_run_compare_free_run(&runs[i]);
	return r < 0 ? GS_EXIT_FAILED : GS_EXIT_DONE;
}
