/* MPI: what each process moved, to and from whom, and how much of its time that took. */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/trace/record_mpi.h"
#include "pipeline/aggregate/tally.h"

#define MAX_ROWS 262144

static bool is_row(const struct view_mpi *m, const struct gs_rec_mpi *r)
{
	return m->process == r->process && m->peer == r->peer && m->comm == r->comm &&
	       m->direction == r->direction;
}

static struct view_mpi *row_of(struct gs_aggregate *v, const struct gs_rec_mpi *r)
{
	uint64_t parts[3] = {r->comm, (uint64_t)r->process << 32 | (uint32_t)r->peer, r->direction};
	uint64_t key = gs_hash_bytes(parts, sizeof(parts)), idx;
	struct view_mpi *m;

	for (; gs_map_get(&v->mpi_idx, key, &idx); key++) {
		m = (struct view_mpi *)v->mpi.items + idx;
		if (is_row(m, r))
			return m;
	}
	m = gs_aggregate_grow(&v->mpi, sizeof(*m), MAX_ROWS);
	if (!m || gs_map_put(&v->mpi_idx, key, v->mpi.n - 1) < 0) {
		v->mpi.n -= m != NULL;
		v->n_left_out++;
		return NULL;
	}
	*m = (struct view_mpi){
		.process = r->process, .peer = r->peer, .comm = r->comm, .direction = r->direction};
	return m;
}

void gs_aggregate_mpi_init(struct gs_aggregate *v)
{
	v->mpi_idx = GS_MAP_INIT(MAX_ROWS);
}

void gs_aggregate_take_mpi(struct gs_aggregate *v, const struct gs_rec_mpi *r)
{
	struct view_mpi *m = row_of(v, r);

	if (!m)
		return;
	m->calls += r->calls;
	m->bytes += r->bytes;
	m->unsized += r->unsized;
	if (r->first_ns && (!m->first_ns || r->first_ns < m->first_ns))
		m->first_ns = r->first_ns;
	if (r->last_ns > m->last_ns)
		m->last_ns = r->last_ns;
}

void gs_aggregate_mpi_fini(struct gs_aggregate *v)
{
	free(v->mpi.items);
	gs_map_fini(&v->mpi_idx);
}

/* --- the summary --- */

bool gs_aggregate_is_mpi_comm(const struct gs_aggregate *v, const struct view_comm *c)
{
	return strncmp(gs_dict_string(v->dict, c->origin_str), "MPI_", 4) == 0;
}

/* Which rank it is of how many: by its largest communicator, which is the world, whatever number
 * the implementation gives that. Two that are as large and disagree: not known. */
static void find_rank(const struct gs_aggregate *v, uint32_t process, struct gs_mpi_rank_summary *s)
{
	const struct view_comm *c = v->comms.items;

	s->rank = s->n_ranks = -1;
	for (size_t i = 0; i < v->comms.n; i++) {
		if (c[i].process != process || !gs_aggregate_is_mpi_comm(v, &c[i]))
			continue;
		if (c[i].n_ranks > s->n_ranks) {
			s->n_ranks = c[i].n_ranks;
			s->rank = c[i].rank;
		} else if (c[i].n_ranks == s->n_ranks && c[i].rank >= 0) {
			s->rank = s->rank < 0 || s->rank == c[i].rank ? c[i].rank : -2;
		}
	}
	if (s->rank < 0)
		s->rank = -1;
}

static void add_time(const struct gs_summary *s, struct gs_mpi_rank_summary *rank)
{
	for (size_t i = 0; i < s->n_processes; i++) {
		const struct gs_function_list *l = &s->processes[i].functions;

		if (s->processes[i].pid != rank->pid)
			continue;
		for (size_t k = 0; k < l->n; k++)
			if (l->items[k].layer == GS_LAYER_MPI)
				rank->total_ns += l->items[k].total_ns;
	}
}

