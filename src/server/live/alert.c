/* What is wrong, worst first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/live_int.h"

struct alerts {
	struct gs_buf *b;
	size_t n, limit;
};

/* count: of the GPUs that it is about; gpu: -1 none or several. */
static void alert_put(struct alerts *to, const char *severity, const struct gs_registry_node *n,
		      int gpu, uint32_t count, const char *text, const char *advice)
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
	j_u64(to->b, "gpus", count);
	j_text(to->b, "text", text);
	j_text(to->b, "advice", advice);
	j_close(to->b, '}');
}

static void add_alert(struct alerts *to, const char *severity, const struct gs_registry_node *n,
		      int gpu, const char *text)
{
	alert_put(to, severity, n, gpu, gpu >= 0, text, "");
}

/* The GPUs of a node for which a condition holds: one alert for all of them. */
static void alert_of_condition(struct alerts *to, const struct gs_registry_node *n,
			       enum gs_gpu_condition c, const uint32_t *holds)
{
	const struct gs_gpu_snapshot *g = n->latest->gpu;
	char text[GS_GPU_HEALTH_TEXT_BYTES], line[GS_GPU_HEALTH_TEXT_BYTES + 64];
	uint32_t count = 0, first = 0;

	for (uint32_t i = g->n_gpus; i-- > 0;)
		if (holds[i] >> c & 1) {
			count++;
			first = i;
		}
	if (!count)
		return;
	gs_gpu_health_text(g, first, c, text);
	if (count > 1)
		snprintf(line, sizeof(line), "%u GPUs: %s (GPU %u)", count, text,
			 g->info[first].index);
	else
		snprintf(line, sizeof(line), "%s", text);
	alert_put(to, gs_gpu_severity_name(gs_gpu_condition_severity(c)), n,
		  count > 1 ? -1 : (int)first, count, line, gs_gpu_condition_advice(c));
}

static void alerts_of_gpus(struct alerts *to, const struct gs_live_snapshot *l, size_t at,
			   enum gs_gpu_severity severity)
{
	const struct gs_registry_node *n = gs_registry_view_at(l->view, at);
	uint32_t n_gpus = gs_live_snapshot_gpus(l, at);
	GS_FREE uint32_t *holds = n_gpus ? calloc(n_gpus, sizeof(*holds)) : NULL;

	for (uint32_t i = 0; holds && i < n_gpus; i++) {
		struct gs_gpu_health h;

		gs_gpu_health_judge(n->latest->gpu, i, &h);
		/* Of a node that is silent only what fails is still said. */
		if (n->healthy || h.state == GS_GPU_HEALTH_FAILING)
			holds[i] = h.holds;
	}
	for (unsigned c = 0; holds && c < GS_GPU_CONDITION_COUNT; c++)
		if (gs_gpu_condition_severity((enum gs_gpu_condition)c) == severity)
			alert_of_condition(to, n, (enum gs_gpu_condition)c, holds);
}

static void alerts_of(struct alerts *to, const struct gs_live_snapshot *l, size_t at, unsigned turn)
{
	static const enum gs_gpu_severity severities[] = {
		GS_GPU_SEVERITY_CRITICAL, GS_GPU_SEVERITY_WARNING, GS_GPU_SEVERITY_INFO};
	const struct gs_registry_node *n = gs_registry_view_at(l->view, at);
	char text[160];

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
	if (n->latest)
		alerts_of_gpus(to, l, at, severities[turn]);
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
	for (unsigned turn = 0; turn < 3; turn++)
		for (size_t i = 0; i < l->n_nodes; i++)
			alerts_of(&to, l, i, turn);
	add_stragglers(&to, ctx, l);
	j_close(to.b, ']');
	j_u64(to.b, "total", to.n);
	j_close(to.b, '}');
}
