/* Stacks, code objects and samples to records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ingest_test.h"
#include "model/trace/python.h"

/* No process has this id, so nothing is read from one. */
#define PID 0x3ffffff0u

static void send_code_piece(struct fixture *x, uint64_t code, const char *file, const char *name,
			    int first, const uint8_t *table, size_t table_bytes, size_t off,
			    size_t whole)
{
	struct gs_event_code *ev = calloc(1, sizeof(*ev) + table_bytes);

	assert_non_null(ev);
	ev->head = (struct gs_event){.kind = GS_EV_CODE,
				     .bytes = (uint16_t)(sizeof(*ev) + table_bytes)};
	ev->code = code;
	ev->pid = ev->tid = PID;
	ev->version = 0x030c;
	ev->first_line = first;
	ev->table_n_bytes = (uint16_t)table_bytes;
	ev->table_off = off;
	ev->table_bytes = whole;
	ev->file = (struct gs_py_text){.length = (uint32_t)strlen(file),
				       .char_bytes = 1,
				       .n_bytes = (uint16_t)strlen(file)};
	ev->name = (struct gs_py_text){.length = (uint32_t)strlen(name),
				       .char_bytes = 1,
				       .n_bytes = (uint16_t)strlen(name)};
	memcpy(ev->file_text, file, strlen(file));
	memcpy(ev->name_text, name, strlen(name));
	if (table_bytes)
		memcpy(ev->table, table, table_bytes);
	gs_ingest_event(x->feed, &ev->head);
	free(ev);
}

static void send_code(struct fixture *x, uint64_t code, const char *name, int first)
{
	/* Four bytes of code on the line behind the first, then two on the next. */
	static const uint8_t table[] = {0x80 | 11 << 3 | 1, 0, 0, 0x80 | 11 << 3, 0, 0};

	send_code_piece(x, code, "model.py", name, first, table, sizeof(table), 0, sizeof(table));
}

static struct gs_event_stack *make_stack(uint32_t id, unsigned n, const struct gs_raw_frame *frames)
{
	size_t bytes = sizeof(struct gs_event_stack) + n * sizeof(*frames);
	struct gs_event_stack *ev = calloc(1, bytes);

	assert_non_null(ev);
	ev->head = (struct gs_event){.kind = GS_EV_STACK, .bytes = (uint16_t)bytes};
	ev->pid = ev->tid = PID;
	ev->id = id;
	ev->n_frames = (uint16_t)n;
	ev->kind = GS_STACK_PYTHON;
	if (n)
		memcpy(ev->frames, frames, n * sizeof(*frames));
	return ev;
}

static void send_stack(struct fixture *x, uint32_t id, unsigned n,
		       const struct gs_raw_frame *frames)
{
	struct gs_event_stack *ev = make_stack(id, n, frames);

	gs_ingest_event(x->feed, &ev->head);
	free(ev);
}

static void send_pyfunc(struct fixture *x, uint32_t number, const char *file, const char *name,
			int first)
{
	struct gs_event_code ev = {.head = {.kind = GS_EV_PYFUNC, .bytes = sizeof(ev)},
				   .pid = PID,
				   .tid = PID,
				   .func = number,
				   .first_line = first};

	ev.file = (struct gs_py_text){.length = (uint32_t)strlen(file),
				      .char_bytes = 1,
				      .n_bytes = (uint16_t)strlen(file)};
	ev.name = (struct gs_py_text){.length = (uint32_t)strlen(name),
				      .char_bytes = 1,
				      .n_bytes = (uint16_t)strlen(name)};
	memcpy(ev.file_text, file, strlen(file));
	memcpy(ev.name_text, name, strlen(name));
	gs_ingest_event(x->feed, &ev.head);
}

static const char *name_of_last(struct fixture *x)
{
	const struct gs_rec_call *c = feed_record(x, GS_REC_CALL, -1);

	return text_of(x, gs_dict_function(x->dict, c->function)->name_str);
}

static void call_pyfunc(struct fixture *x, uint32_t number, uint32_t scope)
{
	struct gs_event_call ev = {.head = {.kind = GS_EV_CALL, .bytes = sizeof(ev)},
				   .start_ns = 10,
				   .dur_ns = 5,
				   .pid = PID,
				   .tid = PID,
				   .func = (uint16_t)number,
				   .scope = (uint16_t)scope,
				   .arg = {3, 2}};

	gs_ingest_event(x->feed, &ev.head);
	feed_take(x);
}

