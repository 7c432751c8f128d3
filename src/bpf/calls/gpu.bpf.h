/*
 * Work for GPUs, added up by process, stream and sort (model/gpu_queue/gpu_queue.h). A launch costs two
 * additions in a row that its thread remembers. Before a call that may say what is done (a wait, a query,
 * an event recorded) all rows of its process that have grown are sent, so that user space sees calls in
 * the order in which they were made, runs of launches in one piece each. Work of the legacy default stream
 * and of others waits for one another: where it changes from the one to the others, rows are sent too.
 *
 * Rows are shared by threads without a lock: sums by sort are exact, and of two threads that queue at the
 * same time one may give its begin or end to the run before, or its work to another stream.
 */
#ifndef GS_BPF_CALLS_GPU_BPF_H
#define GS_BPF_CALLS_GPU_BPF_H

#include "cell.bpf.h"
#include "gpu_maps.bpf.h"
#include "model/trace/call_args.h"

#define GPU_LEGACY     1 /* cudaStreamLegacy, CU_STREAM_LEGACY */
#define GPU_PER_THREAD 2 /* cudaStreamPerThread, CU_STREAM_PER_THREAD */
#define ROW_MASK       (GS_GPU_QUEUE_ROWS - 1)
#define SEEN_MASK      (GS_GPU_QUEUE_SEEN - 1)

/* What becomes of a call. */
enum gpu_fate {
	GPU_ADDED = 0,  /* or nothing of it is wanted */
	GPU_WHOLE = 1,  /* to be sent */
	GPU_SAMPLE = 2, /* added, and to be sent as one of many */
};

static __always_inline struct gs_gpu_queue_process *gpu_process(__u32 index)
{
	return bpf_map_lookup_elem(&gs_gpu_processes, &index);
}

/* 1: sent; 0: the next time. Calls would be lost: the last quarter of the ring is left to them. */
__noinline int gs_gpu_send(__u32 index, __u32 i)
{
	struct gs_gpu_queue_process *p = gpu_process(index);
	struct gs_event_gpu *e;
	struct gs_gpu_queue_row *row;

	if (!p || bpf_ringbuf_query(&gs_ring, BPF_RB_AVAIL_DATA) >
			  bpf_ringbuf_query(&gs_ring, BPF_RB_RING_SIZE) / 4 * 3)
		return 0;
	barrier_var(i);
	row = &p->rows[i & ROW_MASK];
	e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);
	if (!e)
		return 0;
	e->kind = GS_EV_GPU;
	e->bytes = sizeof(*e);
	e->pad = 0;
	e->process = index;
	e->row = i & ROW_MASK;
	e->pid = p->pid;
	e->unused = 0;
	e->is = *row;
	row->sent_n = e->is.n;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 1;
}

/* All rows of the process that have grown. */
__noinline int gs_gpu_flush(__u32 index)
{
	struct gs_gpu_queue_process *p = gpu_process(index);

	if (!p)
		return 0;
	for (__u32 i = 0; i < GS_GPU_QUEUE_ROWS && i < p->n_rows; i++)
		if (p->rows[i].n != p->rows[i].sent_n)
			gs_gpu_send(index, i);
	return 0;
}

/* The process's index, made when it has none; 0: there is no room. */
__noinline __u32 gs_gpu_find_process(__u32 slot)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_kernel_state *s = state_get();
	struct gs_gpu_queue_process *p;
	__u32 pid, index = 0, *known;

	if (!t || !s)
		return 0;
	pid = t->pid;
	known = bpf_map_lookup_elem(&gs_gpu_process_of, &pid);
	if (known) {
		t->gpu.process = *known;
		return *known;
	}
	if (bpf_map_pop_elem(&gs_free_gpu_processes, &index)) {
		if (s->n_gpu_processes >= GS_GPU_QUEUE_PROCESS_MAX - 1)
			return 0;
		index = __sync_fetch_and_add(&s->n_gpu_processes, 1) + 1;
	}
	p = gpu_process(index);
	if (!p)
		return 0;
	p->pid = pid;
	if (bpf_map_update_elem(&gs_gpu_process_of, &pid, &index, BPF_NOEXIST)) {
		/* Another thread was first. */
		p->pid = 0;
		bpf_map_push_elem(&gs_free_gpu_processes, &index, BPF_ANY);
		known = bpf_map_lookup_elem(&gs_gpu_process_of, &pid);
		index = known ? *known : 0;
	}
	t->gpu.process = index;
	return index;
}

