/*
 * Which process made memory grow: resident memory of the processes of a node, and what they hold of each GPU,
 * over the whole run, beside all that is in use. Of each a fixed number of points is kept; when they are full
 * every second one goes and from then on half as many are taken, so that the begin of a leak that is found after
 * hours is still there.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/explain_int.h"
#include "core/base/fmt.h"

#define MAX_HOLDERS 256 /* processes, once for the node and once for each GPU */
#define N_POINTS    128
#define SPACING_NS  1000000000ull /* of the first points */
#define GONE_NS     60000000000ull

struct growth_point {
	uint64_t time_ns;
	double bytes;
};

struct holder {
	char of[GS_EXPLAIN_NAME_BYTES]; /* the series that it is a part of: a node, a GPU */
	uint32_t pid;                   /* 0: all of it, also what no process here has */
	char comm[16];
	uint64_t spacing_ns, last_ns;
	uint32_t n_points;
	struct growth_point points[N_POINTS];
};

struct growth {
	struct holder *holders[MAX_HOLDERS]; /* owned */
	uint32_t n;
};

struct growth *explain_growth_new(void)
{
	return calloc(1, sizeof(struct growth));
}

void explain_growth_free(struct growth **growth)
{
	for (uint32_t i = 0; *growth && i < (*growth)->n; i++)
		free((*growth)->holders[i]);
	free(*growth);
	*growth = NULL;
}

/* NULL: no room, or no memory. One that has not been seen for a minute gives its place away. */
static struct holder *holder_of(struct growth *g, const char *of, uint32_t pid, uint64_t now_ns)
{
	struct holder *h, *oldest = NULL;

	for (uint32_t i = 0; i < g->n; i++) {
		h = g->holders[i];
		if (h->pid == pid && strcmp(h->of, of) == 0)
			return h;
		if (!oldest || h->last_ns < oldest->last_ns)
			oldest = h;
	}
	if (g->n < MAX_HOLDERS) {
		h = calloc(1, sizeof(*h));
		if (!h)
			return NULL;
		g->holders[g->n++] = h;
	} else {
		if (now_ns < oldest->last_ns + GONE_NS)
			return NULL;
		h = oldest;
		*h = (struct holder){.pid = 0};
	}
	snprintf(h->of, sizeof(h->of), "%s", of);
	h->pid = pid;
	h->spacing_ns = SPACING_NS;
	return h;
}

static void thin_out(struct holder *h)
{
	for (uint32_t i = 0; i < N_POINTS / 2; i++)
		h->points[i] = h->points[2 * i];
	h->n_points = N_POINTS / 2;
	h->spacing_ns *= 2;
}

void explain_growth_add(struct growth *g, const char *of, uint32_t pid, const char *comm,
			uint64_t time_ns, double bytes)
{
	struct holder *h = bytes >= 0 ? holder_of(g, of, pid, time_ns) : NULL;

	if (!h)
		return;
	h->last_ns = time_ns;
	snprintf(h->comm, sizeof(h->comm), "%.15s", comm);
	/* Half a spacing of slack: samples do not come exactly a second apart. */
	if (h->n_points &&
	    time_ns < h->points[h->n_points - 1].time_ns + h->spacing_ns - h->spacing_ns / 2)
		return;
	if (h->n_points == N_POINTS)
		thin_out(h);
	h->points[h->n_points++] = (struct growth_point){time_ns, bytes};
}

void explain_growth_take(struct growth *g, const struct gs_node_snapshot *node)
{
	char name[GS_EXPLAIN_NAME_BYTES];

	explain_growth_add(g, node->name, 0, "", node->time_ns,
			   (double)node->host->sample.mem_used_bytes);
	for (uint32_t i = 0; i < node->gpu->n_gpus; i++) {
		explain_name_gpu(node, i, name);
		explain_growth_add(g, name, 0, "", node->time_ns, /* NAN is not taken */
				   gs_gpu_value(&node->gpu->sample[i], GS_GPU_MEM_USED));
	}
	for (uint32_t i = 0; i < node->host->n_processes; i++) {
		const struct gs_host_process *p = &node->host->process[i];

		if (!(p->flags & GS_HOST_PROCESS_ANCESTOR))
			explain_growth_add(g, node->name, p->pid, p->comm, node->time_ns,
					   (double)p->rss_bytes);
	}
	for (uint32_t i = 0; i < node->gpu->n_processes; i++) {
		const struct gs_gpu_process *p = &node->gpu->process[i];

		if (p->ended || p->gpu >= node->gpu->n_gpus)
			continue;
		explain_name_gpu(node, p->gpu, name);
		explain_growth_add(g, name, p->pid, p->comm, node->time_ns, (double)p->used_bytes);
	}
}

