/*
 * Two sides, each of one run or several: how much longer a step of the one takes, and where. A place is
 * named when it makes half of the difference or more, and when its own difference is surer than its
 * interval. Of calls that hold each other the innermost is named. Where no place makes half, or no
 * difference is shown, none is named.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run_compare/run_compare_int.h"
#include "core/base/fmt.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/trace/account.h"
#include "model/trace/record.h"

#define NAMED_SHARE 0.5
#define MOST_SHARE  1.5 /* more cannot be: it is time of something else */
#define ALIKE_SHARE 0.8 /* of the largest share: one of several that hold each other */
#define ALL_SHARE   0.995
#define COST_PPM    10000 /* of processor time: tracing that costs more in one run is noted */

struct pair {                    /* what an item is in each run of a side */
	struct run_estimate *ns; /* of each run; lent */
	double calls;
};

static void add_note(struct gs_run_compare_result *c, const char *fmt, ...) GS_PRINTF(2, 3);

static void add_note(struct gs_run_compare_result *c, const char *fmt, ...)
{
	va_list args;

	if (c->n_notes == GS_RUN_COMPARE_NOTES)
		return;
	va_start(args, fmt);
	vsnprintf(c->notes[c->n_notes++], GS_RUN_COMPARE_NOTE_BYTES, fmt, args);
	va_end(args);
}

static double mean_calls(const struct run_item *item, const struct gs_run_compare_run *run)
{
	unsigned n_blocks = run_compare_is_gpu(item->kind) ? run->gpu.n_blocks : run->n_blocks;
	double sum = 0;

	for (unsigned i = 0; i < n_blocks; i++)
		sum += item->calls[i] / n_blocks;
	return sum;
}

/* What the item is in all runs of a side; where a run has none of it, it took no time. */
static void estimate_item(const struct gs_run_compare_run *const *runs, size_t n,
			  const struct gs_run_compare_item *of, struct pair *ret)
{
	static const double none[GS_RUN_COMPARE_BLOCKS];

	ret->calls = 0;
	for (size_t i = 0; i < n; i++) {
		const struct run_item *item = run_compare_find_item(runs[i], of->kind, of->name);

		if (run_compare_is_gpu(of->kind))
			ret->ns[i] = run_compare_estimate(item ? item->ns : none, runs[i]->gpu.kept,
							  runs[i]->gpu.n_blocks);
		else
			ret->ns[i] = run_compare_estimate(item ? item->ns : none, runs[i]->kept,
							  runs[i]->n_blocks);
		if (item && item->spread_unknown)
			ret->ns[i].variance = NAN;
		ret->calls += item ? mean_calls(item, runs[i]) / (double)n : 0;
	}
}

static bool side_has(const struct gs_run_compare_run *const *runs, size_t n,
		     enum gs_run_compare_kind kind)
{
	bool has = true;

	for (size_t i = 0; i < n; i++)
		has &= run_compare_is_gpu(kind)        ? runs[i]->gpu.n_blocks > 0
		       : kind == GS_RUN_COMPARE_PART   ? runs[i]->has_account
		       : kind >= GS_RUN_COMPARE_PYTHON ? runs[i]->has_python
						       : true;
	return has;
}

/* Is it idle time of a GPU that another run does not use? Nothing is known of it there, and it is not none. */
static bool is_of_unused(const struct gs_run_compare_run *const *runs, size_t n,
			 const struct run_item *item)
{
	size_t bytes = strlen(item->name), tail = sizeof(RUN_GPU_IDLE) - 1;

	if (item->kind != GS_RUN_COMPARE_GPU || bytes < tail ||
	    strcmp(item->name + bytes - tail, RUN_GPU_IDLE) != 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!run_compare_find_item(runs[i], item->kind, item->name))
			return true;
	return false;
}

