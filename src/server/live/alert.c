/* What is wrong, worst first. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "server/live/live_int.h"

struct alerts {
	struct gs_buf *b;
	size_t n, limit;
};

struct alert {
	const char *severity, *text, *advice;
	const struct gs_registry_node *node; /* NULL: the server's own */
	int gpu;                             /* index in the node's snapshot; -1: none or several */
	uint32_t n_gpus;                     /* that it is about */
	uint64_t mask;    /* of them, by index below 64; its jobs are those on them */
	int64_t since_ns; /* wall clock: when it began; 0 not known */
};

#define JOBS_MOST 4 /* named in one alert */

/* The jobs with processes on the GPUs of an alert: who suffers. */
static void alert_put_jobs(struct gs_buf *b, const struct alert *a)
{
	const char *seen[JOBS_MOST];
	size_t n_seen = 0;

	j_open(b, "jobs", '[');
	for (uint32_t i = 0; a->mask && i < a->node->latest->gpu->n_processes; i++) {
		const struct gs_gpu_process *p = &a->node->latest->gpu->process[i];
		const char *job = live_job_of(a->node, p);
		size_t k = 0;

		if (!job[0] || p->ended || p->gpu >= 64 || !(a->mask >> p->gpu & 1))
			continue;
		while (k < n_seen && strcmp(seen[k], job) != 0)
			k++;
		if (k < n_seen || n_seen == JOBS_MOST)
			continue;
		seen[n_seen++] = job;
		j_text(b, NULL, job);
	}
	j_close(b, ']');
}

static void alert_put(struct alerts *to, const struct alert *a)
{
	const struct gs_registry_node *n = a->node;
	char id[160];

	if (to->n++ >= to->limit)
		return;
	j_open(to->b, NULL, '{');
	j_text(to->b, "severity", a->severity);
	if (n) {
		gs_live_client_id(n, id, sizeof(id));
		j_i64(to->b, "node", n->id);
		j_text(to->b, "node_name", id);
	} else {
		j_null(to->b, "node");
		j_text(to->b, "node_name", "");
	}
	if (a->gpu >= 0)
		j_i64(to->b, "gpu", a->gpu);
	else
		j_null(to->b, "gpu");
	j_u64(to->b, "gpus", a->n_gpus);
	j_text(to->b, "text", a->text);
	j_text(to->b, "advice", a->advice);
	if (a->since_ns)
		j_time(to->b, "since", a->since_ns);
	else
		j_null(to->b, "since");
	alert_put_jobs(to->b, a);
	j_close(to->b, '}');
}

static void add_alert(struct alerts *to, const char *severity, const struct gs_registry_node *n,
		      int gpu, const char *text, int64_t since_ns)
{
	alert_put(to, &(struct alert){.severity = severity,
				      .text = text,
				      .advice = "",
				      .node = n,
				      .gpu = gpu,
				      .n_gpus = gpu >= 0,
				      .since_ns = since_ns,
				      .mask = n && n->latest && gpu >= 0 && gpu < 64 ? 1ull << gpu
										     : 0});
}

/* The GPUs of a node for which a condition holds: one alert for all of them. */
static void alert_of_condition(struct alerts *to, const struct gs_registry_node *n,
			       enum gs_gpu_condition c, const uint32_t *holds)
{
	const struct gs_gpu_snapshot *g = n->latest->gpu;
	char text[GS_GPU_HEALTH_TEXT_BYTES], line[GS_GPU_HEALTH_TEXT_BYTES + 64];
	uint32_t count = 0, first = 0;
	uint64_t mask = 0, since_ns = 0;
	bool began_before = false; /* it was there when the node was first seen */

	for (uint32_t i = g->n_gpus; i-- > 0;)
		if (holds[i] >> c & 1) {
			uint64_t at_ns = g->sample[i].past.since_ns[c];

			count++;
			first = i;
			mask |= i < 64 ? 1ull << i : 0;
			began_before |= g->sample[i].past.from_start >> c & 1;
			if (at_ns && (!since_ns || at_ns < since_ns))
				since_ns = at_ns;
		}
	if (!count)
		return;
	gs_gpu_health_text(g, first, c, text);
	if (count > 1)
		snprintf(line, sizeof(line), "%u GPUs: %s (GPU %u)", count, text,
			 g->info[first].index);
	else
		snprintf(line, sizeof(line), "%s", text);
	alert_put(to,
		  &(struct alert){.severity = gs_gpu_severity_name(gs_gpu_condition_severity(c)),
				  .text = line,
				  .advice = gs_gpu_condition_advice(c),
				  .node = n,
				  .gpu = count > 1 ? -1 : (int)first,
				  .n_gpus = count,
				  .mask = mask,
				  .since_ns = !began_before && since_ns && since_ns <= g->time_ns
						      ? n->latest->wall_ns -
								(int64_t)(g->time_ns - since_ns)
						      : 0});
}

