/*
 * Unusual densities, after eACGM (IWQoS 2025), whose paper shows the method in a figure and leaves out
 * numbers: a Gaussian mixture is fitted to the logarithms of latencies, or to memory, power and
 * temperature of a GPU, and samples where its density is low are unusual. There one mixture stands for
 * a whole layer; here one series is one function, size class and rank, so that a slow function is not
 * unusual beside fast ones.
 *
 * The number of components is chosen by BIC, the limit is a quantile of the densities of the training
 * samples. One unusual sample is no finding (that share of them is expected): many of the newest must
 * be. The model stays as it was trained; it is trained again when a finding has lasted so long that
 * it is what is usual now.
 */
#include <math.h>
#include <string.h>

#include "analysis/detect/detect_int.h"

#define WINDOW_MAX 64 /* bits of flags */
#define END_SHARE  4  /* a finding is over at this part of the share at which it begins */

struct density {
	unsigned n_values;
	bool in_logarithms, trained, holds;
	struct gs_detect_mixture mixture;
	double limit; /* logarithm of the density */
	double centre[GS_DETECT_MAX_VALUES], deviation[GS_DETECT_MAX_VALUES]; /* of the training */
	uint32_t n_trained;
	uint64_t flags; /* of the newest samples, bit 0 the newest: low density */
	uint64_t n_skipped, n_judged, n_held;
	uint64_t recent_ns[WINDOW_MAX];
	double recent[WINDOW_MAX][GS_DETECT_MAX_VALUES];
	double training[]; /* n_values of each sample, then one number for each, to sort */
};

static size_t bytes_for(const struct gs_detect_density_options *o, unsigned n_values)
{
	return sizeof(struct density) +
	       (size_t)o->training_samples * (n_values + 1) * sizeof(double);
}

static size_t density_bytes(const void *options)
{
	return bytes_for(options, 1);
}

static size_t gpu_density_bytes(const void *options)
{
	return bytes_for(options, GS_DETECT_MAX_VALUES);
}

static void begin_density(void *state, const void *options)
{
	struct density *d = state;

	d->n_values = 1;
	d->in_logarithms = true;
}

static void begin_gpu_density(void *state, const void *options)
{
	((struct density *)state)->n_values = GS_DETECT_MAX_VALUES;
}

static double *scratch_of(struct density *d, const struct gs_detect_density_options *o)
{
	return d->training + (size_t)o->training_samples * d->n_values;
}

/* Median and deviation of each value, for the evidence. */
static void describe_training(struct density *d, const struct gs_detect_density_options *o)
{
	double *scratch = scratch_of(d, o);

	for (unsigned v = 0; v < d->n_values; v++) {
		for (uint32_t i = 0; i < d->n_trained; i++)
			scratch[i] = d->training[i * d->n_values + v];
		d->centre[v] = gs_detect_median(scratch, d->n_trained);
		d->deviation[v] = gs_detect_spread(scratch, d->n_trained, d->centre[v]);
	}
}

static void train_mixture(struct density *d, const struct gs_detect_density_options *o)
{
	struct gs_detect_fit fit = {
		.n_values = d->n_values,
		.n_components = (unsigned)o->max_components,
		.covariance = (enum gs_detect_covariance)o->covariance,
		.start = (enum gs_detect_start)o->start,
		.seed = (uint64_t)o->seed,
		.floor = o->floor,
		.tolerance = o->tolerance,
		.max_iterations = (unsigned)o->max_iterations,
	};
	double *scratch = scratch_of(d, o);

	d->trained = gs_detect_mixture_choose(&fit, d->training, d->n_trained, &d->mixture) == 0;
	if (!d->trained) {
		d->n_trained = 0;
		return;
	}
	describe_training(d, o);
	for (uint32_t i = 0; i < d->n_trained; i++)
		scratch[i] = gs_detect_mixture_density(&d->mixture, d->training + i * d->n_values);
	gs_detect_median(scratch, d->n_trained); /* orders them */
	d->limit = gs_detect_quantile(scratch, d->n_trained, o->density_quantile);
}

