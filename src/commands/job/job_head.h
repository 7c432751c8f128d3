/* Reports of jobs on their way to a head, of `gpuscope job --head`. */
#ifndef GS_COMMANDS_JOB_JOB_HEAD_H
#define GS_COMMANDS_JOB_JOB_HEAD_H

#include "commands/head/to_head.h"
#include "analysis/job_report/report.h"

/* The names of the reports of a measurement: job i has the same name each time. */
struct job_head {
	struct to_head *to; /* NULL: no head is wanted */
	char (*name)[65];   /* owned; one a job */
	size_t n_names;
};

void job_head_fini(struct job_head *head); /* as {0} then */

/* Keeps the report of each job for who comes next, should this program be killed. 0 or a negative
 * errno, after having said why. */
int job_head_save(struct job_head *head, const struct gs_job_report_session *session);

/* Each job's report, to be delivered. 0 or a negative errno, after having said why. */
int job_head_push(struct job_head *head, const struct gs_job_report_session *session);

#endif
