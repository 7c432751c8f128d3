/*
 * What a hit costs on this machine, now: functions of our own are called with and without the
 * programs that the run will use, in each mode. Takes some 50 ms, and as much again for each kind
 * of probe beside calls. A thread of its own then removes the probes.
 */
#ifndef GS_PROBE_PRICE_H
#define GS_PROBE_PRICE_H

#include "core/base/err.h"
#include "model/trace/price.h"

struct gs_price_options {
	unsigned avoid; /* as of struct gs_probe_options */
	bool events;    /* what GS_MODE_EVENTS is */
	/* These are measured apart, else guessed from the price of a call, as Python functions are:
	 */
	bool scopes; /* operators and the like */
	bool users;  /* described probes, whose program takes the kernel long to check: 0.4 s */
};

int gs_price_measure(const struct gs_price_options *options, struct gs_prices *ret_prices,
		     struct gs_err *err);

#endif
