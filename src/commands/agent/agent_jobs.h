/* The jobs of this node, read in a thread. */
#ifndef GS_COMMANDS_AGENT_AGENT_JOBS_H
#define GS_COMMANDS_AGENT_AGENT_JOBS_H

#include <stdbool.h>
#include <stdint.h>

#include "commands/agent/agent_state.h"
#include "model/node/job_account.h"

struct agent_jobs;

/* Begin to read them, in a thread; *ret_jobs stays NULL when none are wanted. */
int agent_jobs_start(const struct agent_jobs_conf *conf, struct agent_state *state,
		     struct agent_jobs **ret_jobs, struct gs_err *err);
void agent_jobs_stop(struct agent_jobs **jobs);

/* What was read last, the caller's; NULL: nothing yet, or no memory. Of its processes alone: by pid. */
struct gs_job_accounts *agent_jobs_copy(struct agent_jobs *jobs);
void agent_jobs_times(struct agent_jobs *jobs, struct gs_job_process **ret_times, uint32_t *ret_n);

/* Whether reading goes on as it is; names do not matter to it. */
bool agent_jobs_same(const struct agent_jobs_conf *a, const struct agent_jobs_conf *b);

/* Families of the jobs and of reading them. gpus may be NULL. */
void agent_jobs_render(struct agent_jobs *jobs, struct gs_metrics *p,
		       const struct gs_gpu_snapshot *gpus, int names);

#endif
