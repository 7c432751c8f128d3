/*
 * How the words that a call's entry saved become what is said of the call (struct gs_event_call),
 * by the row of the function table: one decoder for finished calls, in the kernel, and for calls
 * that are still open, in user space. Compiled by the BPF compiler and by the host's.
 *
 * Only words are decoded here. What lies in memory of the traced process is read by the kernel side
 * when the call returns (bpf/calls/post.bpf.h); gs_args_place says of which calls.
 */
#ifndef GS_MODEL_TRACE_CALL_ARGS_H
#define GS_MODEL_TRACE_CALL_ARGS_H

#include "model/trace/kernel_side.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

/* Where the arguments of a call are that its words do not have. */
enum gs_args_place {
	GS_ARGS_IN_WORDS = 0,
	GS_ARGS_OUT = 1,   /* arg[0] is where the result will be, a pointer */
	GS_ARGS_OUT32 = 2, /* the same, 32 bits wide */
	GS_ARGS_OUT_STREAM = 3,
	GS_ARGS_OUT_SIZE = 4,   /* GS_ARGS_OUT, and the bytes are known at the return */
	GS_ARGS_OUT_SIZE32 = 5, /* likewise, 32 bits wide */
	GS_ARGS_LAUNCH = 6,     /* a struct has dimensions, stream and bytes of shared memory */
	GS_ARGS_COPY = 7,       /* a struct has bytes, addresses and kind */
	GS_ARGS_BATCH = 8,      /* lists have them */
	GS_ARGS_MPI = 9,        /* the peer, and the bytes of a datatype */
};

/* post: enum gs_post of the row. */
static __always_inline enum gs_args_place gs_args_place(__u32 post)
{
	switch (post) {
	case GS_POST_OUT_PTR:
	case GS_POST_COMM_INIT:
	case GS_POST_COMM_INIT_SCALABLE:
	case GS_POST_COMM_SPLIT:
	case GS_POST_COMM_SHRINK:
	case GS_POST_KERNEL_NAME:
	case GS_POST_KERNEL_OF:
	case GS_POST_GRAPH_KERNEL:
		return GS_ARGS_OUT;
	case GS_POST_OUT_PTR32:
		return GS_ARGS_OUT32;
	case GS_POST_OUT_STREAM:
		return GS_ARGS_OUT_STREAM;
	case GS_POST_PITCH:
	case GS_POST_PITCHED_PTR:
	case GS_POST_ARRAY:
	case GS_POST_ARRAY3D:
		return GS_ARGS_OUT_SIZE;
	case GS_POST_PITCH32:
		return GS_ARGS_OUT_SIZE32;
	case GS_POST_LAUNCH_EXC:
	case GS_POST_LAUNCH_EX:
		return GS_ARGS_LAUNCH;
	case GS_POST_COPY3D_RT:
	case GS_POST_COPY2D_DRV:
	case GS_POST_COPY3D_DRV:
	case GS_POST_COPY3D_PEER_RT:
	case GS_POST_COPY3D_PEER_DRV:
	case GS_POST_COPY2D_V1:
	case GS_POST_COPY3D_V1:
		return GS_ARGS_COPY;
	case GS_POST_COPY_BATCH:
	case GS_POST_COPY3D_BATCH:
		return GS_ARGS_BATCH;
	case GS_POST_MPI:
		return GS_ARGS_MPI;
	}
	return GS_ARGS_IN_WORDS;
}

/* The word that index v of a row names. */
static __always_inline __u64 gs_args_word(const struct gs_frame *f, __u32 v)
{
	return f->v[v & (GS_V_MAX - 1)];
}

/* Two 32-bit numbers in one word, as arg[] of launches has them. */
static __always_inline __u64 gs_args_pair(__u64 low, __u64 high)
{
	return (low & 0xffffffff) | high << 32;
}

