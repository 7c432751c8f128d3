/* What the agent reads, for a database: a sample of each reading of the GPUs that is due. */
#include "commands/agent/agent_mysql.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands/agent/agent_jobs.h"
#include "commands/common/cli.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/near/near.h"

#define DRAIN_NS     5000000000ull
#define SCHEMA_BYTES 65536

static void print_message(void *ctx, const char *text)
{
	(void)ctx;
	gs_cli_print_message("agent: mysql: %s", text);
}

int agent_mysql_start(struct agent_state *state, struct gs_err *err)
{
	const struct gs_mysql_options o = {
		.size = sizeof(o), .conf = &state->conf.mysql, .on_message = print_message};
	struct gs_mysql *m = NULL;
	int r = gs_mysql_start(&o, &m, err);

	pthread_mutex_lock(&state->lock);
	state->mysql = m;
	pthread_mutex_unlock(&state->lock);
	return r;
}

void agent_mysql_stop(struct agent_state *state)
{
	uint64_t left = gs_mysql_stop(&state->mysql, DRAIN_NS);

	if (left)
		gs_log(GS_LOG_WARNING, GS_LOG_HTTP, "agent: %llu samples not in the database yet",
		       (unsigned long long)left);
}

void agent_mysql_take(struct agent_state *state, struct agent_jobs *jobs)
{
	GS_CLEANUP(gs_traffic_growth_fini) struct gs_traffic_growth traffic = {0};
	int r;

	if (!state->mysql || !gs_mysql_take_turn(state->mysql))
		return;
	/* Only this thread changes what was read last. */
	r = gs_mysql_put(state->mysql, state->latest, jobs ? agent_jobs_copy(jobs) : NULL,
			 agent_traffic_grown(state->traffic, &traffic) ? &traffic : NULL);
	if (r < 0)
		gs_log(GS_LOG_WARNING, GS_LOG_HTTP,
		       "agent: cannot queue a sample for the database: %s", strerror(-r));
}

int agent_mysql_print_schema(const char *schema)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(SCHEMA_BYTES);
	static const char *const schemas[] = {"gpuscope", "eacgm", "both"};
	int r = gs_mysql_print_schema(schema, &text);
	struct gs_near near;
	char meant[40];

	if (r == -EINVAL) {
		gs_near_init(&near, schema);
		for (size_t i = 0; i < GS_ARRAY_LEN(schemas); i++)
			gs_near_add(&near, schemas[i]);
		gs_cli_print_message(
			"agent: --print-schema=%s: the schemas are gpuscope, eacgm, both%s", schema,
			gs_near_text(&near, meant, sizeof(meant)));
		return GS_EXIT_USAGE;
	}
	if (r < 0 || fwrite(text.data, 1, text.bytes, stdout) != text.bytes || fflush(stdout) != 0)
		return GS_EXIT_FAILED;
	return GS_EXIT_DONE;
}
