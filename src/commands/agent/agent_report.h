/* Reports of jobs for a head; for agent_head.c. */
#ifndef GS_COMMANDS_AGENT_AGENT_REPORT_H
#define GS_COMMANDS_AGENT_AGENT_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/node/job_account.h"

struct agent_report;
struct gs_uplink_options;

/* link: as of samples; its kind, and its spool (DIR-jobs), are set here. */
int agent_report_start(const struct gs_uplink_options *link, uint64_t interval_ns,
		       struct agent_report **ret_report, struct gs_err *err);

/* How many reports are left in the spool. */
uint64_t agent_report_stop(struct agent_report **report, uint64_t drain_ns);

/* As agent_head_take_jobs(), agent_head_end_jobs(); report may be NULL. */
void agent_report_take(struct agent_report *report, const struct gs_job_accounts *accounts);
void agent_report_end(struct agent_report *report, const struct gs_job_accounts *accounts);

struct agent_report_stats {
	uint64_t reports, failed; /* kept for the head; those that could not be made or kept */
	uint64_t waiting, lost;   /* reports that wait; lost for lack of room */
};

/* As of now. */
void agent_report_stats(struct agent_report *report, struct agent_report_stats *ret_stats);

#endif
