/*
 * What is kept of a run: blocks of steps, and of each place where time goes how much a step of each block
 * spent there. Summaries come as sums from the begin of the recording; a block has what came between its
 * two bounds.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/run_compare/run_compare_int.h"
#include "core/base/mem.h"
#include "model/summary/gpu_time.h"
#include "core/base/vec.h"
#include "model/trace/event.h"
#include "model/trace/record.h"

#define NAME_BYTES 256

int gs_run_compare_new_run(const char *file, struct gs_run_compare_run **ret_run)
{
	struct gs_run_compare_run *run = calloc(1, sizeof(*run));

	if (!run)
		return -ENOMEM;
	run->by_key = GS_MAP_INIT(GS_RUN_COMPARE_ITEMS_MAX);
	run->file = strdup(file);
	if (!run->file) {
		free(run);
		return -ENOMEM;
	}
	*ret_run = run;
	return 0;
}

void gs_run_compare_free_run(struct gs_run_compare_run **run)
{
	struct gs_run_compare_run *r = *run;

	if (!r)
		return;
	for (size_t i = 0; i < r->n_items; i++)
		free(r->items[i].name);
	free(r->items);
	gs_map_fini(&r->by_key);
	run_compare_free_gpu(&r->gpu);
	free(r->file);
	free(r->command);
	free(r->host);
	free(r->anchor);
	free(r->comm);
	free(r);
	*run = NULL;
}

/* --- steps --- */

void run_compare_trim(const double *step_ns, unsigned n_blocks, bool *kept)
{
	unsigned trimmed = run_compare_n_trimmed(n_blocks);

	for (unsigned i = 0; i < n_blocks; i++) {
		unsigned rank = 0;

		for (unsigned k = 0; k < n_blocks; k++)
			rank += step_ns[k] < step_ns[i] || (step_ns[k] == step_ns[i] && k < i);
		kept[i] = rank >= trimmed && rank < n_blocks - trimmed;
	}
}

unsigned run_compare_n_blocks(size_t n_steps)
{
	size_t n_blocks = n_steps / 4;

	if (n_steps < GS_RUN_COMPARE_MIN_BLOCKS)
		return 0;
	n_blocks = n_blocks < GS_RUN_COMPARE_MIN_BLOCKS ? GS_RUN_COMPARE_MIN_BLOCKS : n_blocks;
	return n_blocks > GS_RUN_COMPARE_BLOCKS ? GS_RUN_COMPARE_BLOCKS : (unsigned)n_blocks;
}

static void cut_blocks(struct gs_run_compare_run *run, const struct gs_run_compare_step *steps,
		       size_t n)
{
	unsigned n_blocks = run_compare_n_blocks(n);

	run->n_blocks = n_blocks;
	if (!n_blocks)
		return;
	for (size_t i = 0; i < n_blocks; i++) {
		size_t from = n * i / n_blocks, to = n * (i + 1) / n_blocks;
		double sum_ns = 0;

		for (size_t k = from; k < to; k++)
			sum_ns += (double)steps[k].dur_ns;
		run->bound_ns[i] = steps[from].start_ns;
		run->n_in_block[i] = (double)(to - from);
		run->step_ns[i] = sum_ns / run->n_in_block[i];
	}
	run->bound_ns[n_blocks] = steps[n - 1].start_ns + steps[n - 1].dur_ns;
	run_compare_trim(run->step_ns, n_blocks, run->kept);
}

/* Calls whose time is missing in what is compared. */
static bool hides_time(uint16_t cause)
{
	return cause == GS_LOSS_RING_FULL || cause == GS_LOSS_TOO_DEEP ||
	       cause == GS_LOSS_NO_THREAD || cause == GS_LOSS_SHORT || cause == GS_LOSS_BUDGET ||
	       cause == GS_LOSS_THINNED || cause == GS_LOSS_OFF || cause == GS_LOSS_FULL;
}

