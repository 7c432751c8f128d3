/*
 * MPI of one process, out of what the kernel side adds up: its functions, its peers, when it called
 * MPI, and which rank of how many it is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sources/launches/launches_int.h"
#include "core/base/vec.h"

#define COMMS_MAX 1024 /* communicators whose rank or size was asked for */

struct known_comm {
	uint64_t comm;
	int32_t rank, n_ranks; /* -1: not asked for */
};

struct launches_mpi {
	struct gs_job_mpi_rank sum; /* pid, rank and n_ranks are not used */
	struct known_comm *comms;   /* owned */
	size_t n_comms;
	uint64_t first_ns, last_ns; /* begin of the first call, end of the last */
};

static int make_once(struct launches_mpi **ref)
{
	if (!*ref)
		*ref = calloc(1, sizeof(**ref));
	return *ref ? 0 : -ENOMEM;
}

static struct gs_job_mpi_function *function_of(struct gs_job_mpi_rank *sum, const char *name)
{
	struct gs_job_mpi_function *f;

	for (size_t i = 0; i < sum->n_functions; i++)
		if (sum->functions[i].name == name)
			return &sum->functions[i];
	if (!gs_vec_reserve_next(&sum->functions, sum->n_functions))
		return NULL;
	f = &sum->functions[sum->n_functions++];
	*f = (struct gs_job_mpi_function){.name = name};
	return f;
}

int launches_mpi_add_calls(struct launches_mpi **ref, const struct gs_func *func,
			   const struct gs_cell *before, const struct gs_cell *now)
{
	uint64_t calls = now->calls - before->calls, total_ns = now->total_ns - before->total_ns;
	struct gs_job_mpi_function *f;

	if (!calls)
		return 0;
	f = make_once(ref) == 0 ? function_of(&(*ref)->sum, func->name) : NULL;
	if (!f)
		return -ENOMEM;
	f->calls += calls;
	f->errors += now->errors - before->errors;
	f->total_ns += total_ns;
	f->bytes += now->bytes - before->bytes;
	if (now->max_ns > f->max_ns)
		f->max_ns = now->max_ns;
	(*ref)->sum.calls += calls;
	(*ref)->sum.total_ns += total_ns;
	return 0;
}

static struct gs_mpi_peer_summary *peer_of(struct gs_job_mpi_rank *sum, const struct gs_mpi_key *k)
{
	struct gs_mpi_peer_summary *p;

	for (size_t i = 0; i < sum->n_peers; i++) {
		p = &sum->peers[i];
		if (p->peer == k->peer && p->comm == k->comm && p->direction == k->direction)
			return p;
	}
	if (!gs_vec_reserve_next(&sum->peers, sum->n_peers))
		return NULL;
	p = &sum->peers[sum->n_peers++];
	*p = (struct gs_mpi_peer_summary){.pid = k->pid,
					  .rank = -1,
					  .peer = k->peer,
					  .comm = k->comm,
					  .direction = k->direction};
	return p;
}

int launches_mpi_add_row(struct launches_mpi **ref, const struct gs_mpi_row *before,
			 const struct gs_mpi_row *now)
{
	struct gs_mpi_peer_summary *p;

	if (make_once(ref) < 0)
		return -ENOMEM;
	if (now->key.direction == GS_MPI_SPAN) {
		struct launches_mpi *m = *ref;

		if (!m->first_ns || now->bytes < m->first_ns)
			m->first_ns = now->bytes;
		if (now->unsized > m->last_ns)
			m->last_ns = now->unsized;
		return 0;
	}
	p = peer_of(&(*ref)->sum, &now->key);
	if (!p)
		return -ENOMEM;
	p->calls += now->calls - before->calls;
	p->bytes += now->bytes - before->bytes;
	p->unsized += now->unsized - before->unsized;
	return 0;
}

int launches_mpi_add_comm(struct launches_mpi **ref, const struct gs_event_comm *e)
{
	struct known_comm *c = NULL;

	if (make_once(ref) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < (*ref)->n_comms && !c; i++)
		if ((*ref)->comms[i].comm == e->comm)
			c = &(*ref)->comms[i];
	if (!c) {
		if ((*ref)->n_comms == COMMS_MAX)
			return 0;
		if (!gs_vec_reserve_next(&(*ref)->comms, (*ref)->n_comms))
			return -ENOMEM;
		c = &(*ref)->comms[(*ref)->n_comms++];
	}
	*c = (struct known_comm){.comm = e->comm, .rank = e->rank, .n_ranks = e->n_ranks};
	return 0;
}

/* By its largest communicator, as the summary of a trace does: pipeline/aggregate/mpi.c. */
static void find_rank(const struct launches_mpi *m, struct gs_job_mpi_rank *out)
{
	int32_t rank = -1, n_ranks = -1;

	for (size_t i = 0; i < m->n_comms; i++) {
		const struct known_comm *c = &m->comms[i];

		if (c->n_ranks > n_ranks) {
			n_ranks = c->n_ranks;
			rank = c->rank;
		} else if (c->n_ranks == n_ranks && c->rank >= 0) {
			rank = rank < 0 || rank == c->rank ? c->rank : -2;
		}
	}
	if (rank >= 0)
		out->rank = rank;
	if (n_ranks >= 0)
		out->n_ranks = n_ranks;
}

static void *copy_rows(const void *rows, size_t n, size_t bytes)
{
	void *copy = n ? malloc(n * bytes) : NULL;

	return copy ? memcpy(copy, rows, n * bytes) : NULL;
}

int launches_mpi_copy(const struct launches_mpi *m, struct gs_job_mpi_rank *out)
{
	const struct gs_job_mpi_rank *s = &m->sum;

	out->calls = s->calls;
	out->total_ns = s->total_ns;
	out->span_ns = m->last_ns > m->first_ns ? m->last_ns - m->first_ns : 0;
	find_rank(m, out);
	out->functions = copy_rows(s->functions, s->n_functions, sizeof(*s->functions));
	out->peers = copy_rows(s->peers, s->n_peers, sizeof(*s->peers));
	out->n_functions = out->functions ? s->n_functions : 0;
	out->n_peers = out->peers ? s->n_peers : 0;
	for (size_t i = 0; i < out->n_peers; i++)
		out->peers[i].rank = out->rank;
	return out->n_functions == s->n_functions && out->n_peers == s->n_peers ? 0 : -ENOMEM;
}

void launches_mpi_free(struct launches_mpi **ref)
{
	struct launches_mpi *m = *ref;

	if (!m)
		return;
	free(m->sum.functions);
	free(m->sum.peers);
	free(m->comms);
	free(m);
	*ref = NULL;
}
