/*
 * The files of a flame graph. Without arguments: the tests. With a folder: writes there what
 * flame_page.py looks at in a browser.
 */
#include "trace_file.h"

#include "output/trace_export/export_int.h"
#include "model/trace/record_stack.h"
#include "golden/sample_stream.h"

enum { STR = 1000, FRAME_STR = 2000 };
enum { LINEAR = 100, ADDMM, BACKWARD, ODD };

static void put_function(struct gs_buf *b, uint32_t id, unsigned layer, unsigned func_class,
			 const char *name)
{
	struct gs_rec_function *f;

	assert_int_equal(sample_text(b, STR + id, name), 0);
	f = gs_record_put(b, GS_REC_FUNCTION, sizeof(*f), 0);
	assert_non_null(f);
	f->id = id;
	f->layer = (uint16_t)layer;
	f->func_class = (uint16_t)func_class;
	f->name_str = STR + id;
}

static void put_frame(struct gs_buf *b, uint32_t id, const char *function, const char *file,
		      uint32_t line)
{
	struct gs_rec_frame *f;

	assert_int_equal(sample_text(b, FRAME_STR + 2 * id, function), 0);
	assert_int_equal(sample_text(b, FRAME_STR + 2 * id + 1, file), 0);
	f = gs_record_put(b, GS_REC_FRAME, sizeof(*f), 0);
	assert_non_null(f);
	f->id = id;
	f->frame_kind = GS_FRAME_PYTHON;
	f->function_str = FRAME_STR + 2 * id;
	f->file_str = FRAME_STR + 2 * id + 1;
	f->line = line;
}

/* Frames from 1, the outermost, to n. */
static void put_stack(struct gs_buf *b, uint32_t id, uint32_t n)
{
	struct gs_rec_stack *s = gs_record_put(b, GS_REC_STACK, sizeof(*s), n * sizeof(uint32_t));

	assert_non_null(s);
	s->id = id;
	s->n_frames = n;
	for (uint32_t i = 0; i < n; i++)
		s->frames[i] = n - i;
}

static struct gs_rec_call *put_call(struct gs_buf *b, uint32_t thread, uint32_t function,
				    uint32_t scope, uint64_t start_us, uint64_t dur_us)
{
	struct gs_rec_call *c =
		sample_put_call(b, thread, function, sample_t(start_us), dur_us * 1000, 0);

	assert_non_null(c);
	c->scope = scope;
	return c;
}

static void put_loss(struct gs_buf *b, uint64_t count)
{
	struct gs_rec_loss *l = gs_record_put(b, GS_REC_LOSS, sizeof(*l), 0);

	assert_non_null(l);
	l->cause = GS_LOSS_RING_FULL;
	l->count = count;
}

/* A small training step, with names that no format likes. */
static struct gs_buf step(void)
{
	struct gs_buf b = GS_BUF_INIT(64u << 20);

