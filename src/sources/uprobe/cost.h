/*
 * What a hit costs on this machine, now: functions of our own are called with and without the
 * programs that the run will use, in each mode. Takes some 50 ms, and as much again for each kind
 * of probe beside calls. A thread of its own then removes the probes.
 */
#ifndef GS_SOURCES_UPROBE_COST_H
#define GS_SOURCES_UPROBE_COST_H

#include "core/base/err.h"
#include "model/trace/cost.h"

struct gs_kernel_types;

struct gs_uprobe_cost_options {
	unsigned disabled_features; /* as of struct gs_uprobe_options */
	bool events;                /* what GS_MODE_EVENTS is */
	/* These are measured apart, else guessed from the cost of a call, as Python functions are:
	 */
	bool scopes; /* operators and the like */
	bool users;  /* described probes, whose program takes the kernel long to check: 0.4 s */
	struct gs_kernel_types *types; /* as of struct gs_uprobe_options */
};

/* 0, or a negative errno with err: *ret_costs is of no use then. */
int gs_uprobe_measure_cost(const struct gs_uprobe_cost_options *options, struct gs_costs *ret_costs,
			   struct gs_err *err);

#endif
