/*
 * What a hit costs on this machine, now: functions of our own are called with and without the
 * programs that the run will use, in each mode. Takes some 50 ms, and as much again for each kind
 * of probe beside calls (on kernels without multi links some 0.2 s more for each probe that was
 * placed, which they take to remove it).
 */
#ifndef GS_PROBE_PRICE_H
#define GS_PROBE_PRICE_H

#include "base/err.h"
#include "model/price.h"

struct gs_price_options {
	unsigned avoid; /* as of struct gs_probe_options */
	bool events;    /* what GS_MODE_EVENTS is */
	bool scopes; /* operators and the like will be traced; else their price is that of calls */
	bool users;  /* described probes will be; else likewise */
};

int gs_price_measure(const struct gs_price_options *options, struct gs_prices *ret_prices,
		     struct gs_err *err);

#endif
