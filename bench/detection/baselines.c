/*
 * Rules of others: baselines.h. Each holds from the sample that breaks the rule to the next one that does
 * not, so a row of samples is one alarm.
 */
#include "baselines.h"

#include <math.h>
#include <string.h>

#include "analysis/detect/robust.h"

#define WINDOW       128
#define REFERENCE    16 /* samples of NVRx's medians; its report interval is the user's */
#define MIN_SCORE    0.7
#define SLOW_AVERAGE 0.02 /* weights of a new sample; Ingero's are not published */
#define FAST_AVERAGE 0.2
#define AVERAGE_FALL 0.3
#define QUIET_NS     300000000000ull
#define GROWTH       0.1

struct rule {
	double ring[WINDOW];
	uint64_t n;
	bool holds;
	double slow, fast, best, level;
	uint64_t last_ns;
};

static size_t rule_bytes(const void *options)
{
	return sizeof(struct rule);
}

static void begin_rule(void *state, const void *options)
{
}

static void remember_sample(struct rule *r, double value)
{
	r->ring[r->n++ % WINDOW] = value;
}

/* The newest n samples. */
static double newest_median(const struct rule *r, unsigned n)
{
	double sorted[WINDOW];

	for (unsigned i = 0; i < n; i++)
		sorted[i] = r->ring[(r->n - 1 - i) % WINDOW];
	return gs_detect_median(sorted, n);
}

static enum gs_detect_outcome hold_rule(struct rule *r, bool broken, double before, double after,
					struct gs_detect_finding *ret)
{
	bool begins = broken && !r->holds, ends = !broken && r->holds;

	r->holds = broken;
	ret->since_ns = ret->found_ns;
	ret->before = before;
	ret->after = after;
	ret->change_pct = before != 0 ? (after - before) / before * 100 : 0;
	return begins ? GS_DETECT_BEGUN : ends ? GS_DETECT_ENDED : GS_DETECT_NOTHING;
}

static enum gs_detect_outcome feed_three_sigma(void *state, const void *options, uint64_t time_ns,
					       const double *values, struct gs_detect_finding *ret)
{
	struct rule *r = state;
	double mean = 0, variance = 0;
	bool broken;

	if (r->n >= WINDOW)
		for (unsigned i = 0; i < WINDOW; i++)
			mean += r->ring[i] / WINDOW;
	if (r->n >= WINDOW)
		for (unsigned i = 0; i < WINDOW; i++)
			variance += (r->ring[i] - mean) * (r->ring[i] - mean) / WINDOW;
	broken = r->n >= WINDOW && values[0] > mean + 3 * sqrt(variance);
	remember_sample(r, values[0]);
	return hold_rule(r, broken, mean, values[0], ret);
}

static enum gs_detect_outcome feed_three_medians(void *state, const void *options, uint64_t time_ns,
						 const double *values,
						 struct gs_detect_finding *ret)
{
	struct rule *r = state;
	double median = r->n >= WINDOW ? newest_median(r, WINDOW) : INFINITY;

	remember_sample(r, values[0]);
	return hold_rule(r, values[0] > 3 * median, median, values[0], ret);
}

static enum gs_detect_outcome feed_average(void *state, const void *options, uint64_t time_ns,
					   const double *values, struct gs_detect_finding *ret)
{
	struct rule *r = state;
	double rate = 1 / values[0];

	r->slow = r->n ? r->slow + SLOW_AVERAGE * (rate - r->slow) : rate;
	r->fast = r->n ? r->fast + FAST_AVERAGE * (rate - r->fast) : rate;
	r->n++;
	return hold_rule(r, r->n > WINDOW && r->fast < (1 - AVERAGE_FALL) * r->slow, 1 / r->slow,
			 1 / r->fast, ret);
}

/* The individual score of nvidia-resiliency-ext: the best median so far over the one of now. */
static enum gs_detect_outcome feed_reference(void *state, const void *options, uint64_t time_ns,
					     const double *values, struct gs_detect_finding *ret)
{
	struct rule *r = state;

	remember_sample(r, values[0]);
	if (r->n % REFERENCE != 0)
		return GS_DETECT_NOTHING;
	r->level = newest_median(r, REFERENCE);
	if (r->best == 0 || r->level < r->best)
		r->best = r->level;
	return hold_rule(r, r->best / r->level < MIN_SCORE, r->best, r->level, ret);
}

static enum gs_detect_outcome feed_quiet(void *state, const void *options, uint64_t time_ns,
					 const double *values, struct gs_detect_finding *ret)
{
	struct rule *r = state;

	r->last_ns = time_ns;
	return hold_rule(r, false, 0, 0, ret);
}

static enum gs_detect_outcome tick_quiet(void *state, const void *options, uint64_t now_ns,
					 struct gs_detect_finding *ret)
{
	struct rule *r = state;

	return r->last_ns ? hold_rule(r, now_ns - r->last_ns > QUIET_NS, 0, 0, ret)
			  : GS_DETECT_NOTHING;
}

/* What people write into alert rules: more than 10 % above where it began. */
static enum gs_detect_outcome feed_growth(void *state, const void *options, uint64_t time_ns,
					  const double *values, struct gs_detect_finding *ret)
{
	struct rule *r = state;

	remember_sample(r, values[0]);
	if (r->n == WINDOW)
		r->level = newest_median(r, WINDOW);
	return hold_rule(r, r->n > WINDOW && values[0] > (1 + GROWTH) * r->level, r->level,
			 values[0], ret);
}

