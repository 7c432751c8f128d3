/*
 * What a process's file has of Python functions, as it is read: names come before what says their numbers, sums as what they
 * have grown by, open functions from the outermost on; and names that are none end there.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/companion/python.h"
#include "sources/companion/companion.h"

#define SLOTS      2u
#define RING_BYTES 4096u

struct seen {
	uint32_t names, last_number, rows, opened, records, lost;
	uint64_t damaged, calls, total_ns;
	uint32_t in_bucket;
	char file[32], name[32];
};

static void on_name(void *ctx, uint32_t pid, uint32_t number, const char *file, const char *name,
		    uint32_t line)
{
	struct seen *s = ctx;

	assert_int_equal(pid, 7);
	assert_int_equal(line, 3);
	s->names++;
	s->last_number = number;
	snprintf(s->file, sizeof(s->file), "%s", file);
	snprintf(s->name, sizeof(s->name), "%s", name);
}

static void on_sum(void *ctx, const struct gs_companion_thread *from,
		   const struct gs_companion_python_sum *sum)
{
	struct seen *s = ctx;

	assert_int_equal(from->tid, 70);
	assert_true(s->last_number >= sum->now->number);
	s->rows++;
	s->calls += sum->now->calls - sum->before->calls;
	s->total_ns += sum->now->total_ns - sum->before->total_ns;
	s->in_bucket += sum->hist[5] - sum->hist_before[5];
}

static void on_open(void *ctx, const struct gs_companion_thread *from,
		    const struct gs_companion_python_frame *frame, unsigned depth)
{
	struct seen *s = ctx;

	assert_int_equal(depth, s->opened);
	assert_int_equal(frame->number, depth + 1);
	s->opened++;
}

static void on_record(void *ctx, const struct gs_companion_thread *from,
		      const struct gs_companion_record *record)
{
	struct seen *s = ctx;

	assert_int_equal(record->kind, GS_COMPANION_PYTHON_CALL);
	assert_true(s->last_number >= ((const struct gs_companion_python_call *)record)->number);
	s->records++;
}

static void on_damaged(void *ctx, uint32_t pid, uint64_t bytes)
{
	((struct seen *)ctx)->damaged += bytes;
}

static struct gs_companion_handler handler_of(struct seen *s)
{
	return (struct gs_companion_handler){.record = on_record,
					     .python_name = on_name,
					     .python_sum = on_sum,
					     .python_open = on_open,
					     .damaged = on_damaged,
					     .ctx = s};
}

struct made {
	int fd; /* ours; the reader has another one */
	struct gs_companion_file *file;
};

static void put_in(const struct made *m, const void *what, size_t bytes, uint64_t at)
{
	assert_int_equal(pwrite(m->fd, what, bytes, (off_t)at), bytes);
}

static uint64_t thread_at(uint32_t slot)
{
	return gs_companion_python_at(SLOTS, RING_BYTES) +
	       slot * sizeof(struct gs_companion_python_thread);
}

static struct made make_file(uint32_t doors)
{
	struct gs_companion_head head = {.magic = GS_COMPANION_MAGIC,
					 .version = GS_COMPANION_VERSION,
					 .pid = 7,
					 .doors = doors,
					 .n_slots = SLOTS,
					 .ring_bytes = RING_BYTES};
	struct gs_companion_slot slot = {.tid = 70, .has_sums = 1};
	struct made m = {.fd = memfd_create("python", MFD_CLOEXEC)};
	int fd = dup(m.fd);

	head.rings_at = GS_COMPANION_SLOTS_AT + SLOTS * sizeof(struct gs_companion_slot);
	assert_int_equal(ftruncate(m.fd, (off_t)gs_companion_file_bytes(SLOTS, RING_BYTES, doors)),
			 0);
	put_in(&m, &head, sizeof(head), 0);
	put_in(&m, &slot, sizeof(slot), GS_COMPANION_SLOTS_AT);
	assert_int_equal(gs_companion_file_open(&fd, 7, &m.file), 0);
	return m;
}

static void close_file(struct made *m)
{
	gs_companion_file_free(&m->file);
	close(m->fd);
}

/* The number's name after those before it: "t.py", "f". */
static void put_name(const struct made *m, uint32_t number, uint32_t bytes)
{
	const uint64_t names = gs_companion_python_names_at(SLOTS, RING_BYTES);
	struct {
		struct gs_companion_python_name head;
		char text[8];
	} name = {{.bytes = bytes, .number = number, .line = 3, .file_bytes = 4, .name_bytes = 1},
		  "t.pyf"};
	uint64_t written = number * sizeof(name);

	put_in(m, &name, sizeof(name),
	       names + offsetof(struct gs_companion_python_names, names) + written - sizeof(name));
	put_in(m, &written, sizeof(written), names);
}