/* Median of one value over those of the n newest samples that have a low density. */
static double flagged_median(const struct density *d, uint32_t n, unsigned value)
{
	double values[WINDOW_MAX];
	uint32_t n_flagged = 0;

	for (uint32_t i = 0; i < n; i++)
		if (d->flags >> i & 1)
			values[n_flagged++] = d->recent[(d->n_judged - 1 - i) % WINDOW_MAX][value];
	return n_flagged ? gs_detect_median(values, n_flagged) : d->centre[value];
}

/* Which value of a sample is furthest from where it was in the training. */
static unsigned moved_value(const struct density *d, uint32_t n)
{
	double most = -1;
	unsigned moved = 0;

	for (unsigned v = 0; v < d->n_values; v++) {
		double distance =
			fabs(flagged_median(d, n, v) - d->centre[v]) / fmax(d->deviation[v], 1e-9);

		if (distance > most) {
			most = distance;
			moved = v;
		}
	}
	return moved;
}

static void report_density(const struct density *d, const struct gs_detect_density_options *o,
			   uint64_t flags, struct gs_detect_finding *f)
{
	uint32_t n = (uint32_t)o->window_samples;
	unsigned v = moved_value(d, n);
	double before = d->centre[v], after = flagged_median(d, n, v);
	uint32_t oldest = flags ? 63 - (uint32_t)__builtin_clzll(flags) : 0;

	if (d->in_logarithms) {
		before = exp(before);
		after = exp(after);
	}
	detect_set_medians(f, before, after);
	f->value = v;
	f->since_ns = d->recent_ns[(d->n_judged - 1 - oldest) % WINDOW_MAX];
	f->score = (double)__builtin_popcountll(flags) / n;
	f->limit = o->flagged_share;
	f->n_before = d->n_trained;
	f->n_after = n;
	detect_add_parameter(f, "components", d->mixture.n_components);
	detect_add_parameter(f, "bic", d->mixture.bic);
	detect_add_parameter(f, "mean_log_likelihood", d->mixture.mean_likelihood);
	detect_add_parameter(f, "log_density_limit", d->limit);
}

static enum gs_detect_outcome judge_flags(struct density *d,
					  const struct gs_detect_density_options *o,
					  struct gs_detect_finding *f)
{
	uint32_t n = (uint32_t)o->window_samples;
	uint64_t flags = d->flags & (n < 64 ? (1ull << n) - 1 : ~0ull);
	uint32_t n_flagged = (uint32_t)__builtin_popcountll(flags);
	double enough = o->flagged_share * n;

	if (!d->holds) {
		if (d->n_judged < n || n_flagged < enough)
			return GS_DETECT_NOTHING;
		d->holds = true;
		d->n_held = 0;
		report_density(d, o, flags, f);
		return GS_DETECT_BEGUN;
	}
	f->became_usual = ++d->n_held >= (uint64_t)o->usual_after_samples;
	if (n_flagged > enough / END_SHARE && !f->became_usual)
		return GS_DETECT_NOTHING;
	report_density(d, o, flags, f);
	d->holds = false;
	if (f->became_usual) {
		d->trained = false;
		d->n_trained = 0;
		d->n_judged = d->flags = 0;
	}
	return GS_DETECT_ENDED;
}

static enum gs_detect_outcome feed_density(void *state, const void *options, uint64_t time_ns,
					   const double *values, struct gs_detect_finding *ret)
{
	const struct gs_detect_density_options *o = options;
	struct density *d = state;
	double sample[GS_DETECT_MAX_VALUES];

	for (unsigned v = 0; v < d->n_values; v++)
		sample[v] = d->in_logarithms ? log(values[v]) : values[v];
	if (d->n_skipped < (uint64_t)o->skipped_samples) {
		d->n_skipped++;
		return GS_DETECT_NOTHING;
	}
	if (!d->trained) {
		memcpy(d->training + d->n_trained * d->n_values, sample,
		       d->n_values * sizeof(double));
		if (++d->n_trained == (uint32_t)o->training_samples)
			train_mixture(d, o);
		return GS_DETECT_NOTHING;
	}
	memcpy(d->recent[d->n_judged % WINDOW_MAX], sample, d->n_values * sizeof(double));
	d->recent_ns[d->n_judged++ % WINDOW_MAX] = time_ns;
	d->flags = d->flags << 1 | (gs_detect_mixture_density(&d->mixture, sample) < d->limit);
	return judge_flags(d, o, ret);
}

