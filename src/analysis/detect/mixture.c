/*
 * EM for Gaussian mixtures. Each iteration is one pass over the samples: the share of each component
 * in a sample (its responsibility) is computed from logarithms and added to that component's sums at
 * once, so there is no matrix of samples x components.
 *
 * What keeps it safe: the largest logarithm is taken out before exponentials are summed (log-sum-exp);
 * every variance has a floor; sums are taken around the component's mean of the iteration before.
 */
#include "analysis/detect/mixture.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "analysis/detect/mixture_int.h"

/* As scikit-learn has it: a component without samples keeps a weight that is not 0. */
#define LEAST_SAMPLES (10 * DBL_EPSILON)

void mixture_add_sample(struct mixture_sums *sums, const double *values, unsigned n_values,
			double weight)
{
	double off[GS_DETECT_MAX_VALUES];

	sums->n += weight;
	for (unsigned i = 0; i < n_values; i++) {
		off[i] = values[i] - sums->origin[i];
		sums->first[i] += weight * off[i];
		for (unsigned k = 0; k <= i; k++)
			sums->second[i][k] += weight * off[i] * off[k];
	}
}

/* whiten = the inverse of the lower Cholesky factor of covariance; log_peak. 0 or -ERANGE. */
static int derive_component(unsigned n_values, struct gs_detect_component *c)
{
	double lower[GS_DETECT_MAX_VALUES][GS_DETECT_MAX_VALUES] = {0};

	memset(c->whiten, 0, sizeof(c->whiten));
	c->log_peak = log(c->weight) - 0.5 * n_values * log(2 * M_PI);
	for (unsigned i = 0; i < n_values; i++) {
		for (unsigned k = 0; k <= i; k++) {
			double rest = c->covariance[i][k];

			for (unsigned j = 0; j < k; j++)
				rest -= lower[i][j] * lower[k][j];
			if (i == k && !(rest > 0 && rest < INFINITY))
				return -ERANGE;
			lower[i][k] = i == k ? sqrt(rest) : rest / lower[k][k];
		}
		c->whiten[i][i] = 1 / lower[i][i];
		for (unsigned k = 0; k < i; k++) {
			double rest = 0;

			for (unsigned j = k; j < i; j++)
				rest -= lower[i][j] * c->whiten[j][k];
			c->whiten[i][k] = rest / lower[i][i];
		}
		c->log_peak -= log(lower[i][i]);
	}
	return isfinite(c->log_peak) ? 0 : -ERANGE;
}

int mixture_set_component(const struct gs_detect_fit *fit, const struct mixture_sums *sums,
			  size_t n, struct gs_detect_component *ret)
{
	double count = sums->n + LEAST_SAMPLES, off[GS_DETECT_MAX_VALUES];

	*ret = (struct gs_detect_component){.weight = count / (double)n};
	for (unsigned i = 0; i < fit->n_values; i++) {
		off[i] = sums->first[i] / count;
		ret->mean[i] = sums->origin[i] + off[i];
	}
	for (unsigned i = 0; i < fit->n_values; i++)
		for (unsigned k = 0; k <= i; k++) {
			double v = sums->second[i][k] / count - off[i] * off[k];

			if (i == k)
				v = fmax(v, 0) + fit->floor;
			else if (fit->covariance == GS_DETECT_COVARIANCE_DIAGONAL)
				v = 0;
			ret->covariance[i][k] = ret->covariance[k][i] = v;
		}
	return derive_component(fit->n_values, ret);
}

static double log_share(const struct gs_detect_component *c, unsigned n_values,
			const double *values)
{
	double distance = 0;

	for (unsigned i = 0; i < n_values; i++) {
		double whitened = 0;

		for (unsigned k = 0; k <= i; k++)
			whitened += c->whiten[i][k] * (values[k] - c->mean[k]);
		distance += whitened * whitened;
	}
	return c->log_peak - 0.5 * distance;
}

/* log(sum of exp): the largest is taken out first, so that no sum is 0 or too large. */
static double add_logs(const double *logs, unsigned n)
{
	double most = -INFINITY, sum = 0;

	for (unsigned i = 0; i < n; i++)
		most = fmax(most, logs[i]);
	if (!(most > -INFINITY))
		return -INFINITY;
	for (unsigned i = 0; i < n; i++)
		sum += exp(logs[i] - most);
	return most + log(sum);
}

