/*
 * A sink that keeps what it was given, for tests of what stands before a sink.
 */
#ifndef GS_TESTS_COLLECT_H
#define GS_TESTS_COLLECT_H

#include <errno.h>

#include "model/trace/dict.h"
#include "pipeline/correlate/correlate.h"
#include "unit/aggregate/records.h"

struct collect {
	struct gs_sink sink;
	struct gs_buf got;     /* of all batches so far */
	struct gs_dict *dict;  /* fed with them */
	const void *last_data; /* where the last batch was */
	size_t last_bytes;
	unsigned n_pushed, n_flushed;
	int answer; /* of push and flush */
	bool deaf;  /* count, do not keep */
};

static inline GS_UNUSED int collect_push(void *ctx, const struct gs_batch *batch)
{
	struct collect *c = ctx;

	c->n_pushed++;
	c->last_data = batch->data;
	c->last_bytes = batch->bytes;
	if (c->deaf)
		return c->answer;
	if (gs_buf_put(&c->got, batch->data, batch->bytes) < 0)
		abort();
	gs_records_for_each (batch, r)
		gs_dict_apply(c->dict, r);
	return c->answer;
}

static inline GS_UNUSED int collect_flush(void *ctx)
{
	struct collect *c = ctx;

	c->n_flushed++;
	return c->answer;
}

static inline GS_UNUSED struct gs_correlate *collect_span(struct collect *c)
{
	struct gs_correlate *s = NULL;

	*c = (struct collect){.sink = {collect_push, collect_flush, c},
			      .got = GS_BUF_INIT(1u << 30),
			      .dict = gs_dict_new()};
	if (!c->dict || gs_correlate_new(&c->sink, &s) < 0)
		abort();
	return s;
}

static inline GS_UNUSED void collect_fini(struct collect *c)
{
	gs_buf_fini(&c->got);
	gs_dict_free(&c->dict);
}

#define COLLECT GS_CLEANUP(collect_fini) struct collect
#define SPAN    GS_CLEANUP(gs_correlate_free) struct gs_correlate

/* The n-th record of the kind that came through, from 0; NULL: there are fewer. */
static inline GS_UNUSED const void *got_record(const struct collect *c, enum gs_record_kind kind,
					       size_t n)
{
	struct gs_batch b = {c->got.data, c->got.bytes};

	gs_records_for_each (&b, r)
		if (r->kind == kind && n-- == 0)
			return r;
	return NULL;
}

static inline GS_UNUSED size_t got_count(const struct collect *c, enum gs_record_kind kind)
{
	size_t n = 0;

	while (got_record(c, kind, n))
		n++;
	return n;
}

#endif
