/* The parts of a summary about described probes and of PyTorch's allocator; nothing where
 * there were none. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_PROBED_H
#define GS_OUTPUT_REPORT_SUMMARY_PROBED_H

#include "output/report/summary_int.h"
#include "core/text/page.h"

/* all: every place of blocks that were not freed, not only the largest. */
void gs_report_summary_probed_table(struct gs_page *page, const struct gs_summary *summary,
				    bool all);
void gs_report_summary_probed_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
