/*
 * One process: who it is, what it has of which GPU, now or when it was last seen, and over time.
 * What is now comes from the cluster; the past is read from the store.
 */
#include "api/api_look.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "node/record.h"
#include "store/coarse.h"

#define SAME_START_NS 2000000000ll /* a start is told by clocks of which two never quite agree */

struct process_request {
	int64_t node;
	char node_name[160];
	uint32_t pid;
	int64_t started_ns; /* wall; 0: whichever process had this number */
	/* of the series */
	struct api_stretches in;
	uint64_t coarse_ns; /* how far apart samples are that were made coarser; 0: none was */
	/* of the last time it was seen */
	int64_t seen_ns;
	struct gs_buf document;
};

enum { CPU, HOST_MEMORY, GPU_MEMORY, SM, N_VALUES };
static const char *const keys[N_VALUES] = {"cpu_ratio", "host_memory_bytes",
					   "gpu_memory_used_bytes", "sm_ratio"};

static bool is_on(const struct gs_gpu_snapshot *g, const struct gs_gpu_process *p, uint32_t pid)
{
	return p->pid == pid && !p->ended && p->gpu < g->n_gpus;
}

/* A process of the GPUs, NULL: it is on none. */
static const struct gs_gpu_process *first_on(const struct gs_gpu_snapshot *g, uint32_t pid)
{
	for (uint32_t i = 0; i < g->n_processes; i++)
		if (is_on(g, &g->process[i], pid))
			return &g->process[i];
	return NULL;
}

static const struct gs_host_process *host_of(const struct gs_node_snapshot *m, uint32_t pid)
{
	const struct gs_host_process *h = gs_host_process_of(m->host, pid);

	return h && !(h->flags & GS_HOST_PROCESS_ANCESTOR) ? h : NULL;
}

/* When it began, by the node's time of day; 0: not known. */
static int64_t started_of(const struct gs_node_snapshot *m, uint32_t pid)
{
	const struct gs_host_process *h = gs_host_process_of(m->host, pid);
	const struct gs_gpu_process *g = first_on(m->gpu, pid);
	uint64_t start = h && h->start_ns ? h->start_ns : g ? g->start_ns : 0;

	return start ? m->wall_ns - (int64_t)(m->time_ns - start) : 0;
}

static bool is_there(const struct gs_node_snapshot *m, uint32_t pid)
{
	return first_on(m->gpu, pid) || host_of(m, pid);
}

/* Of all its GPUs; NAN: of none it is known. */
static void sum_gpus(const struct gs_gpu_snapshot *g, uint32_t pid, double *ret_memory,
		     double *ret_sm)
{
	double memory = NAN, sm = NAN;

	for (uint32_t i = 0; i < g->n_processes; i++) {
		const struct gs_gpu_process *p = &g->process[i];

		if (!is_on(g, p, pid))
			continue;
		if (p->used_bytes >= 0)
			memory = (isnan(memory) ? 0 : memory) + (double)p->used_bytes;
		if (p->sm_ratio >= 0)
			sm = (isnan(sm) ? 0 : sm) + p->sm_ratio;
	}
	*ret_memory = memory;
	*ret_sm = sm;
}

static void put_gpus(struct gs_buf *b, const struct gs_gpu_snapshot *g, uint32_t pid)
{
	j_open(b, "gpus", '[');
	for (uint32_t i = 0; i < g->n_processes; i++) {
		const struct gs_gpu_process *p = &g->process[i];
		const struct gs_gpu_sample *s;

		if (!is_on(g, p, pid))
			continue;
		s = &g->sample[p->gpu];
		j_open(b, NULL, '{');
		j_u64(b, "gpu", p->gpu);
		j_text(b, "uuid", g->info[p->gpu].uuid);
		j_text(b, "name", g->info[p->gpu].name);
		j_double(b, "memory_used_bytes", p->used_bytes >= 0 ? (double)p->used_bytes : NAN);
		j_double(b, "memory_total_bytes",
			 gs_gpu_has(s, GS_GPU_MEM_TOTAL) ? s->value[GS_GPU_MEM_TOTAL] : NAN);
		j_double(b, "sm_ratio", p->sm_ratio >= 0 ? p->sm_ratio : NAN);
		j_double(b, "memory_activity_ratio", p->mem_ratio >= 0 ? p->mem_ratio : NAN);
		j_double(b, "utilization_ratio",
			 gs_gpu_has(s, GS_GPU_UTIL) ? s->value[GS_GPU_UTIL] : NAN);
		j_close(b, '}');
	}
	j_close(b, ']');
}

