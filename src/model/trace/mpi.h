/*
 * What the kernel side adds up for MPI beside the functions' cells: messages and bytes by peer, and
 * from when to when a process called MPI. Both sides of the kernel border know it.
 */
#ifndef GS_MODEL_TRACE_MPI_H
#define GS_MODEL_TRACE_MPI_H

#ifndef __bpf__
#include <linux/types.h>
#endif

/*
 * How a library of MPI represents datatypes, in the cookies of its entries (bits 40 to 47). An
 * MPI_Datatype of Open MPI is the address of a struct, and this is where the size stands in it
 * (bytes from its beginning, 16 or more); one of MPICH and its derivatives is an int that has the size of
 * built-in types inside (mpi.h of MPICH 4.0: bits 8 to 15 of 0x4c00....). They also differ in the
 * constants MPI_ANY_SOURCE, MPI_PROC_NULL, MPI_IN_PLACE and MPI_STATUS_IGNORE and in MPI_Status.
 */
#define GS_MPI_ABI_UNKNOWN  0
#define GS_MPI_ABI_MPICH    1
#define GS_MPI_ABI_MIN      16 /* from here on: Open MPI */
#define GS_COOKIE_MPI_SHIFT 40
#define GS_COOKIE_MPI_MASK  0xffull

/* How the bytes of a call follow from its arguments: bits 4 to 7 of gs_func_desc.v_aux, whose low
 * bits are the word of the peer or root. "In place" is said of the words that count instead when
 * the buffer is MPI_IN_PLACE. */
enum gs_mpi_shape {
	GS_MPI_PLAIN = 0, /* count times size */
	GS_MPI_SEND = 1,  /* to a peer */
	GS_MPI_RECV = 2,  /* from a peer; v_stream is the word of the status */
	GS_MPI_SENDRECV = 3,
	GS_MPI_SENDRECV_REPLACE = 4,
	GS_MPI_GATHER = 5,     /* buffer v[0]; in place v[4], v[5] */
	GS_MPI_SCATTER = 6,    /* buffer v[3]; in place v[1], v[2] */
	GS_MPI_GATHERV = 7,    /* buffer v[0]; in place not known */
	GS_MPI_SCATTERV = 8,   /* buffer v[4]; in place not known */
	GS_MPI_PER_RANK = 9,   /* times the ranks of the communicator */
	GS_MPI_ALLTOALL = 10,  /* the same; buffer v[0]; in place v[4], v[5] */
	GS_MPI_SUM = 11,       /* v_bytes is an array of counts, one for each rank */
	GS_MPI_ALLTOALLV = 12, /* the same; buffer v[0]; in place v[5], v[7] */
	GS_MPI_UNSIZED = 13,   /* what it moves is not found out */
	GS_MPI_COMM_FREE = 14, /* a communicator at v[0] ends */
};

/* aux of a call of MPI is 0 (it has no peer or root), one of these, or the rank plus 1. */
#define GS_MPI_AUX_ANY    0xffffffffu /* MPI_ANY_SOURCE, and the status does not say who it was */
#define GS_MPI_AUX_NOBODY 0xfffffffeu /* MPI_PROC_NULL */

/* The numbers are stored. */
enum gs_mpi_direction {
	GS_MPI_SENT = 1,
	GS_MPI_RECEIVED = 2, /* as the status says, which the program asked for */
	GS_MPI_ROOM = 3,     /* room for a message; how long it was is not known */
	GS_MPI_SPAN = 4,     /* no transfers: when the process called MPI */
};

#define GS_MPI_PEER_ANY (-1)

#define GS_MPI_ROW_MAX 16384 /* processes and their peers at one time, from row 1 */

struct gs_mpi_key {
	__u32 pid;
	__s32 peer;      /* a rank of comm, or GS_MPI_PEER_ANY; SPAN: 0 */
	__u64 comm;      /* the handle of the communicator, or window; SPAN: 0 */
	__u32 direction; /* enum gs_mpi_direction */
	__u32 pad;
};
_Static_assert(sizeof(struct gs_mpi_key) == 24, "gs_mpi_key");

/* Written by all threads of a process, only ever growing. */
struct gs_mpi_row {
	struct gs_mpi_key key; /* of row 0: the rest only, calls being how many were handed out */
	__u64 calls;           /* transfers; SPAN: calls of any function */
	__u64 bytes;           /* SPAN: when the first call began, CLOCK_MONOTONIC ns */
	__u64 unsized; /* calls whose bytes are not known; SPAN: when the last one returned */
};
_Static_assert(sizeof(struct gs_mpi_row) == 48, "gs_mpi_row");

struct gs_mpi_comm_key {
	__u64 comm; /* handle of the communicator */
	__u32 pid;
	__u32 pad;
};

struct gs_mpi_comm { /* as the process asked for them; -1: it did not */
	__s32 rank;  /* of this process */
	__s32 n_ranks;
};

#endif
