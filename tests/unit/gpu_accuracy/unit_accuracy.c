/* Bounds of calls beside a GPU's own counter, with answers that are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../tui/sample.h"
#include "model/node/record.h"
#include "pipeline/gpu_accuracy/accuracy.h"

#define SECOND 1000000000ull
#define AT(s)  (SAMPLE_START_NS + (uint64_t)((s)*1e9))

static struct gs_accuracy *accuracy;
static struct gs_summary *summary;
static const char *uuids[4]; /* of contexts, by their index */
static uint32_t owner;       /* process of all of them */

static void take(const struct gs_buf *buf)
{
	struct gs_batch batch = {buf->data, buf->bytes};

	gs_records_for_each (&batch, r)
		assert_int_equal(gs_accuracy_take(accuracy, r), 0);
}

/* A session, and the traced process 1 with pid 100. */
static int begin(void **state)
{
	struct gs_buf buf = GS_BUF_INIT(1u << 16);
	struct gs_rec_session *s;
	struct gs_rec_process *p;

	assert_int_equal(gs_accuracy_new(&accuracy), 0);
	summary = calloc(1, sizeof(*summary));
	assert_non_null(summary);
	for (size_t i = 0; i < 4; i++)
		uuids[i] = "";
	owner = 1;
	s = gs_record_put(&buf, GS_REC_SESSION, sizeof(*s), 0);
	s->mode = GS_SESSION_EVENTS;
	s->start_ns = SAMPLE_START_NS;
	p = gs_record_put(&buf, GS_REC_PROCESS, sizeof(*p), 0);
	p->id = 1;
	p->pid = 100;
	take(&buf);
	gs_buf_fini(&buf);
	return 0;
}

static int end(void **state)
{
	gs_accuracy_free(&accuracy);
	gs_summary_free(&summary);
	return 0;
}

static void put_node(struct gs_node_snapshot *n)
{
	struct gs_buf buf = GS_BUF_INIT(1u << 20);

	assert_int_equal(gs_node_encode(&buf, n), 0);
	take(&buf);
	gs_buf_fini(&buf);
	gs_node_snapshot_free(&n);
}

/* Each second a sample of n_gpus GPUs that are busy for this share; process k has pid 100 + k, on GPU k % n_gpus. */
static void sample(uint32_t n_gpus, uint32_t n_processes, unsigned until, double busy)
{
	for (unsigned t = 0; t <= until; t++) {
		struct gs_node_snapshot *n = sample_node(n_gpus, n_processes, t);

		for (uint32_t i = 0; i < n_gpus; i++)
			gs_gpu_set(&n->gpu->sample[i], GS_GPU_UTIL, busy);
		put_node(n);
	}
}

/* Work each second: at most from its begin for so many seconds, at least for so many in its middle. */
static void work(uint32_t context, unsigned until, double most, double least)
{
	for (unsigned t = 0; t < until; t++) {
		gs_accuracy_busy(accuracy, context, GS_ACTIVITY_AT_MOST, AT(t), AT(t + most));
		gs_accuracy_busy(accuracy, context, GS_ACTIVITY_AT_LEAST, AT(t + 0.1),
				 AT(t + 0.1 + least));
	}
}

static const char *uuid_of(void *ctx, uint32_t index, uint32_t *ret_process)
{
	*ret_process = owner;
	return uuids[index];
}

static const struct gs_gpu_summary *result(size_t n_gpus)
{
	assert_int_equal(gs_accuracy_summarize(accuracy, uuid_of, NULL, summary), 0);
	assert_int_equal(summary->n_gpus, n_gpus);
	return summary->gpus;
}

static void is_near(double got, double wanted)
{
	if (fabs(got - wanted) > 1e-6)
		fail_msg("%.9f and not %.9f", got, wanted);
}

static void truth_between_bounds(void **state)
{
	const struct gs_gpu_summary *g;

	work(0, 10, 0.6, 0.4);
	sample(1, 1, 10, 0.5);
	g = result(1);
	assert_int_equal(g->why, GS_GPU_COMPARED);
	assert_int_equal(g->compared_ns, 10 * SECOND);
	assert_int_equal(g->others_ns, 0);
	assert_false(g->others_hidden);
	is_near(g->compared_busy_ratio, 0.5);
	is_near(g->most_ratio, 0.6);
	is_near(g->least_ratio, 0.4);
	is_near(g->busy_ratio, 0.5);
	is_near(g->power_watts, 100);
	assert_int_equal(g->memory_peak_bytes, 10ll << 30);
	assert_int_equal(g->n_samples, 11);
	assert_string_equal(g->number, "0");
}

