/*
 * Each format's file of the sample stream against the one in tests/golden. After a change of a
 * format on purpose: GS_GOLDEN_UPDATE=1 meson test -C build export/trace_golden, then read the
 * difference. check_trace.py looks at what the golden files mean.
 */
#include "trace_file.h"

#include "output/trace_export/export_int.h"
#include "golden/sample_stream.h"

/* Who follows streams, as a summary does, and what of. */
struct follower {
	struct gs_activity *activity;
	struct gs_dict *dict;
	uint64_t end_ns;
};

static void take_span(void *ctx, const struct gs_activity_span *span)
{
	gs_export_take_span(ctx, span);
}

static void follow_batch(struct follower *f, const struct gs_batch *batch)
{
	const struct gs_record *r;
	size_t offset = 0;

	while ((r = gs_record_next(batch, &offset)) != NULL) {
		gs_activity_follow(f->activity, f->dict, r);
		if (r->kind == GS_REC_END)
			f->end_ns = ((const struct gs_rec_end *)r)->end_ns;
		if (r->kind != GS_REC_CALL)
			(void)gs_dict_apply(f->dict, r);
	}
}

static struct gs_buf sample_file(const char *suffix, size_t split)
{
	struct gs_buf in = GS_BUF_INIT(1 << 20);
	const char *path = test_path(suffix);
	struct gs_export *e = NULL;
	struct follower f = {.dict = gs_dict_new()};
	const struct gs_sink *s;
	size_t offset = 0;
	struct gs_err err;

	assert_int_equal(sample_stream(&in), 0);
	assert_int_equal(gs_export_open(path, NULL, &e, &err), 0);
	assert_int_equal(gs_activity_new(NULL, &f.activity), 0);
	gs_activity_set_sink(f.activity, take_span, e);
	s = gs_export_sink(e);
	while (offset < in.bytes) {
		struct gs_batch all = {in.data, in.bytes};
		size_t from = offset;

		for (size_t i = 0; i < split && gs_record_next(&all, &offset); i++)
			;
		follow_batch(&f, &(struct gs_batch){in.data + from, offset - from});
		assert_int_equal(s->push(s->ctx, &(struct gs_batch){in.data + from, offset - from}),
				 0);
		assert_int_equal(s->flush(s->ctx), 0);
	}
	gs_activity_report_pending(f.activity, f.end_ns);
	gs_activity_free(&f.activity);
	gs_dict_free(&f.dict);
	assert_int_equal(gs_export_left_out(e), 0);
	assert_int_equal(gs_export_close(&e, &err), 0);
	assert_null(e);
	gs_buf_fini(&in);
	return read_all(path);
}

static void check(const char *suffix)
{
	char golden[512];
	struct gs_buf got = sample_file(suffix, SIZE_MAX), want;

	snprintf(golden, sizeof(golden), "%s/trace%s", GS_GOLDEN_DIR, suffix);
	if (getenv("GS_GOLDEN_UPDATE")) {
		FILE *f = fopen(golden, "we");

		assert_non_null(f);
		assert_int_equal(fwrite(got.data, 1, got.bytes, f), got.bytes);
		assert_int_equal(fclose(f), 0);
	}
	want = read_all(golden);
	if (want.bytes != got.bytes || memcmp(want.data, got.data, got.bytes) != 0)
		fail_msg("%s is not what %s holds", suffix, golden);
	gs_buf_fini(&got);

	/* The same when records come one at a time, each put into the file at once. */
	got = sample_file(suffix, 1);
	assert_int_equal(want.bytes, got.bytes);
	assert_memory_equal(want.data, got.data, got.bytes);
	gs_buf_fini(&got);
	gs_buf_fini(&want);
}

static void golden_pftrace(void **state)
{
	check(".pftrace");
}

static void golden_json(void **state)
{
	check(".json");
}

/* The same bytes, also of a file that was flushed after each record. */
static void compressed_json(void **state)
{
	struct gs_buf want = sample_file(".json", SIZE_MAX);

	for (unsigned i = 0; i < 2; i++) {
		struct gs_buf file = sample_file(".json.gz", i ? 1 : SIZE_MAX), got;
		bool whole;

		got = inflate_all(&file, &whole);
		assert_true(whole);
		assert_true(i || file.bytes < want.bytes / 3);
		assert_int_equal(got.bytes, want.bytes);
		assert_memory_equal(got.data, want.data, want.bytes);
		gs_buf_fini(&file);
		gs_buf_fini(&got);
	}
	gs_buf_fini(&want);
}

static void golden_csv(void **state)
{
	check(".csv");
}

