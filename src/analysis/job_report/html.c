/* Pages that stand alone: one file, no script, nothing from elsewhere. */
#include "analysis/job_report/html.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/text/doc.h"
#include "core/text/text.h"

#define DIGITS_MAX 3

void gs_job_report_html_text(struct gs_pen *pen, const char *text)
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
		case '\'':
			gs_pen_puts(pen, "&#39;");
			break;
		default:
			gs_pen_check(pen, gs_buf_put(&pen->buf, c, 1));
		}
}

void gs_job_report_html_number(struct gs_pen *pen, double v, int digits)
{
	static const double scale[DIGITS_MAX + 1] = {1, 10, 100, 1000};

	if (isnan(v))
		gs_pen_puts(pen, "-");
	else
		/* + 0: what rounds to nothing has no sign */
		gs_pen_double(pen, round(v * scale[digits]) / scale[digits] + 0.0);
}

void gs_job_report_html_cell(struct gs_pen *pen, double v, int digits)
{
	gs_pen_puts(pen, "<td class=n>");
	gs_job_report_html_number(pen, v, digits);
	gs_pen_puts(pen, "</td>");
}

void gs_job_report_html_begin(struct gs_pen *pen, const char *title, const char *style)
{
	gs_pen_puts(pen,
		    "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
		    "content='width=device-width'><meta http-equiv=Content-Security-Policy "
		    "content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>");
	gs_job_report_html_text(pen, title);
	gs_pen_puts(
		pen,
		"</title>\n<style>:root{color-scheme:light dark;--ink:#1a1a1a;--page:#fff;"
		"--line:#ddd;--dim:#555;--mark:#2a6fb0;--card:#f6f7f9;--good:#1d7a3a;"
		"--warn:#8a5a00;--bad:#b3261e}@media(prefers-color-scheme:dark){:root{"
		"--ink:#e6e6e6;--page:#16181c;--line:#3a3f46;--dim:#a0a6ad;--mark:#6aa9e6;"
		"--card:#1f2228;--good:#5fc37e;--warn:#e0b050;--bad:#f28b82}}"
		"body{font:15px/1.5 system-ui,sans-serif;margin:1.5em auto;max-width:90em;"
		"padding:0 1em;color:var(--ink);background:var(--page);overflow-wrap:anywhere}"
		"h1,h2,h3{line-height:1.25}a{color:var(--mark)}"
		".t{overflow-x:auto}table{border-collapse:collapse}"
		"td,th{padding:.25em .55em;border-bottom:1px solid var(--line);text-align:left;"
		"white-space:nowrap}th{vertical-align:bottom}.n,th.n{text-align:right}"
		".n{font-variant-numeric:tabular-nums}.w{max-width:16em;overflow:hidden;"
		"text-overflow:ellipsis}.s{font-weight:600}"
		"figure{display:inline-block;width:30em;max-width:100%;margin:0 2em 1em 0}"
		"svg{display:block;width:100%}"
		"rect,circle{fill:var(--mark);fill-opacity:.75}path{stroke:var(--dim);fill:none;"
		"stroke-width:.7}text{font-size:7px;fill:var(--dim)}.e{text-anchor:end}"
		".m{text-anchor:middle}");
	gs_pen_puts(pen, style);
	gs_pen_puts(pen, "</style></head><body>\n");
}

void gs_job_report_html_end(struct gs_pen *pen)
{
	gs_pen_puts(pen, "</body></html>\n");
}

void gs_job_report_html_table(struct gs_pen *pen, const char *label, const char *const *heads)
{
	gs_pen_puts(pen, "<div class=t tabindex=0 role=region aria-label=\"");
	gs_job_report_html_text(pen, label);
	gs_pen_puts(pen, "\"><table><tr>");
	for (; *heads; heads++) {
		gs_pen_puts(pen, **heads == '#' ? "<th scope=col class=n>" : "<th scope=col>");
		gs_job_report_html_text(pen, *heads + (**heads == '#'));
		gs_pen_puts(pen, "</th>");
	}
	gs_pen_puts(pen, "</tr>\n");
}

void gs_job_report_html_table_end(struct gs_pen *pen)
{
	gs_pen_puts(pen, "</table></div>\n");
}
