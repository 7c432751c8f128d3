/* The streams of a summary: as a table and as part of the tree. */
#ifndef GS_OUTPUT_GPU_REPORT_STREAMS_H
#define GS_OUTPUT_GPU_REPORT_STREAMS_H

#include "core/text/page.h"
#include "core/text/doc.h"
#include "model/summary/summary.h"

/* n_top 0: all. */
void gs_report_streams(struct gs_page *page, const struct gs_summary *summary, unsigned n_top);
void gs_report_streams_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
