/* GPUs beside which calls were traced: as a table and as part of the tree. */
#ifndef GS_OUTPUT_GPU_REPORT_GPUS_H
#define GS_OUTPUT_GPU_REPORT_GPUS_H

#include "core/text/page.h"
#include "core/text/doc.h"
#include "model/summary/summary.h"

/* Nothing when there are none. */
void gs_report_gpus(struct gs_page *page, const struct gs_summary *summary);
void gs_report_gpus_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