/* The counter is of the time before it was read, each time as it was then. */
static void counter_of_its_time(void **state)
{
	const struct gs_gpu_summary *g;

	gs_accuracy_busy(accuracy, 0, GS_ACTIVITY_AT_MOST, AT(2), AT(4));
	for (unsigned t = 0; t <= 4; t++) {
		struct gs_node_snapshot *n = sample_node(1, 1, t);

		gs_gpu_set(&n->gpu->sample[0], GS_GPU_UTIL, t > 2 ? 1 : 0);
		put_node(n);
	}
	g = result(1);
	is_near(g->compared_busy_ratio, 0.5);
	is_near(g->most_ratio, 0.5);
	is_near(g->least_ratio, 0);
}

/* What stands in several samples is one reading. */
static void old_reading_counts_once(void **state)
{
	const struct gs_gpu_summary *g;

	for (unsigned t = 0; t <= 6; t++) {
		struct gs_node_snapshot *n = sample_node(1, 1, t);
		struct gs_gpu_sample *s = &n->gpu->sample[0];

		/* Read at 0, 3 and 6 s. */
		gs_gpu_set(s, GS_GPU_UTIL, t < 3 ? 1 : t < 6 ? 0.25 : 0.75);
		gs_gpu_set_age(s, GS_GPU_UTIL, t % 3 * SECOND);
		put_node(n);
	}
	g = result(1);
	assert_int_equal(g->compared_ns, 6 * SECOND);
	is_near(g->compared_busy_ratio, 0.5);
}

static void beside_others(void **state)
{
	const struct gs_gpu_summary *g;

	work(0, 10, 0.6, 0.4);
	/* Pid 101 is not traced: idle but at 5 s, which is of up to a second before the sample at 4 s. */
	for (unsigned t = 0; t <= 10; t++) {
		struct gs_node_snapshot *n = sample_node(1, 2, t);

		gs_gpu_set(&n->gpu->sample[0], GS_GPU_UTIL, t == 5 ? 1 : 0.5);
		n->gpu->process[0].sm_ratio = 0.5;
		n->gpu->process[1].sm_ratio = t == 5 ? 0.5 : 0;
		put_node(n);
	}
	g = result(1);
	assert_int_equal(g->why, GS_GPU_COMPARED);
	assert_int_equal(g->others_ns,
			 2100000000); /* whole cells: that of the sample's moment too */
	assert_int_equal(g->compared_ns, 7900000000);
	is_near(g->compared_busy_ratio, 0.5);
}

static void others_all_the_time(void **state)
{
	work(0, 10, 0.6, 0.4);
	for (unsigned t = 0; t <= 10; t++) {
		struct gs_node_snapshot *n = sample_node(1, 2, t);

		n->gpu->process[1].sm_ratio = -1; /* not known: it may */
		put_node(n);
	}
	assert_int_equal(result(1)->why, GS_GPU_UNCOMPARED_OTHERS);
}

/* In a container: none of the driver's numbers is known. */
static void numbers_of_others(void **state)
{
	const struct gs_gpu_summary *g;

	work(0, 10, 0.6, 0.4);
	for (unsigned t = 0; t <= 10; t++) {
		struct gs_node_snapshot *n = sample_node(1, 1, t);

		gs_gpu_set(&n->gpu->sample[0], GS_GPU_UTIL, 0.5);
		n->gpu->process[0].pid = 7777;
		n->gpu->process[0].sm_ratio = 0.5;
		put_node(n);
	}
	g = result(1);
	assert_int_equal(g->why, GS_GPU_COMPARED);
	assert_true(g->others_hidden);
	is_near(g->most_ratio, 0.6);
}

