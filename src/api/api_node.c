/* Nodes, GPUs, processes and jobs as they are now, and what is wrong with them. */
#include "api/api_int.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"

#define IDLE_RATIO 0.05
/* nvml.h, nvmlClocksEventReason*: power cap, slowdown, sync boost, software and hardware thermal,
 * power brake. Not idle (1), application clocks (2), display (256): those are meant so. */
#define THROTTLE_MASK 0xfcu
#define EVENT_NS      600000000000ll /* an error of a GPU is shown so long */

static const char *const state_names[API_STATES] = {"ok", "idle", "throttled", "unreachable",
						    "failing"};

const char *api_state_name(unsigned state)
{
	return state < API_STATES ? state_names[state] : "unknown";
}

static double get(const struct gs_gpu_sample *s, enum gs_gpu_field f)
{
	return gs_gpu_has(s, f) ? s->value[f] : NAN;
}

static double memory_ratio(const struct gs_gpu_sample *s)
{
	if (gs_gpu_has(s, GS_GPU_MEM_USED_RATIO))
		return s->value[GS_GPU_MEM_USED_RATIO];
	return get(s, GS_GPU_MEM_USED) / get(s, GS_GPU_MEM_TOTAL);
}

static bool event_is_of(const struct gs_cluster_node *n, const struct gs_gpu_info *g)
{
	const struct gs_gpu_event *e = &n->last_gpu_event;

	return n->n_gpu_events && n->last_wall_ns - n->last_gpu_event_wall_ns < EVENT_NS &&
	       e->xid &&
	       (e->uuid[0] ? strcmp(e->uuid, g->uuid) == 0
			   : strcmp(e->pci_bus_id, g->pci_bus_id) == 0);
}

/* What the GPU itself says is broken; NULL: nothing. */
static const char *failure_of(const struct gs_cluster_node *n, uint32_t i)
{
	const struct gs_gpu_sample *s = &n->latest->gpu->sample[i];

	if (s->lost)
		return "it is off the bus";
	if (get(s, GS_GPU_REMAP_FAILED) > 0)
		return "a row of its memory could not be replaced";
	if (get(s, GS_GPU_ECC_NOW_UNCORRECTED) > 0)
		return "uncorrected memory errors since the driver was loaded";
	if (get(s, GS_GPU_REMAP_PENDING) > 0 || get(s, GS_GPU_RETIRED_PENDING) > 0)
		return "memory waits for a reset to be replaced";
	if (get(s, GS_GPU_RECOVERY_ACTION) > 0)
		return "the driver asks for a reset or restart";
	return event_is_of(n, &n->latest->gpu->info[i]) ? "an error (XID) in the last minutes"
							: NULL;
}

enum api_state api_state_of(const struct gs_cluster_node *n, uint32_t i)
{
	const struct gs_gpu_sample *s = &n->latest->gpu->sample[i];

	if (failure_of(n, i))
		return API_FAILING;
	if (!n->healthy)
		return API_UNREACHABLE;
	if (gs_gpu_has(s, GS_GPU_THROTTLE_REASONS) &&
	    (uint64_t)s->value[GS_GPU_THROTTLE_REASONS] & THROTTLE_MASK)
		return API_THROTTLED;
	return get(s, GS_GPU_UTIL) < IDLE_RATIO ? API_IDLE : API_OK;
}

/* --- overview --- */

struct sums {
	uint64_t n_gpus, state[API_STATES], n_power, n_util;
	double power, util, used, total;
};

static void add_node(struct sums *s, const struct gs_cluster_node *n)
{
	const struct gs_gpu_snapshot *g = n->latest ? n->latest->gpu : NULL;

	for (uint32_t i = 0; g && i < g->n_gpus; i++) {
		const struct gs_gpu_sample *v = &g->sample[i];

		s->n_gpus++;
		s->state[api_state_of(n, i)]++;
		if (!n->healthy || v->lost)
			continue;
		if (gs_gpu_has(v, GS_GPU_POWER)) {
			s->power += v->value[GS_GPU_POWER];
			s->n_power++;
		}
		if (gs_gpu_has(v, GS_GPU_UTIL)) {
			s->util += v->value[GS_GPU_UTIL];
			s->n_util++;
		}
		if (gs_gpu_has(v, GS_GPU_MEM_USED) && gs_gpu_has(v, GS_GPU_MEM_TOTAL)) {
			s->used += v->value[GS_GPU_MEM_USED];
			s->total += v->value[GS_GPU_MEM_TOTAL];
		}
	}
}

