/*
 * Change points: a series of times gets longer or shorter at once, and stays so.
 *
 * Logarithms of the values, so a change is a share of them. What is usual is the median of the last
 * usual samples; a sample's score is its distance from that in median absolute deviations, cut off
 * at SCORE_MAX: a checkpoint or a validation phase is one long step, and must not count as many.
 * Scores are then brought to mean 0 and deviation 1 of the usual samples, since the times of steps
 * have a longer tail above than below.
 *
 * Cumulative sums (Page, 1954), for more and for less, take an allowance off each score: half of the
 * smallest change that is looked for, and in a second pair half a deviation, which finds larger
 * changes of a noisy series sooner. A sum above its limit is a change. The limit follows from the
 * wanted number of samples between false alarms (Siegmund, 1985, equation 2.49); scores that depend on
 * their predecessors, which would shorten it, are divided by what that adds to the deviation of a sum.
 *
 * Where neighbours are alike, as on a machine that is busy at times, such a sum is slow to trust: ten
 * times as long for 80 samples may not do. So RUN samples in a row beyond nearly all usual ones are a
 * change, too: usual ones would be by chance once in 1 / 0.02^RUN, and times as busy as those before
 * are among the usual ones.
 *
 * A sum alone may also rise by a row of pauses, so the median since it left 0 must have changed, too.
 * The change is over when another sum, of the distances from half way back, is above END_LIMIT.
 */
#include <math.h>
#include <string.h>

#include "analysis/detect/detect_int.h"

#define SCORE_MAX       3.0
#define RECENT          64 /* samples that the median of a change is of, at most */
#define NEWEST          5  /* of which the level of a change is taken, to find its begin */
#define REFINE          16 /* samples after which the median of a change is renewed */
#define RENEW           32 /* usual samples by which what is usual is renewed at a time */
#define BASELINE_MAX    4096
#define CENTRE_ERRORS   3.0    /* standard errors of the median that are never taken for a change */
#define CENTRE_ERROR    1.2533 /* of a median of n normal samples: this deviation / sqrt(n) */
#define N_CLASSES       2      /* of sums: for the smallest change, and for larger ones */
#define N_SUMS          (2 * N_CLASSES)
#define LARGE_ALLOWANCE 0.5  /* of the second: half of a change by one deviation */
#define REPORTED_SHARE  0.75 /* of the smallest change to look for: medians are not exact */
#define CHANGED_MIN     3    /* samples of a change before it is one */
#define LEAST_SPREAD    1e-9
#define END_LIMIT       6.0
#define RUN             32 /* samples in a row beyond EXTREME of the usual ones that are a change */
#define EXTREME         0.02 /* share of the usual samples on either side that single ones may be of */
#define RUN_HELD        8    /* of those, from which none becomes usual */
#define TRAINING_TRIALS 16 /* a series that does not settle is judged as it is */

struct change {
	/* the model: of logarithms */
	double centre, spread;
	/* of usual samples; the deviation with what their dependence adds */
	double score_mean, score_deviation;
	double allowance[N_CLASSES], limit[N_CLASSES]; /* of the sums */
	double extremes[2];   /* of usual samples: all but EXTREME are below, above */
	uint32_t n_beyond[2]; /* newest samples in a row beyond each */
	bool trained;
	uint32_t n_trials;
	/* usual samples, in a ring */
	uint32_t n_usual, next_usual;
	/* those that become usual together, unless a sum has risen meanwhile */
	double candidates[RENEW];
	uint32_t n_candidates;
	struct sum {
		double value;
		uint64_t since_ns; /* when it left 0 */
		uint32_t n;        /* samples since then */
	} sums[N_SUMS];            /* class x 2 + side: 0 for more, 1 for less */
	double recent[RECENT];     /* the newest logarithms, and their times */
	uint64_t recent_ns[RECENT];
	uint64_t n_recent; /* ever */
	/* a finding that holds */
	int direction; /* 1 more, -1 less, 0 none */
	double changed_centre, end_sum;
	uint64_t begun_ns;
	uint32_t n_changed;
	double usual[]; /* window_of() samples, and room for as many to sort */
};

/* Samples that what is usual may be of: room for those of the training, and for a change's median. */
static uint32_t window_of(const struct gs_detect_change_options *o)
{
	int64_t most = o->baseline_samples > o->training_samples ? o->baseline_samples
								 : o->training_samples;

	return most > RECENT ? (uint32_t)most : RECENT;
}

static double *scratch_of(struct change *c, const struct gs_detect_change_options *o)
{
	return c->usual + window_of(o);
}

static size_t change_bytes(const void *options)
{
	return sizeof(struct change) + 2 * window_of(options) * sizeof(double);
}

