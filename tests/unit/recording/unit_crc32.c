/* CRC-32 against its published check value and against the definition, bit by bit. */
#include "common.h"

static uint32_t bitwise(const uint8_t *p, size_t n)
{
	uint32_t c = ~0u;

	for (size_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? 0xedb88320u ^ (c >> 1) : c >> 1;
	}
	return ~c;
}

static void known_values(void **state)
{
	struct gs_crc32 crc;

	gs_recording_crc32_init(&crc);
	assert_int_equal(gs_recording_crc32(&crc, "123456789", 9), 0xcbf43926u);
	assert_int_equal(gs_recording_crc32(&crc, "", 0), 0);
	assert_int_equal(gs_recording_crc32(&crc, "\0\0\0\0", 4), 0x2144df1cu);
}

static void every_length_and_offset(void **state)
{
	struct gs_crc32 crc;
	uint8_t data[96];

	gs_recording_crc32_init(&crc);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 151 + 7);
	for (size_t at = 0; at < 9; at++)
		for (size_t n = 0; n + at <= sizeof(data); n++)
			assert_int_equal(gs_recording_crc32(&crc, data + at, n),
					 bitwise(data + at, n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values),
		cmocka_unit_test(every_length_and_offset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
