/*
 * Records of the door to NCCL (companion/nccl) in the file of a process: model/companion/file.h. NCCL itself says what
 * it does: which algorithm it chose, over how many channels, and the number of each operation, which all ranks of a
 * communicator have alike. Times are ticks unless their names say ns.
 */
#ifndef GS_MODEL_COMPANION_NCCL_H
#define GS_MODEL_COMPANION_NCCL_H

#include "model/companion/file.h"
#include "model/nccl/nccl.h"

enum gs_companion_nccl_kind {
	GS_COMPANION_NCCL_COMM = GS_COMPANION_NCCL_FIRST, /* struct gs_companion_nccl_comm */
	GS_COMPANION_NCCL_OP,                             /* struct gs_companion_nccl_op */
	GS_COMPANION_NCCL_CHANNEL,                        /* struct gs_companion_nccl_channel */
};

/* A communicator of this process began to be followed, or ended. name: as its user named it, to the first zero or the
 * record's end; "" it has none. */
struct gs_companion_nccl_comm {
	struct gs_companion_record head;
	uint64_t time;   /* ticks of the processor, as in all records */
	uint64_t hash;   /* the same for all ranks of the communicator; 0 not known */
	uint32_t number; /* of this process: 1, 2, ... */
	uint32_t what;   /* enum gs_nccl_comm_what */
	int32_t rank;    /* -1 not known, as are the next two when 0: before NCCL 2.27 */
	int32_t n_ranks;
	int32_t n_nodes;
	uint32_t abi;  /* version of NCCL's interface that is used: 1 .. GS_NCCL_ABI_MAX */
	uint32_t nccl; /* version of NCCL, as ncclGetVersion() says it; 0 not known */
	uint32_t pad;
	char name[];
};
_Static_assert(sizeof(struct gs_companion_nccl_comm) == 56, "gs_companion_nccl_comm");

#define GS_COMPANION_NCCL_NAME_BYTES 128u /* of a communicator; longer ones are cut */

/* An operation that NCCL has handed to the GPU: from the begin to the end of the handing over. */
struct gs_companion_nccl_op {
	struct gs_companion_record head;
	uint64_t start, end; /* ticks of the processor */
	uint64_t hash;       /* of its communicator; 0 not known */
	uint64_t seq;        /* of its function in its communicator, from 0; of collectives */
	uint64_t count;      /* of elements */
	uint32_t number;     /* of this process: 1, 2, ...; one that is missing was lost */
	uint32_t comm;       /* number of its communicator; 0: there were too many */
	uint32_t group;      /* operations of one number are handed over together; 0 not known */
	int32_t rank;        /* of this process in the communicator */
	int32_t peer; /* the other rank of a transfer; the root of a collective, 0 where it has none */
	uint16_t channels; /* 0 not known */
	uint8_t warps;     /* 0 not known */
	uint8_t what;      /* enum gs_nccl_op_what */
	/* As NCCL spells them, to the first zero or the member's end; "" it said none. */
	char func[16];
	char datatype[16];
	char algorithm[24];
	char protocol[8];
};
_Static_assert(sizeof(struct gs_companion_nccl_op) == 136, "gs_companion_nccl_op");

/* A channel of an operation ran on the GPU, or a proxy's thread moved data for it. */
struct gs_companion_nccl_channel {
	struct gs_companion_record head;
	uint64_t start, end; /* when NCCL reported that it had begun and ended */
	uint64_t gpu_start_ns,
		gpu_end_ns; /* by the GPU's own clock, of no known begin; 0 not known */
	uint32_t op;        /* number of the operation; 0 not known */
	uint32_t what;      /* enum gs_nccl_channel_what */
	uint16_t channel;
	uint16_t is_send;     /* of a proxy, as are the next three */
	int32_t peer;         /* the rank that it sends to or receives from */
	uint32_t steps;       /* of the transfer, as NCCL counts them */
	uint32_t chunk_bytes; /* of a step */
};
_Static_assert(sizeof(struct gs_companion_nccl_channel) == 64, "gs_companion_nccl_channel");

#endif
