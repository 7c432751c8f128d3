/*
 * The page of this node, by the endpoints that a head has too (server/live/live.h): the node is a
 * cluster of one. The main thread gives it what it has read, about once a second; that is a copy
 * and a point of each chart, and nothing else is done while no page is open. As long as one is,
 * it also reads what stands beside the GPUs: the machine and the processes.
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands/agent/agent_alert.h"
#include "commands/agent/agent_head.h"
#include "commands/agent/agent_jobs.h"
#include "commands/agent/agent_page.h"
#include "commands/agent/agent_routes.h"
#include "commands/agent/agent_state.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "server/registry/registry.h"
#include "commands/common/cli.h"
#include "server/live/live.h"
#include "sources/sampler/sampler.h"
#include "sources/host/taskstats.h"

#define NODE       1              /* its number */
#define SPACING_NS 900000000ull   /* pages do not ask more often */
#define LOOKED_NS  15000000000ull /* since the last question: a page is open */
#define FIRING_MAX 256            /* alerts that are shown, before those of one cause are joined */
#define ROUTES_MAX (GS_LIVE_ENDPOINTS + AGENT_ROUTES_MAX)

struct agent_page {
	struct agent_state *state;
	struct gs_registry *cluster;
	struct gs_live *live;
	struct gs_http_route route[ROUTES_MAX];
	size_t n_routes;
	struct gs_sampler *sampler; /* NULL: no page is open, or it cannot be had */
	bool reported_failed;
	uint64_t taken_ns;
	pthread_mutex_t lock; /* what follows */
	struct gs_live_alert *alert;
	size_t n_alerts;
};

/* --- about the agent, on the server's thread --- */

static size_t put_head(const struct agent_state *s, struct gs_live_fact *f)
{
	struct agent_head_stats h;

	if (!s->head)
		return 0;
	agent_head_stats(s->head, &h);
	f[0] = (struct gs_live_fact){.key = "head_connected", .number = h.connected};
	f[1] = (struct gs_live_fact){.key = "head_waiting_samples",
				     .number = (double)h.waiting_samples};
	f[2] = (struct gs_live_fact){.key = "head_lost_samples", .number = (double)h.lost_samples};
	return 3;
}

