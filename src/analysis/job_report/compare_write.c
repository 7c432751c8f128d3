/* Comparisons as a table, as JSON and as a page. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "analysis/job_report/compare_int.h"
#include "analysis/job_report/report_int.h"
#include "core/text/doc.h"
#include "core/text/page.h"

#define LABEL_BYTES 208
#define TABLE_ROWS  200

static double round_number(double v)
{
	return isnan(v) ? v : round(v * 100) / 100;
}

static void put_stat(struct gs_doc *doc, const char *key, const struct gs_job_report_stat *s)
{
	gs_doc_begin_flat(doc, key);
	gs_doc_put_u64(doc, "n", s->n);
	gs_doc_put_double(doc, "median", round_number(s->median));
	gs_doc_put_double(doc, "mad", round_number(s->mad));
	gs_doc_put_double(doc, "mean", round_number(s->mean));
	gs_doc_put_double(doc, "std", round_number(s->stddev));
	gs_doc_put_double(doc, "min", round_number(s->min));
	gs_doc_put_double(doc, "max", round_number(s->max));
	gs_doc_end(doc);
}

static void put_summary(struct gs_doc *doc, const struct gs_job_report_comparison *c)
{
	gs_doc_begin_map(doc, "summary");
	gs_doc_put_u64(doc, "total_jobs", c->n_rows);
	doc->ops->begin(doc, "job_classifications", false, c->n_rows == 0, false);
	for (size_t i = 0; i < c->n_classes; i++)
		gs_doc_put_u64(doc, c->classes[i].name, c->classes[i].n);
	gs_doc_end(doc);
	put_stat(doc, "efficiency_stats", &c->stat[GS_JOB_COMPARED_SCORE]);
	gs_doc_begin_map(doc, "resource_usage_stats");
	for (unsigned what = 1; what < GS_JOB_COMPARED_COUNT; what++)
		put_stat(doc, gs_job_report_compared_key(what), &c->stat[what]);
	gs_doc_end(doc);
	gs_doc_end(doc);
}

static void put_rows(struct gs_doc *doc, const struct gs_job_report_comparison *c)
{
	gs_doc_begin_list(doc, "jobs", c->n_rows);
	for (size_t i = 0; i < c->n_rows; i++) {
		const struct gs_job_report_row *row = &c->rows[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "job_id", row->id);
		gs_doc_put_text(doc, "user", row->user);
		gs_doc_put_text(doc, "job_name", row->name);
		gs_doc_put_text(doc, "file", row->file);
		gs_doc_put_text(doc, "classification", row->job_class);
		for (unsigned what = 0; what < GS_JOB_COMPARED_COUNT; what++)
			gs_doc_put_double(doc, gs_job_report_compared_key(what),
					  round_number(row->v[what]));
		gs_doc_end(doc);
		gs_pen_yield(doc->pen);
	}
	gs_doc_end(doc);
}

/* A process tree is called by its program's name. */
static const char *row_label(const struct gs_job_report_row *row, char out[LABEL_BYTES])
{
	bool is_tree = row->name[0] && strncmp(row->id, "tree of ", 8) == 0;

	snprintf(out, LABEL_BYTES, "%s%s%s%s", is_tree ? row->name : "", is_tree ? " (" : "",
		 is_tree ? row->id + 8 : row->id, is_tree ? ")" : "");
	return out;
}

