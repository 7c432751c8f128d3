/*
 * What calls on a timeline have to do with each other, in .pftrace and .json: nesting, moments,
 * arrows, and where a call was made. The files are read back the way viewers read them.
 */
#include "trace_file.h"

#include "output/trace_export/export_int.h"
#include "model/gpu_work/record.h"
#include "model/trace/record_stack.h"
#include "golden/sample_stream.h"

enum { OPERATOR = 50, INNER, PROBE, PYTHON };

static void put_function(struct gs_buf *b, uint32_t id, unsigned layer, unsigned func_class,
			 const char *name)
{
	assert_int_equal(sample_put_function(b, id, layer, func_class, name), 0);
}

static struct gs_buf world(void)
{
	struct gs_buf b = GS_BUF_INIT(8u << 20);
	struct gs_rec_stack *s;
	struct gs_rec_frame *f;

	assert_int_equal(sample_session(&b) || sample_entities(&b), 0);
	put_function(&b, OPERATOR, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::linear");
	put_function(&b, INNER, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::addmm");
	put_function(&b, PROBE, GS_LAYER_USER, GS_CLASS_PROBE, "my_probe");
	put_function(&b, PYTHON, GS_LAYER_PYTHON, GS_CLASS_PYTHON, "step");
	assert_int_equal(sample_text(&b, 900, "forward") ||
				 sample_text(&b, 901, "/home/u/net/model.py") ||
				 sample_text(&b, 902, "size") ||
				 sample_text(&b, 903, "who \"x\"") || sample_text(&b, 904, "ratio"),
			 0);
	f = gs_record_put(&b, GS_REC_FRAME, sizeof(*f), 0);
	assert_non_null(f);
	f->id = 3;
	f->frame_kind = GS_FRAME_PYTHON;
	f->function_str = 900;
	f->file_str = 901;
	f->line = 17;
	s = gs_record_put(&b, GS_REC_STACK, sizeof(*s), 4);
	assert_non_null(s);
	s->id = 1;
	s->n_frames = 1;
	s->frames[0] = 3;
	return b;
}

static struct gs_rec_call *put(struct gs_buf *b, uint32_t function, uint32_t scope,
			       uint64_t start_ns, uint64_t end_ns)
{
	struct gs_rec_call *c =
		sample_put_call(b, 1, function, SAMPLE_START_NS + start_ns, end_ns - start_ns, 0);

	assert_non_null(c);
	c->scope = scope;
	return c;
}

static struct gs_buf file_of(const char *suffix, const struct gs_buf *in, bool one_by_one)
{
	struct gs_batch all = {in->data, in->bytes};
	const struct gs_sink *s;
	struct gs_export *e = NULL;
	size_t offset = 0;

	assert_int_equal(gs_export_open(test_path(suffix), NULL, &e, NULL), 0);
	s = gs_export_sink(e);
	if (!one_by_one)
		assert_int_equal(s->push(s->ctx, &all), 0);
	while (one_by_one && offset < in->bytes) {
		size_t from = offset;

		assert_non_null(gs_record_next(&all, &offset));
		assert_int_equal(
			s->push(s->ctx, &(struct gs_batch){in->data + from, offset - from}), 0);
	}
	assert_int_equal(gs_export_left_out(e), 0);
	assert_int_equal(gs_export_close(&e, NULL), 0);
	return read_all(test_path(suffix));
}

/* An event of the timeline of thread 1. */
struct seen {
	uint64_t time_ns; /* since the start */
	unsigned type;    /* 1 begin, 2 end, 3 moment */
	unsigned place;   /* in the file */
	char name[64];
	uint64_t flow, flow_end;
	char notes[256]; /* "operator=aten::linear python=..." */
};

static int by_time(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return (int)x->place - (int)y->place;
}

static char texts[4][1000][64]; /* interned: by table (names, keys, texts) and number */

static void take_interned(struct field interned)
{
	static const struct {
		unsigned field, table;
	} tables[] = {{2, 0}, {3, 1}, {29, 2}};

	for (const uint8_t *p = interned.data; p < interned.data + interned.bytes;) {
		struct field entry = take_field(&p, interned.data + interned.bytes), text;
		uint64_t iid;

		for (size_t i = 0; i < GS_ARRAY_LEN(tables); i++) {
			if (entry.number != tables[i].field)
				continue;
			iid = find_field(entry.data, entry.bytes, 1).value;
			text = find_field(entry.data, entry.bytes, 2);
			assert_true(iid < 1000 && text.bytes < 64);
			memset(texts[tables[i].table][iid], 0, 64);
			memcpy(texts[tables[i].table][iid], text.data, text.bytes);
		}
	}
}

static void take_note(struct seen *s, struct field a)
{
	struct field name = find_field(a.data, a.bytes, 10), text = find_field(a.data, a.bytes, 6);
	struct field number = find_field(a.data, a.bytes, 3), real = find_field(a.data, a.bytes, 5);
	uint64_t key = find_field(a.data, a.bytes, 1).value;
	uint64_t iid = find_field(a.data, a.bytes, 17).value;
	size_t n = strlen(s->notes);

	if (!key && !name.number)
		return;
	n += (size_t)snprintf(s->notes + n, sizeof(s->notes) - n,
			      "%.*s=", key ? 64 : (int)name.bytes,
			      key ? texts[1][key] : (const char *)name.data);
	if (iid)
		snprintf(s->notes + n, sizeof(s->notes) - n, "%s ", texts[2][iid]);
	else if (text.number)
		snprintf(s->notes + n, sizeof(s->notes) - n, "%.*s ", (int)text.bytes,
			 (const char *)text.data);
	else if (real.number) {
		double d;

		memcpy(&d, &real.value, 8);
		snprintf(s->notes + n, sizeof(s->notes) - n, "%g ", d);
	} else {
		snprintf(s->notes + n, sizeof(s->notes) - n, "%llu ",
			 (unsigned long long)number.value);
	}
}

/* Events of a .pftrace, in the order in which a viewer takes them. */
static size_t read_events(const struct gs_buf *file, struct seen *out, size_t max)
{
	const uint8_t *p = file->data, *end = p + file->bytes;
	uint64_t track1 = 1 << 2 | 2; /* of thread 1 */
	size_t n = 0;

	while (p < end) {
		struct field packet = take_field(&p, end);
		struct field interned = find_field(packet.data, packet.bytes, 12);
		struct field event = find_field(packet.data, packet.bytes, 11);
		struct seen *s = &out[n];

		if (interned.number)
			take_interned(interned);
		if (!event.number || find_field(event.data, event.bytes, 11).value != track1)
			continue;
		assert_true(n < max);
		*s = (struct seen){
			.time_ns = find_field(packet.data, packet.bytes, 8).value - SAMPLE_START_NS,
			.type = (unsigned)find_field(event.data, event.bytes, 9).value,
			.place = (unsigned)n,
			.flow = find_field(event.data, event.bytes, 47).value,
			.flow_end = find_field(event.data, event.bytes, 48).value,
		};
		snprintf(s->name, sizeof(s->name), "%s",
			 texts[0][find_field(event.data, event.bytes, 10).value]);
		for (const uint8_t *q = event.data; q < event.data + event.bytes;) {
			struct field f = take_field(&q, event.data + event.bytes);

			if (f.number == 4)
				take_note(s, f);
		}
		n++;
	}
	qsort(out, n, sizeof(*out), by_time);
	return n;
}

/* The nesting as text: "linear(addmm(launch launch))", a moment as "!name". */
static void nesting(const struct gs_buf *in, const char *want)
{
	static struct seen seen[4000];
	struct gs_buf file = file_of(".pftrace", in, false);
	size_t n = read_events(&file, seen, GS_ARRAY_LEN(seen)), at = 0;
	const char *open[64];
	unsigned depth = 0;
	char got[1000];

	for (size_t i = 0; i < n; i++) {
		if (seen[i].type == 3) {
			at += (size_t)snprintf(got + at, sizeof(got) - at, "!%s ", seen[i].name);
		} else if (seen[i].type == 1) {
			at += (size_t)snprintf(got + at, sizeof(got) - at, "%s(", seen[i].name);
			assert_true(depth < 64);
			open[depth++] = seen[i].name;
		} else {
			assert_true(depth > 0);
			depth--;
			(void)open;
			at += (size_t)snprintf(got + at, sizeof(got) - at, ")");
		}
	}
	got[at] = '\0';
	assert_string_equal(got, want);
	gs_buf_fini(&file);
}

static void plain_nesting(void **state)
{
	struct gs_buf b = world();

	put(&b, SAMPLE_FUNC_LAUNCH, INNER, 30, 40);
	put(&b, SAMPLE_FUNC_LAUNCH, INNER, 40, 50);
	put(&b, INNER, OPERATOR, 20, 60);
	put(&b, SAMPLE_FUNC_SYNC, OPERATOR, 60, 100);
	put(&b, OPERATOR, 0, 10, 100);
	put(&b, OPERATOR, 0, 100, 110);
	nesting(&b, "aten::linear(aten::addmm(cudaLaunchKernel()cudaLaunchKernel())"
		    "cudaDeviceSynchronize())aten::linear()");
	gs_buf_fini(&b);
}

/* All began in the same nanosecond, three deep; and the second child of each. */
static void equal_begins(void **state)
{
	struct gs_buf b = world();

	put(&b, SAMPLE_FUNC_LAUNCH, INNER, 100, 110);
	put(&b, SAMPLE_FUNC_LAUNCH, INNER, 120, 130);
	put(&b, INNER, OPERATOR, 100, 140);
	put(&b, INNER, OPERATOR, 150, 160);
	put(&b, OPERATOR, PYTHON, 100, 170);
	put(&b, PYTHON, 0, 100, 170);
	nesting(&b, "step(aten::linear(aten::addmm(cudaLaunchKernel()cudaLaunchKernel())"
		    "aten::addmm()))");
	gs_buf_fini(&b);
}

/* Many neighbours before: the first of them still counts. */
static void equal_begins_far_back(void **state)
{
	struct gs_buf b = world();

	for (unsigned i = 0; i < 500; i++)
		put(&b, SAMPLE_FUNC_LAUNCH, OPERATOR, 100 + 10 * i, 105 + 10 * i);
	put(&b, OPERATOR, 0, 100, 9000);
	{
		static struct seen seen[4000];
		struct gs_buf file = file_of(".pftrace", &b, false);

		read_events(&file, seen, GS_ARRAY_LEN(seen));
		assert_string_equal(seen[0].name, "aten::linear");
		assert_int_equal(seen[0].time_ns, 99);
		gs_buf_fini(&file);
	}
	gs_buf_fini(&b);
}

static void moments_and_open_ends(void **state)
{
	struct gs_buf b = world();

	put(&b, PROBE, OPERATOR, 20, 20);
	put(&b, SAMPLE_FUNC_QUERY, OPERATOR, 30, 30); /* a span that took no time */
	put(&b, OPERATOR, 0, 10, 50);
	put(&b, PROBE, 0, 60, 70);
	put(&b, SAMPLE_FUNC_LAUNCH, PYTHON, 90, 95);
	put(&b, PYTHON, 0, 80, 200)->call_flags = GS_CALL_UNFINISHED;
	put(&b, SAMPLE_FUNC_SYNC, PYTHON, 100, 200)->call_flags = GS_CALL_UNFINISHED;
	nesting(&b, "aten::linear(!my_probe cudaEventQuery())my_probe()"
		    "step(cudaLaunchKernel()cudaDeviceSynchronize(");
	gs_buf_fini(&b);
}

static struct gs_buf waits(void)
{
	struct gs_buf b = world();
	struct gs_rec_call *c;

	for (unsigned i = 0; i < 1000; i++)
		put(&b, SAMPLE_FUNC_LAUNCH, 0, 10 + 10 * i, 15 + 10 * i)->flow = 1;
	put(&b, SAMPLE_FUNC_COPY, 0, 20000, 20010)->flow = 1;
	put(&b, SAMPLE_FUNC_LAUNCH, 0, 20020, 20030)->flow = 257; /* the same place as 1 */
	put(&b, SAMPLE_FUNC_LAUNCH, 0, 20040, 20050)->flow = 2;
	c = put(&b, SAMPLE_FUNC_SYNC, 0, 30000, 40000);
	c->flow = 2;
	c->call_flags = GS_CALL_WAITED;
	put(&b, SAMPLE_FUNC_LAUNCH, 0, 40010, 40020)->flow = 3;
	c = put(&b, SAMPLE_FUNC_SYNC, 0, 41000, 42000);
	c->flow = 3;
	c->call_flags = GS_CALL_WAITED;
	c = put(&b, SAMPLE_FUNC_SYNC, 0, 43000, 44000); /* its work was never told */
	c->flow = 4;
	c->call_flags = GS_CALL_WAITED;
	put(&b, SAMPLE_FUNC_LAUNCH, 0, 50000, 50010)->flow = 5; /* nobody waits for it */
	return b;
}

static void arrows_pftrace(void **state)
{
	static struct seen seen[4000];
	struct gs_buf b = waits(), file = file_of(".pftrace", &b, true);
	size_t n = read_events(&file, seen, GS_ARRAY_LEN(seen));
	char got[256] = "";

	assert_int_equal(n, 2 * 1008);
	for (size_t i = 0; i < n; i++)
		if (seen[i].flow || seen[i].flow_end)
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s %llu:%llu>%llu ",
				 seen[i].name, (unsigned long long)seen[i].time_ns,
				 (unsigned long long)seen[i].flow,
				 (unsigned long long)seen[i].flow_end);
	assert_string_equal(got, "cudaLaunchKernel 20040:2>0 cudaDeviceSynchronize 30000:0>2 "
				 "cudaLaunchKernel 40010:3>0 cudaDeviceSynchronize 41000:0>3 ");
	gs_buf_fini(&file);
	gs_buf_fini(&b);
}

static void arrows_json(void **state)
{
	struct gs_buf b = waits(), file = file_of(".json", &b, true);
	const char *text = (char *)file.data;
	unsigned n = 0;

	for (const char *p = text; (p = strstr(p, "{\"ph\":\"X\"")) != NULL; p++)
		n++;
	assert_int_equal(n, 1008);
	n = 0;
	for (const char *p = text; (p = strstr(p, "\"name\":\"waited for\"")) != NULL; p++)
		n++;
	assert_int_equal(n, 4);
	assert_non_null(strstr(text,
			       "{\"ph\":\"s\",\"name\":\"waited for\",\"cat\":\"sync\",\"id\":2,"
			       "\"ts\":5000000020.040,\"pid\":4242,\"tid\":4242}"));
	assert_non_null(strstr(text, "{\"ph\":\"f\",\"bp\":\"e\",\"name\":\"waited for\",\"cat\":"
				     "\"sync\",\"id\":2,\"ts\":5000000030.000,\"pid\":4242,"
				     "\"tid\":4242}"));
	gs_buf_fini(&file);
	gs_buf_fini(&b);
}

static struct gs_buf places(void)
{
	struct gs_buf b = world();
	struct gs_rec_values *v;
	double ratio = 0.25;

