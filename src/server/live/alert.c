/* What is wrong, worst first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/live_int.h"

struct alerts {
	struct gs_buf *b;
	size_t n, limit;
};

static void add_alert(struct alerts *to, const char *severity, const struct gs_registry_node *n,
		      int gpu, const char *text)
{
	char id[160];

	if (to->n++ >= to->limit)
		return;
	j_open(to->b, NULL, '{');
	j_text(to->b, "severity", severity);
	if (n) {
		gs_live_client_id(n, id, sizeof(id));
		j_i64(to->b, "node", n->id);
		j_text(to->b, "node_name", id);
	} else {
		j_null(to->b, "node");
		j_text(to->b, "node_name", "");
	}
	if (gpu >= 0)
		j_i64(to->b, "gpu", gpu);
	else
		j_null(to->b, "gpu");
	j_text(to->b, "text", text);
	j_close(to->b, '}');
}

static void alerts_of(struct alerts *to, const struct gs_live_snapshot *l, size_t at, unsigned turn)
{
	const struct gs_registry_node *n = gs_registry_view_at(l->view, at);
	char text[160];

	for (uint32_t i = 0; i < gs_live_snapshot_gpus(l, at); i++) {
		enum gs_live_state state = gs_live_snapshot_state(l, at, i);
		const char *failure = state == GS_LIVE_FAILING ? live_failure_of(n, i) : NULL;

		if (turn == 0 && failure) {
			if (live_event_is_of(n, &n->latest->gpu->info[i]))
				snprintf(text, sizeof(text), "XID %u: %s", n->last_gpu_event.xid,
					 failure);
			else
				snprintf(text, sizeof(text), "%s", failure);
			add_alert(to, "critical", n, (int)i, text);
		}
		if (turn == 1 && state == GS_LIVE_THROTTLED)
			add_alert(to, "warning", n, (int)i, "its clocks are held down");
	}
	if (turn == 0 && !n->healthy)
		add_alert(to, "critical", n, -1,
			  n->n_connections ? "it is silent" : "it is not connected");
	if (turn == 1 && n->latest && n->latest->gpu->state_text[0])
		add_alert(to, "warning", n, -1, n->latest->gpu->state_text);
	if (turn == 1 && n->lost_samples) {
		snprintf(text, sizeof(text), "%llu samples were lost before they reached the head",
			 (unsigned long long)n->lost_samples);
		add_alert(to, "warning", n, -1, text);
	}
	if (turn == 1 && n->clock_known && llabs(n->clock_offset_ns) > 1000000000ll) {
		snprintf(text, sizeof(text), "its clock is %.1f s %s the head's",
			 fabs((double)n->clock_offset_ns) / 1e9,
			 n->clock_offset_ns > 0 ? "behind" : "ahead of");
		add_alert(to, "warning", n, -1, text);
	}
}

/* What the server itself has to say. */
static void alerts_of_server(struct alerts *to, const struct gs_live *a,
			     const struct gs_live_snapshot *l)
{
	GS_FREE struct gs_live_alert *list = calloc(GS_LIVE_ALERTS_MAX, sizeof(*list));
	size_t n = list && a->o.alerts ? a->o.alerts(a->o.ctx, list) : 0;

	for (size_t i = 0; i < n; i++)
		if (list[i].of_server || l->n_nodes)
			add_alert(to, list[i].critical ? "critical" : "warning",
				  list[i].of_server ? NULL : gs_registry_view_at(l->view, 0),
				  list[i].gpu, list[i].text);
}

static void add_stragglers(struct alerts *to, const struct gs_live *live,
			   const struct gs_live_snapshot *l)
{
	size_t n;
	GS_FREE struct live_job *jobs = live_jobs_now(live, l, &n);
	char text[160];

	for (size_t i = 0; jobs && i < n; i++) {
		if (!jobs[i].has_straggler)
			continue;
		snprintf(text, sizeof(text),
			 "%.0f %% busy over the last minute, the GPUs of its job %s %.0f %% "
			 "(median)",
			 jobs[i].straggler_mean * 100, jobs[i].job, jobs[i].median_mean * 100);
		add_alert(to, "warning", jobs[i].node, (int)jobs[i].gpu, text);
	}
}

LIVE_LOOK(live_alerts)
{
	struct alerts to = {.b = &reply->body, .limit = gs_live_limit(q, reply)};

	if (!to.limit)
		return;
	j_open(gs_live_json(reply), NULL, '{');
	j_open(to.b, "alerts", '[');
	alerts_of_server(&to, ctx, l);
	for (unsigned turn = 0; turn < 2; turn++)
		for (size_t i = 0; i < l->n_nodes; i++)
			alerts_of(&to, l, i, turn);
	add_stragglers(&to, ctx, l);
	j_close(to.b, ']');
	j_u64(to.b, "total", to.n);
	j_close(to.b, '}');
}
