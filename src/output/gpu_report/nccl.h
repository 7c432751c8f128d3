/* What NCCL says of its operations: as a table and as part of the tree. */
#ifndef GS_OUTPUT_GPU_REPORT_NCCL_H
#define GS_OUTPUT_GPU_REPORT_NCCL_H

#include "core/text/doc.h"
#include "core/text/page.h"
#include "model/summary/summary.h"

/* Nothing when the summary has none. all: without a bound on rows. */
void gs_report_nccl(struct gs_page *page, const struct gs_summary *summary, bool all);

/* One remark: what most bytes went by, and a rank that lags. */
void gs_report_nccl_brief(struct gs_page *page, const struct gs_summary *summary);
void gs_report_nccl_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
