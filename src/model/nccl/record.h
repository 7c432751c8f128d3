/* What NCCL said of its operations, by its interface for profilers: model/nccl/nccl.h. */
#ifndef GS_MODEL_NCCL_RECORD_H
#define GS_MODEL_NCCL_RECORD_H

#include "model/nccl/nccl.h"
#include "model/trace/record.h"

#define GS_NCCL_BYTES_UNKNOWN UINT64_MAX

/* A communicator of a process began to be followed, or ended. */
struct gs_rec_nccl_comm {
	struct gs_record head;
	uint32_t process; /* id */
	uint32_t number;  /* of the process: 1, 2, ... */
	uint64_t time_ns;
	uint64_t hash;   /* the same for all ranks of the communicator; 0 not known */
	uint32_t what;   /* enum gs_nccl_comm_what */
	int32_t rank;    /* -1 not known */
	int32_t n_ranks; /* 0 not known */
	int32_t n_nodes; /* 0 not known */
	uint32_t abi;    /* version of NCCL's interface for profilers */
	uint32_t nccl;   /* version of NCCL, as ncclGetVersion() says it; 0 not known */
	uint32_t name_str;
	uint32_t pad;
};
_Static_assert(sizeof(struct gs_rec_nccl_comm) == 64, "nccl_comm");

/* An operation was handed to the GPU. Of one process they come in no order of their numbers. */
struct gs_rec_nccl_op {
	struct gs_record head;
	uint32_t process;  /* id */
	uint32_t thread;   /* id of the one that handed it over; 0 not known */
	uint64_t start_ns; /* of the handing over */
	uint64_t end_ns;
	uint64_t hash;     /* of its communicator, the same for all ranks; 0 not known */
	uint64_t seq;      /* of its function in its communicator, from 0; of collectives */
	uint64_t count;    /* of elements */
	uint64_t bytes;    /* of these; GS_NCCL_BYTES_UNKNOWN: NCCL has no name for their type */
	uint32_t number;   /* of the process: 1, 2, ...; one that is missing was lost */
	uint32_t comm;     /* number of its communicator; 0 not known */
	uint32_t group;    /* those of one number were handed over together; 0 not known */
	int32_t rank;      /* of this process in the communicator */
	int32_t peer;      /* or root */
	uint16_t channels; /* 0 not known */
	uint16_t warps;    /* 0 not known */
	uint32_t what;     /* enum gs_nccl_op_what */
	/* As NCCL spells them; 0 it said none. */
	uint32_t func_str, datatype_str, algorithm_str, protocol_str;
	uint32_t pad;
};
_Static_assert(sizeof(struct gs_rec_nccl_op) == 112, "nccl_op");

/* A channel of an operation ran on the GPU, or a proxy's thread moved data for it. May come before the operation. */
struct gs_rec_nccl_channel {
	struct gs_record head;
	uint32_t process;  /* id */
	uint32_t op;       /* number of the operation; 0 not known */
	uint64_t start_ns; /* when NCCL reported its begin and its end */
	uint64_t end_ns;
	uint64_t gpu_start_ns; /* by the GPU's own clock, of no known begin; 0 not known */
	uint64_t gpu_end_ns;
	uint32_t what; /* enum gs_nccl_channel_what */
	uint16_t channel;
	uint16_t is_send;     /* of a proxy, as are the next three */
	int32_t peer;         /* the rank that it sends to or receives from */
	uint32_t steps;       /* of the transfer, as NCCL counts them */
	uint32_t chunk_bytes; /* of a step */
	uint32_t pad;
};
_Static_assert(sizeof(struct gs_rec_nccl_channel) == 72, "nccl_channel");

#endif
