/*
 * Values in messages between a holder and its readers: little-endian numbers and texts one after
 * another, without names. Both ends are the same program, so there is no version. What comes from a
 * reader may be written by an attacker who broke into it: taking never reads beyond the end, a text has an
 * end and no other zero, and one that does not fit makes the whole message bad.
 */
#ifndef GS_CORE_READER_WIRE_H
#define GS_CORE_READER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"

/* --- writing: fails for good once something did not fit --- */

struct gs_wire_out {
	struct gs_buf *buf; /* borrowed */
	int r;              /* first error */
};

/* Append bytes as they are, or a number. What did not fit leaves out->r a negative errno and the
 * message without it and all that follows. */
void gs_wire_put(struct gs_wire_out *out, const void *data, size_t bytes);
void gs_wire_put_u8(struct gs_wire_out *out, uint8_t v);
void gs_wire_put_u16(struct gs_wire_out *out, uint16_t v);
void gs_wire_put_u32(struct gs_wire_out *out, uint32_t v);
void gs_wire_put_u64(struct gs_wire_out *out, uint64_t v);
void gs_wire_put_text(struct gs_wire_out *out, const char *text); /* NULL: see take_text */

/* --- taking --- */

struct gs_wire_in {
	uint8_t *at, *end; /* lent */
	bool bad;          /* something was taken that is not there */
};

#define GS_WIRE_IN(data, n)                                                                        \
	((struct gs_wire_in){(data), (n) ? (uint8_t *)(data) + (n) : (uint8_t *)(data), false})

/* 0 of everything when it is bad. */
uint8_t gs_wire_u8(struct gs_wire_in *in);
uint16_t gs_wire_u16(struct gs_wire_in *in);
uint32_t gs_wire_u32(struct gs_wire_in *in);
uint64_t gs_wire_u64(struct gs_wire_in *in);

/* Lent. NULL where NULL was put, and when it is bad. */
const char *gs_wire_text(struct gs_wire_in *in);

/* The same for a person to read: control characters have become '?', in the message itself. */
const char *gs_wire_line(struct gs_wire_in *in);

/* So many bytes, lent; NULL when they are not there. */
const void *gs_wire_bytes(struct gs_wire_in *in, size_t bytes);

/* How many things follow, of which each takes at least so many bytes: what cannot be is bad, so
 * that no memory is reserved for it. */
uint32_t gs_wire_count(struct gs_wire_in *in, size_t least_bytes);

/* True when all was taken and nothing was bad. */
bool gs_wire_is_done(const struct gs_wire_in *in);

#endif
