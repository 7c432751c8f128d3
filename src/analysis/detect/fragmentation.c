/*
 * Fragmentation: a caching allocator (PyTorch's, for one) has reserved memory that it cannot use for
 * what is asked for. Between the peaks of a step most of what is reserved is unused, and that is as it
 * should be; so the peak of use over a window stands against the least that was reserved meanwhile.
 * What not even the peak used is in pieces that are too small, or left of an earlier phase that needed
 * more: in both cases the program can run out of memory that is there.
 */
#include <math.h>

#include "analysis/detect/detect_int.h"

#define END_SHARE                                                                                  \
	0.8 /* of the share at which it begins, so that it does not begin again and again */

struct pair {
	uint64_t time_ns;
	double used, reserved;
};

struct fragmentation {
	uint64_t n_ever;
	double least_share; /* ever since the window was full */
	bool holds;
	struct pair window[];
};

static size_t fragmentation_bytes(const void *options)
{
	const struct gs_detect_fragmentation_options *o = options;

	return sizeof(struct fragmentation) + (size_t)o->window_samples * sizeof(struct pair);
}

static void begin_fragmentation(void *state, const void *options)
{
	((struct fragmentation *)state)->least_share = 1;
}

static enum gs_detect_outcome feed_fragmentation(void *state, const void *options, uint64_t time_ns,
						 const double *values,
						 struct gs_detect_finding *ret)
{
	const struct gs_detect_fragmentation_options *o = options;
	uint64_t window = (uint64_t)o->window_samples;
	struct fragmentation *f = state;
	double used = 0, reserved = INFINITY, share;
	bool fragmented;

	f->window[f->n_ever++ % window] = (struct pair){time_ns, values[0], values[1]};
	if (f->n_ever < window)
		return GS_DETECT_NOTHING;
	for (uint64_t i = 0; i < window; i++) {
		used = fmax(used, f->window[i].used);
		reserved = fmin(reserved, f->window[i].reserved);
	}
	share = reserved > 0 ? fmax(0, (reserved - used) / reserved) : 0;
	f->least_share = fmin(f->least_share, share);
	fragmented = share >= o->unused_share * (f->holds ? END_SHARE : 1) &&
		     reserved - used >= o->unused_bytes * (f->holds ? END_SHARE : 1);
	if (fragmented == f->holds)
		return GS_DETECT_NOTHING;
	f->holds = fragmented;
	ret->since_ns = f->window[f->n_ever % window].time_ns;
	detect_set_medians(ret, f->least_share * reserved, share * reserved);
	ret->score = share;
	ret->limit = o->unused_share;
	ret->n_before = ret->n_after = (uint32_t)window;
	detect_add_parameter(ret, "peak_used_bytes", used);
	detect_add_parameter(ret, "reserved_bytes", reserved);
	detect_add_parameter(ret, "least_unused_share", f->least_share);
	return fragmented ? GS_DETECT_BEGUN : GS_DETECT_ENDED;
}

static const struct gs_conf_key fragmentation_keys[] = {
#define OPTION(field) offsetof(struct gs_detect_fragmentation_options, field)
	{"window_samples", GS_CONF_NUMBER, OPTION(window_samples), "64",
	 "Number of samples whose peak of use counts; should cover several steps.", 2, 65536},
	{"unused_share", GS_CONF_RATIO, OPTION(unused_share), "30%",
	 "Share of the reserved memory that is unused even at the peak."},
	{"unused_bytes", GS_CONF_REAL, OPTION(unused_bytes), "1073741824", "And at least so much.",
	 0, 1000000000000000},
};

DETECT_SCHEMA(fragmentation, struct gs_detect_fragmentation_options, "Detector of fragmentation.");

const struct gs_detector gs_detect_fragmentation = {
	.name = "fragmentation",
	.reads = "bytes that an allocator has handed out, and bytes that it has reserved",
	.finds = "memory is reserved that not even the peak of use needs",
	.score = "share of the reserved memory that the peak does not use",
	.n_values = 2,
	.options = &fragmentation_schema,
	.state_bytes = fragmentation_bytes,
	.begin = begin_fragmentation,
	.feed = feed_fragmentation,
};