	put(&b, SAMPLE_FUNC_QUERY, OPERATOR, 10, 20)->py_stack = 1;
	put(&b, SAMPLE_FUNC_QUERY, PYTHON, 30, 40)->py_stack = 99; /* not told */
	v = gs_record_put(&b, GS_REC_VALUES, sizeof(*v), 3 * sizeof(v->values[0]));
	assert_non_null(v);
	v->n_values = 3;
	v->values[0] = (struct gs_rec_value){902, GS_VALUE_BYTES, 4096};
	v->values[1] = (struct gs_rec_value){903, GS_VALUE_STR, 900};
	v->values[2] = (struct gs_rec_value){904, GS_VALUE_F64, 0};
	memcpy(&v->values[2].value, &ratio, 8);
	put(&b, PROBE, 0, 50, 60);
	put(&b, PROBE, 0, 70, 80); /* values are of one call */
	return b;
}

static void places_pftrace(void **state)
{
	for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
		static struct seen seen[100];
		struct gs_buf b = places(), file = file_of(".pftrace", &b, one_by_one);

		assert_int_equal(read_events(&file, seen, GS_ARRAY_LEN(seen)), 8);
		assert_non_null(strstr(seen[0].notes, "operator=aten::linear "
						      "python=forward (net/model.py:17) "));
		assert_non_null(strstr(seen[2].notes, "inside=step "));
		assert_null(strstr(seen[2].notes, "python="));
		assert_string_equal(seen[4].notes, "size=4096 who \"x\"=forward ratio=0.25 ");
		assert_string_equal(seen[6].notes, "");
		gs_buf_fini(&file);
		gs_buf_fini(&b);
	}
}

