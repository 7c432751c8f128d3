/* Spans: what is whose parent, how many there are at most, and what a traceparent is. */
#include "trace_file.h"

#include <errno.h>

#include "golden/sample_stream.h"
#include "output/trace_export/spans.h"

enum { OPERATOR = 50, INNER };

struct span {
	uint8_t id[8], parent[8];
	bool has_parent;
	char name[64];
	uint64_t start_ns, end_ns;
	size_t bytes;
};

static struct span spans[40000];
static size_t n_spans, n_said;

static void take_span(const uint8_t *data, size_t bytes)
{
	struct span *x = &spans[n_spans++];

	assert_true(n_spans < GS_ARRAY_LEN(spans));
	memset(x, 0, sizeof(*x));
	for (const uint8_t *p = data; p < data + bytes;) {
		struct field f = take_field(&p, data + bytes);

		if (f.number == 1)
			assert_int_equal(f.bytes, 16);
		if (f.number == 2)
			memcpy(x->id, f.data, 8);
		if (f.number == 4) {
			memcpy(x->parent, f.data, 8);
			x->has_parent = true;
		}
		if (f.number == 5)
			snprintf(x->name, sizeof(x->name), "%.*s", (int)f.bytes,
				 (const char *)f.data);
		if (f.number == 7)
			x->start_ns = f.value;
		if (f.number == 8)
			x->end_ns = f.value;
	}
}

static int take_message(void *ctx, const void *data, size_t bytes, uint32_t n)
{
	struct field resource = find_field(data, bytes, 1);
	struct field scope = find_field(resource.data, resource.bytes, 2);
	size_t before = n_spans;

	for (const uint8_t *p = scope.data; p < scope.data + scope.bytes;) {
		struct field f = take_field(&p, scope.data + scope.bytes);

		if (f.number == 2)
			take_span(f.data, f.bytes);
	}
	assert_int_equal(n_spans - before, n);
	n_said += n;
	return 0;
}

static const struct span *span_of(const uint8_t id[8])
{
	for (size_t i = 0; i < n_spans; i++)
		if (memcmp(spans[i].id, id, 8) == 0)
			return &spans[i];
	return NULL;
}

static size_t count_spans(const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < n_spans; i++)
		n += strcmp(spans[i].name, name) == 0;
	return n;
}

static struct gs_export_spans *open_spans(uint64_t max_spans, const struct gs_export_parent *parent)
{
	const struct gs_export_spans_options o = {
		.size = sizeof(o), .parent = parent, .max_spans = max_spans, .put = take_message};
	struct gs_export_spans *s = NULL;
	struct gs_buf b = GS_BUF_INIT(1u << 20);

