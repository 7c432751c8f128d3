/* What HTML pages of this room share: texts that are no markup, cells, one style. */
#ifndef GS_ANALYSIS_JOB_REPORT_HTML_H
#define GS_ANALYSIS_JOB_REPORT_HTML_H

#include "core/text/pen.h"

/* Text of others: nothing in it is markup, also between quotes; control characters are gone, and
 * it cannot turn the direction of what follows. */
void gs_job_report_html_text(struct gs_pen *pen, const char *text);

/* Its number with that many digits behind the point, which is a point in every language; "-" where
 * it is not known. */
void gs_job_report_html_number(struct gs_pen *pen, double v, int digits);
/* The same as a cell of a table. */
void gs_job_report_html_cell(struct gs_pen *pen, double v, int digits);

/* Everything up to the page's own text: it needs no other file and loads none. style: rules of CSS
 * beside those that all pages have. */
void gs_job_report_html_begin(struct gs_pen *pen, const char *title, const char *style);
void gs_job_report_html_end(struct gs_pen *pen);

/* A table that scrolls by itself where the page is narrow; label names it to those who do not see
 * it. A word of heads that begins with '#' is the head of numbers. NULL ends them. */
void gs_job_report_html_table(struct gs_pen *pen, const char *label, const char *const *heads);
void gs_job_report_html_table_end(struct gs_pen *pen);

#endif
