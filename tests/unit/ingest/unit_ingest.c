/* The stream: session and end, batches, sinks that fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/utsname.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "ingest_test.h"

static void options_are_checked(void **state)
{
	struct fixture *x = *state;
	struct gs_ingest_options good = {
		.size = sizeof(good), .mode = GS_SESSION_SUMMARY, .place = x->proc->place};
	struct gs_ingest_options bad;
	struct gs_ingest *feed = NULL;

	bad = good;
	bad.size--;
	assert_int_equal(gs_ingest_new(&bad, &feed), -EINVAL);
	bad = good;
	bad.place = NULL;
	assert_int_equal(gs_ingest_new(&bad, &feed), -EINVAL);
	bad = good;
	bad.mode = 0;
	assert_int_equal(gs_ingest_new(&bad, &feed), -EINVAL);
	assert_null(feed);
	assert_int_equal(gs_ingest_new(&good, &feed), 0);
	gs_ingest_free(&feed);
	gs_ingest_free(&feed);
}

static void session_comes_first(void **state)
{
	struct fixture *x = *state;
	const struct gs_rec_session *s;
	uint64_t now_ns = gs_clock_boot_ns();
	struct utsname name;

	uname(&name);
	feed_take(x);
	s = gs_dict_session(x->dict);
	assert_non_null(s);
	assert_int_equal(s->version, GS_RECORD_VERSION);
	assert_int_equal(s->mode, GS_SESSION_EVENTS);
	assert_true(s->start_ns <= now_ns && s->start_ns > now_ns - 60000000000ull);
	assert_true(llabs(s->wall_minus_boot_ns - gs_clock_wall_minus_boot_ns()) < 60000000000ll);
	assert_string_equal(text_of(x, s->host_str), name.nodename);
	assert_string_equal(text_of(x, s->kernel_str), name.release);
	assert_string_equal(text_of(x, s->command_str), "python train.py");
	assert_string_equal(text_of(x, s->attach_mode_str), "uprobes");
}

static void absent_texts_have_no_id(void **state)
{
	struct fixture *x = *state;
	struct gs_ingest_options options = {
		.size = sizeof(options), .mode = GS_SESSION_SUMMARY, .place = x->proc->place};
	struct gs_sink sink = {.push = capture_push, .ctx = &x->capture};

	gs_ingest_free(&x->feed);
	assert_int_equal(gs_ingest_new(&options, &x->feed), 0);
	assert_int_equal(gs_ingest_add_sink(x->feed, "no flush", &sink), 0);
	gs_ingest_attach(x->feed, &(struct gs_attach){.status = -2});
	gs_ingest_loss(x->feed, GS_LAYER_NCCL, GS_LOSS_LATE, NULL, 3);
	gs_ingest_end(x->feed, -1, NULL);
	feed_take(x);
	assert_int_equal(gs_dict_session(x->dict)->mode, GS_SESSION_SUMMARY);
	assert_int_equal(gs_dict_session(x->dict)->command_str, 0);
	assert_int_equal(gs_dict_session(x->dict)->attach_mode_str, 0);
	assert_int_equal(((const struct gs_rec_attach *)feed_record(x, GS_REC_ATTACH, 0))->path_str,
			 0);
	assert_int_equal(((const struct gs_rec_loss *)feed_record(x, GS_REC_LOSS, 0))->detail_str,
			 0);
	assert_int_equal(((const struct gs_rec_end *)feed_record(x, GS_REC_END, 0))->reason_str, 0);
}

static void losses_and_attachments(void **state)
{
	struct fixture *x = *state;
	const struct gs_attach a = {.path = "/lib/libcuda.so.1",
				    .function = "cuInit",
				    .reason = "no such symbol",
				    .status = -ENOENT,
				    .n_probes = 4,
				    .n_moved = 3,
				    .n_stepped = 1,
				    .layer = GS_LAYER_CUDA_DRIVER};
	const struct gs_rec_attach *r;
	const struct gs_rec_loss *l;

	gs_ingest_attach(x->feed, &a);
	gs_ingest_loss(x->feed, GS_LAYER_NCCL, GS_LOSS_RING_FULL, "ring 3", 17);
	gs_ingest_loss(x->feed, GS_LAYER_NCCL, GS_LOSS_RING_FULL, "ring 3", 0);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_LOSS), 1);
	r = feed_record(x, GS_REC_ATTACH, 0);
	assert_string_equal(text_of(x, r->path_str), a.path);
	assert_string_equal(text_of(x, r->func_str), a.function);
	assert_string_equal(text_of(x, r->reason_str), a.reason);
	assert_int_equal(r->status, -ENOENT);
	assert_int_equal(r->n_probes, 4);
	assert_int_equal(r->n_moved, 3);
	assert_int_equal(r->n_stepped, 1);
	assert_int_equal(r->layer, GS_LAYER_CUDA_DRIVER);
	l = feed_record(x, GS_REC_LOSS, 0);
	assert_int_equal(l->layer, GS_LAYER_NCCL);
	assert_int_equal(l->cause, GS_LOSS_RING_FULL);
	assert_int_equal(l->count, 17);
	assert_string_equal(text_of(x, l->detail_str), "ring 3");
}

static void texts_are_told_once(void **state)
{
	struct fixture *x = *state;
	unsigned before;
	GS_FREE char *text = calloc(1, 10000);

	feed_take(x);
	before = feed_count(x, GS_REC_STRING);
	for (int i = 0; i < 5; i++) {
		gs_ingest_loss(x->feed, 0, GS_LOSS_LATE, "one", 1);
		gs_ingest_loss(x->feed, 0, GS_LOSS_LATE, "two", 1);
	}
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STRING), before + 2);

	memset(text, 'y', 9999);
	gs_ingest_loss(x->feed, 0, GS_LOSS_LATE, text, 1);
	feed_take(x);
	assert_int_equal(
		strlen(text_of(
			x,
			((const struct gs_rec_loss *)feed_record(x, GS_REC_LOSS, -1))->detail_str)),
		4096);
}

static void end_is_last(void **state)
{
	struct fixture *x = *state;
	uint64_t before_ns = gs_clock_boot_ns();
	const struct gs_rec_end *e;
	struct gs_event_call bad = {.head = {.kind = 77}};
	struct gs_thread thread = {.pid = 1, .tid = 1};
	struct gs_frame frame = {.func = 1};
	struct gs_cell zero = {0}, cell = {.func = 1, .calls = 1};
	size_t bytes;

	gs_ingest_event(x->feed, &bad.head);
	gs_ingest_end(x->feed, 3, "command exited");
	feed_take(x);
	e = feed_record(x, GS_REC_END, 0);
	assert_ptr_equal((const char *)e + e->head.bytes, (const char *)x->all.data + x->all.bytes);
	assert_true(e->end_ns >= before_ns && e->end_ns <= gs_clock_boot_ns());
	assert_int_equal(e->exit_status, 3);
	assert_string_equal(text_of(x, e->reason_str), "command exited");
	assert_int_equal(feed_lost(x, GS_LOSS_EVENT_BAD), 1);
	assert_int_equal(x->capture.n_flushes, 1);

	/* Nothing comes behind it. */
	bytes = x->capture.stream.bytes;
	gs_ingest_end(x->feed, 3, "again");
	send_call(x, 1, 1);
	gs_ingest_cell(x->feed, &thread, &zero, &cell);
	gs_ingest_open_call(x->feed, &thread, &frame, 0, 1);
	gs_ingest_loss(x->feed, 0, GS_LOSS_LATE, "x", 1);
	gs_ingest_attach(x->feed, &(struct gs_attach){.path = "x"});
	gs_ingest_flush(x->feed);
	assert_int_equal(x->capture.stream.bytes, bytes);
	assert_int_equal(x->capture.n_flushes, 1);
}

