/*
 * The cluster as answers see it: a view of it, how each GPU is, and the sums. Looking at ten
 * thousand GPUs costs some milliseconds, so a snapshot is used again while nothing has changed, and for
 * a time in proportion to what it cost: however many ask, looking takes a twentieth of a processor
 * at most.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "server/live/live_int.h"
#include "core/base/clock.h"

#define RANKS 1002 /* of a state: by thousandths of use, at last those whose use is not known */

static const char *const state_names[GS_LIVE_STATES] = {"ok",        "idle",        "degraded",
							"throttled", "unreachable", "failing"};

const char *gs_live_state_name(unsigned state)
{
	return state < GS_LIVE_STATES ? state_names[state] : "unknown";
}

static const enum gs_live_state state_of_health[] = {
	[GS_GPU_HEALTH_OK] = GS_LIVE_OK,
	[GS_GPU_HEALTH_IDLE] = GS_LIVE_IDLE,
	[GS_GPU_HEALTH_DEGRADED] = GS_LIVE_DEGRADED,
	[GS_GPU_HEALTH_THROTTLED] = GS_LIVE_THROTTLED,
	[GS_GPU_HEALTH_FAILING] = GS_LIVE_FAILING,
};

/* Of a node that is silent only what fails is still said: nothing else is known of now. */
static enum gs_live_state state_of(const struct gs_registry_node *n, uint32_t i)
{
	struct gs_gpu_health h;

	gs_gpu_health_judge(n->latest->gpu, i, &h);
	return n->healthy || h.state == GS_GPU_HEALTH_FAILING ? state_of_health[h.state]
							      : GS_LIVE_UNREACHABLE;
}

/* --- sums --- */

static void add_gpu(struct gs_live_sums *s, const struct gs_gpu_sample *v, bool healthy,
		    enum gs_live_state state)
{
	s->n_gpus++;
	s->state[state]++;
	if (!healthy || v->lost)
		return;
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

void gs_live_snapshot_sums(const struct gs_live_snapshot *l, size_t node,
			   struct gs_live_sums *ret_sums)
{
	const struct gs_registry_node *n = gs_registry_view_at(l->view, node);

	*ret_sums = (struct gs_live_sums){0};
	for (uint32_t i = 0; i < gs_live_snapshot_gpus(l, node); i++)
		add_gpu(ret_sums, &n->latest->gpu->sample[i], n->healthy,
			gs_live_snapshot_state(l, node, i));
}

static void add_up(struct gs_live_sums *all, const struct gs_live_sums *s)
{
	all->n_gpus += s->n_gpus;
	all->n_power += s->n_power;
	all->n_util += s->n_util;
	all->power += s->power;
	all->util += s->util;
	all->used += s->used;
	all->total += s->total;
	for (unsigned i = 0; i < GS_LIVE_STATES; i++)
		all->state[i] += s->state[i];
}

/* --- making one --- */

static void snapshot_free(struct gs_live_snapshot *l)
{
	gs_registry_view_unref(&l->view);
	free(l->first);
	free(l->gpu);
	free(l->worst);
	free(l);
}

/* Worst first, of the same state the least used: by counting, not by comparing. */
static int rank_nodes(struct gs_live_snapshot *l)
{
	const size_t n_ranks = (size_t)GS_LIVE_STATES * RANKS;
	GS_FREE uint32_t *end = calloc(n_ranks + 1, sizeof(*end));
	GS_FREE uint16_t *of = malloc((l->all.n_gpus + 1) * sizeof(*of));

	l->worst = malloc((l->all.n_gpus + 1) * sizeof(*l->worst));
	if (!end || !of || !l->worst)
		return -ENOMEM;
	for (size_t i = 0; i < l->all.n_gpus; i++) {
		const struct gs_registry_node *n = gs_registry_view_at(l->view, l->gpu[i].node);
		double util = gs_gpu_value(&n->latest->gpu->sample[l->gpu[i].gpu], GS_GPU_UTIL);
		unsigned use =
			isnan(util) ? RANKS - 1 : (unsigned)(fmin(fmax(util, 0), 1) * (RANKS - 2));

		of[i] = (uint16_t)((GS_LIVE_STATES - 1u - l->gpu[i].state) * RANKS + use);
		end[of[i] + 1]++;
	}
	for (size_t r = 0; r < n_ranks; r++)
		end[r + 1] += end[r];
	for (size_t i = 0; i < l->all.n_gpus; i++)
		l->worst[end[of[i]]++] = (uint32_t)i;
	return 0;
}

static int fill_snapshot(struct gs_live_snapshot *l)
{
	size_t n_gpus = 0;

	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_registry_node *n = gs_registry_view_at(l->view, i);

		l->first[i] = (uint32_t)n_gpus;
		n_gpus += n->latest ? n->latest->gpu->n_gpus : 0;
	}
	l->first[l->n_nodes] = (uint32_t)n_gpus;
	l->gpu = malloc((n_gpus + 1) * sizeof(*l->gpu));
	if (!l->gpu)
		return -ENOMEM;
	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_registry_node *n = gs_registry_view_at(l->view, i);
		struct gs_live_sums s;

