/*
 * What the agent sends as log records (output/metrics_push): XID errors as they come, which are kept
 * until they are taken, and findings as they change. One thread puts, one takes.
 */
#ifndef GS_COMMANDS_AGENT_FINDINGS_AGENT_LOGS_H
#define GS_COMMANDS_AGENT_FINDINGS_AGENT_LOGS_H

#include <pthread.h>

#include "model/node/gpu.h"
#include "output/metrics_push/push.h"

#define AGENT_LOGS_MAX 256 /* XIDs that wait; more take the place of the oldest */

struct agent_findings;

struct agent_logs {
	pthread_mutex_t lock; /* of what follows, up to n_taken */
	struct {
		struct gs_gpu_event event;
		int64_t wall_ns; /* of it */
	} xid[AGENT_LOGS_MAX];   /* by number, from 0 on */
	uint64_t n_put, n_taken;
	_Atomic uint64_t n_lost;
	uint64_t finding; /* number of the last one that was taken; of who takes */
};

/* Empties it; nothing is to be freed at its end. */
void agent_findings_logs_init(struct agent_logs *logs);

/* An XID has come: copied. Any thread. */
void agent_findings_logs_add(struct agent_logs *logs, const struct gs_gpu_event *event);

/* What is new since the last call; findings may be NULL. 0, -ENOMEM or -ENOBUFS. */
int agent_findings_logs_put(struct agent_logs *logs, struct agent_findings *findings,
			    struct push_message *out);

/* XIDs given up for lack of room. Any thread. */
uint64_t agent_findings_logs_lost(const struct agent_logs *logs);

#endif