static void put_process(struct gs_buf *b, const struct process_request *r,
			const struct gs_node_snapshot *m, int64_t offset_ns, bool running)
{
	const struct gs_host_process *h = gs_host_process_of(m->host, r->pid);
	const struct gs_gpu_process *g = first_on(m->gpu, r->pid);
	int64_t started = started_of(m, r->pid);
	char state[2] = {h ? h->state : 0, 0};
	double memory, sm;

	sum_gpus(m->gpu, r->pid, &memory, &sm);
	j_open(b, NULL, '{');
	j_i64(b, "node", r->node);
	j_text(b, "node_name", r->node_name);
	j_u64(b, "pid", r->pid);
	j_bool(b, "running", running);
	j_time(b, "last_seen", m->wall_ns + offset_ns);
	j_time(b, "started", started ? started + offset_ns : 0);
	j_text(b, "name", g && g->comm[0] ? g->comm : h ? h->comm : "");
	j_text(b, "user", g && g->user[0] ? g->user : h ? h->user : "");
	j_text(b, "job", g && g->job[0] ? g->job : h ? h->job : "");
	j_text(b, "container", g && g->container[0] ? g->container : h ? h->container : "");
	j_text(b, "command", g && g->cmdline[0] ? g->cmdline : h ? h->cmdline : "");
	j_text(b, "state", state);
	j_double(b, "threads", h && h->n_threads > 0 ? h->n_threads : NAN);
	j_double(b, "parent_pid", h ? h->parent_pid : NAN);
	j_double(b, "cpu_seconds", h ? (double)h->cpu_ns / 1e9 : NAN);
	j_double(b, keys[CPU], h && h->cpu_ratio >= 0 ? h->cpu_ratio : NAN);
	j_double(b, keys[HOST_MEMORY], h && h->rss_bytes >= 0 ? (double)h->rss_bytes : NAN);
	j_double(b, keys[GPU_MEMORY], memory);
	j_double(b, keys[SM], sm);
	put_gpus(b, m->gpu, r->pid);
	j_close(b, '}');
}

/* --- when it was last seen --- */

static void see(void *ctx, const struct gs_store_found *found, const struct gs_node_snapshot *m,
		const struct gs_coarse_mark *mark)
{
	struct process_request *r = ctx;
	int64_t wall = m->wall_ns + found->batch.clock_offset_ns;

	if (wall < r->seen_ns || !is_there(m, r->pid))
		return;
	r->seen_ns = wall;
	gs_buf_reset(&r->document);
	put_process(&r->document, r, m, found->batch.clock_offset_ns, false);
}

/* Farther and farther back, until it is found or the time is up. */
static int look_back(struct process_request *r, struct gs_store *store)
{
	static const int64_t reach_s[] = {600, 3600, 21600, 86400, 604800};
	int64_t now = (int64_t)gs_clock_wall_ns(), end = now + API_SKEW_NS;
	uint64_t until = gs_clock_mono_ns() + API_READ_NS;
	int got = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(reach_s) && got == 0 && !r->seen_ns; i++) {
		struct gs_store_range range = {
			.from_wall_ns = now - reach_s[i] * 1000000000,
			.to_wall_ns = end,
			.kind = GS_STORE_SAMPLES,
			.nodes = &r->node,
			.n_nodes = 1,
		};

		got = api_read_moments(store, &range, until, see, r);
		end = range.from_wall_ns;
	}
	return got;
}

static void read_last(struct api_task *t)
{
	struct process_request *r = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	int got;

	r->document = GS_BUF_INIT(1u << 20);
	got = look_back(r, t->store);
	if (r->seen_ns)
		(void)gs_buf_put(&api_json(&reply)[0], r->document.data, r->document.bytes);
	else if (got < 0)
		api_fail(&reply, got, NULL);
	else
		gs_http_say(&reply, 404,
			    got == 0 ? "this process was not seen in the last week"
				     : "this process was not seen in as much of the past as can be "
				       "read in a request");
	gs_buf_fini(&r->document);
	gs_http_answer(&t->later, &reply);
}

/* --- the requests --- */

static bool pid_of(const char *text, uint32_t *ret_pid)
{
	unsigned long long v;

	if (!text[0] || strspn(text, "0123456789") != strlen(text) || strlen(text) > 10)
		return false;
	v = strtoull(text, NULL, 10);
	*ret_pid = (uint32_t)v;
	return v > 0 && v <= INT32_MAX;
}

static int64_t node_of(const char *text)
{
	return text[0] && strspn(text, "0123456789") == strlen(text) && strlen(text) < 18
		       ? strtoll(text, NULL, 10)
		       : 0;
}

