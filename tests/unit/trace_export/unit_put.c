/* Numbers and texts written by hand, against printf and against the rules of each format. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "output/trace_export/export_int.h"

static char out[65536];

#define expect(end, want)                                                                          \
	do {                                                                                       \
		*(end) = '\0';                                                                     \
		assert_string_equal(out, want);                                                    \
	} while (0)

static void numbers(void **state)
{
	uint64_t v = 1;
	char want[64];

	for (int i = 0; i < 20000; i++) {
		uint64_t n = v >> (i % 64);

		snprintf(want, sizeof(want), "%" PRIu64, n);
		expect(gs_put_u64(out, n), want);
		snprintf(want, sizeof(want), "%" PRId64, (int64_t)n);
		expect(gs_put_i64(out, (int64_t)n), want);
		snprintf(want, sizeof(want), "0x%" PRIx64, n);
		expect(gs_put_hex(out, n), want);
		snprintf(want, sizeof(want), "%" PRIu64 ".%03u", n / 1000, (unsigned)(n % 1000));
		expect(gs_put_us(out, n), want);
		v = v * 6364136223846793005ull + 1442695040888963407ull;
	}
	expect(gs_put_u64(out, UINT64_MAX), "18446744073709551615");
	expect(gs_put_i64(out, INT64_MIN), "-9223372036854775808");
	expect(gs_put_hex(out, 0), "0x0");
	expect(gs_put_dim3(out, 0, UINT32_MAX, 10), "0,4294967295,10");
	expect(gs_put(out, "as it is"), "as it is");
}

/* Nine digits, as printf does; where a tenth decides, the last of them may be one off. What is
 * whole is told whole. */
static void doubles(void **state)
{
	static const double some[] = {0.1,        0.123,        99.95,         1e-4,  5e-5,
				      0.99999999, 0.9999999999, 123456789.25,  -0.25, 2e22,
				      1e300,      5e-324,       9.99999999999, -1.5,  0.5e-300};
	static const double whole[] = {
		0, 1, -1, 1e8, 1e9, 999999999, 1073741824, 85899345920.0, 0x1p53 - 1, -0x1p40};
	uint64_t v = 1;
	char want[64], got[64];

	for (size_t i = 0; i < GS_ARRAY_LEN(some); i++) {
		snprintf(want, sizeof(want), "%.9g", some[i]);
		expect(gs_put_double(out, some[i]), want);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(whole); i++) {
		snprintf(want, sizeof(want), "%.0f", whole[i]);
		expect(gs_put_double(out, whole[i]), want);
	}
	/* What stands before the point is there, however long; a zero has no sign. */
	expect(gs_put_double(out, 1764041234.75), "1764041235");
	expect(gs_put_double(out, -0x1p52 - 1), "-4503599627370497");
	expect(gs_put_double(out, -0.0), "0");
	for (int i = 0; i < 200000; i++) {
		double d = (double)(v >> 11) / (double)(1ull << 53) * pow(10, i % 14 - 4);

		snprintf(want, sizeof(want), "%.9g", d);
		*gs_put_double(got, d) = '\0';
		if (strcmp(got, want) != 0)
			assert_true(fabs(strtod(got, NULL) - strtod(want, NULL)) <=
				    fabs(d) * 1.1e-8);
		assert_true(strlen(got) < GS_PUT_DOUBLE);
		/* What nodes tell has few digits, and those are exact. */
		d = (double)(v % 100000) / 1000;
		snprintf(want, sizeof(want), "%.9g", d);
		expect(gs_put_double(out, d), want);
		v = v * 6364136223846793005ull + 1442695040888963407ull;
	}
}

static void times(void **state)
{
	expect(gs_put_time(out, 1700000000123456789, 9), "2023-11-14T22:13:20.123456789Z");
	expect(gs_put_time(out, 1700000000123456789, 3), "2023-11-14T22:13:20.123Z");
	expect(gs_put_time(out, 1700000000123456789, 0), "2023-11-14T22:13:20Z");
	expect(gs_put_time(out, 1, 9), "1970-01-01T00:00:00.000000001Z");
	expect(gs_put_time(out, INT64_MAX, 9), "2262-04-11T23:47:16.854775807Z");
}

