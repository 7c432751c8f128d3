/*
 * Errors: what should not happen at all (XIDs of a GPU), or only now and then (packets that a link had to send
 * again). A sample is how many came since the one before. A finding begins when there are enough of them in a
 * window, and ends when none has come for a long time: a link that fails again and again is one finding.
 *
 * What is usual plays no part, as of shares: a link that was bad from the begin on has the trouble, too.
 */
#include <string.h>

#include "analysis/detect/detect_int.h"

#define N_KEPT 64 /* samples with errors; more in one window are added to the newest */

struct errors_sample {
	uint64_t time_ns;
	double n;
};

struct errors {
	struct errors_sample kept[N_KEPT]; /* in the order of time */
	uint32_t n_kept;
	bool holds;
	uint64_t since_ns, last_ns; /* of the finding that holds: its first and newest error */
	double n_in_all;            /* of it */
};

static size_t errors_bytes(const void *options)
{
	return sizeof(struct errors);
}

static void begin_errors(void *state, const void *options)
{
}

/* What is older than the window goes. */
static void drop_old(struct errors *e, uint64_t now_ns, uint64_t window_ns)
{
	uint32_t n_old = 0;

	while (n_old < e->n_kept && now_ns - e->kept[n_old].time_ns > window_ns)
		n_old++;
	e->n_kept -= n_old;
	memmove(e->kept, e->kept + n_old, e->n_kept * sizeof(e->kept[0]));
}

static void keep_sample(struct errors *e, uint64_t time_ns, double n)
{
	if (e->n_kept == N_KEPT)
		e->kept[N_KEPT - 1].n += n;
	else
		e->kept[e->n_kept++] = (struct errors_sample){time_ns, n};
}

static enum gs_detect_outcome end_when_quiet(struct errors *e,
					     const struct gs_detect_errors_options *o,
					     uint64_t now_ns, struct gs_detect_finding *ret)
{
	if (!e->holds || now_ns - e->last_ns < o->quiet_ns)
		return GS_DETECT_NOTHING;
	e->holds = false;
	e->n_kept = 0;
	ret->since_ns = e->since_ns;
	ret->found_ns = e->last_ns;
	detect_set_medians(ret, 0, e->n_in_all);
	return GS_DETECT_ENDED;
}

static enum gs_detect_outcome feed_errors(void *state, const void *options, uint64_t time_ns,
					  const double *values, struct gs_detect_finding *ret)
{
	const struct gs_detect_errors_options *o = options;
	struct errors *e = state;
	double sum = 0;

	if (!(values[0] > 0))
		return end_when_quiet(e, o, time_ns, ret);
	e->last_ns = time_ns;
	if (e->holds) {
		e->n_in_all += values[0];
		return GS_DETECT_NOTHING;
	}
	drop_old(e, time_ns, o->window_ns);
	keep_sample(e, time_ns, values[0]);
	for (uint32_t i = 0; i < e->n_kept; i++)
		sum += e->kept[i].n;
	if (sum < (double)o->min_errors)
		return GS_DETECT_NOTHING;
	e->holds = true;
	e->since_ns = ret->since_ns = e->kept[0].time_ns;
	e->n_in_all = sum;
	detect_set_medians(ret, 0, sum);
	ret->score = sum;
	ret->limit = (double)o->min_errors;
	ret->n_after = e->n_kept;
	return GS_DETECT_BEGUN;
}

static enum gs_detect_outcome tick_errors(void *state, const void *options, uint64_t now_ns,
					  struct gs_detect_finding *ret)
{
	return end_when_quiet(state, options, now_ns, ret);
}

#define OPTION(field) offsetof(struct gs_detect_errors_options, field)

#define ERRORS_ROW(row, errors_, reads_, finds_)                                                   \
	static const struct gs_conf_key row##_keys[] = {                                           \
		{"min_errors", GS_CONF_NUMBER, OPTION(min_errors), (errors_),                      \
		 "Number of errors in the window from which on a finding is reported.", 1,         \
		 1000000000},                                                                      \
		{"window", GS_CONF_DURATION, OPTION(window_ns), "1m",                              \
		 "Time over which errors are added up.", 1000000, 86400000000000},                 \
		{"quiet", GS_CONF_DURATION, OPTION(quiet_ns), "10m",                               \
		 "Time without an error after which a finding ends.", 1000000, 86400000000000},    \
	};                                                                                         \
	DETECT_SCHEMA(row, struct gs_detect_errors_options, "Detector " #row ".");                 \
	const struct gs_detector gs_detect_##row = {                                               \
		.name = #row,                                                                      \
		.reads = (reads_),                                                                 \
		.finds = (finds_),                                                                 \
		.score = "errors in the window",                                                   \
		.n_values = 1,                                                                     \
		.options = &row##_schema,                                                          \
		.state_bytes = errors_bytes,                                                       \
		.begin = begin_errors,                                                             \
		.feed = feed_errors,                                                               \
		.tick = tick_errors,                                                               \
	}

ERRORS_ROW(xid, "1", "of a GPU: XIDs of one number since the sample before",
	   "the driver reported an error of the GPU, or of a program on it");
ERRORS_ROW(link_errors, "10",
	   "of a GPU: errors of its PCIe link or its NVLinks since the sample before",
	   "a link of the GPU loses packets again and again");
