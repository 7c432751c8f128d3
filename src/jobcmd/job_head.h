/* The reports of jobs to a head. */
#ifndef GS_JOBCMD_JOB_HEAD_H
#define GS_JOBCMD_JOB_HEAD_H

#include "headcmd/to_head.h"

struct gs_job_session;

/* The report of each job. 0, or a negative errno after having said why. */
int job_head_push(struct to_head *head, const struct gs_job_session *session);

#endif
