/*
 * A stall: nothing comes any more. How long a series may be quiet follows from its own rhythm: a
 * multiple of the usual time between samples, and of the longest pause in the window (a checkpoint,
 * a validation phase), and never less than the configured time, since the first pause of a kind is
 * not known before it has happened once.
 */
#include <math.h>
#include <string.h>

#include "analysis/detect/detect_int.h"

struct stall {
	uint64_t last_ns, limit_ns;
	double period_ns;   /* median, as the limit was computed */
	double reported_ns; /* the last pause that was a stall */
	bool begun, holds;
	uint32_t n, next;  /* times in the window, and where the next one goes */
	double times_ns[]; /* a ring of window_samples, then room to sort as many */
};

static size_t stall_bytes(const void *options)
{
	const struct gs_detect_stall_options *o = options;

	return sizeof(struct stall) + 2 * (size_t)o->window_samples * sizeof(double);
}

static void begin_stall(void *state, const void *options)
{
}

static void compute_limit(struct stall *s, const struct gs_detect_stall_options *o)
{
	double *sorted = s->times_ns + o->window_samples, limit;

	memcpy(sorted, s->times_ns, s->n * sizeof(double));
	s->period_ns = gs_detect_median(sorted, s->n);
	limit = fmax(s->period_ns * o->period_factor, sorted[s->n - 1] * o->pause_factor);
	limit = fmax(limit, (double)o->quiet_ns);
	s->limit_ns = limit < 9e18 ? (uint64_t)limit : UINT64_MAX;
}

static void report_stall(const struct stall *s, uint64_t now_ns, struct gs_detect_finding *f)
{
	f->since_ns = s->last_ns;
	detect_set_medians(f, s->period_ns, (double)(now_ns - s->last_ns));
	f->score = (double)(now_ns - s->last_ns) / 1e9;
	f->limit = (double)s->limit_ns / 1e9;
	f->n_before = s->n;
	f->n_after = 1;
	detect_add_parameter(f, "period_s", s->period_ns / 1e9);
}

static enum gs_detect_outcome tick_stall(void *state, const void *options, uint64_t now_ns,
					 struct gs_detect_finding *ret)
{
	const struct gs_detect_stall_options *o = options;
	struct stall *s = state;

	if (s->holds || s->n < (uint64_t)o->min_samples || now_ns - s->last_ns <= o->quiet_ns)
		return GS_DETECT_NOTHING;
	/* The window does not change while nothing comes: once for each pause is enough. */
	if (!s->limit_ns)
		compute_limit(s, o);
	if (now_ns - s->last_ns <= s->limit_ns)
		return GS_DETECT_NOTHING;
	s->holds = true;
	report_stall(s, now_ns, ret);
	return GS_DETECT_BEGUN;
}

static void add_pause(struct stall *s, const struct gs_detect_stall_options *o, double pause_ns)
{
	uint32_t window = (uint32_t)o->window_samples;

	s->times_ns[s->next] = pause_ns;
	s->next = (s->next + 1) % window;
	s->n += s->n < window;
}

static enum gs_detect_outcome feed_stall(void *state, const void *options, uint64_t time_ns,
					 const double *values, struct gs_detect_finding *ret)
{
	const struct gs_detect_stall_options *o = options;
	struct stall *s = state;
	double pause_ns = (double)(time_ns - s->last_ns);
	bool ended = s->holds;

	if (ended)
		report_stall(s, time_ns, ret);
	/* A pause that was reported becomes part of the rhythm when it comes again: a long validation
	 * does, a file server that did not answer once does not. */
	if (s->begun && (!ended || pause_ns / 2 < s->reported_ns))
		add_pause(s, o, pause_ns);
	if (ended)
		s->reported_ns = pause_ns;
	s->begun = true;
	s->last_ns = time_ns;
	s->limit_ns = 0;
	s->holds = false;
	return ended ? GS_DETECT_ENDED : GS_DETECT_NOTHING;
}

static const struct gs_conf_key stall_keys[] = {
#define OPTION(field) offsetof(struct gs_detect_stall_options, field)
	{"quiet", GS_CONF_DURATION, OPTION(quiet_ns), "30s",
	 "Minimum time without a sample to report.", 1000000, 86400000000000},
	{"period_factor", GS_CONF_REAL, OPTION(period_factor), "5",
	 "Multiple of the usual time between samples that is not yet a stall.", 1, 1000000},
	{"pause_factor", GS_CONF_REAL, OPTION(pause_factor), "2",
	 "Multiple of the longest pause in the window that is not yet a stall.", 1, 1000000},
	{"window_samples", GS_CONF_NUMBER, OPTION(window_samples), "1024",
	 "Number of times between samples in the window.", 8, 65536},
	{"min_samples", GS_CONF_NUMBER, OPTION(min_samples), "16",
	 "With fewer times, no stall is reported.", 2, 65536},
};

DETECT_SCHEMA(stall, struct gs_detect_stall_options, "Detector of stalls.");

const struct gs_detector gs_detect_stall = {
	.name = "stall",
	.reads = "the times at which steps, calls or collectives end",
	.finds = "nothing has come for longer than the series' rhythm explains",
	.score = "seconds without a sample",
	.n_values = 0,
	.options = &stall_schema,
	.state_bytes = stall_bytes,
	.begin = begin_stall,
	.feed = feed_stall,
	.tick = tick_stall,
};
