/*
 * The engine behind every traced call: entry opens a frame in the thread's own stack of frames,
 * return closes it and either sends one event or adds the call to the thread's cell of that
 * function. An event that finds no room in the ring is added to the cell instead, so the summary
 * stays exact whatever is lost from the trace.
 *
 * A driver call made directly by a runtime call of the same class (cudaLaunchKernel enters the
 * exported cuLaunchKernel) is the same operation: it only marks the runtime's frame and is counted
 * as inner. So is a collective that another collective calls. A call that never returns to its
 * caller (longjmp, exception) is noticed by the stack pointer: open frames lie above the present
 * one.
 */
#ifndef GS_BPF_CALL_H
#define GS_BPF_CALL_H

#include "decide.bpf.h"
#include "native.bpf.h"
#include "model/class.h"

const volatile struct gs_func_desc gs_desc[GS_FUNC_FIXED] = {};

#define FUNC_MASK  (GS_FUNC_FIXED - 1)
#define SCOPE_MASK (GS_SCOPE_MAX - 1)
#define DEPTH_MASK (GS_DEPTH_MAX - 1)
#define V_MASK     (GS_V_MAX - 1)

/* What a finished call is made of, before it becomes an event or a part of a cell. */
struct outcome {
	__u64 now_ns;
	__u64 dur_ns;
	__u64 bytes;
	__s32 ret;
	__u32 id;
	__u32 flags;
	__u32 native_stack;
	bool failed;
};

static __always_inline __u64 saved(const struct gs_frame *f, __u32 v)
{
	return f->v[v & V_MASK];
}

static __always_inline bool read_user(void *to, __u32 bytes, __u64 from, struct outcome *o)
{
	if (bpf_probe_read_user(to, bytes, (void *)from) == 0)
		return true;
	o->flags |= GS_CALL_ARGS_UNREAD;
	return false;
}

/* --- entry --- */

static __always_inline struct gs_cell *cell_get(struct gs_thread *t, __u32 slot, __u32 id);

/* True when this call is how the call around it does its work: a driver call of a runtime call, a
 * collective of a collective (ncclBcast calls ncclBroadcast). */
static __always_inline bool is_inner(struct gs_thread *t, __u32 depth, __u32 id)
{
	const volatile struct gs_func_desc *outer, *d = &gs_desc[id & FUNC_MASK];
	struct gs_frame *parent;

	if (depth == 0 || d->layer == GS_LAYER_CUDA_RUNTIME)
		return false;
	parent = &t->frame[(depth - 1) & DEPTH_MASK];
	outer = &gs_desc[parent->func & FUNC_MASK];
	if (outer->op != d->op)
		return false;
	if (d->layer == GS_LAYER_CUDA_DRIVER && outer->layer == GS_LAYER_CUDA_RUNTIME)
		parent->flags |= GS_CALL_DRIVER_SEEN;
	else if (d->layer != GS_LAYER_NCCL || outer->layer != GS_LAYER_NCCL ||
		 d->op != GS_CLASS_COLLECTIVE)
		return false;
	return true;
}

/* Frames below the present stack pointer belong to calls that were left by a jump; so does one at
 * the same place of the same function (another function there was left by a tail call). */
static __always_inline __u32 drop_stale(struct gs_thread *t, __u32 depth, __u64 sp, __u32 id)
{
	for (int i = 0; i < GS_DEPTH_MAX; i++) {
		struct gs_frame *f;

		if (depth == 0)
			break;
		f = &t->frame[(depth - 1) & DEPTH_MASK];
		if (f->sp > sp || (f->sp == sp && f->func != id))
			break;
		depth--;
		lose(gs_desc[f->func & FUNC_MASK].layer, GS_LOSS_UNMATCHED);
	}
	return depth;
}

