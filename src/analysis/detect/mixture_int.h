/* How a fit begins. Inside the room only. */
#ifndef GS_ANALYSIS_DETECT_MIXTURE_INT_H
#define GS_ANALYSIS_DETECT_MIXTURE_INT_H

#include "analysis/detect/mixture.h"

/* Sums over the samples of one component, each sample with a weight, around a point near its mean:
 * sums of squares of the values themselves would lose the digits that a small variance is made of. */
struct mixture_sums {
	double n;
	double origin[GS_DETECT_MAX_VALUES];
	double first[GS_DETECT_MAX_VALUES];
	double second[GS_DETECT_MAX_VALUES][GS_DETECT_MAX_VALUES];
};

void mixture_add_sample(struct mixture_sums *sums, const double *values, unsigned n_values,
			double weight);

/* Weight (of n samples), mean and covariance of a component out of its sums. 0 or -ERANGE. */
int mixture_set_component(const struct gs_detect_fit *fit, const struct mixture_sums *sums,
			  size_t n, struct gs_detect_component *ret);

/* The components that EM starts with. 0 or -ERANGE. */
int mixture_start_fit(const struct gs_detect_fit *fit, const double *samples, size_t n,
		      struct gs_detect_mixture *ret);

#endif
