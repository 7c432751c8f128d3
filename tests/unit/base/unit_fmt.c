#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/fmt.h"
#include "core/base/mem.h"

struct value {
	uint64_t in;
	const char *out;
};

static void check(const char *(*fmt)(char *, uint64_t), const struct value *v, size_t n)
{
	char out[GS_FMT_BYTES];

	for (size_t i = 0; i < n; i++) {
		assert_ptr_equal(fmt(out, v[i].in), out);
		assert_string_equal(out, v[i].out);
	}
}

static void times(void **state)
{
	static const struct value v[] = {
		{0, "0 ns"},
		{999, "999 ns"},
		{1000, "1.00 us"},
		{9994, "9.99 us"},
		{9995, "10.0 us"},
		{99949, "99.9 us"},
		{99951, "100 us"},
		{999499, "999 us"},
		{999500, "1.00 ms"},
		{12300000, "12.3 ms"},
		{999500000, "1.00 s"},
		{7890000000, "7.89 s"},
		{119900000000, "120 s"},
		{120000000000, "2m 00s"},
		{723000000000, "12m 03s"},
		{7199999999999, "119m 59s"},
		{7200000000000, "2h 00m"},
		{11100000000000, "3h 05m"},
		{UINT64_MAX, "5124095h 34m"},
	};

	check(gs_fmt_ns, v, GS_ARRAY_LEN(v));
}

static void sizes(void **state)
{
	static const struct value v[] = {
		{0, "0 B"},
		{512, "512 B"},
		{1023, "1023 B"},
		{1024, "1.00 KiB"},
		{1536, "1.50 KiB"},
		{1023 * 1024, "1023 KiB"},
		{1024 * 1024 - 1, "1.00 MiB"},
		{25125558682, "23.4 GiB"},
		{1ull << 40, "1.00 TiB"},
		{1ull << 50, "1.00 PiB"},
		{1ull << 60, "1.00 EiB"},
		{UINT64_MAX, "16.0 EiB"},
	};

	check(gs_fmt_bytes, v, GS_ARRAY_LEN(v));
}

static void counts(void **state)
{
	static const struct value v[] = {
		{0, "0"},
		{999, "999"},
		{1000, "1,000"},
		{123456, "123,456"},
		{1234567, "1,234,567"},
		{UINT64_MAX, "18,446,744,073,709,551,615"},
	};

	check(gs_fmt_count, v, GS_ARRAY_LEN(v));
}

static void rates(void **state)
{
	const uint64_t s = 1000000000;
	char out[GS_FMT_BYTES];

	assert_string_equal(gs_fmt_bps(out, 5, 0), "-");
	assert_string_equal(gs_fmt_bps(out, 0, 5), "-");
	assert_string_equal(gs_fmt_bps(out, 1536, s), "1.50 KiB/s");
	assert_string_equal(gs_fmt_bps(out, 1ull << 30, s / 2), "2.00 GiB/s");
	assert_string_equal(gs_fmt_bps(out, UINT64_MAX, 1), "16.0 EiB/s");
	assert_string_equal(gs_fmt_rate(out, 5, 0), "-");
	assert_string_equal(gs_fmt_rate(out, 0, s), "0.00/s");
	assert_string_equal(gs_fmt_rate(out, 17, s), "17.0/s");
	assert_string_equal(gs_fmt_rate(out, 49, 2 * s), "24.5/s");
	assert_string_equal(gs_fmt_rate(out, 24500, s), "24.5k/s");
	assert_string_equal(gs_fmt_rate(out, 999500, s), "1.00M/s");
	assert_true(strlen(gs_fmt_rate(out, UINT64_MAX, 1)) < GS_FMT_BYTES);
}

static void parses_times(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{"10", 10000000},       {"0", 0},
		{"10ns", 10},           {"10us", 10000},
		{"10\xc2\xb5s", 10000}, {"1.5ms", 1500000},
		{"2s", 2000000000},     {"2 s", 2000000000},
		{"3m", 180000000000},   {"3min", 180000000000},
		{"1h", 3600000000000},  {"0.4ns", 0},
	};
	static const char *const bad[] = {"",       " ",          "s",      "-1",  "-1s",
					  "1x",     "1s2",        "nan",    "inf", "1e400",
					  "9e18ns", "300000000h", "10 s s", "1,5s"};
	uint64_t ns;

	for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
		ns = 1;
		assert_int_equal(gs_parse_ns(good[i].text, 1000000, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		ns = 77;
		if (gs_parse_ns(bad[i], 1000000, &ns) != -EINVAL)
			fail_msg("\"%s\" was read as a time", bad[i]);
		assert_int_equal(ns, 77);
	}
}

static void parses_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"10", 10},
		{"64K", 65536},
		{"64k", 65536},
		{"64KB", 65536},
		{"64KiB", 65536},
		{"1.5M", 1572864},
		{"1MB", 1048576},
		{"1MiB", 1048576},
		{"2G", 2147483648},
		{"2GB", 2147483648},
		{"2GiB", 2147483648},
		{"3T", 3298534883328},
		{"3TB", 3298534883328},
		{"3TiB", 3298534883328},
		{"7B", 7},
	};
	static const char *const bad[] = {"", "K", "-1K", "1X", "9000000T", "1K1", "nan"};
	uint64_t bytes;

	for (size_t i = 0; i < GS_ARRAY_LEN(good); i++) {
		assert_int_equal(gs_parse_bytes(good[i].text, &bytes), 0);
		assert_int_equal(bytes, good[i].bytes);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		assert_int_equal(gs_parse_bytes(bad[i], &bytes), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times),        cmocka_unit_test(sizes),
		cmocka_unit_test(counts),       cmocka_unit_test(rates),
		cmocka_unit_test(parses_times), cmocka_unit_test(parses_sizes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
