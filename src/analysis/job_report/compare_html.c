/* A comparison as one HTML file that needs nothing else: tables, and pictures as SVG in it. */
#include <math.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "analysis/job_report/compare_int.h"
#include "analysis/job_report/html.h"

#define HTML_ROWS 5000

static void put_histogram(struct gs_pen *pen, const struct gs_job_report_comparison *c)
{
	size_t bin[20] = {0}, most = 1;

	for (size_t i = 0; i < c->n_rows; i++) {
		double v = c->rows[i].v[GS_JOB_COMPARED_SCORE];

		if (!isnan(v) && ++bin[(size_t)fmin(19, fmax(0, v / 5))] > most)
			most = bin[(size_t)fmin(19, fmax(0, v / 5))];
	}
	gs_pen_puts(pen, "<figure><figcaption>Efficiency score</figcaption>"
			 "<svg viewBox='0 0 220 120' role='img' aria-label='histogram of scores'>");
	for (size_t i = 0; i < 20; i++)
		gs_pen_printf(pen,
			      "<rect x='%zu' y='%zu' width='9' height='%zu'><title>%zu to %zu: "
			      "%zu jobs</title></rect>",
			      10 + i * 10, 100 - bin[i] * 90 / most, bin[i] * 90 / most, i * 5,
			      i * 5 + 5, bin[i]);
	gs_pen_puts(pen, "<path d='M10 100H210'/><text x='10' y='110'>0</text><text class=m "
			 "x='110' y='110'>50</text><text class=e x='210' y='110'>100</text>"
			 "<text x='10' y='8'>");
	gs_pen_printf(pen, "%zu job%s</text></svg></figure>\n", most, most == 1 ? "" : "s");
}

static void put_scatter(struct gs_pen *pen, const struct gs_job_report_comparison *c)
{
	gs_pen_puts(pen, "<figure><figcaption>CPU and I/O, percent</figcaption><svg "
			 "viewBox='0 0 220 120' role='img' aria-label='CPU and I/O of each job'>"
			 "<path d='M20 8V104H214'/><text x='20' y='114'>0</text><text class=e "
			 "x='214' y='114'>CPU 100</text><text class=e x='18' y='104'>0</text>"
			 "<text x='22' y='12'>I/O 100</text>");
	for (size_t i = 0; i < c->n_rows && i < HTML_ROWS; i++) {
		double cpu = c->rows[i].v[GS_JOB_COMPARED_CPU];
		double io = c->rows[i].v[GS_JOB_COMPARED_IO];

		if (isnan(cpu) || isnan(io))
			continue;
		gs_pen_puts(pen, "<circle r='2.5' cx='");
		gs_job_report_html_number(pen, 20 + 1.94 * fmin(100, fmax(0, cpu)), 1);
		gs_pen_puts(pen, "' cy='");
		gs_job_report_html_number(pen, 104 - .96 * fmin(100, fmax(0, io)), 1);
		gs_pen_puts(pen, "'><title>");
		gs_job_report_html_text(pen, c->rows[i].id);
		gs_pen_puts(pen, " ");
		gs_job_report_html_text(pen, c->rows[i].job_class);
		gs_pen_puts(pen, "</title></circle>");
	}
	gs_pen_puts(pen, "</svg></figure>\n");
}

static void put_jobs(struct gs_pen *pen, const struct gs_job_report_comparison *c)
{
	const char *heads[4 + GS_JOB_COMPARED_COUNT + 1] = {"Job", "User", "Name", "Class"};
	char titles[GS_JOB_COMPARED_COUNT][48];

	for (unsigned w = 0; w < GS_JOB_COMPARED_COUNT; w++) {
		snprintf(titles[w], sizeof(titles[w]), "#%s", gs_job_report_compared_title(w));
		heads[4 + w] = titles[w];
	}
	gs_pen_puts(pen, "<h2>Jobs</h2>");
	gs_job_report_html_table(pen, "jobs", heads);
	for (size_t i = 0; i < c->n_rows && i < HTML_ROWS; i++) {
		const struct gs_job_report_row *row = &c->rows[i];
		const char *texts[] = {row->id, row->user, row->name, row->job_class};

		gs_pen_puts(pen, "<tr>");
		for (size_t k = 0; k < GS_ARRAY_LEN(texts); k++) {
			gs_pen_puts(pen, "<td class=w>");
			gs_job_report_html_text(pen, texts[k]);
			gs_pen_puts(pen, "</td>");
		}
		for (unsigned w = 0; w < GS_JOB_COMPARED_COUNT; w++)
			gs_job_report_html_cell(pen, row->v[w], 1);
		gs_pen_puts(pen, "</tr>\n");
		gs_pen_yield(pen);
	}
	for (int which = 0; which < 2; which++) {
		gs_pen_puts(pen, which ? "<tr class=s><td>spread</td><td></td><td></td><td></td>"
				       : "<tr class=s><td>median</td><td></td><td></td><td></td>");
		for (unsigned w = 0; w < GS_JOB_COMPARED_COUNT; w++)
			gs_job_report_html_cell(pen, which ? c->stat[w].mad : c->stat[w].median, 1);
		gs_pen_puts(pen, "</tr>\n");
	}
	gs_job_report_html_table_end(pen);
	if (c->n_rows > HTML_ROWS)
		gs_pen_printf(pen, "<p>The first %d of %zu jobs are shown.</p>\n", HTML_ROWS,
			      c->n_rows);
}

