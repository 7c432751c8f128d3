/*
 * Which call is how another one, that is open around it, does its work: seen from outside in the kernel, and from
 * inside in the process. Compiled by the BPF compiler and by the host's.
 */
#ifndef GS_MODEL_CALL_INNER_H
#define GS_MODEL_CALL_INNER_H

#include <stdbool.h>

#include "model/trace/class.h"
#include "model/trace/kernel_side.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* Do functions of this class always do one and the same thing, so that one that calls another has
 * it do its work? In the other classes only the same function does. */
static __always_inline bool gs_call_is_one_operation(__u32 class)
{
	switch (class) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
	case GS_CLASS_ALLOC:
	case GS_CLASS_FREE:
	case GS_CLASS_COPY:
	case GS_CLASS_MEMSET:
	case GS_CLASS_SYNC:
	case GS_CLASS_COLLECTIVE:
		return true;
	}
	return false;
}

/* True when the call of d is how the call around it (outer) does its work: a driver call of a runtime call, which
 * then has GS_CALL_DRIVER_SEEN in *flags, or a call of the same layer (ncclBcast calls ncclBroadcast; an
 * interposed cuMemAlloc calls the driver's). Nothing of CUDA or NCCL enters itself for another reason on one
 * thread, except by a function of the program that it calls: GS_POST_CALLBACK. NCCL's nested groups are no nested
 * calls, ncclGroupStart returns before the next one begins. is_same: both are calls of one function. */
static __always_inline bool gs_call_is_inner(const volatile struct gs_func_desc *outer,
					     const volatile struct gs_func_desc *d, bool is_same,
					     __u8 *flags)
{
	/* Also one of another kind: MPI-IO is made of collectives. */
	if (d->layer == GS_LAYER_MPI && outer->layer == GS_LAYER_MPI)
		return true;
	/* The runtime chooses contexts for its own work, and restores the program's. */
	if (d->op == GS_CLASS_CONTEXT && outer->layer == GS_LAYER_CUDA_RUNTIME)
		return d->post == GS_POST_NONE;
	if (outer->op != d->op)
		return false;
	if (d->layer == outer->layer)
		return d->post != GS_POST_CALLBACK && (is_same || gs_call_is_one_operation(d->op));
	if (d->layer != GS_LAYER_CUDA_DRIVER || outer->layer != GS_LAYER_CUDA_RUNTIME)
		return false;
	*flags |= GS_CALL_DRIVER_SEEN;
	return true;
}

#endif
