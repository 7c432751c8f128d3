/* How far each rank of a communicator is: the numbers of operations are the same on all of them. */
#include "pipeline/nccl_ops/nccl_ops_int.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

struct nccl_ops_member *nccl_ops_find_member(struct gs_nccl_ops *o, uint32_t process, uint32_t comm)
{
	uint64_t key = (uint64_t)process << 32 | comm, at;
	struct nccl_ops_member *m;

	if (!comm)
		return NULL;
	if (gs_map_get(&o->member_of, key, &at))
		return &o->members[at];
	if (!gs_vec_reserve(&o->members, &o->members_room, o->n_members + 1) ||
	    gs_map_put(&o->member_of, key, o->n_members) < 0)
		return NULL;
	m = &o->members[o->n_members++];
	*m = (struct nccl_ops_member){.process = process, .rank = -1};
	return m;
}

void nccl_ops_count_member(struct nccl_ops_member *m, const struct gs_rec_nccl_op *op)
{
	uint32_t i = 0;

	m->ops++;
	if (op->end_ns > m->last_ns)
		m->last_ns = op->end_ns;
	m->hash = m->hash ? m->hash : op->hash;
	m->rank = m->rank >= 0 ? m->rank : op->rank;
	if (op->what != GS_NCCL_COLLECTIVE)
		return;
	while (i < m->n_funcs && m->funcs[i].str != op->func_str)
		i++;
	if (i == NCCL_OPS_FUNCS)
		return;
	if (i == m->n_funcs)
		m->funcs[m->n_funcs++].str = op->func_str;
	if (op->seq != UINT64_MAX && op->seq + 1 > m->funcs[i].next)
		m->funcs[i].next = op->seq + 1;
}

static int compare_members(const void *a, const void *b)
{
	const struct nccl_ops_member *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	if (x->n_ranks != y->n_ranks)
		return x->n_ranks < y->n_ranks ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

static uint64_t next_of(const struct nccl_ops_member *m, uint32_t func)
{
	for (uint32_t i = 0; i < m->n_funcs; i++)
		if (m->funcs[i].str == func)
			return m->funcs[i].next;
	return 0;
}

/* Of one function: who has handed over least, when that rank lags more than those found so far. */
static void find_lag(const struct nccl_ops_member *m, uint32_t n, uint32_t func,
		     const struct gs_dict *dict, struct gs_summary *s, struct gs_nccl_ranks *ret)
{
	const struct nccl_ops_member *last = m;
	uint64_t most = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (next_of(&m[i], func) > most)
			most = next_of(&m[i], func);
		if (next_of(&m[i], func) < next_of(last, func))
			last = &m[i];
	}
	if (most - next_of(last, func) > ret->lag) {
		const struct gs_rec_process *p = gs_dict_process(dict, last->process);

		ret->lag = most - next_of(last, func);
		ret->lag_rank = last->rank;
		ret->lag_pid = p ? p->pid : 0;
		ret->lag_func = gs_summary_text(s, gs_dict_string(dict, func));
	}
}

/* When the trace ended; 0 not known. */
static uint64_t end_of_trace(const struct gs_dict *dict, const struct gs_summary *s)
{
	const struct gs_rec_session *session = gs_dict_session(dict);

	return session ? session->start_ns + s->duration_ns : 0;
}

static struct gs_nccl_ranks describe_ranks(const struct nccl_ops_member *m, uint32_t n,
					   const struct gs_dict *dict, struct gs_summary *s)
{
	uint64_t end_ns = end_of_trace(dict, s), last_ns = 0;
	uint32_t n_ended = 0;
	struct gs_nccl_ranks r = {.hash = m->hash,
				  .n_ranks = m->n_ranks,
				  .n_seen = n,
				  .name = gs_summary_text(s, gs_dict_string(dict, m->name_str)),
				  .lag_func = ""};

	for (uint32_t i = 0; i < n; i++) {
		r.ops += m[i].ops;
		for (uint32_t k = 0; n > 1 && k < m[i].n_funcs; k++)
			find_lag(m, n, m[i].funcs[k].str, dict, s, &r);
		n_ended += m[i].has_ended;
		last_ns = m[i].last_ns > last_ns ? m[i].last_ns : last_ns;
	}
	r.quiet_ns = last_ns && end_ns > last_ns ? end_ns - last_ns : 0;
	r.is_stalled = r.lag && (n_ended == n || r.quiet_ns >= GS_NCCL_QUIET_NS);
	return r;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct gs_nccl_ranks *x = a, *y = b;

	if (x->is_stalled != y->is_stalled)
		return x->is_stalled ? -1 : 1;
	if (x->ops != y->ops)
		return x->ops > y->ops ? -1 : 1;
	return (x->hash > y->hash) - (x->hash < y->hash);
}

/* Sorts the members: they are found no more afterwards. */
int nccl_ops_add_ranks(struct gs_nccl_ops *o, const struct gs_dict *dict, struct gs_summary *s,
		       struct gs_nccl_summary *out)
{
	struct nccl_ops_member *m GS_FREE = NULL;
	uint32_t n;

	out->comms = gs_summary_alloc(s, (o->n_members + 1) * sizeof(*out->comms));
	m = malloc((o->n_members + 1) * sizeof(*m));
	if (!out->comms || !m)
		return -ENOMEM;
	for (uint32_t i = 0; i < o->n_members; i++)
		m[i] = o->members[i];
	qsort(m, o->n_members, sizeof(*m), compare_members);
	for (uint32_t i = 0; i < o->n_members; i += n) {
		/* A rank that comes twice is of a communicator that was made again with the same hash; without a
		 * hash none belong together. */
		for (n = 1; i + n < o->n_members && m[i].hash && m[i + n].hash == m[i].hash &&
			    m[i + n].n_ranks == m[i].n_ranks && m[i + n].rank > m[i + n - 1].rank;
		     n++)
			;
		out->comms[out->n_comms++] = describe_ranks(&m[i], n, dict, s);
	}
	qsort(out->comms, out->n_comms, sizeof(*out->comms), compare_ranks);
	return 0;
}