static void put_findings(struct gs_pen *pen, const struct gs_job_report_comparison *c)
{
	char text[256];

	gs_pen_puts(pen, "<h2>Findings</h2><ul>\n");
	for (size_t i = 0; gs_job_report_compare_advice(c, i, text, sizeof(text)); i++) {
		gs_pen_puts(pen, "<li>");
		gs_job_report_html_text(pen, text);
		gs_pen_puts(pen, "</li>\n");
	}
	for (size_t i = 0; i < c->n_outliers && i < HTML_ROWS; i++) {
		const struct gs_job_report_outlier *o = &c->outliers[i];

		gs_pen_puts(pen, "<li>Outlier: ");
		gs_job_report_html_text(pen, c->rows[o->row].id);
		gs_pen_printf(pen, " has %s ", gs_job_report_compared_key(o->what));
		gs_job_report_html_number(pen, c->rows[o->row].v[o->what], 1);
		gs_pen_puts(pen, " (median ");
		gs_job_report_html_number(pen, c->stat[o->what].median, 1);
		gs_pen_puts(pen, ")</li>\n");
	}
	for (size_t i = 0; i < c->n_trends; i++) {
		const struct gs_job_report_trend *t = &c->trends[i];

		gs_pen_puts(pen, t->direction > 0   ? "<li>Improving: "
				 : t->direction < 0 ? "<li>Declining: "
						    : "<li>Steady: ");
		gs_job_report_html_text(pen, c->rows[t->first_row].name);
		gs_pen_puts(pen, " of ");
		gs_job_report_html_text(pen, c->rows[t->first_row].user);
		gs_pen_puts(pen, ", points a run: ");
		gs_job_report_html_number(pen, t->slope, 1);
		gs_pen_printf(pen, " over %zu runs</li>\n", t->n);
	}
	gs_pen_puts(pen, "</ul>\n");
}

static void put_users(struct gs_pen *pen, const struct gs_job_report_comparison *c)
{
	static const char *const heads[] = {"User", "#Jobs", "#Median score", "#Unused core hours",
					    NULL};

	gs_pen_puts(pen, "<h2>Users</h2>");
	gs_job_report_html_table(pen, "users", heads);
	for (size_t i = 0; i < c->n_users && i < HTML_ROWS; i++) {
		gs_pen_puts(pen, "<tr><td>");
		gs_job_report_html_text(pen, c->users[i].name);
		gs_pen_printf(pen, "</td><td class=n>%zu</td>", c->users[i].n);
		gs_job_report_html_cell(pen, c->users[i].median_score, 1);
		gs_job_report_html_cell(pen, c->users[i].wasted_core_s / 3600, 1);
		gs_pen_puts(pen, "</tr>\n");
	}
	gs_job_report_html_table_end(pen);
}

void gs_job_report_put_html(struct gs_pen *pen, const struct gs_job_report_comparison *c)
{
	gs_job_report_html_begin(pen, "gpuscope: comparison of jobs", "");
	gs_pen_printf(pen, "<h1>Comparison of %zu jobs</h1>\n", c->n_rows);
	put_histogram(pen, c);
	put_scatter(pen, c);
	put_findings(pen, c);
	put_users(pen, c);
	put_jobs(pen, c);
	gs_job_report_html_end(pen);
}