/* What it held at that time: the last point until then. One that came later held nothing. */
static double bytes_at(const struct holder *h, uint64_t time_ns)
{
	double bytes = 0;

	for (uint32_t i = 0; i < h->n_points && h->points[i].time_ns <= time_ns; i++)
		bytes = h->points[i].bytes;
	return bytes;
}

/* Which process has most of what was added between the two times to all that is in use; or, from 0 on, most of what
 * processes hold then: what a driver keeps for itself says nothing about them. NULL: none has, another has as much, or it is not known. */
static const struct holder *find_most(const struct growth *g, const char *of, uint64_t from_ns,
				      uint64_t to_ns, double *ret_bytes, double *ret_share)
{
	const struct holder *found = NULL;
	double all = 0, most = 0, second = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		const struct holder *h = g->holders[i];
		double bytes = bytes_at(h, to_ns) - (from_ns ? bytes_at(h, from_ns) : 0);

		/* One that has gone gave back what it held. */
		if (strcmp(h->of, of) != 0 || to_ns > h->last_ns + 2 * h->spacing_ns)
			continue;
		if (!h->pid == (from_ns != 0))
			all += bytes;
		if (h->pid && bytes > most) {
			second = most;
			most = bytes;
			found = h;
		} else if (h->pid && bytes > second) {
			second = bytes;
		}
	}
	*ret_bytes = most;
	*ret_share = fmin(1, most / all);
	return all > 0 && most >= EXPLAIN_NAMED_SHARE * all &&
			       most - second > EXPLAIN_CLEAR_SHARE * all
		       ? found
		       : NULL;
}

double explain_growth_of(const struct growth *g, const char *of, uint32_t pid, uint64_t from_ns,
			 uint64_t to_ns)
{
	for (uint32_t i = 0; i < g->n; i++) {
		const struct holder *h = g->holders[i];

		if (h->pid == pid && strcmp(h->of, of) == 0)
			return to_ns > h->last_ns + 2 * h->spacing_ns
				       ? 0
				       : bytes_at(h, to_ns) - bytes_at(h, from_ns);
	}
	return 0;
}

uint32_t explain_growth_find(const struct growth *g, const char *of, uint64_t from_ns,
			     uint64_t to_ns, double *ret_bytes, double *ret_share)
{
	const struct holder *h = find_most(g, of, from_ns, to_ns, ret_bytes, ret_share);

	return h ? h->pid : 0;
}

static void name_holder(struct gs_explain_cause *c, const struct holder *h, double share,
			const struct gs_explain_finding *f, uint64_t until_ns)
{
	c->key = "process";
	c->confidence = share;
	c->judged_ns = until_ns > f->begun.since_ns ? until_ns - f->begun.since_ns : 0;
	c->pid = h->pid;
}

void explain_growth_judge(const struct growth *g, const struct gs_explain_finding *f,
			  uint64_t until_ns, struct gs_explain_cause *ret)
{
	double bytes, share;
	const struct holder *h = find_most(g, f->name, f->begun.since_ns, until_ns, &bytes, &share);
	char more[GS_FMT_BYTES];

	if (!h)
		return;
	name_holder(ret, h, share, f, until_ns);
	snprintf(ret->text, sizeof(ret->text), "%s %u: %s more since then, %.0f %% of the growth",
		 h->comm, h->pid, gs_fmt_bytes(more, (uint64_t)bytes), share * 100);
}

void explain_growth_judge_holder(const struct growth *g, const struct gs_explain_finding *f,
				 uint64_t until_ns, struct gs_explain_cause *ret)
{
	double bytes, share;
	const struct holder *h = find_most(g, f->name, 0, until_ns, &bytes, &share);
	char held[GS_FMT_BYTES];

	if (!h)
		return;
	name_holder(ret, h, share, f, until_ns);
	snprintf(ret->text, sizeof(ret->text), "%s %u holds %s of it", h->comm, h->pid,
		 gs_fmt_bytes(held, (uint64_t)bytes));
}
