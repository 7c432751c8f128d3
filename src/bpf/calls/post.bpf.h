/*
 * What a call says beyond the words that its entry saved: bytes and arguments that lie in memory of
 * the traced process or must be put together, by the row of the function table (enum gs_post).
 *
 * What is rare is in functions that are not static: the verifier looks at those once, whatever the
 * state that they are called in, so the time to load the programs stays short.
 */
#ifndef GS_BPF_CALLS_POST_BPF_H
#define GS_BPF_CALLS_POST_BPF_H

#include "cell.bpf.h"
#include "outcome.bpf.h"
#include "model/trace/call_args.h"

static __always_inline bool read_user(void *to, __u32 bytes, __u64 from, struct outcome *o)
{
	if (bpf_probe_read_user(to, bytes, (void *)from) == 0)
		return true;
	o->flags |= GS_CALL_ARGS_UNREAD;
	return false;
}

#ifdef GS_WITH_CUDA
#define BATCH_READ 16

/* Adds n sizes behind from, 16 at most, to o->bytes. False when they could not be read. */
__noinline int gs_sizes_add(struct outcome *o, __u64 from, __u32 n)
{
	__u64 v[BATCH_READ] = {};

	if (!o)
		return 0;
	barrier_var(n); /* else the compiler leaves out the bound that the verifier needs */
	if (n > BATCH_READ || !read_user(v, n * 8, from, o))
		return 0;
	for (int i = 0; i < BATCH_READ; i++)
		o->bytes += v[i];
	return 1;
}

/* Adds n sizes behind from. */
static __noinline void sum_sizes(__u64 from, __u64 n, struct outcome *o)
{
	if (n > GS_BATCH_MAX) {
		n = GS_BATCH_MAX;
		o->flags |= GS_CALL_ARGS_UNREAD;
	}
	for (int i = 0; i < GS_BATCH_MAX / BATCH_READ && n; i++) {
		__u32 k = n < BATCH_READ ? n : BATCH_READ;

		if (!gs_sizes_add(o, from, k))
			break;
		from += BATCH_READ * 8;
		n -= k;
	}
}

/* Adds the bytes of a struct cudaMemcpy3DBatchOp or CUDA_MEMCPY3D_BATCH_OP (112 bytes): source (type,
 * address), destination at 40, extent at 80. That of arrays (type 2) counts elements of a size that
 * is not known. False when it could not be read. */
__noinline int gs_box_add(struct outcome *o, __u64 from)
{
	__u64 v[13] = {};

	if (!o || !read_user(v, sizeof(v), from, o))
		return 0;
	if ((__u32)v[0] == 1 && (__u32)v[5] == 1)
		o->bytes += v[10] * v[11] * v[12];
	else
		o->flags |= GS_CALL_ARGS_UNREAD;
	return 1;
}

static __noinline void sum_boxes(__u64 from, __u64 n, struct outcome *o)
{
	if (n > GS_BATCH3D_MAX)
		o->flags |= GS_CALL_ARGS_UNREAD;
	for (int i = 0; i < GS_BATCH3D_MAX && i < n; i++)
		if (!gs_box_add(o, from + i * 112))
			break;
}

/* 1 or 0, of what is below 2^63. */
static __always_inline __u64 is_zero(__u64 v)
{
	return (v - 1) >> 63;
}

static __always_inline __u64 is_many(__u64 v)
{
	return (1 - v) >> 63;
}

/* cudaMalloc3DArray and cudaMallocMipmappedArray: each level has half the width, height and, unless
 * that counts layers or faces, depth of the one before; what is 0 is 1. */
static __noinline __u64 array_bytes(const struct gs_frame *f, __u32 levels, __u32 flags,
				    struct outcome *o)
{
	__u64 w = f->v[GS_V_STACK], h = f->v[GS_V_STACK + 1], d = f->v[GS_V_STACK + 2], n = 0;
	__u64 halves_depth = is_zero(flags & 5); /* cudaArrayLayered, cudaArrayCubemap */
	__u32 bits[4] = {};                      /* of cudaChannelFormatDesc */

