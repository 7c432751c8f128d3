#include "budget/budget.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

#define MIN_INTERVAL_NS 50e6 /* a shorter one says nothing of the program */

struct func {
	uint64_t hits;     /* of the run */
	double cost_ns;    /* likewise */
	uint64_t now_hits; /* of the interval */
	double now_ns;
	uint8_t mode;
	bool pinned;
	_Atomic bool placed; /* it has probes of its own */
	_Atomic uint8_t kind, entry_stepped, exit_stepped, n_values, n_texts;
};

struct gs_budget {
	struct gs_prices prices;
	double max_ratio;
	struct func func[GS_FUNC_MAX];
	struct gs_map threads;                        /* tid -> index + 1 */
	double thread_ns[GS_BUDGET_MAX_THREADS + 1];  /* of the interval; the first: all others */
	double steered_ns[GS_BUDGET_MAX_THREADS + 1]; /* of these, what a step may change */
	uint64_t start_ns, last_ns;
	double spent_ns, worst_ratio;
};

struct gs_budget *gs_budget_new(const struct gs_prices *prices, double max_ratio)
{
	struct gs_budget *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->prices = *prices;
	b->max_ratio = max_ratio;
	b->threads = GS_MAP_INIT(GS_BUDGET_MAX_THREADS);
	return b;
}

void gs_budget_free(struct gs_budget **budget)
{
	if (*budget)
		gs_map_fini(&(*budget)->threads);
	free(*budget);
	*budget = NULL;
}

void gs_budget_pin(struct gs_budget *b, unsigned func)
{
	if (func < GS_FUNC_MAX)
		b->func[func].pinned = true;
}

static void raise_to(_Atomic uint8_t *to, uint8_t value)
{
	if (value > atomic_load_explicit(to, memory_order_relaxed))
		atomic_store_explicit(to, value, memory_order_relaxed);
}

void gs_budget_place(struct gs_budget *b, unsigned func, const struct gs_hit *hit)
{
	struct func *f;

	if (func >= GS_FUNC_MAX)
		return;
	f = &b->func[func];
	atomic_store_explicit(&f->placed, true, memory_order_relaxed);
	raise_to(&f->kind, (uint8_t)hit->kind);
	raise_to(hit->is_exit ? &f->exit_stepped : &f->entry_stepped, hit->is_stepped);
	raise_to(&f->n_values, hit->n_values);
	raise_to(&f->n_texts, hit->n_texts);
}

bool gs_budget_is_stepped(const struct gs_budget *b, unsigned func)
{
	return func < GS_FUNC_MAX && (b->func[func].entry_stepped || b->func[func].exit_stepped);
}

static double price(const struct gs_budget *b, const struct func *f, unsigned mode)
{
	const struct gs_prices *p = &b->prices;
	double ns = p->ns[f->kind][mode];

	if (mode == GS_MODE_OFF)
		return 0;
	ns += f->entry_stepped * p->step_ns;
	/* Where a counted operator or Python function is left there is no probe any more. */
	if ((f->kind != GS_PRICE_SCOPE && f->kind != GS_PRICE_PYTHON) || mode != GS_MODE_COUNT)
		ns += f->exit_stepped * p->step_ns;
	if (mode <= GS_MODE_AGGREGATE)
		ns += f->n_values * p->value_ns + f->n_texts * p->text_ns;
	return ns;
}

double gs_budget_price_ns(const struct gs_budget *b, unsigned func, enum gs_mode mode)
{
	return func < GS_FUNC_MAX ? price(b, &b->func[func], mode) : 0;
}

/* What calls cost that are traced in this mode (those of a sample: added up). */
static double traced_price(const struct gs_budget *b, const struct func *f)
{
	return price(b, f, f->mode == GS_MODE_EVENTS ? GS_MODE_EVENTS : GS_MODE_AGGREGATE);
}

void gs_budget_hits(struct gs_budget *b, uint32_t tid, unsigned func, uint64_t traced,
		    uint64_t counted)
{
	struct func *f;
	uint64_t i = 0;
	double cost;

	if (func >= GS_FUNC_MAX)
		return;
	f = &b->func[func];
	cost = (double)traced * traced_price(b, f) + (double)counted * price(b, f, GS_MODE_COUNT);
	f->hits += traced + counted;
	f->now_hits += traced + counted;
	f->cost_ns += cost;
	f->now_ns += f->mode == GS_MODE_OFF ? 0 : cost;
	if (!gs_map_get(&b->threads, tid, &i)) {
		i = b->threads.n_used + 1;
		if (gs_map_put(&b->threads, tid, i) < 0)
			i = 0;
	}
	b->thread_ns[i] += cost;
	b->steered_ns[i] += f->mode == GS_MODE_OFF ? 0 : cost;
}

