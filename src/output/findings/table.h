/* Findings of a whole recording for people: one screen, unless all is asked for. */
#ifndef GS_OUTPUT_FINDINGS_TABLE_H
#define GS_OUTPUT_FINDINGS_TABLE_H

#include "analysis/explain/explain.h"
#include "core/text/page.h"
#include "model/summary/summary.h"

struct gs_findings_table { /* all borrowed */
	const char *file;  /* that was read, as commands name it */
	uint64_t start_ns; /* of the recording, boot clock */
	const struct gs_explain_result *result;
	const struct gs_summary *summary; /* its hangs */
	bool all;                         /* each finding with all that is known of it */
};

/* Hangs first, then findings in the order in which they began, with what stands beside them. Where that is more
 * than one screen and all is not set, findings of one kind and name are merged, those that matter most come first, and
 * the last line says how many are left out. */
void gs_findings_put_table(struct gs_page *page, const struct gs_findings_table *table);

#endif
