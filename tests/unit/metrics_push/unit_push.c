/* A scrape's text read, and the two messages made of it, looked at field by field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "net/http_client/http_client.h"
#include "output/metrics_push/push_int.h"

/* --- the text --- */

struct seen {
	char text[4096];
	uint64_t bad;
};

static int note(void *ctx, const struct push_sample *s)
{
	struct seen *seen = ctx;
	size_t n = strlen(seen->text);

	n += (size_t)snprintf(seen->text + n, sizeof(seen->text) - n, "%s", s->name);
	for (size_t i = 0; i < s->n_labels; i++)
		n += (size_t)snprintf(seen->text + n, sizeof(seen->text) - n, ",%s=%s",
				      s->label[i].name, s->label[i].value);
	snprintf(seen->text + n, sizeof(seen->text) - n, " %g @%lld %d%s%s;", s->value,
		 (long long)s->time_ms, s->type, s->unit[0] ? " " : "", s->unit);
	return 0;
}

static void parse(const char *text, struct seen *ret_seen)
{
	GS_FREE char *copy = strdup(text);

	memset(ret_seen, 0, sizeof(*ret_seen));
	assert_int_equal(push_parse(copy, strlen(copy), note, ret_seen, &ret_seen->bad), 0);
}

static void texts(void **state)
{
	struct seen s;

	parse("# HELP a_total Something.\n# TYPE a_total "
	      "counter\na_total{x=\"1\",y=\"a\\\"b\\\\c\\nd\"} "
	      "5 1700000000123\n\n# TYPE b gauge\nb -1.5e3\nc{} NaN\n",
	      &s);
	assert_string_equal(s.text,
			    "a_total,x=1,y=a\"b\\c\nd 5 @1700000000123 2;b -1500 @0 1;c nan @0 0;");
	assert_int_equal(s.bad, 0);
	/* OpenMetrics: seconds, units, and the family without _total. */
	parse("# TYPE a_bytes counter\n# UNIT a_bytes bytes\na_bytes_total 7 1700000000.5\n# TYPE "
	      "i "
	      "info\ni_info{v=\"2\"} 1\n# EOF\n",
	      &s);
	assert_string_equal(s.text, "a_bytes_total 7 @1700000000500 2 bytes;i_info,v=2 1 @0 3;");
	assert_int_equal(s.bad, 0);
}

static void bad_lines(void **state)
{
	static const char *const lines[] = {
		"a",        "a ",         "{x=\"1\"} 2",          "1a 2",
		"a{x=1} 2", "a{x=\"1} 2", "a{x\"1\"} 2",          "a b",
		"a 1 x",    "a{x=\"1\"",  "a{x=\"1\" y=\"2\"} 3", "a 1e",
		"a 1 nan",
	};
	struct seen s;

	for (size_t i = 0; i < GS_ARRAY_LEN(lines); i++) {
		char text[256];

		snprintf(text, sizeof(text), "before 1\n%s\nbehind 2\n", lines[i]);
		parse(text, &s);
		if (s.bad != 1 || strcmp(s.text, "before 1 @0 0;behind 2 @0 0;") != 0)
			fail_msg("%s: %s", lines[i], s.text);
	}
	parse("a 1", &s); /* cut off */
	assert_int_equal(s.bad, 1);
	assert_string_equal(s.text, "");
}

/* --- protobuf, read back --- */

struct field {
	uint32_t number, wire;
	uint64_t value; /* varint, or the bits of fixed64 */
	const uint8_t *data;
	size_t bytes;
};

static uint64_t varint(const uint8_t **p, const uint8_t *end)
{
	uint64_t v = 0;

	for (int shift = 0; shift < 70; shift += 7) {
		assert_true(*p < end);
		v |= (uint64_t)(**p & 0x7f) << shift;
		if (!(*(*p)++ & 0x80))
			return v;
	}
	fail_msg("a varint without end");
	return 0;
}

static bool next(const uint8_t **p, const uint8_t *end, struct field *ret)
{
	uint64_t tag;

	if (*p == end)
		return false;
	tag = varint(p, end);
	*ret = (struct field){.number = (uint32_t)(tag >> 3), .wire = tag & 7};
	if (ret->wire == 0) {
		ret->value = varint(p, end);
	} else if (ret->wire == 1) {
		assert_true(end - *p >= 8);
		memcpy(&ret->value, *p, 8);
		*p += 8;
	} else {
		assert_int_equal(ret->wire, 2);
		ret->bytes = varint(p, end);
		assert_true(ret->bytes <= (size_t)(end - *p));
		ret->data = *p;
		*p += ret->bytes;
	}
	return true;
}