static void put_sums(struct gs_buf *b, const struct sums *s)
{
	j_u64(b, "gpus", s->n_gpus);
	j_open(b, "states", '{');
	for (unsigned i = 0; i < API_STATES; i++)
		j_u64(b, state_names[i], s->state[i]);
	j_close(b, '}');
	j_double(b, "power_watts", s->n_power ? s->power : NAN);
	j_double(b, "utilization_ratio", s->n_util ? s->util / (double)s->n_util : NAN);
	j_double(b, "memory_used_bytes", s->total > 0 ? s->used : NAN);
	j_double(b, "memory_total_bytes", s->total > 0 ? s->total : NAN);
}

API_HANDLER(api_overview)
{
	struct gs_api *a = ctx;
	struct gs_cluster *c = a->cluster;
	struct gs_buf *b = api_json(reply);
	struct gs_store_session *active = NULL;
	struct gs_head_stats st = {0};
	struct sums s = {0};
	size_t n_healthy = 0, n_active = 0;

	if (a->o.head) {
		gs_head_stats(a->o.head, &st);
		(void)gs_head_active(a->o.head, &active, &n_active);
	}
	free(active);
	gs_cluster_lock(c);
	for (size_t i = 0; i < gs_cluster_count(c); i++) {
		add_node(&s, gs_cluster_at(c, i));
		n_healthy += gs_cluster_at(c, i)->healthy;
	}
	j_open(b, NULL, '{');
	j_time(b, "time", (int64_t)gs_clock_wall_ns());
	j_text(b, "version", GS_VERSION);
	j_text(b, "role", a->o.head ? "head" : "agent");
	j_text(b, "grpc_address", a->o.grpc_address ? a->o.grpc_address : "");
	j_bool(b, "may_control", q->may_control && a->o.head);
	j_u64(b, "nodes", gs_cluster_count(c));
	j_u64(b, "healthy_nodes", n_healthy);
	gs_cluster_unlock(c);
	put_sums(b, &s);
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

static void put_node(struct gs_buf *b, const struct gs_cluster_node *n)
{
	char id[160];
	struct sums s = {0};

	api_client_id(n, id, sizeof(id));
	add_node(&s, n);
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

/* The first node behind `after`, which is a number of the query. */
static int first_behind(const struct gs_http_request *q, struct gs_http_reply *reply,
			struct gs_cluster *c, size_t *ret_at)
{
	double after = 0;

	if (api_number(q, reply, "after", 0, 9e15, &after) < 0)
		return -EINVAL;
	*ret_at = 0;
	while (*ret_at < gs_cluster_count(c) && (double)gs_cluster_at(c, *ret_at)->id <= after)
		++*ret_at;
	return 0;
}

static void put_next(struct gs_buf *b, struct gs_cluster *c, size_t at)
{
	if (at > 0 && at < gs_cluster_count(c))
		j_i64(b, "next", gs_cluster_at(c, at - 1)->id);
	else
		j_null(b, "next");
}

API_HANDLER(api_nodes)
{
	struct gs_api *a = ctx;
	struct gs_cluster *c = a->cluster;
	size_t limit = api_limit(q, reply), at;
	struct gs_buf *b = &reply->body;

	if (!limit)
		return;
	gs_cluster_lock(c);
	if (first_behind(q, reply, c, &at) == 0) {
		j_open(api_json(reply), NULL, '{');
		j_u64(b, "total", gs_cluster_count(c));
		j_open(b, "nodes", '[');
		for (size_t n = 0; n < limit && at < gs_cluster_count(c); n++, at++) {
			j_open(b, NULL, '{');
			put_node(b, gs_cluster_at(c, at));
			j_close(b, '}');
		}
		j_close(b, ']');
		put_next(b, c, at);
		j_close(b, '}');
	}
	gs_cluster_unlock(c);
}

static void put_gpu(struct gs_buf *b, const struct gs_cluster_node *n, uint32_t i)
{
	const struct gs_gpu_info *g = &n->latest->gpu->info[i];
	const struct gs_gpu_sample *s = &n->latest->gpu->sample[i];
	const char *failure = failure_of(n, i);
	char id[160];

	api_client_id(n, id, sizeof(id));
	j_i64(b, "node", n->id);
	j_text(b, "node_name", id);
	j_u64(b, "gpu", i);
	j_u64(b, "index", g->index);
	j_text(b, "uuid", g->uuid);
	j_text(b, "name", g->name);
	j_text(b, "state", api_state_name(api_state_of(n, i)));
	if (failure)
		j_text(b, "reason", failure);
	j_double(b, "utilization_ratio", get(s, GS_GPU_UTIL));
	j_double(b, "memory_used_ratio", memory_ratio(s));
	j_double(b, "memory_used_bytes", get(s, GS_GPU_MEM_USED));
	j_double(b, "memory_total_bytes", get(s, GS_GPU_MEM_TOTAL));
	j_double(b, "power_watts", get(s, GS_GPU_POWER));
	j_double(b, "power_limit_watts", get(s, GS_GPU_POWER_LIMIT));
	j_double(b, "temperature_celsius", get(s, GS_GPU_TEMP_GPU));
	j_double(b, "sm_clock_hertz", get(s, GS_GPU_CLOCK_SM));
	j_double(b, "throttle_reasons_mask", get(s, GS_GPU_THROTTLE_REASONS));
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

API_HANDLER(api_node)
{
	struct gs_api *a = ctx;
	struct gs_cluster *c = a->cluster;
	const struct gs_cluster_node *n;
	struct gs_buf *b = &reply->body;

	gs_cluster_lock(c);
	n = gs_cluster_find(c, id_of(q->param[0]));
	if (n) {
		j_open(api_json(reply), NULL, '{');
		put_node(b, n);
		j_open(b, "gpu_list", '[');
		for (uint32_t i = 0; n->latest && i < n->latest->gpu->n_gpus; i++) {
			j_open(b, NULL, '{');
			put_gpu(b, n, i);
			put_details(b, n, i);
			j_close(b, '}');
		}
		j_close(b, ']');
		j_close(b, '}');
	} else {
		gs_http_say(reply, 404, "no node has this number");
	}
	gs_cluster_unlock(c);
}

/* --- GPUs --- */

struct ranked {
	const struct gs_cluster_node *node;
	uint32_t gpu;
	enum api_state state;
	double util;
};

/* Worst first; of the same state the least used. */
static int by_state(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	if (x->state != y->state)
		return x->state < y->state ? 1 : -1;
	return x->util != y->util ? (x->util < y->util ? -1 : 1) : 0;
}

static bool name_has(const struct gs_cluster_node *n, const char *text)
{
	return !text[0] || strcasestr(n->hostname, text) || strcasestr(n->instance, text);
}

/* All GPUs, or those of a state and a name; with the cluster's lock. */
static struct ranked *rank(struct gs_cluster *c, const char *state, const char *name, size_t *ret_n)
{
	struct ranked *list = NULL;
	size_t n_max = 0, n = 0;

	for (size_t i = 0; i < gs_cluster_count(c); i++) {
		const struct gs_cluster_node *node = gs_cluster_at(c, i);

		if (!node->latest || !name_has(node, name))
			continue;
		for (uint32_t g = 0; g < node->latest->gpu->n_gpus; g++) {
			struct ranked r = {node, g, api_state_of(node, g),
					   get(&node->latest->gpu->sample[g], GS_GPU_UTIL)};

			if (state[0] && strcmp(state, state_names[r.state]) != 0)
				continue;
			if (isnan(r.util))
				r.util = 2;
			if (n == n_max) {
				struct ranked *more;

				n_max = n_max ? n_max * 2 : 256;
				more = reallocarray(list, n_max, sizeof(*more));
				if (!more) {
					free(list);
					return NULL;
				}
				list = more;
			}
			list[n++] = r;
		}
	}
	*ret_n = n;
	return list ? list : calloc(1, sizeof(*list));
}

API_HANDLER(api_gpus)
{
	struct gs_api *a = ctx;
	struct gs_cluster *c = a->cluster;
	size_t limit = api_limit(q, reply), n;
	char sort[16], state[16], name[128];
	struct gs_buf *b = &reply->body;
	struct ranked *list;
	double after = 0;
	size_t at;

	if (!limit || api_number(q, reply, "after", 0, 1e9, &after) < 0)
		return;
	if (gs_http_query(q, "sort", sort, sizeof(sort)) < 0 ||
	    (sort[0] && strcmp(sort, "worst") != 0) ||
	    gs_http_query(q, "state", state, sizeof(state)) < 0 ||
	    gs_http_query(q, "q", name, sizeof(name)) < 0) {
		gs_http_say(reply, 400,
			    "sort is \"worst\"; state is ok, idle, throttled, "
			    "unreachable or failing; q is a part of a node's name");
		return;
	}
	gs_cluster_lock(c);
	list = rank(c, state, name, &n);
	if (!list) {
		gs_cluster_unlock(c);
		gs_http_say(reply, 503, "no memory");
		return;
	}
	if (sort[0])
		qsort(list, n, sizeof(*list), by_state);
	j_open(api_json(reply), NULL, '{');
	j_u64(b, "total", n);
	j_open(b, "gpus", '[');
	for (at = (size_t)after; at < n && at - (size_t)after < limit; at++) {
		j_open(b, NULL, '{');
		put_gpu(b, list[at].node, list[at].gpu);
		j_close(b, '}');
	}
	gs_cluster_unlock(c);
	j_close(b, ']');
	if (at < n)
		j_u64(b, "next", at);
	else
		j_null(b, "next");
	j_close(b, '}');
	free(list);
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

API_HANDLER(api_processes)
{
	struct gs_api *a = ctx;
	struct gs_cluster *c = a->cluster;
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
	gs_cluster_lock(c);
	for (size_t i = 0; i < gs_cluster_count(c); i++) {
		const struct gs_cluster_node *at = gs_cluster_at(c, i);

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
	gs_cluster_unlock(c);
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

/* Each GPU of each job once, by job; with the cluster's lock. */
static struct member *members(struct gs_cluster *c, size_t *ret_n)
{
	struct member *list = NULL;
	size_t n = 0, n_max = 0, kept = 0;

	for (size_t i = 0; i < gs_cluster_count(c); i++) {
		const struct gs_cluster_node *at = gs_cluster_at(c, i);

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
				get(&at->latest->gpu->sample[process->gpu], GS_GPU_UTIL)};
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

static void put_job(struct gs_buf *b, struct member *m, size_t n)
{
	double median;

	qsort(m, n, sizeof(*m), by_util);
	median = m[n / 2].util;
	j_open(b, NULL, '{');
	j_text(b, "job", m->job);
	j_text(b, "user", m->user);
	j_u64(b, "gpus", n);
	j_double(b, "utilization_least_ratio", m[0].util);
	j_double(b, "utilization_median_ratio", median);
	j_double(b, "utilization_most_ratio", m[n - 1].util);
	if (is_straggler(m, n, median)) {
		j_open(b, "straggler", '{');
		j_i64(b, "node", m->node->id);
		j_text(b, "node_name", m->node->hostname);
		j_u64(b, "gpu", m->gpu);
		j_close(b, '}');
	} else {
		j_null(b, "straggler");
	}
	j_close(b, '}');
}

API_HANDLER(api_jobs)
{
	struct gs_api *a = ctx;
	struct gs_cluster *c = a->cluster;
	size_t limit = api_limit(q, reply), n, n_jobs = 0;
	struct gs_buf *b = &reply->body;
	struct member *list;

	if (!limit)
		return;
	gs_cluster_lock(c);
	list = members(c, &n);
	if (list) {
		j_open(api_json(reply), NULL, '{');
		j_open(b, "jobs", '[');
		for (size_t i = 0, end; i < n; i = end) {
			for (end = i + 1; end < n && strcmp(list[i].job, list[end].job) == 0;)
				end++;
			if (n_jobs++ < limit)
				put_job(b, list + i, end - i);
		}
		j_close(b, ']');
		j_u64(b, "total", n_jobs);
		j_close(b, '}');
		free(list);
	} else {
		gs_http_say(reply, 503, "no memory");
	}
	gs_cluster_unlock(c);
}

/* --- alerts --- */

struct alerts {
	struct gs_buf *b;
	size_t n, limit;
};

static void alert(struct alerts *l, const char *severity, const struct gs_cluster_node *n, int gpu,
		  const char *text)
{
	char id[160];

	if (l->n++ >= l->limit)
		return;
	j_open(l->b, NULL, '{');
	j_text(l->b, "severity", severity);
	if (n) {
		api_client_id(n, id, sizeof(id));
		j_i64(l->b, "node", n->id);
		j_text(l->b, "node_name", id);
	} else {
		j_null(l->b, "node");
		j_text(l->b, "node_name", "");
	}
	if (gpu >= 0)
		j_i64(l->b, "gpu", gpu);
	else
		j_null(l->b, "gpu");
	j_text(l->b, "text", text);
	j_close(l->b, '}');
}

static void alerts_of(struct alerts *l, const struct gs_cluster_node *n, unsigned turn)
{
	char text[160];

	for (uint32_t i = 0; n->latest && i < n->latest->gpu->n_gpus; i++) {
		const char *failure = failure_of(n, i);

		if (turn == 0 && failure) {
			if (event_is_of(n, &n->latest->gpu->info[i]))
				snprintf(text, sizeof(text), "XID %u: %s", n->last_gpu_event.xid,
					 failure);
			else
				snprintf(text, sizeof(text), "%s", failure);
			alert(l, "critical", n, (int)i, text);
		}
		if (turn == 1 && api_state_of(n, i) == API_THROTTLED)
			alert(l, "warning", n, (int)i, "its clocks are held down");
	}
	if (turn == 0 && !n->healthy)
		alert(l, "critical", n, -1,
		      n->n_connections ? "it is silent" : "it is not connected");
	if (turn == 1 && n->latest && n->latest->gpu->state_text[0])
		alert(l, "warning", n, -1, n->latest->gpu->state_text);
	if (turn == 1 && n->lost_samples) {
		snprintf(text, sizeof(text), "%llu samples were lost before they reached the head",
			 (unsigned long long)n->lost_samples);
		alert(l, "warning", n, -1, text);
	}
	if (turn == 1 && n->clock_known && llabs(n->clock_offset_ns) > 1000000000ll) {
		snprintf(text, sizeof(text), "its clock is %.1f s %s the head's",
			 fabs((double)n->clock_offset_ns) / 1e9,
			 n->clock_offset_ns > 0 ? "behind" : "ahead of");
		alert(l, "warning", n, -1, text);
	}
}

/* What the server itself has to say of its one node. */
static void alerts_of_rules(struct alerts *l, const struct gs_api *a)
{
	GS_FREE struct gs_api_alert *list = calloc(GS_API_ALERTS_MAX, sizeof(*list));
	size_t n = list && a->local.alerts ? a->local.alerts(a->local.ctx, list) : 0;

	for (size_t i = 0; i < n; i++)
		alert(l, list[i].critical ? "critical" : "warning", gs_cluster_at(a->cluster, 0),
		      list[i].gpu, list[i].text);
}

static void stragglers(struct alerts *l, struct gs_cluster *c)
{
	size_t n;
	GS_FREE struct member *list = members(c, &n);
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
		alert(l, "warning", list[i].node, (int)list[i].gpu, text);
	}
}

API_HANDLER(api_alerts)
{
	struct gs_api *a = ctx;
	struct gs_cluster *c = a->cluster;
	struct alerts l = {.b = &reply->body, .limit = api_limit(q, reply)};
	struct gs_head_stats st = {0};

	if (!l.limit)
		return;
	if (a->o.head)
		gs_head_stats(a->o.head, &st);
	j_open(api_json(reply), NULL, '{');
	j_open(l.b, "alerts", '[');
	if (st.trouble[0])
		alert(&l, "critical", NULL, -1, st.trouble);
	gs_cluster_lock(c);
	if (gs_cluster_count(c))
		alerts_of_rules(&l, a);
	for (unsigned turn = 0; turn < 2; turn++)
		for (size_t i = 0; i < gs_cluster_count(c); i++)
			alerts_of(&l, gs_cluster_at(c, i), turn);
	stragglers(&l, c);
	gs_cluster_unlock(c);
	j_close(l.b, ']');
	j_u64(l.b, "total", l.n);
	j_close(l.b, '}');
}
