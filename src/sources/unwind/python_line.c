/*
 * Line tables of code objects. Three forms, each as its version's interpreter reads it
 * (Objects/codeobject.c: PyCode_Addr2Line and what it calls):
 *
 *   3.8, 3.9   co_lnotab: pairs of bytes, how far the next place is and how far its line (signed);
 *              a place counts for all instructions up to the next
 *   3.10       co_linetable: pairs, length of a range and how far its line is (signed, -128: the
 *              range has no line)
 *   3.11 on    co_linetable: entries that begin with a byte of 0x80 | code << 3 | (units - 1), a
 *              unit being two bytes of code; the code says how the line is written
 */
#include "sources/unwind/python.h"

#include <stdbool.h>

#define MAX_LINE (1 << 28) /* a file of that many lines has a damaged table */

static uint32_t check_line(int64_t line)
{
	return line > 0 && line < MAX_LINE ? (uint32_t)line : 0;
}

static uint32_t line_by_lnotab(const uint8_t *t, size_t bytes, int32_t first, int64_t at)
{
	int64_t line = first, place = 0;

	for (size_t i = 0; i + 1 < bytes; i += 2) {
		place += t[i];
		if (place > at)
			break;
		line += (int8_t)t[i + 1];
	}
	return check_line(line);
}

static uint32_t line_by_ranges(const uint8_t *t, size_t bytes, int32_t first, int64_t at)
{
	int64_t line = first, end = 0;

	for (size_t i = 0; i + 1 < bytes; i += 2) {
		int8_t delta = (int8_t)t[i + 1];

		if (delta != -128)
			line += delta;
		end += t[i];
		if (at < end)
			return delta == -128 ? 0 : check_line(line);
	}
	return 0;
}

/* A number in bytes of six bits, the lowest first, 0x40 saying that more follow. */
static bool read_varint(const uint8_t *t, size_t bytes, size_t *i, uint64_t *ret)
{
	uint64_t v = 0;

	for (unsigned shift = 0; *i < bytes && shift < 36; shift += 6) {
		uint8_t b = t[(*i)++];

		v |= (uint64_t)(b & 63) << shift;
		if (!(b & 64)) {
			*ret = v;
			return true;
		}
	}
	return false;
}

enum {
	LOC_ONE_LINE_0 = 10,
	LOC_ONE_LINE_2 = 12,
	LOC_NO_COLUMNS = 13,
	LOC_LONG = 14,
	LOC_NONE = 15
};

static uint32_t line_by_locations(const uint8_t *t, size_t bytes, int32_t first, int64_t at)
{
	int64_t line = first, end = 0;
	size_t i = 0;

	while (i < bytes) {
		uint8_t head = t[i++], code = head >> 3 & 15;
		uint64_t v;

		if (!(head & 0x80))
			return 0;
		if (code >= LOC_ONE_LINE_0 && code <= LOC_ONE_LINE_2) {
			line += code - LOC_ONE_LINE_0;
		} else if (code == LOC_NO_COLUMNS || code == LOC_LONG) {
			if (!read_varint(t, bytes, &i, &v))
				return 0;
			line += v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
		}
		end += ((head & 7) + 1) * 2;
		if (at < end)
			return code == LOC_NONE ? 0 : check_line(line);
		while (i < bytes && !(t[i] & 0x80))
			i++;
	}
	return 0;
}

uint32_t gs_python_line(uint16_t version, const uint8_t *table, size_t table_bytes, int32_t first,
			int64_t at_bytes)
{
	/* A frame that has not begun is on its first line. */
	if (at_bytes < 0)
		return check_line(first);
	if (version < 0x030a)
		return line_by_lnotab(table, table_bytes, first, at_bytes);
	if (version == 0x030a)
		return line_by_ranges(table, table_bytes, first, at_bytes);
	return line_by_locations(table, table_bytes, first, at_bytes);
}