static void places_text(void **state)
{
	struct gs_buf b = places(), file = file_of(".json", &b, true);
	const char *text = (char *)file.data;

	assert_non_null(strstr(text, "\"operator\":\"aten::linear\","
				     "\"python\":\"forward (net/model.py:17)\"}}"));
	assert_non_null(strstr(text, "\"args\":{\"size\":4096,\"who \\\"x\\\"\":\"forward\","
				     "\"ratio\":0.25}}"));
	gs_buf_fini(&file);
	file = file_of(".csv", &b, true);
	text = (char *)file.data;
	assert_non_null(strstr(text, ",aten::linear,forward (net/model.py:17),,,\n"));
	assert_non_null(strstr(text, ",step,,,,\n"));
	assert_non_null(strstr(text, ",,,,,\"{\"\"size\"\":4096,\"\"who \\\"\"x\\\"\"\"\":"
				     "\"\"forward\"\",\"\"ratio\"\":0.25}\"\n"));
	gs_buf_fini(&file);
	gs_buf_fini(&b);
	b = waits();
	file = file_of(".csv", &b, false);
	text = (char *)file.data;
	assert_non_null(strstr(text, ",,,2,0,\n"));
	assert_non_null(strstr(text, ",,,2,1,\n"));
	gs_buf_fini(&file);
	gs_buf_fini(&b);
}

