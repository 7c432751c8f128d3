/*
 * A block of LZ4 (lz4_Block_format.md of the lz4 project): sequences of a token, literals, and a copy of
 * what was written before. Forty lines instead of a library of which nothing else would be used.
 */
#include <errno.h>
#include <string.h>

#include "sources/cubin/cubin.h"

#define MIN_MATCH 4

struct input {
	const uint8_t *at, *end;
};

/* A length of 15 in the token goes on in bytes, until one is not 255. */
static bool lz4_take_length(struct input *in, size_t *length)
{
	uint8_t more;

	if (*length != 15)
		return true;
	do {
		if (in->at == in->end)
			return false;
		more = *in->at++;
		*length += more;
	} while (more == 255);
	return true;
}

/* Copies what may overlap with where it goes: then it repeats. */
static void lz4_copy_match(uint8_t *to, size_t distance, size_t length)
{
	const uint8_t *from = to - distance;

	if (distance >= length) {
		memcpy(to, from, length);
		return;
	}
	for (size_t i = 0; i < length; i++)
		to[i] = from[i];
}

long gs_lz4_unpack(const void *from, size_t from_bytes, void *to, size_t to_bytes)
{
	struct input in = {from, (const uint8_t *)from + from_bytes};
	uint8_t *out = to, *end = out + to_bytes;

	while (in.at < in.end) {
		uint8_t token = *in.at++;
		size_t literals = token >> 4, match = token & 15, distance;

		if (!lz4_take_length(&in, &literals) || literals > (size_t)(in.end - in.at) ||
		    literals > (size_t)(end - out))
			return -EBADMSG;
		memcpy(out, in.at, literals);
		out += literals;
		in.at += literals;
		if (in.at == in.end) /* the last sequence has literals alone */
			return out - (uint8_t *)to;
		if (in.end - in.at < 2)
			return -EBADMSG;
		distance = in.at[0] | (size_t)in.at[1] << 8;
		in.at += 2;
		if (!lz4_take_length(&in, &match))
			return -EBADMSG;
		match += MIN_MATCH;
		if (!distance || distance > (size_t)(out - (uint8_t *)to) ||
		    match > (size_t)(end - out))
			return -EBADMSG;
		lz4_copy_match(out, distance, match);
		out += match;
	}
	return out - (uint8_t *)to;
}
