/* Documents member by member: what comes out is JSON, and says what went in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "core/text/doc.h"
#include "core/text/json.h"
#include "core/text/put.h"
#include "core/text/text.h"

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
	assert_int_equal(b.r, -ENOBUFS);
	gs_buf_reset(&b);
	assert_int_equal(b.r, 0);
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

/* Without blanks outside of texts. */
static void pack_json(char *text)
{
	bool quoted = false;
	char *to = text;

	for (const char *p = text; *p; p++) {
		if (*p == '\\' && quoted)
			*to++ = *p++;
		else if (*p == '"')
			quoted = !quoted;
		if (quoted || (*p != ' ' && *p != '\n'))
			*to++ = *p;
	}
	*to = 0;
}

static const double both_numbers[] = {0,     -0.0, 1,        0.1,       1.0 / 3,       2.0 / 3e6,
				      1e-7,  1e22, -2.5,     1e15,      85899345920,   0.1 + 0.2,
				      99.95, NAN,  INFINITY, -INFINITY, 1764041234.75, 0x1p53 - 1};
static const char *const both_texts[] = {
	"",          "plain",        "say \"x\" \\ /",   "\t\b\f\n\r\x01\x1f\x7f",
	"\xff\xc3",  "\xe2\x80\xae", "\xf0\x9f\x98\x80", "\xf0\x9f\xbf\xbe",
	"</script>", "\xc2\x85"};

/* What people read and what programs ask for say the same in the same bytes. */
static void one_spelling(void **state)
{
	char written[8192] = "";
	FILE *out = fmemopen(written, sizeof(written), "w");
	struct gs_pen pen;
	struct gs_doc doc = {.ops = &gs_doc_json, .pen = &pen};
	struct gs_buf b = GS_BUF_INIT(sizeof(written));

	gs_pen_open(&pen, out);
	gs_doc_begin_map(&doc, NULL);
	gs_json_open(&b, NULL, '{');
	gs_doc_begin_list(&doc, "numbers", GS_ARRAY_LEN(both_numbers));
	gs_json_open(&b, "numbers", '[');
	for (size_t i = 0; i < GS_ARRAY_LEN(both_numbers); i++) {
		gs_doc_put_double(&doc, NULL, both_numbers[i]);
		gs_json_double(&b, NULL, both_numbers[i]);
	}
	gs_doc_end(&doc);
	gs_json_close(&b, ']');
	for (size_t i = 0; i < GS_ARRAY_LEN(both_texts); i++) {
		gs_doc_put_word(&doc, both_texts[i], both_texts[i]);
		gs_json_text(&b, both_texts[i], both_texts[i]);
	}
	gs_doc_put_u64(&doc, "most", UINT64_MAX);
	gs_json_u64(&b, "most", UINT64_MAX);
	gs_doc_put_i64_if(&doc, "least", INT64_MIN, true);
	gs_json_i64(&b, "least", INT64_MIN);
	gs_doc_put_bool(&doc, "yes", true);
	gs_json_bool(&b, "yes", true);
	gs_doc_put_null(&doc, "unknown");
	gs_json_null(&b, "unknown");
	gs_doc_put_time(&doc, "never", 0);
	gs_json_time(&b, "never", 0);
	gs_doc_put_spelled(&doc, "spelled", "{}", 2);
	gs_json_spelled(&b, "spelled", "{}", 2);
	gs_doc_end(&doc);
	gs_json_close(&b, '}');
	assert_int_equal(gs_pen_close(&pen), 0);
	fclose(out);
	pack_json(written);
	assert_int_equal(b.r, 0);
	assert_int_equal(gs_buf_put(&b, "", 1), 0);
	assert_string_equal((char *)b.data, written);
	assert_non_null(strstr(written, "[0,0,1,0.1,0.333333333,6.66666667e-07,1e-07,1e+22,-2.5,"
					"1000000000000000,85899345920,0.3,99.95,null,null,null,"
					"1764041235,9007199254740991]"));
	gs_buf_fini(&b);
}

/* Lines of traces are put together without either: the same values, the same bytes; but what steers the
 * text around it does not get into a viewer of traces at all, not even escaped. */
static void lines_of_traces(void **state)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(both_texts); i++) {
		const char *text = both_texts[i];
		struct gs_buf b = GS_BUF_INIT(4096);
		char line[512];
		size_t bytes = (size_t)(gs_put_json(line, text, GS_PUT_MAX) - line), n;

		if ((unsigned char)*text >= 0x80 && gs_text_is_steering(gs_text_decode(text, &n)))
			text = "\xef\xbf\xbd";
		gs_json_text(&b, NULL, text);
		assert_int_equal(b.bytes, bytes);
		assert_memory_equal(b.data, line, bytes);
		gs_buf_fini(&b);
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(both_numbers); i++) {
		struct gs_buf b = GS_BUF_INIT(4096);
		char line[GS_PUT_DOUBLE];
		size_t bytes;

		if (!isfinite(both_numbers[i])) /* of which a trace has no line */
			continue;
		bytes = (size_t)(gs_put_double(line, both_numbers[i]) - line);
		gs_json_double(&b, NULL, both_numbers[i]);
		assert_int_equal(b.bytes, bytes);
		assert_memory_equal(b.data, line, bytes);
		gs_buf_fini(&b);
	}
	for (int i = 0; i < 64; i++) {
		struct gs_buf b = GS_BUF_INIT(4096);
		char line[64];
		uint64_t v = UINT64_MAX >> i;

		gs_json_u64(&b, NULL, v);
		gs_json_i64(&b, NULL, (int64_t)v);
		*gs_put_i64(gs_put(gs_put_u64(line, v), ","), (int64_t)v) = '\0';
		assert_int_equal(b.bytes, strlen(line));
		assert_memory_equal(b.data, line, b.bytes);
		gs_buf_fini(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_spelling),   cmocka_unit_test(a_document),
		cmocka_unit_test(numbers),        cmocka_unit_test(no_more_room),
		cmocka_unit_test(flat_documents), cmocka_unit_test(lines_of_traces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
