/* The cluster, its nodes, GPUs and processes as they are now. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "server/live/live_int.h"
#include "server/live/process.h"
#include "core/base/clock.h"

/* --- overview --- */

static void put_sums(struct gs_buf *b, const struct gs_live_sums *s)
{
	j_u64(b, "gpus", s->n_gpus);
	j_open(b, "states", '{');
	for (unsigned i = 0; i < GS_LIVE_STATES; i++)
		j_u64(b, gs_live_state_name(i), s->state[i]);
	j_close(b, '}');
	j_double(b, "power_watts", s->n_power ? s->power : NAN);
	j_double(b, "utilization_ratio", s->n_util ? s->util / (double)s->n_util : NAN);
	j_double(b, "memory_used_bytes", s->total > 0 ? s->used : NAN);
	j_double(b, "memory_total_bytes", s->total > 0 ? s->total : NAN);
}

LIVE_LOOK(live_overview)
{
	const struct gs_live *a = ctx;
	struct gs_buf *b = gs_live_json(reply);
	struct gs_live_settings settings;

	live_settings(a, &settings);
	j_open(b, NULL, '{');
	j_time(b, "time", (int64_t)gs_clock_wall_ns());
	j_text(b, "version", GS_VERSION);
	j_text(b, "role", a->o.role);
	j_text(b, "grpc_address", a->o.grpc_address ? a->o.grpc_address : "");
	j_bool(b, "may_control", q->may_control && a->o.has_control);
	j_u64(b, "nodes", l->n_nodes);
	j_u64(b, "healthy_nodes", l->n_healthy);
	put_sums(b, &l->all);
	j_u64(b, "active_sessions", settings.n_sessions);
	live_put_facts(a, b);
	j_close(b, '}');
}

/* --- nodes --- */

static void put_node(struct gs_buf *b, const struct gs_live_snapshot *l, size_t at)
{
	const struct gs_registry_node *n = gs_registry_view_at(l->view, at);
	struct gs_live_sums s;
	char id[160];

	gs_live_client_id(n, id, sizeof(id));
	gs_live_snapshot_sums(l, at, &s);
	j_i64(b, "id", n->id);
	j_text(b, "name", id);
	j_text(b, "hostname", n->hostname);
	j_text(b, "machine_id", n->machine_id);
	j_text(b, "address", n->address);
	j_text(b, "version", n->version);
	j_bool(b, "healthy", n->healthy);
	j_bool(b, "connected", n->n_connections > 0);
	j_time(b, "last_sample", n->last_wall_ns);
	j_u64(b, "samples", n->n_samples);
	j_u64(b, "lost_samples", n->lost_samples);
	j_u64(b, "missed_samples", n->missed_samples);
	if (n->clock_known) {
		j_double(b, "clock_offset_seconds", (double)n->clock_offset_ns / 1e9);
		j_double(b, "clock_uncertain_seconds", (double)n->clock_uncertain_ns / 1e9);
	} else {
		j_null(b, "clock_offset_seconds");
		j_null(b, "clock_uncertain_seconds");
	}
	put_sums(b, &s);
	if (n->latest) {
		const struct gs_host_sample *h = &n->latest->host->sample;

		j_text(b, "gpu_state", gs_gpu_state_name(n->latest->gpu->state));
		j_text(b, "gpu_state_text", n->latest->gpu->state_text);
		j_double(b, "cpu_ratio", h->cpu_ratio >= 0 ? h->cpu_ratio : NAN);
		j_double(b, "host_memory_used_bytes",
			 h->mem_used_bytes >= 0 ? (double)h->mem_used_bytes : NAN);
		j_double(b, "host_memory_total_bytes",
			 h->mem_total_bytes >= 0 ? (double)h->mem_total_bytes : NAN);
	}
}

LIVE_LOOK(live_nodes)
{
	size_t limit = gs_live_limit(q, reply), at = 0;
	struct gs_buf *b = &reply->body;
	double after = 0;

	if (!limit || gs_live_number(q, reply, "after", 0, 9e15, &after) < 0)
		return;
	while (at < l->n_nodes && (double)gs_registry_view_at(l->view, at)->id <= after)
		at++;
	j_open(gs_live_json(reply), NULL, '{');
	j_u64(b, "total", l->n_nodes);
	j_open(b, "nodes", '[');
	for (size_t n = 0; n < limit && at < l->n_nodes; n++, at++) {
		j_open(b, NULL, '{');
		put_node(b, l, at);
		j_close(b, '}');
	}
	j_close(b, ']');
	if (at > 0 && at < l->n_nodes)
		j_i64(b, "next", gs_registry_view_at(l->view, at - 1)->id);
	else
		j_null(b, "next");
	j_close(b, '}');
}

