/* Hangs and mismatches that were found while tracing: as a block of the table and as part of the tree. */
#ifndef GS_OUTPUT_GPU_REPORT_HANGS_H
#define GS_OUTPUT_GPU_REPORT_HANGS_H

#include "core/text/doc.h"
#include "core/text/page.h"
#include "model/summary/summary.h"

/* Each with its ranks and their stacks; verbose: all ranks. Nothing where there are none. */
void gs_report_hangs_table(struct gs_page *page, const struct gs_summary *summary, bool verbose);

/* One of them, the newest that was not over, in few lines. */
void gs_report_hangs_brief(struct gs_page *page, const struct gs_summary *summary);

/* The list "hangs". */
void gs_report_hangs_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