		l->n_healthy += n->healthy;
		for (uint32_t g = 0; g < gs_live_snapshot_gpus(l, i); g++)
			l->gpu[l->first[i] + g] = (struct gs_live_snapshot_gpu){
				(uint32_t)i, g, (uint8_t)state_of(n, g)};
		gs_live_snapshot_sums(l, i, &s);
		add_up(&l->all, &s);
	}
	return rank_nodes(l);
}

static struct gs_live_snapshot *build_snapshot(struct gs_live *a)
{
	struct gs_live_snapshot *l = calloc(1, sizeof(*l));
	uint64_t began = gs_clock_mono_ns(), now;

	if (!l)
		return NULL;
	l->refs = 1;
	l->view = gs_registry_view(a->o.cluster);
	l->n_nodes = gs_registry_view_count(l->view);
	l->first = calloc(l->n_nodes + 1, sizeof(*l->first));
	if (!l->view || !l->first || fill_snapshot(l) < 0) {
		snapshot_free(l);
		return NULL;
	}
	now = gs_clock_mono_ns();
	l->until_ns = live_again_until(began, now);
	return l;
}

uint64_t live_again_until(uint64_t began_ns, uint64_t now_ns)
{
	uint64_t again = (now_ns - began_ns) * LIVE_AGAIN;

	return now_ns + (again < LIVE_AGAIN_MAX_NS ? again : LIVE_AGAIN_MAX_NS);
}

/* With the lock held. */
static bool is_good(const struct gs_live *a, uint64_t now_ns)
{
	return a->snapshot &&
	       (now_ns < a->snapshot->until_ns ||
		gs_registry_view_version(a->snapshot->view) == gs_registry_version(a->o.cluster));
}

struct gs_live_snapshot *gs_live_take_snapshot(struct gs_live *a)
{
	struct gs_live_snapshot *l = NULL, *before;

	pthread_mutex_lock(&a->lock);
	before = is_good(a, gs_clock_mono_ns()) ? NULL : gs_take(a->snapshot);
	if (a->snapshot) {
		l = a->snapshot;
		l->refs++;
	}
	pthread_mutex_unlock(&a->lock);
	/* Not beside the new one: each keeps a snapshot of every node in memory. */
	gs_live_snapshot_unref(&before);
	if (l)
		return l;
	l = build_snapshot(a);
	if (!l)
		return NULL;
	l->refs++;
	pthread_mutex_lock(&a->lock);
	before = a->snapshot;
	a->snapshot = l;
	pthread_mutex_unlock(&a->lock);
	gs_live_snapshot_unref(&before);
	return l;
}

void gs_live_snapshot_unref(struct gs_live_snapshot **snapshot)
{
	struct gs_live_snapshot *l = gs_take(*snapshot);

	if (l && --l->refs == 0)
		snapshot_free(l);
}

void live_snapshot_forget(struct gs_live *a)
{
	struct gs_live_snapshot *l = NULL;

	pthread_mutex_lock(&a->lock);
	if (!is_good(a, gs_clock_mono_ns()))
		l = gs_take(a->snapshot);
	pthread_mutex_unlock(&a->lock);
	gs_live_snapshot_unref(&l);
}

void gs_live_client_id(const struct gs_registry_node *n, char *out, size_t bytes)
{
	gs_node_label(n->hostname, n->instance, n->machine_id, n->name_is_shared, out, bytes);
}
