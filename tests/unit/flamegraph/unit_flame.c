/* What pipeline/flamegraph/flame.h says: each case is a stream and the lines that its tree makes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "model/trace/account.h"
#include "pipeline/flamegraph/flame.h"
#include "unit/aggregate/records.h"

enum { LAUNCH = 1, COPY, LINEAR, ADDMM, BACKWARD, STEP, ALLREDUCE, MALLOC };

static void put_frame(struct stream *s, uint32_t id, unsigned kind, const char *function,
		      const char *file, uint32_t line)
{
	uint32_t function_str = *function ? put_text(s, function) : 0, file_str = put_text(s, file);
	struct gs_rec_frame *f = put_record(s, GS_REC_FRAME, sizeof(*f), 0);

	f->id = id;
	f->frame_kind = (uint16_t)kind;
	f->function_str = function_str;
	f->file_str = file_str;
	f->line = line;
	f->file_off = 0x1234;
}

/* Frames from the innermost, ended by 0. */
static void put_stack(struct stream *s, uint32_t id, unsigned kind, const uint32_t *frames)
{
	uint32_t n = 0;
	struct gs_rec_stack *t;

	while (frames[n])
		n++;
	t = put_record(s, GS_REC_STACK, sizeof(*t), n * sizeof(uint32_t));
	t->id = id;
	t->process = 1;
	t->stack_kind = (uint16_t)kind;
	t->n_frames = n;
	memcpy(t->frames, frames, n * sizeof(uint32_t));
}

#define STACK(s, id, kind, ...) put_stack(s, id, kind, (const uint32_t[]){__VA_ARGS__, 0})

enum { PY_TRAIN = 1, PY_EVAL, PY_DEEP, NATIVE, NATIVE_OP, NATIVE_PLAIN };