/* Bytes of an element of this ncclDataType_t; 0: not known. */
static __always_inline __u32 gs_args_nccl_type_bytes(__u64 dtype)
{
	/* One hex digit for each ncclDataType_t, 0 the lowest: int8 uint8 int32 uint32 int64
	 * uint64 half float double bfloat16 fp8e4m3 fp8e5m2 (nccl.h). */
	return dtype < 12 ? 0x112842884411ull >> (dtype * 4) & 15 : 0;
}

/* Datatype, op and root or peer. A call without an op (ncclSend, ncclRecv and those that only move)
 * has 255 there, one without a root or peer 65,535. */
static __always_inline __u32 gs_args_nccl(const struct gs_frame *f,
					  const volatile struct gs_func_desc *d)
{
	__u32 v_op = d->v_aux & (GS_V_MAX - 1), v_root = d->v_aux >> 4 & (GS_V_MAX - 1);
	__u32 dtype = gs_args_word(f, d->v_bytes2), op = gs_args_word(f, v_op),
	      root = gs_args_word(f, v_root);

	if (v_op == GS_V_NONE)
		op = 255;
	else if (op > 254)
		op = 254; /* made by ncclRedOpCreatePreMulSum: a large number */
	if (v_root == GS_V_NONE || root > 65534)
		root = 65535;
	return (dtype & 0xff) | op << 8 | root << 16;
}

/* The bytes of a call whose words have them; of others it is the product of what they have. */
static __always_inline __u64 gs_args_bytes(const struct gs_frame *f,
					   const volatile struct gs_func_desc *d)
{
	__u64 b = gs_args_word(f, d->v_bytes);

	if (d->post == GS_POST_NCCL)
		return b * gs_args_nccl_type_bytes(gs_args_word(f, d->v_bytes2) & 0xffffffff);
	if (d->v_bytes2 != GS_V_NONE)
		b *= gs_args_word(f, d->v_bytes2);
	if (d->post == GS_POST_EXTENT3)
		b *= gs_args_word(f, d->v_arg[1]);
	else if (d->post == GS_POST_FILL16)
		b *= 2;
	else if (d->post == GS_POST_FILL32)
		b *= 4;
	return b;
}

/* Sets what the words have beyond those that the row names: the dimensions of a launch, the kind of
 * a copy, what NCCL was called with. arg, aux: of the call, filled by the row. */
static __always_inline void gs_args_words(const struct gs_frame *f,
					  const volatile struct gs_func_desc *d, __u64 *arg,
					  __u32 *aux)
{
	const __u64 *v = f->v;

	switch (d->post) {
	case GS_POST_LAUNCH_RT:
		arg[1] = v[1];
		arg[2] = gs_args_pair(v[2], v[3]);
		arg[3] = gs_args_pair(v[3] >> 32, v[4]);
		break;
	case GS_POST_LAUNCH_DRV:
		arg[1] = gs_args_pair(v[1], v[2]);
		arg[2] = gs_args_pair(v[3], v[4]);
		arg[3] = gs_args_pair(v[5], v[6]);
		break;
	case GS_POST_LAUNCH_GRID:
		arg[1] = gs_args_pair(v[1], v[2]);
		arg[2] = 1;
		break;
	case GS_POST_COPY_ANY:
		*aux = GS_COPY_DEFAULT;
		break;
	case GS_POST_COPY_HTOD:
		*aux = GS_COPY_H2D;
		break;
	case GS_POST_COPY_DTOH:
		*aux = GS_COPY_D2H;
		break;
	case GS_POST_COPY_DTOD:
		*aux = GS_COPY_D2D;
		break;
	case GS_POST_COPY_PEER:
		*aux = GS_COPY_P2P;
		break;
	case GS_POST_EXTENT3:
		arg[1] = 0; /* it is in the bytes */
		break;
	case GS_POST_NCCL:
		*aux = gs_args_nccl(f, d);
		break;
	}
}

#endif