/* What the same hits would cost in a mode. */
static double cost_in(const struct gs_budget *b, const struct func *f, unsigned mode)
{
	return (double)f->now_hits * price(b, f, mode);
}

/* The dearest function that can go down; 0: none. */
static unsigned dearest(const struct gs_budget *b)
{
	unsigned best = 0;

	for (unsigned i = 1; i < GS_FUNC_MAX; i++) {
		const struct func *f = &b->func[i];

		if (f->now_hits && !f->pinned &&
		    f->mode < (f->placed ? GS_MODE_OFF : GS_MODE_COUNT) &&
		    (!best || f->now_ns > b->func[best].now_ns))
			best = i;
	}
	return best;
}

static void step_down(struct gs_budget *b, double ratio, double elapsed_ns,
		      void (*step)(void *, const struct gs_budget_step *), void *ctx)
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
	/* The busiest thread's share goes down as the sum of all does. */
	while (left_ns * ratio > all_ns * b->max_ratio && (i = dearest(b)) != 0) {
		struct func *f = &b->func[i];
		double then;

		f->mode++;
		then = cost_in(b, f, f->mode);
		left_ns -= f->now_ns - then;
		f->now_ns = then;
	}
	for (i = 1; i < GS_FUNC_MAX; i++) {
		struct gs_budget_step s = {.func = i, .mode = b->func[i].mode};

		if (b->func[i].mode == before[i])
			continue;
		s.hits_per_s = (double)b->func[i].now_hits * 1e9 / elapsed_ns;
		s.ratio = all_ns > 0 ? ratio * cost[i] / all_ns : 0;
		step(ctx, &s);
	}
}

void gs_budget_tick(struct gs_budget *b, uint64_t now_ns, double *ret_ratio,
		    void (*step)(void *, const struct gs_budget_step *), void *ctx)
{
	double elapsed_ns = b->last_ns ? (double)(now_ns - b->last_ns) : 0, busiest_ns = 0, ratio;
	double steered_ns = 0;

	*ret_ratio = 0;
	if (!b->last_ns) /* hits from before the clock are of no interval */
		b->start_ns = now_ns;
	for (unsigned i = 0; i <= b->threads.n_used; i++) {
		if (b->thread_ns[i] > busiest_ns)
			busiest_ns = b->thread_ns[i];
		if (b->steered_ns[i] > steered_ns)
			steered_ns = b->steered_ns[i];
	}
	if (elapsed_ns > 0) {
		ratio = *ret_ratio = busiest_ns / elapsed_ns;
		b->spent_ns += busiest_ns;
		if (elapsed_ns >= MIN_INTERVAL_NS && ratio > b->worst_ratio)
			b->worst_ratio = ratio;
		if (step && elapsed_ns >= MIN_INTERVAL_NS && b->max_ratio > 0 &&
		    steered_ns > elapsed_ns * b->max_ratio)
			step_down(b, steered_ns / elapsed_ns, elapsed_ns, step, ctx);
	}
	b->last_ns = now_ns;
	memset(b->thread_ns, 0, sizeof(b->thread_ns));
	memset(b->steered_ns, 0, sizeof(b->steered_ns));
	gs_map_fini(&b->threads);
	b->threads = GS_MAP_INIT(GS_BUDGET_MAX_THREADS);
	for (unsigned i = 0; i < GS_FUNC_MAX; i++) {
		b->func[i].now_hits = 0;
		b->func[i].now_ns = 0;
	}
}

enum gs_mode gs_budget_mode(const struct gs_budget *b, unsigned func)
{
	return func < GS_FUNC_MAX ? b->func[func].mode : GS_MODE_EVENTS;
}

uint64_t gs_budget_func_hits(const struct gs_budget *b, unsigned func)
{
	return func < GS_FUNC_MAX ? b->func[func].hits : 0;
}

double gs_budget_func_cost_ns(const struct gs_budget *b, unsigned func)
{
	return func < GS_FUNC_MAX ? b->func[func].cost_ns : 0;
}

double gs_budget_worst_ratio(const struct gs_budget *b)
{
	return b->worst_ratio;
}

double gs_budget_mean_ratio(const struct gs_budget *b)
{
	return b->last_ns > b->start_ns ? b->spent_ns / (double)(b->last_ns - b->start_ns) : 0;
}