static __always_inline bool gpu_row_is(const struct gs_gpu_queue_row *row,
				       const struct gs_gpu_queue_row *is)
{
	return row->stream == is->stream && row->sort == is->sort && row->device == is->device &&
	       row->thread == is->thread;
}

/* The row of the process for this stream and sort, made when it has none; GS_GPU_QUEUE_ROWS: no room. One of
 * the same sort makes room, as what other threads are just adding to it is of that; the last eight are for
 * sorts without any. A function of its own for the verifier; threads with few streams do not come here. */
__noinline __u32 gs_gpu_find_row(__u32 index, const struct gs_gpu_queue_row *is)
{
	struct gs_gpu_queue_process *p = gpu_process(index);
	__u32 i, first, same = GS_GPU_QUEUE_ROWS;
	struct gs_gpu_queue_row *row;

	if (!p || !is)
		return GS_GPU_QUEUE_ROWS;
	first = __sync_fetch_and_add(&p->victim, 1);
	for (__u32 k = 0; k < GS_GPU_QUEUE_ROWS; k++) {
		i = (first + k) & ROW_MASK;
		if (gpu_row_is(&p->rows[i], is))
			return i;
		if (p->rows[i].sort == is->sort && p->rows[i].device == is->device)
			same = i;
	}
	if (p->n_rows < GS_GPU_QUEUE_ROWS - (same < GS_GPU_QUEUE_ROWS ? 8 : 0))
		i = __sync_fetch_and_add(&p->n_rows, 1);
	else
		i = same < GS_GPU_QUEUE_ROWS ? same : first;
	i &= ROW_MASK;
	row = &p->rows[i];
	if (row->n != row->sent_n && !gs_gpu_send(index, i) &&
	    (row->sort != is->sort || row->device != is->device))
		return GS_GPU_QUEUE_ROWS;
	row->sort = 0;
	row->stream = is->stream;
	row->device = is->device;
	row->thread = is->thread;
	barrier();
	row->sort = is->sort;
	return i;
}

/* Words of 32 bits; what does not fit into 64 is no launch. */
static __always_inline __u64 gpu_product(__u64 a, __u64 b, __u64 c)
{
	return (a & 0xffffffff) * (b & 0xffffffff) * (c & 0xffffffff);
}

/* Of a launch its stream, where a struct has it, and the threads of its grid. False: they could not be
 * read. */
static __always_inline bool gpu_read_launch(const struct gs_frame *f, __u32 post, __u64 *ret_stream,
					    __u64 *ret_threads)
{
	struct {
		__u32 grid[3], block[3];
		__u64 shared_bytes;
		__u64 stream;
	} c = {};
	const __u64 *v = f->v;

	switch (post) {
	case GS_POST_LAUNCH_RT:
		*ret_threads =
			gpu_product(v[1], v[1] >> 32, v[2]) * gpu_product(v[3], v[3] >> 32, v[4]);
		return true;
	case GS_POST_LAUNCH_DRV:
		*ret_threads = gpu_product(v[1], v[2], v[3]) * gpu_product(v[4], v[5], v[6]);
		return true;
	case GS_POST_LAUNCH_EXC:
	case GS_POST_LAUNCH_EX:
		if (bpf_probe_read_user(&c, sizeof(c), (void *)v[0]))
			return false;
		*ret_threads = gpu_product(c.grid[0], c.grid[1], c.grid[2]) *
			       gpu_product(c.block[0], c.block[1], c.block[2]);
		*ret_stream = c.stream;
	}
	return true;
}

/* The kind of a copy that the row of its function, or its argument, names. */
static __always_inline __u32 gpu_copy_kind(const struct gs_frame *f,
					   const volatile struct gs_func_desc *d)
{
	__u32 kind = gs_args_word(f, d->v_aux);

	switch (d->post) {
	case GS_POST_COPY_ANY:
		return GS_COPY_DEFAULT;
	case GS_POST_COPY_HTOD:
		return GS_COPY_H2D;
	case GS_POST_COPY_DTOH:
		return GS_COPY_D2H;
	case GS_POST_COPY_DTOD:
		return GS_COPY_D2D;
	case GS_POST_COPY_PEER:
		return GS_COPY_P2P;
	}
	return kind <= GS_COPY_P2P ? kind : GS_COPY_DEFAULT;
}

