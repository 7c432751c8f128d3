#include "core/reader/wire.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define NO_TEXT UINT32_MAX

void gs_wire_put(struct gs_wire_out *out, const void *data, size_t bytes)
{
	if (out->r == 0 && bytes)
		out->r = gs_buf_put(out->buf, data, bytes);
}

void gs_wire_put_u8(struct gs_wire_out *out, uint8_t v)
{
	gs_wire_put(out, &v, sizeof(v));
}

void gs_wire_put_u16(struct gs_wire_out *out, uint16_t v)
{
	v = htole16(v);
	gs_wire_put(out, &v, sizeof(v));
}

void gs_wire_put_u32(struct gs_wire_out *out, uint32_t v)
{
	v = htole32(v);
	gs_wire_put(out, &v, sizeof(v));
}

void gs_wire_put_u64(struct gs_wire_out *out, uint64_t v)
{
	v = htole64(v);
	gs_wire_put(out, &v, sizeof(v));
}

void gs_wire_put_text(struct gs_wire_out *out, const char *text)
{
	size_t bytes = text ? strlen(text) + 1 : 0;

	if (bytes >= NO_TEXT)
		out->r = -ENOBUFS;
	gs_wire_put_u32(out, text ? (uint32_t)bytes : NO_TEXT);
	gs_wire_put(out, text, bytes);
}

const void *gs_wire_bytes(struct gs_wire_in *in, size_t bytes)
{
	const void *at = in->at;

	if (in->bad || bytes > (size_t)(in->end - in->at)) {
		in->bad = true;
		return NULL;
	}
	in->at += bytes;
	return at;
}

static void take_bytes(struct gs_wire_in *in, void *to, size_t bytes)
{
	const void *from = gs_wire_bytes(in, bytes);

	if (from)
		memcpy(to, from, bytes);
}

uint8_t gs_wire_u8(struct gs_wire_in *in)
{
	uint8_t v = 0;

	take_bytes(in, &v, sizeof(v));
	return v;
}

uint16_t gs_wire_u16(struct gs_wire_in *in)
{
	uint16_t v = 0;

	take_bytes(in, &v, sizeof(v));
	return le16toh(v);
}

uint32_t gs_wire_u32(struct gs_wire_in *in)
{
	uint32_t v = 0;

	take_bytes(in, &v, sizeof(v));
	return le32toh(v);
}

uint64_t gs_wire_u64(struct gs_wire_in *in)
{
	uint64_t v = 0;

	take_bytes(in, &v, sizeof(v));
	return le64toh(v);
}

const char *gs_wire_text(struct gs_wire_in *in)
{
	uint32_t bytes = gs_wire_u32(in);
	const char *text;

	if (in->bad || bytes == NO_TEXT)
		return NULL;
	text = gs_wire_bytes(in, bytes);
	if (text && (!bytes || memchr(text, 0, bytes) != text + bytes - 1)) {
		in->bad = true;
		return NULL;
	}
	return text;
}

const char *gs_wire_line(struct gs_wire_in *in)
{
	const char *text = gs_wire_text(in);

	/* The text is the last that was taken. */
	for (uint8_t *c = text ? in->at - strlen(text) - 1 : in->at; text && *c; c++)
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
	return text;
}

uint32_t gs_wire_count(struct gs_wire_in *in, size_t least_bytes)
{
	uint32_t n = gs_wire_u32(in);

	if (n > (size_t)(in->end - in->at) / least_bytes)
		in->bad = true;
	return in->bad ? 0 : n;
}

bool gs_wire_is_done(const struct gs_wire_in *in)
{
	return !in->bad && in->at == in->end;
}
