/*
 * NCCL calls: the common engine, and beside it the birth of communicators. Which communicator is
 * which rank of how many is known only to the calls that make it, so these send a second event.
 */
#define GS_WITH_ARRIVALS
#include "call.bpf.h"
#include "comm.bpf.h"

struct unique_id {
	__u8 bytes[GS_NCCL_ID_BYTES];
};

/* The ids that running ncclCommInitRank* calls were given, by tid. Read at entry: the words above
 * the return address belong to the called function, which may change them. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct unique_id);
} gs_unique_ids SEC(".maps");

/* Keep the id that a communicator is made of. */
static __noinline void family_entered(struct pt_regs *ctx, __u64 place)
{
	__u32 post = gs_desc[place >> 32 & FUNC_MASK].post;
	__u32 tid = (__u32)bpf_get_current_pid_tgid();
	struct unique_id id = {};
	__u64 from;

	/* ncclUniqueId has 128 bytes and goes by value: in memory, right above the return address,
	 * whatever arguments follow it in registers (System V ABI 3.2.3, class MEMORY). */
	if (post == GS_POST_COMM_INIT)
		from = ctx->sp + 8;
	else if (post == GS_POST_COMM_INIT_SCALABLE)
		from = ctx->r8; /* the first of the ids */
	else
		return;
	if (bpf_probe_read_user(&id, sizeof(id), (void *)from) == 0)
		bpf_map_update_elem(&gs_unique_ids, &tid, &id, BPF_ANY);
}

static __always_inline void fill_init_all(struct gs_event_comm *e, const struct gs_frame *f)
{
	__u32 n = (__u32)f->v[1];

	e->n_ranks = n;
	n = n < GS_COMM_LIST_MAX ? n : GS_COMM_LIST_MAX;
	e->n_list = n;
	_Static_assert(sizeof(e->list) == GS_COMM_LIST_MAX * 8 && GS_COMM_LIST_MAX == 16, "");
	barrier_var(n);
	if (bpf_probe_read_user(e->list, (n & 31) <= 16 ? (n & 31) * 8 : 0, (void *)f->v[0]))
		e->n_list = 0;
}

static __always_inline void fill_shrink(struct gs_event_comm *e, const struct gs_frame *f)
{
	__u32 n = (__u32)f->v[2], rank = 0;

	e->n_list = n < 65535 ? n : 65535;
	for (int i = 0; i < GS_COMM_LIST_MAX; i++) {
		if (i >= e->n_list)
			break;
		bpf_probe_read_user(&rank, 4, (void *)(f->v[1] + i * 4));
		e->list[i] = rank;
	}
}

/* The fields that this way of making a communicator has. */
static __always_inline void fill_comm(struct gs_event_comm *e, const struct gs_frame *f, __u32 post)
{
	__u32 tid = e->tid;
	struct unique_id *id;

	switch (post) {
	case GS_POST_COMM_INIT:
	case GS_POST_COMM_INIT_SCALABLE:
		bpf_probe_read_user(&e->comm, 8, (void *)f->v[0]);
		e->n_ranks = (__s32)f->v[1];
		e->rank = (__s32)f->v[2];
		id = bpf_map_lookup_elem(&gs_unique_ids, &tid);
		if (id) {
			__builtin_memcpy(e->unique_id, id->bytes, GS_NCCL_ID_BYTES);
			bpf_map_delete_elem(&gs_unique_ids, &tid);
		}
		return;
	case GS_POST_COMM_INIT_ALL:
		fill_init_all(e, f);
		return;
	case GS_POST_COMM_SPLIT:
		e->parent = f->v[0];
		e->color = (__s32)f->v[1];
		e->key = (__s32)f->v[2];
		bpf_probe_read_user(&e->comm, 8, (void *)f->v[3]);
		return;
	case GS_POST_COMM_SHRINK:
		e->parent = f->v[0];
		bpf_probe_read_user(&e->comm, 8, (void *)f->v[3]);
		fill_shrink(e, f);
		return;
	case GS_POST_COMM_RANK:
		e->comm = f->v[0];
		bpf_probe_read_user(&e->rank, 4, (void *)f->v[1]);
		return;
	case GS_POST_COMM_SIZE:
		e->comm = f->v[0];
		bpf_probe_read_user(&e->n_ranks, 4, (void *)f->v[1]);
		return;
	}
}

/* Send what made a communicator. */
static __always_inline void family_left(struct pt_regs *ctx, struct gs_thread *t, __u32 depth)
{
	struct gs_frame *f = &t->frame[depth & DEPTH_MASK];
	const volatile struct gs_func_desc *d = &gs_desc[f->func & FUNC_MASK];
	struct gs_event_comm *e;
	__s32 ret = (__s32)ctx->ax;

	if (d->post < GS_POST_COMM_INIT || (ret && ret != d->not_error))
		return;
	e = comm_reserve(t, f, GS_LAYER_NCCL);
	if (!e)
		return;
	e->ret = ret;
	e->n_ranks = -1;
	e->rank = -1;
	fill_comm(e, f, d->post);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

#define FAMILY nccl
#include "ends.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";
