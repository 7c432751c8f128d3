/*
 * Messages in runs of bytes: each has a head of five, a flag and the length, and neither begins nor
 * ends where frames of HTTP/2 do. A message that lies whole in the chunk that came is lent from
 * there; another is put together, in memory that grows with what has come and not with what its
 * head says.
 */
#include <errno.h>
#include <string.h>

#include "net/grpc/grpc_int.h"

#define KEEP_BYTES 65536 /* of memory of a message that is over */

void gs_grpc_inbox_init(struct gs_grpc_inbox *in, struct gs_grpc_held *held,
			size_t max_message_bytes)
{
	*in = (struct gs_grpc_inbox){.held = held,
				     .max_message_bytes = max_message_bytes,
				     .partial = GS_BUF_INIT(max_message_bytes),
				     .waiting = GS_BUF_INIT(SIZE_MAX / 2)};
}

static int hold_bytes(struct gs_grpc_inbox *in, size_t bytes)
{
	if (atomic_fetch_add(&in->held->bytes, bytes) + bytes > in->held->max_bytes) {
		atomic_fetch_sub(&in->held->bytes, bytes);
		return -ENOBUFS;
	}
	in->held_bytes += bytes;
	return 0;
}

static void let_go(struct gs_grpc_inbox *in, size_t bytes)
{
	atomic_fetch_sub(&in->held->bytes, bytes);
	in->held_bytes -= bytes;
}

void gs_grpc_inbox_fini(struct gs_grpc_inbox *in)
{
	if (in->held)
		let_go(in, in->held_bytes);
	gs_buf_fini(&in->partial);
	gs_buf_fini(&in->waiting);
	in->lent_bytes = 0;
}

static int append_bytes(struct gs_grpc_inbox *in, struct gs_buf *buf, const uint8_t *data,
			size_t bytes)
{
	int r = hold_bytes(in, bytes);

	if (r == 0 && (r = gs_buf_put(buf, data, bytes)) < 0)
		let_go(in, bytes);
	return r;
}

static size_t n_waiting(const struct gs_grpc_inbox *in)
{
	return in->waiting.bytes - in->waiting_offset;
}

int gs_grpc_inbox_put(struct gs_grpc_inbox *in, const uint8_t *data, size_t bytes)
{
	if (n_waiting(in))
		return append_bytes(in, &in->waiting, data, bytes);
	in->lent = data;
	in->lent_bytes = bytes;
	return 0;
}

int gs_grpc_inbox_keep(struct gs_grpc_inbox *in)
{
	size_t bytes = in->lent_bytes;

	in->lent_bytes = 0;
	if (!bytes || in->failed)
		return 0;
	/* All that waited before was used up before the chunk was. */
	gs_buf_reset(&in->waiting);
	in->waiting_offset = 0;
	return append_bytes(in, &in->waiting, in->lent, bytes);
}

static const uint8_t *source_bytes(const struct gs_grpc_inbox *in, size_t *ret_bytes)
{
	*ret_bytes = n_waiting(in) ? n_waiting(in) : in->lent_bytes;
	return n_waiting(in) ? in->waiting.data + in->waiting_offset : in->lent;
}

static void advance_inbox(struct gs_grpc_inbox *in, size_t bytes, size_t *used)
{
	*used += bytes;
	if (n_waiting(in)) {
		in->waiting_offset += bytes;
		let_go(in, bytes);
	} else {
		in->lent += bytes;
		in->lent_bytes -= bytes;
	}
}

/* What the message before has left. */
static void tidy_inbox(struct gs_grpc_inbox *in)
{
	if (in->partial.bytes && in->n_head == 0) {
		let_go(in, in->partial.bytes);
		gs_buf_reset(&in->partial);
		if (in->partial.capacity_bytes > KEEP_BYTES)
			gs_buf_fini(&in->partial);
	}
	if (in->waiting.capacity_bytes && n_waiting(in) == 0) {
		gs_buf_fini(&in->waiting);
		in->waiting_offset = 0;
	}
}

static int read_head(struct gs_grpc_inbox *in)
{
	in->message_bytes = (size_t)in->head[1] << 24 | (size_t)in->head[2] << 16 |
			    (size_t)in->head[3] << 8 | in->head[4];
	if (in->head[0])
		return in->head[0] == 1 ? -EOPNOTSUPP : -EPROTO;
	return in->message_bytes > in->max_message_bytes ? -EMSGSIZE : 0;
}

