/*
 * The table of detectors, and what they have in common: their memory, their options, and which
 * samples they are given.
 */
#include "analysis/detect/detect.h"

#include <errno.h>
#include <math.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/detect/detect_int.h"

const struct gs_detector *const gs_detectors[GS_DETECT_N_DETECTORS + 1] = {
	&gs_detect_change,      &gs_detect_drift,    &gs_detect_leak,          &gs_detect_density,
	&gs_detect_gpu_density, &gs_detect_stall,    &gs_detect_fragmentation, &gs_detect_launches,
	&gs_detect_tiny,        &gs_detect_pageable, &gs_detect_idle,          &gs_detect_throttle,
	&gs_detect_overlap,     &gs_detect_xid,      &gs_detect_link_errors,   NULL,
};

struct gs_detect {
	const struct gs_detector *detector;
	uint64_t last_ns, n_refused;
	void *options, *state; /* in the memory after this struct */
};

/* So that what follows in the same block of memory is aligned for any type. */
static size_t round_up(size_t bytes)
{
	return (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
}

const struct gs_detector *gs_detect_find(const char *name)
{
	for (size_t i = 0; gs_detectors[i]; i++)
		if (strcmp(gs_detectors[i]->name, name) == 0)
			return gs_detectors[i];
	return NULL;
}

void gs_detect_set_defaults(const struct gs_detector *detector, void *ret_options)
{
	gs_conf_defaults(detector->options, ret_options);
}

static void copy_options(const struct gs_detector *detector, const void *options, void *ret)
{
	if (options)
		memcpy(ret, options, detector->options->bytes);
	else
		gs_detect_set_defaults(detector, ret);
}

size_t gs_detect_bytes(const struct gs_detector *detector, const void *options)
{
	union gs_detect_options own;

	copy_options(detector, options, &own);
	return round_up(sizeof(struct gs_detect)) + round_up(detector->options->bytes) +
	       detector->state_bytes(&own);
}

int gs_detect_new(const struct gs_detector *detector, const void *options, struct gs_detect **ret)
{
	struct gs_detect *d = calloc(1, gs_detect_bytes(detector, options));

	if (!d)
		return -ENOMEM;
	d->detector = detector;
	d->options = (char *)d + round_up(sizeof(*d));
	d->state = (char *)d->options + round_up(detector->options->bytes);
	copy_options(detector, options, d->options);
	detector->begin(d->state, d->options);
	*ret = d;
	return 0;
}

void gs_detect_free(struct gs_detect **d)
{
	free(*d);
	*d = NULL;
}

static bool is_usable(const struct gs_detect *d, uint64_t time_ns, const double *values)
{
	if (time_ns < d->last_ns)
		return false;
	for (unsigned i = 0; i < d->detector->n_values; i++)
		if (!isfinite(values[i]) || (d->detector->takes_logarithm && !(values[i] > 0)))
			return false;
	return true;
}

enum gs_detect_outcome gs_detect_feed(struct gs_detect *d, uint64_t time_ns, const double *values,
				      struct gs_detect_finding *ret)
{
	if (!is_usable(d, time_ns, values)) {
		d->n_refused++;
		return GS_DETECT_NOTHING;
	}
	d->last_ns = time_ns;
	*ret = (struct gs_detect_finding){.detector = d->detector->name, .found_ns = time_ns};
	return d->detector->feed(d->state, d->options, time_ns, values, ret);
}

enum gs_detect_outcome gs_detect_tick(struct gs_detect *d, uint64_t now_ns,
				      struct gs_detect_finding *ret)
{
	if (!d->detector->tick || now_ns < d->last_ns)
		return GS_DETECT_NOTHING;
	*ret = (struct gs_detect_finding){.detector = d->detector->name, .found_ns = now_ns};
	return d->detector->tick(d->state, d->options, now_ns, ret);
}

uint64_t gs_detect_refused(const struct gs_detect *d)
{
	return d->n_refused;
}

const struct gs_detect_mixture *gs_detect_mixture(const struct gs_detect *d)
{
	return d->detector->mixture ? d->detector->mixture(d->state) : NULL;
}

void detect_add_parameter(struct gs_detect_finding *f, const char *name, double value)
{
	if (f->n_parameters < GS_DETECT_MAX_PARAMETERS)
		f->parameters[f->n_parameters++] = (struct gs_detect_parameter){name, value};
}

void detect_set_medians(struct gs_detect_finding *f, double before, double after)
{
	f->before = before;
	f->after = after;
	f->change_pct = before != 0 ? (after - before) / fabs(before) * 100 : 0;
}