/* Why a GPU is in its state, since when, and what to do. */
static void put_health(struct gs_buf *b, const struct gs_registry_node *n, uint32_t i)
{
	const struct gs_gpu_snapshot *g = n->latest->gpu;
	char text[GS_GPU_HEALTH_TEXT_BYTES], reason[GS_GPU_HEALTH_TEXT_BYTES + 40];
	struct gs_gpu_health h;

	gs_gpu_health_judge(g, i, &h);
	/* Of a node that is silent its values are of when it was last heard of. */
	if (!n->healthy && h.state != GS_GPU_HEALTH_FAILING)
		h = (struct gs_gpu_health){.condition = GS_GPU_CONDITION_NONE};
	gs_gpu_health_text(g, i, h.condition, text);
	snprintf(reason, sizeof(reason), "%s%s%s", text, text[0] && !n->healthy ? "; " : "",
		 n->healthy         ? ""
		 : n->n_connections ? "its node is silent"
				    : "its node is not connected");
	if (reason[0])
		j_text(b, "reason", reason);
	if (h.condition == GS_GPU_CONDITION_NONE)
		return;
	j_text(b, "condition", gs_gpu_condition_key(h.condition));
	j_text(b, "severity", gs_gpu_severity_name(h.severity));
	if (h.since_ns && h.since_ns <= g->time_ns)
		j_time(b, "since", n->latest->wall_ns - (int64_t)(g->time_ns - h.since_ns));
	j_text(b, "advice", gs_gpu_condition_advice(h.condition));
}

static void put_gpu(struct gs_buf *b, const struct gs_live_snapshot *l, size_t at, uint32_t i)
{
	const struct gs_registry_node *n = gs_registry_view_at(l->view, at);
	const struct gs_gpu_info *g = &n->latest->gpu->info[i];
	const struct gs_gpu_sample *s = &n->latest->gpu->sample[i];
	enum gs_live_state state = gs_live_snapshot_state(l, at, i);
	char id[160];

	gs_live_client_id(n, id, sizeof(id));
	j_i64(b, "node", n->id);
	j_text(b, "node_name", id);
	j_u64(b, "gpu", i);
	j_u64(b, "index", g->index);
	j_text(b, "uuid", g->uuid);
	j_text(b, "name", g->name);
	j_text(b, "state", gs_live_state_name(state));
	put_health(b, n, i);
	j_double(b, "utilization_ratio", gs_gpu_value(s, GS_GPU_UTIL));
	j_double(b, "memory_used_ratio", gs_gpu_memory_ratio(s));
	j_double(b, "memory_used_bytes", gs_gpu_value(s, GS_GPU_MEM_USED));
	j_double(b, "memory_total_bytes", gs_gpu_value(s, GS_GPU_MEM_TOTAL));
	j_double(b, "power_watts", gs_gpu_value(s, GS_GPU_POWER));
	j_double(b, "power_limit_watts", gs_gpu_value(s, GS_GPU_POWER_LIMIT));
	j_double(b, "temperature_celsius", gs_gpu_value(s, GS_GPU_TEMP_GPU));
	j_double(b, "sm_clock_hertz", gs_gpu_value(s, GS_GPU_CLOCK_SM));
	j_double(b, "throttle_reasons_mask", gs_gpu_value(s, GS_GPU_THROTTLE_REASONS));
}

static void put_details(struct gs_buf *b, const struct gs_registry_node *n, uint32_t i)
{
	const struct gs_gpu_info *g = &n->latest->gpu->info[i];
	const struct gs_gpu_sample *s = &n->latest->gpu->sample[i];

	j_text(b, "pci_bus_id", g->pci_bus_id);
	j_text(b, "driver_version", g->driver_version);
	j_text(b, "cuda_version", g->cuda_version);
	j_text(b, "architecture", g->architecture);
	j_open(b, "values", '{');
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		if (s->why[f] == GS_GPU_REASON_OK)
			j_double(b, gs_gpu_field_info(f)->key, s->value[f]);
	j_close(b, '}');
	j_open(b, "missing", '{'); /* why a value is not there */
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		if (s->why[f] != GS_GPU_REASON_OK && s->why[f] != GS_GPU_REASON_NOT_READ)
			j_text(b, gs_gpu_field_info(f)->key, gs_gpu_reason_name(s->why[f]));
	j_close(b, '}');
}

/* A number of the path; 0: it is none. */
static int64_t id_of(const char *text)
{
	return text[0] && strspn(text, "0123456789") == strlen(text) && strlen(text) < 18
		       ? strtoll(text, NULL, 10)
		       : 0;
}

LIVE_LOOK(live_node)
{
	const struct gs_registry_node *n = gs_registry_view_find(l->view, id_of(q->param[0]));
	struct gs_buf *b = &reply->body;
	size_t at;

	if (!n) {
		gs_http_error(reply, 404, "no node has this number");
		return;
	}
	at = (size_t)(n - gs_registry_view_at(l->view, 0));
	j_open(gs_live_json(reply), NULL, '{');
	put_node(b, l, at);
	j_open(b, "gpu_list", '[');
	for (uint32_t i = 0; i < gs_live_snapshot_gpus(l, at); i++) {
		j_open(b, NULL, '{');
		put_gpu(b, l, at, i);
		put_details(b, n, i);
		j_close(b, '}');
	}
	j_close(b, ']');
	j_close(b, '}');
}

