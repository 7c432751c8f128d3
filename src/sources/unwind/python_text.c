/* A str's characters as UTF-8. */
#include "sources/unwind/python.h"

#include <string.h>

static uint32_t char_at(const uint8_t *p, unsigned char_bytes)
{
	uint32_t c = p[0];

	if (char_bytes >= 2)
		c |= (uint32_t)p[1] << 8;
	if (char_bytes == 4)
		c |= (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	return c;
}

/* 1 to 4 bytes. */
static size_t encode_char(uint32_t c, char out[4])
{
	if (c < 0x20 || c == 0x7f) {
		out[0] = '?';
		return 1;
	}
	if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		c = 0xfffd;
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

size_t gs_python_text(const void *data, size_t bytes, unsigned char_bytes, char *out,
		      size_t out_bytes)
{
	const uint8_t *p = data;
	size_t n = 0;

	if (out_bytes == 0)
		return 0;
	if (char_bytes != 1 && char_bytes != 2 && char_bytes != 4)
		bytes = 0;
	for (; bytes >= char_bytes && bytes; p += char_bytes, bytes -= char_bytes) {
		char one[4];
		size_t k = encode_char(char_at(p, char_bytes), one);

		if (n + k >= out_bytes)
			break;
		memcpy(out + n, one, k);
		n += k;
	}
	out[n] = 0;
	return n;
}
