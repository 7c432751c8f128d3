/* The two halves of the table: summary_table.c and, for its end, summary_attention.c. */
#ifndef GS_OUTPUT_REPORT_SUMMARY_TABLE_H
#define GS_OUTPUT_REPORT_SUMMARY_TABLE_H

#include <stdbool.h>

#include "core/text/page.h"
#include "output/report/summary_int.h"

/* Communicators, open calls, errors, losses, what was attached to. Lists are cut unless all. */
void gs_report_summary_attention(struct gs_page *page, const struct gs_summary *summary, bool all);

/* Which operator asked for what, where it is known. */
void gs_report_summary_uses(struct gs_page *page, const struct gs_summary *summary, bool all);

/* What is wrong, in few lines each: errors, open calls, losses, attach failures; else nothing. */
void gs_report_summary_trouble(struct gs_page *page, const struct gs_summary *summary);

/* The functions of each process, and of each thread when style asks for them. */
void gs_report_summary_blocks(struct gs_page *page, const struct gs_summary *summary,
			      const struct gs_report_summary_style *style);

/* Which of the rows shown have single steps in their times: each row is added to names, which begins
 * empty; then they are named in one line below the rows. 0, or the error of gs_buf_reserve(). */
int gs_report_summary_add_stepped(struct gs_buf *names, const struct gs_function_stats *function);
void gs_report_summary_put_stepped(struct gs_page *page, const struct gs_summary *summary,
				   struct gs_buf *names);

/* The operators alone, and what they asked CUDA and NCCL for. */
void gs_report_summary_operators(struct gs_page *page, const struct gs_summary *summary,
				 const struct gs_report_summary_style *style);

/* Why no call was seen. */
void gs_report_summary_nothing(struct gs_page *page, const struct gs_summary *summary,
			       const struct gs_report_summary_style *style);

/* "from 2025-11-21 06:27:00 UTC on node17": when and where it ran. */
void gs_report_summary_where(const struct gs_summary *summary, char *out, size_t bytes);

/* Every view but GS_SUMMARY_ALL. */
void gs_report_summary_short(struct gs_page *page, const struct gs_summary *summary,
			     const struct gs_report_summary_style *style);

/* The lines of Python code, where there are any; n_top 0: all. */
void gs_report_summary_lines(struct gs_page *page, const struct gs_summary *summary,
			     unsigned n_top);

#endif