/* Mean number of samples until a sum of normal scores with mean -allowance is above limit. */
static double run_length(double allowance, double limit)
{
	double b = limit + 1.166; /* how far the sum is above the limit when it passes it */

	return (exp(2 * allowance * b) - 2 * allowance * b - 1) / (2 * allowance * allowance);
}

static double find_limit(double allowance, double samples)
{
	double low = 0, high = 1;

	while (run_length(allowance, high) < samples && high < 1e4)
		high *= 2;
	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (run_length(allowance, middle) < samples)
			low = middle;
		else
			high = middle;
	}
	return high;
}

static double cut_score(const struct change *c, double x)
{
	return fmax(-SCORE_MAX, fmin(SCORE_MAX, (x - c->centre) / c->spread));
}

static double score_sample(const struct change *c, double x)
{
	return (cut_score(c, x) - c->score_mean) / c->score_deviation;
}

/* What dependence of neighbours does to the deviation of a sum, as of an autoregressive series. */
static double sum_factor(const double *scores, uint32_t n, double mean, double variance)
{
	double product = 0, correlation;

	for (uint32_t i = 1; i < n; i++)
		product += (scores[i] - mean) * (scores[i - 1] - mean);
	correlation = variance > 0 ? product / (n - 1) / variance : 0;
	correlation = fmax(0, fmin(0.9, correlation));
	return sqrt((1 + correlation) / (1 - correlation));
}

static void renew_model(struct change *c, const struct gs_detect_change_options *o)
{
	/* The ring's oldest first: neighbours must be neighbours. */
	uint32_t n = c->n_usual, oldest = n < window_of(o) ? 0 : c->next_usual;
	double smallest = log1p(o->min_change), mean = 0, variance = 0, factor, small;
	double *scratch = scratch_of(c, o);

	memcpy(scratch, c->usual, n * sizeof(double));
	c->centre = gs_detect_median(scratch, n);
	c->extremes[0] = gs_detect_quantile(scratch, n, 1 - EXTREME);
	c->extremes[1] = gs_detect_quantile(scratch, n, EXTREME);
	/* Equal times to the digit have no deviation; a change must still be several of it. */
	c->spread = fmax(gs_detect_spread(scratch, n, c->centre), fmax(smallest / 8, LEAST_SPREAD));
	for (uint32_t i = 0; i < n; i++) {
		scratch[i] = cut_score(c, c->usual[(oldest + i) % n]);
		mean += scratch[i] / n;
	}
	for (uint32_t i = 0; i < n; i++)
		variance += (scratch[i] - mean) * (scratch[i] - mean) / n;
	factor = sum_factor(scratch, n, mean, variance);
	c->score_mean = mean;
	c->score_deviation = fmax(sqrt(variance), 0.25) * factor;
	/* Half of the change that is looked for (the best for that change); but the centre itself is
	 * known only so well. */
	small = fmax(smallest / c->spread / c->score_deviation / 2,
		     CENTRE_ERRORS * CENTRE_ERROR / sqrt(n));
	small = fmin(small, SCORE_MAX / 2 / c->score_deviation);
	c->allowance[0] = small;
	c->allowance[1] = fmax(small, LARGE_ALLOWANCE);
	/* Each sum may give its part of the false alarms. The centre is off by one standard error,
	 * which is the allowance less for one side. */
	for (unsigned k = 0; k < N_CLASSES; k++)
		c->limit[k] = find_limit(c->allowance[k] - fmin(small / 3, CENTRE_ERROR / sqrt(n)),
					 N_SUMS * (double)o->false_alarm_samples);
}

static void add_usual(struct change *c, const struct gs_detect_change_options *o, double x)
{
	uint32_t most = window_of(o);

	c->usual[c->next_usual] = x;
	c->next_usual = (c->next_usual + 1) % most;
	c->n_usual += c->n_usual < most;
}

/* Both halves of what was trained on are alike: not the warm-up of a run. */
static bool has_settled(struct change *c, const struct gs_detect_change_options *o)
{
	uint32_t half = c->n_usual / 2;
	double first, second, spread, *scratch = scratch_of(c, o);

	memcpy(scratch, c->usual, half * sizeof(double));
	first = gs_detect_median(scratch, half);
	memcpy(scratch, c->usual + half, half * sizeof(double));
	second = gs_detect_median(scratch, half);
	spread = gs_detect_spread(scratch, half, second);
	return fabs(second - first) <=
	       fmax(log1p(o->min_change) / 2,
		    CENTRE_ERRORS * CENTRE_ERROR * spread * sqrt(2.0 / half));
}

