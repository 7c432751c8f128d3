/* The wall-clock account: what the kernel side added up, settled, and who sets the pace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/record_account.h"
#include "records.h"
#include "pipeline/aggregate/aggregate.h"

#define MS 1000000ull

static uint64_t sum_of(const uint64_t time_ns[GS_STATE_COUNT][GS_INSIDE_COUNT])
{
	uint64_t part_ns[GS_PART_COUNT], sum = 0, all = gs_account_parts(time_ns, part_ns);

	for (unsigned i = 0; i < GS_PART_COUNT; i++)
		sum += part_ns[i];
	assert_int_equal(sum, all);
	return all;
}

/* A thread that ran 70 ms, 40 of them in calls, and waited 30 ms inside of one. */
static void time_on_processors_is_shared_out(void **state)
{
	struct gs_account a = {.pid = 7, .tid = 7, .born_ns = 1000 * MS, .since_ns = 1100 * MS};
	uint64_t open_ns[GS_INSIDE_COUNT] = {0};
	struct gs_account_reading r;

	a.time_ns[GS_STATE_CPU][GS_INSIDE_NONE] = 70 * MS;
	a.time_ns[GS_STATE_LOCK][GS_INSIDE_GPU_WAIT] = 30 * MS;
	a.busy_ns[GS_INSIDE_GPU_WAIT] = 50 * MS;
	a.busy_ns[GS_INSIDE_CUDA] = 20 * MS;
	gs_account_settle(&a, 1110 * MS, open_ns, &r);
	/* It runs still: ten more. */
	assert_int_equal(sum_of(r.time_ns), 110 * MS);
	assert_int_equal(r.time_ns[GS_STATE_CPU][GS_INSIDE_GPU_WAIT], 20 * MS);
	assert_int_equal(r.time_ns[GS_STATE_CPU][GS_INSIDE_CUDA], 20 * MS);
	assert_int_equal(r.time_ns[GS_STATE_CPU][GS_INSIDE_NONE], 40 * MS);

	/* An open call counts for as long as it is open, and never for more than there is. */
	open_ns[GS_INSIDE_NCCL] = 15 * MS;
	gs_account_settle(&a, 1110 * MS, open_ns, &r);
	assert_int_equal(r.time_ns[GS_STATE_CPU][GS_INSIDE_NCCL], 15 * MS);
	open_ns[GS_INSIDE_NCCL] = 500 * MS;
	gs_account_settle(&a, 1110 * MS, open_ns, &r);
	assert_int_equal(r.time_ns[GS_STATE_CPU][GS_INSIDE_NCCL], 40 * MS);
	assert_int_equal(sum_of(r.time_ns), 110 * MS);
}

/* A call that ended inside of an operator that is still open was taken from it before. */
static void an_open_operator_may_owe(void **state)
{
	struct gs_account a = {.pid = 7, .tid = 7, .since_ns = 100 * MS};
	uint64_t open_ns[GS_INSIDE_COUNT] = {0};
	struct gs_account_reading r;

	a.time_ns[GS_STATE_CPU][GS_INSIDE_NONE] = 100 * MS;
	a.busy_ns[GS_INSIDE_CUDA] = 30 * MS;
	a.busy_ns[GS_INSIDE_OPERATOR] = (uint64_t) - (int64_t)(30 * MS);
	gs_account_settle(&a, 100 * MS, open_ns, &r);
	assert_int_equal(r.time_ns[GS_STATE_CPU][GS_INSIDE_OPERATOR], 0);
	open_ns[GS_INSIDE_OPERATOR] = 50 * MS;
	gs_account_settle(&a, 100 * MS, open_ns, &r);
	assert_int_equal(r.time_ns[GS_STATE_CPU][GS_INSIDE_OPERATOR], 20 * MS);
	assert_int_equal(r.time_ns[GS_STATE_CPU][GS_INSIDE_CUDA], 30 * MS);
}

static void an_ended_thread_stands_still(void **state)
{
	struct gs_account a = {
		.pid = 7, .tid = 7, .since_ns = 100 * MS, .ended = 1, .state = GS_STATE_SLEEP};
	uint64_t open_ns[GS_INSIDE_COUNT] = {0};
	struct gs_account_reading r;

	a.time_ns[GS_STATE_SLEEP][GS_INSIDE_NONE] = 100 * MS;
	gs_account_settle(&a, 900 * MS, open_ns, &r);
	assert_int_equal(sum_of(r.time_ns), 100 * MS);
	assert_int_equal(r.now_mono_ns, 100 * MS);
}

