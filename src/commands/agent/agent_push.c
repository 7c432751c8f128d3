/* Metrics to engines of others: what /metrics shows, by remote write and OTLP (output/metrics_push). */
#include <string.h>

#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_push.h"
#include "commands/agent/agent_routes.h"
#include "commands/agent/agent_state.h"
#include "commands/common/cli.h"

static int render_metrics(void *ctx, enum gs_push_protocol protocol, unsigned part,
			  struct gs_metrics *out)
{
	(void)protocol, (void)part; /* the same for all, in one piece */
	agent_put_metrics(ctx, out);
	return 0;
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