/* As text: messages in braces (those whose chain of numbers is in `nested`), strings quoted. */
static void print(const uint8_t *data, size_t bytes, const char *const *nested, const char *chain,
		  char *out, size_t *n)
{
	const uint8_t *p = data, *end = data + bytes;
	struct field f;
	bool first = true;

	while (next(&p, end, &f)) {
		char here[64];
		bool is_nested = false;
		double d;

		*n += (size_t)sprintf(out + *n, "%s%u", first ? "" : " ", f.number);
		first = false;
		if (f.wire == 0) {
			*n += (size_t)sprintf(out + *n, ":%llu", (unsigned long long)f.value);
			continue;
		}
		if (f.wire == 1) {
			memcpy(&d, &f.value, sizeof(d));
			/* A double, or ns since 1970. */
			*n += f.value > 1000000000000000000ull && f.value < 2000000000000000000ull
				      ? (size_t)sprintf(out + *n, ":%llu",
							(unsigned long long)f.value)
				      : (size_t)sprintf(out + *n, ":%g", d);
			continue;
		}
		snprintf(here, sizeof(here), "%s%s%u", chain, chain[0] ? "." : "", f.number);
		for (size_t i = 0; nested[i]; i++)
			is_nested |= strcmp(nested[i], here) == 0;
		out[(*n)++] = is_nested ? '{' : '"';
		if (is_nested)
			print(f.data, f.bytes, nested, here, out, n);
		else
			*n += (size_t)sprintf(out + *n, "%.*s", (int)f.bytes, f.data);
		out[(*n)++] = is_nested ? '}' : '"';
		out[*n] = 0;
	}
}

static const char text[] = "# TYPE gpu_energy_joules counter\n# UNIT gpu_energy_joules joules\n# "
			   "HELP gpu_energy_joules Used.\n"
			   "gpu_energy_joules_total{gpu=\"0\",empty=\"\"} 12.5 1700000000.25\n"
			   "gpu_energy_joules_total{gpu=\"1\",host=\"own\"} 13\n"
			   "# TYPE gpu_util gauge\ngpu_util{gpu=\"0\"} 0.5\n# EOF\n";

static struct gs_push_options options = {.label_name = {"instance", "host", "none"},
					 .label_value = {"n1:14780", "n1", ""},
					 .n_labels = 3};

static void remote_write(void **state)
{
	static const char *const nested[] = {"1", "1.1", "1.2", NULL};
	struct push_message m = {
		.out = GS_BUF_INIT(1 << 20), .options = &options, .now_ms = 1800000000000};
	GS_FREE char *copy = strdup(text);
	char out[16384] = "";
	size_t n = 0;
	uint64_t bad;

	assert_int_equal(push_parse(copy, strlen(copy), push_remote_write_put, &m, &bad), 0);
	assert_int_equal(m.n_samples, 3);
	print(m.out.data, m.out.bytes, nested, "", out, &n);
	assert_string_equal(out, "1{1{1\"__name__\" 2\"gpu_energy_joules_total\"} 1{1\"gpu\" "
				 "2\"0\"} 1{1\"host\" 2\"n1\"} "
				 "1{1\"instance\" 2\"n1:14780\"} 2{1:12.5 2:1700000000250}} "
				 "1{1{1\"__name__\" 2\"gpu_energy_joules_total\"} 1{1\"gpu\" "
				 "2\"1\"} 1{1\"host\" 2\"own\"} "
				 "1{1\"instance\" 2\"n1:14780\"} 2{1:13 2:1800000000000}} "
				 "1{1{1\"__name__\" 2\"gpu_util\"} 1{1\"gpu\" 2\"0\"} 1{1\"host\" "
				 "2\"n1\"} 1{1\"instance\" "
				 "2\"n1:14780\"} 2{1:0.5 2:1800000000000}}");
	gs_buf_fini(&m.out);
}

static void otlp(void **state)
{
	static const char *const nested[] = {
		"1",           "1.1",           "1.1.1",         "1.1.1.2",
		"1.2",         "1.2.1",         "1.2.2",         "1.2.2.5",
		"1.2.2.7",     "1.2.2.5.1",     "1.2.2.7.1",     "1.2.2.5.1.7",
		"1.2.2.7.1.7", "1.2.2.5.1.7.2", "1.2.2.7.1.7.2", NULL};
	struct push_message m = {.out = GS_BUF_INIT(1 << 20),
				 .options = &options,
				 .now_ms = 1800000000000,
				 .start_ms = 1750000000000};
	GS_FREE char *copy = strdup(text);
	char out[16384] = "";
	size_t n = 0;
	uint64_t bad;

	assert_int_equal(push_otlp_begin(&m), 0);
	assert_int_equal(push_parse(copy, strlen(copy), push_otlp_put, &m, &bad), 0);
	assert_int_equal(push_otlp_end(&m), 0);
	assert_int_equal(m.n_samples, 3);
	print(m.out.data, m.out.bytes, nested, "", out, &n);
	/* The metric, with two points of a sum that only grows; and the gauge. */
	assert_non_null(strstr(out, "2{1\"gpu_energy_joules\" 2\"Used.\""));
	assert_non_null(strstr(out,
			       "7{1{2:1750000000000000000 3:1700000000250000000 4:12.5 7{1\"gpu\" "
			       "2{1\"0\"}}} 1{2:1750000000000000000 3:1800000000000000000 4:13 "
			       "7{1\"gpu\" 2{1\"1\"}} 7{1\"host\" 2{1\"own\"}}} 2:2 3:1}"));
	assert_non_null(strstr(out, "2{1\"gpu_util\" 5{1{3:1800000000000000000 4:0.5 7{1\"gpu\" "
				    "2{1\"0\"}}}}}"));
	assert_non_null(strstr(out, "service.name"));
	assert_non_null(strstr(out, "n1:14780"));
	gs_buf_fini(&m.out);
}