/* The arguments of a launch are put together here, faster than by model: the same words. */
static void launch_args_as_model(void **state)
{
	struct gs_arg want[GS_ARG_MAX], got[GS_EXPORT_ARG_MAX];
	struct gs_rec_function f = {.layer = GS_LAYER_CUDA_RUNTIME, .func_class = GS_CLASS_LAUNCH};
	struct gs_dict *dict = gs_dict_new();
	uint64_t x = 88172645463325252ull;

	assert_non_null(dict);
	for (int i = 0; i < 1000; i++) {
		struct gs_rec_call c = {.head = {.kind = GS_REC_CALL}};
		struct gs_export_call_view v = {
			.call = &c, .function = &f, .layer = f.layer, .func_class = f.func_class};
		size_t n;

		for (int k = 0; k < 6; k++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			if (k < 4)
				c.arg[k] = x;
			else if (k == 4)
				c.aux = (uint32_t)x;
			else
				c.stream = x;
		}
		n = gs_call_args(&c, v.layer, v.func_class, want);
		assert_int_equal(gs_export_args(dict, &v, got), n);
		for (size_t k = 0; k < n; k++) {
			assert_string_equal(got[k].name, want[k].name);
			assert_int_equal(got[k].type, want[k].type);
			assert_int_equal(got[k].value, want[k].value);
			if (want[k].type == GS_ARG_TEXT)
				assert_string_equal(got[k].text, want[k].text);
		}
	}
	gs_dict_free(&dict);
}

/* Far more texts than have a place: whatever number a slice names, it is the number of its text. */
static void interned_texts(void **state)
{
	enum { N_CALLS = 5000, MAX_IID = 3 * N_CALLS };
	static char text[MAX_IID][48];
	struct gs_buf in = GS_BUF_INIT(1 << 20), out;
	const char *path = test_path(".pftrace");
	struct gs_export *e = NULL;
	const uint8_t *p, *end;
	unsigned seen = 0;

	assert_int_equal(sample_session(&in) || sample_entities(&in), 0);
	for (unsigned i = 0; i < N_CALLS; i++) {
		struct gs_rec_call *c =
			sample_put_call(&in, 1, SAMPLE_FUNC_LAUNCH, sample_t(10 * i), 1000, 0);

		assert_non_null(c);
		c->arg[1] = i % 3000 | 7ull << 32;
		c->arg[2] = 1 | 32ull << 32;
		c->arg[3] = 1 | 1ull << 32;
	}
	assert_int_equal(gs_export_open(path, NULL, &e, NULL), 0);
	assert_int_equal(gs_export_sink(e)->push(gs_export_sink(e)->ctx,
						 &(struct gs_batch){in.data, in.bytes}),
			 0);
	assert_int_equal(gs_export_close(&e, NULL), 0);
	out = read_all(path);
	for (p = out.data, end = p + out.bytes; p < end;) {
		struct field packet = take_field(&p, end);
		struct field interned = find_field(packet.data, packet.bytes, 12);
		struct field event = find_field(packet.data, packet.bytes, 11), a;
		char want[48];

		if (interned.number && (a = find_field(interned.data, interned.bytes, 29)).number) {
			uint64_t iid = find_field(a.data, a.bytes, 1).value;
			struct field t = find_field(a.data, a.bytes, 2);

			assert_true(iid > 0 && iid < MAX_IID && t.bytes < sizeof(text[0]));
			assert_int_equal(text[iid][0], 0); /* a number is given once */
			memcpy(text[iid], t.data, t.bytes);
		}
		if (!event.number || find_field(event.data, event.bytes, 9).value != 1)
			continue;
		if (find_field(event.data, event.bytes, 23).number) /* of a stream */
			continue;
		snprintf(want, sizeof(want), "%u,7,1", seen++ % 3000);
		for (const uint8_t *q = event.data; q < event.data + event.bytes;) {
			a = take_field(&q, event.data + event.bytes);
			if (a.number == 4 && (a = find_field(a.data, a.bytes, 17)).number)
				break; /* the first text of a launch is its grid */
		}
		assert_string_equal(text[a.value], want);
	}
	assert_int_equal(seen, N_CALLS);
	gs_buf_fini(&in);
	gs_buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_pftrace),       cmocka_unit_test(golden_json),
		cmocka_unit_test(compressed_json),      cmocka_unit_test(golden_csv),
		cmocka_unit_test(launch_args_as_model), cmocka_unit_test(interned_texts),
	};

	return cmocka_run_group_tests(tests, NULL, remove_test_files);
}
