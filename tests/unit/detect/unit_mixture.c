/*
 * Gaussian mixtures: the answers of scikit-learn on the same samples, mixtures whose parameters are
 * known, and what no model can be made of.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analysis/detect/mixture.h"
#include "core/base/mem.h"
#include "random.h"
#include "unit/rounds.h"

#define MAX_SAMPLES 2000

struct part { /* one normal distribution of the samples */
	double weight, mean[3], lower[3][3];
};

struct data {
	uint64_t seed;
	size_t n;
	unsigned n_values, n_parts;
	struct part parts[3];
};

/* As in mixture_golden.py. */
static const struct data all_data[] = {
	{1, 600, 1, 3, {{0.6, {9.5}, {{0.15}}}, {0.3, {10.5}, {{0.25}}}, {0.1, {15.0}, {{0.5}}}}},
	{2, 500, 1, 2, {{0.5, {8.0}, {{0.4}}}, {0.5, {8.9}, {{0.3}}}}},
	{3,
	 400,
	 3,
	 2,
	 {{0.7, {0.30, 0.70, 62.0}, {{0.02, 0, 0}, {0.01, 0.05, 0}, {0.5, 1.0, 2.0}}},
	  {0.3, {0.10, 0.20, 40.0}, {{0.01, 0, 0}, {0.005, 0.02, 0}, {0.2, 0.3, 1.0}}}}},
};

struct golden {
	unsigned data, n_components;
	enum gs_detect_start start;
	enum gs_detect_covariance covariance;
	unsigned n_iterations;
	bool converged;
	double mean_likelihood, bic, first_density;
	double weight[4], mean[4][3], covariance_of[4][3][3];
};

#include "mixture_golden.h"

static void make_samples(const struct data *data, double *ret)
{
	uint64_t state = data->seed;

	for (size_t s = 0; s < data->n; s++) {
		double drawn = draw_uniform(&state), normal[3];
		unsigned k = 0;

		while (k < data->n_parts - 1 && drawn >= data->parts[k].weight)
			drawn -= data->parts[k++].weight;
		for (unsigned i = 0; i < data->n_values; i++)
			normal[i] = draw_normal(&state);
		for (unsigned i = 0; i < data->n_values; i++) {
			double value = data->parts[k].mean[i];

			for (unsigned j = 0; j <= i; j++)
				value += data->parts[k].lower[i][j] * normal[j];
			*ret++ = value;
		}
	}
}

static struct gs_detect_fit fit_of(unsigned n_values, unsigned n_components)
{
	return (struct gs_detect_fit){.n_values = n_values,
				      .n_components = n_components,
				      .start = GS_DETECT_START_QUANTILE,
				      .seed = 1,
				      .floor = 1e-6,
				      .tolerance = 1e-6,
				      .max_iterations = 300};
}

static void assert_near(double got, double wanted, double relative)
{
	double allowed = relative * fmax(fabs(wanted), 1e-3);

	if (!(fabs(got - wanted) <= allowed))
		fail_msg("%.17g is not %.17g (relative %g)", got, wanted, relative);
}

/* Components stand in the order of their first mean. */
static void sort_components(struct gs_detect_mixture *m)
{
	for (unsigned i = 1; i < m->n_components; i++)
		for (unsigned k = i; k > 0 && m->component[k].mean[0] < m->component[k - 1].mean[0];
		     k--) {
			struct gs_detect_component swapped = m->component[k];

			m->component[k] = m->component[k - 1];
			m->component[k - 1] = swapped;
		}
}

/* From the same start: the same path, so all digits but the last ones. From k-means, whose draws differ:
 * the same optimum, as near as the tolerance of 1e-6 of the likelihood lets both stop. */
static void compare_golden(const struct golden *g)
{
	bool same_start = g->start == GS_DETECT_START_QUANTILE;
	const struct data *data = &all_data[g->data];
	double samples[MAX_SAMPLES], near = same_start ? 1e-8 : 2e-2;
	struct gs_detect_fit fit = fit_of(data->n_values, g->n_components);
	struct gs_detect_mixture m;

	fit.start = g->start;
	fit.covariance = g->covariance;
	make_samples(data, samples);
	assert_int_equal(gs_detect_mixture_fit(&fit, samples, data->n, &m), 0);
	if (same_start) {
		assert_int_equal(m.n_iterations, g->n_iterations);
		assert_int_equal(m.converged, g->converged);
	} else {
		sort_components(&m);
	}
	assert_near(m.mean_likelihood, g->mean_likelihood, same_start ? 1e-8 : 1e-4);
	assert_near(m.bic, g->bic, same_start ? 1e-8 : 1e-4);
	assert_near(gs_detect_mixture_density(&m, samples), g->first_density, near);
	for (unsigned c = 0; c < m.n_components; c++) {
		assert_near(m.component[c].weight, g->weight[c], near);
		for (unsigned i = 0; i < m.n_values; i++) {
			assert_near(m.component[c].mean[i], g->mean[c][i], near);
			for (unsigned k = 0; k < m.n_values; k++)
				assert_near(m.component[c].covariance[i][k],
					    g->covariance_of[c][i][k], near);
		}
	}
}

static void answers_of_scikit_learn(void **state)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(goldens); i++)
		compare_golden(&goldens[i]);
}

