/*
 * Reports of jobs: the list, a whole one, several compared; and the jobs that are on GPUs now, with
 * what their reports say. Lists are read on the reader's thread, comparisons on a thread of their
 * own.
 */
#include "server/api/api_int.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/scrub/scrub.h"
#include "analysis/job_report/compare.h"
#include "analysis/job_report/delivery.h"
#include "analysis/job_report/report.h"
#include "server/live/job.h"
#include "server/store/report.h"

#define IDS_MAX       200
#define COMPARED      100 /* when nothing else is asked for */
#define COMPARED_MAX  1000
#define STALE_NS      180000000000ll /* a job that is not heard of for so long may have ended */
#define FILTER_BYTES  130
#define COMPARE_BYTES (64u << 20) /* of reports in one comparison */

struct inquiry {
	struct gs_api *api;
	struct gs_http_deferred *later;
	void (*run)(struct inquiry *inquiry, struct gs_store *store, struct gs_http_reply *reply);
	struct gs_store_report_query query; /* its texts: */
	char user[FILTER_BYTES], name[FILTER_BYTES], job[FILTER_BYTES], node[FILTER_BYTES],
		kind[FILTER_BYTES];
	int64_t ids[IDS_MAX]; /* of a comparison; of one report: the first */
	size_t n_ids, limit, n;
	char next[GS_STORE_REPORT_AFTER_BYTES];
	struct gs_buf *b;
	enum gs_http_see see; /* who asks */
	/* of a comparison */
	struct gs_job_report_comparison comparison;
	size_t bytes;
	struct gs_err err;
};

/* --- requests --- */

static bool parse_filter(const struct gs_http_request *q, struct gs_http_reply *reply,
			 const char *key, char *out, const char **ret)
{
	char why[96];

	out[0] = '\0';
	*ret = out;
	if (gs_http_query(q, key, out, FILTER_BYTES) >= 0)
		return true;
	snprintf(why, sizeof(why), "%s must be a text of less than %d bytes", key, FILTER_BYTES);
	gs_http_error(reply, 400, why);
	return false;
}

static bool state_of(const struct gs_http_request *q, struct gs_http_reply *reply,
		     struct gs_store_report_query *query)
{
	char text[16];

	if (gs_http_query(q, "state", text, sizeof(text)) == 0)
		return true;
	for (unsigned s = GS_STORE_REPORT_RUNNING; s <= GS_STORE_REPORT_PARTIAL; s++)
		if (strcmp(text, gs_job_report_delivery_state_name(s)) == 0) {
			query->state = s;
			return true;
		}
	gs_http_error(reply, 400, "state must be running, finished or partial");
	return false;
}

/* Seconds since 1970, negative: before now. */
static bool time_of(const struct gs_http_request *q, struct gs_http_reply *reply, const char *key,
		    int64_t *ret_ns)
{
	double s;
	int r = gs_live_number(q, reply, key, -4e9, 4e9, &s);

	if (r == 1)
		*ret_ns = (int64_t)(s * 1e9) + (s < 0 ? (int64_t)gs_clock_wall_ns() : 0);
	return r >= 0;
}

static struct inquiry *
inquiry_new(struct gs_api *api, const struct gs_http_request *q, struct gs_http_reply *reply,
	    void (*run)(struct inquiry *, struct gs_store *, struct gs_http_reply *))
{
	struct inquiry *l = calloc(1, sizeof(*l));

	if (!l) {
		gs_http_error(reply, 503, "no memory");
		return NULL;
	}
	l->api = api;
	l->run = run;
	l->see = q->see;
	if (parse_filter(q, reply, "user", l->user, &l->query.user) &&
	    parse_filter(q, reply, "name", l->name, &l->query.name) &&
	    parse_filter(q, reply, "job", l->job, &l->query.job) &&
	    parse_filter(q, reply, "kind", l->kind, &l->query.kind) &&
	    parse_filter(q, reply, "node", l->node, &l->query.hostname) &&
	    state_of(q, reply, &l->query) && time_of(q, reply, "from", &l->query.from_wall_ns) &&
	    time_of(q, reply, "to", &l->query.to_wall_ns))
		return l;
	free(l);
	return NULL;
}

static void run_inquiry(void *arg, struct gs_store *store)
{
	struct inquiry *l = arg;
	struct gs_http_reply reply = gs_http_reply_new(l->later);

	if (store)
		l->run(l, store, &reply);
	else
		gs_http_error(&reply, 503, "the head is shutting down");
	gs_http_answer(&l->later, &reply);
	free(l);
}

/* On the reader's thread. */
static void inquiry_start(struct inquiry *l, struct gs_http_reply *reply)
{
	struct gs_http_reply failed;

	l->later = gs_http_defer(reply);
	if (!l->later) {
		gs_http_error(reply, 503, "no memory");
		free(l);
	} else if (gs_head_read(l->api->o.head, run_inquiry, l) < 0) {
		failed = gs_http_reply_new(l->later);
		gs_http_error(&failed, 503, "no memory");
		gs_http_answer(&l->later, &failed);
		free(l);
	}
}