static __always_inline void save_arguments(struct pt_regs *ctx, struct gs_frame *f,
					   const volatile struct gs_func_desc *d)
{
	f->v[0] = ctx->di;
	f->v[1] = ctx->si;
	f->v[2] = ctx->dx;
	f->v[3] = ctx->cx;
	f->v[4] = ctx->r8;
	f->v[5] = ctx->r9;
	/* A read of user memory costs as much as all else here: only what is used, and in
	 * summaries only where the bytes are counted from the stack. */
	if (!d->n_stack)
		return;
	if (d->n_stack & GS_V_LOW) {
		for (int i = 0; i < GS_V_STACK; i++)
			if (d->n_stack & 1 << i)
				f->v[i] &= 0xffffffff;
		return;
	}
	if (!gs_config.events && (d->v_bytes < GS_V_STACK || d->v_bytes >= GS_V_NONE) &&
	    (d->v_bytes2 < GS_V_STACK || d->v_bytes2 >= GS_V_NONE))
		return;
	if (d->n_stack <= 3) {
		if (bpf_probe_read_user(&f->v[GS_V_STACK], 24, (void *)(ctx->sp + 8)))
			f->flags |= GS_CALL_ARGS_UNREAD;
	} else if (bpf_probe_read_user(&f->v[GS_V_STACK], 56, (void *)(ctx->sp + 8))) {
		f->flags |= GS_CALL_ARGS_UNREAD;
	}
}

/* Opens a frame. True when it did: *ret_place then names it for call_leave(). */
static __always_inline bool call_enter(struct pt_regs *ctx, __u64 *ret_place)
{
	__u32 id = bpf_get_attach_cookie(ctx) & FUNC_MASK, depth, slot;
	const volatile struct gs_func_desc *d = &gs_desc[id];
	struct gs_kernel_state *s = state_get();
	struct gs_thread *t;
	struct gs_frame *f;

	if (!s || s->stopped)
		return false;
	t = thread_same(&slot);
	if (!t)
		t = thread_find(s, d->layer, &slot);
	if (!t)
		return false;
	depth = t->depth;
	if (depth) {
		depth = drop_stale(t, depth, ctx->sp, id);
		if (is_inner(t, depth, id)) {
			struct gs_cell *c = cell_get(t, slot, id);

			if (c)
				c->inner++;
			t->depth = depth;
			return false;
		}
	}
	if (depth >= GS_DEPTH_MAX) {
		lose(d->layer, GS_LOSS_TOO_DEEP);
		return false;
	}
	f = &t->frame[depth & DEPTH_MASK];
	f->sp = ctx->sp;
	f->func = id;
	f->flags = 0;
	save_arguments(ctx, f, d);
	t->depth = depth + 1;
	*ret_place = slot | (__u64)depth << 16 | (__u64)id << 32;
	f->start_ns = bpf_ktime_get_ns();
	return true;
}

/* --- return --- */

static __always_inline __u64 nccl_type_bytes(__u64 dtype)
{
	/* One hex digit for each ncclDataType_t, 0 the lowest: int8 uint8 int32 uint32 int64
	 * uint64 half float double bfloat16 fp8e4m3 fp8e5m2 (nccl.h). */
	return dtype < 12 ? 0x112842884411ull >> (dtype * 4) & 15 : 0;
}

#define BATCH_READ 16

/* The sum of n sizes behind from. */
static __noinline __u64 sum_sizes(__u64 from, __u64 n, struct outcome *o)
{
	__u64 sum = 0;

	if (n > GS_BATCH_MAX) {
		n = GS_BATCH_MAX;
		o->flags |= GS_CALL_ARGS_UNREAD;
	}
	for (int i = 0; i < GS_BATCH_MAX / BATCH_READ && n; i++) {
		__u64 v[BATCH_READ] = {};
		__u32 k = n < BATCH_READ ? n : BATCH_READ;

		if (!read_user(v, k * 8, from, o))
			break;
		for (int j = 0; j < BATCH_READ; j++)
			sum += v[j];
		from += sizeof(v);
		n -= k;
	}
	return sum;
}

/* The same of n structs cudaMemcpy3DBatchOp or CUDA_MEMCPY3D_BATCH_OP (112 bytes): source (type,
 * address), destination at 40, extent at 80. That of arrays (type 2) counts elements of a size that
 * is not told. */
