/* The two messages, looked at field by field, and beside the text: the same families, the same figures. */
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
#include "net/http_client/http_client_int.h"
#include "output/metrics_push/push_int.h"

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

static void put_some(struct gs_metrics *p)
{
	const struct gs_metrics_label first[] = {{"gpu", "0"}, {"empty", ""}};
	const struct gs_metrics_label second[] = {{"gpu", "1"}, {"host", "own"}};

	gs_metrics_family(p, "gpu_energy_joules", GS_METRICS_COUNTER, "joules", "Used.");
	gs_metrics_line(p, "", first, 2, 12.5, 1700000000250);
	gs_metrics_line(p, "", second, 2, 13, 0);
	gs_metrics_family(p, "gpu_none", GS_METRICS_GAUGE, "", "No GPU has it.");
	gs_metrics_line(p, "", NULL, 0, NAN, 0);
	gs_metrics_family(p, "gpu_util", GS_METRICS_GAUGE, "", "");
	gs_metrics_line(p, "", first, 1, 0.5, 0);
}

static struct gs_push_options options = {.label_name = {"instance", "host", "none"},
					 .label_value = {"n1:14780", "n1", ""},
					 .n_labels = 3};

static void remote_write(void **state)
{
	static const char *const nested[] = {"1", "1.1", "1.2", NULL};
	struct push_message m = {
		.out = GS_BUF_INIT(1 << 20), .options = &options, .now_ms = 1800000000000};
	struct gs_metrics p;
	char out[16384] = "";
	size_t n = 0;

	gs_metrics_init_put(&p, push_remote_write_put, &m);
	put_some(&p);
	assert_int_equal(gs_metrics_end(&p), 0);
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
	struct gs_metrics p;
	char out[16384] = "";
	size_t n = 0;

	assert_int_equal(push_otlp_begin(&m), 0);
	gs_metrics_init_put(&p, push_otlp_put, &m);
	put_some(&p);
	assert_int_equal(gs_metrics_end(&p), 0);
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

/* --- three writers, the same figures --- */

/* Each makes lines of the same form: name, labels sorted by name, the bits of the value, ms. */
struct lines {
	char line[2048][768];
	size_t n;
};

struct a_line {
	char name[GS_METRICS_NAME_BYTES];
	char label[GS_METRICS_LABELS_MAX][256];
	size_t n_labels;
	double value;
	uint64_t time_ms;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void note_line(struct lines *all, struct a_line *l)
{
	char *out = all->line[all->n];
	size_t room = sizeof(all->line[0]), n;
	uint64_t bits;

	assert_true(all->n++ < GS_ARRAY_LEN(all->line));
	memcpy(&bits, &l->value, sizeof(bits));
	qsort(l->label, l->n_labels, sizeof(l->label[0]), by_text);
	n = (size_t)snprintf(out, room, "%s", l->name);
	for (size_t i = 0; i < l->n_labels; i++)
		n += (size_t)snprintf(out + n, room - n, "|%s", l->label[i]);
	n += (size_t)snprintf(out + n, room - n, " %016llx %llu", (unsigned long long)bits,
			      (unsigned long long)l->time_ms);
	assert_true(n < room);
}

static void note_label(struct a_line *l, const char *name, size_t name_bytes, const char *value,
		       size_t value_bytes)
{
	assert_true(l->n_labels < GS_METRICS_LABELS_MAX && name_bytes + value_bytes + 2 < 256);
	sprintf(l->label[l->n_labels++], "%.*s=%.*s", (int)name_bytes, name, (int)value_bytes,
		value);
}

/* A label's value, which begins at `at`; returns what stands after its closing quote. */
static char *read_quoted(char *at, char *out)
{
	for (; *at != '"'; at++) {
		char c = *at;

		assert_true(c);
		if (c == '\\')
			c = *++at == 'n' ? '\n' : *at;
		*out++ = c;
	}
	*out = 0;
	return at + 1;
}

static void lines_of_text(struct gs_buf *text, int64_t now_ms, struct lines *ret)
{
	char *save;

	assert_int_equal(gs_buf_put(text, "", 1), 0);
	for (char *at = strtok_r((char *)text->data, "\n", &save); at;
	     at = strtok_r(NULL, "\n", &save)) {
		struct a_line l = {.time_ms = (uint64_t)now_ms};
		size_t n = strcspn(at, "{ ");

		if (*at == '#')
			continue;
		sprintf(l.name, "%.*s", (int)n, at);
		at += n;
		while (*at == '{' || *at == ',') {
			char value[256], *name = ++at;
			size_t bytes = strcspn(name, "=");

			at = read_quoted(name + bytes + 2, value);
			note_label(&l, name, bytes, value, strlen(value));
		}
		at += *at == '}';
		l.value = strtod(at, &at);
		if (*at == ' ')
			l.time_ms = strtoull(at, NULL, 10);
		note_line(ret, &l);
	}
}

static void line_of_series(const struct field *series, struct lines *ret)
{
	const uint8_t *p = series->data, *end = p + series->bytes;
	struct a_line l = {.n_labels = 0};
	struct field f, one, two;

	while (next(&p, end, &f)) {
		const uint8_t *q = f.data, *q_end = q + f.bytes;

		assert_true(next(&q, q_end, &one) && next(&q, q_end, &two));
		if (f.number == 2) {
			memcpy(&l.value, &one.value, sizeof(l.value));
			l.time_ms = two.value;
		} else if (memcmp(one.data, "__name__", 8) == 0) {
			sprintf(l.name, "%.*s", (int)two.bytes, two.data);
		} else {
			note_label(&l, (const char *)one.data, one.bytes, (const char *)two.data,
				   two.bytes);
		}
	}
	note_line(ret, &l);
}

static void lines_of_remote_write(const struct gs_buf *message, struct lines *ret)
{
	const uint8_t *p = message->data, *end = p + message->bytes;
	struct field series;

	while (next(&p, end, &series))
		line_of_series(&series, ret);
}

/* The nth field of this number; false: there is none. */
static bool field_at(const struct field *of, uint32_t number, unsigned nth, struct field *ret)
{
	const uint8_t *p = of->data, *end = p + of->bytes;

	while (next(&p, end, ret))
		if (ret->number == number && nth-- == 0)
			return true;
	return false;
}

static void line_of_point(const struct field *point, const struct a_line *metric, struct lines *ret)
{
	struct a_line l = *metric;
	struct field f, name, any, value;

	assert_true(field_at(point, 3, 0, &f));
	l.time_ms = f.value / 1000000;
	assert_true(field_at(point, 4, 0, &f));
	memcpy(&l.value, &f.value, sizeof(l.value));
	for (unsigned i = 0; field_at(point, 7, i, &f); i++) {
		assert_true(field_at(&f, 1, 0, &name) && field_at(&f, 2, 0, &any) &&
			    field_at(&any, 1, 0, &value));
		note_label(&l, (const char *)name.data, name.bytes, (const char *)value.data,
			   value.bytes);
	}
	note_line(ret, &l);
}

static void lines_of_otlp(const struct gs_buf *message, struct lines *ret)
{
	struct field all = {.data = message->data, .bytes = message->bytes}, r, s, metric, f, data;

	assert_true(field_at(&all, 1, 0, &r) && field_at(&r, 2, 0, &s));
	for (unsigned i = 0; field_at(&s, 2, i, &metric); i++) {
		struct a_line l = {.n_labels = 0};
		bool is_sum = field_at(&metric, 7, 0, &data);

		assert_true(is_sum || field_at(&metric, 5, 0, &data));
		assert_true(field_at(&metric, 1, 0, &f));
		/* Counters lose "_total" in OTLP; DCGM's never had it. */
		sprintf(l.name, "%.*s%s", (int)f.bytes, f.data,
			is_sum && memcmp(f.data, "DCGM", 4) != 0 ? "_total" : "");
		for (unsigned k = 0; field_at(&data, 1, k, &f); k++)
			line_of_point(&f, &l, ret);
	}
}

static void put_all(struct gs_metrics *p)
{
	static struct gs_gpu_info info[2];
	static struct gs_gpu_sample sample[2];
	const struct gs_metrics_label site[] = {{"site", "a\"b\\c\nd\xff\x01\xc3\xa4"}};
	const struct gs_gpu_snapshot snapshot = {
		.info = info, .sample = sample, .n_gpus = 2, .wall_ns = 1700000000123456789};
	struct gs_metrics_gpu_options o = {.size = sizeof(o),
					   .links = true,
					   .processes = true,
					   .timestamps = true,
					   .labels = site,
					   .n_labels = 1};
	unsigned dropped;

	for (unsigned i = 0; i < 2; i++) {
		info[i].index = i;
		info[i].vendor = GS_GPU_VENDOR_NVIDIA;
		snprintf(info[i].uuid, sizeof(info[i].uuid), "GPU-%u", i);
		strcpy(info[i].name, "Board \"X\"\\");
		for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
			gs_gpu_set(&sample[i], f, f / 3.0 + i * 1e13);
	}
	gs_metrics_gpu(p, &snapshot, NULL, 0, &o, &dropped);
	o.names = GS_METRICS_DCGM;
	gs_metrics_gpu(p, &snapshot, NULL, 0, &o, &dropped);
	put_some(p);
}

static void same_figures(void **state)
{
	static struct lines of[3];
	static struct gs_push_options none;
	struct push_message m = {
		.out = GS_BUF_INIT(4 << 20), .options = &none, .now_ms = 1800000000000};
	struct gs_buf text = GS_BUF_INIT(4 << 20);
	struct gs_metrics p;

	gs_metrics_init(&p, &text, false);
	put_all(&p);
	assert_int_equal(gs_metrics_end(&p), 0);
	lines_of_text(&text, m.now_ms, &of[0]);
	gs_metrics_init_put(&p, push_remote_write_put, &m);
	put_all(&p);
	assert_int_equal(gs_metrics_end(&p), 0);
	lines_of_remote_write(&m.out, &of[1]);
	gs_buf_reset(&m.out);
	assert_int_equal(push_otlp_begin(&m), 0);
	gs_metrics_init_put(&p, push_otlp_put, &m);
	put_all(&p);
	assert_int_equal(gs_metrics_end(&p), 0);
	assert_int_equal(push_otlp_end(&m), 0);
	lines_of_otlp(&m.out, &of[2]);
	assert_true(of[0].n > 2 * GS_GPU_FIELD_COUNT);
	for (int w = 1; w < 3; w++) {
		assert_int_equal(of[w].n, of[0].n);
		for (size_t i = 0; i < of[0].n; i++)
			assert_string_equal(of[w].line[i], of[0].line[i]);
	}
	gs_buf_fini(&m.out);
	gs_buf_fini(&text);
}

/* What does not fit is an error, and never cut. */
static void too_much(void **state)
{
	struct gs_metrics_label many[GS_METRICS_LABELS_MAX + 1];
	char name[GS_METRICS_NAME_BYTES + 1];
	struct push_message m = {.out = GS_BUF_INIT(1 << 20), .options = &options};
	struct gs_metrics p;

	for (size_t i = 0; i < GS_ARRAY_LEN(many); i++)
		many[i] = (struct gs_metrics_label){"l", "v"};
	gs_metrics_init_put(&p, push_remote_write_put, &m);
	gs_metrics_family(&p, "m", GS_METRICS_GAUGE, "", "");
	gs_metrics_line(&p, "", many, GS_METRICS_LABELS_MAX, 1, 0);
	assert_int_equal(p.error, 0);
	gs_metrics_line(&p, "", many, GS_ARRAY_LEN(many), 1, 0);
	assert_int_equal(gs_metrics_end(&p), -E2BIG);
	assert_int_equal(m.n_samples, 1);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	gs_metrics_init_put(&p, push_remote_write_put, &m);
	gs_metrics_family(&p, name, GS_METRICS_GAUGE, "", "");
	gs_metrics_line(&p, "", NULL, 0, 1, 0);
	assert_int_equal(gs_metrics_end(&p), -ENAMETOOLONG);
	m.out.max_bytes = m.out.bytes;
	gs_metrics_init_put(&p, push_otlp_put, &m);
	gs_metrics_family(&p, "m", GS_METRICS_GAUGE, "", "");
	gs_metrics_line(&p, "", NULL, 0, 1, 0);
	assert_int_equal(gs_metrics_end(&p), -ENOBUFS);
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

/* What receivers answer, cut at each byte and with each byte another one: never read beyond. */
static void answers(void **state)
{
	static const char partial[] = "\x0a\x0e\x08\x07\x12\x0atoo\nmany!!";
	static const char error[] = "\x08\x03\x12\x09"
				    "bad thing";
	char text[64];
	struct gs_buf b;

	b = (struct gs_buf){.data = (uint8_t *)partial, .bytes = sizeof(partial) - 1};
	assert_int_equal(push_otlp_rejected(&b, text, sizeof(text)), 7);
	assert_string_equal(text, "too?many!!");
	b = (struct gs_buf){.data = (uint8_t *)error, .bytes = sizeof(error) - 1};
	assert_true(push_otlp_error(&b, text, sizeof(text)));
	assert_string_equal(text, "bad thing");
	assert_true(push_otlp_error(&b, text, 4));
	assert_string_equal(text, "bad");
	b.bytes = 0;
	assert_false(push_otlp_error(&b, text, sizeof(text)));
	assert_int_equal(push_otlp_rejected(&b, text, sizeof(text)), 0);
	for (size_t n = 1; n < sizeof(partial); n++)
		for (unsigned byte = 0; byte < 256; byte++) {
			uint8_t *copy = malloc(n); /* a sanitizer sees its end */

			memcpy(copy, partial, n);
			copy[n - 1] = (uint8_t)byte;
			b = (struct gs_buf){.data = copy, .bytes = n};
			(void)push_otlp_rejected(&b, text, sizeof(text));
			(void)push_otlp_error(&b, text, sizeof(text));
			free(copy);
		}
}

/* Frames and trailers of gRPC, in pieces as libcurl gives them. */
static void grpc_answers(void **state)
{
	struct http_client_grpc g = {.status = -1};
	const struct gs_http_client_http q = {.body = "abc", .bytes = 3};
	const char *at;
	size_t bytes = 0, n;
	uint8_t *framed = http_client_grpc_body(&q, &bytes);

	assert_int_equal(bytes, 8);
	assert_memory_equal(framed, "\0\0\0\0\3abc", 8);
	for (size_t i = 0; i < bytes; i++) {
		at = (const char *)framed + i;
		n = 1;
		http_client_grpc_strip(&g, &at, &n);
		assert_int_equal(n, i >= 5);
	}
	free(framed);
	assert_int_equal(http_client_grpc_status(&g, 200), 2);
	assert_int_equal(http_client_grpc_status(&g, 503), 14);
	http_client_grpc_header(&g, "Grpc-Status: 14\r\n", 17);
	http_client_grpc_header(&g, "grpc-message: not%20y%65t%0a%4\r\n", 32);
	assert_int_equal(http_client_grpc_status(&g, 200), 14);
	assert_string_equal(g.message, "not yet %4");
	http_client_grpc_header(&g, "grpc-status: x\r\n", 16);
	assert_int_equal(g.status, 2);
	http_client_grpc_header(&g, "grpc-status:", 12);
	http_client_grpc_header(&g, "grpc", 4);
	assert_int_equal(g.status, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_figures), cmocka_unit_test(too_much),
		cmocka_unit_test(remote_write), cmocka_unit_test(otlp),
		cmocka_unit_test(snappy),       cmocka_unit_test(urls),
		cmocka_unit_test(shown),        cmocka_unit_test(labels),
		cmocka_unit_test(answers),      cmocka_unit_test(grpc_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
