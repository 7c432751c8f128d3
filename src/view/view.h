/*
 * The running totals that screens and summaries show: per function, over all, per process and per
 * thread, from CALL and STATS records alike. One thread.
 */
#ifndef GS_VIEW_VIEW_H
#define GS_VIEW_VIEW_H

#include "model/record.h"
#include "model/summary.h"

struct gs_view;

int gs_view_new(struct gs_view **ret_view);
void gs_view_free(struct gs_view **view);

/* The sink to push to; lent as long as the view lives. */
const struct gs_sink *gs_view_sink(struct gs_view *view);

/* Everything so far; *ret_summary is the caller's to free. */
int gs_view_summary(struct gs_view *view, struct gs_summary **ret_summary);

/* For a live line: calls so far of a layer (0: all), calls lost to the trace so far. */
uint64_t gs_view_calls(const struct gs_view *view, unsigned layer);
uint64_t gs_view_lost(const struct gs_view *view);

#endif