static int list_items(struct gs_run_compare_result *c, size_t *capacity,
		      const struct gs_run_compare_run *const *runs, size_t n, struct gs_map *seen)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < runs[i]->n_items; k++) {
			const struct run_item *item = &runs[i]->items[k];
			uint64_t key = gs_hash_bytes(item->name, strlen(item->name)) *
					       GS_RUN_COMPARE_KINDS +
				       item->kind,
				 at;

			/* Only what both sides were looked at for can be compared. */
			if (!side_has(c->base, c->n_base, item->kind) ||
			    !side_has(c->changed, c->n_changed, item->kind))
				continue;
			if (is_of_unused(c->base, c->n_base, item) ||
			    is_of_unused(c->changed, c->n_changed, item))
				continue;
			if (gs_map_get(seen, key, &at))
				continue;
			if (!gs_vec_reserve(&c->items, capacity, c->n_items + 1) ||
			    gs_map_put(seen, key, c->n_items) < 0)
				return -ENOMEM;
			c->items[c->n_items++] = (struct gs_run_compare_item){
				.kind = item->kind, .name = item->name, .share = NAN};
		}
	return 0;
}

static void compare_item(struct gs_run_compare_result *c, struct gs_run_compare_item *item,
			 struct pair *base, struct pair *changed)
{
	struct run_estimate b, n;

	estimate_item(c->base, c->n_base, item, base);
	estimate_item(c->changed, c->n_changed, item, changed);
	b = run_compare_combine(base->ns, c->n_base, changed->ns, c->n_changed);
	n = run_compare_combine(changed->ns, c->n_changed, base->ns, c->n_base);
	item->base_ns = b.mean;
	item->changed_ns = n.mean;
	item->base_calls = base->calls;
	item->changed_calls = changed->calls;
	item->ns = run_compare_subtract(n, b);
	if (c->verdict == GS_RUN_COMPARE_SLOWER || c->verdict == GS_RUN_COMPARE_FASTER)
		item->share = item->ns.mean / (c->changed_ns.mean - c->base_ns.mean);
}

/* --- the step --- */

static const struct gs_run_compare_run *
run_without_steps(const struct gs_run_compare_run *const *runs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!runs[i]->n_blocks)
			return runs[i];
	return NULL;
}

static void compare_steps(struct gs_run_compare_result *c, struct pair *base, struct pair *changed)
{
	struct run_estimate b, n;
	bool single = c->n_base == 1 || c->n_changed == 1;
	double percent, wide;

	for (size_t i = 0; i < c->n_base; i++)
		base->ns[i] = run_compare_estimate(c->base[i]->step_ns, c->base[i]->kept,
						   c->base[i]->n_blocks);
	for (size_t i = 0; i < c->n_changed; i++)
		changed->ns[i] = run_compare_estimate(c->changed[i]->step_ns, c->changed[i]->kept,
						      c->changed[i]->n_blocks);
	b = run_compare_combine(base->ns, c->n_base, changed->ns, c->n_changed);
	n = run_compare_combine(changed->ns, c->n_changed, base->ns, c->n_base);
	c->base_ns = (struct gs_run_compare_value){b.mean,
						   run_compare_plus_minus(b.variance, b.freedom)};
	c->changed_ns = (struct gs_run_compare_value){
		n.mean, run_compare_plus_minus(n.variance, n.freedom)};
	if (b.mean <= 0)
		return;
	c->percent = run_compare_percent(b, n);
	percent = fabs(c->percent.mean);
	wide = c->percent.plus_minus;
	if (percent <= wide || (single && percent < 100 * GS_RUN_COMPARE_LEAST))
		c->verdict = GS_RUN_COMPARE_SAME;
	else
		c->verdict = c->percent.mean > 0 ? GS_RUN_COMPARE_SLOWER : GS_RUN_COMPARE_FASTER;
}

static void explain_unknown(struct gs_run_compare_result *c, const struct gs_run_compare_run *run)
{
	c->verdict = GS_RUN_COMPARE_UNKNOWN;
	if (run->n_steps)
		snprintf(c->reason, sizeof(c->reason),
			 "%s has %zu steps, and a comparison needs %d at least", run->file,
			 run->n_steps, GS_RUN_COMPARE_MIN_BLOCKS);
	else
		snprintf(c->reason, sizeof(c->reason),
			 "no steps were found in %s (`gpuscope report -v` says why)", run->file);
}