static __noinline __u64 sum_boxes(__u64 from, __u64 n, struct outcome *o)
{
	__u64 sum = 0;

	if (n > GS_BATCH3D_MAX)
		o->flags |= GS_CALL_ARGS_UNREAD;
	for (int i = 0; i < GS_BATCH3D_MAX && i < n; i++) {
		__u64 v[13] = {};

		if (!read_user(v, sizeof(v), from + i * 112, o))
			break;
		if ((__u32)v[0] == 1 && (__u32)v[5] == 1)
			sum += v[10] * v[11] * v[12];
		else
			o->flags |= GS_CALL_ARGS_UNREAD;
	}
	return sum;
}

/* cudaMalloc3DArray and cudaMallocMipmappedArray: each level has half the width, height and, unless
 * that counts layers or faces, depth of the one before; what is 0 is 1. */
static __noinline __u64 array_bytes(const struct gs_frame *f, __u32 levels, __u32 flags,
				    struct outcome *o)
{
	__u64 w = f->v[GS_V_STACK], h = f->v[GS_V_STACK + 1], d = f->v[GS_V_STACK + 2], n = 0;
	__u32 bits[4] = {}; /* of cudaChannelFormatDesc */

	if (!read_user(bits, sizeof(bits), f->v[1], o))
		return 0;
	for (int i = 0; i < 32; i++) {
		n += w * (h ? h : 1) * (d ? d : 1);
		if (i + 1 >= levels)
			break;
		w = w > 1 ? w / 2 : w;
		h = h > 1 ? h / 2 : h;
		if (!(flags & 5)) /* cudaArrayLayered, cudaArrayCubemap */
			d = d > 1 ? d / 2 : d;
	}
	return n * ((bits[0] + bits[1] + bits[2] + bits[3]) / 8);
}

/* The extent of a 2D or 3D copy that is told by a struct in memory. */
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
	/* The extent counts elements of an array here, whose size the struct does not tell. */
	o->flags |= GS_CALL_ARGS_UNREAD;
	return 0;
}

static __always_inline __u64 call_bytes(const struct gs_frame *f,
					const volatile struct gs_func_desc *d, struct outcome *o)
{
	__u64 b = saved(f, d->v_bytes), v[2] = {};
	__u32 part[4] = {};

	switch (d->post) {
	case GS_POST_NCCL:
		return b * nccl_type_bytes(saved(f, d->v_bytes2) & 0xffffffff);
	case GS_POST_COPY3D_RT:
	case GS_POST_COPY2D_DRV:
	case GS_POST_COPY3D_DRV:
	case GS_POST_COPY3D_PEER_RT:
	case GS_POST_COPY3D_PEER_DRV:
	case GS_POST_COPY2D_V1:
	case GS_POST_COPY3D_V1:
		return copy_struct_bytes(f, d->post, o);
	case GS_POST_COPY_BATCH:
		return sum_sizes(b, saved(f, d->v_bytes2), o);
	case GS_POST_COPY3D_BATCH:
		return sum_boxes(b, saved(f, d->v_bytes2), o);
	case GS_POST_ARRAY3D:
		return array_bytes(f, saved(f, d->v_bytes2), saved(f, d->v_aux), o);
	case GS_POST_PITCH32:
		return !o->failed && read_user(part, 4, f->v[1], o) ? b * part[0] : 0;
	case GS_POST_PITCH:
		return !o->failed && read_user(v, 8, f->v[1], o) ? b * v[0] : 0;
	case GS_POST_PITCHED_PTR:
		if (o->failed || !read_user(v, 16, f->v[0], o))
			return 0;
		return v[1] * b * saved(f, d->v_bytes2);
	case GS_POST_ARRAY: /* bits of x, y, z and w of cudaChannelFormatDesc; height 0: one row */
		if (!read_user(part, 16, f->v[1], o))
			return 0;
		b *= (part[0] + part[1] + part[2] + part[3]) / 8;
		return saved(f, d->v_bytes2) ? b * saved(f, d->v_bytes2) : b;
	}
	if (d->v_bytes2 != GS_V_NONE)
		b *= saved(f, d->v_bytes2);
	if (d->post == GS_POST_EXTENT3)
		b *= saved(f, d->v_arg[1]);
	else if (d->post == GS_POST_FILL16)
		b *= 2;
	else if (d->post == GS_POST_FILL32)
		b *= 4;
	return b;
}

