/* Who holds memory for GPUs, of a summary: as tables and as part of the tree. */
#ifndef GS_OUTPUT_GPU_REPORT_MEMORY_H
#define GS_OUTPUT_GPU_REPORT_MEMORY_H

#include "core/text/doc.h"
#include "core/text/page.h"
#include "model/summary/summary.h"

/* n_top: of call sites; 0: all. */
void gs_report_memory(struct gs_page *page, const struct gs_summary *summary, unsigned n_top);
void gs_report_memory_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
