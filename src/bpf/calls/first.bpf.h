/*
 * Calls that may be cancellation points only once: a thread that is cancelled in one must find its
 * way through the stack, so no return probe may be in it, and its time is not known. These are, on
 * NVIDIA's drivers, calls that make a context and launches of code that is yet to be loaded
 * (tests/gpu/harm.cc, `contexts`). A session program says at the entry that it does not want the
 * return, and the kernel leaves the return address as it is.
 *
 * So a call is left alone until its process has been seen to have a context since it began, ran
 * another program or reset its device, and a launch until that function's launch has been seen to
 * come back. What is not known here, because a map was full too, is left alone once more. The
 * calls are counted and sent without a time; they open no frame, since nothing would close it.
 */
#ifndef GS_BPF_CALLS_FIRST_BPF_H
#define GS_BPF_CALLS_FIRST_BPF_H

#include "cell.bpf.h"
#include "model/trace/call_args.h"

#define FIRST_PROCESSES  4096
#define FIRST_LAUNCHES   16384
#define FIRST_ANY_DEVICE (~0u) /* gs_contexts: what all devices of a process have in common */
#define FIRST_BY_ID      (1ull << 63) /* no address of a program */
#define FIRST_INSIDE_MAX 16 /* entries after which the remembered call is over, whatever it seems */

struct first_process { /* a running program on a device */
	__u64 start_ns;
	__u64 exec_id;
	__u32 tgid;
	__u32 device;
};

struct first_context {
	__u64 epoch_ns; /* when it was found; of FIRST_ANY_DEVICE also when code was unloaded last */
	__u64 layers;   /* 1 << enum gs_layer: a call of it has come back that needs a context */
};

struct first_launch {
	__u64 epoch_ns;
	__u64 function;
	__u32 tgid;
	__u32 device;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FIRST_PROCESSES);
	__type(key, struct first_process);
	__type(value, struct first_context);
} gs_contexts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, FIRST_LAUNCHES);
	__type(key, struct first_launch);
	__type(value, __u8);
} gs_launched SEC(".maps");

static __always_inline struct first_process first_key(const struct gs_first *first)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return (struct first_process){.start_ns = BPF_CORE_READ(task, group_leader, start_boottime),
				      .exec_id = BPF_CORE_READ(task, self_exec_id),
				      .tgid = bpf_get_current_pid_tgid() >> 32,
				      .device = first->device};
}

static __always_inline struct first_launch first_launch_key(const struct gs_first *first,
							    __u64 function)
{
	return (struct first_launch){.epoch_ns = first->epoch_ns,
				     .function = function,
				     .tgid = bpf_get_current_pid_tgid() >> 32,
				     .device = first->device};
}

/* The same in one word that is never 0, for the thread's own list. */
static __always_inline __u64 first_tag(const struct gs_first *first, __u64 function)
{
	__u64 h = (first->epoch_ns ^ first->device) * 0x9e3779b97f4a7c15ull;

	h = (h ^ function) * 0xbf58476d1ce4e5b9ull;
	h ^= h >> 29;
	return h ? h : 1;
}

/* Does a call of this class that came back well show that there is a context? */
static __always_inline bool first_needs_context(const volatile struct gs_func_desc *d)
{
	switch (d->op) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
	case GS_CLASS_ALLOC:
	case GS_CLASS_COPY:
	case GS_CLASS_MEMSET:
	case GS_CLASS_STREAM:
	case GS_CLASS_EVENT:
	case GS_CLASS_SYNC:
		return true;
	case GS_CLASS_QUERY: /* of a stream or an event */
		return d->v_stream != GS_V_NONE || d->v_arg[0] != GS_V_NONE;
	}
	return false;
}

/* What has to have come back before, beside a call that needs a context: the launched function, or a
 * call of the same function where that needs none. 0: nothing. */
static __always_inline __u64 first_function(const volatile struct gs_func_desc *d,
					    const struct gs_frame *f, __u32 id)
{
	if (d->op == GS_CLASS_LAUNCH || d->op == GS_CLASS_GRAPH_LAUNCH)
		return gs_args_word(f, d->v_arg[0]);
	return first_needs_context(d) ? 0 : FIRST_BY_ID | id;
}

