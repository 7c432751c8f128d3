/* The steps of a summary: as lines of the table and as part of the tree. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_STEP_H
#define GS_OUTPUT_REPORT_SUMMARY_STEP_H

#include "core/text/page.h"
#include "output/report/summary_int.h"

/* verbose: also why there are none. */
void gs_report_summary_step_table(struct gs_page *page, const struct gs_summary *summary,
				  bool verbose);
void gs_report_summary_step_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
