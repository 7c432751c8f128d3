/* Nodes, GPUs, processes and jobs as they are now, and what is wrong with them. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "api/api_look.h"
#include "base/clock.h"

static double memory_ratio(const struct gs_gpu_sample *s)
{
	if (gs_gpu_has(s, GS_GPU_MEM_USED_RATIO))
		return s->value[GS_GPU_MEM_USED_RATIO];
	return api_value(s, GS_GPU_MEM_USED) / api_value(s, GS_GPU_MEM_TOTAL);
}

/* --- overview --- */

static void put_sums(struct gs_buf *b, const struct api_sums *s)
{
	j_u64(b, "gpus", s->n_gpus);
	j_open(b, "states", '{');
	for (unsigned i = 0; i < API_STATES; i++)
		j_u64(b, api_state_name(i), s->state[i]);
	j_close(b, '}');
	j_double(b, "power_watts", s->n_power ? s->power : NAN);
	j_double(b, "utilization_ratio", s->n_util ? s->util / (double)s->n_util : NAN);
	j_double(b, "memory_used_bytes", s->total > 0 ? s->used : NAN);
	j_double(b, "memory_total_bytes", s->total > 0 ? s->total : NAN);
}

API_LOOK(api_overview)
{
	struct gs_buf *b = api_json(reply);
	struct gs_store_session *active = NULL;
	struct gs_head_stats st = {0};
	size_t n_active = 0;

	if (a->o.head) {
		gs_head_stats(a->o.head, &st);
		(void)gs_head_active(a->o.head, &active, &n_active);
	}
	free(active);
	j_open(b, NULL, '{');
	j_time(b, "time", (int64_t)gs_clock_wall_ns());
	j_text(b, "version", GS_VERSION);
	j_text(b, "role", a->o.head ? "head" : "agent");
	j_text(b, "grpc_address", a->o.grpc_address ? a->o.grpc_address : "");
	j_bool(b, "may_control", q->may_control && a->o.head);
	j_u64(b, "nodes", l->n_nodes);
	j_u64(b, "healthy_nodes", l->n_healthy);
	put_sums(b, &l->all);
	j_u64(b, "active_sessions", n_active);
	if (!a->o.head) {
		api_local_put_facts(a, b);
		j_close(b, '}');
		return;
	}
	j_open(b, "head", '{');
	j_u64(b, "batches", st.batches);
	j_u64(b, "samples", st.samples);
	j_u64(b, "waiting_batches", st.waiting_batches);
	j_double(b, "latency_seconds", (double)st.latency_ns / 1e9);
	j_text(b, "trouble", st.trouble);
	j_close(b, '}');
	j_close(b, '}');
}

/* --- nodes --- */

