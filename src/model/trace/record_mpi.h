/* What a process moved by MPI, by peer, and when it called MPI at all: model/trace/mpi.h. */
#ifndef GS_MODEL_TRACE_RECORD_MPI_H
#define GS_MODEL_TRACE_RECORD_MPI_H

#include "model/trace/mpi.h"
#include "model/trace/record.h"

/* Of a process, a communicator, a peer and a direction: differences since the last such record, but
 * for the times of GS_MPI_SPAN. */
struct gs_rec_mpi {
	struct gs_record head;
	uint32_t process;   /* id */
	int32_t peer;       /* a rank of the communicator; GS_MPI_PEER_ANY */
	uint64_t comm;      /* handle of the communicator or window, unique within the process */
	uint32_t direction; /* enum gs_mpi_direction */
	uint32_t pad;
	uint64_t calls;    /* transfers; SPAN: calls of any function */
	uint64_t bytes;    /* of those whose bytes are known */
	uint64_t unsized;  /* calls whose bytes are not */
	uint64_t first_ns; /* SPAN: when the first call began; else 0 */
	uint64_t last_ns;  /* SPAN: when the last one so far returned; else 0 */
};
_Static_assert(sizeof(struct gs_rec_mpi) == 72, "mpi");

#endif