	assert_int_equal(sample_session(&b) || sample_entities(&b), 0);
	put_function(&b, LINEAR, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::linear");
	put_function(&b, ADDMM, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::addmm");
	put_function(&b, BACKWARD, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "AddmmBackward0");
	put_function(&b, ODD, GS_LAYER_USER, GS_CLASS_PROBE,
		     "a<b>&\"c\" ]]></script><script>alert(1)</script>;x\ny\x01\xff\xef\xbf\xbe");
	put_frame(&b, 1, "<module>", "/home/user/exp/train.py", 12);
	put_frame(&b, 2, "main", "/home/user/exp/train.py", 40);
	put_frame(&b, 3, "Linear.forward",
		  "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", 125);
	put_stack(&b, 1, 3);
	put_stack(&b, 2, 2);
	put_call(&b, 1, SAMPLE_FUNC_LAUNCH, ADDMM, 30, 10)->py_stack = 1;
	put_call(&b, 1, SAMPLE_FUNC_LAUNCH, ADDMM, 50, 10)->py_stack = 1;
	put_call(&b, 1, ADDMM, LINEAR, 20, 60);
	put_call(&b, 1, LINEAR, 0, 10, 100);
	put_call(&b, 2, SAMPLE_FUNC_LAUNCH, BACKWARD, 130, 5);
	put_call(&b, 2, BACKWARD, 0, 120, 40);
	put_call(&b, 1, SAMPLE_FUNC_SYNC, 0, 200, 300)->py_stack = 2;
	put_call(&b, 1, ODD, 0, 600, 25);
	put_call(&b, 3, SAMPLE_FUNC_ALLREDUCE, 0, 10, 35);
	put_loss(&b, 1234);
	return b;
}

static void write_file(const char *path, const struct gs_buf *in,
		       const struct gs_export_options *options)
{
	struct gs_export *e = NULL;
	struct gs_err err = {{0}};
	const struct gs_sink *s;

	assert_int_equal(gs_export_open(path, options, &e, &err), 0);
	s = gs_export_sink(e);
	assert_int_equal(s->push(s->ctx, &(struct gs_batch){in->data, in->bytes}), 0);
	assert_int_equal(gs_export_close(&e, &err), 0);
}

static struct gs_buf file_of(const char *suffix, enum gs_flame_by by, uint64_t max_bytes)
{
	struct gs_export_options o = {.size = sizeof(o), .max_bytes = max_bytes, .flame_by = by};
	GS_CLEANUP(gs_buf_fini) struct gs_buf in = step();

	write_file(test_path(suffix), &in, &o);
	return read_all(test_path(suffix));
}

#define MAIN_THREAD "trainer (4242);thread trainer (4242);"
#define TRAIN       "<module> (exp/train.py:12);main (exp/train.py:40)"
#define FORWARD     TRAIN ";Linear.forward (torch/nn/modules/linear.py:125)"
#define BAD         "\xef\xbf\xbd"

/* Marks that turn text around, and control characters of eight bits: neither in a page nor in a
 * table of stacks, wherever a name is put. */
static void marks_are_harmless(void **state)
{
	static const char name[] = "ab" /* U+202E, U+2066, U+009B */
				   "\xe2\x80\xae\xe2\x81\xa6\xc2\x9b"
				   "cd";
	static const char *const suffixes[] = {".svg", ".folded"};
	static const char *const bad[] = {"\xe2\x80\xae", "\xe2\x81\xa6", "\xc2\x9b"};

	for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
		GS_CLEANUP(gs_buf_fini) struct gs_buf in = GS_BUF_INIT(64u << 20), got;
		struct gs_export_options o = {.size = sizeof(o)};

		assert_int_equal(sample_session(&in) || sample_entities(&in), 0);
		put_function(&in, ODD, GS_LAYER_USER, GS_CLASS_PROBE, name);
		put_frame(&in, 1, name, name, 12);
		put_stack(&in, 1, 1);
		put_call(&in, 1, ODD, 0, 600, 25)->py_stack = 1;
		write_file(test_path(suffixes[i]), &in, &o);
		got = read_all(test_path(suffixes[i]));
		assert_non_null(strstr((char *)got.data, "ab" BAD));
		assert_non_null(strstr((char *)got.data, BAD "cd"));
		for (size_t k = 0; k < GS_ARRAY_LEN(bad); k++)
			assert_null(strstr((char *)got.data, bad[k]));
		gs_buf_fini(&got);
	}
}

static void folded(void **state)
{
	struct gs_buf got = file_of(".folded", GS_FLAME_AUTO, 0);

	assert_string_equal((char *)got.data, MAIN_THREAD TRAIN
			    ";cudaDeviceSynchronize 300000\n" MAIN_THREAD FORWARD
			    ";aten::linear 40000\n" MAIN_THREAD FORWARD
			    ";aten::linear;aten::addmm 40000\n" MAIN_THREAD FORWARD
			    ";aten::linear;aten::addmm;cudaLaunchKernel 20000\n" MAIN_THREAD
			    "a<b>&\"c\" ]]></script><script>alert(1)</script>,x y " BAD BAD
			    " 25000\n"
			    "trainer (4242);thread line1 line2,\"q\" (4250);AddmmBackward0 35000\n"
			    "trainer (4242);thread line1 line2,\"q\" (4250);AddmmBackward0;"
			    "cudaLaunchKernel 5000\n"
			    "bad" BAD BAD "utf8 (4300);thread bad" BAD BAD "utf8 (4301);"
			    "ncclAllReduce 35000\n");
	gs_buf_fini(&got);
	got = file_of(".folded", GS_FLAME_LAUNCHES, 0);
	assert_string_equal((char *)got.data, MAIN_THREAD FORWARD
			    ";aten::linear;aten::addmm;cudaLaunchKernel 2\n"
			    "trainer (4242);thread line1 line2,\"q\" (4250);AddmmBackward0;"
			    "cudaLaunchKernel 1\n");
	gs_buf_fini(&got);
}

/* A limit cuts whole lines and tells how many. */
static void folded_limit(void **state)
{
	struct gs_export_options o = {.size = sizeof(o), .max_bytes = 300};
	struct gs_buf in = step(), got;
	struct gs_export *e = NULL;
	uint64_t left_out;
	unsigned n = 0;

	assert_int_equal(gs_export_open(test_path(".folded"), &o, &e, NULL), 0);
	assert_int_equal(gs_export_sink(e)->push(gs_export_sink(e)->ctx,
						 &(struct gs_batch){in.data, in.bytes}),
			 0);
	assert_int_equal(gs_export_left_out(e), 0);
	gs_export_end(e);
	left_out = gs_export_left_out(e);
	assert_int_equal(gs_export_close(&e, NULL), 0);
	got = read_all(test_path(".folded"));
	assert_true(got.bytes > 100 && got.bytes <= 300);
	assert_int_equal(got.data[got.bytes - 1], '\n');
	for (size_t i = 0; i < got.bytes; i++)
		n += got.data[i] == '\n';
	assert_true(n >= 1 && n < 8);
	assert_int_equal(n + left_out, 8);
	gs_buf_fini(&in);
	gs_buf_fini(&got);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)) != NULL; text++)
		n++;
	return n;
}