static void several_contexts(void **state)
{
	const struct gs_gpu_summary *g;

	uuids[0] = uuids[1] = "GPU-00000000-0000";
	uuids[2] = "GPU-00000001-0000";
	work(0, 10, 0.6, 0.4);
	work(1, 10, 0.3, 0.1);
	work(2, 10, 0.9, 0.2);
	sample(2, 1, 10, 0.5);
	g = result(2);
	is_near(g[0].most_ratio, 0.6); /* both had work at once */
	is_near(g[0].least_ratio, 0.4);
	is_near(g[1].most_ratio, 0.9);
	is_near(g[1].least_ratio, 0.2);
}

static void never_more_than_all(void **state)
{
	const struct gs_gpu_summary *g;

	work(0, 10, 0.9, 0.4);
	work(1, 10, 0.8, 0.4);
	sample(1, 1, 10, 0.5);
	g = result(1);
	is_near(g->most_ratio, 0.9); /* 0.8 of the time there is twice as much as time */
}

static void placed_by_its_process(void **state)
{
	const struct gs_gpu_summary *g;

	work(0, 10, 0.6, 0.4);
	sample(2, 1, 10, 0.5); /* pid 100 is on GPU 0 */
	g = result(2);
	is_near(g[0].most_ratio, 0.6);
	assert_int_equal(g[1].why, GS_GPU_COMPARED);
	is_near(g[1].most_ratio, 0);
}

static void work_without_a_place(void **state)
{
	owner = 2;
	work(0, 10, 0.6, 0.4);
	sample(2, 1, 10, 0.5);
	assert_int_equal(result(2)[0].why, GS_GPU_UNCOMPARED_UNPLACED);
}

static void not_enough(void **state)
{
	work(0, 1, 0.6, 0.4);
	sample(1, 1, 0, 0.5);
	assert_int_equal(result(1)->why, GS_GPU_UNCOMPARED_NO_COUNTER);
}

static void no_counter(void **state)
{
	const struct gs_gpu_summary *g;

	for (unsigned t = 0; t <= 10; t++) {
		struct gs_node_snapshot *n = sample_node(1, 1, t);

		n->gpu->sample[0].why[GS_GPU_UTIL] = GS_GPU_REASON_NOT_SUPPORTED;
		put_node(n);
	}
	g = result(1);
	assert_int_equal(g->why, GS_GPU_UNCOMPARED_NO_COUNTER);
	assert_true(g->busy_ratio < 0);
}

/* Longer than the grid was at first: everything is still there, in coarser cells. */
static void long_trace(void **state)
{
	const struct gs_gpu_summary *g;

	for (unsigned part = 0; part < 5; part++) {
		for (unsigned t = part * 1000; t < (part + 1) * 1000; t++)
			gs_accuracy_busy(accuracy, 0, GS_ACTIVITY_AT_MOST, AT(t), AT(t + 0.6));
		for (unsigned t = part * 1000; t < (part + 1) * 1000; t++) {
			struct gs_node_snapshot *n = sample_node(1, 1, t);

			gs_gpu_set(&n->gpu->sample[0], GS_GPU_UTIL, 0.5);
			put_node(n);
		}
	}
	g = result(1);
	assert_true(g->compared_ns > 4980 * SECOND && g->compared_ns < 5000 * SECOND);
	is_near(g->compared_busy_ratio, 0.5);
	assert_true(fabs(g->most_ratio - 0.6) < 1e-3);
}

/* Times that cannot be do no harm. */
static void hostile_times(void **state)
{
	gs_accuracy_busy(accuracy, 0, GS_ACTIVITY_AT_MOST, 0, UINT64_MAX);
	gs_accuracy_busy(accuracy, 0, GS_ACTIVITY_AT_MOST, AT(1), 0);
	gs_accuracy_busy(accuracy, 0, GS_ACTIVITY_AT_LEAST, 0, INT64_MAX);
	sample(1, 1, 3, 0.5);
	assert_int_equal(result(1)->why, GS_GPU_UNCOMPARED_NO_ROOM);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(truth_between_bounds),
		TEST(counter_of_its_time),
		TEST(old_reading_counts_once),
		TEST(beside_others),
		TEST(others_all_the_time),
		TEST(numbers_of_others),
		TEST(several_contexts),
		TEST(never_more_than_all),
		TEST(placed_by_its_process),
		TEST(work_without_a_place),
		TEST(not_enough),
		TEST(no_counter),
		TEST(long_trace),
		TEST(hostile_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
