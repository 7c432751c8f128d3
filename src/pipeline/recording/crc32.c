/*
 * CRC-32, polynomial 0x04c11db7 reflected, as zip, PNG and Ethernet use it. Slicing by eight: table
 * k holds the effect of a byte that k more bytes follow, so that eight bytes need eight look-ups
 * that do not wait for each other.
 */
#include <string.h>

#include "pipeline/recording/recording_int.h"

void gs_recording_crc32_init(struct gs_crc32 *crc)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
		crc->table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			crc->table[k][i] = crc->table[0][crc->table[k - 1][i] & 0xff] ^
					   (crc->table[k - 1][i] >> 8);
}

uint32_t gs_recording_crc32(const struct gs_crc32 *crc, const void *data, size_t bytes)
{
	const uint32_t(*t)[256] = crc->table;
	const uint8_t *p = data;
	uint32_t c = ~0u;

	for (; bytes >= 8; bytes -= 8, p += 8) {
		uint32_t lo, hi;

		memcpy(&lo, p, 4);
		memcpy(&hi, p + 4, 4);
		lo ^= c;
		c = t[7][lo & 0xff] ^ t[6][lo >> 8 & 0xff] ^ t[5][lo >> 16 & 0xff] ^
		    t[4][lo >> 24] ^ t[3][hi & 0xff] ^ t[2][hi >> 8 & 0xff] ^
		    t[1][hi >> 16 & 0xff] ^ t[0][hi >> 24];
	}
	for (; bytes; bytes--, p++)
		c = t[0][(c ^ *p) & 0xff] ^ (c >> 8);
	return ~c;
}
