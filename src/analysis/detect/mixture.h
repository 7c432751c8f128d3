/*
 * Gaussian mixtures: the density of samples as a sum of normal distributions, fitted by expectation
 * and maximisation (EM). What a sample's density is low of is unusual: the method of eACGM (IWQoS
 * 2025), which uses it on the logarithm of latencies, and on memory, power and temperature of GPUs.
 *
 * Given the same start, a fit takes the same path as GaussianMixture of scikit-learn 1.2: the same
 * number of iterations, and weights, means, covariances, likelihood and BIC that differ by rounding
 * alone (tests/unit/detect compares them to a relative 1e-8). No memory is allocated; time grows
 * with samples x components x iterations.
 *
 * One thread for each model; nothing is shared. Same input, same result: the start uses a seed.
 */
#ifndef GS_ANALYSIS_DETECT_MIXTURE_H
#define GS_ANALYSIS_DETECT_MIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_DETECT_MAX_VALUES     3
#define GS_DETECT_MAX_COMPONENTS 16

enum gs_detect_covariance {
	GS_DETECT_COVARIANCE_FULL = 0,
	GS_DETECT_COVARIANCE_DIAGONAL = 1, /* values of a component vary independently */
};

enum gs_detect_start {
	GS_DETECT_START_KMEANS = 0,   /* k-means++, then Lloyd's iterations, of scaled values */
	GS_DETECT_START_QUANTILE = 1, /* equal parts of samples in the order of their first value */
};

struct gs_detect_fit {
	unsigned n_values;                    /* of a sample, 1 to GS_DETECT_MAX_VALUES */
	unsigned n_components;                /* 1 to GS_DETECT_MAX_COMPONENTS */
	enum gs_detect_covariance covariance; /* which of its members are not 0 */
	enum gs_detect_start start;           /* where the iterations begin */
	uint64_t seed;                        /* of k-means++ */
	double floor;            /* added to every variance, above 0; scikit-learn's reg_covar */
	double tolerance;        /* ends when the mean log likelihood gains less */
	unsigned max_iterations; /* at least 1 */
};

struct gs_detect_component {
	double weight;                     /* all of a mixture's are 1 together */
	double mean[GS_DETECT_MAX_VALUES]; /* in units of what it was fitted to, as is the next */
	double covariance[GS_DETECT_MAX_VALUES][GS_DETECT_MAX_VALUES];
	/* Derived: the inverse of the covariance's lower Cholesky factor, and the logarithm of
	 * weight x the density at the mean. */
	double whiten[GS_DETECT_MAX_VALUES][GS_DETECT_MAX_VALUES];
	double log_peak;
};

struct gs_detect_mixture {
	unsigned n_values, n_components;
	enum gs_detect_covariance covariance; /* as it was fitted */
	unsigned n_iterations;
	bool converged;         /* within max_iterations */
	double mean_likelihood; /* logarithm, mean over the samples, of the finished model */
	double bic;             /* Bayesian information criterion; less is better */
	struct gs_detect_component component[GS_DETECT_MAX_COMPONENTS]; /* n_components of them */
};

/* Of n samples of n_values each, one after another. 0; -EINVAL: fewer samples than components, or a
 * value that is not finite; -ERANGE: values so far apart that a variance is none. */
int gs_detect_mixture_fit(const struct gs_detect_fit *fit, const double *samples, size_t n,
			  struct gs_detect_mixture *ret);

/* The same from 1 to fit->n_components components: the model with the least BIC. */
int gs_detect_mixture_choose(const struct gs_detect_fit *fit, const double *samples, size_t n,
			     struct gs_detect_mixture *ret);

/* The logarithm of the density at a sample of n_values. Never NAN for finite values; -INFINITY
 * when it is further away than a double can say. */
double gs_detect_mixture_density(const struct gs_detect_mixture *mixture, const double *values);

#endif