/* --- snappy --- */

static void snappy(void **state)
{
	struct gs_buf in = GS_BUF_INIT(1 << 20), out = GS_BUF_INIT(1 << 20);
	const uint8_t *p, *end;
	size_t at = 0;

	for (size_t i = 0; i < 150000; i++) {
		uint8_t byte = (uint8_t)(i * 7 + i / 251);

		assert_int_equal(gs_buf_put(&in, &byte, 1), 0);
	}
	assert_int_equal(push_snappy_plain(&in, &out), 0);
	p = out.data;
	end = p + out.bytes;
	assert_int_equal(varint(&p, end), in.bytes);
	while (p < end) {
		size_t bytes;

		assert_int_equal(p[0], 61 << 2);
		bytes = (size_t)p[1] + ((size_t)p[2] << 8) + 1;
		p += 3;
		assert_true(bytes <= (size_t)(end - p));
		assert_memory_equal(p, in.data + at, bytes);
		at += bytes;
		p += bytes;
	}
	assert_int_equal(at, in.bytes);
	gs_buf_reset(&out);
	assert_int_equal(push_snappy(&in, &out), 0);
	p = out.data;
	assert_int_equal(varint(&p, out.data + out.bytes), in.bytes);
	gs_buf_fini(&in);
	gs_buf_fini(&out);
}

static void urls(void **state)
{
	assert_true(gs_push_url_valid("http://h:8428/api/v1/write"));
	assert_true(gs_push_url_valid("https://[::1]:4318/v1/metrics"));
	assert_false(gs_push_url_valid("ftp://h/"));
	assert_false(gs_push_url_valid("http://"));
	assert_false(gs_push_url_valid("http:///x"));
	assert_false(gs_push_url_valid("http://h/a b"));
	assert_false(gs_push_url_valid("h:80"));
}

/* What may stand in a log of a URL with secrets. */
static void shown(void **state)
{
	static const struct {
		const char *url, *shown, *of_secret;
	} all[] = {
		{"http://h:8428/api/v1/write", "http://h:8428/api/v1/write", "http://h:8428/..."},
		{"https://u:p%40w@h/x?token=t#f", "https://h/x", "https://h/..."},
		{"https://a@b@h", "https://h", "https://h"},
		{"https://h/", "https://h/", "https://h"},
		{"http://[::1]:1?k=v", "http://[::1]:1", "http://[::1]:1/..."},
		{"", "", ""},
	};
	char out[64];

	for (size_t i = 0; i < GS_ARRAY_LEN(all); i++) {
		assert_string_equal(gs_http_client_shown(all[i].url, false, out, sizeof(out)),
				    all[i].shown);
		assert_string_equal(gs_http_client_shown(all[i].url, true, out, sizeof(out)),
				    all[i].of_secret);
	}
}

static void labels(void **state)
{
	struct gs_push_options o = {.label_name = {"job"}, .label_value = {"x"}, .n_labels = 1};
	char given[] = "cluster=alpha, rack=r 3 ,_a1=b/c", many[256] = "", one[400] = "a=";
	static const char *const bad[] = {
		"a",     "=b",         "a=",     "a=b,",  ",a=b",    "a=b,,c=d",
		"1a=b",  "__x=b",      "a b=c",  "a=b=c", "a=\"b\"", "a=b,a=c",
		"job=x", "instance=x", "a=b\nc", "a-b=c", " ",       "a=b, ",
	};

	assert_int_equal(gs_push_labels_add(given, &o), 0);
	assert_int_equal(o.n_labels, 4);
	assert_string_equal(o.label_name[1], "cluster");
	assert_string_equal(o.label_value[1], "alpha");
	assert_string_equal(o.label_name[2], "rack");
	assert_string_equal(o.label_value[2], "r 3");
	assert_string_equal(o.label_name[3], "_a1");
	assert_string_equal(o.label_value[3], "b/c");
	assert_true(gs_push_labels_valid(""));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (gs_push_labels_valid(bad[i]))
			fail_msg("taken: %s", bad[i]);
	/* With job and instance there is room for 14. */
	for (int i = 0; i < 14; i++)
		sprintf(many + strlen(many), "%sl%d=v", i ? "," : "", i);
	assert_true(gs_push_labels_valid(many));
	strcat(many, ",more=v");
	assert_false(gs_push_labels_valid(many));
	memset(one + 2, 'v', 255);
	assert_true(gs_push_labels_valid(one));
	one[257] = 'v';
	assert_false(gs_push_labels_valid(one));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),        cmocka_unit_test(bad_lines),
		cmocka_unit_test(remote_write), cmocka_unit_test(otlp),
		cmocka_unit_test(snappy),       cmocka_unit_test(urls),
		cmocka_unit_test(shown),        cmocka_unit_test(labels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