/* One step: 1 a message, 0 go on, or why not. */
static int step_message(struct gs_grpc_inbox *in, const uint8_t *data, size_t n,
			const void **ret_data, size_t *ret_used)
{
	int r = 0;

	if (in->n_head < GS_GRPC_HEAD_BYTES) {
		size_t take = GS_GRPC_HEAD_BYTES - in->n_head;

		take = take < n ? take : n;
		memcpy(in->head + in->n_head, data, take);
		in->n_head += (unsigned)take;
		advance_inbox(in, take, ret_used);
		if (in->n_head < GS_GRPC_HEAD_BYTES || (r = read_head(in)) < 0)
			return r;
		if (in->message_bytes)
			return 0;
		*ret_data = "";
		return 1;
	}
	if (in->partial.bytes == 0 && n >= in->message_bytes) {
		*ret_data = data;
		advance_inbox(in, in->message_bytes, ret_used);
		return 1;
	}
	if (n > in->message_bytes - in->partial.bytes)
		n = in->message_bytes - in->partial.bytes;
	r = append_bytes(in, &in->partial, data, n);
	if (r < 0)
		return r;
	advance_inbox(in, n, ret_used);
	*ret_data = in->partial.data;
	return in->partial.bytes == in->message_bytes;
}

int gs_grpc_inbox_next(struct gs_grpc_inbox *in, const void **ret_data, size_t *ret_bytes,
		       size_t *ret_used)
{
	size_t n;
	int r = 0;

	*ret_used = 0;
	if (in->failed)
		return 0;
	tidy_inbox(in);
	for (const uint8_t *data; r == 0 && (data = source_bytes(in, &n), n);)
		r = step_message(in, data, n, ret_data, ret_used);
	if (r == 1) {
		in->n_head = 0;
		*ret_bytes = in->message_bytes;
	} else if (r < 0) {
		in->failed = true;
		in->lent_bytes = 0;
	}
	return r;
}

bool gs_grpc_inbox_empty(const struct gs_grpc_inbox *in)
{
	return in->n_head == 0 && n_waiting(in) == 0 && in->lent_bytes == 0;
}

/* --- out --- */

struct gs_grpc_out {
	struct gs_grpc_out *next;
	size_t bytes; /* with the head */
	uint8_t data[];
};

int gs_grpc_outbox_put(struct gs_grpc_outbox *box, const void *data, size_t bytes, size_t max_bytes)
{
	struct gs_grpc_out *m;

	if (bytes > UINT32_MAX)
		return -EMSGSIZE;
	if (box->messages && (bytes > max_bytes || box->bytes > max_bytes - bytes))
		return -ENOBUFS;
	m = malloc(sizeof(*m) + GS_GRPC_HEAD_BYTES + bytes);
	if (!m)
		return -ENOMEM;
	m->next = NULL;
	m->bytes = GS_GRPC_HEAD_BYTES + bytes;
	m->data[0] = 0;
	m->data[1] = (uint8_t)(bytes >> 24);
	m->data[2] = (uint8_t)(bytes >> 16);
	m->data[3] = (uint8_t)(bytes >> 8);
	m->data[4] = (uint8_t)bytes;
	if (bytes)
		memcpy(m->data + GS_GRPC_HEAD_BYTES, data, bytes);
	if (box->last)
		box->last->next = m;
	else
		box->first = m;
	box->last = m;
	box->bytes += m->bytes;
	box->messages++;
	return 0;
}

static void drop_first(struct gs_grpc_outbox *box)
{
	struct gs_grpc_out *m = box->first;

	box->first = m->next;
	if (!box->first)
		box->last = NULL;
	box->bytes -= m->bytes - box->offset;
	box->offset = 0;
	box->messages--;
	free(m);
}

size_t gs_grpc_outbox_take(struct gs_grpc_outbox *box, uint8_t *out, size_t bytes,
			   uint64_t *ret_messages, uint64_t *ret_message_bytes)
{
	size_t n = 0;

	*ret_messages = *ret_message_bytes = 0;
	while (box->first && n < bytes) {
		size_t left = box->first->bytes - box->offset;
		size_t take = left < bytes - n ? left : bytes - n;

		memcpy(out + n, box->first->data + box->offset, take);
		n += take;
		box->offset += take;
		box->bytes -= take;
		if (take == left) {
			++*ret_messages;
			*ret_message_bytes += box->first->bytes - GS_GRPC_HEAD_BYTES;
			drop_first(box);
		}
	}
	return n;
}

void gs_grpc_outbox_fini(struct gs_grpc_outbox *box)
{
	while (box->first)
		drop_first(box);
}

int gs_grpc_pull(nghttp2_session *h2, struct gs_buf *out, size_t up_to)
{
	while (out->bytes < up_to) {
		const uint8_t *data;
		ssize_t n = nghttp2_session_mem_send(h2, &data);

		if (n < 0)
			return n == NGHTTP2_ERR_NOMEM ? -ENOMEM : -EPROTO;
		if (n == 0)
			return 0;
		if (gs_buf_put(out, data, (size_t)n) < 0)
			return -ENOMEM;
	}
	return 0;
}
