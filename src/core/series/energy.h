/*
 * Energy out of samples of a power and of a counter. The counter is the better one, and yet not
 * enough: it may be read less often than the power, so that it stands still for seconds and then
 * jumps; and of two clients that read the same device each has read it at another time, so that
 * their values, in one file, go up and down. So the power is summed over time, and wherever the
 * counter of one source went on, its growth takes the place of that sum.
 *
 * A growth that no power could have made (above the limit, or above half more than was ever seen)
 * is of another source, or of a counter that started again from 0. When that one passes the value
 * that it had before, it is still the one that went on since: a source that stood still while
 * another one changed twice is out of use.
 */
#ifndef GS_CORE_SERIES_ENERGY_H
#define GS_CORE_SERIES_ENERGY_H

#include <stdint.h>

#define GS_ENERGY_SOURCES 4

struct gs_energy {               /* begins as all 0 */
	double sum_joules;       /* of the power */
	double corrected_joules; /* what counters say above that */
	double most_watts;
	uint64_t n_watts;
	int64_t first_ns, last_ns;
	int64_t corrected_until_ns;
	uint32_t n_sources, oldest; /* oldest % GS_ENERGY_SOURCES: the source to be replaced next */
	struct gs_energy_source {
		double joules;      /* of its counter */
		double sum_joules;  /* the sum, when it changed last */
		int64_t changed_ns; /* when that was */
		int64_t before_ns;  /* and when it changed before that; 0 never */
		uint32_t n_changes, n_repeats;
	} source[GS_ENERGY_SOURCES];
};

/* A sample. joules, watts, limit_watts: NAN not known. stands_for_ns: for so long before wall_ns
 * the power holds at most: what is further away from the sample before is a gap. */
void gs_energy_add(struct gs_energy *e, int64_t wall_ns, double joules, double watts,
		   double limit_watts, int64_t stands_for_ns);

/* Joules of all samples so far: what power says, corrected by counters. NAN: not known. */
double gs_energy_joules(const struct gs_energy *e);

#endif