static __noinline __u32 cell_take(__u32 slot, __u32 id)
{
	struct gs_kernel_state *s = state_get();
	struct gs_cell *c;
	__u32 idx = 0;

	if (bpf_map_pop_elem(&gs_free_cells, &idx)) {
		if (!s || s->n_cells >= GS_CELL_MAX - 1)
			return 0;
		idx = __sync_fetch_and_add(&s->n_cells, 1) + 1;
	}
	c = bpf_map_lookup_elem(&gs_cells, &idx);
	if (!c || !idx)
		return 0;
	c->func = id;
	c->thread_slot = slot;
	return idx;
}

static __always_inline struct gs_cell *cell_get(struct gs_thread *t, __u32 slot, __u32 id)
{
	__u32 idx = t->cell[id & FUNC_MASK];

	if (!idx) {
		idx = cell_take(slot, id);
		if (!idx) {
			lose(gs_desc[id & FUNC_MASK].layer, GS_LOSS_NO_CELL);
			return NULL;
		}
		t->cell[id & FUNC_MASK] = idx;
	}
	return bpf_map_lookup_elem(&gs_cells, &idx);
}

static __always_inline void count_error(struct gs_cell *c, __s32 ret)
{
	c->errors++;
	for (int i = 0; i < GS_ERR_CODES; i++) {
		if (c->err_code[i] == 0)
			c->err_code[i] = ret;
		if (c->err_code[i] == ret) {
			c->err_count[i]++;
			return;
		}
	}
}

static __always_inline void aggregate(struct gs_thread *t, __u32 slot, const struct outcome *o)
{
	struct gs_cell *c = cell_get(t, slot, o->id);
	__u32 bucket = gs_hist_bucket(o->dur_ns);

	if (!c)
		return;
	c->calls++;
	c->total_ns += o->dur_ns;
	if (o->dur_ns > c->max_ns)
		c->max_ns = o->dur_ns;
	if (bucket < GS_HIST_N_BUCKETS)
		c->hist[bucket]++;
	if (o->failed)
		count_error(c, o->ret);
	else
		c->bytes += o->bytes;
}

