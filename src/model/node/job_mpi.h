/*
 * What the processes of a job did in MPI: by function, and to and from which peers. Plain values;
 * bytes and peers mean what model/trace/mpi.h says.
 */
#ifndef GS_MODEL_NODE_JOB_MPI_H
#define GS_MODEL_NODE_JOB_MPI_H

#include <stddef.h>
#include <stdint.h>

#include "model/summary/summary.h"

struct gs_job_mpi_function {
	const char *name; /* "MPI_Send"; static */
	uint64_t calls;   /* that have returned */
	uint64_t errors;  /* of these */
	uint64_t total_ns, max_ns;
	uint64_t bytes; /* of calls that succeeded */
};

struct gs_job_mpi_rank { /* a process that called MPI */
	uint32_t pid;
	int32_t rank, n_ranks; /* as the process asked MPI, else its launcher's; -1 unknown */
	uint64_t calls;        /* of all functions */
	uint64_t total_ns;     /* in MPI, of all its threads */
	uint64_t span_ns;      /* from the begin of the first call to the end of the last */
	struct gs_job_mpi_function *functions; /* owned; most time first */
	size_t n_functions;
	struct gs_mpi_peer_summary *peers; /* owned; most bytes first */
	size_t n_peers;
};

struct gs_job_mpi {
	struct gs_job_mpi_rank *ranks; /* owned; by rank, then pid */
	size_t n_ranks;
};

/* Messages to peers and from them (sent_calls, received_calls); room_calls: of the latter, those of
 * which only the room is known; unsized: calls whose bytes are not known. */
struct gs_job_mpi_moved {
	uint64_t sent_calls, sent_bytes, received_calls, received_bytes, room_calls, unsized;
};
/* Sums over the peers of a rank. */
void gs_job_mpi_moved_of(const struct gs_job_mpi_rank *rank, struct gs_job_mpi_moved *ret_moved);

/* One more rank, all zero, its numbers unknown; NULL: no memory. */
struct gs_job_mpi_rank *gs_job_mpi_add(struct gs_job_mpi *mpi);

/* The order that the members above name. */
void gs_job_mpi_sort(struct gs_job_mpi *mpi);
void gs_job_mpi_fini(struct gs_job_mpi *mpi);

#endif
