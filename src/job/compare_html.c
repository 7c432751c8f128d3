/* A comparison as one HTML file that needs nothing else: tables, and pictures as SVG in it. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "job/compare_int.h"
#include "text/doc.h"
#include "text/text.h"

#define HTML_ROWS 5000

/* Text of others: nothing in it is markup. */
static void put(struct gs_pen *pen, const char *text)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf clean = GS_BUF_INIT(1u << 16);

	if (gs_text_line(&clean, text) < 0 || gs_buf_put(&clean, "", 1) < 0)
		return;
	for (const char *c = (const char *)clean.data; *c; c++)
		switch (*c) {
		case '&':
			gs_pen_puts(pen, "&amp;");
			break;
		case '<':
			gs_pen_puts(pen, "&lt;");
			break;
		case '>':
			gs_pen_puts(pen, "&gt;");
			break;
		case '"':
			gs_pen_puts(pen, "&quot;");
			break;
		default:
			gs_pen_check(pen, gs_buf_put(&pen->buf, c, 1));
		}
}

/* With a point, whatever the user's language. */
static void put_number(struct gs_pen *pen, double v)
{
	gs_pen_double(pen, round(v * 10) / 10);
}

static void cell(struct gs_pen *pen, double v)
{
	gs_pen_puts(pen, "<td class=n>");
	if (isnan(v))
		gs_pen_puts(pen, "-");
	else
		put_number(pen, v);
	gs_pen_puts(pen, "</td>");
}

static void put_histogram(struct gs_pen *pen, const struct gs_job_comparison *c)
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

static void put_scatter(struct gs_pen *pen, const struct gs_job_comparison *c)
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
		put_number(pen, 20 + 1.94 * fmin(100, fmax(0, cpu)));
		gs_pen_puts(pen, "' cy='");
		put_number(pen, 104 - .96 * fmin(100, fmax(0, io)));
		gs_pen_puts(pen, "'><title>");
		put(pen, c->rows[i].id);
		gs_pen_puts(pen, " ");
		put(pen, c->rows[i].job_class);
		gs_pen_puts(pen, "</title></circle>");
	}
	gs_pen_puts(pen, "</svg></figure>\n");
}

static void put_jobs(struct gs_pen *pen, const struct gs_job_comparison *c)
{
	gs_pen_puts(pen,
		    "<h2>Jobs</h2><div class=t><table><tr><th>Job</th><th>User</th><th>Name</th>"
		    "<th>Class</th>");
	for (unsigned w = 0; w < GS_JOB_COMPARED_COUNT; w++)
		gs_pen_printf(pen, "<th class=n>%s</th>", gs_job_compared_title(w));
	gs_pen_puts(pen, "</tr>\n");
	for (size_t i = 0; i < c->n_rows && i < HTML_ROWS; i++) {
		const struct gs_job_row *row = &c->rows[i];
		const char *texts[] = {row->id, row->user, row->name, row->job_class};

		gs_pen_puts(pen, "<tr>");
		for (size_t k = 0; k < GS_ARRAY_LEN(texts); k++) {
			gs_pen_puts(pen, "<td class=w>");
			put(pen, texts[k]);
			gs_pen_puts(pen, "</td>");
		}
		for (unsigned w = 0; w < GS_JOB_COMPARED_COUNT; w++)
			cell(pen, row->v[w]);
		gs_pen_puts(pen, "</tr>\n");
		gs_pen_yield(pen);
	}
	for (int which = 0; which < 2; which++) {
		gs_pen_puts(pen, which ? "<tr class=s><td>spread</td><td></td><td></td><td></td>"
				       : "<tr class=s><td>median</td><td></td><td></td><td></td>");
		for (unsigned w = 0; w < GS_JOB_COMPARED_COUNT; w++)
			cell(pen, which ? c->stat[w].mad : c->stat[w].median);
		gs_pen_puts(pen, "</tr>\n");
	}
	gs_pen_puts(pen, "</table></div>\n");
	if (c->n_rows > HTML_ROWS)
		gs_pen_printf(pen, "<p>The first %d of %zu jobs are shown.</p>\n", HTML_ROWS,
			      c->n_rows);
}