static size_t fill_facts(void *ctx, struct gs_live_fact *ret)
{
	struct agent_page *p = ctx;
	struct agent_state *s = p->state;
	double resident = (double)gs_host_rss_bytes("/proc", (uint32_t)getpid());
	uint64_t now = gs_clock_mono_ns();
	struct rusage u;
	size_t n = 0;

#define FACT(name, value) ret[n++] = (struct gs_live_fact){.key = (name), .number = (value)}
	FACT("resident_bytes", resident >= 0 ? resident : NAN);
	FACT("cpu_seconds",
	     getrusage(RUSAGE_SELF, &u) == 0
		     ? (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
			       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6
		     : NAN);
	pthread_mutex_lock(&s->lock);
	FACT("uptime_seconds", (double)((int64_t)gs_clock_wall_ns() - s->started_wall_ns) / 1e9);
	FACT("interval_seconds", (double)s->conf.sampling.interval_ns / 1e9);
	FACT("samples", (double)s->samples);
	FACT("missed_late", (double)s->schedule.missed);
	FACT("missed_driver", s->latest ? (double)s->latest->missed_samples : 0);
	FACT("failed_calls", s->latest ? (double)s->latest->failed_calls : 0);
	FACT("read_seconds", s->sampled_ns ? (double)s->sample_ns / 1e9 : NAN);
	FACT("read_seconds_ago", s->sampled_ns ? (double)(now - s->sampled_ns) / 1e9 : NAN);
	FACT("scrapes", (double)s->scrapes);
	FACT("last_reload_ok", s->last_reload_ok);
	n += put_head(s, ret + n);
	pthread_mutex_unlock(&s->lock);
#undef FACT
	return n;
}

static size_t fill_alerts(void *ctx, struct gs_live_alert *ret)
{
	struct agent_page *p = ctx;
	size_t n;

	pthread_mutex_lock(&p->lock);
	n = p->n_alerts;
	if (n)
		memcpy(ret, p->alert, n * sizeof(*ret));
	pthread_mutex_unlock(&p->lock);
	return n;
}

/* --- life --- */

static void add_routes(struct agent_page *p)
{
	memcpy(p->route, agent_routes, agent_n_routes * sizeof(*agent_routes));
	gs_live_routes(p->live, p->route + agent_n_routes);
	p->n_routes = agent_n_routes + GS_LIVE_ENDPOINTS;
}

struct agent_page *agent_page_new(struct agent_state *state)
{
	struct agent_page *p = calloc(1, sizeof(*p));
	struct gs_registry_node node = {.id = NODE};
	struct gs_live_options o = {
		.size = sizeof(o),
		.role = "agent",
		.interval_ns = state->conf.sampling.interval_ns,
		.facts = fill_facts,
		.alerts = fill_alerts,
		.ctx = p,
	};

	if (!p)
		return NULL;
	pthread_mutex_init(&p->lock, NULL);
	p->state = state;
	snprintf(node.hostname, sizeof(node.hostname), "%s", state->conf.metrics.hostname);
	o.cluster = p->cluster = gs_registry_new();
	p->live = p->cluster && gs_registry_put(p->cluster, &node) == 0 ? gs_live_new(&o) : NULL;
	if (!p->live) {
		agent_page_free(&p);
		return NULL;
	}
	gs_registry_connected(p->cluster, NODE, "", GS_VERSION);
	add_routes(p);
	return p;
}

void agent_page_free(struct agent_page **page)
{
	struct agent_page *p = *page;

	if (!p)
		return;
	gs_live_free(&p->live);
	gs_registry_free(&p->cluster);
	gs_sampler_free(&p->sampler);
	pthread_mutex_destroy(&p->lock);
	free(p->alert);
	gs_free_p(page);
}

const struct gs_http_route *agent_page_routes(const struct agent_page *p, size_t *ret_n)
{
	*ret_n = p->n_routes;
	return p->route;
}

/* --- what was read --- */

/* Not read for the page: not known. */
static struct gs_host_snapshot *empty_host(void)
{
	struct gs_host_snapshot *h = calloc(1, sizeof(*h));

	if (h)
		h->sample = gs_host_sample_unknown;
	return h;
}

static int fill_page(struct agent_page *p, bool looked, struct gs_node_snapshot *node)
{
	struct gs_err err = {{0}};
	int r;

	if (!looked)
		gs_sampler_free(&p->sampler);
	else if (!p->sampler && !p->reported_failed && gs_sampler_new(&p->sampler, &err) < 0) {
		gs_cli_print_message("agent: the page has no values of processes: %s", err.text);
		p->reported_failed = true;
	}
	if (p->sampler) {
		r = gs_sampler_fill(p->sampler, false, true, node);
		if (r == 0 && p->state->jobs) /* this thread alone changes it */
			node->jobs = agent_jobs_copy(p->state->jobs);
		return r;
	}
	node->host = empty_host();
	node->time_ns = gs_clock_boot_ns();
	node->wall_ns = (int64_t)gs_clock_wall_ns();
	snprintf(node->name, sizeof(node->name), "%s", p->state->conf.metrics.hostname);
	return node->host ? 0 : -ENOMEM;
}

struct firing {
	struct gs_alert_message *list; /* owned */
	size_t n, capacity;
};

static void add_firing(void *ctx, const struct gs_alert_message *m)
{
	struct firing *f = ctx;

	if (f->n < FIRING_MAX && !m->is_of_health &&
	    gs_vec_reserve(&f->list, &f->capacity, f->n + 1))
		f->list[f->n++] = *m;
}

/* Those that say the same of several GPUs are one. */
static void show_alert(struct gs_live_alert *a, const struct gs_alert_message *m,
		       const struct gs_gpu_snapshot *gpu)
{
	const char *title = m->n_members || !m->text[0] ? m->title : "";

	*a = (struct gs_live_alert){.critical = m->severity == GS_ALERT_CRITICAL, .gpu = -1};
	snprintf(a->text, sizeof(a->text), "%s: %s%s%s", m->rule, title,
		 title[0] && m->text[0] ? ": " : "", m->text);
	for (uint32_t i = 0; m->kind == GS_ALERT_GPU && i < gpu->n_gpus; i++)
		for (size_t k = 0; k < m->n_labels; k++)
			if (strcmp(m->label[k].value, gpu->info[i].uuid) == 0)
				a->gpu = (int)i;
}

static void take_alerts(struct agent_page *p, const struct gs_gpu_snapshot *gpu)
{
	struct gs_live_alert *list = calloc(GS_LIVE_ALERTS_MAX, sizeof(*list));
	struct firing f = {0};
	bool taken[FIRING_MAX] = {false};
	size_t n = 0;

	if (!list)
		return;
	agent_alert_firing(p->state->alert, add_firing, &f);
	for (size_t i = 0; i < f.n && n < GS_LIVE_ALERTS_MAX; i++) {
		struct gs_alert_message m;

		if (taken[i])
			continue;
		gs_alert_join(f.list, f.n, taken, &m);
		show_alert(&list[n++], &m, gpu);
	}
	free(f.list);
	pthread_mutex_lock(&p->lock);
	free(p->alert);
	p->alert = list;
	p->n_alerts = n;
	pthread_mutex_unlock(&p->lock);
}

static void forget_alerts(struct agent_page *p)
{
	pthread_mutex_lock(&p->lock);
	gs_free_p(&p->alert);
	p->n_alerts = 0;
	pthread_mutex_unlock(&p->lock);
}

void agent_page_take(struct agent_page *p, const struct gs_gpu_snapshot *gpu)
{
	uint64_t now = gs_clock_mono_ns(), asked;
	struct gs_node_snapshot *node;
	bool looked;

	/* What has happened is reported once, in the reading that found it. */
	if (now - p->taken_ns < SPACING_NS && !gpu->n_events)
		return;
	p->taken_ns = now;
	gs_live_tick(p->live, p->state->http);
	asked = gs_live_asked_ns(p->live);
	looked = asked && now - asked < LOOKED_NS;
	if (asked > now) /* by the server's thread, since we asked for the time */
		looked = true;
	node = calloc(1, sizeof(*node));
	if (node)
		node->gpu = gs_gpu_snapshot_copy(gpu);
	if (node && node->gpu && fill_page(p, looked, node) == 0) {
		gs_registry_apply(p->cluster, NODE, &node);
		gs_registry_counts(p->cluster, NODE, p->state->samples, 0,
				   gpu->missed_samples + p->state->schedule.missed);
	}
	gs_node_snapshot_free(&node);
	if (looked)
		take_alerts(p, gpu);
	else if (p->alert)
		forget_alerts(p);
}