/* BIC of scikit-learn's models decides, too. */
static void number_of_components(void **state)
{
	for (unsigned d = 0; d < GS_ARRAY_LEN(all_data); d++) {
		double samples[MAX_SAMPLES], least = INFINITY;
		struct gs_detect_fit fit = fit_of(all_data[d].n_values, 4);
		struct gs_detect_mixture m;
		unsigned wanted = 0;

		for (size_t i = 0; i < GS_ARRAY_LEN(goldens); i++)
			if (goldens[i].data == d && goldens[i].start == fit.start &&
			    goldens[i].covariance == fit.covariance && goldens[i].bic < least) {
				least = goldens[i].bic;
				wanted = goldens[i].n_components;
			}
		make_samples(&all_data[d], samples);
		assert_int_equal(gs_detect_mixture_choose(&fit, samples, all_data[d].n, &m), 0);
		assert_int_equal(m.n_components, wanted);
	}
}

/* Random mixtures of one to four components that lie apart: their number, weights, means and
 * deviations are found again, from either start. */
static void known_mixtures(void **state)
{
	for (uint64_t seed = 1; seed <= TEST_ROUNDS(40); seed++) {
		unsigned k = 1 + (unsigned)(seed % 4);
		double samples[MAX_SAMPLES], mean[4], deviation[4];
		struct gs_detect_fit fit = fit_of(1, 6);
		struct gs_detect_mixture m;
		uint64_t random = seed * 1000;

		for (unsigned c = 0; c < k; c++) {
			deviation[c] = 0.05 + 0.2 * draw_uniform(&random);
			mean[c] = (c ? mean[c - 1] : 8) + 2 + 2 * draw_uniform(&random);
		}
		for (size_t i = 0; i < MAX_SAMPLES; i++)
			samples[i] = mean[i % k] + deviation[i % k] * draw_normal(&random);
		fit.start = seed % 3 ? GS_DETECT_START_KMEANS : GS_DETECT_START_QUANTILE;
		fit.seed = seed;
		assert_int_equal(gs_detect_mixture_choose(&fit, samples, MAX_SAMPLES, &m), 0);
		assert_int_equal(m.n_components, k);
		sort_components(&m);
		for (unsigned c = 0; c < k; c++) {
			/* Six standard errors: none of forty mixtures is out by chance. */
			double error = deviation[c] / sqrt((double)MAX_SAMPLES / k);

			assert_true(fabs(m.component[c].mean[0] - mean[c]) < 6 * error);
			assert_near(sqrt(m.component[c].covariance[0][0]), deviation[c], 0.2);
			assert_near(m.component[c].weight, 1.0 / k, 0.01);
		}
	}
}

/* The density over all of the line is 1, whatever the model. */
static void density_of_all_is_one(void **state)
{
	double samples[MAX_SAMPLES], sum = 0;
	struct gs_detect_fit fit = fit_of(1, 3);
	struct gs_detect_mixture m;

	make_samples(&all_data[0], samples);
	assert_int_equal(gs_detect_mixture_fit(&fit, samples, all_data[0].n, &m), 0);
	for (double x = 0; x < 30; x += 0.001)
		sum += exp(gs_detect_mixture_density(&m, &x)) * 0.001;
	assert_near(sum, 1, 1e-6);
}

static void same_seed_same_model(void **state)
{
	struct gs_detect_fit fit = fit_of(3, 3);
	struct gs_detect_mixture one, two;
	double samples[MAX_SAMPLES];

	fit.start = GS_DETECT_START_KMEANS;
	make_samples(&all_data[2], samples);
	assert_int_equal(gs_detect_mixture_fit(&fit, samples, all_data[2].n, &one), 0);
	assert_int_equal(gs_detect_mixture_fit(&fit, samples, all_data[2].n, &two), 0);
	assert_memory_equal(&one, &two, sizeof(one));
}

/* Samples that are equal, fewer values than components, one far away, and none that is finite. */
static void hard_samples(void **state)
{
	double equal[50], two[50], far[50], bad[50];
	static const double wrong[] = {NAN, INFINITY, -INFINITY};
	struct gs_detect_fit fit = fit_of(1, 4);
	struct gs_detect_mixture m;

	for (unsigned i = 0; i < 50; i++) {
		equal[i] = 9;
		two[i] = i % 2;
		far[i] = i == 49 ? 1e300 : i;
	}
	for (unsigned start = 0; start < 2; start++) {
		fit.start = start ? GS_DETECT_START_QUANTILE : GS_DETECT_START_KMEANS;
		assert_int_equal(gs_detect_mixture_choose(&fit, equal, 50, &m), 0);
		assert_int_equal(m.n_components, 1);
		assert_near(m.component[0].mean[0], 9, 1e-9);
		assert_true(isfinite(gs_detect_mixture_density(&m, &(double){1e6})));
		assert_true(gs_detect_mixture_density(&m, &(double){1e300}) == -INFINITY);
		assert_int_equal(gs_detect_mixture_choose(&fit, two, 50, &m), 0);
		assert_int_equal(m.n_components, 2);
		assert_int_equal(gs_detect_mixture_choose(&fit, far, 50, &m), -ERANGE);
		for (unsigned w = 0; w < GS_ARRAY_LEN(wrong); w++) {
			memcpy(bad, two, sizeof(bad));
			bad[30] = wrong[w];
			assert_int_equal(gs_detect_mixture_fit(&fit, bad, 50, &m), -EINVAL);
		}
		assert_int_equal(gs_detect_mixture_fit(&fit, two, 3, &m), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_of_scikit_learn), cmocka_unit_test(number_of_components),
		cmocka_unit_test(known_mixtures),          cmocka_unit_test(density_of_all_is_one),
		cmocka_unit_test(same_seed_same_model),    cmocka_unit_test(hard_samples),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