static void put_row(const struct made *m, uint32_t number, uint64_t calls)
{
	const uint64_t at = thread_at(0);
	struct gs_companion_python_row row = {
		.number = number, .calls = calls, .total_ns = 10 * calls, .max_ns = 10};
	uint32_t n_rows = number, in_bucket = (uint32_t)calls;

	put_in(m, &row, sizeof(row),
	       at + offsetof(struct gs_companion_python_thread, rows) + (number - 1) * sizeof(row));
	put_in(m, &in_bucket, sizeof(in_bucket),
	       at + offsetof(struct gs_companion_python_thread, hist) +
		       ((number - 1) * GS_HIST_N_BUCKETS + 5) * sizeof(uint32_t));
	put_in(m, &n_rows, sizeof(n_rows),
	       at + offsetof(struct gs_companion_python_thread, n_rows));
}

static void names_and_sums(void **state)
{
	struct made m = make_file(1u << GS_COMPANION_PYTHON);
	struct seen s = {0};
	const struct gs_companion_handler h = handler_of(&s);
	bool full = false;

	put_name(&m, 1, 24);
	put_row(&m, 1, 5);
	gs_companion_file_read(m.file, &h, true, &full);
	assert_int_equal(s.names, 1);
	assert_string_equal(s.file, "t.py");
	assert_string_equal(s.name, "f");
	assert_int_equal(s.calls, 5);
	put_name(&m, 2, 24);
	put_row(&m, 2, 100);
	put_row(&m, 1, 7);
	put_row(&m, 2, 100);
	gs_companion_file_read(m.file, &h, true, &full);
	gs_companion_file_read(m.file, &h, true, &full);
	assert_int_equal(s.names, 2);
	assert_int_equal(s.rows, 3);
	assert_int_equal(s.calls, 107);
	assert_int_equal(s.total_ns, 1070);
	assert_int_equal(s.in_bucket, 107);
	assert_int_equal(s.damaged, 0);
	close_file(&m);
}

static void calls_and_open_functions(void **state)
{
	struct made m = make_file(1u << GS_COMPANION_PYTHON);
	struct gs_companion_python_frame frames[2] = {{.number = 1}, {.number = 2}};
	struct gs_companion_python_call call = {
		.head = {.kind = GS_COMPANION_PYTHON_CALL, .bytes = sizeof(call)}, .number = 2};
	struct gs_companion_slot slot = {.tid = 70, .has_sums = 1, .written = sizeof(call)};
	struct seen s = {0};
	const struct gs_companion_handler h = handler_of(&s);
	uint32_t depth = 2;
	bool full = false;

	put_name(&m, 1, 24);
	put_name(&m, 2, 24);
	put_in(&m, &call, sizeof(call),
	       GS_COMPANION_SLOTS_AT + SLOTS * sizeof(struct gs_companion_slot));
	put_in(&m, &slot, sizeof(slot), GS_COMPANION_SLOTS_AT);
	put_in(&m, frames, sizeof(frames),
	       thread_at(0) + offsetof(struct gs_companion_python_thread, frames));
	put_in(&m, &depth, sizeof(depth), thread_at(0));
	gs_companion_file_read(m.file, &h, false, &full);
	assert_int_equal(s.records, 1);
	gs_companion_file_open_calls(m.file, &h);
	assert_int_equal(s.opened, 2);
	close_file(&m);
}

static void damaged_names(void **state)
{
	for (uint32_t bytes = 0; bytes <= 20; bytes += 4) { /* shorter than what it says it has */
		struct made m = make_file(1u << GS_COMPANION_PYTHON);
		struct seen s = {0};
		const struct gs_companion_handler h = handler_of(&s);
		bool full = false;

		put_name(&m, 1, bytes);
		gs_companion_file_read(m.file, &h, true, &full);
		gs_companion_file_read(m.file, &h, true, &full);
		assert_int_equal(s.names, 0);
		assert_int_equal(s.damaged, 24); /* once */
		close_file(&m);
	}
}

static void no_such_door(void **state)
{
	struct made m = make_file(1u << GS_COMPANION_CALLS);
	struct seen s = {0};
	const struct gs_companion_handler h = handler_of(&s);
	bool full = false;

	gs_companion_file_read(m.file, &h, true, &full);
	gs_companion_file_open_calls(m.file, &h);
	assert_int_equal(s.names + s.rows + s.opened, 0);
	close_file(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_sums),
		cmocka_unit_test(calls_and_open_functions),
		cmocka_unit_test(damaged_names),
		cmocka_unit_test(no_such_door),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
