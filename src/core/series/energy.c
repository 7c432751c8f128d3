#include "core/series/energy.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#define SLACK_JOULES 20.0 /* what a counter of mJ and times of samples may be off by */

static void add_power(struct gs_energy *e, int64_t wall_ns, double watts, int64_t stands_for_ns)
{
	int64_t dt = wall_ns - e->last_ns;

	if (isnan(watts))
		return;
	e->n_watts++;
	e->most_watts = fmax(e->most_watts, watts);
	if (e->last_ns && dt > 0 && dt <= stands_for_ns)
		e->sum_joules += watts * (double)dt / 1e9;
}

/* Whether the counter can have come from there to here. */
static bool counter_reaches(const struct gs_energy *e, const struct gs_energy_source *s,
			    int64_t wall_ns, double joules, double limit_watts)
{
	double most = isnan(limit_watts) ? 1.5 * e->most_watts
					 : fmax(1.2 * limit_watts, 1.2 * e->most_watts);
	double growth = joules - s->joules;

	if (growth < 0)
		return false;
	return most <= 0 || growth <= most * (double)(wall_ns - s->changed_ns) / 1e9 + SLACK_JOULES;
}

static void grow_energy(struct gs_energy *e, struct gs_energy_source *s, int64_t wall_ns,
			double joules)
{
	/* A counter that stands still at first: how old its value was when it came is not known,
	 * and what was used from then on comes from the power, if there is one. */
	bool known = s->n_changes || !s->n_repeats || !e->n_watts;

	if (known && s->changed_ns >= e->corrected_until_ns) {
		e->corrected_joules += joules - s->joules - (e->sum_joules - s->sum_joules);
		e->corrected_until_ns = wall_ns;
	}
	s->n_changes++;
	s->joules = joules;
	s->sum_joules = e->sum_joules;
	s->before_ns = s->changed_ns;
	s->changed_ns = wall_ns;
}

/* Whether b is the better source of a value that both could have. */
static bool is_better(const struct gs_energy_source *a, const struct gs_energy_source *b)
{
	if (a->before_ns > b->changed_ns || b->before_ns > a->changed_ns)
		return b->changed_ns > a->changed_ns;
	return b->joules > a->joules;
}

static void add_counter(struct gs_energy *e, int64_t wall_ns, double joules, double limit_watts)
{
	struct gs_energy_source *best = NULL, *s;

	for (uint32_t i = 0; i < e->n_sources; i++) {
		s = &e->source[i];
		if (counter_reaches(e, s, wall_ns, joules, limit_watts) &&
		    (!best || is_better(best, s)))
			best = s;
	}
	if (best) {
		if (joules > best->joules)
			grow_energy(e, best, wall_ns, joules);
		else
			best->n_repeats++;
		return;
	}
	s = e->n_sources < GS_ENERGY_SOURCES ? &e->source[e->n_sources++]
					     : &e->source[e->oldest++ % GS_ENERGY_SOURCES];
	*s = (struct gs_energy_source){
		.joules = joules, .sum_joules = e->sum_joules, .changed_ns = wall_ns};
}

void gs_energy_add(struct gs_energy *e, int64_t wall_ns, double joules, double watts,
		   double limit_watts, int64_t stands_for_ns)
{
	add_power(e, wall_ns, watts, stands_for_ns);
	if (!isnan(joules))
		add_counter(e, wall_ns, joules, limit_watts);
	e->first_ns = e->first_ns ? e->first_ns : wall_ns;
	e->last_ns = wall_ns > e->last_ns ? wall_ns : e->last_ns;
}

double gs_energy_joules(const struct gs_energy *e)
{
	if (!e->n_watts && !e->n_sources)
		return NAN;
	return fmax(e->sum_joules + e->corrected_joules, 0);
}
