/* Reports and comparisons as pages: the JSON of them in a file that draws it (web/report.html), and
 * which needs no other one. */
#include <string.h>

#include "analysis/job_report/report_int.h"
#include "report_page.h"

static const char place[] = "@REPORT@";

void gs_job_report_begin_page(struct gs_pen *pen)
{
	gs_pen_check(pen, gs_buf_put(&pen->buf, report_page,
				     (size_t)(strstr(report_page, place) - report_page)));
}

void gs_job_report_end_page(struct gs_pen *pen)
{
	gs_pen_puts(pen, strstr(report_page, place) + sizeof(place) - 1);
}