static const struct gs_detect_mixture *mixture_of(const void *state)
{
	const struct density *d = state;

	return d->trained ? &d->mixture : NULL;
}

static const char *const covariances[] = {"full", "diagonal", NULL};
static const char *const starts[] = {"kmeans", "quantile", NULL};

static const struct gs_conf_key density_keys[] = {
#define OPTION(field) offsetof(struct gs_detect_density_options, field)
	{"skipped_samples", GS_CONF_NUMBER, OPTION(skipped_samples), "64",
	 "First samples, which are not used for training (warm-up).", 0, 1000000000},
	{"training_samples", GS_CONF_NUMBER, OPTION(training_samples), "512",
	 "Samples that the model is fitted to.", 16, 65536},
	{"max_components", GS_CONF_NUMBER, OPTION(max_components), "6",
	 "Maximum number of components; BIC selects their number.", 1, GS_DETECT_MAX_COMPONENTS},
	{"covariance", GS_CONF_CHOICE, OPTION(covariance), "full",
	 "Whether values of one component depend on each other.", .choices = covariances},
	{"start", GS_CONF_CHOICE, OPTION(start), "kmeans", "How the fit begins.",
	 .choices = starts},
	{"seed", GS_CONF_NUMBER, OPTION(seed), "1", "Of the random choices of kmeans.", 0,
	 INT64_MAX},
	{"floor", GS_CONF_REAL, OPTION(floor), "0.0001",
	 "Added to each variance: differences below its root, 1 %, do not count.", 0, 1000000},
	{"tolerance", GS_CONF_REAL, OPTION(tolerance), "0.001",
	 "The fit ends when the mean log likelihood increases by less than this.", 0, 1},
	{"max_iterations", GS_CONF_NUMBER, OPTION(max_iterations), "100", "Of the fit.", 1, 10000},
	{"density_quantile", GS_CONF_RATIO, OPTION(density_quantile), "1%",
	 "Share of the training samples whose density is low."},
	{"window_samples", GS_CONF_NUMBER, OPTION(window_samples), "32",
	 "Number of newest samples that are checked together.", 1, WINDOW_MAX},
	{"flagged_share", GS_CONF_RATIO, OPTION(flagged_share), "30%",
	 "Share of them with a low density from which on a finding is reported."},
	{"usual_after_samples", GS_CONF_NUMBER, OPTION(usual_after_samples), "4096",
	 "A finding that lasts for this many samples becomes the new baseline.", 64, 1000000000},
};

DETECT_SCHEMA(density, struct gs_detect_density_options, "Detector of unusual densities.");

const struct gs_detector gs_detect_density = {
	.name = "density",
	.reads = "latencies of one function, size class and rank",
	.finds = "many latencies are unlike those of the training",
	.score = "share of the newest samples with a low density",
	.n_values = 1,
	.takes_logarithm = true,
	.options = &density_schema,
	.state_bytes = density_bytes,
	.begin = begin_density,
	.feed = feed_density,
	.mixture = mixture_of,
};

const struct gs_detector gs_detect_gpu_density = {
	.name = "gpu_density",
	.reads = "of a GPU: share of its memory in use, share of its power limit, temperature in C",
	.finds = "a GPU is in a state that it was not in during the training",
	.score = "share of the newest samples with a low density",
	.n_values = 3,
	.options = &density_schema,
	.state_bytes = gpu_density_bytes,
	.begin = begin_gpu_density,
	.feed = feed_density,
	.mixture = mixture_of,
};
