/*
 * What a call says beyond the words that its entry saved (model/call/memory.h), read from the
 * kernel.
 *
 * What is rare is in functions that are not static: the verifier looks at those once, whatever the
 * state that they are called in, so the time to load the programs stays short.
 */
#ifndef GS_BPF_CALLS_POST_BPF_H
#define GS_BPF_CALLS_POST_BPF_H

#include "cell.bpf.h"
#include "model/call/outcome.h"

static __always_inline bool gs_call_read(void *to, __u32 bytes, __u64 from, struct gs_outcome *o)
{
	if (bpf_probe_read_user(to, bytes, (void *)from) == 0)
		return true;
	o->flags |= GS_CALL_ARGS_UNREAD;
	return false;
}

#define GS_CALL_DESC(id) (&gs_desc[(id)&FUNC_MASK])
#define GS_CALL_GLOBAL   __noinline
#define GS_CALL_APART    __noinline
#ifndef GS_WITH_CUDA
#define GS_CALL_NO_SIZES
#endif
#include "model/call/memory.h"

#ifdef GS_WITH_MPI
/* Sets o->bytes and, in v[14], the peer (src/bpf/mpi). */
int mpi_measure(struct gs_frame *f, struct gs_outcome *o);
#endif

/* Sets o->bytes. */
static __always_inline void call_bytes(struct gs_frame *f, const volatile struct gs_func_desc *d,
				       struct gs_outcome *o)
{
#ifdef GS_WITH_MPI
	if (d->post == GS_POST_MPI) {
		mpi_measure(f, o);
		return;
	}
#endif
#ifdef GS_WITH_CUDA
	if (gs_call_has_bytes_in_memory(d->post)) {
		gs_call_bytes_read(f, o, o->id);
		return;
	}
#endif
	o->bytes = gs_args_bytes(f, d);
}

/* The same, with what is frequent and short done on the spot. */
static __always_inline void fill_post(struct gs_event_call *e, struct gs_frame *f,
				      const volatile struct gs_func_desc *d, struct gs_outcome *o)
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
			gs_call_read(&p, 8, e->arg[0], o);
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
	gs_call_fill(e, f, o, o->id);
}

#endif
