/*
 * To engines of others (output/metrics_push): metrics, which are what /metrics shows, by remote write
 * and OTLP, the latter also by OpenTelemetry's own names; and XID errors and findings as logs.
 */
#include <string.h>

#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_push.h"
#include "commands/agent/agent_routes.h"
#include "commands/agent/agent_state.h"
#include "commands/common/cli.h"
#include "core/base/mem.h"

static int render_metrics(void *ctx, enum gs_push_protocol protocol, unsigned part,
			  struct gs_metrics *out)
{
	(void)part; /* in one piece */
	agent_put_metrics(ctx, out, protocol == GS_PUSH_OTLP ? GS_METRICS_HARDWARE : 0);
	return 0;
}

static int render_logs(void *ctx, struct push_message *out)
{
	struct agent_state *s = ctx;

	return agent_findings_logs_put(&s->logs, s->findings, out);
}

static void log_push(void *ctx, const char *text)
{
	(void)ctx;
	gs_cli_print_message("agent: push: %s", text);
}

int agent_push_open(const struct agent_conf *conf, struct agent_state *state,
		    struct gs_push_set **ret, struct gs_err *err)
{
	const struct gs_push_set_options o = {
		.size = sizeof(o),
		.conf = conf->push,
		.hostname = conf->metrics.hostname,
		.render = render_metrics,
		.render_logs = render_logs,
		.on_message = log_push,
		.ctx = state,
	};

	return gs_push_set_open(&o, ret, err);
}

bool agent_push_same(const struct agent_conf *a, const struct agent_conf *b)
{
	return gs_push_conf_same(a->push, b->push) &&
	       strcmp(a->metrics.hostname, b->metrics.hostname) == 0;
}

bool agent_push_needs_http_client(const struct agent_conf *c)
{
	bool alerts =
		c->alerts.enabled && (c->alerts.webhook.url[0] ||
				      (c->alerts.email[0].enabled && c->alerts.email[0].server[0]));

	for (size_t i = 0; i < GS_ARRAY_LEN(c->push); i++)
		alerts |= c->push[i].url[0] != 0;
	return alerts;
}