/* The dimensions of a launch, packed as struct gs_event_call says. */
static __always_inline void fill_launch(struct gs_event_call *e, const struct gs_frame *f,
					__u32 post, struct outcome *o)
{
	struct {
		__u32 grid[3], block[3];
		__u64 shared_bytes; /* 32 bits wide in CUlaunchConfig, padded */
		__u64 stream;
	} c = {};

	switch (post) {
	case GS_POST_LAUNCH_RT:
		e->arg[1] = f->v[1];
		e->arg[2] = (f->v[2] & 0xffffffff) | f->v[3] << 32;
		e->arg[3] = f->v[3] >> 32 | f->v[4] << 32;
		return;
	case GS_POST_LAUNCH_DRV:
		e->arg[1] = (f->v[1] & 0xffffffff) | f->v[2] << 32;
		e->arg[2] = (f->v[3] & 0xffffffff) | f->v[4] << 32;
		e->arg[3] = (f->v[5] & 0xffffffff) | f->v[6] << 32;
		return;
	}
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

/* Destination or source of a copy that a driver's struct tells. Where the host's address is, the
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
	__u64 n = saved(f, d->v_bytes2), p[2] = {};

	if (n && d->post == GS_POST_COPY3D_BATCH) {
		read_user(&p[0], 8, saved(f, d->v_bytes) + 48, o);
		read_user(&p[1], 8, saved(f, d->v_bytes) + 8, o);
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

/* Datatype, op and root or peer; an absent op reads 255, an absent root 65,535. */
static __always_inline __u32 nccl_aux(const struct gs_frame *f,
				      const volatile struct gs_func_desc *d)
{
	__u32 v_op = d->v_aux & V_MASK, v_root = d->v_aux >> 4 & V_MASK;
	__u32 dtype = saved(f, d->v_bytes2), op = saved(f, v_op), root = saved(f, v_root);

	if (v_op == GS_V_NONE)
		op = 255;
	else if (op > 254)
		op = 254; /* made by ncclRedOpCreate: a large number */
	if (v_root == GS_V_NONE || root > 65534)
		root = 65535;
	return (dtype & 0xff) | op << 8 | root << 16;
}

/* What the class of the call asks for beyond the saved words. */
static __always_inline void fill_post(struct gs_event_call *e, const struct gs_frame *f,
				      const volatile struct gs_func_desc *d, struct outcome *o)
{
	__u64 p = 0;

	switch (d->post) {
	case GS_POST_NONE:
		return;
	case GS_POST_LAUNCH_RT:
	case GS_POST_LAUNCH_DRV:
	case GS_POST_LAUNCH_EXC:
	case GS_POST_LAUNCH_EX:
		fill_launch(e, f, d->post, o);
		return;
	case GS_POST_LAUNCH_GRID:
		e->arg[1] = (f->v[1] & 0xffffffff) | f->v[2] << 32;
		e->arg[2] = 1;
		return;
	case GS_POST_OUT_PTR:
	case GS_POST_PITCH:
	case GS_POST_PITCHED_PTR:
	case GS_POST_ARRAY:
	case GS_POST_ARRAY3D:
	case GS_POST_COMM_INIT:
	case GS_POST_COMM_INIT_SCALABLE:
	case GS_POST_COMM_SPLIT:
	case GS_POST_COMM_SHRINK:
		if (!o->failed)
			read_user(&p, 8, e->arg[0], o);
		e->arg[0] = p;
		return;
	case GS_POST_OUT_PTR32:
	case GS_POST_PITCH32:
		if (!o->failed)
			read_user(&p, 4, e->arg[0], o);
		e->arg[0] = p;
		return;
	case GS_POST_OUT_STREAM:
		if (!o->failed)
			read_user(&p, 8, e->stream, o);
		e->stream = p;
		return;
	case GS_POST_COPY3D_RT:
	case GS_POST_COPY2D_DRV:
	case GS_POST_COPY3D_DRV:
	case GS_POST_COPY3D_PEER_RT:
	case GS_POST_COPY3D_PEER_DRV:
	case GS_POST_COPY2D_V1:
	case GS_POST_COPY3D_V1:
		fill_copy_struct(e, f, d->post, o);
		return;
	case GS_POST_COPY_BATCH:
	case GS_POST_COPY3D_BATCH:
		fill_batch(e, f, d, o);
		return;
	case GS_POST_COPY_ANY:
		e->aux = GS_COPY_DEFAULT;
		return;
	case GS_POST_COPY_HTOD:
		e->aux = GS_COPY_H2D;
		return;
	case GS_POST_COPY_DTOH:
		e->aux = GS_COPY_D2H;
		return;
	case GS_POST_COPY_DTOD:
		e->aux = GS_COPY_D2D;
		return;
	case GS_POST_COPY_PEER:
		e->aux = GS_COPY_P2P;
		return;
	case GS_POST_EXTENT3:
		e->arg[1] = 0;
		return;
	case GS_POST_NCCL:
		e->aux = nccl_aux(f, d);
		return;
	}
}

/* One event into the ring; false when there was no room. */
static __always_inline bool send_call(struct gs_thread *t, const struct gs_frame *f,
				      const volatile struct gs_func_desc *d, __u32 depth,
				      struct outcome *o)
{
	struct gs_event_call *e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);

	if (!e)
		return false;
	e->head.kind = GS_EV_CALL;
	e->head.bytes = sizeof(*e);
	e->head.pad = 0;
	e->start_ns = o->now_ns - o->dur_ns;
	e->dur_ns = o->dur_ns;
	e->pid = t->pid;
	e->tid = t->tid;
	e->ret = o->ret;
	e->func = o->id;
	e->cpu = bpf_get_smp_processor_id();
	e->depth = depth;
	e->scope = t->scope_depth ? t->scope[(t->scope_depth - 1) & SCOPE_MASK].func : 0;
	e->py_stack = 0;
	e->native_stack = o->native_stack;
	e->aux = saved(f, d->v_aux);
	e->bytes = o->bytes;
	e->stream = saved(f, d->v_stream);
	e->arg[0] = saved(f, d->v_arg[0]);
	e->arg[1] = saved(f, d->v_arg[1]);
	e->arg[2] = saved(f, d->v_arg[2]);
	e->arg[3] = saved(f, d->v_arg[3]);
	fill_post(e, f, d, o);
	e->flags = f->flags | o->flags;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return true;
}