#define BAD "\xef\xbf\xbd"

static const struct {
	const char *text, *utf8, *json, *csv;
} texts[] = {
	{"", "", "\"\"", ""},
	{"plain", "plain", "\"plain\"", "plain"},
	{"a,b", "a,b", "\"a,b\"", "\"a,b\""},
	{"say \"x\"", "say \"x\"", "\"say \\\"x\\\"\"", "\"say \"\"x\"\"\""},
	{"two\nlines\r", "two\nlines\r", "\"two\\nlines\\r\"", "\"two\nlines\r\""},
	{"\t\b\f\\\x01\x1f\x7f", "\t\b\f\\\x01\x1f\x7f", "\"\\t\\b\\f\\\\\\u0001\\u001f\\u007f\"",
	 "'\t" BAD BAD "\\" BAD BAD BAD},
	{"\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x80", "\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x80",
	 "\"\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x80\"", "\xe2\x82\xac\xc3\xa9\xf0\x9f\x98\x80"},
	/* a stray continuation, a byte that never occurs, cut short at the end and in between */
	{"\x80z", BAD "z", "\"" BAD "z\"", BAD "z"},
	{"\xffz", BAD "z", "\"" BAD "z\"", BAD "z"},
	{"z\xc3", "z" BAD, "\"z" BAD "\"", "z" BAD},
	{"\xc3z", BAD "z", "\"" BAD "z\"", BAD "z"},
	{"\xe2\x82z", BAD BAD "z", "\"" BAD BAD "z\"", BAD BAD "z"},
	/* longer than needed, a surrogate, above the last character */
	{"\xc0\xaf", BAD BAD, "\"" BAD BAD "\"", BAD BAD},
	{"\xed\xa0\x80", BAD BAD BAD, "\"" BAD BAD BAD "\"", BAD BAD BAD},
	{"\xf4\x90\x80\x80", BAD BAD BAD BAD, "\"" BAD BAD BAD BAD "\"", BAD BAD BAD BAD},
};

static void foreign_texts(void **state)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
		expect(gs_put_utf8(out, texts[i].text, GS_PUT_MAX), texts[i].utf8);
		expect(gs_put_json(out, texts[i].text, GS_PUT_MAX), texts[i].json);
		expect(gs_put_csv(out, texts[i].text, GS_PUT_MAX), texts[i].csv);
	}
}

/* No more is read than allowed, whatever stands behind it. */
static void cut(void **state)
{
	char raw[4] = {'a', 'b', ',', '"'};

	expect(gs_put_utf8(out, raw, 2), "ab");
	expect(gs_put_json(out, raw, 2), "\"ab\"");
	expect(gs_put_csv(out, raw, 2), "ab");
	expect(gs_put_csv(out, "=1+2", GS_PUT_MAX), "'=1+2");
	expect(gs_put_csv(out, "@a,b", GS_PUT_MAX), "\"'@a,b\"");
	expect(gs_put_csv(out, "-5.5", GS_PUT_MAX), "-5.5");
	expect(gs_put_csv(out, "a\x01\x7f", GS_PUT_MAX), "a" BAD BAD);
	expect(gs_put_json(out, "\xe2\x80\xae\xc2\x9b\xe2\x80\xa8", GS_PUT_MAX),
	       "\"" BAD BAD BAD "\"");
	expect(gs_put_xml(out,
			  "a\xe2\x80\xae"
			  "b",
			  GS_PUT_MAX),
	       "a" BAD "b");
	expect(gs_put_utf8(out, "\xc3\xa9\xd8\x9c", GS_PUT_MAX), "\xc3\xa9" BAD);
	expect(gs_put_csv(out, raw, 3), "\"ab,\"");
	expect(gs_put_utf8(out, "a\xc3\xa9", 2), "a" BAD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),       cmocka_unit_test(doubles), cmocka_unit_test(times),
		cmocka_unit_test(foreign_texts), cmocka_unit_test(cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
