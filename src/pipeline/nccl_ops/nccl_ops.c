#include "pipeline/nccl_ops/nccl_ops_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

#define CHOICES_MAX 4096u
#define MEMBERS_MAX 16384u
#define BYTES_MAX   (1ull << 48) /* that one operation can move; more is not known either */

static int make_ops(struct gs_nccl_ops **ret_ops)
{
	struct gs_nccl_ops *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->choice_of = GS_MAP_INIT(CHOICES_MAX);
	o->member_of = GS_MAP_INIT(MEMBERS_MAX);
	*ret_ops = o;
	return 0;
}

void gs_nccl_ops_free(struct gs_nccl_ops **ops)
{
	struct gs_nccl_ops *o = *ops;

	if (!o)
		return;
	free(o->choices);
	free(o->members);
	free(o->processes);
	free(o->recent);
	gs_map_fini(&o->choice_of);
	gs_map_fini(&o->member_of);
	free(o);
	*ops = NULL;
}

/* --- operations --- */

/* Index of the choice; CHOICES_MAX: there is no room for it. */
static uint32_t find_choice(struct gs_nccl_ops *o, const struct gs_rec_nccl_op *op)
{
	const uint32_t words[4] = {op->func_str, op->algorithm_str, op->protocol_str, op->channels};
	uint64_t key = gs_hash_bytes(words, sizeof(words)), at;

	if (gs_map_get(&o->choice_of, key, &at))
		return (uint32_t)at;
	if (o->n_choices == CHOICES_MAX ||
	    !gs_vec_reserve(&o->choices, &o->choices_room, o->n_choices + 1) ||
	    gs_map_put(&o->choice_of, key, o->n_choices) < 0)
		return CHOICES_MAX;
	o->choices[o->n_choices] =
		(struct nccl_ops_choice){.c = {.channels = op->channels, .min_bytes = UINT64_MAX},
					 .func_str = op->func_str,
					 .algorithm_str = op->algorithm_str,
					 .protocol_str = op->protocol_str};
	return o->n_choices++;
}

/*
 * What of an operation crosses the links of each rank at least, of so many ranks: as nccl-tests count for the bus
 * bandwidth (nccl-tests, doc/PERFORMANCE.md). NCCL's count is of one rank's part where each has a part of its own.
 */
static uint64_t link_bytes(const char *func, uint64_t bytes, int32_t n_ranks)
{
	double n = n_ranks, times = 1;

	if (bytes > BYTES_MAX || n_ranks < 1)
		return 0;
	if (strcmp(func, "AllReduce") == 0)
		times = 2 * (n - 1) / n;
	else if (strcmp(func, "AllGather") == 0 || strcmp(func, "ReduceScatter") == 0)
		times = n - 1;
	return (uint64_t)(times * (double)bytes);
}

static void count_choice(struct gs_nccl_choice *c, const struct gs_rec_nccl_op *op)
{
	c->ops++;
	c->enqueue_ns += op->end_ns - op->start_ns;
	if (op->bytes == GS_NCCL_BYTES_UNKNOWN)
		return;
	c->sized++;
	c->bytes += op->bytes;
	if (op->bytes < c->min_bytes)
		c->min_bytes = op->bytes;
	if (op->bytes > c->max_bytes)
		c->max_bytes = op->bytes;
}

static void count_process(struct gs_nccl_ops *o, const struct gs_rec_nccl_op *op)
{
	struct nccl_ops_process *p;

	if (op->process >= GS_DICT_MAX_ID ||
	    !gs_vec_reach(&o->processes, &o->n_processes, op->process))
		return;
	p = &o->processes[op->process];
	p->ops++;
	if (op->number > p->newest)
		p->newest = op->number;
}

static int take_op(struct gs_nccl_ops *o, const struct gs_dict *dict,
		   const struct gs_rec_nccl_op *op)
{
	struct nccl_ops_member *m = nccl_ops_find_member(o, op->process, op->comm);
	uint32_t choice = find_choice(o, op);

	count_process(o, op);
	*(op->what == GS_NCCL_TRANSFER ? &o->sums.transfers : &o->sums.collectives) += 1;
	if (op->bytes == GS_NCCL_BYTES_UNKNOWN)
		o->sums.unsized++;
	else
		o->sums.bytes += op->bytes;
	if (m)
		nccl_ops_count_member(m, op);
	else
		o->sums.unranked++;
	if (choice == CHOICES_MAX) {
		o->sums.left_out++;
		return 0;
	}
	count_choice(&o->choices[choice].c, op);
	return nccl_ops_expect_channels(
		o, op, choice,
		link_bytes(gs_dict_string(dict, op->func_str), op->bytes, m ? m->n_ranks : 0));
}

