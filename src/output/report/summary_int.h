/* Among the files that render a summary: one renderer by format. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_INT_H
#define GS_OUTPUT_REPORT_SUMMARY_INT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/text/doc.h"
#include "output/report/summary.h"
#include "core/text/pen.h"
#include "model/trace/record.h"
#include "model/summary/summary.h"

void gs_report_summary_table(struct gs_pen *pen, const struct gs_summary *summary,
			     const struct gs_report_summary_style *style);
void gs_report_summary_csv(struct gs_pen *pen, const struct gs_summary *summary,
			   const struct gs_report_summary_style *style);

/* ncclCommSplit() made it: it has a color and a key. */
static inline bool summary_is_split(const struct gs_comm_summary *c)
{
	return c->parent && c->color != GS_COMM_NO_SPLIT;
}

/* A text of the summary, "" instead of NULL. */
static inline const char *gs_report_text_of(const char *text)
{
	return text ? text : "";
}

#endif
