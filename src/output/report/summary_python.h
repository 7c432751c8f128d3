/* The parts of a summary about calls of Python functions. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_PYTHON_H
#define GS_OUTPUT_REPORT_SUMMARY_PYTHON_H

#include "output/report/summary_int.h"
#include "core/text/page.h"

/* Nothing where there were none; n_top 0: all. */
void gs_report_summary_python_table(struct gs_page *page, const struct gs_summary *summary,
				    unsigned n_top);
void gs_report_summary_python_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
