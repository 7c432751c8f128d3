/* The two halves of the table: summary_table.c and, for its end, summary_attention.c. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_TABLE_H
#define GS_OUTPUT_REPORT_SUMMARY_TABLE_H

#include <stdbool.h>

#include "core/text/page.h"
#include "output/report/summary_int.h"

/* Communicators, open calls, errors, losses, what was attached to. Lists are cut unless all. */
void gs_report_summary_attention(struct gs_page *page, const struct gs_summary *summary, bool all);

/* The lines of Python code, where there are any; n_top 0: all. */
void gs_report_summary_lines(struct gs_page *page, const struct gs_summary *summary,
			     unsigned n_top);

#endif
