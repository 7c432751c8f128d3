#include "model/node/job_mpi.h"

#include <stdbool.h>
#include <stdlib.h>

#include "model/trace/mpi.h"

void gs_job_mpi_moved_of(const struct gs_job_mpi_rank *rank, struct gs_job_mpi_moved *ret)
{
	*ret = (struct gs_job_mpi_moved){0};
	for (size_t i = 0; i < rank->n_peers; i++) {
		const struct gs_mpi_peer_summary *p = &rank->peers[i];
		bool sent = p->direction == GS_MPI_SENT;

		*(sent ? &ret->sent_calls : &ret->received_calls) += p->calls;
		*(sent ? &ret->sent_bytes : &ret->received_bytes) += p->bytes;
		ret->room_calls += p->direction == GS_MPI_ROOM ? p->calls : 0;
		ret->unsized += p->unsized;
	}
}

struct gs_job_mpi_rank *gs_job_mpi_add(struct gs_job_mpi *mpi)
{
	struct gs_job_mpi_rank *more = realloc(mpi->ranks, (mpi->n_ranks + 1) * sizeof(*more));

	if (!more)
		return NULL;
	mpi->ranks = more;
	more += mpi->n_ranks++;
	*more = (struct gs_job_mpi_rank){.rank = -1, .n_ranks = -1};
	return more;
}

static int compare_functions(const void *a, const void *b)
{
	const struct gs_job_mpi_function *x = a, *y = b;

	return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

static int compare_peers(const void *a, const void *b)
{
	const struct gs_mpi_peer_summary *x = a, *y = b;
	int r = (x->bytes < y->bytes) - (x->bytes > y->bytes);

	if (!r)
		r = (x->peer > y->peer) - (x->peer < y->peer);
	return r ? r : (int)x->direction - (int)y->direction;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct gs_job_mpi_rank *x = a, *y = b;
	int r = (x->rank > y->rank) - (x->rank < y->rank);

	return r ? r : (x->pid > y->pid) - (x->pid < y->pid);
}

static void sort_rows(void *rows, size_t n, size_t bytes,
		      int (*compare)(const void *, const void *))
{
	if (n)
		qsort(rows, n, bytes, compare);
}

void gs_job_mpi_sort(struct gs_job_mpi *mpi)
{
	for (size_t i = 0; i < mpi->n_ranks; i++) {
		struct gs_job_mpi_rank *r = &mpi->ranks[i];

		sort_rows(r->functions, r->n_functions, sizeof(*r->functions), compare_functions);
		sort_rows(r->peers, r->n_peers, sizeof(*r->peers), compare_peers);
	}
	sort_rows(mpi->ranks, mpi->n_ranks, sizeof(*mpi->ranks), compare_ranks);
}

void gs_job_mpi_fini(struct gs_job_mpi *mpi)
{
	for (size_t i = 0; i < mpi->n_ranks; i++) {
		free(mpi->ranks[i].functions);
		free(mpi->ranks[i].peers);
	}
	free(mpi->ranks);
	*mpi = (struct gs_job_mpi){0};
}
