/*
 * What a traced program was slow at and why, out of its summary: one class of one table of rules
 * (trace.c), each with its thresholds, the share of wall time that it speaks of, evidence, what to
 * do, and the command that shows more. Nothing is guessed: where no rule holds, it says so.
 */
#ifndef GS_ANALYSIS_RULES_TRACE_H
#define GS_ANALYSIS_RULES_TRACE_H

#include "model/summary/summary.h"

/* Shorter runs are mostly start-up and say nothing. */
#define GS_VERDICT_MIN_NS 1000000000ull

/* Fills summary->verdict. Texts live as long as the summary. */
void gs_verdict_trace(struct gs_summary *summary);

#endif