static struct gs_rec_account *put_account(struct stream *s, uint32_t pid, uint32_t tid,
					  uint32_t parent_pid, unsigned state, uint64_t ns,
					  bool ended)
{
	uint32_t str = put_text(s, "app");
	struct gs_rec_account *r = put_record(s, GS_REC_ACCOUNT, sizeof(*r),
					      GS_STATE_COUNT * GS_INSIDE_COUNT * sizeof(uint64_t));

	r->pid = pid;
	r->tid = tid;
	r->parent_pid = parent_pid;
	r->comm_str = r->process_str = str;
	r->n_states = GS_STATE_COUNT;
	r->n_insides = GS_INSIDE_COUNT;
	r->account_flags = ended ? GS_ACCOUNT_ENDED : 0;
	r->born_ns = 1000;
	r->time_ns = 1000 + ns;
	r->ns[state * GS_INSIDE_COUNT] = ns;
	return r;
}

static uint32_t critical_of(struct stream *s, size_t *ret_n)
{
	struct gs_summary *summary = NULL;
	struct gs_aggregate *v = NULL;
	uint32_t tid = 0;

	assert_int_equal(gs_aggregate_new(&v), 0);
	assert_int_equal(stream_push(s, gs_aggregate_sink(v)), 0);
	assert_int_equal(gs_aggregate_make_summary(v, &summary), 0);
	*ret_n = summary->account.n_threads;
	for (size_t i = 0; i < *ret_n; i++)
		if (summary->account.threads[i].critical)
			tid = summary->account.threads[i].tid;
	gs_summary_free(&summary);
	gs_aggregate_free(&v);
	return tid;
}

static void the_last_record_of_a_thread_counts(void **state)
{
	STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
	size_t n;

	put_account(&s, 5, 5, 1, GS_STATE_CPU, 10, false);
	put_account(&s, 5, 5, 1, GS_STATE_CPU, 30, true);
	put_account(&s, 5, 6, 1, GS_STATE_CPU, 20, true);
	assert_int_equal(critical_of(&s, &n), 5);
	assert_int_equal(n, 2);
}

/* A shell waits for a launcher, which waits for two: the busier one sets the pace. */
static void launchers_are_passed_over(void **state)
{
	STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
	size_t n;

	put_account(&s, 5, 5, 1, GS_STATE_CHILD, 1000, true);
	put_account(&s, 6, 6, 5, GS_STATE_POLL, 1000, true);
	put_account(&s, 7, 7, 6, GS_STATE_CPU, 600, true);
	put_account(&s, 8, 8, 6, GS_STATE_CPU, 800, true);
	assert_int_equal(critical_of(&s, &n), 8);
}

/* One short child after the other: none of them is what the run is about. */
static void short_children_set_no_pace(void **state)
{
	STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
	size_t n;

	put_account(&s, 5, 5, 1, GS_STATE_CHILD, 1000, true);
	for (uint32_t pid = 6; pid < 10; pid++)
		put_account(&s, pid, pid, 5, GS_STATE_SLEEP, 240, true);
	assert_int_equal(critical_of(&s, &n), 5);
}

/* A parent of many starts them, which takes more time than each of them runs, and waits for them. */
static void a_parent_that_waits_gives_way(void **state)
{
	STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
	size_t n;

	put_account(&s, 5, 5, 1, GS_STATE_CPU, 1000, true)->ns[GS_STATE_CHILD * GS_INSIDE_COUNT] =
		7000;
	put_account(&s, 6, 6, 5, GS_STATE_CPU, 3000, true); /* not for long */
	for (uint32_t pid = 7; pid < 10; pid++)
		put_account(&s, pid, pid, 5, GS_STATE_CPU, pid, true)
			->ns[GS_STATE_LOCK * GS_INSIDE_COUNT] = 6000;
	assert_int_equal(critical_of(&s, &n), 9);
}

/* It computes, then waits for one that does less than it did. */
static void a_parent_that_works_more_sets_the_pace(void **state)
{
	STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
	size_t n;

	put_account(&s, 5, 5, 1, GS_STATE_CPU, 450, true)->ns[GS_STATE_CHILD * GS_INSIDE_COUNT] =
		550;
	put_account(&s, 6, 6, 5, GS_STATE_CPU, 400, true)->ns[GS_STATE_SLEEP * GS_INSIDE_COUNT] =
		150;
	assert_int_equal(critical_of(&s, &n), 5);
}

/* The first thread waits for what is not known. */
static void an_unknown_wait_is_no_activity(void **state)
{
	STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
	size_t n;

	put_account(&s, 5, 5, 1, GS_STATE_OTHER, 1000, true);
	put_account(&s, 5, 6, 1, GS_STATE_CPU, 300, true);
	assert_int_equal(critical_of(&s, &n), 6);
}

