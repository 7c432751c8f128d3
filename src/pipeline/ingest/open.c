/*
 * The arguments of a call that has not returned, out of the words saved at its entry: decoded by
 * the code that the kernel side has for finished calls (model/trace/call_args.h). Handles that the
 * call has yet to make, and what lies in memory of the process, are not known here: they are 0, and
 * GS_CALL_ARGS_UNREAD says so where an argument is missing.
 */
#include "pipeline/ingest/ingest_int.h"

#include "model/trace/call_args.h"
#include "model/trace/func.h"

/* What the words do not have yet. */
static void clear_unknown(enum gs_args_place place, struct gs_rec_call *c)
{
	switch (place) {
	case GS_ARGS_IN_WORDS:
		return;
	case GS_ARGS_OUT_STREAM:
		c->stream = 0;
		return;
	case GS_ARGS_OUT:
	case GS_ARGS_OUT32:
		c->arg[0] = 0; /* where the result will be, not the result */
		return;
	case GS_ARGS_OUT_SIZE:
	case GS_ARGS_OUT_SIZE32:
		c->arg[0] = 0;
		c->bytes = 0; /* of one dimension only, the rest is not known yet */
		break;
	case GS_ARGS_LAUNCH:
		break;
	case GS_ARGS_COPY:
	case GS_ARGS_BATCH:
		c->arg[0] = 0; /* a description of the copy, not its destination */
		c->arg[1] = 0;
		c->bytes = 0;
		c->aux = GS_COPY_DEFAULT;
		break;
	case GS_ARGS_MPI: /* whom it waits for, and for how much, is known when it returns */
		c->bytes = 0;
		c->stream = 0;
		c->aux = 0;
		break;
	}
	c->call_flags |= GS_CALL_ARGS_UNREAD;
}

void gs_ingest_open_args(const struct gs_func_desc *d, const struct gs_frame *frame,
			 struct gs_rec_call *c)
{
	__u64 arg[4];
	__u32 aux = (__u32)gs_args_word(frame, d->v_aux);

	for (unsigned i = 0; i < 4; i++)
		arg[i] = gs_args_word(frame, d->v_arg[i]);
	gs_args_words(frame, d, arg, &aux);
	c->bytes = gs_args_bytes(frame, d);
	c->stream = gs_args_word(frame, d->v_stream);
	c->aux = aux;
	for (unsigned i = 0; i < 4; i++)
		c->arg[i] = arg[i];
	clear_unknown(gs_args_place(d->post), c);
}