double gs_detect_mixture_density(const struct gs_detect_mixture *mixture, const double *values)
{
	double logs[GS_DETECT_MAX_COMPONENTS];

	for (unsigned c = 0; c < mixture->n_components; c++)
		logs[c] = log_share(&mixture->component[c], mixture->n_values, values);
	return add_logs(logs, mixture->n_components);
}

/* One iteration: both steps. ret_likelihood: the mean of the model as it was before. 0 or -ERANGE. */
static int improve_mixture(const struct gs_detect_fit *fit, const double *samples, size_t n,
			   struct gs_detect_mixture *m, double *ret_likelihood)
{
	struct mixture_sums sums[GS_DETECT_MAX_COMPONENTS] = {0};
	double logs[GS_DETECT_MAX_COMPONENTS], likelihood = 0, weights = 0;
	int r = 0;

	for (unsigned c = 0; c < m->n_components; c++)
		memcpy(sums[c].origin, m->component[c].mean, sizeof(sums[c].origin));
	for (size_t s = 0; s < n; s++) {
		const double *values = samples + s * fit->n_values;
		double total;

		for (unsigned c = 0; c < m->n_components; c++)
			logs[c] = log_share(&m->component[c], fit->n_values, values);
		total = add_logs(logs, m->n_components);
		if (!isfinite(total))
			return -ERANGE;
		likelihood += total;
		for (unsigned c = 0; c < m->n_components; c++)
			mixture_add_sample(&sums[c], values, fit->n_values, exp(logs[c] - total));
	}
	for (unsigned c = 0; c < m->n_components; c++)
		weights += sums[c].n + LEAST_SAMPLES;
	for (unsigned c = 0; c < m->n_components && r == 0; c++) {
		r = mixture_set_component(fit, &sums[c], n, &m->component[c]);
		m->component[c].log_peak += log((double)n / weights);
		m->component[c].weight *= (double)n / weights;
	}
	*ret_likelihood = likelihood / (double)n;
	return r;
}

static double count_parameters(const struct gs_detect_mixture *m)
{
	double k = m->n_components, d = m->n_values;
	double covariance = m->covariance == GS_DETECT_COVARIANCE_FULL ? d * (d + 1) / 2 : d;

	return k * covariance + k * d + k - 1;
}

static bool fits_samples(const struct gs_detect_fit *fit, const double *samples, size_t n)
{
	if (fit->n_values < 1 || fit->n_values > GS_DETECT_MAX_VALUES || fit->n_components < 1 ||
	    fit->n_components > GS_DETECT_MAX_COMPONENTS || n < fit->n_components ||
	    !(fit->floor > 0))
		return false;
	for (size_t i = 0; i < n * fit->n_values; i++)
		if (!isfinite(samples[i]))
			return false;
	return true;
}

int gs_detect_mixture_fit(const struct gs_detect_fit *fit, const double *samples, size_t n,
			  struct gs_detect_mixture *ret)
{
	double likelihood = -INFINITY, before, sum = 0;
	int r;

	if (!fits_samples(fit, samples, n))
		return -EINVAL;
	r = mixture_start_fit(fit, samples, n, ret);
	while (r == 0 && !ret->converged && ret->n_iterations < fit->max_iterations) {
		before = likelihood;
		r = improve_mixture(fit, samples, n, ret, &likelihood);
		ret->n_iterations++;
		ret->converged = fabs(likelihood - before) < fit->tolerance;
	}
	if (r < 0)
		return r;
	for (size_t s = 0; s < n; s++)
		sum += gs_detect_mixture_density(ret, samples + s * fit->n_values);
	ret->mean_likelihood = sum / (double)n;
	ret->bic = -2 * sum + count_parameters(ret) * log((double)n);
	return isfinite(ret->bic) ? 0 : -ERANGE;
}

int gs_detect_mixture_choose(const struct gs_detect_fit *fit, const double *samples, size_t n,
			     struct gs_detect_mixture *ret)
{
	struct gs_detect_fit one = *fit;
	struct gs_detect_mixture m;
	int r = 0;

	ret->bic = INFINITY;
	for (one.n_components = 1; one.n_components <= fit->n_components; one.n_components++) {
		r = gs_detect_mixture_fit(&one, samples, n, &m);
		if (r == 0 && m.bic < ret->bic)
			*ret = m;
		else if (r < 0 && one.n_components == 1)
			return r;
	}
	return ret->bic < INFINITY ? 0 : r;
}
