/* What described probes add up to, and PyTorch's allocator. */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/hist.h"
#include "model/trace/user_probe.h"
#include "pipeline/aggregate/tally.h"

#define MAX_AGGREGATES 16384

static struct view_aggregate *aggregate_of(struct gs_aggregate *v, uint32_t process,
					   const struct gs_rec_aggregate *r)
{
	struct view_aggregate *a = v->aggregates.items;

	for (size_t i = 0; i < v->aggregates.n; i++)
		if (a[i].process == process && a[i].function == r->function &&
		    a[i].sum.value_str == r->value_str && a[i].sum.aggregate == r->aggregate)
			return &a[i];
	a = gs_aggregate_grow(&v->aggregates, sizeof(*a), MAX_AGGREGATES);
	if (!a) {
		v->n_left_out++;
		return NULL;
	}
	a->hist = calloc(GS_HIST_N_BUCKETS, sizeof(*a->hist));
	if (!a->hist) {
		v->aggregates.n--;
		v->n_left_out++;
		return NULL;
	}
	a->process = process;
	a->function = r->function;
	memcpy(&a->sum, r, sizeof(a->sum));
	a->sum.count = a->sum.sum = 0;
	return a;
}

int gs_aggregate_take_aggregate(struct gs_aggregate *v, const struct gs_rec_aggregate *r)
{
	const struct gs_rec_thread *t = gs_dict_thread(v->dict, r->thread);
	struct view_aggregate *a = aggregate_of(v, t ? t->process : 0, r);
	bool is_signed = r->is_signed;

	if (!a || !r->count)
		return 0;
	if (!a->sum.count ||
	    (is_signed ? (int64_t)r->min < (int64_t)a->sum.min : r->min < a->sum.min))
		a->sum.min = r->min;
	if (!a->sum.count ||
	    (is_signed ? (int64_t)r->max > (int64_t)a->sum.max : r->max > a->sum.max))
		a->sum.max = r->max;
	a->sum.count += r->count;
	a->sum.sum += r->sum;
	for (uint32_t i = 0; i < r->n_buckets; i++)
		if (r->buckets[i].bucket < GS_HIST_N_BUCKETS)
			a->hist[r->buckets[i].bucket] += r->buckets[i].count;
	return 0;
}

void gs_aggregate_probed_fini(struct gs_aggregate *v)
{
	struct view_aggregate *a = v->aggregates.items;

	for (size_t i = 0; i < v->aggregates.n; i++)
		free(a[i].hist);
	free(v->aggregates.items);
	free(v->allocators.items);
	free(v->leaks.items);
}

/* --- the summary --- */

static const char *text_of(const struct gs_aggregate *v, struct gs_summary *s, uint32_t id)
{
	return gs_summary_text(s, gs_dict_string(v->dict, id));
}

static const char *function_of(const struct gs_aggregate *v, struct gs_summary *s,
			       uint32_t function)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, function);

	return f ? text_of(v, s, f->name_str) : gs_summary_text(s, "");
}

static uint32_t pid_of(const struct gs_aggregate *v, struct gs_summary *s, uint32_t process,
		       const char **ret_comm)
{
	const struct gs_rec_process *p = gs_dict_process(v->dict, process);

	if (ret_comm)
		*ret_comm = p ? text_of(v, s, p->comm_str) : gs_summary_text(s, "");
	return p ? p->pid : 0;
}

/* The eight buckets of each power of two as one; those below 8 (one value each) as 0, 1, 2..3 and
 * 4..7. */
static int add_ranges(struct gs_summary *s, struct gs_aggregate_summary *a, const uint64_t *hist)
{
	a->ranges = gs_summary_alloc(s, 64 * sizeof(*a->ranges));
	if (!a->ranges)
		return -ENOMEM;
	for (unsigned i = 0; i < GS_HIST_N_BUCKETS; i++) {
		uint64_t value = gs_hist_bucket_start_ns(i), from = 0, to = 1;

		if (!hist[i])
			continue;
		if (value) {
			from = 1ull << gs_log2_u64(value);
			to = from * 2;
		}
		if (i + 1 == GS_HIST_N_BUCKETS)
			to = UINT64_MAX;
		if (!a->n_ranges || a->ranges[a->n_ranges - 1].from != from)
			a->ranges[a->n_ranges++] = (struct gs_hist_range){from, to, 0};
		a->ranges[a->n_ranges - 1].count += hist[i];
	}
	return 0;
}