/* What runs below the busiest of the first processes is not what is the busiest of a machine. */
static void of_a_machine_the_busiest_is_taken(void **state)
{
	for (int whole = 0; whole < 2; whole++) {
		STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
		uint32_t what = put_text(&s, whole ? "all processes" : "processes of user 7");
		struct gs_rec_session *r = put_record(&s, GS_REC_SESSION, sizeof(*r), 0);
		size_t n;

		r->version = GS_RECORD_VERSION;
		r->command_str = what;
		put_account(&s, 5, 5, 1, GS_STATE_CHILD, 1000, true);
		put_account(&s, 6, 6, 5, GS_STATE_CPU, 500, true);
		put_account(&s, 7, 7, 1, GS_STATE_CPU, 300, true);
		put_account(&s, 8, 8, 7, GS_STATE_CPU, 900, true);
		assert_int_equal(critical_of(&s, &n), whole ? 8 : 7);
	}
}

static void parked_helpers_decide_nothing(void **state)
{
	STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
	size_t n;

	put_account(&s, 5, 5, 1, GS_STATE_SLEEP, 1000, true);
	for (uint32_t tid = 6; tid < 40; tid++)
		put_account(&s, 5, tid, 1, GS_STATE_LOCK, 1000, true);
	assert_int_equal(critical_of(&s, &n), 5);
	assert_int_equal(n, 35);
}

static void put_launches(struct stream *s, uint32_t thread, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		put_call(s, thread, 1, (1 + i) * MS, 1000);
}

/* The first thread of PyTorch launches less than that of the backward pass, which it waits for. One
 * that launches next to nothing, or does less, waits for nobody. */
static void the_first_thread_waits_for_the_backward_pass(void **state)
{
	static const struct {
		unsigned n_first, waits, tid;
	} cases[] = {{60, GS_STATE_LOCK, 10}, {20, GS_STATE_LOCK, 11}, {60, GS_STATE_CPU, 11}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct stream s = STREAM_INIT;
		size_t n;

		put_process(&s, 1, 10, "train");
		put_thread(&s, 1, 1, 10, "train");
		put_thread(&s, 2, 1, 11, "pt_autograd_0");
		put_function(&s, 1, GS_LAYER_CUDA_RUNTIME, GS_CLASS_LAUNCH, "cudaLaunchKernel");
		put_launches(&s, 1, cases[i].n_first);
		put_launches(&s, 2, 100);
		put_account(&s, 10, 10, 1, GS_STATE_CPU, 90 * MS, false);
		put_account(&s, 10, 11, 1, cases[i].waits, 100 * MS, false);
		assert_int_equal(critical_of(&s, &n), cases[i].tid);
		stream_fini(&s);
	}
}

static void more_states_than_known_are_of_no_reason(void **state)
{
	STREAM s = {.buf = GS_BUF_INIT(1 << 20)};
	struct gs_summary *summary = NULL;
	struct gs_aggregate *v = NULL;
	struct gs_rec_account *r = put_record(&s, GS_REC_ACCOUNT, sizeof(*r), 40 * 9 * 8);

	r->pid = r->tid = 5;
	r->n_states = 40;
	r->n_insides = 9;
	r->ns[39 * 9 + 8] = 7;
	assert_int_equal(gs_aggregate_new(&v), 0);
	assert_int_equal(stream_push(&s, gs_aggregate_sink(v)), 0);
	assert_int_equal(gs_aggregate_make_summary(v, &summary), 0);
	assert_int_equal(summary->account.threads[0].time_ns[GS_STATE_OTHER][GS_INSIDE_NONE], 7);
	assert_int_equal(summary->account.threads[0].wall_ns, 7);
	gs_summary_free(&summary);
	gs_aggregate_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_on_processors_is_shared_out),
		cmocka_unit_test(an_open_operator_may_owe),
		cmocka_unit_test(an_ended_thread_stands_still),
		cmocka_unit_test(the_last_record_of_a_thread_counts),
		cmocka_unit_test(launchers_are_passed_over),
		cmocka_unit_test(short_children_set_no_pace),
		cmocka_unit_test(a_parent_that_waits_gives_way),
		cmocka_unit_test(a_parent_that_works_more_sets_the_pace),
		cmocka_unit_test(an_unknown_wait_is_no_activity),
		cmocka_unit_test(parked_helpers_decide_nothing),
		cmocka_unit_test(of_a_machine_the_busiest_is_taken),
		cmocka_unit_test(the_first_thread_waits_for_the_backward_pass),
		cmocka_unit_test(more_states_than_known_are_of_no_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
