/*
 * Spans that a program names at run time: PyTorch's record_function, by which it marks steps of
 * optimizers ("Optimizer.step#Adam.step"), waits for data loaders ("enumerate(DataLoader)#...") and
 * whatever users mark. Probes on three exported functions see one:
 *
 *   record_function_enter_new(name, args)    says the name; makes a record
 *   RecordFunction::RecordFunction(scope)    that record begins, here is its address
 *   RecordFunction::end()                    it ends, reported again by its destructor
 *
 * The span is a scope as an operator is, but it outlives the call that opened it. So it has no
 * stack pointer of its own: it stands just inside of the scope around it.
 *
 * Names are not known before. A new one gets the next of the ids that user space has set apart, and
 * is sent once; those beyond get the last, "record_function".
 */
#include "scope.bpf.h"

struct span_name {
	char text[GS_SPAN_NAME_BYTES]; /* zeros after the end */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GS_SPAN_NAMES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct span_name);
	__type(value, __u32);
} gs_span_ids SEC(".maps");

struct span_key {
	__u64 record; /* its address */
	__u64 pid;
};

struct span_open {
	__u64 start_ns;
	__u32 slot;
	__u16 depth;
	__u16 func;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct span_key);
	__type(value, struct span_open);
} gs_span_open SEC(".maps");

static __u32 n_names;

static __noinline __u32 new_id(struct span_name *name)
{
	__u32 n = __sync_fetch_and_add(&n_names, 1), id, other = gs_config.span_first;
	struct gs_event_name *e;

	id = gs_config.span_first + 1 + n;
	if (n >= GS_SPAN_NAMES - 1) {
		__sync_fetch_and_add(&n_names, -1);
		return other;
	}
	/* Before the id is used by anybody, so that the name is there when the first call is. */
	e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);
	if (!e) {
		count_loss(GS_LAYER_TORCH, GS_LOSS_RING_FULL);
		return other;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->head.kind = GS_EV_NAME;
	e->head.bytes = sizeof(*e);
	e->func = id;
	bpf_probe_read_kernel(e->name, sizeof(e->name), name->text);
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	/* Of two threads with the same new name one has used up an id for nothing. */
	bpf_map_update_elem(&gs_span_ids, name, &id, BPF_NOEXIST);
	return id;
}

static __always_inline struct gs_thread *thread_of(__u32 *ret_slot)
{
	struct gs_kernel_state *state = state_get();
	struct gs_thread *t;

	if (!state || state->stopped)
		return NULL;
	t = thread_same(ret_slot);
	return t ? t : thread_find(state, GS_LAYER_TORCH, ret_slot);
}

/* rdi: where the result goes; rsi: a std::string, whose first word points to its characters in both
 * ABIs of libstdc++. */
static __always_inline void note_name(struct pt_regs *ctx)
{
	struct span_name name = {};
	__u64 text = 0;
	__u32 slot, *id;
	struct gs_thread *t = thread_of(&slot);

	if (!t)
		return;
	if (bpf_probe_read_user(&text, sizeof(text), (void *)ctx->si) ||
	    bpf_probe_read_user_str(name.text, sizeof(name.text), (void *)text) < 0) {
		t->span_pending = gs_config.span_first;
		return;
	}
	id = bpf_map_lookup_elem(&gs_span_ids, &name);
	t->span_pending = id ? *id : new_id(&name);
}

static __always_inline void span_begin(struct pt_regs *ctx)
{
	struct span_key key = {.record = ctx->di, .pid = current_ids() >> 32};
	struct span_open open = {};
	struct gs_thread *t;
	struct gs_scope *s;
	__u32 slot, depth;
	__u64 sp = ctx->sp;

	t = thread_of(&slot);
	if (!t || !t->span_pending)
		return;
	open.func = t->span_pending;
	open.slot = slot;
	t->span_pending = 0;
	depth = t->scope_depth;
	if (depth)
		depth = scope_drop_stale(t, slot, depth, sp, open.func);
	t->scope_depth = depth;
	if (gs_config.modes && mode_skips(mode_of(open.func))) {
		gs_scope_skip(slot, open.func, GS_LAYER_TORCH, false);
		return;
	}
	if (depth >= GS_SCOPE_MAX) {
		count_loss(GS_LAYER_TORCH, GS_LOSS_TOO_DEEP);
		return;
	}
	s = &t->scope[depth & SCOPE_MASK];
	s->sp = depth ? t->scope[(depth - 1) & SCOPE_MASK].sp - 1 : ~0ull;
	s->func = open.func;
	s->layer = GS_LAYER_TORCH;
	s->resumed = 0;
	s->cell = 0;
	s->inside_ns = 0;
	s->launches = 0;
	open.depth = depth;
	open.start_ns = bpf_ktime_get_ns();
	s->start_ns = open.start_ns;
	if (bpf_map_update_elem(&gs_span_open, &key, &open, BPF_ANY)) {
		count_loss(GS_LAYER_TORCH, GS_LOSS_TOO_DEEP);
		return;
	}
	t->scope_depth = depth + 1;
}

static __always_inline void span_end(struct pt_regs *ctx)
{
	struct span_key key = {.record = ctx->di, .pid = current_ids() >> 32};
	struct span_open *found = bpf_map_lookup_elem(&gs_span_open, &key), open;
	__u64 now = bpf_ktime_get_ns();
	struct gs_thread *t;
	struct gs_scope *s;
	__u32 slot, depth;

	if (!found)
		return;
	open = *found;
	bpf_map_delete_elem(&gs_span_open, &key);
	t = thread_of(&slot);
	if (!t)
		return;
	depth = open.depth;
	s = &t->scope[depth & SCOPE_MASK];
	/* Ended by another thread, or together with a scope around it. */
	if (slot != open.slot || depth >= t->scope_depth || s->func != open.func ||
	    s->start_ns != open.start_ns) {
		count_loss(GS_LAYER_TORCH, GS_LOSS_UNMATCHED);
		return;
	}
	if (t->scope_depth > depth + 1)
		count_loss(GS_LAYER_TORCH, GS_LOSS_UNMATCHED);
	scope_close(NULL, t, slot, depth, now, 0);
}

SEC("?uprobe")
int gs_span_site(struct pt_regs *ctx)
{
	switch (bpf_get_attach_cookie(ctx) & 0xffff) { /* without the group */
	case GS_SPAN_NAME:
		note_name(ctx);
		break;
	case GS_SPAN_BEGIN:
		span_begin(ctx);
		break;
	case GS_SPAN_END:
		span_end(ctx);
		break;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