static void python_functions_are_known_by_place(void **state)
{
	struct fixture *x = *state;
	const struct gs_rec_call *c;
	uint32_t first;

	send_pyfunc(x, GS_FUNC_MAX + 5, "/a/lib/python3.9/site-packages/m/x.py", "f", 3);
	call_pyfunc(x, GS_FUNC_MAX + 5, 0);
	assert_string_equal(name_of_last(x), "m/x.py:f/3");
	c = feed_record(x, GS_REC_CALL, -1);
	first = c->function;
	assert_int_equal(c->arg[0], 3);
	/* Of another process: another number, the same function. */
	send_pyfunc(x, GS_FUNC_MAX + 6, "/a/lib/python3.9/site-packages/m/x.py", "f", 3);
	call_pyfunc(x, GS_FUNC_MAX + 6, GS_FUNC_MAX + 5);
	c = feed_record(x, GS_REC_CALL, -1);
	assert_int_equal(c->function, first);
	assert_int_equal(c->scope, first);
	/* Files of the same name are told apart, and so are lines. */
	send_pyfunc(x, GS_FUNC_MAX + 7, "/one/train.py", "g", 1);
	send_pyfunc(x, GS_FUNC_MAX + 8, "/two/train.py", "g", 1);
	send_pyfunc(x, GS_FUNC_MAX + 9, "/two/train.py", "g", 2);
	call_pyfunc(x, GS_FUNC_MAX + 7, 0);
	assert_string_equal(name_of_last(x), "train.py:g/1");
	call_pyfunc(x, GS_FUNC_MAX + 8, 0);
	assert_string_equal(name_of_last(x), "/two/train.py:g/1");
	call_pyfunc(x, GS_FUNC_MAX + 9, 0);
	assert_string_equal(name_of_last(x), "train.py:g/2");
	/* A number that was given again. */
	send_pyfunc(x, GS_FUNC_MAX + 5, "<string>", "h", 0);
	call_pyfunc(x, GS_FUNC_MAX + 5, 0);
	assert_string_equal(name_of_last(x), "<string>:h/0");
	/* One whose name was lost. */
	call_pyfunc(x, GS_FUNC_MAX + 77, 0);
	assert_string_equal(name_of_last(x), "other Python functions");
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), 0);
	/* No number at all. */
	send_pyfunc(x, GS_FUNC_MAX - 1, "x", "y", 1);
	feed_take(x);
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), 1);
}

static void frames_have_names_and_lines(void **state)
{
	const struct gs_raw_frame frames[] = {{0x100, 0}, {0x200, 4}, {0x200, (uint64_t)-2}};
	struct fixture *x = *state;
	const struct gs_rec_frame *f;
	const struct gs_rec_stack *s;

	send_code(x, 0x100, "inner", 10);
	send_code(x, 0x200, "outer", 20);
	send_stack(x, 7, 3, frames);
	feed_take(x);
	s = feed_record(x, GS_REC_STACK, 0);
	assert_int_equal(s->id, 7);
	assert_int_equal(s->n_frames, 3);
	assert_int_equal(s->stack_kind, GS_STACK_PYTHON);
	f = gs_dict_frame(x->dict, s->frames[0]);
	assert_string_equal(text_of(x, f->function_str), "inner");
	assert_string_equal(text_of(x, f->file_str), "model.py");
	assert_int_equal(f->line, 11);
	assert_int_equal(f->first_line, 10);
	f = gs_dict_frame(x->dict, s->frames[1]);
	assert_string_equal(text_of(x, f->function_str), "outer");
	assert_int_equal(f->line, 22);
	assert_int_equal(gs_dict_frame(x->dict, s->frames[2])->line, 20);
	/* The same places again are the same frames. */
	send_stack(x, 8, 2, frames);
	feed_take(x);
	s = feed_record(x, GS_REC_STACK, 1);
	assert_int_equal(feed_count(x, GS_REC_FRAME), 3);
	assert_int_equal(s->frames[1],
			 ((const struct gs_rec_stack *)feed_record(x, GS_REC_STACK, 0))->frames[1]);
	assert_int_equal(feed_lost(x, GS_LOSS_FRAME), 0);
}

