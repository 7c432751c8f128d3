/* Alert rules over what was read. */
#ifndef GS_COMMANDS_AGENT_AGENT_ALERT_H
#define GS_COMMANDS_AGENT_AGENT_ALERT_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/alert/alert.h"
#include "commands/agent/agent_state.h"

/* *ret stays NULL when the configuration has no rules. before (may be NULL): of the configuration
 * that this one follows; what fires goes on. */
int agent_alert_open(const struct agent_conf *conf, const struct agent_alert *before,
		     struct agent_alert **ret, struct gs_err *err);
void agent_alert_close(struct agent_alert **alert);

/* When to look again, monotonic; UINT64_MAX without rules. */
uint64_t agent_alert_next(const struct agent_alert *alert);

/* Look at what was read last, if it is time. The main thread's; holds the lock only to copy. */
void agent_alert_poll(struct agent_state *state, uint64_t now_ns);

/* The caller holds the lock. */
void agent_alert_metrics(struct gs_metrics *p, const struct agent_alert *alert);

/* What fires; the main thread's. alert may be NULL. */
void agent_alert_firing(const struct agent_alert *alert, gs_alert_sink_fn fn, void *ctx);

#endif
