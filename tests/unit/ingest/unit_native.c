/* Native stacks whose process is not known yet: they wait for what it has mapped. */
#include <errno.h>
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

#define S_NS 1000000000ull

uint64_t __real_gs_clock_mono_ns(void);
uint64_t __wrap_gs_clock_mono_ns(void);

static uint64_t passed_ns; /* beside the time that this test takes */

uint64_t __wrap_gs_clock_mono_ns(void)
{
	return __real_gs_clock_mono_ns() + passed_ns;
}

int __real_gs_library_scan_mappings(pid_t pid, gs_mapping_fn fn, void *ctx);
int __wrap_gs_library_scan_mappings(pid_t pid, gs_mapping_fn fn, void *ctx);

/* What /proc has of each process: one mapping of code at this address; 0 nothing. */
static uint64_t mapped_at;
static int scan_result;
static unsigned n_scans;

int __wrap_gs_library_scan_mappings(pid_t pid, gs_mapping_fn fn, void *ctx)
{
	struct gs_mapped_file file = {.id = {.dev = 1, .ino = 2}, .path = "/none/app"};
	struct gs_mapping m = {.start = mapped_at, .end = mapped_at + 0x1000, .file = &file};

	n_scans++;
	if (!mapped_at)
		return __real_gs_library_scan_mappings(pid, fn, ctx);
	strcpy(file.open_path, file.path);
	assert_int_equal(fn(ctx, &m), 0);
	return scan_result;
}

static void send_native(struct fixture *x, uint32_t pid, uint32_t id, uint64_t time_ns)
{
	struct gs_event_stack_bytes ev = {.head = {.kind = GS_EV_STACK_BYTES, .bytes = sizeof(ev)},
					  .time_ns = time_ns,
					  .pid = pid,
					  .tid = pid,
					  .id = id,
					  .ip = CODE + 0x10,
					  .sp = 0x7000,
					  .bp = 0x7000,
					  .links = {{.at = 0x7000, .value = CODE + 0x20}},
					  .n_links = 1};

	/* Files are not there, so no reader is asked; but there has to be one. */
	x->feed->reader = (void *)x;
	gs_ingest_event(x->feed, &ev.head);
}

static void send_map_at(struct fixture *x, uint32_t pid, uint64_t time_ns, const char *path)
{
	struct gs_mapped_file file = {.id = {.dev = 1, .ino = strlen(path)}, .path = path};
	struct gs_mapping m = {.start = CODE, .end = CODE + 0x1000, .file = &file};

	strcpy(file.open_path, file.path);
	gs_ingest_map(x->feed, pid, time_ns, &m);
}

static void send_map(struct fixture *x, uint32_t pid)
{
	send_map_at(x, pid, gs_clock_mono_ns(), "/none/app");
}

/* How many stacks of the stream have a frame. */
static unsigned n_known(const struct fixture *x)
{
	unsigned n = 0;

	gs_records_for_each (&x->all, r)
		n += r->kind == GS_REC_STACK && ((const struct gs_rec_stack *)r)->n_frames;
	return n;
}

/* Neither who reads stacks nor who hears of mappings had a processor for so long. */
static void wait_for_late_news(struct fixture *x, uint64_t late_ns)
{
	send_native(x, PID, 1, gs_clock_mono_ns() - late_ns);
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STACK), 0);
	passed_ns += 3 * S_NS;
	feed_take(x);
	assert_int_equal(feed_count(x, GS_REC_STACK), 0);
	send_map(x, PID);
	feed_take(x);
	assert_int_equal(n_known(x), 1);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), 0);
}

static void a_stack_waits_for_late_news(void **state)
{
	wait_for_late_news(*state, 3 * S_NS);
}

static void an_old_stack_waits_as_well(void **state)
{
	wait_for_late_news(*state, 20 * S_NS);
}

static void none_waits_for_ever(void **state)
{
	struct fixture *x = *state;

	send_native(x, PID, 1, gs_clock_mono_ns());
	passed_ns += 20 * S_NS;
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
		send_native(x, PID, i, gs_clock_mono_ns());
	passed_ns += S_NS;
	send_native(x, OTHER, N_WAIT + 1, gs_clock_mono_ns());
	send_map(x, OTHER);
	feed_take(x);
	assert_int_equal(n_known(x), 1);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), N_WAIT);
}

