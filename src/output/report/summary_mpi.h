/* The part of a summary about MPI. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_MPI_H
#define GS_OUTPUT_REPORT_SUMMARY_MPI_H

#include "output/report/summary_int.h"
#include "core/text/page.h"

/* "sent", "received" or "posted" (room for a message whose length is not known). */
const char *gs_report_summary_mpi_direction(unsigned direction);

/* Nothing where no process called MPI. all: every rank and peer, not only the first ones. */
void gs_report_summary_mpi_table(struct gs_page *page, const struct gs_summary *summary, bool all);
void gs_report_summary_mpi_doc(struct gs_doc *doc, const struct gs_summary *summary);

#endif
