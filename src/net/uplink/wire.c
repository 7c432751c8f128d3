/* The messages of uplink_int.h as bytes. */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "net/uplink/uplink_int.h"

#define REPLY_NUMBERS(X)                                                                           \
	X(stream)                                                                                  \
	X(attempt)                                                                                 \
	X(first_seq)                                                                               \
	X(next_seq)                                                                                \
	X(opened_seq)                                                                              \
	X(n_batches)                                                                               \
	X(wall_ns)                                                                                 \
	X(boot_ns)                                                                                 \
	X(sent_seq)                                                                                \
	X(batch.seq)                                                                               \
	X(batch.lost_batches)                                                                      \
	X(batch.lost_samples)                                                                      \
	X(batch.missed_samples)

void uplink_put_reply(struct gs_wire_out *out, const struct gs_uplink_reply *reply)
{
	const struct gs_queue_batch *b = &reply->batch;

	gs_wire_put_u32(out, (uint32_t)reply->r);
#define PUT(field) gs_wire_put_u64(out, reply->field);
	REPLY_NUMBERS(PUT)
#undef PUT
	gs_wire_put_u64(out, (uint64_t)b->first_wall_ns);
	gs_wire_put_u64(out, (uint64_t)b->last_wall_ns);
	gs_wire_put_u32(out, b->n_samples);
	gs_wire_put_u32(out, b->raw_bytes);
	gs_wire_put_u32(out, b->codec);
	gs_wire_put_u32(out, (uint32_t)b->bytes);
	if (b->bytes)
		gs_wire_put(out, b->data, b->bytes);
}

bool uplink_take_reply(struct gs_wire_in *in, struct gs_uplink_reply *ret)
{
	struct gs_queue_batch *b = &ret->batch;

	ret->r = (int)gs_wire_u32(in);
#define TAKE(field) ret->field = gs_wire_u64(in);
	REPLY_NUMBERS(TAKE)
#undef TAKE
	b->first_wall_ns = (int64_t)gs_wire_u64(in);
	b->last_wall_ns = (int64_t)gs_wire_u64(in);
	b->n_samples = gs_wire_u32(in);
	b->raw_bytes = gs_wire_u32(in);
	b->codec = gs_wire_u32(in);
	b->bytes = gs_wire_u32(in);
	b->data = gs_wire_bytes(in, b->bytes);
	return gs_wire_is_done(in);
}

#define STATE_COUNTS(X)                                                                            \
	X(connects)                                                                                \
	X(sent_batches)                                                                            \
	X(sent_bytes)                                                                              \
	X(acked_batches)

void uplink_put_state(struct gs_wire_out *out, const struct gs_uplink_line_state *s)
{
	gs_wire_put_u32(out, s->state);
	gs_wire_put_u8(out, s->is_other);
	gs_wire_put_text(out, s->head);
	gs_wire_put_text(out, s->trouble);
	gs_wire_put_u64(out, s->retry_ns);
#define PUT(field) gs_wire_put_u64(out, s->field);
	STATE_COUNTS(PUT)
#undef PUT
}

bool uplink_take_state(struct gs_wire_in *in, const struct gs_uplink_line_state *before,
		       struct gs_uplink_line_state *ret)
{
	struct gs_uplink_line_state s = {.state = gs_wire_u32(in), .is_other = gs_wire_u8(in)};
	const char *head = gs_wire_line(in), *trouble = gs_wire_line(in);
	bool grows = true;

	s.retry_ns = gs_wire_u64(in);
#define TAKE(field)                                                                                \
	s.field = gs_wire_u64(in);                                                                 \
	grows &= s.field >= before->field && s.field < UINT64_MAX / 2;
	STATE_COUNTS(TAKE)
#undef TAKE
	if (!gs_wire_is_done(in) || !grows || !head || !trouble || s.state < GS_UPLINK_CONNECTING ||
	    s.state > GS_UPLINK_REFUSED)
		return false;
	snprintf(s.head, sizeof(s.head), "%s", head);
	snprintf(s.trouble, sizeof(s.trouble), "%s", trouble);
	*ret = s;
	return true;
}

void uplink_put_config(struct gs_wire_out *out, const struct gs_uplink_config *desired)
{
	gs_wire_put_u64(out, desired->interval_ns);
	gs_wire_put_u8(out, desired->bandwidth);
	gs_wire_put_u8(out, desired->nvlink);
	gs_wire_put_u8(out, desired->processes);
}

bool uplink_take_config(struct gs_wire_in *in, struct gs_uplink_config *ret)
{
	*ret = (struct gs_uplink_config){.interval_ns = gs_wire_u64(in)};
	ret->bandwidth = gs_wire_u8(in);
	ret->nvlink = gs_wire_u8(in);
	ret->processes = gs_wire_u8(in);
	return gs_wire_is_done(in) && ret->interval_ns <= UPLINK_INTERVAL_MAX_NS;
}

void uplink_put_question(struct gs_wire_out *out, const struct gs_uplink_question *q)
{
	gs_wire_put_u8(out, (uint8_t)q->kind);
	gs_wire_put_text(out, q->name);
	gs_wire_put_u64(out, q->offset);
	gs_wire_put_u32(out, q->max_bytes);
}

bool uplink_take_question(struct gs_wire_in *in, struct gs_uplink_question *ret)
{
	unsigned kind = gs_wire_u8(in);
	const char *name = gs_wire_text(in);

	*ret = (struct gs_uplink_question){.kind = (enum gs_uplink_question_kind)kind,
					   .offset = gs_wire_u64(in),
					   .max_bytes = gs_wire_u32(in)};
	if (!gs_wire_is_done(in) || !name || strlen(name) >= sizeof(ret->name) ||
	    kind < GS_UPLINK_RECORDER || kind > GS_UPLINK_RECORDER_SAVE ||
	    ret->max_bytes > GS_UPLINK_ANSWER_MAX)
		return false;
	memcpy(ret->name, name, strlen(name) + 1);
	return true;
}
