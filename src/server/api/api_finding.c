/* What the head found of jobs over many nodes: a list, read on the reader's thread; and steps of their ranks. */
#include "server/api/api_int.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "server/finding/finding.h"

#define FILTER_BYTES 64

struct inquiry {
	struct gs_http_deferred *later;
	struct gs_store_finding_query query; /* its texts: */
	char job[FILTER_BYTES], kind[FILTER_BYTES];
	size_t limit, n;
	int64_t last_id;
	struct gs_buf *b;
};

static int list_one(void *ctx, const struct gs_store_finding *f, const char *data)
{
	struct inquiry *l = ctx;

	if (l->n == l->limit)
		return 1;
	l->n++;
	l->last_id = f->id;
	gs_finding_put_json(l->b, f, data);
	return 0;
}

static void list_findings(struct inquiry *l, struct gs_store *store, struct gs_http_reply *reply)
{
	int r;

	l->b = gs_live_json(reply);
	j_open(l->b, NULL, '{');
	j_open(l->b, "findings", '[');
	r = gs_store_findings(store, &l->query, list_one, l);
	j_close(l->b, ']');
	if (r == 1)
		j_i64(l->b, "next", l->last_id);
	else
		j_null(l->b, "next");
	j_close(l->b, '}');
	if (r < 0)
		gs_live_fail(reply, r, NULL);
}

static void run_inquiry(void *arg, struct gs_store *store)
{
	struct inquiry *l = arg;
	struct gs_http_reply reply = gs_http_reply_new(l->later);

	if (store)
		list_findings(l, store, &reply);
	else
		gs_http_error(&reply, 503, "the head is shutting down");
	gs_http_answer(&l->later, &reply);
	free(l);
}

/* Seconds since 1970, negative: before now. False: the reply says what is wrong. */
static bool parse_time(const struct gs_http_request *q, struct gs_http_reply *reply,
		       const char *key, int64_t *ret_ns)
{
	double s;
	int r = gs_live_number(q, reply, key, -4e9, 4e9, &s);

	if (r == 1)
		*ret_ns = (int64_t)(s * 1e9) + (s < 0 ? (int64_t)gs_clock_wall_ns() : 0);
	return r >= 0;
}

/* Likewise. */
static bool parse_inquiry(const struct gs_http_request *q, struct gs_http_reply *reply,
			  struct inquiry *l)
{
	double after = 0, holding = 0;

	if (gs_http_query(q, "job", l->job, sizeof(l->job)) < 0 ||
	    gs_http_query(q, "kind", l->kind, sizeof(l->kind)) < 0) {
		gs_http_error(reply, 400, "job and kind must be texts of less than 64 bytes");
		return false;
	}
	if (gs_live_number(q, reply, "after", 1, 9e15, &after) < 0 ||
	    gs_live_number(q, reply, "holding", 0, 1, &holding) < 0 ||
	    !parse_time(q, reply, "from", &l->query.from_wall_ns) ||
	    !parse_time(q, reply, "to", &l->query.to_wall_ns))
		return false;
	l->query.job = l->job;
	l->query.kind = l->kind;
	l->query.after_id = (int64_t)after;
	l->query.holding = holding != 0;
	return true;
}

GS_API_HANDLER(api_findings)
{
	struct gs_api *api = ctx;
	size_t limit = gs_live_limit(q, reply);
	struct gs_http_reply failed;
	struct inquiry *l;

	if (!limit)
		return;
	l = calloc(1, sizeof(*l));
	if (!l) {
		gs_http_error(reply, 503, "no memory");
		return;
	}
	l->limit = limit;
	if (!parse_inquiry(q, reply, l)) {
		free(l);
		return;
	}
	l->later = gs_http_defer(reply);
	if (!l->later) {
		gs_http_error(reply, 503, "no memory");
		free(l);
	} else if (gs_head_read(api->o.head, run_inquiry, l) < 0) {
		failed = gs_http_reply_new(l->later);
		gs_http_error(&failed, 503, "no memory");
		gs_http_answer(&l->later, &failed);
		free(l);
	}
}

static void put_steps(void *ctx, const struct gs_fleet_steps *steps)
{
	gs_finding_put_steps(ctx, steps);
}

GS_API_HANDLER(api_steps)
{
	struct gs_api *api = ctx;
	size_t limit = gs_live_limit(q, reply);
	char job[FILTER_BYTES] = "";
	struct gs_buf *b;
	int r;

	if (!limit)
		return;
	if (gs_http_query(q, "job", job, sizeof(job)) < 0) {
		gs_http_error(reply, 400, "job must be a text of less than 64 bytes");
		return;
	}
	b = gs_live_json(reply);
	j_open(b, NULL, '{');
	j_open(b, "steps", '[');
	r = gs_head_steps(api->o.head, job, (uint32_t)limit, put_steps, b);
	j_close(b, ']');
	j_close(b, '}');
	if (r < 0)
		gs_live_fail(reply, r, NULL);
}
