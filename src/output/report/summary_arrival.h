/* How the ranks of a communicator arrive at its collectives: as a table and as part of the tree. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_ARRIVAL_H
#define GS_OUTPUT_REPORT_SUMMARY_ARRIVAL_H

#include "core/text/doc.h"
#include "core/text/page.h"
#include "model/summary/summary.h"

/* verbose: all ranks of the communicators; else one line, of where a rank is the latest. */
void gs_report_summary_arrival_table(struct gs_page *page, const struct gs_summary *summary,
				     bool verbose);

/* The map "collectives"; null where there were no calls. */
void gs_report_summary_arrival_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