int gs_run_compare_set_steps(struct gs_run_compare_run *run,
			     const struct gs_run_compare_step *steps, size_t n,
			     const struct gs_summary *whole)
{
	run->command = strdup(whole->command ? whole->command : "");
	run->host = strdup(whole->host ? whole->host : "");
	run->anchor = strdup(n && whole->steps.anchor ? whole->steps.anchor : "");
	run->comm = strdup(n && whole->steps.comm ? whole->steps.comm : "");
	if (!run->command || !run->host || !run->anchor || !run->comm)
		return -ENOMEM;
	run->pid = whole->steps.pid;
	run->tid = whole->steps.tid;
	run->mode = whole->mode;
	run->cost_ppm = whole->cost_ppm;
	run->cost_known = whole->cost_known;
	run->complete = whole->complete;
	for (size_t i = 0; i < whole->n_lost; i++)
		run->n_lost += hides_time(whole->lost[i].cause) ? whole->lost[i].count : 0;
	if (whole->gpu_time)
		run->gpu.n_lost = whole->gpu_time->dropped + whole->gpu_time->discarded +
				  whole->gpu_time->bad + whole->gpu_time->untimed;
	run_compare_set_whole(run, whole);
	run->n_steps = n;
	cut_blocks(run, steps, n);
	return 0;
}

unsigned gs_run_compare_n_bounds(const struct gs_run_compare_run *run)
{
	return run->n_blocks ? run->n_blocks + 1 : 0;
}

const char *gs_run_compare_file(const struct gs_run_compare_run *run)
{
	return run->file;
}

size_t gs_run_compare_n_steps(const struct gs_run_compare_run *run)
{
	return run->n_steps;
}

uint64_t gs_run_compare_bound_ns(const struct gs_run_compare_run *run, unsigned i)
{
	return run->bound_ns[i];
}

/* --- places --- */

static uint64_t item_key(enum gs_run_compare_kind kind, const char *name)
{
	return gs_hash_bytes(name, strlen(name)) * GS_RUN_COMPARE_KINDS + kind;
}

const struct run_item *run_compare_find_item(const struct gs_run_compare_run *run,
					     enum gs_run_compare_kind kind, const char *name)
{
	uint64_t i;

	return gs_map_get(&run->by_key, item_key(kind, name), &i) ? &run->items[i] : NULL;
}

struct run_item *run_compare_item(struct gs_run_compare_run *run, enum gs_run_compare_kind kind,
				  const char *name)
{
	uint64_t key = item_key(kind, name), i;
	char *copy;

	if (gs_map_get(&run->by_key, key, &i))
		return &run->items[i];
	if (run->n_items == GS_RUN_COMPARE_ITEMS_MAX) {
		run->n_left_out++;
		return NULL;
	}
	copy = gs_vec_reserve(&run->items, &run->capacity, run->n_items + 1) ? strdup(name) : NULL;
	if (!copy || gs_map_put(&run->by_key, key, run->n_items) < 0) {
		free(copy);
		run->no_memory = true;
		return NULL;
	}
	run->items[run->n_items] = (struct run_item){.kind = kind, .name = copy};
	return &run->items[run->n_items++];
}

static void add_to_item(struct gs_run_compare_run *run, enum gs_run_compare_kind kind,
			const char *name, uint64_t ns, uint64_t calls)
{
	struct run_item *item = run_compare_item(run, kind, name);

	if (!item)
		return;
	item->now_ns += ns;
	item->now_calls += calls;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path ? path : "", '/');

	return slash ? slash + 1 : path ? path : "";
}

static void add_functions(struct gs_run_compare_run *run, const struct gs_summary *own)
{
	for (size_t i = 0; i < own->functions.n; i++) {
		const struct gs_function_stats *f = &own->functions.items[i];

		/* Of calls that were let pass the time is not known. */
		if (f->partial)
			run->has_partial = true;
		else
			add_to_item(run,
				    f->layer == GS_LAYER_TORCH ? GS_RUN_COMPARE_OPERATOR
							       : GS_RUN_COMPARE_CALL,
				    f->name, f->total_ns, f->calls);
	}
	/* "model.py:forward/12": the line is another one as soon as the file is edited. */
	for (size_t i = 0; i < own->n_python_functions; i++) {
		const struct gs_python_function *f = &own->python_functions[i];
		char name[NAME_BYTES];
		char *slash;

		snprintf(name, sizeof(name), "%s", f->name);
		slash = strrchr(name, '/');
		if (slash)
			*slash = '\0';
		add_to_item(run, GS_RUN_COMPARE_CALL, name, f->total_ns, f->calls);
	}
}