static void another_code_object_in_its_place(void **state)
{
	const struct gs_raw_frame frame = {0x100, 0};
	struct fixture *x = *state;

	send_code(x, 0x100, "first", 10);
	send_stack(x, 1, 1, &frame);
	send_code(x, 0x100, "second", 50);
	send_stack(x, 2, 1, &frame);
	feed_take(x);
	assert_int_equal(((const struct gs_rec_frame *)feed_record(x, GS_REC_FRAME, 0))->line, 11);
	assert_int_equal(((const struct gs_rec_frame *)feed_record(x, GS_REC_FRAME, 1))->line, 51);
}

static void table_in_pieces(void **state)
{
	const uint8_t table[] = {0x80 | 11 << 3 | 1, 0, 0, 0x80 | 11 << 3, 0, 0};
	const struct gs_raw_frame frame = {0x100, 4};
	struct fixture *x = *state;

	send_code_piece(x, 0x100, "a.py", "f", 1, table, 3, 0, 6);
	send_code_piece(x, 0x100, "a.py", "f", 1, table + 3, 3, 3, 6);
	send_stack(x, 1, 1, &frame);
	/* A piece that got lost: the place is not known, and counted. */
	send_code_piece(x, 0x200, "a.py", "g", 1, table, 3, 0, 6);
	send_stack(x, 2, 1, &(struct gs_raw_frame){0x200, 4});
	feed_take(x);
	assert_int_equal(((const struct gs_rec_frame *)feed_record(x, GS_REC_FRAME, 0))->line, 3);
	assert_int_equal(((const struct gs_rec_frame *)feed_record(x, GS_REC_FRAME, 1))->line, 0);
	assert_int_equal(feed_lost(x, GS_LOSS_FRAME), 1);
}

static void frame_without_its_code(void **state)
{
	const struct gs_raw_frame frame = {0x900, 4};
	struct fixture *x = *state;
	const struct gs_rec_stack *s;

	send_stack(x, 1, 1, &frame);
	feed_take(x);
	s = feed_record(x, GS_REC_STACK, 0);
	assert_int_equal(gs_dict_frame(x->dict, s->frames[0])->function_str, 0);
	assert_int_equal(feed_lost(x, GS_LOSS_FRAME), 1);
}

static void samples(void **state)
{
	struct fixture *x = *state;
	struct gs_event_sample ev = {
		.head = {.kind = GS_EV_SAMPLE, .bytes = sizeof(ev)},
		.time_ns = 1000,
		.period_ns = 10101010,
		.pid = PID,
		.tid = PID + 1,
		.py_stack = 5,
		.cpu = 3,
	};
	const struct gs_rec_sample *s;

	gs_ingest_event(x->feed, &ev.head);
	feed_take(x);
	s = feed_record(x, GS_REC_SAMPLE, 0);
	assert_int_equal(s->time_ns, 1000 + BOOT_MINUS_MONO_NS);
	assert_int_equal(s->period_ns, 10101010);
	assert_int_equal(s->py_stack, 5);
	assert_int_equal(s->cpu, 3);
	assert_int_equal(gs_dict_thread(x->dict, s->thread)->tid, PID + 1);
}

static void malformed(void **state)
{
	const struct gs_raw_frame frames[2] = {{1, 2}};
	struct fixture *x = *state;
	struct gs_event_stack *ev = make_stack(1, 2, frames);
	struct gs_event_code *code = calloc(1, sizeof(*code));

	ev->n_frames = 3;
	gs_ingest_event(x->feed, &ev->head);
	ev->n_frames = 1;
	gs_ingest_event(x->feed, &ev->head);
	ev->n_frames = 2;
	ev->kind = 9;
	gs_ingest_event(x->feed, &ev->head);
	ev->kind = GS_STACK_PYTHON;
	ev->id = 0;
	gs_ingest_event(x->feed, &ev->head);
	ev->head.bytes = 8;
	gs_ingest_event(x->feed, &ev->head);
	assert_non_null(code);
	code->head = (struct gs_event){.kind = GS_EV_CODE, .bytes = sizeof(*code)};
	code->pid = PID;
	code->table_n_bytes = 1;
	gs_ingest_event(x->feed, &code->head);
	code->head.bytes = 40;
	gs_ingest_event(x->feed, &code->head);
	free(ev);
	free(code);
	feed_take(x);
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), 7);
	assert_int_equal(feed_count(x, GS_REC_STACK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FEED_TEST(frames_have_names_and_lines),
		FEED_TEST(another_code_object_in_its_place),
		FEED_TEST(table_in_pieces),
		FEED_TEST(frame_without_its_code),
		FEED_TEST(samples),
		FEED_TEST(python_functions_are_known_by_place),
		FEED_TEST(malformed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
