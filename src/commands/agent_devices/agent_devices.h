/* NVIDIA's devices stay allowed, for the agent and for jobs: agent_devices.c. */
#ifndef GS_COMMANDS_AGENT_DEVICES_AGENT_DEVICES_H
#define GS_COMMANDS_AGENT_DEVICES_AGENT_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "output/metrics/metrics.h"

enum agent_devices_grant { AGENT_DEVICES_NONE = 0, AGENT_DEVICES_SELF, AGENT_DEVICES_JOBS };

struct agent_devices_conf {
	int grant; /* enum agent_devices_grant */
	uint64_t interval_ns;
	int64_t retries;     /* an hour */
	char host_root[256]; /* where the root of the host is seen; "" "/" */
};

struct agent_devices;

/* Begin to keep them so, in a thread; *ret stays NULL when that is not wanted. */
int agent_devices_start(const struct agent_devices_conf *conf, struct agent_devices **ret,
			struct gs_err *err);
/* The agent's own group is as it was before, unless the rules have been written by others since. */
void agent_devices_stop(struct agent_devices **devices);

/* Whether a reload changes nothing of it. */
bool agent_devices_same(const struct agent_devices_conf *a, const struct agent_devices_conf *b);
void agent_devices_metrics(struct gs_metrics *p, struct agent_devices *devices); /* any thread */
void agent_devices_status(struct agent_devices *devices, struct gs_buf *out);    /* a line */

#endif
