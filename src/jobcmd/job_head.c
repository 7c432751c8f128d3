/* gpuscope job --head: the report of each job also goes to a head. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "jobcmd/job_head.h"
#include "job/delivery.h"
#include "node/job_account.h"

static int push_one(struct gs_link *link, const struct gs_job_session *session, size_t i,
		    struct gs_buf *text)
{
	struct gs_job_delivery d = {
		.state =
			session->jobs[i].ended ? GS_JOB_DELIVERY_FINISHED : GS_JOB_DELIVERY_PARTIAL,
		.source = "job",
		.begin_wall_ns = session->start_wall_ns,
		.end_wall_ns = session->end_wall_ns,
	};
	const struct gs_link_span span = {.first_wall_ns = session->start_wall_ns,
					  .last_wall_ns = session->end_wall_ns,
					  .n_samples = 1};
	struct gs_batch batch;
	int r = gs_job_delivery_name(d.report);

	snprintf(d.kind, sizeof(d.kind), "%s", gs_job_kind_name(session->jobs[i].job.kind));
	if (!d.kind[0])
		strcpy(d.kind, "processes");
	if (r == 0)
		r = gs_job_delivery_write(text, session, i, &d);
	if (r < 0)
		return r;
	batch = (struct gs_batch){text->data, text->bytes};
	return gs_link_push(link, &batch, &span);
}

int job_head_push(struct to_head *head, const struct gs_job_session *session)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(2 * GS_JOB_DELIVERY_MAX);
	int r = 0;

	for (size_t i = 0; i < session->n_jobs; i++) {
		int one = push_one(to_head_link(head), session, i, &text);

		if (one == 0)
			continue;
		gs_say("the report of job %s cannot be kept for the head: %s",
		       session->jobs[i].job.id, strerror(-one));
		r = one;
	}
	return r;
}
