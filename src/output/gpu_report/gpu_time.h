/* What GPUs did by their own times: as tables and as part of the tree. */
#ifndef GS_OUTPUT_GPU_REPORT_GPU_TIME_H
#define GS_OUTPUT_GPU_REPORT_GPU_TIME_H

#include "core/text/doc.h"
#include "core/text/page.h"
#include "model/summary/summary.h"

/* Nothing when the summary has none. n_top 0: all kernels. */
void gs_report_gpu_time(struct gs_page *page, const struct gs_summary *summary, unsigned n_top);

/* One remark: the GPU that was busy most. */
void gs_report_gpu_time_brief(struct gs_page *page, const struct gs_summary *summary);
void gs_report_gpu_time_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