static void alerts_of_gpus(struct alerts *to, const struct gs_live_snapshot *l, size_t at,
			   enum gs_gpu_severity severity)
{
	const struct gs_registry_node *n = gs_registry_view_at(l->view, at);
	uint32_t n_gpus = n->latest ? gs_live_snapshot_gpus(l, at) : 0;
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

_Static_assert(GS_REGISTRY_SILENT_NS == 30000000000ull, "the text of a silent node says 30 s");

/* What is wrong with a whole node. */
static void alerts_of_node(struct alerts *to, const struct gs_live_snapshot *l, size_t at,
			   enum gs_gpu_severity severity)
{
	bool warns = severity == GS_GPU_SEVERITY_WARNING;
	const struct gs_registry_node *n = gs_registry_view_at(l->view, at);
	char text[160];

	if (severity == GS_GPU_SEVERITY_CRITICAL && !n->healthy)
		add_alert(to, "critical", n, -1,
			  n->n_connections ? "no samples for 30 s" : "it is not connected", 0);
	if (warns && n->latest && n->latest->gpu->state_text[0])
		add_alert(to, "warning", n, -1, n->latest->gpu->state_text, 0);
	if (warns && n->lost_samples) {
		snprintf(text, sizeof(text), "%llu samples were lost before they reached the head",
			 (unsigned long long)n->lost_samples);
		add_alert(to, "warning", n, -1, text, 0);
	}
	if (warns && n->clock_known && llabs(n->clock_offset_ns) > 1000000000ll) {
		snprintf(text, sizeof(text), "its clock is %.1f s %s the head's",
			 fabs((double)n->clock_offset_ns) / 1e9,
			 n->clock_offset_ns > 0 ? "behind" : "ahead of");
		add_alert(to, "warning", n, -1, text, 0);
	}
}

/* What the server itself has to say. */
static void alerts_of_server(struct alerts *to, const struct gs_live *a,
			     const struct gs_live_snapshot *l, bool critical)
{
	GS_FREE struct gs_live_alert *list = calloc(GS_LIVE_ALERTS_MAX, sizeof(*list));
	size_t n = list && a->o.alerts ? a->o.alerts(a->o.ctx, list) : 0;

	for (size_t i = 0; i < n; i++)
		if (list[i].critical == critical && (list[i].of_server || l->n_nodes))
			add_alert(to, list[i].critical ? "critical" : "warning",
				  list[i].of_server ? NULL : gs_registry_view_at(l->view, 0),
				  list[i].gpu, list[i].text, list[i].since_wall_ns);
}

/* The job that waits, for which GPU, and what is wrong with that one. */
static void add_stragglers(struct alerts *to, const struct gs_live *live,
			   const struct gs_live_snapshot *l)
{
	size_t n;
	GS_FREE struct live_job *jobs = live_jobs_now(live, l, &n);
	char text[160 + GS_GPU_HEALTH_TEXT_BYTES];

	for (size_t i = 0; jobs && i < n; i++) {
		if (!jobs[i].has_straggler)
			continue;
		snprintf(
			text, sizeof(text),
			"job %s waits for it: %.0f %% busy over the last minute, the job's GPUs %.0f %% (median)%s%s",
			jobs[i].job, jobs[i].straggler_mean * 100, jobs[i].median_mean * 100,
			jobs[i].reason[0] ? "; " : "", jobs[i].reason);
		add_alert(to, "warning", jobs[i].node, (int)jobs[i].gpu, text, 0);
	}
}

/* By severity; of one severity those of the server first, then whole nodes, then jobs that wait for a GPU, then GPUs. */
LIVE_LOOK(live_alerts)
{
	static const enum gs_gpu_severity severities[] = {
		GS_GPU_SEVERITY_CRITICAL, GS_GPU_SEVERITY_WARNING, GS_GPU_SEVERITY_INFO};
	struct alerts to = {.b = &reply->body, .limit = gs_live_limit(q, reply)};

	if (!to.limit)
		return;
	j_open(gs_live_json(reply), NULL, '{');
	j_open(to.b, "alerts", '[');
	for (size_t turn = 0; turn < GS_ARRAY_LEN(severities); turn++) {
		if (severities[turn] != GS_GPU_SEVERITY_INFO)
			alerts_of_server(&to, ctx, l, severities[turn] == GS_GPU_SEVERITY_CRITICAL);
		for (size_t i = 0; i < l->n_nodes; i++)
			alerts_of_node(&to, l, i, severities[turn]);
		if (severities[turn] == GS_GPU_SEVERITY_WARNING)
			add_stragglers(&to, ctx, l);
		for (size_t i = 0; i < l->n_nodes; i++)
			alerts_of_gpus(&to, l, i, severities[turn]);
	}
	j_close(to.b, ']');
	j_u64(to.b, "total", to.n);
	j_close(to.b, '}');
}
