/*
 * Shares: what was sampled is of a kind that costs time (launches of tiny kernels, copies of memory that is
 * not pinned, a GPU that is held and does nothing, clocks that are throttled), and there is enough of it to matter. A sample is the share
 * of one interval, and how much there was in it. A finding begins when the share of all in the newest
 * stretches is large, and ends below four fifths of that, so that it does not begin again and again.
 *
 * What is usual plays no part: a program that did nothing else from its begin on has the trouble, too.
 */
#include <math.h>
#include <string.h>

#include "analysis/detect/detect_int.h"

#define END_SHARE 0.8

struct share_sample {
	uint64_t time_ns;
	double share, amount;
};

struct share {
	uint64_t n_ever;
	bool holds, is_measured; /* is_measured: least is */
	double least;            /* share of a window so far */
	struct share_sample window[];
};

static size_t share_bytes(const void *options)
{
	const struct gs_detect_share_options *o = options;

	return sizeof(struct share) + (size_t)o->window_samples * sizeof(struct share_sample);
}

static void begin_share(void *state, const void *options)
{
}

/* Over the window, each stretch by how much was in it. */
static double share_of_window(const struct share *s, uint32_t window, double *ret_mean_amount)
{
	double of_it = 0, all = 0;

	for (uint32_t i = 0; i < window; i++) {
		of_it += s->window[i].share * s->window[i].amount;
		all += s->window[i].amount;
	}
	*ret_mean_amount = all / window;
	return all > 0 ? of_it / all : 0;
}

/* In half of the window: a moment of much after little is not enough of it. */
static bool is_enough(const struct share *s, uint32_t window, double least)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < window; i++)
		n += s->window[i].amount >= least;
	return 2 * n >= window;
}

static enum gs_detect_outcome feed_share(void *state, const void *options, uint64_t time_ns,
					 const double *values, struct gs_detect_finding *ret)
{
	const struct gs_detect_share_options *o = options;
	uint32_t window = (uint32_t)o->window_samples;
	struct share *s = state;
	double share, amount;
	bool is_large;

	s->window[s->n_ever++ % window] = (struct share_sample){time_ns, values[0], values[1]};
	if (s->n_ever < window)
		return GS_DETECT_NOTHING;
	share = share_of_window(s, window, &amount);
	s->least = s->is_measured ? fmin(s->least, share) : share;
	s->is_measured = true;
	is_large = share >= o->min_share * (s->holds ? END_SHARE : 1) &&
		   is_enough(s, window, o->min_amount * (s->holds ? END_SHARE : 1));
	if (is_large == s->holds)
		return GS_DETECT_NOTHING;
	s->holds = is_large;
	ret->since_ns = s->window[s->n_ever % window].time_ns;
	detect_set_medians(ret, s->least, share);
	ret->score = share;
	ret->limit = o->min_share;
	ret->n_before = ret->n_after = window;
	detect_add_parameter(ret, "amount", amount);
	detect_add_parameter(ret, "least_share", s->least);
	return is_large ? GS_DETECT_BEGUN : GS_DETECT_ENDED;
}

#define OPTION(field) offsetof(struct gs_detect_share_options, field)

/* Rows differ by what is a large share, of how much, and for how long. */
#define SHARE_ROW(row, window_, share_, amount_, amount_help_, reads_, finds_)                     \
	static const struct gs_conf_key row##_keys[] = {                                           \
		{"window_samples", GS_CONF_NUMBER, OPTION(window_samples), (window_),              \
		 "Number of newest intervals that are checked together.", 2, 65536},               \
		{"min_share", GS_CONF_RATIO, OPTION(min_share), (share_),                          \
		 "Minimum share of everything in them."},                                          \
		{"min_amount", GS_CONF_REAL, OPTION(min_amount), (amount_), (amount_help_), 0,     \
		 1000000000000000},                                                                \
	};                                                                                         \
	DETECT_SCHEMA(row, struct gs_detect_share_options, "Detector " #row ".");                  \
	const struct gs_detector gs_detect_##row = {                                               \
		.name = #row,                                                                      \
		.reads = (reads_),                                                                 \
		.finds = (finds_),                                                                 \
		.score = "share of the newest intervals",                                          \
		.n_values = 2,                                                                     \
		.options = &row##_schema,                                                          \
		.state_bytes = share_bytes,                                                        \
		.begin = begin_share,                                                              \
		.feed = feed_share,                                                                \
	}

SHARE_ROW(launches, "10", "50%", "1000", "Least number of launches per second.",
	  "of a thread: share of a second in launches beyond its waits for the GPU, and launches",
	  "a thread is busy launching and hardly ever waits for the GPU");
SHARE_ROW(tiny, "10", "80%", "1000", "Least number of launches per second.",
	  "of a process: share of its launches with few threads, and launches a second",
	  "most kernels are too small to fill a GPU");
SHARE_ROW(
	pageable, "10", "50%", "16777216", "Least number of bytes per second.",
	"of a process: share of the bytes copied to and from GPUs whose host memory is not pinned, and bytes a second",
	"copies go through memory of the host that is not pinned");
SHARE_ROW(
	idle, "600", "95%", "268435456", "Least number of bytes held.",
	"of a GPU: 1 while a process holds memory of it and it does nothing, else 0, and bytes held",
	"a GPU is held and does nothing");
SHARE_ROW(
	throttle, "10", "50%", "0.125", "Least share of time that the GPU is busy.",
	"of a GPU: 1 while heat or its hardware holds its clocks down, else 0, and how busy it is",
	"a GPU at work is slowed by heat or by its hardware");
SHARE_ROW(
	overlap, "3", "80%", "0.125", "Least share of time in communication.",
	"of a process on a GPU: share of its time in communication in which it computes nothing, and share of the time in communication",
	"communication and computation take turns");
