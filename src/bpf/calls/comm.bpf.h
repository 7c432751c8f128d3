/* The notice of a communicator, of programs whose calls make them: after call.bpf.h. */
#ifndef GS_BPF_CALLS_COMM_BPF_H
#define GS_BPF_CALLS_COMM_BPF_H

/* For the caller to complete and to submit. NULL: no room in the ring, which is counted. */
static __always_inline struct gs_event_comm *
comm_reserve(const struct gs_thread *t, const struct gs_frame *f, enum gs_layer layer)
{
	struct gs_event_comm *e = bpf_ringbuf_reserve(&gs_ring, sizeof(*e), 0);

	if (!e) {
		count_loss(layer, GS_LOSS_NOTICE);
		return NULL;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->head.kind = GS_EV_COMM;
	e->head.bytes = sizeof(*e);
	e->time_ns = bpf_ktime_get_ns();
	e->pid = t->pid;
	e->tid = t->tid;
	e->func = f->func;
	return e;
}

#endif
