/*
 * Just enough protobuf to write messages: varints, scalars, bytes and nested messages, straight
 * into memory that the caller has made sure is large enough. A nested message is opened with room
 * for its length and closed when its content is known, so nothing is measured beforehand or
 * copied; the length is padded to the room kept for it, which every reader of protobuf takes.
 */
#ifndef GS_CORE_TEXT_PB_H
#define GS_CORE_TEXT_PB_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct gs_pb {
	uint8_t *at; /* where the next byte goes */
};

/* Of a field's tag. */
enum gs_pb_wire {
	GS_PB_VARINT = 0,
	GS_PB_FIXED64 = 1,
	GS_PB_LENGTH = 2,
};

/* Bytes kept for the length of a nested message: what is known to stay below 128 bytes needs one.
 * A message that turns out longer is moved. */
#define GS_PB_SMALL 1
#define GS_PB_LARGE 2

/* At most 10 bytes. */
static inline void gs_pb_varint(struct gs_pb *pb, uint64_t v)
{
	uint8_t *p = pb->at;

	while (v >= 0x80) {
		*p++ = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	*p++ = (uint8_t)v;
	pb->at = p;
}

/* Begins a field by its number; the value in this wire form has to follow. At most 5 bytes. */
static inline void gs_pb_tag(struct gs_pb *pb, uint32_t field, enum gs_pb_wire wire)
{
	gs_pb_varint(pb, field << 3 | wire);
}

/* uint32, uint64, bool, enum. gs_pb_int(): int32, int64, which take ten bytes when negative. */
static inline void gs_pb_uint(struct gs_pb *pb, uint32_t field, uint64_t v)
{
	gs_pb_tag(pb, field, GS_PB_VARINT);
	gs_pb_varint(pb, v);
}

/* See gs_pb_uint(). */
static inline void gs_pb_int(struct gs_pb *pb, uint32_t field, int64_t v)
{
	gs_pb_uint(pb, field, (uint64_t)v);
}

/* fixed64, and the bits of a double: little endian, as this machine is. */
static inline void gs_pb_fixed64(struct gs_pb *pb, uint32_t field, uint64_t v)
{
	gs_pb_tag(pb, field, GS_PB_FIXED64);
	memcpy(pb->at, &v, sizeof(v));
	pb->at += sizeof(v);
}

/* Start a nested message; the returned mark goes to gs_pb_close() with the same room. */
static inline uint8_t *gs_pb_open(struct gs_pb *pb, uint32_t field, unsigned room)
{
	gs_pb_tag(pb, field, GS_PB_LENGTH);
	pb->at += room;
	return pb->at;
}

/* A length that did not fit into the room kept for it. */
void gs_pb_close_moved(struct gs_pb *pb, uint8_t *mark, unsigned room);

/* Ends the nested message of this mark, after those within it; all up to pb->at is its content. */
static inline void gs_pb_close(struct gs_pb *pb, uint8_t *mark, unsigned room)
{
	size_t n = (size_t)(pb->at - mark);

	if (room == GS_PB_SMALL && n < 1u << 7) {
		mark[-1] = (uint8_t)n;
	} else if (room == GS_PB_LARGE && n < 1u << 14) {
		mark[-2] = (uint8_t)(n | 0x80);
		mark[-1] = (uint8_t)(n >> 7);
	} else {
		gs_pb_close_moved(pb, mark, room);
	}
}

/* A field of bytes, copied; at most 10 bytes more for tag and length. */
void gs_pb_bytes(struct gs_pb *pb, uint32_t field, const void *data, size_t bytes);

/* A string field: what is not UTF-8 in text is replaced, and no more than max_bytes of it used. */
void gs_pb_text(struct gs_pb *pb, uint32_t field, const char *text, size_t max_bytes);

#endif
