/* gpuscope job --head: the report of each job also goes to a head. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "commands/common/cli.h"
#include "commands/job/job_head.h"
#include "analysis/job_report/delivery.h"
#include "model/node/job_account.h"

void job_head_fini(struct job_head *h)
{
	free(h->name);
	*h = (struct job_head){0};
}

static int name_reports(struct job_head *h, size_t n)
{
	char(*more)[65] = n > h->n_names ? realloc(h->name, n * sizeof(*more)) : h->name;
	int r = 0;

	if (n && !more)
		return -ENOMEM;
	h->name = more;
	while (r == 0 && h->n_names < n) {
		r = gs_job_report_delivery_name(h->name[h->n_names]);
		h->n_names += r == 0;
	}
	return r;
}

/* The document of job i; the batch points into text. */
static int write_document(const struct job_head *h, const struct gs_job_report_session *session,
			  size_t i, struct gs_buf *text, struct gs_batch *ret_batch)
{
	struct gs_job_report_delivery d = {
		.state =
			session->jobs[i].ended ? GS_JOB_DELIVERY_FINISHED : GS_JOB_DELIVERY_PARTIAL,
		.source = "job",
		.begin_wall_ns = session->start_wall_ns,
		.end_wall_ns = session->end_wall_ns,
	};
	int r;

	snprintf(d.report, sizeof(d.report), "%s", h->name[i]);
	snprintf(d.kind, sizeof(d.kind), "%s", gs_job_kind_name(session->jobs[i].job.kind));
	if (!d.kind[0])
		strcpy(d.kind, "processes");
	r = gs_job_report_delivery_write(text, session, i, &d);
	*ret_batch = (struct gs_batch){text->data, text->bytes};
	return r;
}

static int each_report(struct job_head *h, const struct gs_job_report_session *session,
		       int (*deliver)(struct job_head *h, size_t i, const struct gs_batch *batch,
				      const struct gs_uplink_span *span))
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(2 * GS_JOB_DELIVERY_MAX);
	const struct gs_uplink_span span = {.first_wall_ns = session->start_wall_ns,
					    .last_wall_ns = session->end_wall_ns,
					    .n_samples = 1};
	int r = name_reports(h, session->n_jobs);

	if (r < 0) {
		gs_cli_print_message("cannot spool the reports for the head: %s", strerror(-r));
		return r;
	}
	for (size_t i = 0; i < session->n_jobs; i++) {
		struct gs_batch batch;
		int one = write_document(h, session, i, &text, &batch);

		if (one == 0)
			one = deliver(h, i, &batch, &span);
		if (one == 0)
			continue;
		gs_cli_print_message("cannot spool the report of job %s for the head: %s",
				     session->jobs[i].job.id, strerror(-one));
		r = one;
	}
	return r;
}

static int save_one(struct job_head *h, size_t i, const struct gs_batch *batch,
		    const struct gs_uplink_span *span)
{
	return gs_uplink_outbox_save(to_head_outbox(h->to), h->name[i], batch, span);
}

int job_head_save(struct job_head *h, const struct gs_job_report_session *session)
{
	return h->to ? each_report(h, session, save_one) : 0;
}

static int push_one(struct job_head *h, size_t i, const struct gs_batch *batch,
		    const struct gs_uplink_span *span)
{
	int r;

	/* Should this program be killed between the next two steps, the same report comes twice,
	 * and not an older one last. */
	(void)gs_uplink_outbox_save(to_head_outbox(h->to), h->name[i], batch, span);
	r = gs_uplink_push(to_head_link(h->to), batch, span);
	if (r == 0)
		gs_uplink_outbox_unsave(to_head_outbox(h->to), h->name[i]);
	return r;
}

int job_head_push(struct job_head *h, const struct gs_job_report_session *session)
{
	return h->to ? each_report(h, session, push_one) : 0;
}
