/* The bytes of calls that are found in memory of the traced process: included by model/call/memory.h alone. */
#ifndef GS_MODEL_CALL_SIZES_H
#define GS_MODEL_CALL_SIZES_H

#include "model/call/outcome.h"
#include "model/trace/call_args.h"

#define GS_CALL_BATCH_READ 16

/* Adds n sizes at from, 16 at most, to o->bytes. False when they could not be read. */
GS_CALL_GLOBAL int gs_call_sizes_add(struct gs_outcome *o, __u64 from, __u32 n)
{
	__u64 v[GS_CALL_BATCH_READ] = {};

	if (!o)
		return 0;
	barrier_var(n); /* else the compiler leaves out the bound that the verifier needs */
	if (n > GS_CALL_BATCH_READ || !gs_call_read(v, n * 8, from, o))
		return 0;
	for (int i = 0; i < GS_CALL_BATCH_READ; i++)
		o->bytes += v[i];
	return 1;
}

/* Adds n sizes at from. */
static GS_CALL_APART void gs_call_sum_sizes(__u64 from, __u64 n, struct gs_outcome *o)
{
	if (n > GS_BATCH_MAX) {
		n = GS_BATCH_MAX;
		o->flags |= GS_CALL_ARGS_UNREAD;
	}
	for (int i = 0; i < GS_BATCH_MAX / GS_CALL_BATCH_READ && n; i++) {
		__u32 k = n < GS_CALL_BATCH_READ ? n : GS_CALL_BATCH_READ;

		if (!gs_call_sizes_add(o, from, k))
			break;
		from += GS_CALL_BATCH_READ * 8;
		n -= k;
	}
}

/* Adds the bytes of a struct cudaMemcpy3DBatchOp or CUDA_MEMCPY3D_BATCH_OP (112 bytes): source (type,
 * address), destination at 40, extent at 80. That of arrays (type 2) counts elements of a size that
 * is not known. False when it could not be read. */
GS_CALL_GLOBAL int gs_call_box_add(struct gs_outcome *o, __u64 from)
{
	__u64 v[13] = {};

	if (!o || !gs_call_read(v, sizeof(v), from, o))
		return 0;
	if ((__u32)v[0] == 1 && (__u32)v[5] == 1)
		o->bytes += v[10] * v[11] * v[12];
	else
		o->flags |= GS_CALL_ARGS_UNREAD;
	return 1;
}

/* The same of n of them in a row, at most GS_BATCH3D_MAX. */
static GS_CALL_APART void gs_call_sum_boxes(__u64 from, __u64 n, struct gs_outcome *o)
{
	if (n > GS_BATCH3D_MAX)
		o->flags |= GS_CALL_ARGS_UNREAD;
	for (__u32 i = 0; i < GS_BATCH3D_MAX && i < n; i++)
		if (!gs_call_box_add(o, from + i * 112))
			break;
}

/* 1 or 0, of what is below 2^63: whether it is 0; whether it is above 1. */
static __always_inline __u64 gs_call_is_zero(__u64 v)
{
	return (v - 1) >> 63;
}

/* See above. */
static __always_inline __u64 gs_call_is_many(__u64 v)
{
	return (1 - v) >> 63;
}

/* cudaMalloc3DArray and cudaMallocMipmappedArray: each level has half the width, height and, unless
 * that counts layers or faces, depth of the one before; what is 0 is 1. */
static GS_CALL_APART __u64 gs_call_array_bytes(const struct gs_frame *f, __u32 levels, __u32 flags,
					       struct gs_outcome *o)
{
	__u64 w = f->v[GS_V_STACK], h = f->v[GS_V_STACK + 1], d = f->v[GS_V_STACK + 2], n = 0;
	__u64 halves_depth = gs_call_is_zero(flags & 5); /* cudaArrayLayered, cudaArrayCubemap */
	__u32 bits[4] = {};                              /* of cudaChannelFormatDesc */

	if (!gs_call_read(bits, sizeof(bits), f->v[1], o))
		return 0;
	/* Without branches: the verifier would follow each of the 32 levels both ways. */
	for (__u32 i = 0; i < 32; i++) {
		n += w * (h + gs_call_is_zero(h)) * (d + gs_call_is_zero(d));
		if (i + 1 >= levels)
			break;
		w >>= gs_call_is_many(w);
		h >>= gs_call_is_many(h);
		d >>= gs_call_is_many(d) & halves_depth;
	}
	return n * ((bits[0] + bits[1] + bits[2] + bits[3]) / 8);
}

/* The extent of a 2D or 3D copy that is in a struct in memory. */
static __always_inline __u64 gs_call_copy_struct_bytes(const struct gs_frame *f, __u32 post,
						       struct gs_outcome *o)
{
	__u64 v[3] = {};

