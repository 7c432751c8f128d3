/* Jobs that are on GPUs now. */
#ifndef GS_SERVER_LIVE_JOB_H
#define GS_SERVER_LIVE_JOB_H

#include "server/live/live.h"

/* The member "report" of a job: its newest report, or null. 0 or a negative errno. */
typedef int (*gs_live_report_fn)(void *ctx, const char *job, struct gs_buf *b);

/* The answer, of so many jobs at most. report: NULL: there are none. Any thread. */
void gs_live_jobs(struct gs_live *live, size_t limit, gs_live_report_fn report, void *ctx,
		  struct gs_http_reply *reply);

#endif