static void add_moved(struct gs_mpi_rank_summary *rank, const struct view_mpi *m)
{
	bool sent = m->direction == GS_MPI_SENT;

	*(sent ? &rank->sent_calls : &rank->received_calls) += m->calls;
	*(sent ? &rank->sent_bytes : &rank->received_bytes) += m->bytes;
	rank->unsized += m->unsized;
	if (m->direction == GS_MPI_ROOM)
		rank->room_calls += m->calls;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct gs_mpi_rank_summary *x = a, *y = b;
	int r = (x->rank > y->rank) - (x->rank < y->rank);

	return r ? r : (x->pid > y->pid) - (x->pid < y->pid);
}

static int compare_peers(const void *a, const void *b)
{
	const struct gs_mpi_peer_summary *x = a, *y = b;
	int r = (x->bytes < y->bytes) - (x->bytes > y->bytes);

	if (!r)
		r = (x->rank > y->rank) - (x->rank < y->rank);
	if (!r)
		r = (x->pid > y->pid) - (x->pid < y->pid);
	if (!r)
		r = (x->peer > y->peer) - (x->peer < y->peer);
	return r ? r : (int)x->direction - (int)y->direction;
}

static const struct gs_mpi_rank_summary *rank_of(const struct gs_summary *s, uint32_t pid)
{
	for (size_t i = 0; i < s->n_mpi_ranks; i++)
		if (s->mpi_ranks[i].pid == pid)
			return &s->mpi_ranks[i];
	return NULL;
}

static void add_rank(struct gs_aggregate *v, struct gs_summary *s, const struct view_mpi *m)
{
	const struct gs_rec_process *p = gs_dict_process(v->dict, m->process);
	struct gs_mpi_rank_summary *rank = &s->mpi_ranks[s->n_mpi_ranks++];
	const struct view_mpi *rows = v->mpi.items;

	rank->pid = p ? p->pid : 0;
	rank->comm = gs_summary_text(s, p ? gs_dict_string(v->dict, p->comm_str) : "");
	rank->calls = m->calls;
	rank->span_ns = m->last_ns > m->first_ns ? m->last_ns - m->first_ns : 0;
	find_rank(v, m->process, rank);
	add_time(s, rank);
	for (size_t i = 0; i < v->mpi.n; i++)
		if (rows[i].process == m->process && rows[i].direction != GS_MPI_SPAN)
			add_moved(rank, &rows[i]);
}

int gs_aggregate_add_mpi(struct gs_aggregate *v, struct gs_summary *s)
{
	const struct view_mpi *m = v->mpi.items;

	if (!v->mpi.n)
		return 0;
	s->mpi_ranks = gs_summary_alloc(s, (v->mpi.n + 1) * sizeof(*s->mpi_ranks));
	s->mpi_peers = gs_summary_alloc(s, (v->mpi.n + 1) * sizeof(*s->mpi_peers));
	if (!s->mpi_ranks || !s->mpi_peers)
		return -ENOMEM;
	for (size_t i = 0; i < v->mpi.n; i++)
		if (m[i].direction == GS_MPI_SPAN)
			add_rank(v, s, &m[i]);
	qsort(s->mpi_ranks, s->n_mpi_ranks, sizeof(*s->mpi_ranks), compare_ranks);
	for (size_t i = 0; i < v->mpi.n; i++) {
		const struct gs_rec_process *p = gs_dict_process(v->dict, m[i].process);
		const struct gs_mpi_rank_summary *rank = rank_of(s, p ? p->pid : 0);

		if (m[i].direction == GS_MPI_SPAN)
			continue;
		s->mpi_peers[s->n_mpi_peers++] =
			(struct gs_mpi_peer_summary){.pid = p ? p->pid : 0,
						     .rank = rank ? rank->rank : -1,
						     .peer = m[i].peer,
						     .comm = m[i].comm,
						     .direction = m[i].direction,
						     .calls = m[i].calls,
						     .bytes = m[i].bytes,
						     .unsized = m[i].unsized};
	}
	qsort(s->mpi_peers, s->n_mpi_peers, sizeof(*s->mpi_peers), compare_peers);
	return 0;
}