	if (!read_user(bits, sizeof(bits), f->v[1], o))
		return 0;
	/* Without branches: the verifier would follow each of the 32 levels both ways. */
	for (int i = 0; i < 32; i++) {
		n += w * (h + is_zero(h)) * (d + is_zero(d));
		if (i + 1 >= levels)
			break;
		w >>= is_many(w);
		h >>= is_many(h);
		d >>= is_many(d) & halves_depth;
	}
	return n * ((bits[0] + bits[1] + bits[2] + bits[3]) / 8);
}

/* The extent of a 2D or 3D copy that is in a struct in memory. */
static __always_inline __u64 copy_struct_bytes(const struct gs_frame *f, __u32 post,
					       struct outcome *o)
{
	__u64 v[3] = {};

	switch (post) {
	case GS_POST_COPY3D_RT: /* cudaMemcpy3DParms.extent at 128, arrays at 0 and 64 */
		if (!read_user(v, 16, f->v[0], o))
			return 0;
		if (v[0])
			break;
		if (!read_user(v, 8, f->v[0] + 64, o))
			return 0;
		if (v[0])
			break;
		return read_user(v, 24, f->v[0] + 128, o) ? v[0] * v[1] * v[2] : 0;
	case GS_POST_COPY3D_PEER_RT: /* cudaMemcpy3DPeerParms: arrays at 0 and 72, extent at 144 */
		if (!read_user(&v[0], 8, f->v[0], o) || !read_user(&v[1], 8, f->v[0] + 72, o))
			return 0;
		if (v[0] || v[1])
			break;
		return read_user(v, 24, f->v[0] + 144, o) ? v[0] * v[1] * v[2] : 0;
	case GS_POST_COPY2D_V1: /* 32 bits each: WidthInBytes at 84, Height */
		return read_user(v, 8, f->v[0] + 84, o) ? (__u32)v[0] * (v[0] >> 32) : 0;
	case GS_POST_COPY3D_V1: /* 32 bits each: WidthInBytes at 128, Height, Depth */
		return read_user(v, 12, f->v[0] + 128, o) ? (__u32)v[0] * (v[0] >> 32) * v[1] : 0;
	case GS_POST_COPY2D_DRV: /* CUDA_MEMCPY2D: WidthInBytes at 112, Height */
		return read_user(v, 16, f->v[0] + 112, o) ? v[0] * v[1] : 0;
	default: /* CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER: WidthInBytes at 176, Height, Depth */
		return read_user(v, 24, f->v[0] + 176, o) ? v[0] * v[1] * v[2] : 0;
	}
	/* The extent counts elements of an array here, whose size the struct does not have. */
	o->flags |= GS_CALL_ARGS_UNREAD;
	return 0;
}

/* The bytes of a call whose post says that they are found in memory; into o->bytes. */
__noinline int post_bytes(struct gs_frame *f, struct outcome *o, __u32 id)
{
	const volatile struct gs_func_desc *d = &gs_desc[id & FUNC_MASK];
	__u64 b, v[2] = {};
	__u32 part[4] = {};

	if (!f || !o)
		return 0;
	b = gs_args_word(f, d->v_bytes);
	o->bytes = 0;
	switch (d->post) {
	case GS_POST_COPY_BATCH:
		sum_sizes(b, gs_args_word(f, d->v_bytes2), o);
		break;
	case GS_POST_COPY3D_BATCH:
		sum_boxes(b, gs_args_word(f, d->v_bytes2), o);
		break;
	case GS_POST_ARRAY3D:
		o->bytes =
			array_bytes(f, gs_args_word(f, d->v_bytes2), gs_args_word(f, d->v_aux), o);
		break;
	case GS_POST_PITCH32:
		if (!o->failed && read_user(part, 4, f->v[1], o))
			o->bytes = b * part[0];
		break;
	case GS_POST_PITCH:
		if (!o->failed && read_user(v, 8, f->v[1], o))
			o->bytes = b * v[0];
		break;
	case GS_POST_PITCHED_PTR:
		if (!o->failed && read_user(v, 16, f->v[0], o))
			o->bytes = v[1] * b * gs_args_word(f, d->v_bytes2);
		break;
	case GS_POST_ARRAY: /* bits of x, y, z and w of cudaChannelFormatDesc; height 0: one row */
		if (!read_user(part, 16, f->v[1], o))
			break;
		b *= (part[0] + part[1] + part[2] + part[3]) / 8;
		o->bytes = gs_args_word(f, d->v_bytes2) ? b * gs_args_word(f, d->v_bytes2) : b;
		break;
	default:
		o->bytes = copy_struct_bytes(f, d->post, o);
	}
	return 0;
}

