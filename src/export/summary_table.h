/* The two halves of the table: summary_table.c and, for its end, summary_attention.c. */
#ifndef GS_EXPORT_SUMMARY_TABLE_H
#define GS_EXPORT_SUMMARY_TABLE_H

#include <stdbool.h>

#include "text/page.h"
#include "export/summary_int.h"

/* Communicators, open calls, errors, losses, what was attached to. Lists are cut unless all. */
void gs_summary_attention(struct gs_page *page, const struct gs_summary *summary, bool all);

#endif
