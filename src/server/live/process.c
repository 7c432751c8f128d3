/* One process that is there now: who it is, what it has of which GPU. */
#include "server/live/process.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/scrub/scrub.h"
#include "model/node/job_account.h"
#include "server/live/live_int.h"

void gs_live_put_owner(struct gs_buf *b, enum gs_http_see see, const char *user,
		       const char *command)
{
	char scrubbed[GS_HOST_CMDLINE_BYTES];

	if (see == GS_HTTP_SEE_SCRUBBED) {
		/* Scrubbed where it was read, unless that node keeps commands in full. */
		gs_scrub_text(command, scrubbed, sizeof(scrubbed));
		command = scrubbed;
	}
	j_text(b, "user", see == GS_HTTP_SEE_NAMES ? "" : user);
	j_text(b, "command", see == GS_HTTP_SEE_NAMES ? "" : command);
}

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

int64_t gs_live_process_started(const struct gs_node_snapshot *m, uint32_t pid)
{
	const struct gs_host_process *h = gs_host_process_of(m->host, pid);
	const struct gs_gpu_process *g = first_on(m->gpu, pid);
	uint64_t start = h && h->start_ns ? h->start_ns : g ? g->start_ns : 0;

	return start ? m->wall_ns - (int64_t)(m->time_ns - start) : 0;
}

bool gs_live_process_is_there(const struct gs_node_snapshot *m, uint32_t pid)
{
	return first_on(m->gpu, pid) || host_of(m, pid);
}

void gs_live_process_gpus(const struct gs_gpu_snapshot *g, uint32_t pid, double *ret_memory,
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

/* By the names of `thread_seconds` in reports of jobs; nothing where its job is not counted. */
static void put_times(struct gs_buf *b, const struct gs_node_snapshot *m,
		      const struct gs_host_process *h)
{
	const struct gs_job_process *p = h ? gs_node_process_times(m, h) : NULL;

	j_open(b, "thread_seconds", '{');
	for (unsigned i = 0; p && i < GS_TASKSTATS_PARTS; i++)
		j_double(b, i == GS_TASKSTATS_PART_IDLE ? "idle" : gs_taskstats_time_name(i),
			 (double)p->part_ns[i] / 1e9);
	j_close(b, '}');
}

void gs_live_put_process(struct gs_buf *b, const struct gs_live_process *r,
			 const struct gs_node_snapshot *m, int64_t offset_ns, bool running)
{
	const struct gs_host_process *h = gs_host_process_of(m->host, r->pid);
	const struct gs_gpu_process *g = first_on(m->gpu, r->pid);
	int64_t started = gs_live_process_started(m, r->pid);
	char state[2] = {h ? h->state : 0, 0};
	double memory, sm;

	gs_live_process_gpus(m->gpu, r->pid, &memory, &sm);
	j_open(b, NULL, '{');
	j_i64(b, "node", r->node);
	j_text(b, "node_name", r->node_name);
	j_u64(b, "pid", r->pid);
	j_bool(b, "running", running);
	j_time(b, "last_seen", m->wall_ns + offset_ns);
	j_time(b, "start_time", started ? started + offset_ns : 0);
	j_text(b, "name", g && g->comm[0] ? g->comm : h ? h->comm : "");
	j_text(b, "job", g && g->job[0] ? g->job : h ? h->job : "");
	j_text(b, "container", g && g->container[0] ? g->container : h ? h->container : "");
	gs_live_put_owner(b, r->see,
			  g && g->user[0] ? g->user
			  : h             ? h->user
					  : "",
			  g && g->cmdline[0] ? g->cmdline
			  : h                ? h->cmdline
					     : "");
	j_text(b, "state", state);
	j_double(b, "threads", h && h->n_threads > 0 ? h->n_threads : NAN);
	j_double(b, "parent_pid", h ? h->parent_pid : NAN);
	j_double(b, "cpu_seconds", h ? (double)h->cpu_ns / 1e9 : NAN);
	j_double(b, "cpu_ratio", h && h->cpu_ratio >= 0 ? h->cpu_ratio : NAN);
	j_double(b, "host_memory_bytes", h && h->rss_bytes >= 0 ? (double)h->rss_bytes : NAN);
	j_double(b, "gpu_memory_used_bytes", memory);
	j_double(b, "sm_ratio", sm);
	put_times(b, m, h);
	put_gpus(b, m->gpu, r->pid);
	j_close(b, '}');
}

/* --- the request --- */

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

LIVE_HANDLER(live_process)
{
	struct gs_live *a = ctx;
	struct gs_live_process asked = {.node = node_of(q->param[0]), .see = q->see};
	const struct gs_registry_node *n;
	struct gs_live_snapshot *l;
	bool there = false, known;

	if (!pid_of(q->param[1], &asked.pid)) {
		gs_http_error(reply, 404, "a process is identified by its process id");
		return;
	}
	l = gs_live_take_snapshot(a);
	n = l ? gs_registry_view_find(l->view, asked.node) : NULL;
	known = n != NULL;
	if (n) {
		gs_live_client_id(n, asked.node_name, sizeof(asked.node_name));
		there = n->latest && gs_live_process_is_there(n->latest, asked.pid);
	}
	if (there)
		gs_live_put_process(gs_live_json(reply), &asked, n->latest, n->clock_offset_ns,
				    n->healthy);
	gs_live_snapshot_unref(&l);
	if (there)
		return;
	if (!known)
		gs_http_error(reply, 404, "no node has this number");
	else if (!a->o.past_process)
		gs_http_error(reply, 404, "this process is not running now; a head has past data");
	else
		a->o.past_process(a->o.ctx, &asked, reply);
}