static void put_node(struct gs_buf *b, const struct api_look *l, size_t at)
{
	const struct gs_cluster_node *n = gs_cluster_view_at(l->view, at);
	struct api_sums s;
	char id[160];

	api_client_id(n, id, sizeof(id));
	api_look_sums(l, at, &s);
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

API_LOOK(api_nodes)
{
	size_t limit = api_limit(q, reply), at = 0;
	struct gs_buf *b = &reply->body;
	double after = 0;

	if (!limit || api_number(q, reply, "after", 0, 9e15, &after) < 0)
		return;
	while (at < l->n_nodes && (double)gs_cluster_view_at(l->view, at)->id <= after)
		at++;
	j_open(api_json(reply), NULL, '{');
	j_u64(b, "total", l->n_nodes);
	j_open(b, "nodes", '[');
	for (size_t n = 0; n < limit && at < l->n_nodes; n++, at++) {
		j_open(b, NULL, '{');
		put_node(b, l, at);
		j_close(b, '}');
	}
	j_close(b, ']');
	if (at > 0 && at < l->n_nodes)
		j_i64(b, "next", gs_cluster_view_at(l->view, at - 1)->id);
	else
		j_null(b, "next");
	j_close(b, '}');
}

static void put_gpu(struct gs_buf *b, const struct api_look *l, size_t at, uint32_t i)
{
	const struct gs_cluster_node *n = gs_cluster_view_at(l->view, at);
	const struct gs_gpu_info *g = &n->latest->gpu->info[i];
	const struct gs_gpu_sample *s = &n->latest->gpu->sample[i];
	enum api_state state = api_look_state(l, at, i);
	const char *failure = state == API_FAILING ? api_failure_of(n, i) : NULL;
	char id[160], reason[160];

	api_client_id(n, id, sizeof(id));
	j_i64(b, "node", n->id);
	j_text(b, "node_name", id);
	j_u64(b, "gpu", i);
	j_u64(b, "index", g->index);
	j_text(b, "uuid", g->uuid);
	j_text(b, "name", g->name);
	j_text(b, "state", api_state_name(state));
	/* Its values are of when it was last heard of. */
	snprintf(reason, sizeof(reason), "%s%s%s", failure ? failure : "",
		 failure && !n->healthy ? "; " : "",
		 n->healthy         ? ""
		 : n->n_connections ? "its node is silent"
				    : "its node is not connected");
	if (reason[0])
		j_text(b, "reason", reason);
	j_double(b, "utilization_ratio", api_value(s, GS_GPU_UTIL));
	j_double(b, "memory_used_ratio", memory_ratio(s));
	j_double(b, "memory_used_bytes", api_value(s, GS_GPU_MEM_USED));
	j_double(b, "memory_total_bytes", api_value(s, GS_GPU_MEM_TOTAL));
	j_double(b, "power_watts", api_value(s, GS_GPU_POWER));
	j_double(b, "power_limit_watts", api_value(s, GS_GPU_POWER_LIMIT));
	j_double(b, "temperature_celsius", api_value(s, GS_GPU_TEMP_GPU));
	j_double(b, "sm_clock_hertz", api_value(s, GS_GPU_CLOCK_SM));
	j_double(b, "throttle_reasons_mask", api_value(s, GS_GPU_THROTTLE_REASONS));
}

static void put_details(struct gs_buf *b, const struct gs_cluster_node *n, uint32_t i)
{
	const struct gs_gpu_info *g = &n->latest->gpu->info[i];
	const struct gs_gpu_sample *s = &n->latest->gpu->sample[i];

	j_text(b, "pci_bus_id", g->pci_bus_id);
	j_text(b, "driver_version", g->driver_version);
	j_text(b, "cuda_version", g->cuda_version);
	j_text(b, "architecture", g->architecture);
	j_open(b, "values", '{');
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		if (s->why[f] == GS_GPU_WHY_OK)
			j_double(b, gs_gpu_field_info(f)->key, s->value[f]);
	j_close(b, '}');
	j_open(b, "missing", '{'); /* why a value is not there */
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		if (s->why[f] != GS_GPU_WHY_OK && s->why[f] != GS_GPU_WHY_NOT_READ)
			j_text(b, gs_gpu_field_info(f)->key, gs_gpu_why_name(s->why[f]));
	j_close(b, '}');
}

/* A number of the path; 0: it is none. */
static int64_t id_of(const char *text)
{
	return text[0] && strspn(text, "0123456789") == strlen(text) && strlen(text) < 18
		       ? strtoll(text, NULL, 10)
		       : 0;
}

API_LOOK(api_node)
{
	const struct gs_cluster_node *n = gs_cluster_view_find(l->view, id_of(q->param[0]));
	struct gs_buf *b = &reply->body;
	size_t at;

	if (!n) {
		gs_http_say(reply, 404, "no node has this number");
		return;
	}
	at = (size_t)(n - gs_cluster_view_at(l->view, 0));
	j_open(api_json(reply), NULL, '{');
	put_node(b, l, at);
	j_open(b, "gpu_list", '[');
	for (uint32_t i = 0; i < api_look_gpus(l, at); i++) {
		j_open(b, NULL, '{');
		put_gpu(b, l, at, i);
		put_details(b, n, i);
		j_close(b, '}');
	}
	j_close(b, ']');
	j_close(b, '}');
}

/* --- GPUs --- */

static bool name_has(const struct gs_cluster_node *n, const char *text)
{
	return !text[0] || strcasestr(n->hostname, text) || strcasestr(n->instance, text);
}

struct gpu_choice {
	char sort[16], state[16], name[128];
};

static bool is_chosen(const struct api_look *l, const struct gpu_choice *c,
		      const struct api_look_gpu *g)
{
	return (!c->state[0] || strcmp(c->state, api_state_name(g->state)) == 0) &&
	       name_has(gs_cluster_view_at(l->view, g->node), c->name);
}

API_LOOK(api_gpus)
{
	size_t limit = api_limit(q, reply), n = 0, put = 0;
	struct gs_buf *b = &reply->body;
	struct gpu_choice c;
	double after = 0;

	if (!limit || api_number(q, reply, "after", 0, 1e9, &after) < 0)
		return;
	if (gs_http_query(q, "sort", c.sort, sizeof(c.sort)) < 0 ||
	    (c.sort[0] && strcmp(c.sort, "worst") != 0) ||
	    gs_http_query(q, "state", c.state, sizeof(c.state)) < 0 ||
	    gs_http_query(q, "q", c.name, sizeof(c.name)) < 0) {
		gs_http_say(reply, 400,
			    "sort is \"worst\"; state is ok, idle, throttled, "
			    "unreachable or failing; q is a part of a node's name");
		return;
	}
	j_open(api_json(reply), NULL, '{');
	j_open(b, "gpus", '[');
	for (size_t i = 0; i < l->all.n_gpus; i++) {
		const struct api_look_gpu *g = &l->gpu[c.sort[0] ? l->worst[i] : i];

		if (!is_chosen(l, &c, g) || n++ < (size_t)after || put == limit)
			continue;
		j_open(b, NULL, '{');
		put_gpu(b, l, g->node, g->gpu);
		j_close(b, '}');
		put++;
	}
	j_close(b, ']');
	j_u64(b, "total", n);
	if ((size_t)after + put < n)
		j_u64(b, "next", (uint64_t)after + put);
	else
		j_null(b, "next");
	j_close(b, '}');
}

/* --- processes --- */

static const char *job_of(const struct gs_cluster_node *n, const struct gs_gpu_process *p)
{
	const struct gs_host_process *h = gs_host_process_of(n->latest->host, p->pid);

	return p->job[0] ? p->job : h ? h->job : "";
}

static void put_process(struct gs_buf *b, const struct gs_cluster_node *n,
			const struct gs_gpu_process *p)
{
	const struct gs_host_process *h = gs_host_process_of(n->latest->host, p->pid);
	char id[160];

	api_client_id(n, id, sizeof(id));
	j_open(b, NULL, '{');
	j_i64(b, "node", n->id);
	j_text(b, "node_name", id);
	j_u64(b, "gpu", p->gpu);
	j_u64(b, "pid", p->pid);
	j_text(b, "name", p->comm);
	j_text(b, "user", p->user);
	j_text(b, "job", job_of(n, p));
	j_text(b, "container", p->container);
	j_text(b, "command", p->cmdline);
	j_double(b, "memory_used_bytes", p->used_bytes >= 0 ? (double)p->used_bytes : NAN);
	j_double(b, "sm_ratio", p->sm_ratio >= 0 ? p->sm_ratio : NAN);
	j_double(b, "cpu_ratio", h && h->cpu_ratio >= 0 ? h->cpu_ratio : NAN);
	j_double(b, "host_memory_bytes", h && h->rss_bytes >= 0 ? (double)h->rss_bytes : NAN);
	j_close(b, '}');
}

API_LOOK(api_processes)
{
	size_t limit = api_limit(q, reply), n = 0, put = 0;
	double after = 0, node = 0;
	struct gs_buf *b = &reply->body;
	char job[64];

	if (!limit || api_number(q, reply, "after", 0, 1e9, &after) < 0 ||
	    api_number(q, reply, "node", 1, 9e15, &node) < 0)
		return;
	if (gs_http_query(q, "job", job, sizeof(job)) < 0) {
		gs_http_say(reply, 400, "job is the name of a job");
		return;
	}
	j_open(api_json(reply), NULL, '{');
	j_open(b, "processes", '[');
	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_cluster_node *at = gs_cluster_view_at(l->view, i);

		if (!at->latest || (node > 0 && (double)at->id != node))
			continue;
		for (uint32_t p = 0; p < at->latest->gpu->n_processes; p++) {
			const struct gs_gpu_process *process = &at->latest->gpu->process[p];

			if (process->ended || process->gpu >= at->latest->gpu->n_gpus ||
			    (job[0] && strcmp(job_of(at, process), job) != 0))
				continue;
			if (n++ < (size_t)after || put == limit)
				continue;
			put_process(b, at, process);
			put++;
		}
	}
	j_close(b, ']');
	j_u64(b, "total", n);
	if ((size_t)after + put < n)
		j_u64(b, "next", (uint64_t)after + put);
	else
		j_null(b, "next");
	j_close(b, '}');
}

