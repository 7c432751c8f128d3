/*
 * What was read last. The main thread reads the GPUs when a group of values is due, and handles
 * signals; the HTTP server's thread renders. Between them stands struct agent_state with its lock.
 */
#ifndef GS_COMMANDS_AGENT_AGENT_STATE_H
#define GS_COMMANDS_AGENT_AGENT_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_schedule.h"
#include "net/http/http.h"
#include "commands/agent_findings/agent_logs.h"
#include "output/metrics/metrics.h"
#include "sources/gpu/gpu.h"

struct agent_alert;
struct agent_devices;
struct agent_findings;
struct agent_gpu;
struct agent_head;
struct agent_jobs;
struct agent_recorder;
struct agent_traffic;

#define AGENT_XIDS_MAX 1024 /* pairs of GPU and code */

struct agent_state {
	pthread_mutex_t lock;           /* of what follows */
	struct gs_gpu_snapshot *latest; /* owned; groups not read keep their last reading */
	struct gs_metrics_xid *xids;    /* owned */
	size_t n_xids;
	uint64_t xids_dropped;           /* XIDs for which there was no room */
	struct agent_logs logs;          /* it has a lock of its own, below this one */
	struct agent_conf conf;          /* as of the last reload */
	struct agent_schedule schedule;  /* which groups are due when */
	uint64_t samples, empty_samples; /* readings; those without any GPU */
	uint64_t sample_ns;              /* of the last reading */
	uint64_t sampled_ns;             /* monotonic: when it ended; 0 none yet */
	/* Answers; how long the last one took; processes left out. */
	uint64_t scrapes, scrape_ns, processes_dropped;
	uint64_t reloads_ok, reloads_failed; /* so far */
	bool last_reload_ok;                 /* or there was none */
	int64_t started_wall_ns;
	struct agent_devices *devices;   /* lent; NULL: not kept. Changed under the lock */
	struct agent_jobs *jobs;         /* lent; NULL: not read. Changed under the lock */
	struct agent_gpu *process_gpu;   /* lent; what requests trace */
	struct agent_findings *findings; /* lent; NULL: they are off */
	struct agent_recorder *recorder; /* lent; NULL: no jobs are recorded */
	struct agent_traffic *traffic;   /* owned by the main thread; NULL: it is not counted */
	struct agent_head *head;         /* lent; NULL: delivers to none */
	struct gs_mysql *mysql;          /* owned by the main thread; NULL: writes to none */
	struct gs_http *http;            /* lent */
	/* What readings cost, by call, by part. */
	struct gs_gpu_cost call_cost[GS_GPU_COSTS_MAX], part_cost[GS_GPU_COSTS_MAX];
	size_t n_call_costs, n_part_costs;
	struct gs_push_set *push;  /* lent; NULL: nothing is pushed. Changed under the lock */
	struct agent_alert *alert; /* owned by the main thread, which alone changes the pointer */
};

/* 0 or -ENOMEM; nothing is to be freed then. What is lent to it stays with its owners. */
int agent_state_init(struct agent_state *state, const struct agent_conf *conf);
void agent_state_fini(struct agent_state *state);

/* Put a fresh reading of these groups in place of the last; takes it over. The caller holds no
 * lock. gpu: where its cost is counted, NULL: nowhere. */
void agent_state_put(struct agent_state *state, struct gs_gpu_snapshot **snapshot, unsigned groups,
		     struct gs_gpu *gpu);

/* Values of groups that were not read come from the snapshot before. 0 or -ENOMEM. */
int agent_merge(struct gs_gpu_snapshot *fresh, const struct gs_gpu_snapshot *before,
		unsigned groups);

#endif
