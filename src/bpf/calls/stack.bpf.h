/*
 * Stacks get a number when they are first seen, and only then cross to user space: calls and
 * samples carry the number. Which stacks were sent is remembered by a hash of their frames; one
 * that was forgotten for lack of room is sent again under a new number.
 */
#ifndef GS_BPF_CALLS_STACK_BPF_H
#define GS_BPF_CALLS_STACK_BPF_H

#include "model/trace/class.h"
#include "thread.bpf.h"

#define STACK_N_IDS 65536

struct stack_key {
	__u64 hash;
	__u32 pid;
	__u32 kind; /* enum gs_stack_kind */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, STACK_N_IDS);
	__type(key, struct stack_key);
	__type(value, __u32);
} gs_stack_ids SEC(".maps");

/* Events whose tail is declared by the struct around them. */
#pragma clang diagnostic ignored "-Wgnu-variable-sized-type-not-at-end"

/* A stack as it is put together: the event's head and all frames that it may have. */
struct stack_event {
	struct gs_event_stack head;
	struct gs_raw_frame frames[GS_STACK_MAX];
};

/* One step of a hash over 64-bit words (the multiplier of splitmix64). */
static __always_inline __u64 stack_mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0xbf58476d1ce4e5b9ull;
	return hash ^ hash >> 29;
}

/* The number of a stack that was sent before; 0 when it is new. */
static __always_inline __u32 stack_known(const struct stack_key *key)
{
	__u32 *id = bpf_map_lookup_elem(&gs_stack_ids, key);

	return id ? *id : 0;
}

/* Sends a new stack, whose frames, n_frames, kind and flags are filled in, and gives it its number;
 * 0 when there was no room in the ring. */
static __always_inline __u32 stack_send(struct stack_event *e, const struct stack_key *key,
					__u32 tid)
{
	struct gs_kernel_state *s = state_get();
	__u32 n = e->head.n_frames, id, bytes;

	if (!s || n > GS_STACK_MAX)
		return 0;
	id = __sync_fetch_and_add(&s->n_stacks, 1) + 1;
	if (!id) /* gone round after four milliards: 0 is none */
		id = __sync_fetch_and_add(&s->n_stacks, 1) + 1;
	bytes = sizeof(e->head) + n * sizeof(e->frames[0]);
	e->head.head.kind = GS_EV_STACK;
	e->head.head.bytes = bytes;
	e->head.head.pad = 0;
	e->head.time_ns = bpf_ktime_get_ns();
	e->head.pid = key->pid;
	e->head.tid = tid;
	e->head.id = id;
	e->head.kind = key->kind;
	if (bytes > sizeof(*e) || bpf_ringbuf_output(&gs_ring, e, bytes, BPF_RB_NO_WAKEUP) != 0)
		return 0;
	bpf_map_update_elem(&gs_stack_ids, key, &id, BPF_ANY);
	return id;
}

/* At which of the chosen moments a call of this class is (enum gs_stack_at). */
static __always_inline __u32 stack_at_of(__u32 op)
{
	switch (op) {
	case GS_CLASS_LAUNCH:
	case GS_CLASS_GRAPH_LAUNCH:
		return GS_AT_LAUNCH;
	case GS_CLASS_COLLECTIVE:
	case GS_CLASS_P2P:
		return GS_AT_COLLECTIVE;
	case GS_CLASS_ALLOC:
	case GS_CLASS_FREE:
		return GS_AT_ALLOC;
	case GS_CLASS_COPY:
	case GS_CLASS_MEMSET:
		return GS_AT_COPY;
	case GS_CLASS_SYNC:
		return GS_AT_SYNC;
	}
	return 0;
}

#endif
