/*
 * Rules about input: a thread that waits for its data loader, in worker processes or in itself. The wait is known by what the
 * program marked (PyTorch does so for each batch), by the loader's file on sampled Python stacks, or by what its workers do.
 */
#include <inttypes.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/fmt.h"
#include "analysis/rules/trace_int.h"

#define WORKERS_ACTIVE 0.50 /* all together do not wait for others in so much of one's time */
#define SAMPLES_LEAST  50   /* of the Python stack: fewer say nothing */

/* The largest of the workers' parts. */
static unsigned worker_part(const struct facts *f)
{
	unsigned best = 0;

	for (unsigned p = 1; p < GS_PART_COUNT; p++)
		if (f->worker_share[p] > f->worker_share[best])
			best = p;
	return best;
}

/* Does another thread of its process wait for pipes, as the one that pins memory does? */
static bool thread_waits_for_pipe(const struct facts *f)
{
	const struct gs_account_summary *a = &f->s->account;

	for (size_t i = 0; i < a->n_threads; i++) {
		const struct gs_account_thread *t = &a->threads[i];
		uint64_t part_ns[GS_PART_COUNT];

		if (t->pid != f->pace->pid || t == f->pace)
			continue;
		gs_account_parts(t->time_ns, part_ns);
		if (rules_share_of(part_ns[GS_PART_POLL] + part_ns[GS_PART_PIPE],
				   f->pace->wall_ns) >= RULES_INPUT_BOUND)
			return true;
	}
	return false;
}

/* The line of the data set, the collate function or the worker at which loading spends most. */
static void describe_loader_line(const struct facts *f, struct gs_buf *text)
{
	const struct gs_loader_summary *l = &f->s->loader;
	const char *name = l->file ? strrchr(l->file, '/') : NULL;
	uint64_t all = l->self_samples + l->worker_samples;

	if (l->file && l->line_samples)
		rules_add_text(text, "; %.0f %% of loading on the CPU is at %s:%" PRIu32 " (%s)",
			       100 * rules_share_of(l->line_samples, all),
			       name ? name + 1 : l->file, l->line, l->function);
}

/* By the Python stack: releases of PyTorch that mark no batches are seen so too. Samples are taken of
 * running threads, so they say how its time on the CPU is divided; waits are added up one by one. */
bool rules_holds_loader_samples(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const struct gs_loader_summary *l = &f->s->loader;
	uint64_t all = l->self_samples + l->other_samples;
	double ran = all < SAMPLES_LEAST ? 0 : rules_share_of(l->self_samples, all), waited = 0;

	/* With workers it waits for these, which is another rule's. */
	if (!f->n_workers && l->wait_pid == f->pace->pid && l->wait_tid == f->pace->tid)
		waited = rules_share_of(l->wait_ns, rules_whole_ns(f->pace));
	*ret_share = (f->share[GS_PART_CPU] + f->share[GS_PART_OPERATOR]) * ran + waited;
	if (*ret_share < RULES_INPUT_BOUND)
		return false;
	rules_add_text(
		text,
		"its own thread loads data: torch/utils/data/dataloader.py is on the Python stack of ");
	if (waited > 0)
		rules_add_text(text, "waits of %.0f %% of its time%s", 100 * waited,
			       ran > 0 ? " and " : "");
	if (ran > 0)
		rules_add_text(text, "%.0f %% of samples", 100 * ran);
	describe_loader_line(f, text);
	return true;
}

/* The program marks it itself: PyTorch does so for each batch. */
bool rules_holds_loader(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	char count[GS_FMT_BYTES];
	unsigned part = worker_part(f);

	*ret_share = f->loader_share;
	if (!f->loader_name || *ret_share < RULES_INPUT_BOUND)
		return false;
	rules_add_text(text, "%s times it waited for its data loader (%s)",
		       gs_fmt_count(count, f->loader_calls), f->loader_name);
	if (f->n_workers)
		rules_add_text(text, "; its %zu worker process%s spent %.0f %% %s", f->n_workers,
			       f->n_workers == 1 ? "" : "es", 100 * f->worker_share[part],
			       gs_account_part_title(part));
	else if (strstr(f->loader_name, "SingleProcess"))
		rules_add_text(text, ", which works in this thread itself: it has no workers");
	describe_loader_line(f, text);
	return true;
}

/* What worker processes hand over comes by a pipe, a poll on one, or from a thread that reads it.
 * Workers that only wait themselves are not what is waited for. */
bool rules_holds_input(const struct facts *f, struct gs_buf *text, double *ret_share)
{
	const double *w = f->worker_share;
	unsigned part = worker_part(f);
	double active = 1 - (w[GS_PART_LOCK] + w[GS_PART_POLL] + w[GS_PART_PIPE] +
			     w[GS_PART_CHILD] + w[GS_PART_NETWORK]);

	*ret_share = f->share[GS_PART_POLL] + f->share[GS_PART_PIPE];
	if (thread_waits_for_pipe(f))
		*ret_share += f->share[GS_PART_LOCK];
	if (!f->n_workers || *ret_share < RULES_INPUT_BOUND ||
	    active * (double)f->n_workers < WORKERS_ACTIVE)
		return false;
	rules_add_text(text, "it waits for %zu worker process%s, whose own time is %.0f %% %s",
		       f->n_workers, f->n_workers == 1 ? "" : "es", 100 * w[part],
		       gs_account_part_title(part));
	describe_loader_line(f, text);
	return true;
}