static int compare_whole(struct gs_run_compare_result *c)
{
	const struct gs_run_compare_run *lacks = run_compare_without_whole(c->base, c->n_base);

	lacks = lacks ? lacks : run_compare_without_whole(c->changed, c->n_changed);
	if (!lacks)
		return run_compare_whole(c);
	add_note(c, "whole runs are not compared: %s is not of a command that ended by itself",
		 lacks->file);
	return 0;
}

/* --- which place --- */

static bool is_sure(const struct gs_run_compare_item *item)
{
	return isnan(item->ns.plus_minus) || fabs(item->ns.mean) > item->ns.plus_minus;
}

static bool is_candidate(const struct gs_run_compare_item *item)
{
	/* Other threads work beside the step, several of them at a time. */
	bool fits = item->share <= MOST_SHARE || item->kind == GS_RUN_COMPARE_OTHER;

	return item->share >= NAMED_SHARE && fits && is_sure(item);
}

static const struct gs_run_compare_item *find_cause(const struct gs_run_compare_result *c,
						    enum gs_run_compare_kind kind)
{
	bool nested = kind == GS_RUN_COMPARE_OPERATOR || kind == GS_RUN_COMPARE_CALL;
	const struct gs_run_compare_item *best = NULL;
	double most = 0;

	for (size_t i = 0; i < c->n_items; i++)
		if (c->items[i].kind == kind && is_candidate(&c->items[i]))
			most = fmax(most, c->items[i].share);
	for (size_t i = 0; i < c->n_items && most > 0; i++) {
		const struct gs_run_compare_item *item = &c->items[i];

		if (item->kind != kind || !is_candidate(item) || item->share < ALIKE_SHARE * most)
			continue;
		if (!best ||
		    (nested ? item->base_ns + item->changed_ns < best->base_ns + best->changed_ns
			    : item->share > best->share))
			best = item;
	}
	return best;
}

/* The name that says most: a function of the program, else what was called, else what it waited for. */
static void name_cause(struct gs_run_compare_result *c)
{
	static const enum gs_run_compare_kind order[] = {GS_RUN_COMPARE_PYTHON, GS_RUN_COMPARE_CALL,
							 GS_RUN_COMPARE_OPERATOR,
							 GS_RUN_COMPARE_PART};

	for (unsigned kind = 0; kind < GS_RUN_COMPARE_KINDS; kind++)
		c->cause[kind] = find_cause(c, (enum gs_run_compare_kind)kind);
	for (size_t i = 0; i < GS_ARRAY_LEN(order) && !c->named; i++)
		c->named = c->cause[order[i]];
}

static int by_kind_and_size(const void *a, const void *b)
{
	const struct gs_run_compare_item *x = a, *y = b;
	double x_ns = fabs(x->ns.mean), y_ns = fabs(y->ns.mean);

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x_ns != y_ns ? (x_ns < y_ns) - (x_ns > y_ns) : strcmp(x->name, y->name);
}

/* --- what a reader has to know --- */

static void note_runs(struct gs_run_compare_result *c, const struct gs_run_compare_run *const *runs,
		      size_t n)
{
	const struct gs_run_compare_run *first = c->base[0];

	for (size_t i = 0; i < n; i++) {
		const struct gs_run_compare_run *run = runs[i];

		if (!run->complete)
			add_note(c, "%s stops before its end", run->file);
		if (run->n_lost)
			add_note(c, "%s lacks times of %llu calls (`gpuscope report` says why)",
				 run->file, (unsigned long long)run->n_lost);
		if (run->has_partial || run->mode == GS_SESSION_SUMMARY)
			add_note(
				c,
				"calls were added up or let pass in %s: where they took longer is known roughly, or not",
				run->file);
		if (run->n_left_out)
			add_note(c, "%s has more places than are compared: %zu are left out",
				 run->file, run->n_left_out);
		if (run->n_blocks && first->n_blocks && strcmp(run->anchor, first->anchor) != 0)
			add_note(
				c,
				"a step of %s begins with %s, of %s with %s: they may not be the same work",
				first->file, first->anchor, run->file, run->anchor);
		if (*run->host && *first->host && strcmp(run->host, first->host) != 0)
			add_note(c, "%s is of another machine: %s, not %s", run->file, run->host,
				 first->host);
		if (run->gpu.n_windows && !run->gpu.n_blocks)
			add_note(
				c,
				"%zu steps of %s lie within windows of GPU time: too few, so that GPU time is not compared",
				run->gpu.n_steps, run->file);
		if (run->gpu.n_blocks && run->gpu.n_lost)
			add_note(
				c,
				"%s lacks GPU work of %llu records or more: its GPU time is too low",
				run->file, (unsigned long long)run->gpu.n_lost);
		if (run->cost_known && first->cost_known &&
		    (run->cost_ppm > first->cost_ppm + COST_PPM ||
		     first->cost_ppm > run->cost_ppm + COST_PPM))
			add_note(c, "tracing took %.1f %% of processor time in %s, %.1f %% in %s",
				 (double)run->cost_ppm / 1e4, run->file,
				 (double)first->cost_ppm / 1e4, first->file);
	}
}

