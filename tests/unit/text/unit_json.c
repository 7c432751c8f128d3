/* Documents member by member: what comes out is JSON, and says what went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/text/doc.h"
#include "core/text/json.h"

static void a_document(void **state)
{
	struct gs_buf b = GS_BUF_INIT(4096);

	gs_json_open(&b, NULL, '{');
	gs_json_text(&b, "a \"b\"\n", "\xff\x01é");
	gs_json_open(&b, "list", '[');
	gs_json_i64(&b, NULL, INT64_MIN);
	gs_json_u64(&b, NULL, UINT64_MAX);
	gs_json_bool(&b, NULL, true);
	gs_json_null(&b, NULL);
	gs_json_open(&b, NULL, '{');
	gs_json_close(&b, '}');
	gs_json_close(&b, ']');
	gs_json_time(&b, "at", 1700000000123456789);
	gs_json_time(&b, "never", 0);
	gs_json_close(&b, '}');
	assert_int_equal(gs_buf_put(&b, "", 1), 0);
	assert_string_equal((char *)b.data,
			    "{\"a \\\"b\\\"\\n\":\"\xef\xbf\xbd\\u0001é\","
			    "\"list\":[-9223372036854775808,18446744073709551615,true,null,{}],"
			    "\"at\":\"2023-11-14T22:13:20.123Z\",\"never\":null}");
	gs_buf_fini(&b);
}

/* Bytes are exact as far as a double is, shares to nine digits, and what is no number is null. */
static void numbers(void **state)
{
	static const double v[] = {0,    -0.0, 1,     -1,   0.1,        1.0 / 3,     1e-7,
				   1e15, 1e22, 1e300, -2.5, 1073741824, 85899345920, 123456789.25};
	struct gs_buf b = GS_BUF_INIT(4096);
	json_error_t e;
	json_t *list;

	gs_json_open(&b, NULL, '[');
	for (size_t i = 0; i < GS_ARRAY_LEN(v); i++)
		gs_json_double(&b, NULL, v[i]);
	gs_json_double(&b, NULL, NAN);
	gs_json_double(&b, NULL, -INFINITY);
	gs_json_close(&b, ']');
	list = json_loadb((char *)b.data, b.bytes, 0, &e);
	assert_non_null(list);
	for (size_t i = 0; i < GS_ARRAY_LEN(v); i++) {
		double got = json_number_value(json_array_get(list, i));

		if (v[i] == trunc(v[i]) && fabs(v[i]) < 1e15)
			assert_true(got == v[i]);
		assert_true(fabs(got - v[i]) <= fabs(v[i]) * 1e-8);
	}
	assert_true(json_is_null(json_array_get(list, GS_ARRAY_LEN(v))));
	assert_true(json_is_null(json_array_get(list, GS_ARRAY_LEN(v) + 1)));
	json_decref(list);
	gs_buf_fini(&b);
}

/* At its end the buffer stays as large as it may be, and nothing is written beyond. */
static void no_more_room(void **state)
{
	struct gs_buf b = GS_BUF_INIT(64);

	gs_json_open(&b, NULL, '{');
	for (int i = 0; i < 100; i++) {
		gs_json_text(&b, "key", "a text of some length");
		gs_json_double(&b, "number", i / 7.0);
	}
	gs_json_close(&b, '}');
	assert_true(b.bytes <= 64);
	gs_buf_fini(&b);
}

/* Flat things are one line with all that is in them; texts of any length are whole. */
static void flat_documents(void **state)
{
	char written[2048] = "", text[301], wanted[2048];
	FILE *out = fmemopen(written, sizeof(written), "w");
	struct gs_pen pen;
	struct gs_doc doc = {.ops = &gs_doc_json, .pen = &pen};

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	gs_pen_open(&pen, out);
	gs_doc_begin_map(&doc, NULL);
	gs_doc_begin_list(&doc, "rows", 2);
	for (uint64_t i = 0; i < 2; i++) {
		gs_doc_begin_flat(&doc, NULL);
		gs_doc_put_u64(&doc, "n", i);
		gs_doc_begin_flat_list(&doc, "of");
		gs_doc_put_word(&doc, NULL, "");
		gs_doc_put_spelled(&doc, NULL, "2.50", 4);
		gs_doc_begin_flat(&doc, NULL);
		gs_doc_end(&doc);
		gs_doc_end(&doc);
		gs_doc_put_spelled(&doc, NULL, "\"own\":1", 7);
		gs_doc_end(&doc);
	}
	gs_doc_end(&doc);
	gs_doc_end(&doc);
	gs_pen_printf(&pen, "%s%d", text, 7);
	assert_int_equal(gs_pen_close(&pen), 0);
	fclose(out);
	sprintf(wanted,
		"{\n  \"rows\": [\n"
		"    {\"n\": 0, \"of\": [\"\", 2.50, {}], \"own\":1},\n"
		"    {\"n\": 1, \"of\": [\"\", 2.50, {}], \"own\":1}\n  ]\n}%s7",
		text);
	assert_string_equal(written, wanted);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_document),
		cmocka_unit_test(numbers),
		cmocka_unit_test(no_more_room),
		cmocka_unit_test(flat_documents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
