/* The wall-clock account of a summary: as a block of the table and as part of the tree. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_ACCOUNT_H
#define GS_OUTPUT_REPORT_SUMMARY_ACCOUNT_H

#include "output/report/summary_int.h"
#include "core/text/page.h"

#define GS_SUMMARY_PARTS 8

/* Where the time of the thread that sets the pace went; nothing where there is no account. The
 * n_parts largest parts have a row, at most GS_SUMMARY_PARTS; smaller ones are added up. */
void gs_report_summary_account_table(struct gs_page *page, const struct gs_summary *summary,
				     size_t n_parts);

/* The verdict, at most 8 lines; nothing where there is none. */
void gs_report_summary_verdict_table(struct gs_page *page, const struct gs_summary *summary);
void gs_report_summary_verdict_doc(struct gs_doc *doc, const struct gs_summary *summary);

/* The map "account"; null where there is none. */
void gs_report_summary_account_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