/* The layer of which a call has to have come back. GS_LAYER_NONE: of none. */
static __always_inline __u32 first_layer(const volatile struct gs_func_desc *d)
{
	return first_needs_context(d) ? d->layer : GS_LAYER_NONE;
}

static __always_inline void first_read_context(struct gs_thread *t, struct gs_kernel_state *s)
{
	__u32 gen = *(volatile __u32 *)&s->context_gen;
	struct first_process key = first_key(&t->first);
	struct first_context *any, *c;

	c = bpf_map_lookup_elem(&gs_contexts, &key);
	key.device = FIRST_ANY_DEVICE;
	any = bpf_map_lookup_elem(&gs_contexts, &key);
	t->first.layers = c && any ? c->layers : 0;
	t->first.epoch_ns = 0;
	if (c && any)
		t->first.epoch_ns = c->epoch_ns > any->epoch_ns ? c->epoch_ns : any->epoch_ns;
	t->first.gen = gen;
}

/* The entry of the map that has this key, made when there is none. */
static __always_inline struct first_context *first_get(const struct first_process *key)
{
	struct first_context *c = bpf_map_lookup_elem(&gs_contexts, key),
			     fresh = {.epoch_ns = bpf_ktime_get_ns()};

	if (c)
		return c;
	bpf_map_update_elem(&gs_contexts, key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&gs_contexts, key);
}

/* 1: this call may be one of the first ones. A function of its own for the verifier,
 * as those below. */
__noinline int gs_first_is_new(__u32 slot, __u32 layer, __u64 function)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_kernel_state *s = state_get();
	struct first_launch key;

	if (!t || !s)
		return 1;
	if (t->first.gen != s->context_gen)
		first_read_context(t, s);
	if (layer && !(t->first.layers >> (layer & 31) & 1))
		return 1;
	if (!function)
		return 0;
	key = first_launch_key(&t->first, function);
	if (bpf_map_lookup_elem(&gs_launched, &key)) {
		__u64 tag = first_tag(&t->first, function);

		t->first.recent[tag >> 32 & (GS_FIRST_RECENT - 1)] = tag;
		return 0;
	}
	return 1;
}

/* Mostly one comparison, or two. */
static __always_inline bool first_is_due(struct gs_thread *t, struct gs_kernel_state *s, __u32 slot,
					 __u32 layer, __u64 function)
{
	if (t->first.gen == s->context_gen && (!layer || t->first.layers >> (layer & 31) & 1)) {
		__u64 tag;

		if (!function)
			return false;
		tag = first_tag(&t->first, function);
		if (t->first.recent[tag >> 32 & (GS_FIRST_RECENT - 1)] == tag)
			return false;
	}
	return gs_first_is_new(slot, layer, function);
}

/* A call has come back. layer: it is of this one and needed a context, so there is one. function: of
 * first_function(), 0 none. */
__noinline int gs_first_settle(__u32 slot, __u32 layer, __u64 function)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_kernel_state *s = state_get();
	struct first_context *c;
	__u64 bit = 1ull << (layer & 31);
	struct first_process key;
	struct first_launch launch;
	__u8 one = 1;

	if (!t || !s)
		return 0;
	key = first_key(&t->first);
	key.device = FIRST_ANY_DEVICE;
	if (!first_get(&key))
		return 0;
	key.device = t->first.device;
	c = first_get(&key);
	if (!c)
		return 0;
	if (!(c->layers & bit)) {
		__sync_fetch_and_or(&c->layers, bit);
		__sync_fetch_and_add(&s->context_gen, 1);
	}
	first_read_context(t, s);
	if (!function)
		return 0;
	launch = first_launch_key(&t->first, function);
	bpf_map_update_elem(&gs_launched, &launch, &one, BPF_ANY);
	return 0;
}

/* A call after which calls are first ones again: the device is reset, code is unloaded from any device
 * (the address of its functions may be another's next), or the thread takes another device. device:
 * what the call was given. */