static void put_world(struct stream *s)
{
	put_process(s, 1, 100, "python3");
	put_thread(s, 1, 1, 100, "python3");
	put_thread(s, 2, 1, 101, "autograd");
	put_function(s, LAUNCH, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel");
	put_function(s, COPY, GS_LAYER_CUDA_RUNTIME, GS_CLASS_COPY, "cudaMemcpyAsync");
	put_function(s, LINEAR, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::linear");
	put_function(s, ADDMM, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::addmm");
	put_function(s, BACKWARD, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "backward");
	put_function(s, STEP, GS_LAYER_PYTHON, GS_CLASS_PYTHON, "step");
	put_function(s, ALLREDUCE, GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, "ncclAllReduce");
	put_function(s, MALLOC, GS_LAYER_CUDA_RUNTIME, GS_CLASS_ALLOC, "cudaMalloc");
}

static void put_stacks(struct stream *s)
{
	put_frame(s, 1, GS_FRAME_PYTHON, "main", "/home/u/exp/train.py", 40);
	put_frame(s, 2, GS_FRAME_PYTHON, "Linear.forward",
		  "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py", 114);
	put_frame(s, 3, GS_FRAME_PYTHON, "evaluate", "eval.py", 0);
	put_frame(s, 4, GS_FRAME_PYTHON, "hook", "/home/u/exp/hooks.py", 7);
	put_frame(s, 10, GS_FRAME_NATIVE, "main", "/usr/bin/python3.11", 0);
	put_frame(s, 11, GS_FRAME_NATIVE, "_PyEval_EvalFrameDefault", "/usr/bin/python3.11", 0);
	put_frame(s, 12, GS_FRAME_NATIVE, "THPVariable_linear", "/l/libtorch_python.so", 0);
	put_frame(s, 13, GS_FRAME_NATIVE, "at::_ops::linear::call(at::Tensor const&)",
		  "/l/libtorch_cpu.so", 0);
	put_frame(s, 14, GS_FRAME_NATIVE, "", "/l/libtorch_cuda.so", 0);
	put_frame(s, 15, GS_FRAME_NATIVE, "cudaLaunchKernel", "/l/libcudart.so", 0);
	STACK(s, PY_TRAIN, GS_STACK_PYTHON, 2, 1);
	STACK(s, PY_EVAL, GS_STACK_PYTHON, 3);
	STACK(s, PY_DEEP, GS_STACK_PYTHON, 4, 2, 1);
	STACK(s, NATIVE, GS_STACK_NATIVE, 15, 14, 13, 12, 11, 10);
	STACK(s, NATIVE_OP, GS_STACK_NATIVE, 12, 11, 10);
	STACK(s, NATIVE_PLAIN, GS_STACK_NATIVE, 15, 14);
}

static struct gs_rec_call *put(struct stream *s, uint32_t thread, uint32_t function, uint32_t scope,
			       unsigned depth, uint64_t start_ns, uint64_t end_ns)
{
	struct gs_rec_call *c = put_call(s, thread, function, start_ns, end_ns - start_ns);

	c->scope = scope;
	c->depth = (uint8_t)depth;
	return c;
}

static void put_sample(struct stream *s, uint32_t thread, uint32_t scope, uint32_t py_stack,
		       uint32_t native_stack, uint64_t period_ns)
{
	struct gs_rec_sample *r = put_record(s, GS_REC_SAMPLE, sizeof(*r), 0);

	r->thread = thread;
	r->scope = scope;
	r->py_stack = py_stack;
	r->native_stack = native_stack;
	r->period_ns = period_ns;
}

struct world {
	struct gs_dict *dict;
	struct gs_flame *flame;
	struct gs_buf text; /* lines as of gs_flame, terminated */
	uint64_t total;
};

static void world_fini(struct world *w)
{
	gs_flame_free(&w->flame);
	gs_dict_free(&w->dict);
	gs_buf_fini(&w->text);
}

#define WORLD GS_CLEANUP(world_fini) struct world

static void add_line(struct world *w, const struct gs_flame_node *nodes, uint32_t node)
{
	char label[GS_FLAME_LABEL_BYTES];
	uint32_t way[600], n = 0;

	for (uint32_t i = node; i; i = nodes[i].parent)
		way[n++] = i;
	while (n--)
		assert_int_equal(gs_buf_printf(&w->text, "%s%s",
					       gs_flame_label(w->flame, way[n], label),
					       n ? ";" : ""),
				 0);
	assert_int_equal(gs_buf_printf(&w->text, " %llu\n", (unsigned long long)nodes[node].self),
			 0);
}

/* The whole way: records, tree, a line for each node with a weight of its own, heaviest first. */
static struct world shown(struct stream *s, enum gs_flame_by by)
{
	struct world w = {.dict = gs_dict_new(), .text = GS_BUF_INIT(1u << 24)};
	struct gs_batch b = stream_batch(s);
	const struct gs_flame_node *nodes;
	uint64_t sum = 0;
	uint32_t n, i = 0;

	assert_non_null(w.dict);
	gs_dict_keep_stacks(w.dict);
	assert_int_equal(gs_flame_new(w.dict, by, &w.flame), 0);
	gs_records_for_each (&b, r) {
		assert_int_equal(gs_dict_apply(w.dict, r), 0);
		assert_int_equal(gs_flame_record(w.flame, r), 0);
	}
	assert_int_equal(gs_flame_finish(w.flame), 0);
	nodes = gs_flame_nodes(w.flame, &n);
	for (uint32_t k = 0; k < n; k++)
		sum += nodes[k].self;
	assert_int_equal(sum, nodes[0].total);
	w.total = nodes[0].total;
	assert_int_equal(gs_buf_puts(&w.text, ""), 0);
	do {
		if (nodes[i].self)
			add_line(&w, nodes, i);
		if (nodes[i].first_child) {
			assert_true(nodes[i].first_child > i);
			i = nodes[i].first_child;
			continue;
		}
		while (i && !nodes[i].next)
			i = nodes[i].parent;
		if (i)
			assert_true(nodes[nodes[i].next].total <= nodes[i].total);
		i = nodes[i].next;
	} while (i);
	return w;
}

static void check(struct stream *s, enum gs_flame_by by, const char *want)
{
	WORLD w = shown(s, by);

	assert_string_equal(w.text.data ? (const char *)w.text.data : "", want);
}

#define T1 "python3 (100);thread python3 (100);"
#define T2 "python3 (100);thread autograd (101);"

static void operators_by_time(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	/* linear [100,1000] { addmm [200,600] { launch, launch }, copy } then a bare launch */
	put(&s, 1, LAUNCH, ADDMM, 0, 250, 300);
	put(&s, 1, LAUNCH, ADDMM, 0, 310, 340);
	put(&s, 1, ADDMM, LINEAR, 1, 200, 600);
	put(&s, 2, LAUNCH, BACKWARD, 0, 400, 450);
	put(&s, 1, COPY, LINEAR, 0, 700, 900);
	put(&s, 1, LINEAR, 0, 0, 100, 1000);
	put(&s, 2, BACKWARD, 0, 0, 390, 500);
	put(&s, 1, LAUNCH, 0, 0, 1100, 1107);
	check(&s, GS_FLAME_AUTO,
	      T1 "aten::linear 300\n" T1 "aten::linear;aten::addmm 320\n" T1
		 "aten::linear;aten::addmm;cudaLaunchKernel 80\n" T1
		 "aten::linear;cudaMemcpyAsync 200\n" T1 "cudaLaunchKernel 7\n" T2
		 "backward 60\n" T2 "backward;cudaLaunchKernel 50\n");
	check(&s, GS_FLAME_LAUNCHES,
	      T1 "aten::linear;aten::addmm;cudaLaunchKernel 2\n" T1 "cudaLaunchKernel 1\n" T2
		 "backward;cudaLaunchKernel 1\n");
}

static void bytes_and_failures(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	put(&s, 1, COPY, LINEAR, 0, 10, 20)->bytes = 1000;
	put(&s, 1, COPY, LINEAR, 0, 20, 30)->bytes = 24;
	put(&s, 1, MALLOC, LINEAR, 0, 30, 31)->bytes = 77;
	{
		struct gs_rec_call *c = put(&s, 1, COPY, LINEAR, 0, 31, 32);

		c->bytes = 5000;
		c->failed = 1;
	}
	put(&s, 1, LINEAR, 0, 0, 5, 40);
	put(&s, 1, ALLREDUCE, 0, 0, 50, 60)->bytes = 4;
	{
		struct gs_rec_call *c = put(&s, 1, LAUNCH, 0, 0, 61, 62);

		c->failed = 1;
	}
	check(&s, GS_FLAME_BYTES, T1 "aten::linear;cudaMemcpyAsync 1024\n" T1 "ncclAllReduce 4\n");
	check(&s, GS_FLAME_MEMORY, T1 "aten::linear;cudaMalloc 77\n");
	check(&s, GS_FLAME_LAUNCHES, "");
	check(&s, GS_FLAME_SAMPLES, "");
}

/* The same operator twice, from two lines; it has no stack of its own and takes that of the launch
 * inside it. Inside, another Python function stands below the operator. */
static void python_over_operators(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	put(&s, 1, LAUNCH, LINEAR, 0, 20, 30)->py_stack = PY_TRAIN;
	put(&s, 1, LAUNCH, LINEAR, 0, 30, 35)->py_stack = PY_DEEP;
	put(&s, 1, LINEAR, 0, 0, 10, 50);
	put(&s, 1, LAUNCH, LINEAR, 0, 70, 73)->py_stack = PY_EVAL;
	put(&s, 1, LINEAR, 0, 0, 60, 80);
	put(&s, 1, LAUNCH, 0, 0, 90, 91)->py_stack = 4711; /* never told */
	put_stacks(&s);                                    /* told after the calls */
#define TRAIN "main (exp/train.py:40);Linear.forward (torch/nn/modules/linear.py:114)"
	check(&s, GS_FLAME_TIME,
	      T1 TRAIN ";aten::linear 25\n" T1 TRAIN ";aten::linear;cudaLaunchKernel 10\n" T1 TRAIN
		       ";aten::linear;hook (exp/hooks.py:7);cudaLaunchKernel 5\n" T1
		       "evaluate (eval.py);aten::linear 17\n" T1
		       "evaluate (eval.py);aten::linear;cudaLaunchKernel 3\n" T1
		       "cudaLaunchKernel 1\n");
}

static void python_over_native(void **state)
{
	struct gs_rec_call *c;
	STREAM s = STREAM_INIT;

	put_world(&s);
	put_stacks(&s);
	/* Without an operator: all inside the interpreter. */
	c = put(&s, 1, LAUNCH, 0, 0, 10, 11);
	c->py_stack = PY_TRAIN;
	c->native_stack = NATIVE;
	check(&s, GS_FLAME_TIME,
	      T1 TRAIN ";THPVariable_linear;at::_ops::linear::call(at::Tensor const&);"
		       "libtorch_cuda.so+0x1234;cudaLaunchKernel 1\n");
	/* Below one, what is inside it. */
	c = put(&s, 1, LAUNCH, LINEAR, 0, 21, 25);
	c->py_stack = PY_TRAIN;
	c->native_stack = NATIVE;
	c = put(&s, 1, LINEAR, 0, 0, 20, 30);
	c->py_stack = PY_TRAIN;
	c->native_stack = NATIVE_OP;
	/* No interpreter in sight: all of it. */
	put(&s, 2, LAUNCH, 0, 0, 10, 12)->native_stack = NATIVE_PLAIN;
	check(&s, GS_FLAME_TIME,
	      T1 TRAIN ";THPVariable_linear;aten::linear 6\n" T1 TRAIN
		       ";THPVariable_linear;aten::linear;libtorch_cuda.so+0x1234;"
		       "cudaLaunchKernel 4\n" T1 TRAIN
		       ";THPVariable_linear;at::_ops::linear::call(at::Tensor const&);"
		       "libtorch_cuda.so+0x1234;cudaLaunchKernel 1\n" T2
		       "libtorch_cuda.so+0x1234;cudaLaunchKernel 2\n");
}

/* Python functions seen as calls: stacks of what they called say nothing new. */
static void python_as_calls(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	put_stacks(&s);
	put(&s, 1, LAUNCH, LINEAR, 0, 20, 30)->py_stack = PY_TRAIN;
	put(&s, 1, LINEAR, STEP, 1, 15, 40);
	put(&s, 1, STEP, STEP, 1, 10, 50); /* recursion */
	put(&s, 1, STEP, 0, 0, 5, 60);
	check(&s, GS_FLAME_TIME,
	      T1 "step 15\n" T1 "step;step 15\n" T1 "step;step;aten::linear 15\n" T1
		 "step;step;aten::linear;cudaLaunchKernel 10\n");
}

static void samples(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	put_sample(&s, 1, 0, PY_TRAIN, NATIVE_OP, 10);
	put_sample(&s, 1, 0, PY_TRAIN, NATIVE_OP, 11);
	put_sample(&s, 1, LINEAR, PY_TRAIN, NATIVE, 5);
	put_sample(&s, 2, 0, 0, 0, 3);
	put(&s, 1, LAUNCH, 0, 0, 10, 1000);
	put_stacks(&s);
	check(&s, GS_FLAME_AUTO,
	      T1 TRAIN ";THPVariable_linear 21\n" T1 TRAIN
		       ";aten::linear;libtorch_cuda.so+0x1234;cudaLaunchKernel 5\n"
		       "python3 (100);thread autograd (101) 3\n");
	check(&s, GS_FLAME_TIME, T1 "cudaLaunchKernel 990\n");
}

/* Equal times, no time at all, and what never returned (told outermost first). */
static void put_wait(struct stream *s, uint32_t thread, uint32_t py_stack, uint32_t cause,
		     uint64_t ns)
{
	struct gs_rec_wait *w = put_record(s, GS_REC_WAIT, sizeof(*w), 0);

	w->thread = thread;
	w->py_stack = py_stack;
	w->cause = cause;
	w->wait_ns = ns;
}

/* Waiting stands below its line, apart from running there; a cause that is not known is "other". */
static void waits_beside_samples(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	put_sample(&s, 1, 0, PY_TRAIN, 0, 10);
	put_wait(&s, 1, PY_TRAIN, GS_STATE_LOCK, 30);
	put_wait(&s, 1, PY_TRAIN, GS_STATE_LOCK, 3);
	put_wait(&s, 1, PY_TRAIN, GS_WAIT_GPU, 7);
	put_wait(&s, 2, 0, 1000, 4);
	put(&s, 1, LAUNCH, 0, 0, 10, 1000);
	put_stacks(&s);
	check(&s, GS_FLAME_AUTO,
	      T1 TRAIN " 10\n" T1 TRAIN ";[waiting: lock] 33\n" T1 TRAIN ";[waiting: gpu] 7\n" T2
		       "[waiting: other] 4\n");
	check(&s, GS_FLAME_WALL,
	      T1 TRAIN " 10\n" T1 TRAIN ";[waiting: lock] 33\n" T1 TRAIN ";[waiting: gpu] 7\n" T2
		       "[waiting: other] 4\n");
	check(&s, GS_FLAME_SAMPLES, T1 TRAIN " 10\n");
	check(&s, GS_FLAME_TIME, T1 "cudaLaunchKernel 990\n");
}

static void edges_of_time(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	put(&s, 1, LAUNCH, ADDMM, 0, 10, 10);
	put(&s, 1, LAUNCH, ADDMM, 0, 10, 20);
	put(&s, 1, ADDMM, LINEAR, 1, 10, 20);
	put(&s, 1, LINEAR, 0, 0, 10, 20);
	/* Ends where the next begins: beside, not inside. */
	put(&s, 1, LINEAR, BACKWARD, 1, 30, 30);
	put(&s, 1, ADDMM, BACKWARD, 1, 30, 40);
	put(&s, 1, BACKWARD, 0, 0, 30, 41);
	put(&s, 1, LAUNCH, STEP, 1, 60, 70);
	put(&s, 1, STEP, 0, 0, 50, 100)->call_flags = GS_CALL_UNFINISHED;
	put(&s, 1, LINEAR, STEP, 1, 80, 101)->call_flags = GS_CALL_UNFINISHED;
	put(&s, 1, LAUNCH, LINEAR, 0, 90, 102)->call_flags = GS_CALL_UNFINISHED;
	check(&s, GS_FLAME_TIME,
	      T1 "step 19\n" T1 "step;aten::linear 9\n" T1
		 "step;aten::linear;cudaLaunchKernel 12\n" T1 "step;cudaLaunchKernel 10\n" T1
		 "backward 1\n" T1 "backward;aten::addmm 10\n" T1
		 "aten::linear;aten::addmm;cudaLaunchKernel 10\n");
}

/* The operator's own event was lost: its calls still stand below its name. */
static void lost_parents(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	put(&s, 1, LAUNCH, ADDMM, 0, 10, 15);
	put(&s, 1, LAUNCH, LINEAR, 0, 20, 26); /* of a linear that is not lost */
	put(&s, 1, LINEAR, 0, 0, 19, 30);
	put(&s, 7, LAUNCH, 0, 0, 20, 22); /* a thread never announced */
	put(&s, 1, 99, 0, 0, 40, 41);     /* a function likewise */
	check(&s, GS_FLAME_TIME,
	      T1 "aten::linear 5\n" T1 "aten::linear;cudaLaunchKernel 6\n" T1
		 "aten::addmm;cudaLaunchKernel 5\n" T1 "unknown 1\n"
		 "unknown process;unknown thread;cudaLaunchKernel 2\n");
}

/* Far more parents lost than can wait. */
static void many_lost_parents(void **state)
{
	STREAM s = STREAM_INIT;

	put_world(&s);
	for (unsigned i = 0; i < 100000; i++)
		put(&s, 1, LAUNCH, i % 2 ? LINEAR : ADDMM, i % 3, 10 * i, 10 * i + 2);
	check(&s, GS_FLAME_TIME,
	      T1 "aten::linear;cudaLaunchKernel 100000\n" T1
		 "aten::addmm;cudaLaunchKernel 100000\n");
}

/* A million calls below one that lasts: memory does not grow with their number. */
static void long_parent(void **state)
{
	STREAM s = STREAM_INIT;
	uint64_t t = 10;

	put_world(&s);
	for (unsigned i = 0; i < 100000; i++, t += 10) {
		put(&s, 1, LAUNCH, LINEAR, 0, t, t + 2);
		put(&s, 1, LINEAR, STEP, 1, t, t + 5);
	}
	put(&s, 1, STEP, 0, 0, 5, t);
	{
		const struct gs_flame_node *nodes;
		WORLD w = shown(&s, GS_FLAME_TIME);
		uint32_t n;

		nodes = gs_flame_nodes(w.flame, &n);
		assert_int_equal(n, 6);
		assert_int_equal(nodes[0].total, t - 5);
		assert_int_equal(gs_flame_coarse(w.flame), 0);
	}
}

/* More different ways than there is room for: nothing is lost, and it is told. */
static void no_room(void **state)
{
	STREAM s = STREAM_INIT;
	const unsigned n = GS_FLAME_MAX_NODES + 1000;

	put_world(&s);
	for (unsigned i = 0; i < n; i++)
		put(&s, 1, LAUNCH, 0, 0, 10 * i, 10 * i + 1)->py_stack = i + 1;
	for (unsigned i = 0; i < n; i++)
		put_sample(&s, 1, LINEAR, i + 1, 0, 1);
	{
		WORLD w = shown(&s, GS_FLAME_TIME);

		assert_int_equal(w.total, n);
		assert_in_range(gs_flame_coarse(w.flame), 1000, 1010);
	}
	{
		WORLD w = shown(&s, GS_FLAME_SAMPLES);

		assert_int_equal(w.total, n);
		assert_in_range(gs_flame_coarse(w.flame), 1000, 1010);
	}
}

/* Higher than the bound: side by side from there on, and every weight is there. */
static void very_deep(void **state)
{
	STREAM s = STREAM_INIT;
	uint64_t end = 1000000;

	put_world(&s);
	for (unsigned i = 0; i < 5000; i++)
		put(&s, 1, STEP, STEP, 1, 500000 - i, 500000 + i + 1);
	put(&s, 1, STEP, 0, 0, 1, end);
	{
		WORLD w = shown(&s, GS_FLAME_TIME);

		assert_true(w.total >= end - 1);
	}
}

static void words(void **state)
{
	enum gs_flame_by by;

	for (unsigned i = 0; i < GS_FLAME_BY_COUNT; i++) {
		assert_int_equal(gs_flame_by_parse(gs_flame_by_name(i), &by), 0);
		assert_int_equal(by, i);
	}
	assert_int_equal(gs_flame_by_parse("", &by), -EINVAL);
	assert_int_equal(gs_flame_by_parse("Time", &by), -EINVAL);
	assert_string_equal(gs_flame_by_name(99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operators_by_time),
		cmocka_unit_test(bytes_and_failures),
		cmocka_unit_test(python_over_operators),
		cmocka_unit_test(python_over_native),
		cmocka_unit_test(python_as_calls),
		cmocka_unit_test(samples),
		cmocka_unit_test(waits_beside_samples),
		cmocka_unit_test(edges_of_time),
		cmocka_unit_test(lost_parents),
		cmocka_unit_test(many_lost_parents),
		cmocka_unit_test(long_parent),
		cmocka_unit_test(no_room),
		cmocka_unit_test(very_deep),
		cmocka_unit_test(words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