static void put_findings(struct gs_pen *pen, const struct gs_job_comparison *c)
{
	char text[256];

	gs_pen_puts(pen, "<h2>Findings</h2><ul>\n");
	for (size_t i = 0; gs_job_compare_advice(c, i, text, sizeof(text)); i++) {
		gs_pen_puts(pen, "<li>");
		put(pen, text);
		gs_pen_puts(pen, "</li>\n");
	}
	for (size_t i = 0; i < c->n_outliers && i < HTML_ROWS; i++) {
		const struct gs_job_outlier *o = &c->outliers[i];

		gs_pen_puts(pen, "<li>Outlier: ");
		put(pen, c->rows[o->row].id);
		gs_pen_printf(pen, " has %s ", gs_job_compared_key(o->what));
		put_number(pen, c->rows[o->row].v[o->what]);
		gs_pen_puts(pen, " (median ");
		put_number(pen, c->stat[o->what].median);
		gs_pen_puts(pen, ")</li>\n");
	}
	for (size_t i = 0; i < c->n_trends; i++) {
		const struct gs_job_trend *t = &c->trends[i];

		gs_pen_puts(pen, t->direction > 0   ? "<li>Improving: "
				 : t->direction < 0 ? "<li>Declining: "
						    : "<li>Steady: ");
		put(pen, c->rows[t->first_row].name);
		gs_pen_puts(pen, " of ");
		put(pen, c->rows[t->first_row].user);
		gs_pen_puts(pen, ", points a run: ");
		put_number(pen, t->slope);
		gs_pen_printf(pen, " over %zu runs</li>\n", t->n);
	}
	gs_pen_puts(pen, "</ul>\n");
}

static void put_users(struct gs_pen *pen, const struct gs_job_comparison *c)
{
	gs_pen_puts(pen, "<h2>Users</h2><div class=t><table><tr><th>User</th><th class=n>Jobs</th>"
			 "<th class=n>Median score</th><th class=n>Unused core hours</th></tr>\n");
	for (size_t i = 0; i < c->n_users && i < HTML_ROWS; i++) {
		gs_pen_puts(pen, "<tr><td>");
		put(pen, c->users[i].name);
		gs_pen_printf(pen, "</td><td class=n>%zu</td>", c->users[i].n);
		cell(pen, c->users[i].median_score);
		cell(pen, c->users[i].wasted_core_s / 3600);
		gs_pen_puts(pen, "</tr>\n");
	}
	gs_pen_puts(pen, "</table></div>\n");
}

void gs_job_put_html(struct gs_pen *pen, const struct gs_job_comparison *c)
{
	gs_pen_puts(
		pen,
		"<!DOCTYPE html>\n<html lang=en><meta charset=utf-8><meta name=viewport "
		"content='width=device-width'><title>gpuscope: comparison of jobs</title>\n"
		"<style>:root{color-scheme:light dark;--ink:#1a1a1a;--page:#fff;--line:#ddd;"
		"--dim:#555;--mark:#2a6fb0}@media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;"
		"--page:#16181c;--line:#3a3f46;--dim:#a0a6ad;--mark:#6aa9e6}}"
		"body{font:15px/1.5 system-ui,sans-serif;margin:1.5em auto;max-width:90em;"
		"padding:0 1em;color:var(--ink);background:var(--page)}"
		".t{overflow-x:auto}table{border-collapse:collapse}"
		"td,th{padding:.25em .55em;border-bottom:1px solid var(--line);text-align:left;"
		"white-space:nowrap}th{vertical-align:bottom}.n,th.n{text-align:right}"
		".n{font-variant-numeric:tabular-nums}.w{max-width:16em;overflow:hidden;"
		"text-overflow:ellipsis}.s{font-weight:600}"
		"figure{display:inline-block;width:30em;max-width:100%;margin:0 2em 1em 0}"
		"svg{display:block;width:100%}"
		"rect,circle{fill:var(--mark);fill-opacity:.75}path{stroke:var(--dim);fill:none;"
		"stroke-width:.7}text{font-size:7px;fill:var(--dim)}.e{text-anchor:end}"
		".m{text-anchor:middle}</style>\n");
	gs_pen_printf(pen, "<h1>Comparison of %zu jobs</h1>\n", c->n_rows);
	put_histogram(pen, c);
	put_scatter(pen, c);
	put_findings(pen, c);
	put_users(pen, c);
	put_jobs(pen, c);
	gs_pen_puts(pen, "</html>\n");
}