static void take_comm(struct gs_nccl_ops *o, const struct gs_rec_nccl_comm *c)
{
	struct nccl_ops_member *m;

	o->sums.abi = c->abi;
	o->sums.nccl = c->nccl ? c->nccl : o->sums.nccl;
	o->sums.no_windows += c->what == GS_NCCL_COMM_NO_WINDOWS;
	m = nccl_ops_find_member(o, c->process, c->number);
	if (!m)
		return;
	m->has_ended = c->what == GS_NCCL_COMM_ENDED;
	if (m->has_ended)
		return;
	m->hash = c->hash ? c->hash : m->hash;
	m->rank = c->rank;
	m->n_ranks = c->n_ranks;
	m->name_str = c->name_str;
}

int gs_nccl_ops_take(struct gs_nccl_ops **ops, const struct gs_dict *dict,
		     const struct gs_record *r)
{
	if (r->kind != GS_REC_NCCL_OP && r->kind != GS_REC_NCCL_COMM &&
	    r->kind != GS_REC_NCCL_CHANNEL)
		return 0;
	if (!*ops && make_ops(ops) < 0)
		return -ENOMEM;
	if (r->kind == GS_REC_NCCL_OP)
		return take_op(*ops, dict, (const void *)r);
	if (r->kind == GS_REC_NCCL_CHANNEL)
		return nccl_ops_take_channel(*ops, (const void *)r);
	take_comm(*ops, (const void *)r);
	return 0;
}

/* --- the summary --- */

static int compare_choices(const void *a, const void *b)
{
	const struct gs_nccl_choice *x = a, *y = b;
	int r;

	if (x->bytes != y->bytes)
		return x->bytes > y->bytes ? -1 : 1;
	if (x->ops != y->ops)
		return x->ops > y->ops ? -1 : 1;
	r = strcmp(x->func, y->func);
	if (r == 0)
		r = strcmp(x->algorithm, y->algorithm);
	if (r == 0)
		r = strcmp(x->protocol, y->protocol);
	return r ? r : (x->channels > y->channels) - (x->channels < y->channels);
}

static void add_choices(const struct gs_nccl_ops *o, const struct gs_dict *dict,
			struct gs_summary *s, struct gs_nccl_summary *out)
{
	for (uint32_t i = 0; i < o->n_choices; i++) {
		const struct nccl_ops_choice *from = &o->choices[i];
		struct gs_nccl_choice *c = &out->choices[out->n_choices++];

		*c = from->c;
		c->min_bytes = c->sized ? c->min_bytes : 0;
		c->func = gs_summary_text(s, gs_dict_string(dict, from->func_str));
		c->algorithm = gs_summary_text(s, gs_dict_string(dict, from->algorithm_str));
		c->protocol = gs_summary_text(s, gs_dict_string(dict, from->protocol_str));
	}
	qsort(out->choices, out->n_choices, sizeof(*out->choices), compare_choices);
}

int gs_nccl_ops_summary(struct gs_nccl_ops *o, const struct gs_dict *dict, struct gs_summary *s)
{
	struct gs_nccl_summary *out;

	if (!o)
		return 0;
	out = gs_summary_alloc(s, sizeof(*out));
	if (!out)
		return -ENOMEM;
	nccl_ops_settle(o);
	*out = o->sums;
	out->choices = gs_summary_alloc(s, (o->n_choices + 1) * sizeof(*out->choices));
	if (!out->choices)
		return -ENOMEM;
	add_choices(o, dict, s, out);
	for (uint32_t i = 0; i < o->n_processes; i++)
		if (o->processes[i].newest > o->processes[i].ops)
			out->lost += o->processes[i].newest - o->processes[i].ops;
	s->nccl = out;
	return nccl_ops_add_ranks(o, dict, s, out);
}