/* --- the list --- */

static void put_row(struct gs_buf *b, const struct gs_store_report *r)
{
	j_i64(b, "id", r->id);
	j_i64(b, "node", r->node);
	j_text(b, "node_name", r->hostname);
	j_text(b, "report", r->report);
	j_text(b, "state", gs_job_report_delivery_state_name(r->state));
	j_bool(b, "stale",
	       r->state == GS_STORE_REPORT_RUNNING &&
		       (int64_t)gs_clock_wall_ns() - r->received_wall_ns > STALE_NS);
	j_text(b, "source", r->source);
	j_text(b, "kind", r->kind);
	j_text(b, "job", r->job);
	j_text(b, "user", r->user);
	j_text(b, "name", r->name);
	j_text(b, "class", r->job_class);
	j_double(b, "score", r->score);
	j_time(b, "start_time", r->begin_wall_ns);
	j_time(b, "end_time", r->end_wall_ns);
	j_double(b, "duration_seconds", (double)(r->end_wall_ns - r->begin_wall_ns) / 1e9);
	j_time(b, "received", r->received_wall_ns);
}

static int list_one(void *ctx, const struct gs_store_report *r, const char *text, size_t bytes)
{
	struct inquiry *l = ctx;

	if (l->n == l->limit)
		return 1;
	l->n++;
	gs_store_report_newer(r, l->next);
	j_open(l->b, NULL, '{');
	put_row(l->b, r);
	j_close(l->b, '}');
	return 0;
}

static void list_reports(struct inquiry *l, struct gs_store *store, struct gs_http_reply *reply)
{
	int r;

	l->b = gs_live_json(reply);
	j_open(l->b, NULL, '{');
	j_open(l->b, "reports", '[');
	r = gs_store_reports(store, &l->query, list_one, l);
	j_close(l->b, ']');
	if (r == 1)
		j_text(l->b, "next", l->next);
	else
		j_null(l->b, "next");
	j_close(l->b, '}');
	if (r < 0)
		gs_live_fail(reply, r, NULL);
}

GS_API_HANDLER(api_job_reports)
{
	size_t limit = gs_live_limit(q, reply);
	char after[GS_STORE_REPORT_AFTER_BYTES];
	struct inquiry *l;

	if (!limit)
		return;
	l = inquiry_new(ctx, q, reply, list_reports);
	if (!l)
		return;
	if (gs_http_query(q, "after", after, sizeof(after)) < 0 ||
	    gs_store_report_older(&l->query, after) < 0) {
		gs_http_error(reply, 400, "after must be the value next of a previous answer");
		free(l);
		return;
	}
	l->limit = limit;
	inquiry_start(l, reply);
}

/* --- one --- */

static bool parse_id(const char *text, size_t length, int64_t *ret)
{
	if (!length || length > 17 || strspn(text, "0123456789") < length)
		return false;
	*ret = strtoll(text, NULL, 10);
	return *ret > 0;
}

/* It was parsed when it came: an object, and nothing after it but blanks. */
static int put_document(struct gs_buf *b, const struct gs_buf *text, enum gs_http_see see)
{
	GS_FREE char *shown = NULL;
	int r;

	if (see == GS_HTTP_SEE_WHOLE) {
		gs_json_spelled(b, "document", text->data, text->bytes);
		return b->r;
	}
	r = gs_scrub_json((const char *)text->data, text->bytes, see == GS_HTTP_SEE_NAMES, &shown);
	if (r < 0)
		return r;
	gs_json_spelled(b, "document", shown, strlen(shown));
	return b->r;
}

static void show_report(struct inquiry *l, struct gs_store *store, struct gs_http_reply *reply)
{
	struct gs_buf text = GS_BUF_INIT(GS_STORE_REPORT_MAX + 64);
	struct gs_store_report row;
	int r = gs_store_report_get(store, l->ids[0], &row, &text);
	struct gs_buf *b;

	if (r == -ENOENT) {
		gs_http_error(reply, 404, "no report has this number");
	} else if (r < 0) {
		gs_live_fail(reply, r, NULL);
	} else {
		b = gs_live_json(reply);
		j_open(b, NULL, '{');
		put_row(b, &row);
		r = put_document(b, &text, l->see);
		j_close(b, '}');
		if (r < 0)
			gs_live_fail(reply, r, NULL);
	}
	gs_buf_fini(&text);
}

GS_API_HANDLER(api_job_report)
{
	struct inquiry *l;
	int64_t id;

	if (!parse_id(q->param[0], strlen(q->param[0]), &id)) {
		gs_http_error(reply, 404, "no report has this number");
		return;
	}
	l = inquiry_new(ctx, q, reply, show_report);
	if (!l)
		return;
	l->ids[0] = id;
	inquiry_start(l, reply);
}

/* --- several compared --- */

