/* Lines of Python code: which line a stack is shown as, and what is counted for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/record_account.h"
#include "model/trace/record_stack.h"
#include "records.h"
#include "pipeline/aggregate/aggregate.h"

static void put_frame(struct stream *s, uint32_t id, const char *file, const char *function,
		      uint32_t line)
{
	uint32_t file_str = put_text(s, file), function_str = put_text(s, function);
	struct gs_rec_frame *f = put_record(s, GS_REC_FRAME, sizeof(*f), 0);

	f->id = id;
	f->frame_kind = GS_FRAME_PYTHON;
	f->file_str = file_str;
	f->function_str = function_str;
	f->line = line;
}

static void put_stack(struct stream *s, uint32_t id, unsigned n, const uint32_t *frames)
{
	struct gs_rec_stack *r = put_record(s, GS_REC_STACK, sizeof(*r), n * sizeof(*frames));

	r->id = id;
	r->process = 1;
	r->stack_kind = GS_STACK_PYTHON;
	r->n_frames = n;
	memcpy(r->frames, frames, n * sizeof(*frames));
}

static void put_sample(struct stream *s, uint32_t stack)
{
	struct gs_rec_sample *r = put_record(s, GS_REC_SAMPLE, sizeof(*r), 0);

	r->thread = 1;
	r->period_ns = 10;
	r->py_stack = stack;
}

static void put_head(struct stream *s)
{
	put_process(s, 1, 100, "python");
	put_thread(s, 1, 1, 100, "python");
	put_function(s, 1, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel");
	put_function(s, 2, GS_LAYER_NCCL, GS_CLASS_COLLECTIVE, "ncclAllReduce");
	put_function(s, 3, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::mm");
	put_frame(s, 1, "/usr/lib/python3/dist-packages/torch/nn/linear.py", "forward", 9);
	put_frame(s, 2, "/home/u/model.py", "step", 20);
	put_frame(s, 3, "/home/u/train.py", "<module>", 30);
	put_stack(s, 1, 3, (uint32_t[]){1, 2, 3});
	put_stack(s, 2, 1, (uint32_t[]){1});
	/* Recursion: a line counts once. */
	put_stack(s, 3, 4, (uint32_t[]){2, 2, 2, 3});
}

static const struct gs_line_stats *line_of(const struct gs_summary *s, uint32_t line)
{
	for (size_t i = 0; i < s->n_python_lines; i++)
		if (s->python_lines[i].line == line)
			return &s->python_lines[i];
	return NULL;
}

static void put_all(struct stream *s)
{
	struct gs_rec_call *c;

	put_head(s);
	for (int i = 0; i < 5; i++)
		put_sample(s, 1);
	put_sample(s, 3);
	put_sample(s, 2);
	put_sample(s, 0);
	put_sample(s, 1000);
	c = put_call(s, 1, 1, 5, 100);
	c->py_stack = 1;
	c = put_call(s, 1, 2, 5, 50);
	c->py_stack = 3;
	c->bytes = 4096;
	c = put_call(s, 1, 1, 5, 7);
	c = put_call(s, 1, 3, 5, 1000);
	c->py_stack = 1;
}

static void put_wait(struct stream *s, uint32_t stack, uint32_t thread, uint32_t cause,
		     uint64_t wait_ns)
{
	struct gs_rec_wait *r = put_record(s, GS_REC_WAIT, sizeof(*r), 0);

	r->thread = thread;
	r->py_stack = stack;
	r->cause = cause;
	r->wait_ns = wait_ns;
}

