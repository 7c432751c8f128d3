/*
 * The arguments of a call that has not returned, out of the words saved at its entry, as the kernel
 * side puts finished calls together (struct gs_event_call has the meanings, enum gs_post the ways).
 * Handles that the call has yet to make, and what lies in memory of the process, are not known
 * here: they are 0, and GS_CALL_ARGS_UNREAD says so where an argument is missing.
 */
#include "pipeline/ingest/ingest_int.h"

#include "model/trace/func.h"

static uint64_t word_of(const struct gs_frame *frame, unsigned v)
{
	return v < GS_V_NONE ? frame->v[v] : 0;
}

static uint64_t pair_words(uint64_t low, uint64_t high)
{
	return (uint64_t)(uint32_t)low | high << 32;
}

static uint32_t clamp_value(uint64_t value, uint32_t max)
{
	return (uint32_t)value < max ? (uint32_t)value : max;
}

static void nccl_args(const struct gs_func_desc *d, const struct gs_frame *frame,
		      struct gs_rec_call *c)
{
	unsigned op = d->v_aux & 15, root = d->v_aux >> 4;
	uint32_t dtype = (uint32_t)word_of(frame, d->v_bytes2);
	uint32_t op_word = op == GS_V_NONE ? 0xff : clamp_value(word_of(frame, op), 0xfe);
	uint32_t root_word = root == GS_V_NONE ? 0xffff : clamp_value(word_of(frame, root), 0xffff);

	c->bytes = word_of(frame, d->v_bytes) * gs_nccl_dtype_bytes(dtype);
	c->aux = clamp_value(dtype, 0xff) | (d->op == GS_CLASS_P2P ? 0xffu : op_word) << 8 |
		 root_word << 16;
}

static void launch_args(unsigned post, const struct gs_frame *frame, struct gs_rec_call *c)
{
	const __u64 *v = frame->v;

	if (post == GS_POST_LAUNCH_GRID) {
		c->arg[1] = pair_words(v[1], v[2]);
		c->arg[2] = 1;
	} else if (post == GS_POST_LAUNCH_RT) {
		c->arg[1] = v[1];
		c->arg[2] = pair_words(v[2], v[3]);
		c->arg[3] = pair_words(v[3] >> 32, v[4]);
	} else {
		c->arg[1] = pair_words(v[1], v[2]);
		c->arg[2] = pair_words(v[3], v[4]);
		c->arg[3] = pair_words(v[5], v[6]);
	}
}

void gs_ingest_open_args(const struct gs_func_desc *d, const struct gs_frame *frame,
			 struct gs_rec_call *c)
{
	c->bytes = word_of(frame, d->v_bytes);
	if (d->v_bytes2 != GS_V_NONE)
		c->bytes *= word_of(frame, d->v_bytes2);
	c->stream = word_of(frame, d->v_stream);
	c->aux = (uint32_t)word_of(frame, d->v_aux);
	for (unsigned i = 0; i < 4; i++)
		c->arg[i] = word_of(frame, d->v_arg[i]);

	switch (d->post) {
	case GS_POST_LAUNCH_RT:
	case GS_POST_LAUNCH_DRV:
	case GS_POST_LAUNCH_GRID:
		launch_args(d->post, frame, c);
		break;
	case GS_POST_OUT_STREAM:
		c->stream = 0;
		break;
	case GS_POST_OUT_PTR:
	case GS_POST_OUT_PTR32:
	case GS_POST_COMM_INIT:
	case GS_POST_COMM_INIT_SCALABLE:
	case GS_POST_COMM_SPLIT:
	case GS_POST_COMM_SHRINK:
		c->arg[0] = 0; /* where the result will be, not the result */
		break;
	case GS_POST_PITCH:
	case GS_POST_PITCH32:
	case GS_POST_PITCHED_PTR:
	case GS_POST_ARRAY:
	case GS_POST_ARRAY3D:
		c->arg[0] = 0;
		c->bytes = 0; /* of one dimension only, the rest is not known yet */
		c->call_flags |= GS_CALL_ARGS_UNREAD;
		break;
	case GS_POST_LAUNCH_EXC:
	case GS_POST_LAUNCH_EX:
	case GS_POST_COPY3D_RT:
	case GS_POST_COPY2D_DRV:
	case GS_POST_COPY3D_DRV:
	case GS_POST_COPY_BATCH:
	case GS_POST_COPY3D_BATCH:
	case GS_POST_COPY3D_PEER_RT:
	case GS_POST_COPY3D_PEER_DRV:
	case GS_POST_COPY2D_V1:
	case GS_POST_COPY3D_V1:
		if (d->op == GS_CLASS_COPY) {
			c->arg[0] = 0; /* a description of the copy, not its destination */
			c->arg[1] = 0;
			c->bytes = 0;
			c->aux = GS_COPY_DEFAULT;
		}
		c->call_flags |= GS_CALL_ARGS_UNREAD;
		break;
	case GS_POST_COPY_ANY:
		c->aux = GS_COPY_DEFAULT;
		break;
	case GS_POST_COPY_HTOD:
		c->aux = GS_COPY_H2D;
		break;
	case GS_POST_COPY_DTOH:
		c->aux = GS_COPY_D2H;
		break;
	case GS_POST_COPY_DTOD:
		c->aux = GS_COPY_D2D;
		break;
	case GS_POST_COPY_PEER:
		c->aux = GS_COPY_P2P;
		break;
	case GS_POST_EXTENT3:
		c->bytes *= c->arg[1];
		c->arg[1] = 0;
		break;
	case GS_POST_FILL16:
		c->bytes *= 2;
		break;
	case GS_POST_FILL32:
		c->bytes *= 4;
		break;
	case GS_POST_MPI: /* whom it waits for, and for how much, is known when it returns */
		c->bytes = 0;
		c->stream = 0;
		c->aux = 0;
		c->call_flags |= GS_CALL_ARGS_UNREAD;
		break;
	case GS_POST_NCCL:
		nccl_args(d, frame, c);
		break;
	default:
		break;
	}
}