/* Adds it to its row. enum gpu_fate. */
static __always_inline int gpu_add(struct gs_thread *t, __u32 index, struct gs_gpu_queue_process *p,
				   const struct gs_gpu_queue_row *is, __u64 amount, __u64 start_ns,
				   __u64 now_ns)
{
	__u32 at = (is->sort ^ is->stream >> 4 ^ is->stream >> 9) & SEEN_MASK, i = t->gpu.seen[at];
	struct gs_gpu_queue_row *row = &p->rows[i & ROW_MASK];
	bool legacy = !is->stream;
	__u32 bits;
	__u64 n;

	if (p->legacy != legacy) {
		gs_gpu_flush(index);
		p->legacy = legacy;
	}
	if (!gpu_row_is(row, is)) {
		i = gs_gpu_find_row(index, is);
		if (i >= GS_GPU_QUEUE_ROWS)
			return GPU_WHOLE;
		t->gpu.seen[at] = i;
		row = &p->rows[i & ROW_MASK];
	}
	if (row->n == row->sent_n)
		row->first_ns = start_ns;
	row->last_ns = now_ns;
	row->tid = t->tid;
	__sync_fetch_and_add(&row->amount, amount);
	n = __sync_fetch_and_add(&row->n, 1);
	/* Not each 64th: programs have periods. */
	bits = n < GS_GPU_QUEUE_SELDOM_AFTER ? GS_GPU_QUEUE_SAMPLE_BITS : GS_GPU_QUEUE_SELDOM_BITS;
	return (__u32)n * 0x9e3779b1u >> (32 - bits) ? GPU_ADDED : GPU_SAMPLE;
}

/* A finished call of a function that has a role. A function of its own for the verifier. */
__noinline int gs_gpu_take(struct gs_frame *f, struct gs_outcome *o, __u32 slot)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	const volatile struct gs_func_desc *d;
	struct gs_gpu_queue_row is = {};
	struct gs_gpu_queue_process *p;
	__u32 role, index, sort;
	__u64 amount, stream;
	int fate;

	if (!t || !f || !o)
		return GPU_ADDED;
	d = &gs_desc[o->id & FUNC_MASK];
	role = d->gpu & GS_GPU_QUEUE_ROLE_MASK;
	/* "Not ready" says nothing, and is asked for again and again. */
	if (d->op == GS_CLASS_QUERY && o->ret)
		return GPU_ADDED;
	if (role == GS_GPU_QUEUE_SENT)
		return GPU_WHOLE;
	index = t->gpu.process;
	p = index ? gpu_process(index) : NULL;
	if (!p || p->pid != t->pid) {
		index = gs_gpu_find_process(slot);
		p = index ? gpu_process(index) : NULL;
	}
	if (!p)
		return GPU_WHOLE;
	if (role == GS_GPU_QUEUE_ORDERS) {
		gs_gpu_flush(index);
		if (d->post == GS_POST_SET_DEVICE && !o->failed)
			t->gpu.device = f->v[0];
		return GPU_WHOLE;
	}
	if (o->failed)
		return GPU_ADDED;
	stream = gs_args_word(f, d->v_stream);
	amount = o->bytes;
	if (!gpu_read_launch(f, d->post, &stream, &amount) || f->flags & GS_CALL_ARGS_UNREAD)
		return GPU_WHOLE;
	sort = role - GS_GPU_QUEUE_ADDED;
	if (d->gpu & GS_GPU_QUEUE_COPIES)
		sort += gpu_copy_kind(f, d);
	if (stream == GPU_LEGACY)
		stream = 0;
	else if (!stream && d->gpu & GS_GPU_QUEUE_PER_THREAD)
		stream = GPU_PER_THREAD;
	is.stream = stream;
	is.sort = sort + 1;
	is.thread = stream == GPU_PER_THREAD ? t->tid : 0;
	is.device = stream <= GPU_PER_THREAD ? t->gpu.device : 0;
	fate = gpu_add(t, index, p, &is, amount, f->start_ns, o->now_ns);
	return d->op == GS_CLASS_LAUNCH || fate == GPU_WHOLE ? fate : GPU_ADDED;
}

#endif