static void batches_leave_when_full(void **state)
{
	struct fixture *x = *state;
	const unsigned per_batch = (256u << 10) / sizeof(struct gs_rec_call);
	unsigned n = 3 * per_batch;

	for (unsigned i = 0; i < n; i++)
		send_call(x, 1, 1 + i % 300);
	assert_in_range(x->capture.n_pushes, 2, 3);
	assert_in_range(x->capture.largest_bytes, 256u << 10, 320u << 10);
	assert_int_equal(x->capture.n_flushes, 0);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_CALL), n);
	assert_int_equal(feed_count(x, GS_REC_THREAD), 300);
	assert_int_equal(x->capture.n_flushes, 1);
	/* An empty batch is not sent. */
	n = x->capture.n_pushes;
	gs_ingest_flush(x->feed);
	assert_int_equal(x->capture.n_pushes, n);
	assert_int_equal(x->capture.n_flushes, 2);
}

static void sinks_are_limited(void **state)
{
	struct fixture *x = *state;
	struct capture other = {0};
	struct gs_sink sink = capture_sink(&other), none = {0};

	assert_int_equal(gs_ingest_add_sink(x->feed, "none", &none), -EINVAL);
	for (int i = 1; i < GS_INGEST_MAX_SINKS; i++)
		assert_int_equal(gs_ingest_add_sink(x->feed, "more", &sink), 0);
	assert_int_equal(gs_ingest_add_sink(x->feed, "one too many", &sink), -ENOSPC);
	gs_ingest_flush(x->feed);
	assert_int_equal(other.n_pushes, GS_INGEST_MAX_SINKS - 1);
	assert_int_equal(gs_ingest_add_sink(x->feed, "late", &sink), -EBUSY);
	gs_buf_fini(&other.stream);
}