static int compare_one(void *ctx, const struct gs_store_report *r, const char *text, size_t bytes)
{
	struct inquiry *l = ctx;
	char name[100];

	if (l->n == l->limit)
		return 1;
	l->n++;
	l->bytes += bytes;
	if (l->bytes > COMPARE_BYTES)
		return gs_err_set(&l->err, -E2BIG,
				  "more than %u MiB of reports: choose fewer of them",
				  COMPARE_BYTES >> 20);
	/* Its number is after the last '#'. */
	snprintf(name, sizeof(name), "%s#%lld", r->hostname, (long long)r->id);
	return text ? gs_job_report_compare_text(&l->comparison, name, text, bytes, &l->err) : 0;
}

static int compare_ids(struct inquiry *l, struct gs_store *store)
{
	struct gs_buf text = GS_BUF_INIT(GS_STORE_REPORT_MAX + 64);
	struct gs_store_report row;
	int r = 0;

	l->limit = l->n_ids;
	for (size_t i = 0; r == 0 && i < l->n_ids; i++) {
		r = gs_store_report_get(store, l->ids[i], &row, &text);
		if (r == -ENOENT)
			(void)gs_err_set(&l->err, r, "no report has the number %lld",
					 (long long)l->ids[i]);
		if (r == 0)
			r = compare_one(l, &row, (const char *)text.data, text.bytes);
	}
	gs_buf_fini(&text);
	return r;
}

static int write_comparison(struct inquiry *l, struct gs_http_reply *reply)
{
	const struct gs_job_report_style style = {.format = GS_JOB_JSON, .precision = 2};
	GS_FREE char *text = NULL;
	size_t bytes = 0;
	FILE *f = open_memstream(&text, &bytes);
	int r = f ? gs_job_report_compare_write(f, &l->comparison, &style) : -errno;

	if (f && fclose(f) != 0 && r == 0)
		r = -ENOMEM;
	return r < 0 ? r : gs_buf_put(gs_live_json(reply), text, bytes);
}

static void compare_reports(struct api_task *t)
{
	struct inquiry *l = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	int r = l->n_ids ? compare_ids(l, t->store)
			 : gs_store_reports(t->store, &l->query, compare_one, l);

	if (r >= 0)
		r = gs_job_report_compare_finish(&l->comparison);
	if (r == 0)
		r = write_comparison(l, &reply);
	gs_job_report_comparison_fini(&l->comparison);
	if (r == -E2BIG)
		gs_http_error(&reply, 413, l->err.text);
	else if (r < 0)
		gs_live_fail(&reply, r, &l->err);
	gs_http_answer(&t->later, &reply);
}

/* "1,2,3" */
static bool ids_of(struct inquiry *l, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	char text[IDS_MAX * 18];
	int r = gs_http_query(q, "ids", text, sizeof(text));

	for (const char *at = text; r == 1 && at;) {
		const char *end = strchrnul(at, ',');

		if (l->n_ids == IDS_MAX || !parse_id(at, (size_t)(end - at), &l->ids[l->n_ids++]))
			r = -EINVAL;
		at = *end ? end + 1 : NULL;
	}
	if (r < 0)
		gs_http_error(reply, 400,
			      "ids must be numbers of reports with commas, 200 at most");
	return r >= 0;
}

GS_API_HANDLER(api_job_reports_compare)
{
	double last = COMPARED;
	struct inquiry *l;

	if (gs_live_number(q, reply, "last", 1, COMPARED_MAX, &last) < 0)
		return;
	l = inquiry_new(ctx, q, reply, NULL);
	if (!l)
		return;
	l->limit = (size_t)last;
	l->query.whole = true;
	l->query.not_running = !l->query.state;
	if (ids_of(l, q, reply))
		api_task_start(ctx, reply, compare_reports, l);
	else
		free(l);
}

/* --- jobs that are on GPUs now --- */

static int first_of(void *ctx, const struct gs_store_report *r, const char *text, size_t bytes)
{
	*(struct gs_store_report *)ctx = *r;
	return 1;
}

static int put_report(void *ctx, const char *job, struct gs_buf *b)
{
	const struct gs_store_report_query query = {.job = job, .kind = "slurm"};
	struct gs_store_report newest;
	int r = gs_store_reports(ctx, &query, first_of, &newest);

	if (r == 1) {
		j_open(b, "report", '{');
		put_row(b, &newest);
		j_close(b, '}');
	} else {
		j_null(b, "report");
	}
	return r < 0 ? r : 0;
}

static void list_jobs(struct inquiry *l, struct gs_store *store, struct gs_http_reply *reply)
{
	gs_live_jobs(l->api->live, l->limit, put_report, store, reply);
}

void api_jobs(void *ctx, const struct gs_http_request *q, size_t limit, struct gs_http_reply *reply)
{
	struct inquiry *l = inquiry_new(ctx, q, reply, list_jobs);

	if (!l)
		return;
	l->limit = limit;
	inquiry_start(l, reply);
}
