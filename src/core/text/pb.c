#include "core/text/pb.h"

#include "core/text/put.h"

void gs_pb_close_moved(struct gs_pb *pb, uint8_t *mark, unsigned room)
{
	size_t n = (size_t)(pb->at - mark);
	uint8_t length[10];
	struct gs_pb l = {length};
	size_t bytes;

	gs_pb_varint(&l, n);
	bytes = (size_t)(l.at - length);
	memmove(mark - room + bytes, mark, n);
	memcpy(mark - room, length, bytes);
	pb->at = mark - room + bytes + n;
}

void gs_pb_bytes(struct gs_pb *pb, uint32_t field, const void *data, size_t bytes)
{
	gs_pb_tag(pb, field, GS_PB_LENGTH);
	gs_pb_varint(pb, bytes);
	memcpy(pb->at, data, bytes);
	pb->at += bytes;
}

void gs_pb_text(struct gs_pb *pb, uint32_t field, const char *text, size_t max_bytes)
{
	uint8_t *mark = gs_pb_open(pb, field, GS_PB_SMALL);

	pb->at = (uint8_t *)gs_put_utf8((char *)pb->at, text, max_bytes);
	gs_pb_close(pb, mark, GS_PB_SMALL);
}
