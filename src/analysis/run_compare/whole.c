/*
 * Runs without steps: how long the whole commands ran, and where the thread that set the pace spent that. A run is one
 * value here, so only several runs on a side show how much equal runs differ; of one on each side the difference is
 * given, and nothing is claimed of it.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/run_compare/run_compare_int.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/account.h"

void run_compare_set_whole(struct gs_run_compare_run *run, const struct gs_summary *whole)
{
	/* A command that ended by itself: any other run is as long as it was watched. */
	run->whole.duration_ns =
		whole->complete && whole->exit_status >= 0 ? whole->duration_ns : 0;
	for (size_t i = 0; i < whole->account.n_threads; i++) {
		const struct gs_account_thread *t = &whole->account.threads[i];

		if (!t->critical)
			continue;
		gs_account_parts(t->time_ns, run->whole.part_ns);
		run->whole.has_account = true;
	}
}

const struct gs_run_compare_run *
run_compare_without_whole(const struct gs_run_compare_run *const *runs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!runs[i]->whole.duration_ns)
			return runs[i];
	return NULL;
}

/* part: GS_PART_COUNT is the whole duration. */
static struct run_estimate estimate_side(const struct gs_run_compare_run *const *runs, size_t n,
					 const struct gs_run_compare_run *const *other,
					 size_t n_other, unsigned part,
					 struct run_estimate *scratch)
{
	for (size_t i = 0; i < n + n_other; i++) {
		const struct run_whole *w = i < n ? &runs[i]->whole : &other[i - n]->whole;
		uint64_t ns = part == GS_PART_COUNT ? w->duration_ns : w->part_ns[part];

		/* Of one run alone nothing says how sure it is. */
		scratch[i] = (struct run_estimate){(double)ns, NAN, INFINITY};
	}
	return run_compare_combine(scratch, n, scratch + n, n_other);
}

static int add_part(struct gs_run_compare_result *c, size_t *capacity, unsigned part,
		    struct run_estimate *scratch)
{
	struct run_estimate b =
		estimate_side(c->base, c->n_base, c->changed, c->n_changed, part, scratch);
	struct run_estimate n =
		estimate_side(c->changed, c->n_changed, c->base, c->n_base, part, scratch);
	struct gs_run_compare_item *item;

	if (b.mean <= 0 && n.mean <= 0)
		return 0;
	if (!gs_vec_reserve(&c->items, capacity, c->n_items + 1))
		return -ENOMEM;
	item = &c->items[c->n_items++];
	*item = (struct gs_run_compare_item){.kind = GS_RUN_COMPARE_WHOLE,
					     .name = gs_account_part_title(part),
					     .base_ns = b.mean,
					     .changed_ns = n.mean,
					     .ns = run_compare_subtract(n, b),
					     .share = NAN};
	if (c->whole.verdict == GS_RUN_COMPARE_SLOWER || c->whole.verdict == GS_RUN_COMPARE_FASTER)
		item->share = item->ns.mean / (c->whole.changed_ns - c->whole.base_ns);
	return 0;
}

static void compare_durations(struct gs_run_compare_result *c, struct run_estimate *scratch)
{
	struct run_estimate b =
		estimate_side(c->base, c->n_base, c->changed, c->n_changed, GS_PART_COUNT, scratch);
	struct run_estimate n =
		estimate_side(c->changed, c->n_changed, c->base, c->n_base, GS_PART_COUNT, scratch);

	c->whole.base_ns = b.mean;
	c->whole.changed_ns = n.mean;
	c->whole.percent = run_compare_percent(b, n);
	if (isnan(c->whole.percent.plus_minus))
		c->whole.verdict = GS_RUN_COMPARE_UNKNOWN;
	else if (fabs(c->whole.percent.mean) <= c->whole.percent.plus_minus)
		c->whole.verdict = GS_RUN_COMPARE_SAME;
	else
		c->whole.verdict =
			c->whole.percent.mean > 0 ? GS_RUN_COMPARE_SLOWER : GS_RUN_COMPARE_FASTER;
}

int run_compare_whole(struct gs_run_compare_result *c)
{
	GS_FREE struct run_estimate *scratch = calloc(c->n_base + c->n_changed, sizeof(*scratch));
	bool has_account = true;
	size_t capacity = 0;
	int r = 0;

	if (!scratch)
		return -ENOMEM;
	c->whole.is_known = true;
	compare_durations(c, scratch);
	for (size_t i = 0; i < c->n_base + c->n_changed; i++)
		has_account &=
			(i < c->n_base ? c->base[i] : c->changed[i - c->n_base])->whole.has_account;
	for (unsigned part = 0; r == 0 && has_account && part < GS_PART_COUNT; part++)
		r = add_part(c, &capacity, part, scratch);
	return r;
}

void run_compare_put_whole(const struct gs_run_compare_result *c, char *out, size_t bytes)
{
	const struct gs_run_compare_item *part = c->cause[GS_RUN_COMPARE_WHOLE];
	double percent = c->whole.percent.mean, wide = c->whole.percent.plus_minus;
	char base[GS_FMT_BYTES], now[GS_FMT_BYTES], place[160] = "";

	*out = '\0';
	if (!c->whole.is_known)
		return;
	gs_fmt_ns(base, (uint64_t)c->whole.base_ns);
	gs_fmt_ns(now, (uint64_t)c->whole.changed_ns);
	if (c->whole.verdict == GS_RUN_COMPARE_UNKNOWN) {
		snprintf(
			out, bytes,
			"the whole run took %s, the base %s (%+.1f %%): one run on each side does not show how much equal runs differ; ",
			now, base, percent);
		return;
	}
	if (c->whole.verdict == GS_RUN_COMPARE_SAME) {
		snprintf(out, bytes,
			 "no difference shown of whole runs: %s and %s, %+.1f %% ± %.1f", base, now,
			 percent, wide);
		return;
	}
	if (part)
		snprintf(place, sizeof(place), ", %.0f %% of it: %s", fmin(part->share, 1) * 100,
			 part->name);
	snprintf(out, bytes, "whole runs %.1f %% ± %.1f %s (%s, base %s)%s; ", fabs(percent), wide,
		 percent > 0 ? "slower" : "faster", now, base, place);
}