/*
 * Greyhound: Bayesian change points with probability above 0.8, outliers beyond 3 deviations removed,
 * segments of at least 10 iterations, a change above 10 %. It uses BEAST, which samples models with
 * several change points, trend and season; here is the exact probability of one change point against
 * none in the last 64 iterations, both parts normal with unknown mean and variance, and even odds before.
 */
#define BAYES_WINDOW  64
#define BAYES_SEGMENT 10
#define BAYES_CHANCE  0.8
#define BAYES_CHANGE  0.1

static unsigned take_window(const struct rule *r, double *ret)
{
	double mean = 0, variance = 0;
	unsigned n = 0;

	for (unsigned i = 0; i < BAYES_WINDOW; i++)
		mean += r->ring[(r->n - 1 - i) % WINDOW] / BAYES_WINDOW;
	for (unsigned i = 0; i < BAYES_WINDOW; i++) {
		double off = r->ring[(r->n - 1 - i) % WINDOW] - mean;

		variance += off * off / BAYES_WINDOW;
	}
	for (unsigned i = BAYES_WINDOW; i-- > 0;) {
		double value = r->ring[(r->n - 1 - i) % WINDOW];

		if (fabs(value - mean) <= 3 * sqrt(variance))
			ret[n++] = value / mean;
	}
	return n;
}

/* Logarithm of the marginal likelihood of n values with this sum and sum of squares, up to what all
 * partitions share: a normal-inverse-gamma prior around 1 with deviation 1 and shape 1. */
static double log_evidence(double n, double sum, double squares)
{
	double kappa = 0.01, beta = 1e-4, mean = sum / n, within = squares - sum * mean;
	double shape = 1 + n / 2;
	double scale = beta + 0.5 * fmax(within, 0) +
		       kappa * n * (mean - 1) * (mean - 1) / (2 * (kappa + n));

	return lgamma(shape) - shape * log(scale) + log(beta) + 0.5 * log(kappa / (kappa + n)) -
	       n / 2 * log(2 * M_PI);
}

/* The chance of a change point, the likeliest place, and the means on both sides. */
static double change_chance(const double *v, unsigned n, double *ret_before, double *ret_after)
{
	double sum[BAYES_WINDOW + 1] = {0}, squares[BAYES_WINDOW + 1] = {0}, logs[BAYES_WINDOW];
	double none, most = -INFINITY, odds = 0;
	unsigned best = 0, n_places = n - 2 * BAYES_SEGMENT + 1;

	for (unsigned i = 0; i < n; i++) {
		sum[i + 1] = sum[i] + v[i];
		squares[i + 1] = squares[i] + v[i] * v[i];
	}
	none = log_evidence(n, sum[n], squares[n]);
	for (unsigned i = 0; i < n_places; i++) {
		unsigned at = i + BAYES_SEGMENT;

		logs[i] = log_evidence(at, sum[at], squares[at]) +
			  log_evidence(n - at, sum[n] - sum[at], squares[n] - squares[at]) - none;
		if (logs[i] > most) {
			most = logs[i];
			best = at;
		}
	}
	for (unsigned i = 0; i < n_places; i++)
		odds += exp(fmin(logs[i], 500)) / n_places;
	*ret_before = sum[best] / best;
	*ret_after = (sum[n] - sum[best]) / (n - best);
	return odds / (1 + odds);
}

static enum gs_detect_outcome feed_bayes(void *state, const void *options, uint64_t time_ns,
					 const double *values, struct gs_detect_finding *ret)
{
	struct rule *r = state;
	double window[BAYES_WINDOW], before, after;
	unsigned n;

	remember_sample(r, values[0]);
	if (r->n < BAYES_WINDOW)
		return GS_DETECT_NOTHING;
	/* While it holds: until the times are back. */
	if (r->holds)
		return hold_rule(r, newest_median(r, BAYES_SEGMENT) > r->level, r->level, 0, ret);
	n = take_window(r, window);
	if (n < 2 * BAYES_SEGMENT || change_chance(window, n, &before, &after) <= BAYES_CHANCE ||
	    after < before * (1 + BAYES_CHANGE))
		return GS_DETECT_NOTHING;
	r->level = newest_median(r, BAYES_SEGMENT) * (before + after) / 2 / after;
	return hold_rule(r, true, before, after, ret);
}

/* Nothing of them can be set. */
static const struct gs_conf_schema no_options = {.comment = ""};

#define BASELINE(id, feed_function, tick_function, n)                                              \
	const struct gs_detector baseline_##id = {                                                 \
		.name = #id,                                                                       \
		.n_values = (n),                                                                   \
		.takes_logarithm = (n) > 0,                                                        \
		.options = &no_options,                                                            \
		.state_bytes = rule_bytes,                                                         \
		.begin = begin_rule,                                                               \
		.feed = (feed_function),                                                           \
		.tick = (tick_function),                                                           \
	}

BASELINE(three_sigma, feed_three_sigma, NULL, 1);
BASELINE(three_medians, feed_three_medians, NULL, 1);
BASELINE(average, feed_average, NULL, 1);
BASELINE(reference, feed_reference, NULL, 1);
BASELINE(bayes, feed_bayes, NULL, 1);
BASELINE(quiet, feed_quiet, tick_quiet, 0);
BASELINE(growth, feed_growth, NULL, 1);
