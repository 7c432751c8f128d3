#include "core/base/clock.h"

#include <time.h>

static uint64_t read_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

uint64_t gs_clock_mono_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

uint64_t gs_clock_boot_ns(void)
{
	return read_ns(CLOCK_BOOTTIME);
}

uint64_t gs_clock_wall_ns(void)
{
	return read_ns(CLOCK_REALTIME);
}

/* a - b, from the tightest of some bracketed readings: a preempted reading is not used. */
static int64_t difference_ns(clockid_t a, clockid_t b)
{
	uint64_t best_gap = UINT64_MAX;
	int64_t best = 0;

	for (int i = 0; i < 8; i++) {
		uint64_t before = read_ns(b), mid = read_ns(a), after = read_ns(b);

		if (after - before < best_gap) {
			best_gap = after - before;
			best = (int64_t)(mid - (before + (after - before) / 2));
		}
	}
	return best;
}

int64_t gs_clock_boot_minus_mono_ns(void)
{
	int64_t d = difference_ns(CLOCK_BOOTTIME, CLOCK_MONOTONIC);

	/* The true difference is the suspended time: zero, or at least some milliseconds. */
	return d > -1000000 && d < 1000000 ? 0 : d;
}

int64_t gs_clock_wall_minus_boot_ns(void)
{
	return difference_ns(CLOCK_REALTIME, CLOCK_BOOTTIME);
}
