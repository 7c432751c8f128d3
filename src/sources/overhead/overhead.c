#include "sources/overhead/overhead.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/map.h"
#include "core/base/mem.h"

#define MIN_INTERVAL_NS 40e6 /* a shorter one says nothing of the program */
#define IDLE_PART       0.1  /* of a processor: who used less counts as having used that */

struct passed {
	uint64_t hits;
	uint64_t entry_steps, exit_steps;
};

struct func {
	struct passed all, now; /* in the run, in the interval */
	double cost_ns, now_ns; /* likewise */
	uint8_t mode;
	bool pinned;
	_Atomic bool placed;        /* it has probes of its own */
	_Atomic bool kept, watched; /* as struct gs_hit says */
	_Atomic uint8_t kind, n_values, n_texts;
};

/* A thread, a process, or all. */
struct unit {
	uint64_t key;
	double cost_ns, steered_ns, cpu_ns; /* of the interval; steered: what a step may change */
	double left_ns;                     /* of what the limit grants */
};

#define KEY_ALL          0
#define KEY_THREAD(tid)  (1ull << 32 | (tid))
#define KEY_PROCESS(pid) (2ull << 32 | (pid))

struct gs_overhead {
	struct gs_costs costs;
	double max_ratio;
	struct func func[GS_FUNC_MAX];
	struct unit units[GS_OVERHEAD_MAX_UNITS + 1]; /* the first: all */
	size_t n_units;
	struct gs_map unit_of; /* key -> index */
	uint64_t last_ns;
	double cost_ns, cpu_ns; /* of the run */
};

struct gs_overhead *gs_overhead_new(const struct gs_costs *costs, double max_ratio)
{
	struct gs_overhead *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->costs = *costs;
	b->max_ratio = max_ratio;
	b->unit_of = GS_MAP_INIT(GS_OVERHEAD_MAX_UNITS);
	b->units[0].left_ns = max_ratio * GS_OVERHEAD_BURST_NS;
	b->n_units = 1;
	return b;
}

void gs_overhead_free(struct gs_overhead **budget)
{
	if (*budget)
		gs_map_fini(&(*budget)->unit_of);
	free(*budget);
	*budget = NULL;
}

void gs_overhead_pin(struct gs_overhead *b, unsigned func)
{
	if (func < GS_FUNC_MAX)
		b->func[func].pinned = true;
}

static void raise_to(_Atomic uint8_t *to, uint8_t value)
{
	if (value > atomic_load_explicit(to, memory_order_relaxed))
		atomic_store_explicit(to, value, memory_order_relaxed);
}

void gs_overhead_place(struct gs_overhead *b, unsigned func, const struct gs_hit *hit)
{
	struct func *f;

	if (func >= GS_FUNC_MAX)
		return;
	f = &b->func[func];
	atomic_store_explicit(&f->placed, true, memory_order_relaxed);
	if (hit->is_kept)
		atomic_store_explicit(&f->kept, true, memory_order_relaxed);
	if (hit->is_watched)
		atomic_store_explicit(&f->watched, true, memory_order_relaxed);
	raise_to(&f->kind, (uint8_t)hit->kind);
	raise_to(&f->n_values, hit->n_values);
	raise_to(&f->n_texts, hit->n_texts);
}

/* Of a hit, without its single steps. */
static double cost_of_hit(const struct gs_overhead *b, const struct func *f, unsigned mode)
{
	const struct gs_costs *p = &b->costs;
	double ns;

	if (f->watched)
		mode = GS_MODE_COUNT;
	ns = p->ns[f->kind][mode];
	if (mode == GS_MODE_OFF)
		return 0;
	if (mode <= GS_MODE_AGGREGATE)
		ns += f->n_values * p->value_ns + f->n_texts * p->text_ns;
	return ns;
}

/* Of so many hits and single steps in a mode. */
static double cost_in(const struct gs_overhead *b, const struct func *f, unsigned mode,
		      const struct passed *p)
{
	/* Where a function is left that is only counted there is no probe any more. */
	uint64_t steps = p->entry_steps + (mode < GS_MODE_COUNT ? p->exit_steps : 0);

	if (mode == GS_MODE_OFF)
		return 0;
	return (double)p->hits * cost_of_hit(b, f, mode) + (double)steps * b->costs.step_ns;
}

static void add_passed(struct passed *to, const struct gs_overhead_hits *h)
{
	to->hits += h->traced + h->counted;
	to->entry_steps += h->stepped;
	to->exit_steps += h->stepped_exits;
}