static void add_lines(struct gs_run_compare_run *run, const struct gs_summary *s, bool own)
{
	char name[NAME_BYTES];

	for (size_t i = 0; i < s->n_python_lines; i++) {
		const struct gs_line_stats *l = &s->python_lines[i];
		uint64_t ns = l->sample_ns + l->wait_ns;

		snprintf(name, sizeof(name), "%s (%s)", l->function, base_name(l->file));
		add_to_item(run, own ? GS_RUN_COMPARE_PYTHON : GS_RUN_COMPARE_OTHER, name, ns, 0);
		if (!own)
			continue;
		run->has_python = true;
		snprintf(name, sizeof(name), "%s:%u %s", base_name(l->file), l->line, l->function);
		add_to_item(run, GS_RUN_COMPARE_LINE, name, ns, 0);
	}
}

static void add_account(struct gs_run_compare_run *run, unsigned bound,
			const struct gs_summary *own)
{
	for (size_t i = 0; i < own->account.n_threads; i++) {
		const struct gs_account_thread *t = &own->account.threads[i];

		if (t->pid != run->pid || t->tid != run->tid)
			continue;
		run->wall_ns[bound] = gs_account_parts(t->time_ns, run->part_ns[bound]);
		run->has_account = true;
	}
}

/* The account comes once in a while, and a block may have none of it: then only the mean of all is known. */
static void spread_account(struct gs_run_compare_run *run)
{
	unsigned n = run->n_blocks;
	double all_ns = (double)(run->wall_ns[n] - run->wall_ns[0]), step_ns = 0;
	bool in_each = true;

	for (unsigned i = 0; i < n; i++) {
		in_each &= run->wall_ns[i + 1] > run->wall_ns[i];
		step_ns += run->step_ns[i] / n;
	}
	if (!run->has_account || all_ns <= 0) {
		run->has_account = false;
		return;
	}
	for (unsigned part = 0; part < GS_PART_COUNT; part++) {
		struct run_item *item;
		double part_ns = (double)(run->part_ns[n][part] - run->part_ns[0][part]);

		if (part_ns <= 0)
			continue;
		item = run_compare_item(run, GS_RUN_COMPARE_PART, gs_account_part_title(part));
		if (!item)
			continue;
		item->spread_unknown = !in_each;
		for (unsigned i = 0; i < n; i++) {
			double wall_ns = (double)(run->wall_ns[i + 1] - run->wall_ns[i]);
			double here_ns =
				(double)(run->part_ns[i + 1][part] - run->part_ns[i][part]);

			item->ns[i] = in_each ? here_ns / wall_ns * run->step_ns[i]
					      : part_ns / all_ns * step_ns;
		}
	}
}

int gs_run_compare_take(struct gs_run_compare_run *run, unsigned bound,
			const struct gs_summary *own, const struct gs_summary *others)
{
	if (bound > run->n_blocks || !run->n_blocks)
		return 0;
	run->n_left_out = 0;
	add_functions(run, own);
	add_lines(run, own, true);
	add_lines(run, others, false);
	add_account(run, bound, own);
	for (size_t i = 0; i < run->n_items; i++) {
		struct run_item *item = &run->items[i];

		if (run_compare_is_gpu(item->kind))
			continue;
		if (item->now_ns < item->before_ns || item->now_calls < item->before_calls) {
			item->now_ns = item->before_ns; /* it is no longer listed */
			item->now_calls = item->before_calls;
		}
		if (bound) {
			double n = run->n_in_block[bound - 1];

			item->ns[bound - 1] = (double)(item->now_ns - item->before_ns) / n;
			item->calls[bound - 1] = (double)(item->now_calls - item->before_calls) / n;
		}
		item->before_ns = item->now_ns;
		item->before_calls = item->now_calls;
		item->now_ns = item->now_calls = 0;
	}
	if (bound == run->n_blocks)
		spread_account(run);
	return run->no_memory ? -ENOMEM : 0;
}