static __always_inline bool has_bytes_in_memory(__u32 post)
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

#ifdef GS_WITH_MPI
/* Sets o->bytes and, in v[14], the peer (src/bpf/mpi). */
int mpi_measure(struct gs_frame *f, struct outcome *o);
#endif

/* Sets o->bytes. */
static __always_inline void call_bytes(struct gs_frame *f, const volatile struct gs_func_desc *d,
				       struct outcome *o)
{
#ifdef GS_WITH_MPI
	if (d->post == GS_POST_MPI) {
		mpi_measure(f, o);
		return;
	}
#endif
#ifdef GS_WITH_CUDA
	if (has_bytes_in_memory(d->post)) {
		post_bytes(f, o, o->id);
		return;
	}
#endif
	o->bytes = gs_args_bytes(f, d);
}

/* A launch whose dimensions are in memory, packed as struct gs_event_call says. */
static __always_inline void fill_launch(struct gs_event_call *e, const struct gs_frame *f,
					struct outcome *o)
{
	struct {
		__u32 grid[3], block[3];
		__u64 shared_bytes; /* 32 bits wide in CUlaunchConfig, padded */
		__u64 stream;
	} c = {};

	/* cudaLaunchConfig_t and CUlaunchConfig begin alike (driver_types.h, cuda.h). */
	if (read_user(&c, sizeof(c), f->v[0], o)) {
		e->arg[1] = c.grid[0] | (__u64)c.grid[1] << 32;
		e->arg[2] = c.grid[2] | (__u64)c.block[0] << 32;
		e->arg[3] = c.block[1] | (__u64)c.block[2] << 32;
		e->aux = (__u32)c.shared_bytes;
		e->stream = c.stream;
	}
}

/* The kind of a copy whose struct names memory types (CUmemorytype: 1 host, 2 device, 3 array). */
static __always_inline __u32 kind_of_types(__u32 src, __u32 dst)
{
	bool from_host = src == 1, to_host = dst == 1;

	if (src == 4 || dst == 4)
		return GS_COPY_DEFAULT;
	if (from_host)
		return to_host ? GS_COPY_H2H : GS_COPY_H2D;
	return to_host ? GS_COPY_D2H : GS_COPY_D2D;
}

/* Destination or source of a copy that a driver's struct describes. Where the host's address is, the
 * device's follows, and the array. */
static __always_inline __u64 copy_side(const struct gs_frame *f, __u32 type, __u32 at,
				       __u32 device_bytes, struct outcome *o)
{
	__u64 p = 0;

	if (type == 1)
		read_user(&p, 8, f->v[0] + at, o);
	else if (type == 3)
		read_user(&p, 8, f->v[0] + at + 16, o);
	else
		read_user(&p, device_bytes, f->v[0] + at + 8, o);
	return p;
}

static __always_inline void fill_copy_struct(struct gs_event_call *e, const struct gs_frame *f,
					     __u32 post, struct outcome *o)
{
	__u32 src = 0, dst = 0, src_at, dst_at, dst_type_at, device_bytes = 8;
	__u64 p[2] = {};

	switch (post) {
	case GS_POST_COPY3D_RT: /* srcPtr.ptr at 32, dstPtr.ptr at 96, kind at 152 */
	case GS_POST_COPY3D_PEER_RT:
		dst_at = post == GS_POST_COPY3D_RT ? 96 : 104;
		read_user(&p[0], 8, f->v[0] + dst_at, o);
		read_user(&p[1], 8, f->v[0] + 32, o);
		if (post == GS_POST_COPY3D_RT)
			read_user(&e->aux, 4, f->v[0] + 152, o);
		else
			e->aux = GS_COPY_P2P;
		e->arg[0] = p[0];
		e->arg[1] = p[1];
		return;
	case GS_POST_COPY2D_DRV:
		src_at = 24;
		dst_at = 80;
		break;
	case GS_POST_COPY2D_V1:
		src_at = 16;
		dst_at = 56;
		break;
	case GS_POST_COPY3D_V1:
		src_at = 24;
		dst_at = 88;
		break;
	default:
		src_at = 40;
		dst_at = 128;
		break;
	}
	dst_type_at = dst_at - 8;
	if (post == GS_POST_COPY2D_V1)
		dst_type_at = dst_at - 4;
	if (post == GS_POST_COPY2D_V1 || post == GS_POST_COPY3D_V1)
		device_bytes = 4;
	read_user(&src, 4, f->v[0] + src_at - 8, o);
	read_user(&dst, 4, f->v[0] + dst_type_at, o);
	e->arg[0] = copy_side(f, dst, dst_at, device_bytes, o);
	e->arg[1] = copy_side(f, src, src_at, device_bytes, o);
	e->aux = post == GS_POST_COPY3D_PEER_DRV ? GS_COPY_P2P : kind_of_types(src, dst);
}