/* --- GPUs --- */

static bool name_has(const struct gs_registry_node *n, const char *text)
{
	char id[160];

	if (!text[0] || strcasestr(n->hostname, text) || strcasestr(n->instance, text))
		return true;
	gs_live_client_id(n, id, sizeof(id)); /* as it is called where people see it */
	return strcasestr(id, text);
}

struct gpu_choice {
	char sort[16], state[16], name[128];
};

static bool is_chosen(const struct gs_live_snapshot *l, const struct gpu_choice *c,
		      const struct gs_live_snapshot_gpu *g)
{
	const struct gs_registry_node *n = gs_registry_view_at(l->view, g->node);

	return (!c->state[0] || strcmp(c->state, gs_live_state_name(g->state)) == 0) &&
	       (name_has(n, c->name) || strcasestr(n->latest->gpu->info[g->gpu].uuid, c->name));
}

LIVE_LOOK(live_gpus)
{
	size_t limit = gs_live_limit(q, reply), n = 0, put = 0;
	struct gs_buf *b = &reply->body;
	struct gpu_choice c;
	double after = 0;

	if (!limit || gs_live_number(q, reply, "after", 0, 1e9, &after) < 0)
		return;
	if (gs_http_query(q, "sort", c.sort, sizeof(c.sort)) < 0 ||
	    (c.sort[0] && strcmp(c.sort, "worst") != 0) ||
	    gs_http_query(q, "state", c.state, sizeof(c.state)) < 0 ||
	    gs_http_query(q, "q", c.name, sizeof(c.name)) < 0) {
		gs_http_error(
			reply, 400,
			"sort is \"worst\"; state is ok, idle, degraded, throttled, unreachable or failing; q is a part of a node's name");
		return;
	}
	j_open(gs_live_json(reply), NULL, '{');
	j_open(b, "gpus", '[');
	for (size_t i = 0; i < l->all.n_gpus; i++) {
		const struct gs_live_snapshot_gpu *g = &l->gpu[c.sort[0] ? l->worst[i] : i];

		if (!is_chosen(l, &c, g) || n++ < (size_t)after || put == limit)
			continue;
		j_open(b, NULL, '{');
		put_gpu(b, l, g->node, g->gpu);
		j_close(b, '}');
		put++;
	}
	j_close(b, ']');
	gs_live_put_next(b, n, (uint64_t)after + put);
	j_close(b, '}');
}

/* --- processes --- */

static void put_process(struct gs_buf *b, const struct gs_registry_node *n,
			const struct gs_gpu_process *p, enum gs_http_see see)
{
	const struct gs_host_process *h = gs_host_process_of(n->latest->host, p->pid);
	char id[160];

	gs_live_client_id(n, id, sizeof(id));
	j_open(b, NULL, '{');
	j_i64(b, "node", n->id);
	j_text(b, "node_name", id);
	j_u64(b, "gpu", p->gpu);
	j_u64(b, "pid", p->pid);
	j_text(b, "name", p->comm);
	j_text(b, "job", live_job_of(n, p));
	j_text(b, "container", p->container);
	gs_live_put_owner(b, see, p->user, p->cmdline);
	j_double(b, "memory_used_bytes", p->used_bytes >= 0 ? (double)p->used_bytes : NAN);
	j_double(b, "sm_ratio", p->sm_ratio >= 0 ? p->sm_ratio : NAN);
	j_double(b, "cpu_ratio", h && h->cpu_ratio >= 0 ? h->cpu_ratio : NAN);
	j_double(b, "host_memory_bytes", h && h->rss_bytes >= 0 ? (double)h->rss_bytes : NAN);
	j_close(b, '}');
}

LIVE_LOOK(live_processes)
{
	size_t limit = gs_live_limit(q, reply), n = 0, put = 0;
	double after = 0, node = 0;
	struct gs_buf *b = &reply->body;
	char job[64];

	if (!limit || gs_live_number(q, reply, "after", 0, 1e9, &after) < 0 ||
	    gs_live_number(q, reply, "node", 1, 9e15, &node) < 0)
		return;
	if (gs_http_query(q, "job", job, sizeof(job)) < 0) {
		gs_http_error(reply, 400, "job is the name of a job");
		return;
	}
	j_open(gs_live_json(reply), NULL, '{');
	j_open(b, "processes", '[');
	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_registry_node *at = gs_registry_view_at(l->view, i);

		if (!at->latest || (node > 0 && (double)at->id != node))
			continue;
		for (uint32_t p = 0; p < at->latest->gpu->n_processes; p++) {
			const struct gs_gpu_process *process = &at->latest->gpu->process[p];

			if (process->ended || process->gpu >= at->latest->gpu->n_gpus ||
			    (job[0] && strcmp(live_job_of(at, process), job) != 0))
				continue;
			if (n++ < (size_t)after || put == limit)
				continue;
			put_process(b, at, process, q->see);
			put++;
		}
	}
	j_close(b, ']');
	gs_live_put_next(b, n, (uint64_t)after + put);
	j_close(b, '}');
}
