/*
 * What a hit costs on this machine, now: a function of our own is called with and without the
 * programs that trace calls, in each mode. Takes some 50 ms (on kernels without multi links some
 * 0.5 s, which they take to remove the probe).
 */
#ifndef GS_PROBE_PRICE_H
#define GS_PROBE_PRICE_H

#include "base/err.h"
#include "probe/budget.h"

/* avoid: as of struct gs_probe_options. events: what GS_MODE_EVENTS is. */
int gs_price_measure(unsigned avoid, bool events, struct gs_prices *ret_prices, struct gs_err *err);

#endif
