/* What ran under chosen Python functions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "model/trace/record_stack.h"
#include "records.h"
#include "pipeline/correlate/python_glob.h"
#include "pipeline/aggregate/under.h"

enum { WANTED = 1, OTHER, LAUNCH };

static void put_func(struct stream *s, uint32_t id, unsigned layer, unsigned func_class,
		     const char *name, const char *file)
{
	uint32_t name_str = put_text(s, name), file_str = file ? put_text(s, file) : 0;
	struct gs_rec_function *f = put_record(s, GS_REC_FUNCTION, sizeof(*f), 0);

	f->id = id;
	f->layer = (uint16_t)layer;
	f->func_class = (uint16_t)func_class;
	f->name_str = name_str;
	f->file_str = file_str;
}

static void put_at(struct stream *s, uint32_t thread, uint32_t function, uint64_t start,
		   uint64_t dur, uint32_t stack, unsigned flags)
{
	struct gs_rec_call *c = put_record(s, GS_REC_CALL, sizeof(*c), 0);

	c->thread = thread;
	c->function = function;
	c->start_ns = start;
	c->dur_ns = dur;
	c->py_stack = stack;
	c->call_flags = (uint8_t)flags;
}

static void put_stack(struct stream *s, uint32_t id, uint32_t frame, const char *function)
{
	uint32_t function_str = put_text(s, function), file_str = put_text(s, "/m/train.py");
	struct gs_rec_frame *f = put_record(s, GS_REC_FRAME, sizeof(*f), 0);
	struct gs_rec_stack *k;

	f->id = frame;
	f->frame_kind = GS_FRAME_PYTHON;
	f->function_str = function_str;
	f->file_str = file_str;
	k = put_record(s, GS_REC_STACK, sizeof(*k), sizeof(uint32_t));
	k->id = id;
	k->n_frames = 1;
	k->frames[0] = frame;
}

static void fill(struct stream *s)
{
	struct gs_rec_sample *sample;
	struct gs_rec_stats *stats;
	struct gs_rec_values *values;

	put_func(s, WANTED, GS_LAYER_PYTHON, GS_CLASS_PYTHON, "train.py:step/7", "/m/train.py");
	put_func(s, OTHER, GS_LAYER_PYTHON, GS_CLASS_PYTHON, "train.py:steps/9", "/m/train.py");
	put_func(s, LAUNCH, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel", NULL);
	put_stack(s, 5, 1, "step");
	put_stack(s, 6, 2, "other");
	/* Recursion: the inner one is told first. */
	put_at(s, 1, LAUNCH, 110, 5, 0, 0);
	put_at(s, 1, WANTED, 105, 20, 0, 0);
	put_at(s, 1, WANTED, 100, 50, 0, 0);
	put_at(s, 1, OTHER, 90, 100, 0, 0);
	/* After it, on another thread, and known by stacks. */
	put_at(s, 1, LAUNCH, 160, 5, 0, 0);
	put_at(s, 2, LAUNCH, 110, 5, 0, 0);
	put_at(s, 2, LAUNCH, 120, 5, 5, 0);
	put_at(s, 2, LAUNCH, 130, 5, 6, 0);
	values = put_record(s, GS_REC_VALUES, sizeof(*values), 0);
	put_at(s, 3, LAUNCH, 300, 5, 0, 0);
	values = put_record(s, GS_REC_VALUES, sizeof(*values), 0);
	(void)values;
	put_at(s, 3, LAUNCH, 510, 5, 0, 0);
	sample = put_record(s, GS_REC_SAMPLE, sizeof(*sample), 0);
	sample->thread = 3;
	sample->time_ns = 520;
	sample = put_record(s, GS_REC_SAMPLE, sizeof(*sample), 0);
	sample->thread = 3;
	sample->time_ns = 420;
	stats = put_record(s, GS_REC_STATS, sizeof(*stats), 0);
	stats->calls = 3;
	/* Told at the end, when it had not returned. */
	put_at(s, 3, WANTED, 500, 1000, 0, GS_CALL_UNFINISHED);
}

static void calls_and_samples_are_chosen(void **state)
{
	STREAM s = STREAM_INIT;
	struct gs_py_glob glob;
	struct gs_aggregate_under *u;
	struct gs_batch batch, chosen;
	unsigned n[GS_REC_COUNT] = {0}, n_launches = 0;

	fill(&s);
	batch = stream_batch(&s);
	assert_int_equal(gs_correlate_parse_py_glob("train.py:step", &glob), 0);
	u = gs_aggregate_under_new(&glob, 1);
	assert_non_null(u);
	assert_int_equal(gs_aggregate_under_scan(u, &batch), 0);
	assert_int_equal(gs_aggregate_under_choose(u, &batch, &chosen), 0);
	gs_records_for_each (&chosen, r) {
		const struct gs_rec_call *c = (const void *)r;

		n[r->kind]++;
		if (r->kind == GS_REC_CALL && c->function == LAUNCH)
			n_launches++;
		if (r->kind == GS_REC_CALL)
			assert_int_not_equal(c->function, OTHER);
	}
	/* 110 within, 120 by its stack, 510 in the one that is open. */
	assert_int_equal(n_launches, 3);
	assert_int_equal(n[GS_REC_CALL], 6);
	assert_int_equal(n[GS_REC_VALUES], 1);
	assert_int_equal(n[GS_REC_SAMPLE], 1);
	assert_int_equal(n[GS_REC_STATS], 0);
	assert_int_equal(n[GS_REC_FUNCTION], 3);
	assert_int_equal(n[GS_REC_STACK], 2);
	assert_int_equal(gs_aggregate_under_n_chosen(u), 7);
	assert_int_equal(gs_aggregate_under_n_added_up(u), 3);
	gs_aggregate_under_free(&u);
	assert_null(u);
}

static void nothing_is_chosen(void **state)
{
	STREAM s = STREAM_INIT;
	struct gs_py_glob glob;
	struct gs_aggregate_under *u;
	struct gs_batch batch, chosen;

	fill(&s);
	batch = stream_batch(&s);
	assert_int_equal(gs_correlate_parse_py_glob("/train.py:*", &glob), 0);
	u = gs_aggregate_under_new(&glob, 1);
	assert_int_equal(gs_aggregate_under_scan(u, &batch), 0);
	assert_int_equal(gs_aggregate_under_choose(u, &batch, &chosen), 0);
	gs_records_for_each (&chosen, r)
		assert_int_not_equal(r->kind, GS_REC_CALL);
	assert_int_equal(gs_aggregate_under_n_chosen(u), 0);
	gs_aggregate_under_free(&u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_and_samples_are_chosen),
		cmocka_unit_test(nothing_is_chosen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
