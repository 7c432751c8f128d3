/* Bounds of an offset, by spans of time: those that are out of the window go as new ones come. */
#include "analysis/fleet/clocks.h"

#include <stdlib.h>

/* By how much a bound may be wrong after that time, rounded up. */
static int64_t drift_ns(int64_t age_ns)
{
	return llabs(age_ns) / (1000000 / GS_FLEET_CLOCK_DRIFT_PPM) + 1;
}

uint64_t gs_fleet_clock_aged_error(uint64_t error_ns, uint64_t age_ns)
{
	return error_ns + (uint64_t)drift_ns((int64_t)(age_ns < INT64_MAX ? age_ns : INT64_MAX));
}

static int64_t high_at(const struct gs_fleet_clock_bound *bound, int64_t at_ns)
{
	return bound->ns + drift_ns(at_ns - bound->at_ns);
}

static int64_t low_at(const struct gs_fleet_clock_bound *bound, int64_t at_ns)
{
	return bound->ns - drift_ns(at_ns - bound->at_ns);
}

static bool is_in_window(int64_t span, int64_t at_ns)
{
	return llabs(at_ns / GS_FLEET_CLOCK_SPAN_NS - span) < GS_FLEET_CLOCK_SPANS;
}

bool gs_fleet_clock_read(const struct gs_fleet_clock *c, int64_t at_ns, int64_t *ret_low_ns,
			 int64_t *ret_high_ns)
{
	bool is_known = false;

	*ret_low_ns = INT64_MIN;
	*ret_high_ns = INT64_MAX;
	for (unsigned i = 0; i < GS_FLEET_CLOCK_SPANS; i++) {
		int64_t low, high;

		if (!c->spans[i].is_used || !is_in_window(c->spans[i].number, at_ns))
			continue;
		low = low_at(&c->spans[i].low, at_ns);
		high = high_at(&c->spans[i].high, at_ns);
		*ret_low_ns = low > *ret_low_ns ? low : *ret_low_ns;
		*ret_high_ns = high < *ret_high_ns ? high : *ret_high_ns;
		is_known = true;
	}
	return is_known && *ret_low_ns <= *ret_high_ns;
}

static void add_bounds(struct gs_fleet_clock *c, const struct gs_fleet_clock_bound *low,
		       const struct gs_fleet_clock_bound *high)
{
	int64_t number = low->at_ns / GS_FLEET_CLOCK_SPAN_NS;
	unsigned place = (unsigned)((uint64_t)number % GS_FLEET_CLOCK_SPANS);

	if (c->spans[place].is_used && c->spans[place].number > number)
		return; /* it came late, and its place is of a newer one */
	if (!c->spans[place].is_used || c->spans[place].number != number) {
		c->spans[place].is_used = true;
		c->spans[place].number = number;
		c->spans[place].low = *low;
		c->spans[place].high = *high;
		return;
	}
	if (high->ns < high_at(&c->spans[place].high, high->at_ns))
		c->spans[place].high = *high;
	if (low->ns > low_at(&c->spans[place].low, low->at_ns))
		c->spans[place].low = *low;
}

void gs_fleet_clock_take(struct gs_fleet_clock *c, const struct gs_fleet_stay *one,
			 const struct gs_fleet_stay *other)
{
	struct gs_fleet_clock_bound low = {one->entered_ns - other->left_ns, one->entered_ns};
	struct gs_fleet_clock_bound high = {one->left_ns - other->entered_ns, one->entered_ns};
	int64_t known_low, known_high;

	if (one->left_ns < one->entered_ns || other->left_ns < other->entered_ns)
		return;
	c->n_taken++;
	if (gs_fleet_clock_read(c, one->entered_ns, &known_low, &known_high) &&
	    (low.ns > known_high || high.ns < known_low)) {
		for (unsigned i = 0; i < GS_FLEET_CLOCK_SPANS; i++)
			c->spans[i].is_used = false;
		c->n_set++;
	}
	add_bounds(c, &low, &high);
}
