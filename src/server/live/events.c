/* What happens, sent as it happens: server-sent events for pages. */
#include <string.h>

#include "core/base/clock.h"
#include "server/live/live_int.h"

#define TOPIC 1u

/* The head of one event; one line of JSON follows. */
static void begin_event(struct gs_buf *b, const char *name)
{
	gs_buf_reset(b);
	(void)gs_buf_printf(b, "event: %s\ndata: ", name);
}

static void put_hello(struct gs_buf *b)
{
	(void)gs_buf_puts(b,
			  "retry: 2000\nevent: hello\ndata: {\"version\":\"" GS_VERSION "\"}\n\n");
}

LIVE_HANDLER(live_events)
{
	reply->type = "text/event-stream";
	reply->topics = TOPIC;
	put_hello(&reply->body);
}

/* How the cluster is: small, however large it is. Pages ask for what they show when it changed. */
static void put_state(const struct gs_live *a, struct gs_buf *b, const struct gs_live_snapshot *l)
{
	struct gs_live_settings settings;

	live_settings(a, &settings);
	(void)gs_buf_puts(b, "{"); /* after "data: " */
	j_time(b, "time", (int64_t)gs_clock_wall_ns());
	j_u64(b, "version", gs_registry_view_version(l->view));
	j_u64(b, "nodes", l->n_nodes);
	j_u64(b, "healthy_nodes", l->n_healthy);
	j_u64(b, "gpus", l->all.n_gpus);
	j_open(b, "states", '{');
	for (unsigned i = 0; i < GS_LIVE_STATES; i++)
		j_u64(b, gs_live_state_name(i), l->all.state[i]);
	j_close(b, '}');
	j_u64(b, "active_sessions", settings.n_sessions);
	j_u64(b, "sessions_version", settings.sessions);
	j_close(b, '}');
}

void live_publish(struct gs_live *a, struct gs_http *http)
{
	struct gs_live_snapshot *l;
	struct gs_buf b = GS_BUF_INIT(65536);

	l = gs_live_take_snapshot(a);
	if (!l)
		return;
	begin_event(&b, "state");
	put_state(a, &b, l);
	gs_live_snapshot_unref(&l);
	if (gs_buf_puts(&b, "\n\n") == 0)
		(void)gs_http_publish(http, TOPIC, (const char *)b.data, b.bytes);
	gs_buf_fini(&b);
}
