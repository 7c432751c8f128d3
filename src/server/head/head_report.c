/* Reports of jobs: what a node sends is looked at, and lists of them are sent to who asks. */
#include "server/head/head_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuscope.pb-c.h"
#include "analysis/job_report/delivery.h"
#include "core/scrub/scrub.h"

#define LIMIT      100 /* of a list, when nothing else is asked for */
#define LIMIT_MAX  1000
#define ANSWER_MAX (4u << 20) /* bytes of documents in one answer; one document always fits */

_Static_assert((int)GS_STORE_REPORT_RUNNING == GS_JOB_DELIVERY_RUNNING &&
		       (int)GS_STORE_REPORT_FINISHED == GS_JOB_DELIVERY_FINISHED &&
		       (int)GS_STORE_REPORT_PARTIAL == GS_JOB_DELIVERY_PARTIAL &&
		       GS_STORE_REPORT_MAX == GS_JOB_DELIVERY_MAX,
	       "the same numbers");

bool head_report_check(const struct Gpuscope__V1__Batch *b, struct gs_buf *raw,
		       struct gs_store_report *ret_report)
{
	struct gs_job_report_delivery d;
	struct gs_err err;

	if (!b->seq || b->first_wall_ns > b->last_wall_ns || b->raw_bytes > GS_STORE_REPORT_MAX ||
	    gs_store_unpack((uint32_t)b->codec, b->records.data, b->records.len, b->raw_bytes,
			    raw) < 0 ||
	    gs_job_report_delivery_read(&d, (const char *)raw->data, raw->bytes, &err) < 0)
		return false;
	*ret_report = (struct gs_store_report){
		.state = d.state,
		.score = d.score,
		.begin_wall_ns = d.begin_wall_ns,
		.end_wall_ns = d.end_wall_ns,
	};
	memcpy(ret_report->report, d.report, sizeof(d.report));
	memcpy(ret_report->source, d.source, sizeof(d.source));
	memcpy(ret_report->kind, d.kind, sizeof(d.kind));
	memcpy(ret_report->job, d.job, sizeof(d.job));
	memcpy(ret_report->user, d.user, sizeof(d.user));
	memcpy(ret_report->name, d.name, sizeof(d.name));
	memcpy(ret_report->job_class, d.job_class, sizeof(d.job_class));
	return true;
}

/* --- ListJobReports --- */

struct answer {
	Gpuscope__V1__JobReport **report; /* owned, as all in it */
	size_t n, limit, bytes;
	enum gs_session_export_commands commands; /* that who asks may see */
	char next[GS_STORE_REPORT_AFTER_BYTES];
};

/* The document as far as who asks may see it. */
static int put_document(Gpuscope__V1__JobReport *m, enum gs_session_export_commands commands,
			const char *text, size_t bytes)
{
	char *shown = NULL;
	int r;

	if (commands == GS_SESSION_EXPORT_COMMANDS_STORED) {
		m->document.data = malloc(bytes + 1);
		if (!m->document.data)
			return -ENOMEM;
		memcpy(m->document.data, text, bytes);
		m->document.len = bytes;
		return 0;
	}
	r = gs_scrub_json(text, bytes, commands == GS_SESSION_EXPORT_COMMANDS_NONE, &shown);
	if (r == 0) {
		m->document.data = (uint8_t *)shown;
		m->document.len = strlen(shown);
	}
	return r;
}

static int add_report(void *ctx, const struct gs_store_report *report, const char *text,
		      size_t bytes)
{
	struct answer *a = ctx;
	Gpuscope__V1__JobReport *m;
	int r;

	if (!text)
		return 0; /* damaged */
	if (a->n == a->limit || (a->n && a->bytes + bytes > ANSWER_MAX))
		return 1;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	gpuscope__v1__job_report__init(m);
	a->report[a->n++] = m;
	m->id = report->id;
	m->node = strdup(report->hostname);
	m->state = (Gpuscope__V1__JobReportState)report->state; /* the same numbers */
	r = m->node ? put_document(m, a->commands, text, bytes) : -ENOMEM;
	if (r < 0)
		return r;
	a->bytes += m->document.len;
	gs_store_report_newer(report, a->next);
	return 0;
}

static void answer_fini(struct answer *a)
{
	for (size_t i = 0; i < a->n; i++) {
		free(a->report[i]->node);
		free(a->report[i]->document.data);
		free(a->report[i]);
	}
	free(a->report);
}

static bool text_fits(const char *text, size_t bytes)
{
	return strlen(text) < bytes;
}

void head_reports_list(const struct gs_head *h, struct gs_grpc_call *call, const void *query,
		       struct gs_store *store)
{
	const Gpuscope__V1__JobReportQuery *m = query;
	struct gs_store_report_query q = {
		.user = m->user,
		.name = m->name,
		.job = m->job,
		.state = (unsigned)m->state,
		.not_running = !m->state,
		.from_wall_ns = m->from_wall_ns,
		.to_wall_ns = m->to_wall_ns,
		.whole = true,
	};
	struct answer a = {.limit = !m->limit              ? LIMIT
				    : m->limit > LIMIT_MAX ? LIMIT_MAX
							   : m->limit,
			   .commands = head_may_see(h, call)};
	Gpuscope__V1__JobReports out = GPUSCOPE__V1__JOB_REPORTS__INIT;
	int r;

	if (!text_fits(m->user, 256) || !text_fits(m->name, 256) || !text_fits(m->job, 256) ||
	    q.state > GS_STORE_REPORT_PARTIAL || gs_store_report_older(&q, m->after) < 0) {
		gs_grpc_call_finish(call, GS_GRPC_INVALID_ARGUMENT, "invalid selection of reports");
		return;
	}
	a.report = calloc(a.limit, sizeof(*a.report));
	r = a.report ? gs_store_reports(store, &q, add_report, &a) : -ENOMEM;
	out.n_reports = a.n;
	out.reports = a.report;
	if (r == 1)
		out.next = a.next;
	if (r < 0)
		gs_grpc_call_finish(call, head_status_of(r), gs_store_trouble(store));
	else
		gs_head_reply(call, &out.base);
	answer_fini(&a);
}
