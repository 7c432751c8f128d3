/* The parts that messages of OTLP share. */
#include "core/text/otlp.h"

#include <string.h>

#define LATE_BYTES 5 /* of a length that is put at the end */

int gs_otlp_open(struct gs_buf *out, uint32_t field, size_t *ret_at)
{
	uint8_t head[1 + LATE_BYTES] = {(uint8_t)(field << 3 | GS_PB_LENGTH)};

	*ret_at = out->bytes + sizeof(head);
	return gs_buf_put(out, head, sizeof(head));
}

void gs_otlp_close(struct gs_buf *out, size_t at)
{
	size_t n = out->bytes - at;

	for (size_t i = 0; i < LATE_BYTES; i++, n >>= 7)
		out->data[at - LATE_BYTES + i] =
			(uint8_t)((n & 0x7f) | (i < LATE_BYTES - 1 ? 0x80 : 0));
}

void gs_otlp_attribute(struct gs_pb *pb, uint32_t field, const char *name, const char *text)
{
	uint8_t *pair = gs_pb_open(pb, field, GS_PB_LARGE), *any;

	gs_pb_text(pb, 1, name, SIZE_MAX);
	any = gs_pb_open(pb, 2, GS_PB_LARGE);
	gs_pb_text(pb, 1, text, SIZE_MAX);
	gs_pb_close(pb, any, GS_PB_LARGE);
	gs_pb_close(pb, pair, GS_PB_LARGE);
}

void gs_otlp_attribute_int(struct gs_pb *pb, uint32_t field, const char *name, int64_t value)
{
	uint8_t *pair = gs_pb_open(pb, field, GS_PB_LARGE), *any;

	gs_pb_text(pb, 1, name, SIZE_MAX);
	any = gs_pb_open(pb, 2, GS_PB_SMALL);
	gs_pb_int(pb, 3, value);
	gs_pb_close(pb, any, GS_PB_SMALL);
	gs_pb_close(pb, pair, GS_PB_LARGE);
}

static int put_resource(struct gs_buf *out, const struct gs_otlp_label *labels, size_t n_labels)
{
	size_t need = 256;
	uint8_t *resource;
	struct gs_pb pb;
	int r;

	for (size_t i = 0; i < n_labels; i++)
		need += 64 + 3 * (strlen(labels[i].name) + strlen(labels[i].value));
	r = gs_buf_reserve(out, need);
	if (r < 0)
		return r;
	pb.at = out->data + out->bytes;
	resource = gs_pb_open(&pb, 1, GS_PB_LARGE);
	gs_otlp_attribute(&pb, 1, "service.name", "gpuscope");
	for (size_t i = 0; i < n_labels; i++)
		if (labels[i].value[0])
			gs_otlp_attribute(&pb, 1, labels[i].name, labels[i].value);
	gs_pb_close(&pb, resource, GS_PB_LARGE);
	out->bytes = (size_t)(pb.at - out->data);
	return 0;
}

static int put_scope(struct gs_buf *out)
{
	uint8_t *scope;
	struct gs_pb pb;
	int r = gs_buf_reserve(out, 128);

	if (r < 0)
		return r;
	pb.at = out->data + out->bytes;
	scope = gs_pb_open(&pb, 1, GS_PB_SMALL);
	gs_pb_text(&pb, 1, "gpuscope", SIZE_MAX);
	gs_pb_text(&pb, 2, GS_VERSION, SIZE_MAX);
	gs_pb_close(&pb, scope, GS_PB_SMALL);
	out->bytes = (size_t)(pb.at - out->data);
	return 0;
}

int gs_otlp_begin(struct gs_buf *out, const struct gs_otlp_label *labels, size_t n_labels,
		  struct gs_otlp_message *ret_message)
{
	int r = gs_otlp_open(out, 1, &ret_message->resource_at);

	if (r == 0)
		r = put_resource(out, labels, n_labels);
	if (r == 0)
		r = gs_otlp_open(out, GS_OTLP_ITEM, &ret_message->scope_at);
	return r == 0 ? put_scope(out) : r;
}

void gs_otlp_end(struct gs_buf *out, const struct gs_otlp_message *message)
{
	gs_otlp_close(out, message->scope_at);
	gs_otlp_close(out, message->resource_at);
}
