/* Events, alarms and what follows of them: score.h. */
#include "score.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>

#define REPLICATES 1000
#define TICK_NS    1000000000ull

struct judge {
	const struct score_contender *contender;
	const struct synthetic_run *run;
	struct score *score;
	struct score_counts counts;
	bool *found; /* of each label */
	size_t next_label;
};

static double cpu_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void take_alarm(struct judge *j, const struct gs_detect_finding *f)
{
	const struct synthetic_label *l;

	if (j->contender->of_rises && f->change_pct <= 0)
		return;
	/* Alarms come in the order of time. */
	while (j->next_label < j->run->n_labels &&
	       f->found_ns > j->run->labels[j->next_label].end_ns + SCORE_GRACE_NS)
		j->next_label++;
	l = &j->run->labels[j->next_label];
	if (j->next_label == j->run->n_labels || f->found_ns < l->start_ns) {
		j->counts.n_false++;
		return;
	}
	if (j->found[j->next_label])
		return;
	j->found[j->next_label] = true;
	j->counts.n_found++;
	if (j->score->n_delays < SCORE_MAX_DELAYS)
		j->score->delays_s[j->score->n_delays++] =
			(float)((double)(f->found_ns - l->start_ns) / 1e9);
}

static void feed_run(struct judge *j, struct gs_detect *d)
{
	struct gs_detect_finding f;

	for (size_t i = 0; i < j->run->n_samples; i++) {
		const struct synthetic_sample *s = &j->run->samples[i];

		/* Time passes without a sample: a caller asks once a second. */
		for (uint64_t t = i ? s[-1].time_ns + TICK_NS : s->time_ns; t < s->time_ns;
		     t += TICK_NS)
			if (gs_detect_tick(d, t, &f) == GS_DETECT_BEGUN)
				take_alarm(j, &f);
		if (gs_detect_feed(d, s->time_ns, s->values, &f) == GS_DETECT_BEGUN)
			take_alarm(j, &f);
	}
}

static bool have_delays(struct score *score)
{
	if (!score->delays_s)
		score->delays_s = calloc(SCORE_MAX_DELAYS, sizeof(*score->delays_s));
	return score->delays_s;
}

static void add_counts(struct score_counts *to, const struct score_counts *from)
{
	to->n_events += from->n_events;
	to->n_found += from->n_found;
	to->n_false += from->n_false;
}

int score_merge(struct score *score, const struct score *other)
{
	if (!have_delays(score))
		return -ENOMEM;
	for (size_t i = 0; i < other->n_delays && score->n_delays < SCORE_MAX_DELAYS; i++)
		score->delays_s[score->n_delays++] = other->delays_s[i];
	add_counts(&score->counts, &other->counts);
	score->days += other->days;
	score->cpu_ns += other->cpu_ns;
	score->n_samples += other->n_samples;
	return 0;
}

int score_add_run(struct score *score, const struct score_contender *contender,
		  const struct synthetic_run *run, struct score_counts *ret_counts)
{
	struct judge j = {.contender = contender, .run = run, .score = score};
	GS_FREE bool *found = calloc(run->n_labels + 1, sizeof(*found));
	struct gs_detect *d = NULL;
	double start;
	int r;

	if (!have_delays(score) || !found)
		return -ENOMEM;
	j.found = found;
	r = gs_detect_new(contender->detector, contender->options, &d);
	if (r < 0)
		return r;
	start = cpu_now_ns();
	feed_run(&j, d);
	score->cpu_ns += cpu_now_ns() - start;
	gs_detect_free(&d);
	j.counts.n_events = (unsigned)run->n_labels;
	add_counts(&score->counts, &j.counts);
	score->n_samples += run->n_samples;
	score->days += (double)(run->end_ns - run->start_ns) / 86400e9;
	if (ret_counts)
		*ret_counts = j.counts;
	return 0;
}

void score_fini(struct score *score)
{
	free(score->delays_s);
	*score = (struct score){0};
}

double score_precision(const struct score_counts *c)
{
	unsigned n_alarms = c->n_found + c->n_false;

	return n_alarms ? (double)c->n_found / n_alarms : 1;
}

double score_recall(const struct score_counts *c)
{
	return c->n_events ? (double)c->n_found / c->n_events : 1;
}

double score_f1(const struct score_counts *c)
{
	double found = 2.0 * c->n_found;

	return found + c->n_false + (c->n_events - c->n_found) > 0
		       ? found / (found + c->n_false + (c->n_events - c->n_found))
		       : 1;
}

static int compare_floats(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double score_delay(struct score *score, double share)
{
	size_t at = (size_t)(share * (double)score->n_delays);

	if (!score->n_delays)
		return NAN;
	qsort(score->delays_s, score->n_delays, sizeof(*score->delays_s), compare_floats);
	return score->delays_s[at < score->n_delays ? at : score->n_delays - 1];
}

void score_interval(const struct score_counts *runs, size_t n_strata, size_t n, double *ret_low,
		    double *ret_high)
{
	double f1[REPLICATES];
	uint64_t random = 17;

	for (int i = 0; i < REPLICATES; i++) {
		struct score_counts sum = {0};

		for (size_t k = 0; k < n_strata * n; k++) {
			const struct score_counts *drawn =
				&runs[k / n * n + (size_t)(synthetic_draw(&random) * (double)n)];

			add_counts(&sum, drawn);
		}
		f1[i] = score_f1(&sum);
	}
	qsort(f1, REPLICATES, sizeof(*f1), compare_doubles);
	*ret_low = f1[REPLICATES * 25 / 1000];
	*ret_high = f1[REPLICATES * 975 / 1000 - 1];
}

/* The chance of at most n events where mean are expected. */
static double chance_of_at_most(unsigned n, double mean)
{
	double term = exp(-mean), sum = term;

	for (unsigned i = 1; i <= n; i++) {
		term *= mean / i;
		sum += term;
	}
	return sum;
}

static double mean_with_chance(unsigned n, double chance)
{
	double low = 0, high = 10 + 4.0 * n;

	for (int i = 0; i < 100; i++) {
		double middle = (low + high) / 2;

		if (chance_of_at_most(n, middle) > chance)
			low = middle;
		else
			high = middle;
	}
	return low;
}

void score_rate_interval(unsigned n, double days, double *ret_low, double *ret_high)
{
	if (n > 500) { /* exp() of more would be 0; the normal distribution is near enough */
		*ret_low = (n - 1.96 * sqrt(n)) / days;
		*ret_high = (n + 1.96 * sqrt(n)) / days;
		return;
	}
	*ret_low = n ? mean_with_chance(n - 1, 0.975) / days : 0;
	*ret_high = mean_with_chance(n, 0.025) / days;
}