/* Two frames in the same code. */
static void a_stack_has_mappings_read_once(void **state)
{
	struct fixture *x = *state;

	mapped_at = CODE;
	n_scans = 0;
	scan_result = 0;
	send_native(x, PID, 1, gs_clock_mono_ns());
	assert_int_equal(n_scans, 1);
	passed_ns += 3 * S_NS;
	send_native(x, PID, 2, gs_clock_mono_ns());
	assert_int_equal(n_scans, 2);
	send_native(x, OTHER, 3, gs_clock_mono_ns());
	assert_int_equal(n_scans, 3);
	mapped_at = 0;
	feed_take(x);
	assert_int_equal(n_known(x), 2);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), 0);
}

/* A process that ends while its mappings are read shows the first of them. What it had mapped is heard later. */
static void a_part_of_its_mappings_is_not_all(void **state)
{
	struct fixture *x = *state;
	uint64_t before_ns = gs_clock_mono_ns();

	mapped_at = CODE - 0x2000;
	scan_result = -ESRCH;
	send_native(x, PID, 1, gs_clock_mono_ns());
	mapped_at = 0;
	send_map_at(x, PID, before_ns, "/none/app");
	feed_take(x);
	assert_int_equal(n_known(x), 1);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), 0);
}

static void send_change(struct fixture *x, uint32_t change, uint64_t time_ns)
{
	struct gs_event_exec ev = {.task = {.head = {.kind = GS_EV_TASK, .bytes = sizeof(ev.task)},
					    .time_ns = time_ns,
					    .pid = OTHER,
					    .tid = OTHER,
					    .change = change,
					    .parent_pid = PID}};

	if (change == GS_TASK_EXEC)
		ev.task.head.bytes = sizeof(ev);
	gs_ingest_event(x->feed, &ev.task.head);
}

/* The file of the first frame of each stack is this one. */
static void assert_frames_of(const struct fixture *x, const char *path, unsigned n_stacks)
{
	uint32_t frame = 0, file = 0;

	assert_int_equal(n_known(x), n_stacks);
	gs_records_for_each (&x->all, r) {
		const struct gs_rec_stack *s = (const void *)r;

		if (r->kind == GS_REC_STACK)
			frame = s->frames[0];
	}
	gs_records_for_each (&x->all, r) {
		const struct gs_rec_frame *f = (const void *)r;

		if (r->kind == GS_REC_FRAME && f->id == frame)
			file = f->file_str;
	}
	assert_string_equal(gs_dict_string(x->dict, file), path);
}

/* A program that was short: its stacks are read when nothing of it is there any more, its notices come later (first) or
 * earlier than the kernel side's news. The program that forked it has other code at the same address. */
static void code_of_its_parent(struct fixture *x, bool news_first)
{
	uint64_t t = gs_clock_mono_ns();

	x->feed->reader = (void *)x;
	send_map_at(x, PID, t, "/none/parent");
	for (int turn = 0; turn < 2; turn++) {
		if (turn == news_first) {
			send_change(x, GS_TASK_FORK, t + 10);
			send_change(x, GS_TASK_EXEC, t + 40);
			send_native(x, OTHER, 1, t + 50);
		} else {
			gs_ingest_map(x->feed, OTHER, t + 20, NULL);
			send_map_at(x, OTHER, t + 30, "/none/app");
		}
	}
	feed_take(x);
	assert_frames_of(x, "/none/app", 1);
	assert_int_equal(feed_lost(x, GS_LOSS_STACK), 0);
}

static void late_notices_of_a_child(void **state)
{
	code_of_its_parent(*state, false);
}

static void early_notices_of_a_child(void **state)
{
	code_of_its_parent(*state, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FEED_TEST(a_stack_waits_for_late_news),
		FEED_TEST(an_old_stack_waits_as_well),
		FEED_TEST(none_waits_for_ever),
		FEED_TEST(news_make_room_at_once),
		FEED_TEST(old_ones_give_way),
		FEED_TEST(a_stack_has_mappings_read_once),
		FEED_TEST(a_part_of_its_mappings_is_not_all),
		FEED_TEST(late_notices_of_a_child),
		FEED_TEST(early_notices_of_a_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