static void train_model(struct change *c, const struct gs_detect_change_options *o, double x)
{
	uint32_t dropped = (uint32_t)o->training_samples / 4;

	add_usual(c, o, x);
	if (c->n_usual < (uint32_t)o->training_samples)
		return;
	if (!has_settled(c, o) && ++c->n_trials < TRAINING_TRIALS) {
		c->n_usual -= dropped;
		c->next_usual = c->n_usual;
		memmove(c->usual, c->usual + dropped, c->n_usual * sizeof(double));
		return;
	}
	renew_model(c, o);
	c->trained = true;
}

static void forget_sums(struct change *c)
{
	memset(c->sums, 0, sizeof(c->sums));
	memset(c->n_beyond, 0, sizeof(c->n_beyond));
	c->n_candidates = 0;
}

/* The median of the newest n samples. */
static double recent_median(struct change *c, const struct gs_detect_change_options *o, uint32_t n)
{
	double *scratch = scratch_of(c, o);

	for (uint32_t i = 0; i < n; i++)
		scratch[i] = c->recent[(c->n_recent - 1 - i) % RECENT];
	return gs_detect_median(scratch, n);
}

static void report_change(const struct change *c, struct gs_detect_finding *f)
{
	detect_set_medians(f, exp(c->centre), exp(c->changed_centre));
	f->since_ns = c->begun_ns;
	f->n_before = c->n_usual;
	f->n_after = c->n_changed;
	detect_add_parameter(f, "usual_spread_pct", 100 * expm1(c->spread));
	detect_add_parameter(f, "score_mean", c->score_mean);
	detect_add_parameter(f, "score_deviation", c->score_deviation);
	detect_add_parameter(f, "allowance", c->allowance[0]);
}

/* Of the newest n samples, how many are of the change: so that those are as far as can be on its side of
 * the middle between both levels. Sums are above 0 by chance, too, when a change comes. */
static uint32_t count_changed(struct change *c, const struct gs_detect_change_options *o,
			      uint32_t n, int direction)
{
	double level = recent_median(c, o, n < NEWEST ? n : NEWEST), sum = 0, most = 0;
	double middle = (level + c->centre) / 2;
	uint32_t changed = 1;

	for (uint32_t i = 0; i < n; i++) {
		double off = (c->recent[(c->n_recent - 1 - i) % RECENT] - middle) / c->spread;

		sum += fmax(-SCORE_MAX, fmin(SCORE_MAX, direction * off));
		if (sum > most) {
			most = sum;
			changed = i + 1;
		}
	}
	return changed;
}

/* The newest n samples are changed, or of the remembered ones all, and n since since_ns. */
static void begin_change(struct change *c, const struct gs_detect_change_options *o, int direction,
			 uint32_t n, uint64_t since_ns, struct gs_detect_finding *f)
{
	c->direction = direction;
	c->changed_centre = recent_median(c, o, n < RECENT ? n : RECENT);
	c->n_changed = n;
	c->begun_ns = since_ns;
	c->end_sum = 0;
	forget_sums(c);
	report_change(c, f);
}

/* Sum i is above its limit: is the median elsewhere, too? */
static bool judge_sum(struct change *c, const struct gs_detect_change_options *o, unsigned i,
		      struct gs_detect_finding *f)
{
	int direction = i % 2 ? -1 : 1;
	struct sum *sum = &c->sums[i];
	uint32_t n = count_changed(c, o, sum->n < RECENT ? sum->n : RECENT, direction);
	double moved = recent_median(c, o, n) - c->centre;

	if (n < CHANGED_MIN)
		return false; /* the next ones will say: it may be a pause */
	if (direction * moved < REPORTED_SHARE * log1p(o->min_change)) {
		*sum = (struct sum){0};
		return false;
	}
	f->score = sum->value;
	f->limit = c->limit[i / 2];
	/* All of those that are remembered: it may have begun before them. */
	if (n < RECENT)
		begin_change(c, o, direction, n, c->recent_ns[(c->n_recent - n) % RECENT], f);
	else
		begin_change(c, o, direction, sum->n, sum->since_ns, f);
	return true;
}

/* One more sample: so many in a row, beyond nearly all usual ones, that they are a change? */
static bool judge_run(struct change *c, const struct gs_detect_change_options *o, double x,
		      struct gs_detect_finding *f)
{
	for (unsigned side = 0; side < 2; side++) {
		int direction = side ? -1 : 1;

		if (direction * (x - c->extremes[side]) <= 0) {
			c->n_beyond[side] = 0;
			continue;
		}
		if (++c->n_beyond[side] < RUN ||
		    direction * (recent_median(c, o, RUN) - c->centre) <
			    REPORTED_SHARE * log1p(o->min_change))
			continue;
		f->score = c->n_beyond[side];
		f->limit = RUN;
		begin_change(c, o, direction, RUN, c->recent_ns[(c->n_recent - RUN) % RECENT], f);
		return true;
	}
	return false;
}