double gs_overhead_func_cost_in(const struct gs_overhead *b, unsigned func, enum gs_mode mode)
{
	const struct func *f = func < GS_FUNC_MAX ? &b->func[func] : NULL;

	return f ? cost_in(b, f, mode, &f->all) : 0;
}

/* The unit's place; NULL: there is no more room. */
static struct unit *unit_get(struct gs_overhead *b, uint64_t key)
{
	uint64_t i = 0;

	if (key == KEY_ALL || gs_map_get(&b->unit_of, key, &i))
		return &b->units[i];
	if (b->n_units > GS_OVERHEAD_MAX_UNITS || gs_map_put(&b->unit_of, key, b->n_units) < 0)
		return NULL;
	b->units[b->n_units] =
		(struct unit){.key = key, .left_ns = b->max_ratio * GS_OVERHEAD_BURST_NS};
	return &b->units[b->n_units++];
}

static void charge_unit(struct gs_overhead *b, uint64_t key, double cost_ns, double steered_ns,
			double cpu_ns)
{
	struct unit *u = unit_get(b, key);

	if (!u)
		return;
	u->cost_ns += cost_ns;
	u->steered_ns += steered_ns;
	u->cpu_ns += cpu_ns;
}

void gs_overhead_add_hits(struct gs_overhead *b, const struct gs_overhead_hits *h)
{
	struct func *f;
	double cost, exits, steered;

	if (h->func >= GS_FUNC_MAX)
		return;
	f = &b->func[h->func];
	/* Those of a sample are added up. */
	cost = (double)h->traced *
		       cost_of_hit(b, f,
				   f->mode == GS_MODE_EVENTS ? GS_MODE_EVENTS : GS_MODE_AGGREGATE) +
	       (double)h->counted * cost_of_hit(b, f, GS_MODE_COUNT) +
	       (double)h->stepped * b->costs.step_ns;
	exits = (double)h->stepped_exits * b->costs.step_ns;
	/* Those of a function that is only counted are being taken off. */
	steered = f->mode == GS_MODE_OFF ? 0 : f->mode == GS_MODE_COUNT ? cost : cost + exits;
	cost += exits;
	add_passed(&f->all, h);
	add_passed(&f->now, h);
	f->cost_ns += cost;
	f->now_ns += steered;
	b->cost_ns += cost;
	charge_unit(b, KEY_ALL, cost, steered, 0);
	charge_unit(b, KEY_PROCESS(h->pid), cost, steered, 0);
	charge_unit(b, KEY_THREAD(h->tid), cost, steered, 0);
}

void gs_overhead_add_cpu(struct gs_overhead *b, uint32_t pid, uint32_t tid, uint64_t cpu_ns)
{
	double ns = (double)cpu_ns;

	b->cpu_ns += ns;
	charge_unit(b, KEY_ALL, 0, 0, ns);
	charge_unit(b, KEY_PROCESS(pid), 0, 0, ns);
	charge_unit(b, KEY_THREAD(tid), 0, 0, ns);
}

/* The mode below which the function does not go. */
static unsigned lowest_mode(const struct func *f)
{
	if (f->pinned || f->watched)
		return f->mode;
	return f->placed && !f->kept ? GS_MODE_OFF : GS_MODE_COUNT;
}

/* The function that costs most of those that can go down; 0: none. */
static unsigned find_costliest(const struct gs_overhead *b)
{
	unsigned best = 0;

	for (unsigned i = 1; i < GS_FUNC_MAX; i++) {
		const struct func *f = &b->func[i];

		if (f->now.hits && f->mode < lowest_mode(f) &&
		    (!best || f->now_ns > b->func[best].now_ns))
			best = i;
	}
	return best;
}

static void step_down(struct gs_overhead *b, double ratio, double elapsed_ns,
		      void (*step)(void *, const struct gs_overhead_step *), void *ctx)
{
	uint8_t before[GS_FUNC_MAX];
	double cost[GS_FUNC_MAX] = {0};
	double all_ns = 0, left_ns;
	unsigned i;

	for (i = 1; i < GS_FUNC_MAX; i++) {
		before[i] = b->func[i].mode;
		cost[i] = b->func[i].now_ns;
		all_ns += cost[i];
	}
	left_ns = all_ns;
	/* The largest share goes down as the sum of all does. */
	while (left_ns * ratio > all_ns * b->max_ratio && (i = find_costliest(b)) != 0) {
		struct func *f = &b->func[i];
		double then;

		f->mode++;
		then = cost_in(b, f, f->mode, &f->now);
		left_ns -= f->now_ns - then;
		f->now_ns = then;
	}
	for (i = 1; i < GS_FUNC_MAX; i++) {
		struct gs_overhead_step s = {.func = i, .mode = b->func[i].mode};

		if (b->func[i].mode == before[i])
			continue;
		s.hits_per_s = (double)b->func[i].now.hits * 1e9 / elapsed_ns;
		s.ratio = all_ns > 0 ? ratio * cost[i] / all_ns : 0;
		step(ctx, &s);
	}
}

