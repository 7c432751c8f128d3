/* Between the files of this room: nccl_ops.c has records and choices, timing.c which channels are of which operation,
 * ranks.c how far the ranks of communicators are. */
#ifndef GS_PIPELINE_NCCL_OPS_NCCL_OPS_INT_H
#define GS_PIPELINE_NCCL_OPS_NCCL_OPS_INT_H

#include <stdbool.h>

#include "core/base/map.h"
#include "model/summary/nccl.h"
#include "pipeline/nccl_ops/nccl_ops.h"

#define NCCL_OPS_FUNCS 16u /* different ones of a communicator that are followed */

/* A rank's communicator. */
struct nccl_ops_member {
	uint32_t process; /* id */
	uint64_t hash;
	int32_t rank, n_ranks;
	uint32_t name_str;
	uint64_t ops;
	uint64_t last_ns; /* end of its last operation */
	bool has_ended;
	struct {
		uint32_t str;
		uint64_t next; /* one more than the highest number that was handed over */
	} funcs[NCCL_OPS_FUNCS];
	uint32_t n_funcs;
};

struct nccl_ops_choice {
	struct gs_nccl_choice c; /* its texts are not set */
	uint32_t func_str, algorithm_str, protocol_str;
};

/* An operation whose channels may still come, or channels whose operation may. */
struct nccl_ops_recent {
	uint32_t process, number; /* process 0: none */
	uint32_t choice;          /* index + 1; 0 not known yet */
	uint32_t n_channels;
	uint64_t first_ns, last_ns; /* by the GPU's clock; 0 no channel has its time */
	uint64_t bytes;             /* that cross each rank's links */
};

struct nccl_ops_process {
	uint64_t ops;
	uint32_t newest; /* number of an operation */
};

struct gs_nccl_ops {
	struct gs_map choice_of;
	struct nccl_ops_choice *choices; /* owned */
	uint32_t n_choices, choices_room;
	struct gs_map member_of;         /* process and number of the communicator */
	struct nccl_ops_member *members; /* owned */
	uint32_t n_members, members_room;
	struct nccl_ops_process *processes; /* owned; by id */
	uint32_t n_processes;
	struct nccl_ops_recent *recent; /* owned; NULL until one comes */
	struct gs_nccl_summary sums;    /* its counts */
};

/* --- ranks.c --- */

/* NULL: there is no room for it, or no number of it. */
struct nccl_ops_member *nccl_ops_find_member(struct gs_nccl_ops *ops, uint32_t process,
					     uint32_t comm);
void nccl_ops_count_member(struct nccl_ops_member *member, const struct gs_rec_nccl_op *op);
int nccl_ops_add_ranks(struct gs_nccl_ops *ops, const struct gs_dict *dict,
		       struct gs_summary *summary, struct gs_nccl_summary *out);

/* --- timing.c --- */

int nccl_ops_expect_channels(struct gs_nccl_ops *ops, const struct gs_rec_nccl_op *op,
			     uint32_t choice, uint64_t link_bytes);
int nccl_ops_take_channel(struct gs_nccl_ops *ops, const struct gs_rec_nccl_channel *channel);

/* All that were looked at until now are whole. */
void nccl_ops_settle(struct gs_nccl_ops *ops);

#endif