static void svg(void **state)
{
	struct gs_buf got = file_of(".svg", GS_FLAME_TIME, 0);
	const char *text = (char *)got.data;

	assert_int_equal(count(text, "<svg class=\"f "), 17);
	assert_non_null(strstr(text, "500 us on node-7; 1,234 calls or samples were lost"));
	assert_non_null(strstr(text, "the recording was cut off"));
	assert_non_null(strstr(text, "a&lt;b&gt;&amp;&quot;c&quot; ]]&gt;&lt;/script&gt;"));
	assert_null(strstr(text, "alert(1)</script>"));
	/* Nothing is loaded: the only addresses are names of namespaces. */
	assert_int_equal(count(text, "://"), 2);
	assert_int_equal(count(text, "xmlns=\"http://www.w3.org/"), 2);
	gs_buf_fini(&got);
}

static void svg_of_nothing(void **state)
{
	struct gs_buf in = GS_BUF_INIT(1 << 20), got;

	write_file(test_path(".svg"), &in, NULL);
	got = read_all(test_path(".svg"));
	assert_non_null(strstr((char *)got.data, "Nothing was recorded"));
	assert_null(strstr((char *)got.data, "<script"));
	gs_buf_fini(&got);
	write_file(test_path(".folded"), &in, NULL);
	got = read_all(test_path(".folded"));
	assert_int_equal(got.bytes, 0);
	gs_buf_fini(&got);
}

/* A hundred thousand different stacks below one wide one. */
static struct gs_buf wide(void)
{
	struct gs_buf b = GS_BUF_INIT(64u << 20);

	assert_int_equal(sample_session(&b) || sample_entities(&b), 0);
	for (uint32_t i = 1; i <= 300; i++)
		put_frame(&b, i, "f", "a_file.py", i);
	put_stack(&b, 1, 100);
	for (uint32_t i = 0; i < 50000; i++)
		put_function(&b, LINEAR + i, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "op");
	for (uint32_t i = 0; i < 50000; i++)
		put_call(&b, 1, LINEAR + i, 0, 10000 + i, 1);
	put_call(&b, 1, SAMPLE_FUNC_SYNC, 0, 1000000, 50000)->py_stack = 1;
	return b;
}

static void svg_narrow(void **state)
{
	struct gs_export_options o = {.size = sizeof(o)};
	struct gs_buf in = wide(), got;
	size_t whole;

	write_file(test_path(".svg"), &in, &o);
	got = read_all(test_path(".svg"));
	assert_non_null(strstr((char *)got.data, "; 50,000 frames narrower than 0.1 px hidden"));
	assert_int_equal(count((char *)got.data, "<svg class=\"f "), 104);
	whole = got.bytes;
	gs_buf_fini(&got);
	assert_true(whole < 60000);

	/* A limit leaves out the narrowest, and the file is whole. */
	o.max_bytes = whole - 8000;
	write_file(test_path(".svg"), &in, &o);
	got = read_all(test_path(".svg"));
	assert_true(got.bytes <= o.max_bytes);
	assert_non_null(strstr((char *)got.data, "left out for --max-size"));
	assert_string_equal((char *)got.data + got.bytes - 7, "</svg>\n");
	gs_buf_fini(&got);
	gs_buf_fini(&in);
}

static void xml_text(void **state)
{
	static const char *const cases[][2] = {
		{"", ""},
		{"a\tb\nc", "a" BAD "b" BAD "c"},
		{"<>&\"'", "&lt;&gt;&amp;&quot;'"},
		{"\xef\xbf\xbd\xef\xbf\xbe\xef\xbf\xbf", BAD BAD BAD},
		{"\xf0\x9f\x98\x80\xed\xa0\x80", "\xf0\x9f\x98\x80" BAD BAD BAD},
		{"\x7f", BAD},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		char out[64];

		*gs_put_xml(out, cases[i][0], 64) = '\0';
		assert_string_equal(out, cases[i][1]);
	}
}

static int remove_files(void **state)
{
	unlink(test_path(".svg"));
	unlink(test_path(".folded"));
	return rmdir(test_path(NULL));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_are_harmless), cmocka_unit_test(folded),
		cmocka_unit_test(folded_limit),       cmocka_unit_test(svg),
		cmocka_unit_test(svg_of_nothing),     cmocka_unit_test(svg_narrow),
		cmocka_unit_test(xml_text),
	};

	if (argc > 1) {
		GS_CLEANUP(gs_buf_fini) struct gs_buf small = step(), large = wide();
		char path[4096];

		snprintf(path, sizeof(path), "%s/step.svg", argv[1]);
		write_file(path, &small, NULL);
		snprintf(path, sizeof(path), "%s/wide.svg", argv[1]);
		write_file(path, &large, NULL);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, remove_files);
}