static double share_of(double cost_ns, double time_ns)
{
	return cost_ns >= time_ns ? cost_ns > 0 : cost_ns / time_ns;
}

/* Takes the interval from what the unit may spend; returns by which share it has overspent, 0: it
 * has not. decides: steps are made for that; else it goes on owing what it has overspent. */
static double settle_unit(struct gs_overhead *b, struct unit *u, double time_ns, bool decides)
{
	double most_ns = b->max_ratio * GS_OVERHEAD_BURST_NS;

	u->left_ns += b->max_ratio * time_ns - u->steered_ns;
	if (u->left_ns > most_ns)
		u->left_ns = most_ns;
	if (u->left_ns >= 0 || !decides)
		return 0;
	u->left_ns = b->max_ratio * GS_OVERHEAD_AGAIN_NS;
	return share_of(u->steered_ns, time_ns);
}

/* A new interval. Units that may spend all that can be granted are as new ones. */
static void start_interval(struct gs_overhead *b)
{
	size_t n = 1;

	gs_map_fini(&b->unit_of);
	b->unit_of = GS_MAP_INIT(GS_OVERHEAD_MAX_UNITS);
	for (size_t i = 0; i < b->n_units; i++) {
		struct unit *u = &b->units[i];

		u->cost_ns = u->steered_ns = u->cpu_ns = 0;
		if (i == 0 || u->left_ns >= b->max_ratio * GS_OVERHEAD_BURST_NS)
			continue;
		if (gs_map_put(&b->unit_of, u->key, n) == 0)
			b->units[n++] = *u;
	}
	b->n_units = n;
	for (unsigned i = 0; i < GS_FUNC_MAX; i++) {
		b->func[i].now = (struct passed){0};
		b->func[i].now_ns = 0;
	}
}

void gs_overhead_tick(struct gs_overhead *b, uint64_t now_ns, double *ret_ratio,
		      void (*step)(void *, const struct gs_overhead_step *), void *ctx)
{
	double elapsed_ns = b->last_ns ? (double)(now_ns - b->last_ns) : 0, over = 0;
	bool decides = step && b->max_ratio > 0 && elapsed_ns >= MIN_INTERVAL_NS;

	*ret_ratio = 0;
	for (size_t i = 0; elapsed_ns > 0 && i < b->n_units; i++) {
		struct unit *u = &b->units[i];
		double time_ns = IDLE_PART * elapsed_ns, ratio;

		if (u->cpu_ns > time_ns)
			time_ns = u->cpu_ns;
		ratio = share_of(u->cost_ns, time_ns);
		if (ratio > *ret_ratio)
			*ret_ratio = ratio;
		ratio = settle_unit(b, u, time_ns, decides);
		if (ratio > over)
			over = ratio;
	}
	if (over > b->max_ratio)
		step_down(b, over, elapsed_ns, step, ctx);
	b->last_ns = now_ns;
	start_interval(b);
}

enum gs_mode gs_overhead_mode(const struct gs_overhead *b, unsigned func)
{
	return func < GS_FUNC_MAX ? b->func[func].mode : GS_MODE_EVENTS;
}

bool gs_overhead_is_watched(const struct gs_overhead *b, unsigned func)
{
	return func < GS_FUNC_MAX && b->func[func].watched;
}

uint64_t gs_overhead_func_hits(const struct gs_overhead *b, unsigned func)
{
	return func < GS_FUNC_MAX ? b->func[func].all.hits : 0;
}

uint64_t gs_overhead_func_steps(const struct gs_overhead *b, unsigned func)
{
	const struct passed *p = func < GS_FUNC_MAX ? &b->func[func].all : NULL;

	return p ? p->entry_steps + p->exit_steps : 0;
}

double gs_overhead_func_cost_ns(const struct gs_overhead *b, unsigned func)
{
	return func < GS_FUNC_MAX ? b->func[func].cost_ns : 0;
}

double gs_overhead_mean_ratio(const struct gs_overhead *b)
{
	return b->cpu_ns < GS_OVERHEAD_MEAN_CPU_NS ? -1 : share_of(b->cost_ns, b->cpu_ns);
}
