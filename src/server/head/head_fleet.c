/* Jobs over many nodes: RANK records of traces go to analysis/fleet, what it finds goes into the store. */
#include "server/head/head_int.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "analysis/fleet/clocks.h"
#include "analysis/fleet/fleet.h"
#include "core/base/clock.h"
#include "server/finding/finding.h"

#define EVERY_NS 1000000000ull

struct head_fleet {
	struct gs_head *head;
	uint64_t run; /* random, of this start */
	uint64_t ticked_ns;
	pthread_mutex_t lock; /* what follows */
	struct gs_fleet *fleet;
};

int head_fleet_start(struct gs_head *h, struct gs_err *err)
{
	struct head_fleet *f = calloc(1, sizeof(*f));

	if (f)
		f->fleet = gs_fleet_new();
	if (!f || !f->fleet) {
		free(f);
		return gs_err_set(err, -ENOMEM, "no memory");
	}
	pthread_mutex_init(&f->lock, NULL);
	f->head = h;
	h->fleet = f;
	if (getrandom(&f->run, sizeof(f->run), 0) != (ssize_t)sizeof(f->run))
		return gs_err_set(err, -EIO, "cannot read random numbers");
	return 0;
}

void head_fleet_stop(struct gs_head *h)
{
	if (!h->fleet)
		return;
	gs_fleet_free(&h->fleet->fleet);
	pthread_mutex_destroy(&h->fleet->lock);
	gs_free_p(&h->fleet);
}

void head_fleet_take(struct gs_head_stream *s, const struct gs_batch *records, int64_t offset_ns)
{
	const struct gs_fleet_source source = {
		.node = s->node_id,
		.name = s->node.hostname,
		.offset_ns = offset_ns,
		.error_ns = s->best_at_ns
				    ? gs_fleet_clock_aged_error(s->best_trip_ns / 2,
								gs_clock_mono_ns() - s->best_at_ns)
				    : (uint64_t)GS_FLEET_UNKNOWN_NS,
	};
	struct head_fleet *f = s->head->fleet;
	int64_t now_ns = (int64_t)gs_clock_wall_ns();

	/* What has no place is counted there. */
	gs_records_for_each (records, r) {
		if (r->kind != GS_REC_RANK && r->kind != GS_REC_RANK_STAY &&
		    r->kind != GS_REC_RANK_STEPS)
			continue;
		pthread_mutex_lock(&f->lock);
		if (r->kind == GS_REC_RANK)
			(void)gs_fleet_take(f->fleet, &source, (const void *)r, now_ns);
		else if (r->kind == GS_REC_RANK_STAY)
			(void)gs_fleet_take_stay(f->fleet, &source, (const void *)r);
		else
			(void)gs_fleet_take_steps(f->fleet, &source, (const void *)r);
		pthread_mutex_unlock(&f->lock);
	}
}

int gs_head_steps(struct gs_head *h, const char *job, uint32_t max_ranks,
		  void (*fn)(void *ctx, const struct gs_fleet_steps *steps), void *ctx)
{
	int r;

	pthread_mutex_lock(&h->fleet->lock);
	r = gs_fleet_each_steps(h->fleet->fleet, job, max_ranks, fn, ctx);
	pthread_mutex_unlock(&h->fleet->lock);
	return r;
}

void head_fleet_counts(struct gs_head *h, struct gs_fleet_counts *ret_counts)
{
	pthread_mutex_lock(&h->fleet->lock);
	gs_fleet_counts(h->fleet->fleet, ret_counts);
	pthread_mutex_unlock(&h->fleet->lock);
}

void gs_head_holding(struct gs_head *h,
		     void (*fn)(void *ctx, const struct gs_store_finding *finding), void *ctx)
{
	pthread_mutex_lock(&h->fleet->lock);
	gs_finding_each_holding(h->fleet->fleet, h->fleet->run, fn, ctx);
	pthread_mutex_unlock(&h->fleet->lock);
}

/* --- into the store --- */

struct changes {
	struct gs_head *head;
	uint64_t run;
	size_t n;
	struct gs_fleet_finding findings[];
};

static void store_changes(void *arg, struct gs_store *store)
{
	struct changes *c = arg;
	int r = store ? gs_store_begin(store) : 0;

	for (size_t i = 0; store && r == 0 && i < c->n; i++)
		r = gs_finding_store(store, c->run, &c->findings[i]);
	if (store && r == 0)
		r = gs_store_commit(store);
	if (r < 0) {
		gs_store_rollback(store);
		head_log(c->head, "cannot store %zu findings: %s (%s)", c->n, strerror(-r),
			 gs_store_trouble(store));
	}
	free(c);
}

/* Once when it begins, and once when it ends. */
static void report_change(struct gs_head *h, const struct gs_fleet_finding *f)
{
	char text[GS_FLEET_TEXT_BYTES];

	head_log(h, "%s%s%s%s", f->job[0] ? "job " : "", f->job, f->end_ns ? ": over: " : ": ",
		 gs_fleet_text(f, text));
}

void head_fleet_tick(struct gs_head *h)
{
	struct head_fleet *f = h->fleet;
	uint64_t now_ns = gs_clock_mono_ns();
	const struct gs_fleet_finding *found;
	struct changes *c;

	if (f->ticked_ns && now_ns - f->ticked_ns < EVERY_NS)
		return;
	c = malloc(sizeof(*c) + GS_FLEET_MAX_FINDINGS * sizeof(c->findings[0]));
	if (!c)
		return; /* next time */
	*c = (struct changes){.head = h, .run = f->run};
	f->ticked_ns = now_ns;
	pthread_mutex_lock(&f->lock);
	gs_fleet_tick(f->fleet, (int64_t)gs_clock_wall_ns());
	while (c->n < GS_FLEET_MAX_FINDINGS && (found = gs_fleet_next(f->fleet)))
		c->findings[c->n++] = *found;
	pthread_mutex_unlock(&f->lock);
	for (size_t i = 0; i < c->n; i++)
		report_change(h, &c->findings[i]);
	if (!c->n || gs_head_write(h, store_changes, c) < 0)
		free(c);
}
