/* Values over time as charts want them: a number of stretches of equal length. */
#include "server/live/bucket.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "server/live/reply.h"

#define POINTS_MAX     2000
#define POINTS_DEFAULT 300

/* Times are seconds since 1970; negative: before now. */
bool gs_live_bucket_parse(const struct gs_http_request *q, struct gs_http_reply *reply,
			  size_t n_values, struct gs_live_buckets *ret)
{
	double points = POINTS_DEFAULT, from = -300, to = 0;
	double now = (double)gs_clock_wall_ns() / 1e9;

	if (gs_live_number(q, reply, "points", 1, POINTS_MAX, &points) < 0 ||
	    gs_live_number(q, reply, "from", -4e9, 9e9, &from) < 0 ||
	    gs_live_number(q, reply, "to", -4e9, 9e9, &to) < 0)
		return false;
	from += from <= 0 ? now : 0;
	to += to <= 0 ? now : 0;
	if (!(from >= 0) || from >= to) {
		gs_http_error(reply, 400,
			      "from is before to, in seconds since 1970, or negative: before now");
		return false;
	}
	*ret = (struct gs_live_buckets){.from_ns = (int64_t)(from * 1e9),
					.to_ns = (int64_t)(to * 1e9),
					.n_points = (size_t)points,
					.n_values = n_values};
	return true;
}

void *gs_live_bucket_new(const void *asked, size_t bytes, size_t offset)
{
	const size_t align = _Alignof(struct gs_bucket);
	struct gs_live_buckets *s;
	char *copy;

	bytes = (bytes + align - 1) / align * align;
	s = (struct gs_live_buckets *)((const char *)asked + offset);
	copy = calloc(1, bytes + s->n_values * s->n_points * sizeof(*s->at));
	if (!copy)
		return NULL;
	memcpy(copy, asked, bytes);
	s = (struct gs_live_buckets *)(copy + offset);
	s->at = (struct gs_bucket *)(copy + bytes);
	return copy;
}

void gs_live_bucket_add_mean(struct gs_live_buckets *s, size_t value, int64_t wall_ns, double mean,
			     double most, uint32_t n)
{
	size_t at;

	if (wall_ns < s->from_ns || wall_ns >= s->to_ns)
		return;
	at = (size_t)((double)(wall_ns - s->from_ns) / (double)(s->to_ns - s->from_ns) *
		      (double)s->n_points);
	gs_bucket_add_mean(&s->at[value * s->n_points + (at < s->n_points ? at : s->n_points - 1)],
			   mean, most, n);
}

void gs_live_bucket_add(struct gs_live_buckets *s, size_t value, int64_t wall_ns, double v)
{
	gs_live_bucket_add_mean(s, value, wall_ns, v, v, 1);
}

void gs_live_bucket_put_time(struct gs_buf *b, const struct gs_live_buckets *s)
{
	double step = (double)(s->to_ns - s->from_ns) / (double)s->n_points / 1e9;

	j_double(b, "step_seconds", step);
	j_open(b, "time", '['); /* the middle of each stretch */
	for (size_t i = 0; i < s->n_points; i++) {
		double at = (double)s->from_ns / 1e9 + ((double)i + 0.5) * step;

		(void)gs_buf_printf(b, "%s%lld.%03d", i ? "," : "", (long long)at,
				    (int)((at - floor(at)) * 1000));
	}
	j_close(b, ']');
}

static void put_column(struct gs_buf *b, const char *key, const struct gs_bucket *t, size_t n,
		       double (*figure)(const struct gs_bucket *))
{
	j_open(b, key, '[');
	for (size_t i = 0; i < n; i++)
		j_double(b, NULL, figure(&t[i]));
	j_close(b, ']');
}

void gs_live_bucket_put(struct gs_buf *b, const char *key, const struct gs_live_buckets *s,
			size_t value)
{
	const struct gs_bucket *t = s->at + value * s->n_points;

	j_open(b, key, '{');
	put_column(b, "min", t, s->n_points, gs_bucket_min);
	put_column(b, "mean", t, s->n_points, gs_bucket_mean);
	put_column(b, "max", t, s->n_points, gs_bucket_max);
	j_close(b, '}');
}