	switch (post) {
	case GS_POST_COPY3D_RT: /* cudaMemcpy3DParms.extent at 128, arrays at 0 and 64 */
		if (!gs_call_read(v, 16, f->v[0], o))
			return 0;
		if (v[0])
			break;
		if (!gs_call_read(v, 8, f->v[0] + 64, o))
			return 0;
		if (v[0])
			break;
		return gs_call_read(v, 24, f->v[0] + 128, o) ? v[0] * v[1] * v[2] : 0;
	case GS_POST_COPY3D_PEER_RT: /* cudaMemcpy3DPeerParms: arrays at 0 and 72, extent at 144 */
		if (!gs_call_read(&v[0], 8, f->v[0], o) || !gs_call_read(&v[1], 8, f->v[0] + 72, o))
			return 0;
		if (v[0] || v[1])
			break;
		return gs_call_read(v, 24, f->v[0] + 144, o) ? v[0] * v[1] * v[2] : 0;
	case GS_POST_COPY2D_V1: /* 32 bits each: WidthInBytes at 84, Height */
		return gs_call_read(v, 8, f->v[0] + 84, o) ? (__u32)v[0] * (v[0] >> 32) : 0;
	case GS_POST_COPY3D_V1: /* 32 bits each: WidthInBytes at 128, Height, Depth */
		return gs_call_read(v, 12, f->v[0] + 128, o) ? (__u32)v[0] * (v[0] >> 32) * v[1]
							     : 0;
	case GS_POST_COPY2D_DRV: /* CUDA_MEMCPY2D: WidthInBytes at 112, Height */
		return gs_call_read(v, 16, f->v[0] + 112, o) ? v[0] * v[1] : 0;
	default: /* CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER: WidthInBytes at 176, Height, Depth */
		return gs_call_read(v, 24, f->v[0] + 176, o) ? v[0] * v[1] * v[2] : 0;
	}
	/* The extent counts elements of an array here, whose size the struct does not have. */
	o->flags |= GS_CALL_ARGS_UNREAD;
	return 0;
}

/* The bytes of a call whose post says that they are found in memory; into o->bytes. */
GS_CALL_GLOBAL int gs_call_bytes_read(struct gs_frame *f, struct gs_outcome *o, __u32 id)
{
	const volatile struct gs_func_desc *d = GS_CALL_DESC(id);
	__u64 b, v[2] = {};
	__u32 part[4] = {};

	if (!f || !o)
		return 0;
	b = gs_args_word(f, d->v_bytes);
	o->bytes = 0;
	switch (d->post) {
	case GS_POST_COPY_BATCH:
		gs_call_sum_sizes(b, gs_args_word(f, d->v_bytes2), o);
		break;
	case GS_POST_COPY3D_BATCH:
		gs_call_sum_boxes(b, gs_args_word(f, d->v_bytes2), o);
		break;
	case GS_POST_ARRAY3D:
		o->bytes = gs_call_array_bytes(f, gs_args_word(f, d->v_bytes2),
					       gs_args_word(f, d->v_aux), o);
		break;
	case GS_POST_PITCH32:
		if (!o->failed && gs_call_read(part, 4, f->v[1], o))
			o->bytes = b * part[0];
		break;
	case GS_POST_PITCH:
		if (!o->failed && gs_call_read(v, 8, f->v[1], o))
			o->bytes = b * v[0];
		break;
	case GS_POST_PITCHED_PTR:
		if (!o->failed && gs_call_read(v, 16, f->v[0], o))
			o->bytes = v[1] * b * gs_args_word(f, d->v_bytes2);
		break;
	case GS_POST_ARRAY: /* bits of x, y, z and w of cudaChannelFormatDesc; height 0: one row */
		if (!gs_call_read(part, 16, f->v[1], o))
			break;
		b *= (part[0] + part[1] + part[2] + part[3]) / 8;
		o->bytes = gs_args_word(f, d->v_bytes2) ? b * gs_args_word(f, d->v_bytes2) : b;
		break;
	default:
		o->bytes = gs_call_copy_struct_bytes(f, d->post, o);
	}
	return 0;
}

/* Whether the bytes of such a call (post: enum gs_post) are found by gs_call_bytes_read(). */
static __always_inline bool gs_call_has_bytes_in_memory(__u32 post)
{
	switch (gs_args_place(post)) {
	case GS_ARGS_OUT_SIZE:
	case GS_ARGS_OUT_SIZE32:
	case GS_ARGS_COPY:
	case GS_ARGS_BATCH:
		return true;
	default:
		return false;
	}
}

#endif