__noinline int gs_first_again(__u32 slot, __u32 id, __u32 device)
{
	const volatile struct gs_func_desc *d = &gs_desc[id & FUNC_MASK];
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_kernel_state *s = state_get();
	struct first_process key;
	struct first_context *c;

	if (!t || !s)
		return 0;
	if (d->post == GS_POST_SET_DEVICE) {
		t->first.gen = s->context_gen - 1;
		t->first.device = device;
		return 0;
	}
	key = first_key(&t->first);
	if (d->post == GS_POST_UNLOAD)
		key.device = FIRST_ANY_DEVICE;
	else if (d->layer == GS_LAYER_CUDA_DRIVER)
		key.device = device; /* cudaDeviceReset resets that of the thread */
	c = bpf_map_lookup_elem(&gs_contexts, &key);
	if (!c)
		return 0;
	if (d->post == GS_POST_RESET)
		bpf_map_delete_elem(&gs_contexts, &key);
	else
		c->epoch_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&s->context_gen, 1);
	return 0;
}

/* Is this call how the remembered one, or what that has called, does its work? */
static __always_inline bool first_is_inner(const struct gs_first *first, __u32 id)
{
	const volatile struct gs_func_desc *outer = &gs_desc[first->inner_id & FUNC_MASK],
					   *d = &gs_desc[id & FUNC_MASK];

	return outer->op == d->op &&
	       (outer->layer == d->layer ||
		(outer->layer == GS_LAYER_CUDA_RUNTIME && d->layer == GS_LAYER_CUDA_DRIVER));
}

static __always_inline void first_came_in(struct gs_first *first, struct pt_regs *ctx, __u32 id,
					  __u64 ret_ip)
{
	first->inner_id = id;
	first->sp = ctx->sp;
	first->ip = ctx->ip;
	first->ret_ip = ret_ip;
}

/* Is the return address of the remembered call in place, or the one that another tool's
 * return probe has put there? */
static __always_inline bool first_is_open(const struct gs_first *first)
{
	__u64 word = 0;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)first->sp))
		return false;
	return word == first->ret_ip || (word && word == returns_trampoline());
}

/* The next entry of a thread after a call that was left alone. True when it is that call still: it
 * has jumped to its namesake in another library, or this is how it does its work. A call is open as
 * long as the stack pointer is below that at its entry and its return address is in place; where
 * nothing has written over the return address of one that is over, that looks the same: so each
 * inner call has to lie below the one before. */
static __noinline bool first_goes_on(struct pt_regs *ctx, struct gs_thread *t, __u32 slot, __u32 id)
{
	struct gs_first *first = &t->first;
	const volatile struct gs_func_desc *outer = &gs_desc[first->id & FUNC_MASK];
	bool jumped = ctx->sp == first->sp && first->inner_id == id && first->ip != ctx->ip;
	__u64 ret_ip = 0;
	struct gs_cell *c;

	if ((ctx->sp < first->sp || jumped) && first->n_inside < FIRST_INSIDE_MAX &&
	    first_is_open(first)) {
		first->n_inside++;
		if (jumped || (first_is_inner(first, id) &&
			       !bpf_probe_read_user(&ret_ip, sizeof(ret_ip), (void *)ctx->sp))) {
			/* Of a jump the first place stays: where it comes again is the next call. */
			if (!jumped)
				first_came_in(first, ctx, id, ret_ip);
			c = cell_find(t, slot, id); /* the call around it is counted */
			if (c)
				c->inner++;
			return true;
		}
		/* A runtime call may make others of the driver; no layer's call makes its own. */
		if (gs_desc[id & FUNC_MASK].layer != outer->layer)
			return false;
	}
	gs_first_settle(slot, first_layer(outer), first->function);
	first->id = 0;
	return false;
}

/* Keep the call until the thread's next entry shows that it has come back. */
static __always_inline void first_remember(struct pt_regs *ctx, struct gs_first *first, __u32 id,
					   __u64 function)
{
	__u64 word = 0;

	if (first->id || bpf_probe_read_user(&word, sizeof(word), (void *)ctx->sp))
		return;
	first->id = id;
	first->n_inside = 0;
	first->function = function;
	first_came_in(first, ctx, id, word);
}

/* A call whose end was seen. */
static __always_inline void first_learn(struct gs_thread *t, __u32 slot, const struct gs_frame *f,
					const volatile struct gs_func_desc *d, __u32 id,
					bool failed)
{
	struct gs_kernel_state *s = state_get();

	if (d->post == GS_POST_RESET)
		gs_first_again(slot, id, (__u32)f->v[0]);
	else if (s && !failed && first_needs_context(d) &&
		 (t->first.gen != s->context_gen || !(t->first.layers >> (d->layer & 31) & 1)))
		gs_first_settle(slot, d->layer, 0);
}

#endif