static enum gs_detect_outcome follow_change(struct change *c,
					    const struct gs_detect_change_options *o, double x,
					    struct gs_detect_finding *f)
{
	double back = (c->centre + c->changed_centre) / 2 - x;

	c->n_changed++;
	back = fmax(-SCORE_MAX, fmin(SCORE_MAX, c->direction * back / c->spread));
	c->end_sum = fmax(0, c->end_sum + back / c->score_deviation);
	f->became_usual = c->n_changed >= (uint64_t)o->usual_after_samples;
	if (c->end_sum <= END_LIMIT && !f->became_usual) {
		/* The first median was of a few samples only. */
		if (c->n_changed % REFINE == 0)
			c->changed_centre =
				recent_median(c, o, c->n_changed < RECENT ? c->n_changed : RECENT);
		return GS_DETECT_NOTHING;
	}
	f->score = c->end_sum;
	report_change(c, f);
	f->limit = END_LIMIT;
	c->direction = 0;
	if (f->became_usual) {
		c->trained = false;
		c->n_usual = c->next_usual = c->n_trials = 0;
	}
	return GS_DETECT_ENDED;
}

/* Samples become usual by the block, when neither sum has risen meanwhile and no run is on. */
static void add_candidate(struct change *c, const struct gs_detect_change_options *o, double x)
{
	double highest = 0;

	if (c->n_beyond[0] >= RUN_HELD || c->n_beyond[1] >= RUN_HELD) {
		c->n_candidates = 0;
		return;
	}
	c->candidates[c->n_candidates++] = x;
	if (c->n_candidates < RENEW)
		return;
	for (unsigned i = 0; i < N_SUMS; i++)
		highest = fmax(highest, c->sums[i].value / c->limit[i / 2]);
	if (highest < 1.0 / 3) {
		for (uint32_t i = 0; i < RENEW; i++)
			add_usual(c, o, c->candidates[i]);
		renew_model(c, o);
	}
	c->n_candidates = 0;
}

static enum gs_detect_outcome feed_change(void *state, const void *options, uint64_t time_ns,
					  const double *values, struct gs_detect_finding *ret)
{
	const struct gs_detect_change_options *o = options;
	struct change *c = state;
	double x = log(values[0]), score;

	c->recent_ns[c->n_recent % RECENT] = time_ns;
	c->recent[c->n_recent++ % RECENT] = x;
	if (!c->trained) {
		train_model(c, o, x);
		return GS_DETECT_NOTHING;
	}
	if (c->direction)
		return follow_change(c, o, x, ret);
	score = score_sample(c, x);
	for (unsigned i = 0; i < N_SUMS; i++) {
		struct sum *sum = &c->sums[i];

		if (sum->value == 0)
			*sum = (struct sum){.since_ns = time_ns};
		sum->n++;
		sum->value = fmax(0, sum->value + (i % 2 ? -score : score) - c->allowance[i / 2]);
		if (sum->value > c->limit[i / 2] && judge_sum(c, o, i, ret))
			return GS_DETECT_BEGUN;
	}
	if (judge_run(c, o, x, ret))
		return GS_DETECT_BEGUN;
	add_candidate(c, o, x);
	return GS_DETECT_NOTHING;
}

static void begin_state(void *state, const void *options)
{
}

static const struct gs_conf_key change_keys[] = {
#define OPTION(field) offsetof(struct gs_detect_change_options, field)
	{"training_samples", GS_CONF_NUMBER, OPTION(training_samples), "128",
	 "First samples, which are the baseline and are not checked.", 16, BASELINE_MAX},
	{"baseline_samples", GS_CONF_NUMBER, OPTION(baseline_samples), "512",
	 "Samples of the current baseline; at least training_samples.", 16, BASELINE_MAX},
	{"min_change", GS_CONF_RATIO, OPTION(min_change), "2%", "Smallest change to look for."},
	{"false_alarm_samples", GS_CONF_NUMBER, OPTION(false_alarm_samples), "1000000",
	 "Mean number of independent samples from one false alarm to the next.", 100,
	 1000000000000},
	{"usual_after_samples", GS_CONF_NUMBER, OPTION(usual_after_samples), "2048",
	 "A change that lasts for this many samples becomes the new baseline.", 64, 1000000000},
};

DETECT_SCHEMA(change, struct gs_detect_change_options, "Detector of change points.");

const struct gs_detector gs_detect_change = {
	.name = "change",
	.reads = "times of steps or of calls",
	.finds = "times become longer or shorter at one point, and stay so",
	.score =
		"the cumulative sum of scores, in deviations; or samples in a row beyond nearly all usual ones",
	.n_values = 1,
	.takes_logarithm = true,
	.options = &change_schema,
	.state_bytes = change_bytes,
	.begin = begin_state,
	.feed = feed_change,
};