static bool both_have(const struct gs_run_compare_result *c, enum gs_run_compare_kind kind)
{
	return side_has(c->base, c->n_base, kind) && side_has(c->changed, c->n_changed, kind);
}

static bool waits_for_processors(const struct gs_run_compare_item *item)
{
	return item && strcmp(item->name, gs_account_part_title(GS_PART_RUNQUEUE)) == 0;
}

static void make_notes(struct gs_run_compare_result *c)
{
	bool shown = c->verdict == GS_RUN_COMPARE_SLOWER || c->verdict == GS_RUN_COMPARE_FASTER;

	if (c->verdict != GS_RUN_COMPARE_UNKNOWN && c->n_base == 1 && c->n_changed == 1)
		add_note(
			c,
			"one run on each side: how much equal runs differ is not known; more runs show it (--base)");
	note_runs(c, c->base, c->n_base);
	note_runs(c, c->changed, c->n_changed);
	if (side_has(c->base, c->n_base, GS_RUN_COMPARE_GPU) !=
	    side_has(c->changed, c->n_changed, GS_RUN_COMPARE_GPU))
		add_note(
			c,
			"not both sides have GPU time: `gpuscope trace --inside=gpu` or `--gpu-time` measures it");
	if (waits_for_processors(c->cause[GS_RUN_COMPARE_PART]) ||
	    waits_for_processors(c->cause[GS_RUN_COMPARE_WHOLE]))
		add_note(
			c,
			"other tasks had the processors: that need not be the program; compare on a quiet machine, or several runs of each");
	if (!shown)
		return;
	if (!both_have(c, GS_RUN_COMPARE_PART))
		add_note(
			c,
			"not both sides have a wall-clock account of their steps: it comes once a second");
	if (!both_have(c, GS_RUN_COMPARE_PYTHON))
		add_note(
			c,
			"not both sides have Python samples: `gpuscope trace --layer python` names functions and lines");
}

/* --- all of it --- */

int gs_run_compare_make(const struct gs_run_compare_run *const *base, size_t n_base,
			const struct gs_run_compare_run *const *changed, size_t n_changed,
			struct gs_run_compare_result *ret)
{
	GS_FREE struct run_estimate *b = calloc(n_base + 1, sizeof(*b));
	GS_FREE struct run_estimate *n = calloc(n_changed + 1, sizeof(*n));
	struct pair base_pair = {.ns = b}, changed_pair = {.ns = n};
	const struct gs_run_compare_run *lacks = run_without_steps(base, n_base);
	struct gs_map seen = GS_MAP_INIT(1u << 20);
	size_t capacity = 0;
	int r = 0;