static void put_patterns(struct gs_doc *doc, const struct gs_job_report_comparison *c)
{
	gs_doc_begin_map(doc, "patterns");
	gs_doc_put_text(doc, "most_common", c->n_classes ? c->classes[0].name : "");
	for (unsigned p = 0; p < GS_JOB_PATTERN_COUNT; p++) {
		size_t n = 0;

		for (size_t i = 0; i < c->n_rows; i++)
			n += gs_job_report_row_is(&c->rows[i], p);
		gs_doc_begin_list(doc, gs_job_report_pattern_key(p), n);
		for (size_t i = 0; i < c->n_rows; i++)
			if (gs_job_report_row_is(&c->rows[i], p))
				gs_doc_put_text(doc, NULL, c->rows[i].id);
		gs_doc_end(doc);
	}
	gs_doc_begin_list(doc, "trends", c->n_trends);
	for (size_t i = 0; i < c->n_trends; i++) {
		const struct gs_job_report_trend *t = &c->trends[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "job_name", c->rows[t->first_row].name);
		gs_doc_put_text(doc, "user", c->rows[t->first_row].user);
		gs_doc_put_u64(doc, "runs", t->n);
		gs_doc_put_text(doc, "direction",
				t->direction > 0   ? "improving"
				: t->direction < 0 ? "declining"
						   : "steady");
		gs_doc_put_double(doc, "points_per_run", round_number(t->slope));
		gs_doc_put_double(doc, "chance", t->probability);
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	gs_doc_end(doc);
}

static void put_rest(struct gs_doc *doc, const struct gs_job_report_comparison *c)
{
	char text[256];
	size_t n = 0;

	gs_doc_begin_list(doc, "users", c->n_users);
	for (size_t i = 0; i < c->n_users; i++) {
		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "user", c->users[i].name);
		gs_doc_put_u64(doc, "jobs", c->users[i].n);
		gs_doc_put_double(doc, "median_efficiency", round_number(c->users[i].median_score));
		gs_doc_put_double(doc, "unused_core_seconds",
				  round_number(c->users[i].wasted_core_s));
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
	while (gs_job_report_compare_advice(c, n, text, sizeof(text)))
		n++;
	gs_doc_begin_list(doc, "recommendations", n);
	for (size_t i = 0; i < n; i++) {
		gs_job_report_compare_advice(c, i, text, sizeof(text));
		gs_doc_put_text(doc, NULL, text);
	}
	gs_doc_end(doc);
	gs_doc_begin_list(doc, "outliers", c->n_outliers);
	for (size_t i = 0; i < c->n_outliers; i++) {
		const struct gs_job_report_outlier *o = &c->outliers[i];

		gs_doc_begin_flat(doc, NULL);
		gs_doc_put_text(doc, "job_id", c->rows[o->row].id);
		gs_doc_put_text(doc, "file", c->rows[o->row].file);
		gs_doc_put_text(doc, "metric", gs_job_report_compared_key(o->what));
		gs_doc_put_double(doc, "value", round_number(c->rows[o->row].v[o->what]));
		gs_doc_put_double(doc, "median", round_number(c->stat[o->what].median));
		gs_doc_put_double(doc, "deviations", round_number(o->score));
		gs_doc_end(doc);
	}
	gs_doc_end(doc);
}

static void put_doc(struct gs_pen *pen, const struct gs_job_report_comparison *c,
		    const struct gs_doc_ops *ops)
{
	struct gs_doc doc = {.ops = ops, .pen = pen};

	gs_doc_begin_map(&doc, NULL);
	gs_doc_put_version(&doc);
	put_summary(&doc, c);
	put_rows(&doc, c);
	put_patterns(&doc, c);
	put_rest(&doc, c);
	gs_doc_end(&doc);
	gs_pen_puts(pen, "\n");
}

static const char *format_number(char out[32], double v)
{
	if (isnan(v))
		snprintf(out, 32, "-");
	else
		snprintf(out, 32, "%.1f", v);
	return out;
}

static void grid_numbers(struct gs_grid *g, const double v[GS_JOB_COMPARED_COUNT])
{
	char text[32];

	for (unsigned what = 0; what < GS_JOB_COMPARED_COUNT; what++)
		gs_grid_right(g, GS_INK_PLAIN, format_number(text, v[what]));
}

static void put_grid(struct gs_grid *g, const struct gs_job_report_comparison *c)
{
	size_t n = c->n_rows < TABLE_ROWS ? c->n_rows : TABLE_ROWS;
	double median[GS_JOB_COMPARED_COUNT], mad[GS_JOB_COMPARED_COUNT];
	char label[LABEL_BYTES];

	gs_grid_left(g, GS_INK_DIM, "Job", GS_CUT_END);
	gs_grid_left(g, GS_INK_DIM, "User", GS_CUT_END);
	for (unsigned what = 0; what < GS_JOB_COMPARED_COUNT; what++) {
		gs_grid_right(g, GS_INK_DIM, gs_job_report_compared_title(what));
		median[what] = c->stat[what].median;
		mad[what] = c->stat[what].mad;
	}
	gs_grid_rest(g, GS_INK_DIM, "Class", GS_CUT_END);
	for (size_t i = 0; i < n; i++) {
		gs_grid_left(g, GS_INK_PLAIN, row_label(&c->rows[i], label), GS_CUT_MIDDLE);
		gs_grid_left(g, GS_INK_PLAIN, c->rows[i].user[0] ? c->rows[i].user : "-",
			     GS_CUT_END);
		grid_numbers(g, c->rows[i].v);
		gs_grid_rest(g, GS_INK_PLAIN, c->rows[i].job_class, GS_CUT_END);
	}
	gs_grid_left(g, GS_INK_BOLD, "median", GS_CUT_END);
	gs_grid_left(g, GS_INK_BOLD, "", GS_CUT_END);
	grid_numbers(g, median);
	gs_grid_rest(g, GS_INK_PLAIN, c->n_classes ? c->classes[0].name : "", GS_CUT_END);
	gs_grid_left(g, GS_INK_DIM, "spread", GS_CUT_END);
	gs_grid_left(g, GS_INK_DIM, "", GS_CUT_END);
	grid_numbers(g, mad);
	gs_grid_rest(g, GS_INK_DIM, "(median absolute deviation)", GS_CUT_END);
}

static void put_line(struct gs_page *page, enum gs_ink ink, const char *text)
{
	gs_page_gap(page, 2);
	gs_page_words(page, ink, text);
}

static void put_findings(struct gs_page *page, const struct gs_job_report_comparison *c)
{
	char text[512], a[GS_FMT_BYTES], label[LABEL_BYTES];

	gs_page_line(page);
	for (size_t i = 0; i < c->n_outliers && i < 20; i++) {
		const struct gs_job_report_outlier *o = &c->outliers[i];

		snprintf(text, sizeof(text),
			 "outlier: %s has %s %.1f, half have %.1f or %s (%+.1f deviations)",
			 row_label(&c->rows[o->row], label), gs_job_report_compared_key(o->what),
			 c->rows[o->row].v[o->what], c->stat[o->what].median,
			 o->score > 0 ? "less" : "more", o->score);
		put_line(page, GS_INK_WARN, text);
	}
	if (c->n_outliers > 20) {
		snprintf(text, sizeof(text), "and %zu further outliers (--format json has all)",
			 c->n_outliers - 20);
		put_line(page, GS_INK_DIM, text);
	}
	for (size_t i = 0; i < c->n_trends; i++) {
		const struct gs_job_report_trend *t = &c->trends[i];

		snprintf(text, sizeof(text), "%s: %s of %s, %+.1f points a run over %zu runs",
			 t->direction > 0   ? "improving"
			 : t->direction < 0 ? "declining"
					    : "steady",
			 c->rows[t->first_row].name, c->rows[t->first_row].user, t->slope, t->n);
		put_line(page, t->direction < 0 ? GS_INK_RED : GS_INK_PLAIN, text);
	}
	for (size_t i = 0; i < c->n_users && i < 20; i++) {
		snprintf(text, sizeof(text),
			 "user %s: %zu job%s, median score %.1f, %s of processors unused",
			 c->users[i].name[0] ? c->users[i].name : "?", c->users[i].n,
			 c->users[i].n == 1 ? "" : "s", c->users[i].median_score,
			 gs_fmt_ns(a, (uint64_t)(fmax(0, c->users[i].wasted_core_s) * 1e9)));
		put_line(page, GS_INK_PLAIN, text);
	}
	for (size_t i = 0; gs_job_report_compare_advice(c, i, text, sizeof(text)); i++)
		put_line(page, GS_INK_BOLD, text);
}

static void put_table(struct gs_pen *pen, const struct gs_job_report_comparison *c,
		      const struct gs_job_report_style *style)
{
	struct gs_page page;
	struct gs_grid grid;
	char text[128];

	gs_page_init(&page, pen, style->width, style->color);
	grid = (struct gs_grid){.page = &page, .measuring = true};
	put_grid(&grid, c);
	gs_grid_fit(&grid, 0, 12);
	put_grid(&grid, c);
	if (c->n_rows > TABLE_ROWS) {
		snprintf(text, sizeof(text), "and %zu further jobs (--format json has all)",
			 c->n_rows - TABLE_ROWS);
		put_line(&page, GS_INK_DIM, text);
	}
	put_findings(&page, c);
	gs_page_fini(&page);
}

int gs_job_report_compare_write(FILE *out, const struct gs_job_report_comparison *c,
				const struct gs_job_report_style *style)
{
	struct gs_pen pen;

	gs_pen_open(&pen, out);
	switch (style->format) {
	case GS_JOB_TABLE:
		put_table(&pen, c, style);
		break;
	case GS_JOB_HTML:
		gs_job_report_begin_page(&pen);
		put_doc(&pen, c, &gs_doc_script);
		gs_job_report_end_page(&pen);
		break;
	default:
		put_doc(&pen, c, style->format == GS_JOB_YAML ? &gs_doc_yaml : &gs_doc_json);
		break;
	}
	return gs_pen_close(&pen);
}
