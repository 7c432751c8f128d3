/*
 * Adds up what NCCL says of its operations: by what it chose for them (algorithm, protocol, channels), with the GPU's
 * time of those whose channels were looked at; and by communicator, how far each of its ranks is. Memory is bounded;
 * what finds no room is counted. One thread.
 */
#ifndef GS_PIPELINE_NCCL_OPS_NCCL_OPS_H
#define GS_PIPELINE_NCCL_OPS_NCCL_OPS_H

#include "model/summary/summary.h"
#include "model/trace/dict.h"
#include "model/nccl/record.h"

struct gs_nccl_ops;

/* *ops may be NULL, and is afterwards. */
void gs_nccl_ops_free(struct gs_nccl_ops **ops);

/* NCCL_COMM, NCCL_OP and NCCL_CHANNEL; others are passed over. *ops: NULL, made with the first. 0 or -ENOMEM. */
int gs_nccl_ops_take(struct gs_nccl_ops **ops, const struct gs_dict *dict,
		     const struct gs_record *record);

/* summary->nccl; stays NULL when NCCL said nothing (ops NULL). 0 or -ENOMEM. */
int gs_nccl_ops_summary(struct gs_nccl_ops *ops, const struct gs_dict *dict,
			struct gs_summary *summary);

#endif