API_HANDLER(api_process)
{
	struct gs_api *a = ctx;
	struct process_request asked = {.node = node_of(q->param[0])}, *r;
	const struct gs_cluster_node *n;
	struct api_look *l;
	bool there = false, known;

	if (!pid_of(q->param[1], &asked.pid)) {
		gs_http_say(reply, 404, "a process is known by its number");
		return;
	}
	l = api_look(a);
	n = l ? gs_cluster_view_find(l->view, asked.node) : NULL;
	known = n != NULL;
	if (n) {
		api_client_id(n, asked.node_name, sizeof(asked.node_name));
		there = n->latest && is_there(n->latest, asked.pid);
	}
	if (there)
		put_process(api_json(reply), &asked, n->latest, n->clock_offset_ns, n->healthy);
	api_look_unref(&l);
	if (there)
		return;
	if (!known) {
		gs_http_say(reply, 404, "no node has this number");
		return;
	}
	if (!a->o.head) {
		gs_http_say(reply, 404, "this process is not there now; a head knows the past");
		return;
	}
	r = malloc(sizeof(*r));
	if (!r) {
		gs_http_say(reply, 503, "no memory");
		return;
	}
	*r = asked;
	api_task_start(a, reply, read_last, r);
}

static void add(struct process_request *r, unsigned value, int64_t wall_ns, double v, uint32_t n)
{
	api_stretch_add_mean(&r->in, value, wall_ns, v, v, n);
}

static void add_moment(void *ctx, const struct gs_store_found *found,
		       const struct gs_node_snapshot *m, const struct gs_coarse_mark *mark)
{
	struct process_request *r = ctx;
	int64_t offset = found->batch.clock_offset_ns, wall = m->wall_ns + offset;
	const struct gs_host_process *h = gs_host_process_of(m->host, r->pid);
	uint32_t n = mark->n_samples ? mark->n_samples : 1;
	int64_t started = started_of(m, r->pid);
	double memory, sm;

	if (!is_there(m, r->pid) ||
	    (r->started_ns && started && llabs(started + offset - r->started_ns) > SAME_START_NS))
		return;
	sum_gpus(m->gpu, r->pid, &memory, &sm);
	add(r, CPU, wall, h && h->cpu_ratio >= 0 ? h->cpu_ratio : NAN, n);
	add(r, HOST_MEMORY, wall, h && h->rss_bytes >= 0 ? (double)h->rss_bytes : NAN, n);
	add(r, GPU_MEMORY, wall, memory, n);
	add(r, SM, wall, sm, n);
	if (wall >= r->in.from_ns && wall < r->in.to_ns && mark->interval_ns > r->coarse_ns)
		r->coarse_ns = mark->interval_ns;
}

static void read_series(struct api_task *t)
{
	struct process_request *r = t->arg;
	struct gs_http_reply reply = gs_http_reply_new(t->later);
	struct gs_store_range range = {
		.from_wall_ns = r->in.from_ns > API_SKEW_NS ? r->in.from_ns - API_SKEW_NS : 0,
		.to_wall_ns = r->in.to_ns + API_SKEW_NS,
		.kind = GS_STORE_SAMPLES,
		.nodes = &r->node,
		.n_nodes = 1,
	};
	int got =
		api_read_moments(t->store, &range, gs_clock_mono_ns() + API_READ_NS, add_moment, r);
	struct gs_buf *b = &reply.body;

	if (got < 0) {
		api_fail(&reply, got, NULL);
	} else {
		j_open(api_json(&reply), NULL, '{');
		j_i64(b, "node", r->node);
		j_u64(b, "pid", r->pid);
		j_text(b, "source", "store");
		j_bool(b, "complete", got == 0);
		api_stretch_put_time(b, &r->in);
		if (r->coarse_ns)
			j_double(b, "downsampled_seconds", (double)r->coarse_ns / 1e9);
		j_open(b, "values", '{');
		for (size_t v = 0; v < N_VALUES; v++)
			api_stretch_put(b, keys[v], &r->in, v);
		j_close(b, '}');
		j_close(b, '}');
	}
	gs_http_answer(&t->later, &reply);
}

API_HANDLER(api_process_series)
{
	struct gs_api *a = ctx;
	struct api_look *l;
	double node = 0, pid = 0, started = 0;
	struct process_request asked = {0}, *r;
	bool known;

	if (api_number(q, reply, "node", 1, 9e15, &node) < 0 ||
	    api_number(q, reply, "pid", 1, INT32_MAX, &pid) < 0 ||
	    api_number(q, reply, "started", 0, 9e9, &started) < 0)
		return;
	if (node < 1 || pid < 1) {
		gs_http_say(reply, 400, "node and pid say which process");
		return;
	}
	asked.node = (int64_t)node;
	asked.pid = (uint32_t)pid;
	asked.started_ns = (int64_t)(started * 1e9);
	if (!api_stretch_parse(q, reply, N_VALUES, &asked.in))
		return;
	l = api_look(a);
	known = l && gs_cluster_view_find(l->view, asked.node);
	api_look_unref(&l);
	if (!known) {
		gs_http_say(reply, 404, "no node has this number");
		return;
	}
	r = api_stretch_new(&asked, sizeof(asked), offsetof(struct process_request, in));
	if (r)
		api_task_start(a, reply, read_series, r);
	else
		gs_http_say(reply, 503, "no memory");
}