static int add_aggregate(struct gs_aggregate *v, struct gs_summary *s,
			 const struct view_aggregate *from)
{
	const struct gs_rec_function *f = gs_dict_function(v->dict, from->function);
	struct gs_aggregate_summary *a = &s->aggregates[s->n_aggregates++];
	bool has_hist = from->sum.aggregate == GS_AGGREGATE_HIST ||
			from->sum.aggregate == GS_AGGREGATE_HIST_DURATION;

	*a = (struct gs_aggregate_summary){
		.layer = f ? f->layer : 0,
		.function = function_of(v, s, from->function),
		.aggregate = from->sum.aggregate,
		.is_signed = from->sum.is_signed != 0,
		.value_type = (uint16_t)from->sum.value_type,
		.value = text_of(v, s, from->sum.value_str),
		.count = from->sum.count,
		.sum = from->sum.sum,
		.min = from->sum.min,
		.max = from->sum.max,
	};
	a->pid = pid_of(v, s, from->process, &a->comm);
	if (!has_hist)
		return 0;
	a->p50 = gs_hist_quantile_ns(from->hist, 0.5, a->max);
	a->p95 = gs_hist_quantile_ns(from->hist, 0.95, a->max);
	a->p99 = gs_hist_quantile_ns(from->hist, 0.99, a->max);
	return add_ranges(s, a, from->hist);
}

static void add_allocator(struct gs_aggregate *v, struct gs_summary *s,
			  const struct gs_rec_allocator *r)
{
	const struct gs_rec_allocator *all = v->allocators.items;
	struct gs_allocator_summary *a = &s->allocators[s->n_allocators++];

	*a = (struct gs_allocator_summary){
		.device = r->device,
		.live_bytes = r->live_bytes,
		.peak_bytes = r->peak_bytes,
		.total_bytes = r->total_bytes,
		.allocations = r->allocations,
		.frees = r->frees,
		.unknown_frees = r->unknown_frees,
		.reserved_bytes = r->reserved_bytes,
		.peak_reserved_bytes = r->peak_reserved_bytes,
	};
	a->pid = pid_of(v, s, r->process, &a->comm);
	for (size_t i = 0; i < v->allocators.n; i++)
		if (all[i].process == r->process)
			a->process_live_bytes += all[i].live_bytes;
}

static int compare_leaks(const void *a, const void *b)
{
	const struct gs_leak_summary *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

int gs_aggregate_add_probed(struct gs_aggregate *v, struct gs_summary *s)
{
	const struct view_aggregate *a = v->aggregates.items;
	const struct gs_rec_allocator *m = v->allocators.items;
	const struct gs_rec_leak *l = v->leaks.items;

	if (!v->aggregates.n && !v->allocators.n && !v->leaks.n)
		return 0;
	s->aggregates = gs_summary_alloc(s, (v->aggregates.n + 1) * sizeof(*s->aggregates));
	s->allocators = gs_summary_alloc(s, (v->allocators.n + 1) * sizeof(*s->allocators));
	s->leaks = gs_summary_alloc(s, (v->leaks.n + 1) * sizeof(*s->leaks));
	if (!s->aggregates || !s->allocators || !s->leaks)
		return -ENOMEM;
	for (size_t i = 0; i < v->aggregates.n; i++)
		if (add_aggregate(v, s, &a[i]) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < v->allocators.n; i++)
		add_allocator(v, s, &m[i]);
	for (size_t i = 0; i < v->leaks.n; i++)
		s->leaks[s->n_leaks++] = (struct gs_leak_summary){
			.pid = pid_of(v, s, l[i].process, NULL),
			.device = l[i].device,
			.site = function_of(v, s, l[i].scope),
			.py_stack = l[i].py_stack,
			.blocks = l[i].blocks,
			.bytes = l[i].bytes,
		};
	qsort(s->leaks, s->n_leaks, sizeof(*s->leaks), compare_leaks);
	return 0;
}
