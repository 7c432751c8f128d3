/* ListFindings: what the head found of jobs over many nodes, newest first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gpuscope.pb-c.h"
#include "server/finding/finding.h"
#include "server/head/head_int.h"

#define LIMIT      100 /* of a list, when nothing else is asked for */
#define LIMIT_MAX  1000
#define ANSWER_MAX (2u << 20) /* bytes of documents in one answer; one always fits */

struct answer {
	Gpuscope__V1__Finding **finding; /* owned, as all in it */
	size_t n, limit, bytes;
	struct gs_buf document;
};

static int fill_message(struct answer *a, const struct gs_store_finding *f, const char *data)
{
	Gpuscope__V1__Finding *m = calloc(1, sizeof(*m));

	if (!m)
		return -ENOMEM;
	gpuscope__v1__finding__init(m);
	a->finding[a->n++] = m;
	gs_buf_reset(&a->document);
	gs_finding_put_json(&a->document, f, data);
	if (a->document.r < 0)
		return a->document.r;
	m->id = f->id;
	m->begin_wall_ns = f->begin_wall_ns;
	m->end_wall_ns = f->end_wall_ns;
	m->kind = strdup(f->kind);
	m->job = strdup(f->job);
	m->text = strdup(f->text);
	m->document.data = malloc(a->document.bytes);
	if (!m->kind || !m->job || !m->text || !m->document.data)
		return -ENOMEM;
	memcpy(m->document.data, a->document.data, a->document.bytes);
	m->document.len = a->document.bytes;
	a->bytes += m->document.len;
	return 0;
}

static int add_finding(void *ctx, const struct gs_store_finding *finding, const char *data)
{
	struct answer *a = ctx;

	if (a->n == a->limit || (a->n && a->bytes + strlen(data) > ANSWER_MAX))
		return 1;
	return fill_message(a, finding, data);
}

/* A text that no memory was there for is NULL. */
static void free_texts(Gpuscope__V1__Finding *m)
{
	free(m->kind);
	free(m->job);
	free(m->text);
	free(m->document.data);
	free(m);
}

void head_findings_list(struct gs_grpc_call *call, const void *query, struct gs_store *store)
{
	const Gpuscope__V1__FindingQuery *m = query;
	const struct gs_store_finding_query q = {.job = m->job,
						 .kind = m->kind,
						 .holding = m->holding,
						 .from_wall_ns = m->from_wall_ns,
						 .to_wall_ns = m->to_wall_ns,
						 .after_id = m->after};
	struct answer a = {.limit = !m->limit              ? LIMIT
				    : m->limit > LIMIT_MAX ? LIMIT_MAX
							   : m->limit,
			   .document = GS_BUF_INIT(2 * GS_STORE_FINDING_MAX)};
	Gpuscope__V1__Findings out = GPUSCOPE__V1__FINDINGS__INIT;
	int r;

	a.finding = calloc(a.limit, sizeof(*a.finding));
	r = a.finding ? gs_store_findings(store, &q, add_finding, &a) : -ENOMEM;
	out.n_findings = a.n;
	out.findings = a.finding;
	if (r == 1)
		out.next = a.finding[a.n - 1]->id;
	if (r < 0)
		gs_grpc_call_finish(call, head_status_of(r), gs_store_trouble(store));
	else
		gs_head_reply(call, &out.base);
	for (size_t i = 0; i < a.n; i++)
		free_texts(a.finding[i]);
	free(a.finding);
	gs_buf_fini(&a.document);
}
