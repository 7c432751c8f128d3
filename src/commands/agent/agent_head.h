/* Delivery to a head: samples, and reports of jobs (agent_report.h). */
#ifndef GS_COMMANDS_AGENT_AGENT_HEAD_H
#define GS_COMMANDS_AGENT_AGENT_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "commands/agent/agent_jobs.h"
#include "commands/agent/agent_report.h"

struct agent_head;

/* *ret_head NULL: none is configured. */
int agent_head_start(const struct agent_conf *conf, struct agent_recorder *recorder,
		     struct agent_head **ret_head, struct gs_err *err);
/* Delivers for some seconds what waits; the rest stays in the spool. */
void agent_head_stop(struct agent_head **head);

/* What was read last, lent; from the thread that reads. head may be NULL. */
void agent_head_take(struct agent_head *head, struct gs_gpu_snapshot *gpu, struct agent_jobs *jobs);

/* The jobs as they were read last, lent; from the thread that reads them. head may be NULL. */
void agent_head_take_jobs(struct agent_head *head, const struct gs_job_accounts *accounts);

/* They are read no more: those that run get a last report. accounts may be NULL. */
void agent_head_end_jobs(struct agent_head *head, const struct gs_job_accounts *accounts);

struct agent_head_stats {
	bool has_reports;                   /* reports of jobs are delivered, too */
	struct agent_report_stats reports;  /* then */
	bool connected, spool_failed;       /* now; its disk is not used */
	uint64_t connects, samples, failed; /* failed: samples that could not be made or kept */
	/* As in struct gs_uplink_stats. */
	uint64_t acked_batches, sent_bytes, waiting_samples, waiting_bytes, lost_samples;
	char trouble[256]; /* why it is not connected; "" nothing */
};

/* Any thread. */
void agent_head_stats(struct agent_head *head, struct agent_head_stats *ret_stats);

#endif