/* The first of many copies stands for all. */
static __always_inline void fill_batch(struct gs_event_call *e, const struct gs_frame *f,
				       const volatile struct gs_func_desc *d, struct outcome *o)
{
	__u64 n = gs_args_word(f, d->v_bytes2), p[2] = {};

	if (n && d->post == GS_POST_COPY3D_BATCH) {
		read_user(&p[0], 8, gs_args_word(f, d->v_bytes) + 48, o);
		read_user(&p[1], 8, gs_args_word(f, d->v_bytes) + 8, o);
	} else if (n) {
		read_user(&p[0], 8, e->arg[0], o);
		if (e->arg[1])
			read_user(&p[1], 8, e->arg[1], o);
	}
	e->arg[0] = p[0];
	e->arg[1] = p[1];
	e->arg[2] = n;
	e->aux = GS_COPY_DEFAULT;
}

/* What the class of the call asks for beyond the saved words. */
__noinline int post_fill(struct gs_event_call *e, struct gs_frame *f, struct outcome *o, __u32 id)
{
	const volatile struct gs_func_desc *d = &gs_desc[id & FUNC_MASK];
	__u64 p = 0;

	if (!e || !f || !o)
		return 0;
	switch (gs_args_place(d->post)) {
	case GS_ARGS_LAUNCH:
		fill_launch(e, f, o);
		break;
	case GS_ARGS_OUT:
	case GS_ARGS_OUT_SIZE:
		if (!o->failed)
			read_user(&p, 8, e->arg[0], o);
		e->arg[0] = p;
		break;
	case GS_ARGS_OUT32:
	case GS_ARGS_OUT_SIZE32:
		if (!o->failed)
			read_user(&p, 4, e->arg[0], o);
		e->arg[0] = p;
		break;
	case GS_ARGS_OUT_STREAM:
		if (!o->failed)
			read_user(&p, 8, e->stream, o);
		e->stream = p;
		break;
	case GS_ARGS_COPY:
		fill_copy_struct(e, f, d->post, o);
		break;
	case GS_ARGS_BATCH:
		fill_batch(e, f, d, o);
		break;
	default:
		gs_args_words(f, d, e->arg, &e->aux);
		break;
	}
	return 0;
}

/* The same, with what is frequent and short done on the spot. */
static __always_inline void fill_post(struct gs_event_call *e, struct gs_frame *f,
				      const volatile struct gs_func_desc *d, struct outcome *o)
{
	__u64 p = 0;

	switch (d->post) {
	case GS_POST_NONE:
		return;
	case GS_POST_LAUNCH_RT:
	case GS_POST_LAUNCH_DRV:
	case GS_POST_NCCL:
		gs_args_words(f, d, e->arg, &e->aux);
		return;
	case GS_POST_OUT_PTR:
		if (!o->failed)
			read_user(&p, 8, e->arg[0], o);
		e->arg[0] = p;
		return;
#ifdef GS_WITH_MPI
	case GS_POST_MPI:
		e->aux = d->v_bytes == GS_V_NONE ? 0 : (__u32)f->v[14];
		e->stream = 0;
		if (f->abi == GS_MPI_ABI_MPICH) /* an int */
			e->arg[1] &= 0xffffffff;
		return;
#endif
	}
	post_fill(e, f, o, o->id);
}

#endif