static void put_copy(struct gs_buf *b, uint32_t thread, uint64_t launch_ns, uint64_t bytes)
{
	struct gs_rec_gpu_work *r = gs_record_put(b, GS_REC_GPU_WORK, sizeof(*r), 0);

	assert_non_null(r);
	r->process = 1;
	r->thread = thread;
	r->work.what = GS_WORK_COPY;
	r->work.launch_ns = launch_ns;
	r->work.start_ns = SAMPLE_START_NS + 5000;
	r->work.end_ns = r->work.start_ns + 100;
	r->work.bytes = bytes;
}

/* Who asked for work of a GPU stands beside it also where the clock of the GPU puts it before its call: only how long
 * before is not known then. */
static void work_of_gpus(void **state)
{
	struct gs_buf b = world(), file;
	const char *text;

	put_copy(&b, 2, SAMPLE_START_NS + 2500, 11);
	put_copy(&b, 2, SAMPLE_START_NS + 5001, 12);
	put_copy(&b, 0, 0, 13);
	file = file_of(".json", &b, false);
	text = (char *)file.data;
	assert_non_null(strstr(text, "\"11 bytes; requested by thread 4250, 2.500 us before\""));
	assert_non_null(strstr(text, "\"12 bytes; requested by thread 4250\""));
	assert_non_null(strstr(text, "\"13 bytes\""));
	gs_buf_fini(&file);
	gs_buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_nesting),         cmocka_unit_test(equal_begins),
		cmocka_unit_test(equal_begins_far_back), cmocka_unit_test(moments_and_open_ends),
		cmocka_unit_test(arrows_pftrace),        cmocka_unit_test(arrows_json),
		cmocka_unit_test(places_pftrace),        cmocka_unit_test(places_text),
		cmocka_unit_test(work_of_gpus),
	};

	return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
