/*
 * What was asked of each stream: pipeline/gpu_activity follows it. Only calls that come one by one
 * name their stream, so there is nothing of calls that were added up in the kernel.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "pipeline/aggregate/tally.h"

/* Until when a process was there, as far as is known: its account says when it ended. */
static uint64_t seen_until(const struct gs_aggregate *v, uint32_t pid)
{
	const struct view_account *a = v->accounts.items;
	uint64_t end_ns = 0;

	for (size_t i = 0; i < v->accounts.n; i++)
		if (a[i].pid == pid && a[i].tid == pid && a[i].ended && a[i].time_ns > end_ns)
			end_ns = a[i].time_ns;
	return end_ns ? end_ns : v->ended ? v->end.end_ns : v->last_ns;
}

static uint32_t pid_of(const struct gs_aggregate *v, uint32_t process)
{
	const struct gs_rec_process *p = gs_dict_process(v->dict, process);

	return p ? p->pid : 0;
}

static int compare_streams(const void *a, const void *b)
{
	const struct gs_activity_stream *x = a, *y = b;

	if (x->totals.busy_max_ns != y->totals.busy_max_ns)
		return x->totals.busy_max_ns > y->totals.busy_max_ns ? -1 : 1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return x->nth < y->nth ? -1 : x->nth > y->nth;
}

static int compare_contexts(const void *a, const void *b)
{
	const struct gs_activity_context *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->context != y->context)
		return x->context < y->context ? -1 : 1;
	return x->handle < y->handle ? -1 : x->handle > y->handle;
}

static void add_contexts(struct gs_aggregate *v, struct gs_summary *summary,
			 struct gs_activity_summary *s)
{
	uint32_t n = gs_activity_count_contexts(v->activity);

	for (uint32_t i = 0; i < n; i++) {
		struct gs_activity_context *c = &s->contexts[s->n_contexts];
		char gpu[96];

		gs_activity_read_context(v->activity, i, c);
		gs_activity_see_process(v->activity, c->process,
					seen_until(v, pid_of(v, c->process)));
		gs_activity_read_context(v->activity, i, c);
		c->gpu = gs_summary_text(
			summary, gs_dict_gpu(v->dict, c->process, c->context, gpu, sizeof(gpu)));
		c->process = pid_of(v, c->process);
		s->n_contexts += c->first_ns > 0;
	}
	qsort(s->contexts, s->n_contexts, sizeof(*s->contexts), compare_contexts);
}

static void add_streams(struct gs_aggregate *v, struct gs_activity_summary *s)
{
	uint32_t n = gs_activity_count_streams(v->activity);

	for (uint32_t i = 0; i < n; i++) {
		struct gs_activity_stream *t = &s->streams[s->n_streams];
		const struct gs_rec_thread *thread;

		if (!gs_activity_read_stream(v->activity, i, t) ||
		    (!t->totals.first_ns && !t->totals.n_captured && !t->totals.n_failed))
			continue;
		t->process = pid_of(v, t->process);
		thread = t->thread ? gs_dict_thread(v->dict, t->thread) : NULL;
		t->thread = thread ? thread->tid : 0;
		s->n_streams++;
	}
	qsort(s->streams, s->n_streams, sizeof(*s->streams), compare_streams);
}

int gs_aggregate_add_streams(struct gs_aggregate *v, struct gs_summary *summary)
{
	uint32_t n_contexts = gs_activity_count_contexts(v->activity);
	struct gs_activity_summary *s;

	if (!n_contexts)
		return gs_accuracy_finish(v->accuracy, v->activity, v->dict, summary);
	s = gs_summary_alloc(summary, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->contexts = gs_summary_alloc(summary, n_contexts * sizeof(*s->contexts));
	s->streams = gs_summary_alloc(summary,
				      gs_activity_count_streams(v->activity) * sizeof(*s->streams));
	if (!s->contexts || !s->streams)
		return -ENOMEM;
	add_contexts(v, summary, s);
	add_streams(v, s);
	if (gs_activity_fill_graphs(v->activity, v->dict, summary, s) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < GS_ACTIVITY_LIMITS; i++)
		s->limit_hits[i] = gs_activity_limit_hits(v->activity, i);
	s->n_unread = gs_activity_unread(v->activity);
	summary->activity = s->n_contexts ? s : NULL;
	return gs_accuracy_finish(v->accuracy, v->activity, v->dict, summary);
}