/* A data loader in the thread that asks it, and in a worker; and code that only looks like one. */
static void loaders_of_data(void **state)
{
	struct gs_summary *summary = NULL;
	struct gs_aggregate *view = NULL;
	STREAM s = STREAM_INIT;

	assert_int_equal(gs_aggregate_new(&view), 0);
	put_head(&s);
	put_frame(&s, 4, "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py",
		  "_BaseDataLoaderIter.__next__", 628);
	put_frame(&s, 5, "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py",
		  "_worker_loop", 302);
	put_frame(&s, 6, "/home/u/data.py", "__getitem__", 40);
	put_frame(&s, 7, "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py",
		  "__init__", 200);
	put_stack(&s, 4, 3, (uint32_t[]){6, 4, 3});
	put_stack(&s, 5, 2, (uint32_t[]){6, 5});
	put_stack(&s, 6, 2, (uint32_t[]){7, 3});
	for (int i = 0; i < 4; i++)
		put_sample(&s, 4);
	for (int i = 0; i < 3; i++)
		put_sample(&s, 5);
	put_sample(&s, 6);
	put_sample(&s, 1);
	put_sample(&s, 0);
	put_wait(&s, 4, 1, GS_STATE_SLEEP, 70);
	put_wait(&s, 4, 1, GS_STATE_DISK, 7);
	put_wait(&s, 4, 1, GS_WAIT_GPU, 1000);
	put_wait(&s, 4, 1, GS_WAIT_GIL, 1000);
	put_wait(&s, 4, 1, GS_STATE_RUNQUEUE, 1000);
	put_wait(&s, 5, 1, GS_STATE_SLEEP, 1000);
	put_wait(&s, 6, 1, GS_STATE_SLEEP, 1000);
	assert_int_equal(stream_push(&s, gs_aggregate_sink(view)), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	assert_int_equal(summary->loader.self_samples, 4);
	assert_int_equal(summary->loader.worker_samples, 3);
	assert_int_equal(summary->loader.other_samples, 3);
	assert_string_equal(summary->loader.file, "/home/u/data.py");
	assert_int_equal(summary->loader.line, 40);
	assert_int_equal(summary->loader.line_samples, 7);
	assert_int_equal(summary->loader.wait_ns, 77);
	assert_int_equal(summary->loader.wait_pid, 100);
	assert_int_equal(summary->loader.wait_tid, 100);
	gs_summary_free(&summary);
	gs_aggregate_free(&view);
}

static void put_account(struct stream *s, uint32_t tid, uint64_t sleep_ns)
{
	struct gs_rec_account *r = put_record(s, GS_REC_ACCOUNT, sizeof(*r),
					      sizeof(uint64_t) * GS_STATE_COUNT * GS_INSIDE_COUNT);

	r->pid = 100;
	r->tid = tid;
	r->n_states = GS_STATE_COUNT;
	r->n_insides = GS_INSIDE_COUNT;
	r->ns[GS_STATE_SLEEP * GS_INSIDE_COUNT] = sleep_ns;
}

/* A line's wall time is that of the threads that it was seen in, each once; an idle one is none of them. */
static void walls_of_lines(void **state)
{
	struct gs_summary *summary = NULL;
	struct gs_aggregate *view = NULL;
	STREAM s = STREAM_INIT;

	assert_int_equal(gs_aggregate_new(&view), 0);
	put_head(&s);
	put_thread(&s, 2, 1, 101, "python");
	put_thread(&s, 3, 1, 102, "python");
	put_wait(&s, 1, 1, GS_STATE_SLEEP, 700);
	put_wait(&s, 1, 1, GS_STATE_SLEEP, 7);
	put_wait(&s, 3, 2, GS_STATE_SLEEP, 7);
	put_wait(&s, 2, 2, GS_STATE_SLEEP, 9);
	for (uint32_t i = 0; i < 3; i++)
		put_account(&s, 100 + i, i == 2 ? 1000000 : 1000 + i);
	assert_int_equal(stream_push(&s, gs_aggregate_sink(view)), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	assert_int_equal(line_of(summary, 20)->wall_ns, 1000 + 1001);
	assert_int_equal(line_of(summary, 9)->wall_ns, 1001);
	assert_int_equal(line_of(summary, 30)->wall_ns, 0);
	gs_summary_free(&summary);
	gs_aggregate_free(&view);
	stream_fini(&s);
}

/* Imports of what is not the program's are one row; code of its own in an import keeps its line. */
static void waiting_lines(void **state)
{
	struct gs_summary *summary = NULL;
	struct gs_aggregate *view = NULL;
	const struct gs_line_stats *l;
	STREAM s = STREAM_INIT;

	assert_int_equal(gs_aggregate_new(&view), 0);
	put_head(&s);
	put_frame(&s, 4, "<frozen importlib._bootstrap>", "_find_and_load", 1007);
	put_frame(&s, 5, "/usr/lib/python3/dist-packages/torch/__init__.py", "<module>", 5);
	put_frame(&s, 6, "/home/u/mine.py", "<module>", 60);
	put_stack(&s, 4, 3, (uint32_t[]){5, 4, 3});
	put_stack(&s, 5, 4, (uint32_t[]){5, 6, 4, 3});
	put_wait(&s, 1, 1, GS_STATE_SLEEP, 700);
	put_wait(&s, 1, 1, GS_WAIT_GIL, 30);
	put_wait(&s, 1, 1, GS_STATE_SLEEP, 7);
	put_wait(&s, 0, 1, GS_WAIT_MANY, 11);
	put_wait(&s, 0, 1, GS_WAIT_BARE, 13);
	put_wait(&s, 4, 1, GS_STATE_DISK, 500);
	put_wait(&s, 5, 1, GS_STATE_DISK, 60);
	assert_int_equal(stream_push(&s, gs_aggregate_sink(view)), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	l = line_of(summary, 20);
	assert_non_null(l);
	assert_int_equal(l->wait_ns, 737);
	assert_int_equal(l->wait_by_cause_ns[GS_STATE_SLEEP], 707);
	assert_int_equal(l->wait_by_cause_ns[GS_WAIT_GIL], 30);
	assert_int_equal(l->samples, 0);
	l = line_of(summary, 30);
	assert_non_null(l);
	assert_int_equal(l->wait_ns, 0);
	assert_int_equal(l->total_wait_ns, 737 + 560);
	l = line_of(summary, 0);
	assert_non_null(l);
	assert_string_equal(l->file, "(imports)");
	assert_int_equal(l->wait_ns, 500);
	l = line_of(summary, 60);
	assert_non_null(l);
	assert_int_equal(l->wait_ns, 60);
	assert_int_equal(summary->python_bare_wait_ns, 13);
	assert_int_equal(summary->python_many_wait_ns, 11);
	gs_summary_free(&summary);
	gs_aggregate_free(&view);
	stream_fini(&s);
}

static void put_stack_of(struct stream *s, uint32_t id, uint32_t process, uint32_t frame)
{
	struct gs_rec_stack *r = put_record(s, GS_REC_STACK, sizeof(*r), sizeof(frame));

	r->id = id;
	r->process = process;
	r->stack_kind = GS_STACK_PYTHON;
	r->n_frames = 1;
	r->frames[0] = frame;
}

/* Each process once, in their order, however many stacks; more than 64 are none. */
static void processes_of_a_line(void **state)
{
	struct gs_summary *summary = NULL;
	struct gs_aggregate *view = NULL;
	const struct gs_line_stats *l;
	STREAM s = STREAM_INIT;

	assert_int_equal(gs_aggregate_new(&view), 0);
	for (uint32_t i = 1; i <= 65; i++)
		put_process(&s, i, 1000 + i, "python");
	put_thread(&s, 1, 1, 1001, "python");
	put_frame(&s, 1, "/home/u/few.py", "few", 1);
	put_frame(&s, 2, "/home/u/many.py", "many", 2);
	for (uint32_t i = 1; i <= 65; i++) {
		put_stack_of(&s, i, i, 2);
		put_sample(&s, i);
	}
	put_stack_of(&s, 200, 7, 1);
	put_stack_of(&s, 201, 5, 1);
	put_stack_of(&s, 202, 7, 1);
	for (uint32_t i = 200; i <= 202; i++)
		put_sample(&s, i);
	assert_int_equal(stream_push(&s, gs_aggregate_sink(view)), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	l = line_of(summary, 1);
	assert_int_equal(l->n_pids, 2);
	assert_int_equal(l->pids[0], 1005);
	assert_int_equal(l->pids[1], 1007);
	assert_int_equal(line_of(summary, 2)->n_pids, 0);
	gs_summary_free(&summary);
	gs_aggregate_free(&view);
	stream_fini(&s);
}

static void usual_lines(void **state)
{
	struct gs_summary *summary = NULL;
	struct gs_aggregate *view = NULL;
	const struct gs_line_stats *l;
	STREAM s = STREAM_INIT;

	assert_int_equal(gs_aggregate_new(&view), 0);
	put_all(&s);
	assert_int_equal(stream_push(&s, gs_aggregate_sink(view)), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	assert_int_equal(summary->has_python, 1);
	assert_int_equal(summary->n_python_lines, 3);
	assert_int_equal(summary->python_bare_samples, 2);
	l = line_of(summary, 20);
	assert_string_equal(l->file, "/home/u/model.py");
	assert_int_equal(l->n_pids, 1);
	assert_int_equal(l->pids[0], 100);
	assert_int_equal(l->samples, 6);
	assert_int_equal(l->sample_ns, 60);
	assert_int_equal(l->total_samples, 6);
	assert_int_equal(l->launches, 1);
	assert_int_equal(l->collectives, 1);
	assert_int_equal(l->calls, 2);
	assert_int_equal(l->call_ns, 150);
	assert_int_equal(l->bytes, 4096);
	assert_int_equal(l->slow_ops, 1);
	assert_int_equal(l->op_ns, 1000);
	l = line_of(summary, 30);
	assert_int_equal(l->samples, 0);
	assert_int_equal(l->total_samples, 6);
	/* A stack of nothing but a library. */
	l = line_of(summary, 9);
	assert_int_equal(l->samples, 1);
	assert_int_equal(l->total_samples, 1);
	gs_summary_free(&summary);
	gs_aggregate_free(&view);
}

static void other_filters(void **state)
{
	static const char *const globs[] = {"*/model.py"};

	for (int none = 0; none < 2; none++) {
		struct gs_summary *summary = NULL;
		struct gs_aggregate *view = NULL;
		STREAM s = STREAM_INIT;

		assert_int_equal(gs_aggregate_new(&view), 0);
		assert_int_equal(gs_aggregate_set_line_filter(view, globs, !none), 0);
		put_all(&s);
		assert_int_equal(stream_push(&s, gs_aggregate_sink(view)), 0);
		assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
		/* Stack 1 begins with line 9; stack 3 is shown as 30, or as 20. */
		assert_int_equal(line_of(summary, 9)->launches, 1);
		assert_int_equal(line_of(summary, none ? 20 : 30)->collectives, 1);
		if (!none)
			assert_null(line_of(summary, 20));
		gs_summary_free(&summary);
		gs_aggregate_free(&view);
	}
}

static void stack_that_comes_late(void **state)
{
	struct gs_summary *summary = NULL;
	struct gs_aggregate *view = NULL;
	STREAM s = STREAM_INIT;

	assert_int_equal(gs_aggregate_new(&view), 0);
	put_head(&s);
	put_sample(&s, 50);
	put_stack(&s, 50, 1, (uint32_t[]){3});
	assert_int_equal(stream_push(&s, gs_aggregate_sink(view)), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	assert_int_equal(line_of(summary, 30)->samples, 1);
	gs_summary_free(&summary);
	gs_aggregate_free(&view);
}

static void numbers_out_of_range(void **state)
{
	struct gs_summary *summary = NULL;
	struct gs_aggregate *view = NULL;
	STREAM s = STREAM_INIT;

	assert_int_equal(gs_aggregate_new(&view), 0);
	put_head(&s);
	put_stack(&s, 60, 3, (uint32_t[]){0, 4000000000u, 777});
	put_sample(&s, 60);
	put_sample(&s, 4000000000u);
	assert_int_equal(stream_push(&s, gs_aggregate_sink(view)), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	assert_int_equal(summary->n_python_lines, 0);
	assert_int_equal(summary->python_bare_samples, 2);
	gs_summary_free(&summary);
	/* Without any stack there is no such part. */
	gs_aggregate_free(&view);
	assert_int_equal(gs_aggregate_new(&view), 0);
	assert_int_equal(gs_aggregate_make_summary(view, &summary), 0);
	assert_int_equal(summary->has_python, 0);
	gs_summary_free(&summary);
	gs_aggregate_free(&view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(walls_of_lines),        cmocka_unit_test(waiting_lines),
		cmocka_unit_test(processes_of_a_line),   cmocka_unit_test(usual_lines),
		cmocka_unit_test(loaders_of_data),       cmocka_unit_test(other_filters),
		cmocka_unit_test(stack_that_comes_late), cmocka_unit_test(numbers_out_of_range),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
