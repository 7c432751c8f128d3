/*
 * A trend over minutes: points, one for each bucket of time, and what they say together. A step, a
 * pause or a cache that fills also makes a slope that is significant; so each third of the points
 * must be further on than the one before.
 */
#include <math.h>
#include <string.h>

#include "analysis/detect/detect_int.h"

#define THIRD_SHARE 0.2 /* of the whole growth, from one third to the next; evenly it is a third */
#define END_SHARE   0.6 /* of the growth to the second third, from there to the last: it goes on */

#define BEGIN_SHARE 0.1 /* of the way from the first third to the last */
#define PATIENCE    4   /* points without the trend, before it is over */

static void start_bucket(struct trend *t, uint64_t time_ns)
{
	t->begin_ns = time_ns;
	t->n_samples = t->n_skipped = 0;
	t->stride = 1;
	t->least = INFINITY;
}

static void add_point(struct trend *t, const struct trend_rule *rule)
{
	if (t->n_points == rule->max_buckets) {
		t->n_points--;
		memmove(t->points, t->points + 1, t->n_points * sizeof(*t->points));
		memmove(t->times_ns, t->times_ns + 1, t->n_points * sizeof(*t->times_ns));
	}
	t->times_ns[t->n_points] = t->begin_ns;
	t->points[t->n_points++] =
		rule->of_least ? t->least : gs_detect_median(t->samples, t->n_samples);
}

static void take_sample(struct trend *t, double value)
{
	t->least = fmin(t->least, value);
	if (++t->n_skipped < t->stride)
		return;
	t->n_skipped = 0;
	if (t->n_samples == TREND_MAX_SAMPLES) {
		for (uint32_t i = 0; i < TREND_MAX_SAMPLES / 2; i++)
			t->samples[i] = t->samples[2 * i];
		t->n_samples /= 2;
		t->stride *= 2;
	}
	t->samples[t->n_samples++] = value;
}

bool detect_trend_add(struct trend *t, const struct trend_rule *rule, uint64_t time_ns,
		      double value)
{
	bool finished = t->begin_ns && time_ns - t->begin_ns >= rule->bucket_ns;

	if (finished)
		add_point(t, rule);
	if (finished || !t->begin_ns)
		start_bucket(t, time_ns);
	take_sample(t, value);
	return finished;
}

static double median_of(const double *points, uint32_t n)
{
	double sorted[TREND_MAX_BUCKETS];

	memcpy(sorted, points, n * sizeof(*points));
	return gs_detect_median(sorted, n);
}

struct trend_judgement detect_trend_judge(const struct trend *t, double min_z)
{
	double slopes[GS_DETECT_N_SLOPES(TREND_MAX_BUCKETS)], middle;
	struct trend_judgement j = {.z = gs_detect_trend_z(t->points, t->n_points)};
	uint32_t third = t->n_points / 3;

	if (!third)
		return j;
	j.first = median_of(t->points, third);
	/* Of an odd number: half of an abrupt step would lie between the middles of an even one. */
	middle = median_of(t->points + third, (t->n_points - 2 * third - 1) | 1);
	j.last = median_of(t->points + t->n_points - third, third);
	/* The slope takes far longer than all else, and most of the time there is no trend. */
	if (fabs(j.z) <= min_z)
		return j;
	j.growth = gs_detect_trend_slope(t->points, t->n_points, slopes) * (t->n_points - 1);
	j.goes_on = (j.last - middle) / j.growth > THIRD_SHARE / 2;
	j.steady = (middle - j.first) / j.growth > THIRD_SHARE &&
		   (j.last - middle) / j.growth > THIRD_SHARE &&
		   (j.last - middle) / (middle - j.first) > END_SHARE;
	return j;
}

enum gs_detect_outcome detect_trend_decide(struct trend_hold *hold, const struct trend_judgement *j,
					   bool large)
{
	bool found = large && (hold->holds ? j->goes_on : j->steady);

	hold->n_without = found ? 0 : hold->n_without + 1;
	if (found == hold->holds || (hold->holds && hold->n_without < PATIENCE))
		return GS_DETECT_NOTHING;
	hold->holds = found;
	return found ? GS_DETECT_BEGUN : GS_DETECT_ENDED;
}

/* When the trend began: at the last point that is still near where the first third was. */
static uint64_t find_begin(const struct trend *t, const struct trend_judgement *j)
{
	double whole = j->last - j->first;

	for (uint32_t i = t->n_points; i-- > 0;)
		if ((t->points[i] - j->first) / whole <= BEGIN_SHARE)
			return t->times_ns[i];
	return t->times_ns[0];
}

void detect_trend_report(const struct trend *t, const struct trend_judgement *j, double min_z,
			 uint64_t now_ns, struct gs_detect_finding *ret)
{
	double seconds =
		t->n_points > 1 ? (double)(t->times_ns[t->n_points - 1] - t->times_ns[0]) / 1e9 : 0;

	detect_set_medians(ret, j->first, j->last);
	ret->since_ns = find_begin(t, j);
	ret->score = fabs(j->z);
	ret->limit = min_z;
	ret->n_before = ret->n_after = t->n_points / 3;
	detect_add_parameter(ret, "growth", j->growth);
	detect_add_parameter(ret, "growth_per_second", seconds > 0 ? j->growth / seconds : 0);
	detect_add_parameter(ret, "points", t->n_points);
	detect_add_parameter(ret, "window_seconds", (double)(now_ns - t->times_ns[0]) / 1e9);
}