static void a_failing_sink_is_left_out(void **state)
{
	struct fixture *x = *state;
	struct capture bad = {.fail_push_at = 2}, worse = {.fail_flush_at = 1};
	struct gs_sink bad_sink = capture_sink(&bad), worse_sink = capture_sink(&worse);
	const char *name = "untouched";
	const struct gs_rec_loss *l;

	assert_int_equal(gs_ingest_add_sink(x->feed, "disk", &bad_sink), 0);
	assert_int_equal(gs_ingest_add_sink(x->feed, "pipe", &worse_sink), 0);
	assert_int_equal(gs_ingest_sink_error(x->feed, &name), 0);
	assert_string_equal(name, "untouched");

	send_call(x, 1, 1);
	gs_ingest_flush(x->feed); /* the pipe fails, with its call taken */
	send_call(x, 1, 1);
	send_call(x, 1, 1);
	gs_ingest_flush(x->feed); /* the disk fails: 2 missed by each */
	assert_int_equal(gs_ingest_sink_error(x->feed, &name), -EIO);
	assert_string_equal(name, "pipe");
	assert_int_equal(gs_ingest_sink_error(x->feed, &name), -ENOSPC);
	assert_string_equal(name, "disk");
	assert_int_equal(gs_ingest_sink_error(x->feed, &name), 0);
	for (int i = 0; i < 3; i++)
		send_call(x, 1, 1); /* 3 more */
	gs_ingest_end(x->feed, -1, "interrupted");
	assert_int_equal(bad.n_pushes, 2);
	assert_int_equal(worse.n_pushes, 1);

	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_CALL), 6);
	assert_int_equal(feed_lost(x, GS_LOSS_SINK), 10);
	l = feed_record(x, GS_REC_LOSS, -2);
	assert_string_equal(text_of(x, l->detail_str), "disk");
	assert_int_equal(l->count, 5);
	l = feed_record(x, GS_REC_LOSS, -1);
	assert_string_equal(text_of(x, l->detail_str), "pipe");
	assert_int_equal(l->count, 5);
	gs_buf_fini(&bad.stream);
	gs_buf_fini(&worse.stream);
}

static void a_sink_that_fails_at_the_end_is_told_of(void **state)
{
	struct fixture *x = *state;
	struct capture bad = {.fail_push_at = 1};
	struct gs_sink bad_sink = capture_sink(&bad);
	const char *name;

	assert_int_equal(gs_ingest_add_sink(x->feed, "disk", &bad_sink), 0);
	send_call(x, 1, 1);
	gs_ingest_end(x->feed, -1, "x");
	feed_take(x);
	assert_int_equal(feed_lost(x, GS_LOSS_SINK), 1);
	assert_int_equal(gs_ingest_sink_error(x->feed, &name), -ENOSPC);
	gs_buf_fini(&bad.stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FEED_TEST(options_are_checked),
		FEED_TEST(session_comes_first),
		FEED_TEST(absent_texts_have_no_id),
		FEED_TEST(losses_and_attachments),
		FEED_TEST(texts_are_told_once),
		FEED_TEST(end_is_last),
		FEED_TEST(batches_leave_when_full),
		FEED_TEST(sinks_are_limited),
		FEED_TEST(a_failing_sink_is_left_out),
		FEED_TEST(a_sink_that_fails_at_the_end_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
