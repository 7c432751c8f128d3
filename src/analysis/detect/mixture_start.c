/*
 * How EM starts: which samples each component has before the first iteration. k-means++ (Arthur and
 * Vassilvitskii, 2007) with Lloyd's iterations, or equal parts by rank. The seed decides which
 * samples k-means++ draws; the generator is splitmix64.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/detect/mixture_int.h"

#define LLOYD_ITERATIONS 10 /* EM does the rest */

struct centre {
	double at[GS_DETECT_MAX_VALUES];
};

struct starter {
	const struct gs_detect_fit *fit;
	const double *samples;
	size_t n;
	double scale
		[GS_DETECT_MAX_VALUES]; /* 1 / standard deviation: values have different units */
	struct centre centres[GS_DETECT_MAX_COMPONENTS];
	uint64_t state;
};

static double draw_uniform(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static const double *sample_at(const struct starter *s, size_t i)
{
	return s->samples + i * s->fit->n_values;
}

static double distance_to(const struct starter *s, const double *values, unsigned centre)
{
	double sum = 0;

	for (unsigned i = 0; i < s->fit->n_values; i++) {
		double off = (values[i] - s->centres[centre].at[i]) * s->scale[i];

		sum += off * off;
	}
	return sum;
}

/* The nearest of the first n_centres. */
static unsigned find_centre(const struct starter *s, const double *values, unsigned n_centres,
			    double *ret_distance)
{
	unsigned nearest = 0;

	*ret_distance = distance_to(s, values, 0);
	for (unsigned c = 1; c < n_centres; c++) {
		double distance = distance_to(s, values, c);

		if (distance < *ret_distance) {
			*ret_distance = distance;
			nearest = c;
		}
	}
	return nearest;
}

static void scale_values(struct starter *s)
{
	for (unsigned v = 0; v < s->fit->n_values; v++) {
		double mean = 0, squares = 0;

		for (size_t i = 0; i < s->n; i++)
			mean += sample_at(s, i)[v] / (double)s->n;
		for (size_t i = 0; i < s->n; i++) {
			double off = sample_at(s, i)[v] - mean;

			squares += off * off / (double)s->n;
		}
		s->scale[v] = squares > 0 && isfinite(squares) ? 1 / sqrt(squares) : 1;
	}
}

/* Each next centre is a sample, drawn with the square of its distance to those before. */
static void draw_centres(struct starter *s)
{
	size_t first = (size_t)(draw_uniform(&s->state) * (double)s->n);
	size_t value_bytes = s->fit->n_values * sizeof(double);

	memcpy(s->centres[0].at, sample_at(s, first), value_bytes);
	for (unsigned c = 1; c < s->fit->n_components; c++) {
		double total = 0, distance, drawn;
		size_t chosen = s->n - 1;

		for (size_t i = 0; i < s->n; i++) {
			find_centre(s, sample_at(s, i), c, &distance);
			total += distance;
		}
		drawn = draw_uniform(&s->state) * total;
		for (size_t i = 0; i < s->n; i++) {
			find_centre(s, sample_at(s, i), c, &distance);
			drawn -= distance;
			if (drawn < 0) {
				chosen = i;
				break;
			}
		}
		memcpy(s->centres[c].at, sample_at(s, chosen), value_bytes);
	}
}

static void move_centres(struct starter *s)
{
	unsigned k = s->fit->n_components;

	for (int turn = 0; turn < LLOYD_ITERATIONS; turn++) {
		struct mixture_sums sums[GS_DETECT_MAX_COMPONENTS] = {0};
		bool moved = false;

		for (unsigned c = 0; c < k; c++)
			memcpy(sums[c].origin, s->centres[c].at, sizeof(sums[c].origin));
		for (size_t i = 0; i < s->n; i++) {
			double distance;
			unsigned c = find_centre(s, sample_at(s, i), k, &distance);

			mixture_add_sample(&sums[c], sample_at(s, i), s->fit->n_values, 1);
		}
		for (unsigned c = 0; c < k; c++)
			for (unsigned v = 0; v < s->fit->n_values && sums[c].n > 0; v++) {
				double off = sums[c].first[v] / sums[c].n;

				s->centres[c].at[v] += off;
				moved = moved || off != 0;
			}
		if (!moved)
			return;
	}
}

/* How many samples have a first value below this one's, or the same one and stand before it. */
static size_t rank_sample(const struct starter *s, size_t i)
{
	double value = sample_at(s, i)[0];
	size_t rank = 0;

	for (size_t k = 0; k < s->n; k++) {
		double other = sample_at(s, k)[0];

		rank += other < value || (other == value && k < i);
	}
	return rank;
}

static unsigned component_of(const struct starter *s, size_t i)
{
	double distance;

	if (s->fit->start == GS_DETECT_START_QUANTILE)
		return (unsigned)(rank_sample(s, i) * s->fit->n_components / s->n);
	return find_centre(s, sample_at(s, i), s->fit->n_components, &distance);
}

int mixture_start_fit(const struct gs_detect_fit *fit, const double *samples, size_t n,
		      struct gs_detect_mixture *ret)
{
	struct mixture_sums sums[GS_DETECT_MAX_COMPONENTS] = {0};
	struct starter s = {.fit = fit, .samples = samples, .n = n, .state = fit->seed};
	int r = 0;

	memset(ret, 0, sizeof(*ret));
	ret->n_values = fit->n_values;
	ret->n_components = fit->n_components;
	ret->covariance = fit->covariance;
	if (fit->start == GS_DETECT_START_KMEANS) {
		scale_values(&s);
		draw_centres(&s);
		move_centres(&s);
	}
	/* Around the first sample of each: any point among its samples does. */
	for (size_t i = 0; i < n; i++) {
		struct mixture_sums *own = &sums[component_of(&s, i)];

		if (own->n == 0)
			memcpy(own->origin, sample_at(&s, i), fit->n_values * sizeof(double));
		mixture_add_sample(own, sample_at(&s, i), fit->n_values, 1);
	}
	for (unsigned c = 0; c < fit->n_components && r == 0; c++)
		r = mixture_set_component(fit, &sums[c], n, &ret->component[c]);
	return r;
}