/* --- jobs --- */

struct member { /* a GPU of a job */
	const char *job, *user;
	const struct gs_cluster_node *node;
	uint32_t gpu;
	double util;
};

static int by_job(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int r = strcmp(x->job, y->job);

	if (r == 0 && x->node->id != y->node->id)
		r = x->node->id < y->node->id ? -1 : 1;
	return r ? r : (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

static int by_util(const void *a, const void *b)
{
	double x = ((const struct member *)a)->util, y = ((const struct member *)b)->util;

	return (x > y) - (x < y);
}

/* Each GPU of each job once, by job. What it points to is the look's. */
static struct member *members(const struct api_look *l, size_t *ret_n)
{
	struct member *list = NULL;
	size_t n = 0, n_max = 0, kept = 0;

	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_cluster_node *at = gs_cluster_view_at(l->view, i);

		for (uint32_t p = 0; at->latest && p < at->latest->gpu->n_processes; p++) {
			const struct gs_gpu_process *process = &at->latest->gpu->process[p];
			const char *job = job_of(at, process);

			if (!job[0] || process->ended || process->gpu >= at->latest->gpu->n_gpus)
				continue;
			if (n == n_max) {
				struct member *more;

				n_max = n_max ? n_max * 2 : 64;
				more = reallocarray(list, n_max, sizeof(*more));
				if (!more) {
					free(list);
					return NULL;
				}
				list = more;
			}
			list[n++] = (struct member){
				job, process->user, at, process->gpu,
				api_value(&at->latest->gpu->sample[process->gpu], GS_GPU_UTIL)};
		}
	}
	if (n)
		qsort(list, n, sizeof(*list), by_job);
	for (size_t i = 0; i < n; i++)
		if (!kept || by_job(&list[kept - 1], &list[i]) != 0)
			list[kept++] = list[i];
	*ret_n = kept;
	return list ? list : calloc(1, sizeof(*list));
}

/* A GPU that does less than half of what the others of its job do holds them all up. */
static bool is_straggler(const struct member *slowest, size_t n, double median)
{
	return n >= 3 && median > 0.2 && slowest->util < median / 2;
}

static void fill_job(struct api_job *j, struct member *m, size_t n)
{
	qsort(m, n, sizeof(*m), by_util);
	*j = (struct api_job){.n_gpus = n,
			      .least = m[0].util,
			      .median = m[n / 2].util,
			      .most = m[n - 1].util,
			      .has_straggler = is_straggler(m, n, m[n / 2].util),
			      .node = m->node->id,
			      .gpu = m->gpu};
	snprintf(j->job, sizeof(j->job), "%s", m->job);
	snprintf(j->user, sizeof(j->user), "%s", m->user);
	api_client_id(m->node, j->node_name, sizeof(j->node_name));
}

struct api_job *api_jobs_now(const struct api_look *l, size_t *ret_n)
{
	size_t n, n_jobs = 0;
	struct member *list = members(l, &n);
	struct api_job *jobs = list ? calloc(n + 1, sizeof(*jobs)) : NULL;

	for (size_t i = 0, end; jobs && i < n; i = end) {
		for (end = i + 1; end < n && strcmp(list[i].job, list[end].job) == 0;)
			end++;
		fill_job(&jobs[n_jobs++], list + i, end - i);
	}
	free(list);
	*ret_n = n_jobs;
	return jobs;
}

/* --- alerts --- */

struct alerts {
	struct gs_buf *b;
	size_t n, limit;
};

static void alert(struct alerts *to, const char *severity, const struct gs_cluster_node *n, int gpu,
		  const char *text)
{
	char id[160];

	if (to->n++ >= to->limit)
		return;
	j_open(to->b, NULL, '{');
	j_text(to->b, "severity", severity);
	if (n) {
		api_client_id(n, id, sizeof(id));
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

static void alerts_of(struct alerts *to, const struct api_look *l, size_t at, unsigned turn)
{
	const struct gs_cluster_node *n = gs_cluster_view_at(l->view, at);
	char text[160];

	for (uint32_t i = 0; i < api_look_gpus(l, at); i++) {
		enum api_state state = api_look_state(l, at, i);
		const char *failure = state == API_FAILING ? api_failure_of(n, i) : NULL;

		if (turn == 0 && failure) {
			if (api_event_is_of(n, &n->latest->gpu->info[i]))
				snprintf(text, sizeof(text), "XID %u: %s", n->last_gpu_event.xid,
					 failure);
			else
				snprintf(text, sizeof(text), "%s", failure);
			alert(to, "critical", n, (int)i, text);
		}
		if (turn == 1 && state == API_THROTTLED)
			alert(to, "warning", n, (int)i, "its clocks are held down");
	}
	if (turn == 0 && !n->healthy)
		alert(to, "critical", n, -1,
		      n->n_connections ? "it is silent" : "it is not connected");
	if (turn == 1 && n->latest && n->latest->gpu->state_text[0])
		alert(to, "warning", n, -1, n->latest->gpu->state_text);
	if (turn == 1 && n->lost_samples) {
		snprintf(text, sizeof(text), "%llu samples were lost before they reached the head",
			 (unsigned long long)n->lost_samples);
		alert(to, "warning", n, -1, text);
	}
	if (turn == 1 && n->clock_known && llabs(n->clock_offset_ns) > 1000000000ll) {
		snprintf(text, sizeof(text), "its clock is %.1f s %s the head's",
			 fabs((double)n->clock_offset_ns) / 1e9,
			 n->clock_offset_ns > 0 ? "behind" : "ahead of");
		alert(to, "warning", n, -1, text);
	}
}

/* What the server itself has to say of its one node. */
static void alerts_of_rules(struct alerts *to, const struct gs_api *a, const struct api_look *l)
{
	GS_FREE struct gs_api_alert *list = calloc(GS_API_ALERTS_MAX, sizeof(*list));
	size_t n = list && l->n_nodes && a->local.alerts ? a->local.alerts(a->local.ctx, list) : 0;

	for (size_t i = 0; i < n; i++)
		alert(to, list[i].critical ? "critical" : "warning", gs_cluster_view_at(l->view, 0),
		      list[i].gpu, list[i].text);
}

static void stragglers(struct alerts *to, const struct api_look *l)
{
	size_t n;
	GS_FREE struct member *list = members(l, &n);
	char text[160];

	for (size_t i = 0, end; list && i < n; i = end) {
		for (end = i + 1; end < n && strcmp(list[i].job, list[end].job) == 0;)
			end++;
		qsort(list + i, end - i, sizeof(*list), by_util);
		if (!is_straggler(list + i, end - i, list[i + (end - i) / 2].util))
			continue;
		snprintf(text, sizeof(text),
			 "slowest GPU of job %s: %.0f %% where the others do %.0f %%", list[i].job,
			 list[i].util * 100, list[i + (end - i) / 2].util * 100);
		alert(to, "warning", list[i].node, (int)list[i].gpu, text);
	}
}

API_LOOK(api_alerts)
{
	struct alerts to = {.b = &reply->body, .limit = api_limit(q, reply)};
	struct gs_head_stats st = {0};

	if (!to.limit)
		return;
	if (a->o.head)
		gs_head_stats(a->o.head, &st);
	j_open(api_json(reply), NULL, '{');
	j_open(to.b, "alerts", '[');
	if (st.trouble[0])
		alert(&to, "critical", NULL, -1, st.trouble);
	alerts_of_rules(&to, a, l);
	for (unsigned turn = 0; turn < 2; turn++)
		for (size_t i = 0; i < l->n_nodes; i++)
			alerts_of(&to, l, i, turn);
	stragglers(&to, l);
	j_close(to.b, ']');
	j_u64(to.b, "total", to.n);
	j_close(to.b, '}');
}
