/*
 * Marks: where calls are added up, a call is sent all the same (its time, and the sums until then)
 * when its function had not returned on that thread for GS_MARK_APART_NS. So what happens once in a
 * step of a program is sent each time, and of calls that are dense the first after a pause: user
 * space finds steps by them (src/pipeline/aggregate/step.c).
 */
#ifndef GS_BPF_CALLS_MARK_BPF_H
#define GS_BPF_CALLS_MARK_BPF_H

#include "cell.bpf.h"
#include "model/trace/mark.h"

/* Is it one of the calls by whose number steps are known? */
static __always_inline bool mark_counts(const volatile struct gs_func_desc *d)
{
	return d->layer == GS_LAYER_MPI || GS_CLASSES_OF_STEPS >> (d->op & 31) & 1;
}

/* The time of a call that no other one was around is not outside of calls. */
static __always_inline void mark_cover(struct gs_thread *t, __u64 dur_ns)
{
	if (gs_config.marks && !t->depth && !t->scope_depth)
		t->covered_ns += dur_ns;
}

/* A function of its own for the verifier. c may be NULL. */
__noinline int gs_mark_send(__u32 slot, struct gs_cell *c, const struct gs_outcome *o)
{
	struct gs_thread *t = bpf_map_lookup_elem(&gs_threads, &slot);
	struct gs_event_mark *e;

	if (!t || !c || !o)
		return 0;
	e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);
	if (!e) {
		count_loss(GS_LAYER_NONE, GS_LOSS_MARK);
		return 0;
	}
	e->head.kind = GS_EV_MARK;
	e->head.bytes = sizeof(*e);
	e->head.pad = 0;
	e->time_ns = o->now_ns;
	e->dur_ns = o->dur_ns;
	e->called = t->called;
	e->covered_ns = t->covered_ns;
	e->cpu_ns = task_cpu_ns();
	e->calls = c->calls - c->marked_calls;
	e->pid = t->pid;
	e->tid = t->tid;
	e->func = o->id;
	e->pad = 0;
	c->marked_calls = c->calls;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/* A call was added to its cell. counts: as of mark_counts(). */
static __always_inline void mark_call(struct gs_thread *t, __u32 slot, struct gs_cell *c,
				      const struct gs_outcome *o, bool counts)
{
	__u64 before;

	if (!gs_config.marks || !c)
		return;
	if (counts)
		t->called += GS_MARK_ONE_CALL + gs_mark_hash(o->id);
	before = c->returned_ns;
	c->returned_ns = o->now_ns;
	if (o->now_ns - before >= GS_MARK_APART_NS)
		gs_mark_send(slot, c, o);
}

#endif
