/*
 * What a call says beyond the words that its entry saved: bytes and arguments that lie in memory of the traced
 * process or must be put together, by the row of the function table (enum gs_post). One decoder for calls that
 * are seen from outside, in the kernel, and from inside, in the process itself (src/companion). Compiled by the
 * BPF compiler and by the host's. The file that includes this one defines:
 *
 *   gs_call_read(to, bytes, from, outcome)  memory of the process; false: it cannot be read, and the outcome
 *                                           has GS_CALL_ARGS_UNREAD
 *   GS_CALL_DESC(id)                        the row of a function
 *   GS_CALL_GLOBAL, GS_CALL_APART           what stands before functions that the verifier looks at once,
 *                                           whatever the state that they are called in, and before those
 *                                           that are not inlined: what is rare is in these
 *   GS_CALL_NO_SIZES                        (may be) no call's bytes lie in memory
 */
#ifndef GS_MODEL_CALL_MEMORY_H
#define GS_MODEL_CALL_MEMORY_H

#include "model/trace/call_args.h"
#include "model/call/outcome.h"

#ifndef barrier_var
#define barrier_var(v) __asm__ volatile("" : "+r"(v))
#endif

#ifndef GS_CALL_NO_SIZES
#include "model/call/sizes.h"
#endif

/* A launch whose dimensions are in memory, packed as struct gs_event_call says. */
static __always_inline void gs_call_fill_launch(struct gs_event_call *e, const struct gs_frame *f,
						struct gs_outcome *o)
{
	struct {
		__u32 grid[3], block[3];
		__u64 shared_bytes; /* 32 bits wide in CUlaunchConfig, padded */
		__u64 stream;
	} c = {};

	/* cudaLaunchConfig_t and CUlaunchConfig begin alike (driver_types.h, cuda.h). */
	if (gs_call_read(&c, sizeof(c), f->v[0], o)) {
		e->arg[1] = c.grid[0] | (__u64)c.grid[1] << 32;
		e->arg[2] = c.grid[2] | (__u64)c.block[0] << 32;
		e->arg[3] = c.block[1] | (__u64)c.block[2] << 32;
		e->aux = (__u32)c.shared_bytes;
		e->stream = c.stream;
	}
}

/* The kind of a copy whose struct names memory types (CUmemorytype: 1 host, 2 device, 3 array). */
static __always_inline __u32 gs_call_kind_of_types(__u32 src, __u32 dst)
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
static __always_inline __u64 gs_call_copy_side(const struct gs_frame *f, __u32 type, __u32 at,
					       __u32 device_bytes, struct gs_outcome *o)
{
	__u64 p = 0;

	if (type == 1)
		gs_call_read(&p, 8, f->v[0] + at, o);
	else if (type == 3)
		gs_call_read(&p, 8, f->v[0] + at + 16, o);
	else
		gs_call_read(&p, device_bytes, f->v[0] + at + 8, o);
	return p;
}

/* Destination, source and kind of a copy whose struct is at f->v[0], into arg[0], arg[1] and
 * aux. */
static __always_inline void gs_call_fill_copy_struct(struct gs_event_call *e,
						     const struct gs_frame *f, __u32 post,
						     struct gs_outcome *o)
{
	__u32 src = 0, dst = 0, src_at, dst_at, dst_type_at, device_bytes = 8;
	__u64 p[2] = {};

	switch (post) {
	case GS_POST_COPY3D_RT: /* srcPtr.ptr at 32, dstPtr.ptr at 96, kind at 152 */
	case GS_POST_COPY3D_PEER_RT:
		dst_at = post == GS_POST_COPY3D_RT ? 96 : 104;
		gs_call_read(&p[0], 8, f->v[0] + dst_at, o);
		gs_call_read(&p[1], 8, f->v[0] + 32, o);
		if (post == GS_POST_COPY3D_RT)
			gs_call_read(&e->aux, 4, f->v[0] + 152, o);
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
	gs_call_read(&src, 4, f->v[0] + src_at - 8, o);
	gs_call_read(&dst, 4, f->v[0] + dst_type_at, o);
	e->arg[0] = gs_call_copy_side(f, dst, dst_at, device_bytes, o);
	e->arg[1] = gs_call_copy_side(f, src, src_at, device_bytes, o);
	e->aux = post == GS_POST_COPY3D_PEER_DRV ? GS_COPY_P2P : gs_call_kind_of_types(src, dst);
}

/* The first of many copies stands for all. */
static __always_inline void gs_call_fill_batch(struct gs_event_call *e, const struct gs_frame *f,
					       const volatile struct gs_func_desc *d,
					       struct gs_outcome *o)
{
	__u64 n = gs_args_word(f, d->v_bytes2), p[2] = {};

	if (n && d->post == GS_POST_COPY3D_BATCH) {
		gs_call_read(&p[0], 8, gs_args_word(f, d->v_bytes) + 48, o);
		gs_call_read(&p[1], 8, gs_args_word(f, d->v_bytes) + 8, o);
	} else if (n) {
		gs_call_read(&p[0], 8, e->arg[0], o);
		if (e->arg[1])
			gs_call_read(&p[1], 8, e->arg[1], o);
	}
	e->arg[0] = p[0];
	e->arg[1] = p[1];
	e->arg[2] = n;
	e->aux = GS_COPY_DEFAULT;
}

/* What the class of the call asks for beyond the saved words. */
GS_CALL_GLOBAL int gs_call_fill(struct gs_event_call *e, struct gs_frame *f, struct gs_outcome *o,
				__u32 id)
{
	const volatile struct gs_func_desc *d = GS_CALL_DESC(id);
	__u64 p = 0;

	if (!e || !f || !o)
		return 0;
	switch (gs_args_place(d->post)) {
	case GS_ARGS_LAUNCH:
		gs_call_fill_launch(e, f, o);
		break;
	case GS_ARGS_OUT:
	case GS_ARGS_OUT_SIZE:
		if (!o->failed)
			gs_call_read(&p, 8, e->arg[0], o);
		e->arg[0] = p;
		break;
	case GS_ARGS_OUT32:
	case GS_ARGS_OUT_SIZE32:
		if (!o->failed)
			gs_call_read(&p, 4, e->arg[0], o);
		e->arg[0] = p;
		break;
	case GS_ARGS_OUT_STREAM:
		if (!o->failed)
			gs_call_read(&p, 8, e->stream, o);
		e->stream = p;
		break;
	case GS_ARGS_COPY:
		gs_call_fill_copy_struct(e, f, d->post, o);
		break;
	case GS_ARGS_BATCH:
		gs_call_fill_batch(e, f, d, o);
		break;
	default:
		gs_args_words(f, d, e->arg, &e->aux);
		break;
	}
	return 0;
}

#endif
