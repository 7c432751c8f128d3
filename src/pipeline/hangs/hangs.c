/* Copies of the records; strings and functions are looked up when a summary is made. */
#include "pipeline/hangs/hangs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/trace/func.h"

bool gs_hangs_take(struct gs_hangs *h, const struct gs_rec_hang *r)
{
	struct gs_rec_hang *copy;

	for (size_t i = 0; i < h->n_items; i++) {
		if (h->items[i]->number != r->number)
			continue;
		h->items[i]->ended_ns = r->ended_ns;
		h->items[i]->has_arrived = r->has_arrived;
		return true;
	}
	if (h->n_items == GS_HANGS_MAX)
		return false;
	copy = malloc(r->head.bytes);
	if (!copy)
		return false;
	memcpy(copy, r, r->head.bytes);
	h->items[h->n_items++] = copy;
	return true;
}

void gs_hangs_fini(struct gs_hangs *h)
{
	for (size_t i = 0; i < h->n_items; i++)
		free(h->items[i]);
	h->n_items = 0;
}

static const char *text_of(const struct gs_dict *dict, struct gs_summary *s, uint32_t id)
{
	return gs_summary_text(s, gs_dict_string(dict, id));
}

static uint64_t time_since(uint64_t from_ns, uint64_t ns)
{
	return ns > from_ns ? ns - from_ns : 0;
}

static void fill_rank(const struct gs_dict *dict, struct gs_summary *s,
		      const struct gs_rec_hang *hang, const struct gs_rec_hang_rank *r,
		      struct gs_hang_rank_summary *ret)
{
	const struct gs_rec_function *f = gs_dict_function(dict, r->last_function);

	*ret = (struct gs_hang_rank_summary){
		.rank = r->rank,
		.pid = r->pid,
		.tid = r->tid,
		.signal = r->signal,
		.state = text_of(dict, s, r->state_str),
		.calls = r->calls,
		.last_age_ns = r->last_ns ? time_since(r->last_ns, hang->found_ns) : 0,
		.last_count = r->last_count,
		.last_function = text_of(dict, s, f ? f->name_str : 0),
		.last_type = gs_summary_text(s, f ? gs_nccl_dtype_name(r->last_type) : ""),
		.text = text_of(dict, s, r->text_str),
		.python = text_of(dict, s, r->python_str),
		.native = text_of(dict, s, r->native_str),
	};
}

static int fill_hang(const struct gs_dict *dict, struct gs_summary *s, const struct gs_rec_hang *r,
		     uint64_t start_ns, struct gs_hang_summary *ret)
{
	*ret = (struct gs_hang_summary){
		.kind = text_of(dict, s, r->kind_str),
		.text = text_of(dict, s, r->text_str),
		.id = r->id_hash,
		.n_ranks = r->n_ranks,
		.call = r->call,
		.number = r->number,
		.since_ns = time_since(start_ns, r->since_ns),
		.found_ns = time_since(start_ns, r->found_ns),
		.ended_ns = r->ended_ns ? time_since(start_ns, r->ended_ns) : 0,
		.has_arrived = r->has_arrived != 0,
	};
	if (!r->n_listed)
		return 0;
	ret->ranks = gs_summary_alloc(s, r->n_listed * sizeof(*ret->ranks));
	if (!ret->ranks)
		return -ENOMEM;
	for (; ret->n_listed < r->n_listed; ret->n_listed++)
		fill_rank(dict, s, r, &r->ranks[ret->n_listed], &ret->ranks[ret->n_listed]);
	return 0;
}

int gs_hangs_summarize(const struct gs_hangs *h, const struct gs_dict *dict, uint64_t start_ns,
		       struct gs_summary *s)
{
	if (!h->n_items)
		return 0;
	s->hangs = gs_summary_alloc(s, h->n_items * sizeof(*s->hangs));
	if (!s->hangs)
		return -ENOMEM;
	for (size_t i = 0; i < h->n_items; i++) {
		if (fill_hang(dict, s, h->items[i], start_ns, &s->hangs[i]) < 0)
			return -ENOMEM;
		s->n_hangs = i + 1;
	}
	return 0;
}