	*ret = (struct gs_run_compare_result){.base = base,
					      .changed = changed,
					      .n_base = n_base,
					      .n_changed = n_changed,
					      .base_ns = {NAN, NAN},
					      .changed_ns = {NAN, NAN},
					      .percent = {NAN, NAN}};
	if (!b || !n)
		return -ENOMEM;
	lacks = lacks ? lacks : run_without_steps(changed, n_changed);
	if (lacks) {
		explain_unknown(ret, lacks);
		r = compare_whole(ret);
	} else {
		compare_steps(ret, &base_pair, &changed_pair);
		r = list_items(ret, &capacity, base, n_base, &seen);
		if (r == 0)
			r = list_items(ret, &capacity, changed, n_changed, &seen);
		for (size_t i = 0; r == 0 && i < ret->n_items; i++)
			compare_item(ret, &ret->items[i], &base_pair, &changed_pair);
	}
	if (r == 0 && ret->n_items) {
		qsort(ret->items, ret->n_items, sizeof(*ret->items), by_kind_and_size);
		name_cause(ret);
	}
	gs_map_fini(&seen);
	if (r < 0) {
		gs_run_compare_result_fini(ret);
		return r;
	}
	make_notes(ret);
	return 0;
}

void gs_run_compare_result_fini(struct gs_run_compare_result *result)
{
	free(result->items);
	memset(result, 0, sizeof(*result));
}

static const char *headline_unsure(const struct gs_run_compare_result *c, char *out)
{
	char whole[384];

	run_compare_put_whole(c, whole, sizeof(whole));
	if (c->verdict == GS_RUN_COMPARE_UNKNOWN)
		snprintf(out, GS_RUN_COMPARE_HEADLINE_BYTES, "%sstep time: not known: %s", whole,
			 c->reason);
	else
		snprintf(out, GS_RUN_COMPARE_HEADLINE_BYTES,
			 "no difference shown: step %+.1f %% ± %.1f", c->percent.mean,
			 c->percent.plus_minus);
	return out;
}

/* Where the difference is, after the comma. */
static void put_place(const struct gs_run_compare_result *c, char *out, size_t bytes)
{
	const struct gs_run_compare_item *part = c->cause[GS_RUN_COMPARE_PART];
	char share[16] = "all";

	if (!c->named) {
		snprintf(out, bytes, "where is not known: no place makes half of the difference");
		return;
	}
	if (c->named->share < ALL_SHARE)
		snprintf(share, sizeof(share), "%.0f %%", c->named->share * 100);
	snprintf(out, bytes, "%s of it in %.160s%s%.80s", share, c->named->name,
		 part && part != c->named ? ": " : "", part && part != c->named ? part->name : "");
}

/* By the GPU's own times: a kernel, or whether it had more or less to do. "": neither makes half of it. */
static void put_gpu(const struct gs_run_compare_result *c, char *out, size_t bytes)
{
	const struct gs_run_compare_item *kernel = c->cause[GS_RUN_COMPARE_KERNEL];
	const struct gs_run_compare_item *item = kernel ? kernel : c->cause[GS_RUN_COMPARE_GPU];
	char ns[GS_FMT_BYTES];

	*out = '\0';
	if (item)
		snprintf(out, bytes, "; %s%.160s %s%s", kernel ? "on the GPU in " : "", item->name,
			 item->ns.mean < 0 ? "-" : "+",
			 gs_fmt_ns(ns, (uint64_t)fabs(item->ns.mean)));
}

const char *gs_run_compare_headline(const struct gs_run_compare_result *c,
				    char out[GS_RUN_COMPARE_HEADLINE_BYTES])
{
	const struct gs_run_compare_item *other = c->cause[GS_RUN_COMPARE_OTHER];
	bool slower = c->verdict == GS_RUN_COMPARE_SLOWER;
	char place[320], ns[GS_FMT_BYTES], beside[256] = "", gpu[256];

	if (!slower && c->verdict != GS_RUN_COMPARE_FASTER)
		return headline_unsure(c, out);
	put_place(c, place, sizeof(place));
	if (other)
		snprintf(beside, sizeof(beside), "; in other threads %s%s in %.160s",
			 other->ns.mean < 0 ? "-" : "+",
			 gs_fmt_ns(ns, (uint64_t)fabs(other->ns.mean)), other->name);
	put_gpu(c, gpu, sizeof(gpu));
	snprintf(out, GS_RUN_COMPARE_HEADLINE_BYTES, "step %.1f %% ± %.1f %s, %s%s%s",
		 fabs(c->percent.mean), c->percent.plus_minus, slower ? "slower" : "faster", place,
		 beside, gpu);
	return out;
}
