/* Native stacks whose process is not known yet: they wait for what it has mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "ingest_test.h"
#include "model/trace/record_stack.h"
#include "pipeline/ingest/ingest_int.h"
#include "sources/elf/library.h"

/* No process has these ids, so nothing is read from one. */
#define PID    0x3ffffff0u
#define OTHER  0x3ffffff1u
#define CODE   0x400000ull
#define N_WAIT 256u /* as many can */

static uint64_t second_ago_ns(void)
{
	return gs_clock_mono_ns() - 1000000000ull;
}

static void send_native(struct fixture *x, uint32_t pid, uint32_t id, uint64_t time_ns)
{
	struct gs_event_stack_bytes ev = {.head = {.kind = GS_EV_STACK_BYTES, .bytes = sizeof(ev)},
					  .time_ns = time_ns,
					  .pid = pid,
					  .tid = pid,
					  .id = id,
					  .ip = CODE + 0x10,
					  .sp = 0x7000};

	/* Files are not there, so no reader is asked; but there has to be one. */
	x->feed->reader = (void *)x;
	gs_ingest_event(x->feed, &ev.head);
}

static void send_map(struct fixture *x, uint32_t pid)
{
	struct gs_mapped_file file = {.id = {.dev = 1, .ino = 2}, .path = "/none/app"};
	struct gs_mapping m = {.start = CODE, .end = CODE + 0x1000, .file = &file};

	strcpy(file.open_path, file.path);
	gs_ingest_map(x->feed, pid, gs_clock_mono_ns(), &m);
}

/* How many stacks of the stream have a frame. */
static unsigned n_known(const struct fixture *x)
{
	unsigned n = 0;

	gs_records_for_each (&x->all, r)
		n += r->kind == GS_REC_STACK && ((const struct gs_rec_stack *)r)->n_frames;
	return n;
}

static void a_stack_waits_for_late_news(void **state)
{
	struct fixture *x = *state;

	/* Who hears of mappings had no processor for three seconds. */
	send_native(x, PID, 1, gs_clock_mono_ns() - 3000000000ull);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STACK), 0);
	send_map(x, PID);
	feed_take(x);
	assert_int_equal(n_known(x), 1);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), 0);
}

static void none_waits_for_ever(void **state)
{
	struct fixture *x = *state;

	send_native(x, PID, 1, gs_clock_mono_ns() - 20000000000ull);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STACK), 1);
	assert_int_equal(n_known(x), 0);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), 1);
}

static void news_make_room_at_once(void **state)
{
	struct fixture *x = *state;

	for (unsigned i = 1; i <= N_WAIT; i++)
		send_native(x, PID, i, gs_clock_mono_ns());
	send_map(x, PID);
	send_native(x, OTHER, N_WAIT + 1, gs_clock_mono_ns());
	send_map(x, OTHER);
	feed_take(x);
	assert_int_equal(n_known(x), N_WAIT + 1);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), 0);
}

static void old_ones_give_way(void **state)
{
	struct fixture *x = *state;

	for (unsigned i = 1; i <= N_WAIT; i++)
		send_native(x, PID, i, second_ago_ns());
	send_native(x, OTHER, N_WAIT + 1, gs_clock_mono_ns());
	send_map(x, OTHER);
	feed_take(x);
	assert_int_equal(n_known(x), 1);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), N_WAIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FEED_TEST(a_stack_waits_for_late_news),
		FEED_TEST(none_waits_for_ever),
		FEED_TEST(news_make_room_at_once),
		FEED_TEST(old_ones_give_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