	n_spans = n_said = 0;
	assert_int_equal(gs_export_spans_new(&o, &s), 0);
	assert_int_equal(sample_session(&b) || sample_entities(&b), 0);
	assert_int_equal(sample_put_function(&b, OPERATOR, GS_LAYER_TORCH, GS_CLASS_OPERATOR,
					     "aten::linear"),
			 0);
	assert_int_equal(
		sample_put_function(&b, INNER, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::addmm"),
		0);
	assert_int_equal(gs_export_spans_sink(s)->push(s, &(struct gs_batch){b.data, b.bytes}), 0);
	gs_buf_fini(&b);
	return s;
}

static void put_calls(struct gs_export_spans *s, uint64_t at_ns, unsigned n, bool fails)
{
	struct gs_buf b = GS_BUF_INIT(8u << 20);

	for (unsigned i = 0; i < n; i++) {
		uint64_t start_ns = SAMPLE_START_NS + at_ns + i * 100;
		struct gs_rec_call *c = sample_put_call(&b, 1, INNER, start_ns + 10, 20, 0);

		assert_non_null(c);
		c->failed = fails;
		assert_non_null(sample_put_call(&b, 1, OPERATOR, start_ns, 80, 0));
	}
	assert_int_equal(gs_export_spans_sink(s)->push(s, &(struct gs_batch){b.data, b.bytes}), 0);
	gs_buf_fini(&b);
}

static void put_step(struct gs_export_spans *s, uint64_t at_ns, uint64_t dur_ns)
{
	gs_export_spans_step(s, &(struct gs_export_step){.process = 1,
							 .tid = 7,
							 .start_ns = SAMPLE_START_NS + at_ns,
							 .dur_ns = dur_ns,
							 .is_regular = true});
}

/* command > process > step > operator > operator, and before the first step below the process. */
static void parents(void **state)
{
	struct gs_export_parent remote = {.trace_id = {1}, .span_id = {2, 3}, .is_sampled = true};
	struct gs_export_spans *s = open_spans(0, &remote);
	struct gs_export_spans_stats st;
	unsigned n_chains = 0;

	put_calls(s, 0, 3, false);
	put_calls(s, 1000, 5, true);
	put_step(s, 1000, 600);
	put_calls(s, 1600, 5, false);
	put_step(s, 1600, 600);
	assert_int_equal(gs_export_spans_end(s), 0);
	gs_export_spans_stats(s, &st);
	assert_int_equal(st.n_spans, n_spans);
	assert_int_equal(st.n_left_out, 0);
	assert_int_equal(n_spans, 2 * 13 + 2 + 2);
	for (size_t i = 0; i < n_spans; i++) {
		const struct span *x = &spans[i], *up = span_of(x->parent);

		assert_true(x->has_parent);
		if (!up) {
			assert_memory_equal(x->parent, remote.span_id, 8);
			continue;
		}
		assert_true(x->start_ns >= up->start_ns && x->end_ns <= up->end_ns);
		if (strcmp(x->name, "aten::addmm") == 0)
			assert_string_equal(up->name, "aten::linear");
		if (strcmp(x->name, "aten::linear") == 0)
			n_chains += strcmp(up->name, "step") == 0;
	}
	assert_int_equal(n_chains, 10);
	gs_export_spans_free(&s);
}

/* However long it goes on: no more than twice the bound, and of every part of the run. */
static void bounded(void **state)
{
	struct gs_export_spans *s = open_spans(400, NULL);
	struct gs_export_spans_stats st;
	uint64_t last_ns = 0;

	for (unsigned i = 0; i < 20000; i++) {
		put_calls(s, i * 10000ull, 10, false);
		put_step(s, i * 10000ull, 10000);
	}
	assert_int_equal(gs_export_spans_end(s), 0);
	gs_export_spans_stats(s, &st);
	assert_in_range(count_spans("step"), 200, 400);
	assert_in_range(count_spans("aten::linear") + count_spans("aten::addmm"), 200, 402);
	assert_int_equal(st.n_spans + st.n_left_out, 20000 + 2 * 200000 + 2);
	for (size_t i = 0; i < n_spans; i++)
		if (strcmp(spans[i].name, "step") == 0 && spans[i].start_ns > last_ns)
			last_ns = spans[i].start_ns;
	assert_true(last_ns > spans[0].start_ns + 100000000);
	gs_export_spans_free(&s);
}

/* More than wait at a time, and never a step. */
static void without_steps(void **state)
{
	struct gs_export_spans *s = open_spans(1000, NULL);
	struct gs_export_spans_stats st;

	for (unsigned i = 0; i < 2000; i++)
		put_calls(s, i * 50000000ull, 50, false);
	assert_int_equal(gs_export_spans_end(s), 0);
	gs_export_spans_stats(s, &st);
	assert_in_range(st.n_spans, 300, 1010);
	assert_int_equal(st.n_spans + st.n_left_out, 2 * 100000 + 2);
	for (size_t i = 0; i < n_spans; i++)
		assert_true(!spans[i].has_parent || span_of(spans[i].parent));
	gs_export_spans_free(&s);
}

static void traceparents(void **state)
{
	static const char right[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
	static const char *const wrong[] = {
		"",
		"00",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319cab7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g",
		"01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x"};
	struct gs_export_parent p;

	assert_int_equal(gs_export_parent_parse(right, &p), 0);
	assert_int_equal(p.trace_id[0], 0x0a);
	assert_int_equal(p.trace_id[15], 0x9c);
	assert_int_equal(p.span_id[7], 0x31);
	assert_true(p.is_sampled);
	assert_int_equal(
		gs_export_parent_parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
				       "00",
				       &p),
		0);
	assert_false(p.is_sampled);
	assert_int_equal(
		gs_export_parent_parse("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
				       "03-more",
				       &p),
		0);
	assert_true(p.is_sampled);
	for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++)
		if (gs_export_parent_parse(wrong[i], &p) != -EINVAL)
			fail_msg("taken: %s", wrong[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parents),
		cmocka_unit_test(bounded),
		cmocka_unit_test(without_steps),
		cmocka_unit_test(traceparents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
