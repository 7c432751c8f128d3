/* Values over time, in stretches of equal length with least, mean and most. */
#ifndef GS_SERVER_LIVE_BUCKET_H
#define GS_SERVER_LIVE_BUCKET_H

#include "core/series/bucket.h"
#include "core/base/buf.h"
#include "net/http/http.h"

struct gs_live_buckets {
	int64_t from_ns, to_ns; /* wall */
	size_t n_points, n_values;
	struct gs_bucket *at; /* [value][point]; lies after what it is part of */
};

/* from, to, points of the query. False: the reply says what is wrong. */
bool gs_live_bucket_parse(const struct gs_http_request *q, struct gs_http_reply *reply,
			  size_t n_values, struct gs_live_buckets *ret);

/* A copy of what was asked (of this size, its stretches at this offset) with room for them after
 * it, for free(). NULL: no memory. */
void *gs_live_bucket_new(const void *asked, size_t bytes, size_t offset);

/* One value of the value-th series; what is outside of the time is left out. */
void gs_live_bucket_add(struct gs_live_buckets *s, size_t value, int64_t wall_ns, double v);
/* The mean of n values, of which the highest is most. */
void gs_live_bucket_add_mean(struct gs_live_buckets *s, size_t value, int64_t wall_ns, double mean,
			     double most, uint32_t n);
void gs_live_bucket_put_time(struct gs_buf *b, const struct gs_live_buckets *s);
void gs_live_bucket_put(struct gs_buf *b, const char *key, const struct gs_live_buckets *s,
			size_t value);

#endif