/* Closes frame number depth of the thread and accounts for the call. */
static __always_inline void call_close(struct pt_regs *ctx, struct gs_thread *t, __u32 slot,
				       __u32 depth, __u32 id, __u64 now)
{
	struct gs_frame *f = &t->frame[depth & DEPTH_MASK];
	const volatile struct gs_func_desc *d = &gs_desc[id & FUNC_MASK];
	struct outcome o = {.now_ns = now, .dur_ns = now - f->start_ns, .id = id};

	t->depth = depth;
	o.ret = (__s32)ctx->ax;
	o.failed = o.ret && o.ret != d->not_error;
	if (d->v_bytes != GS_V_NONE || d->post == GS_POST_COPY3D_RT ||
	    d->post == GS_POST_COPY2D_DRV || d->post == GS_POST_COPY3D_DRV)
		o.bytes = call_bytes(f, d, &o);
	if (gs_config.events) {
		if (o.dur_ns < gs_config.min_dur_ns) {
			lose(d->layer, GS_LOSS_SHORT);
		} else {
			if (gs_config.native_stack_at)
				o.native_stack = native_at_return(ctx, d->layer, d->op);
			if (send_call(t, f, d, depth, &o))
				return;
			lose(d->layer, GS_LOSS_RING_FULL);
		}
	}
	aggregate(t, slot, &o);
}

/* A return caught by a session link: place is what call_enter() left in the link's cookie. Returns
 * the thread when the call was closed. */
static __always_inline struct gs_thread *call_leave(struct pt_regs *ctx, __u64 place)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 slot = place & 0xffff, depth = place >> 16 & 0xffff, id = place >> 32 & FUNC_MASK;
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_kernel_state *s = state_get();

	if (!t || !s || s->stopped)
		return NULL;
	if (depth >= t->depth || t->frame[depth & DEPTH_MASK].func != id) {
		lose(gs_desc[id].layer, GS_LOSS_UNMATCHED);
		return NULL;
	}
	call_close(ctx, t, slot, depth, id, now);
	return t;
}

/* A return caught by a probe of its own: the frame is the one that was opened with the same stack
 * pointer (at a return it is one word higher: the return address is gone). */
static __always_inline struct gs_thread *call_leave_unpaired(struct pt_regs *ctx, __u32 *ret_depth)
{
	__u64 now = bpf_ktime_get_ns(), sp = ctx->sp - 8;
	__u32 id = bpf_get_attach_cookie(ctx) & FUNC_MASK, slot, depth;
	struct gs_kernel_state *s = state_get();
	struct gs_task_mark *m = mark_get(false);
	struct gs_thread *t;

	if (!m || !m->slot || !s || s->stopped)
		return NULL;
	slot = m->slot;
	t = bpf_map_lookup_elem(&gs_threads, &slot);
	if (!t)
		return NULL;
	depth = t->depth;
	for (int i = 0; i < GS_DEPTH_MAX; i++) {
		struct gs_frame *f;

		if (depth == 0)
			return NULL;
		f = &t->frame[(depth - 1) & DEPTH_MASK];
		/* A call around this one: this one was inner, or too deep, and has no frame. */
		if (f->sp > sp)
			return NULL;
		depth--;
		if (f->sp == sp && f->func == id) {
			call_close(ctx, t, slot, depth, id, now);
			*ret_depth = depth;
			return t;
		}
	}
	return NULL;
}

#endif
