/*
 * How far the clock of one node is from another's, from collectives that ranks of both took part in: no rank can leave
 * one before the last has entered it. So each collective bounds the offset from both sides:
 *
 *     one's clock:     entered |========| left
 *     other's clock:       entered |======| left
 *
 * The offset, which is to be added to the other's times to get the one's, is between one.entered - other.left and
 * one.left - other.entered. The tightest bounds of the newest two minutes are kept; since two clocks drift apart a bound is
 * worth less the older it is. What contradicts them says that a clock was set: then all before it is forgotten.
 *
 * A clock takes 300 bytes, whatever comes. One thread at a time.
 */
#ifndef GS_ANALYSIS_FLEET_CLOCKS_H
#define GS_ANALYSIS_FLEET_CLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define GS_FLEET_CLOCK_SPAN_NS 15000000000ll /* a bound of each side is kept for each span */
#define GS_FLEET_CLOCK_SPANS   8             /* the window */
/* By how much the rate of two clocks may differ, in millionths: quartzes of computers are within 100 of the right
 * rate. */
#define GS_FLEET_CLOCK_DRIFT_PPM 200

/* When a rank called a collective, and by when it was known to have left it; ns of its node's clock, of less than
 * 2^61 from 0. */
struct gs_fleet_stay {
	int64_t entered_ns, left_ns;
};

struct gs_fleet_clock_bound {
	int64_t ns, at_ns; /* offset; when, of the one's clock */
};

struct gs_fleet_clock { /* begins as all 0 */
	struct {
		int64_t number;                        /* which span: time by its length */
		struct gs_fleet_clock_bound low, high; /* the tightest of it */
		bool is_used;
	} spans[GS_FLEET_CLOCK_SPANS];
	uint64_t n_taken, n_set; /* collectives; how often all before was forgotten */
};

/* The stays of a rank of each node in the same collective. */
void gs_fleet_clock_take(struct gs_fleet_clock *clock, const struct gs_fleet_stay *one,
			 const struct gs_fleet_stay *other);

/* What bounds the offset at a time of the one's clock. False: nothing of the window before it does. */
bool gs_fleet_clock_read(const struct gs_fleet_clock *clock, int64_t at_ns, int64_t *ret_low_ns,
			 int64_t *ret_high_ns);

/* By how much an estimate of a clock may be wrong that was right to error_ns so long ago; also rounded up. */
uint64_t gs_fleet_clock_aged_error(uint64_t error_ns, uint64_t age_ns);

#endif
