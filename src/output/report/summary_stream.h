/* The streams of a summary: as a table and as part of the tree. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_STREAM_H
#define GS_OUTPUT_REPORT_SUMMARY_STREAM_H

#include "core/text/page.h"
#include "output/report/summary_int.h"

/* n_top 0: all. */
void gs_report_summary_streams(struct gs_page *page, const struct gs_summary *summary,
			       unsigned n_top);
void gs_report_summary_stream_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
