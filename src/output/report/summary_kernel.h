/* The kernels of a summary: as a table and as part of the tree. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_KERNEL_H
#define GS_OUTPUT_REPORT_SUMMARY_KERNEL_H

#include "core/text/page.h"
#include "output/report/summary_int.h"

/* n_top 0: all. */
void gs_report_summary_kernels(struct gs_page *page, const struct gs_summary *summary,
			       unsigned n_top);
void gs_report_summary_kernel_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
