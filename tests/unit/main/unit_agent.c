/* The agent's parts that need no GPU: when groups are due, and what stays of the reading before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "commands/agent/agent_conf.h"
#include "commands/agent/agent_schedule.h"
#include "commands/agent/agent_state.h"

#define MS 1000000ULL
#define S  (1000 * MS)

static struct agent_conf conf;

static int set_up(void **state)
{
	gs_conf_defaults(&agent_conf_schema, &conf);
	agent_conf_resolve(&conf);
	return 0;
}

static void the_groups_have_their_own_pace(void **state)
{
	struct agent_schedule s = {0};
	unsigned reads[6] = {0};

	agent_schedule_init(&s, &conf, 100 * S);
	assert_int_equal(agent_schedule_take(&s, &conf, 100 * S - 1), 0);
	for (uint64_t now = 100 * S; now < 160 * S; now = agent_schedule_next(&s, &conf)) {
		unsigned groups = agent_schedule_take(&s, &conf, now);

		for (int i = 0; i < AGENT_GROUPS; i++)
			reads[i] += !!(groups & agent_group_bit[i]);
		reads[5] += !!(groups & GS_GPU_READ_EVENTS);
	}
	assert_int_equal(reads[AGENT_BASIC], 60);
	assert_int_equal(reads[AGENT_PROCESSES], 60);
	assert_int_equal(reads[AGENT_LINKS], 12);
	assert_int_equal(reads[AGENT_HEALTH], 2);
	assert_int_equal(reads[5], 60);
	assert_int_equal(s.group[AGENT_HEALTH].reads, 2);
	assert_int_equal(s.missed, 0);
}

static void what_did_not_take_place_is_counted(void **state)
{
	struct agent_schedule s = {0};

	agent_schedule_init(&s, &conf, 100 * S);
	(void)agent_schedule_take(&s, &conf, 100 * S);
	/* 101, 102 and 103 are over; this is the turn of 101, late. */
	assert_true(agent_schedule_take(&s, &conf, 103500 * MS) & GS_GPU_READ_BASIC);
	assert_int_equal(s.missed, 2);
	assert_int_equal(s.lag_ns, 2500 * MS);
	/* On the grid again. */
	assert_int_equal(agent_schedule_next(&s, &conf), 104 * S);
}

static void nothing_is_due_when_all_is_off(void **state)
{
	struct agent_schedule s = {0};

	for (int i = 0; i < AGENT_GROUPS; i++)
		conf.group[i].enabled = false;
	conf.sampling.events = false;
	agent_schedule_init(&s, &conf, S);
	assert_true(agent_schedule_next(&s, &conf) == UINT64_MAX);
	assert_int_equal(agent_schedule_take(&s, &conf, 5 * S), 0);
}

/* --- snapshots --- */

static struct gs_gpu_snapshot *snapshot(unsigned n)
{
	struct gs_gpu_snapshot *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->n_gpus = n;
	s->info = calloc(n, sizeof(*s->info));
	s->sample = calloc(n, sizeof(*s->sample));
	assert_non_null(s->info);
	assert_non_null(s->sample);
	for (unsigned i = 0; i < n; i++) {
		snprintf(s->info[i].uuid, sizeof(s->info[i].uuid), "GPU-%u", i);
		s->sample[i].time_ns = 7;
		for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
			gs_gpu_set(&s->sample[i], f, 100 * i + f);
	}
	return s;
}

static void a_change_is_one_of_the_group(void **state)
{
	struct gs_gpu_snapshot *a = snapshot(2), *b = snapshot(2);

	assert_true(agent_group_changed(NULL, b, AGENT_BASIC, 1));
	for (int g = 0; g < AGENT_GROUPS; g++)
		assert_false(agent_group_changed(a, b, g, 0.01));
	gs_gpu_set(&b->sample[1], GS_GPU_POWER, a->sample[1].value[GS_GPU_POWER] * 1.009);
	assert_false(agent_group_changed(a, b, AGENT_BASIC, 0.01));
	gs_gpu_set(&b->sample[1], GS_GPU_POWER, a->sample[1].value[GS_GPU_POWER] * 1.011);
	assert_true(agent_group_changed(a, b, AGENT_BASIC, 0.01));
	for (int g = AGENT_PROCESSES; g < AGENT_GROUPS; g++)
		assert_false(agent_group_changed(a, b, g, 0.01));
	/* A sum that grows is no change, an error is. */
	gs_gpu_set(&b->sample[0], GS_GPU_NVLINK_TX, 1e15);
	assert_false(agent_group_changed(a, b, AGENT_LINKS, 0.01));
	b->sample[0].value[GS_GPU_ECC_CORRECTED]++;
	assert_true(agent_group_changed(a, b, AGENT_HEALTH, 1));
	b->sample[0].why[GS_GPU_SM_ACTIVE] = GS_GPU_REASON_FAILED;
	assert_true(agent_group_changed(a, b, AGENT_GPM, 1));
	gs_gpu_snapshot_free(&a);
	gs_gpu_snapshot_free(&b);
}

static void the_interval_grows_and_comes_back(void **state)
{
	struct gs_gpu_snapshot *a = snapshot(1), *b = snapshot(1);
	struct agent_schedule s = {0};
	uint64_t now = 100 * S;

	conf.group[AGENT_BASIC].max_interval_ns = 5 * S;
	conf.group[AGENT_BASIC].threshold_ratio = 0.05;
	agent_schedule_init(&s, &conf, now);
	for (unsigned turn = 0; turn < 5; turn++) {
		static const uint64_t wanted[] = {2 * S, 4 * S, 5 * S, 5 * S, 5 * S};

		while (!(agent_schedule_take(&s, &conf, now) & GS_GPU_READ_BASIC))
			now = agent_schedule_next(&s, &conf);
		agent_schedule_adapt(&s, &conf, GS_GPU_READ_BASIC, a, b, now);
		assert_int_equal(s.group[AGENT_BASIC].turns.interval_ns, wanted[turn]);
		assert_int_equal(s.group[AGENT_BASIC].turns.next_ns, now + wanted[turn]);
	}
	now = s.group[AGENT_BASIC].turns.next_ns;
	(void)agent_schedule_take(&s, &conf, now);
	gs_gpu_set(&b->sample[0], GS_GPU_UTIL, 50);
	agent_schedule_adapt(&s, &conf, GS_GPU_READ_BASIC, a, b, now);
	assert_int_equal(s.group[AGENT_BASIC].turns.interval_ns, S);
	assert_int_equal(s.group[AGENT_BASIC].turns.next_ns, now + S);
	/* A group without a limit of its own stays as it is. */
	agent_schedule_adapt(&s, &conf, GS_GPU_READ_GPM, a, a, now);
	assert_int_equal(s.group[AGENT_GPM].turns.interval_ns, S);
	gs_gpu_snapshot_free(&a);
	gs_gpu_snapshot_free(&b);
}

static void what_was_not_read_stays(void **state)
{
	struct gs_gpu_snapshot *before = snapshot(3), *fresh = snapshot(2);

	/* They have swapped places, and one is gone. */
	strcpy(fresh->info[0].uuid, "GPU-1");
	strcpy(fresh->info[1].uuid, "GPU-0");
	before->process = calloc(3, sizeof(*before->process));
	assert_non_null(before->process);
	before->n_processes = 3;
	for (uint32_t i = 0; i < 3; i++)
		before->process[i] = (struct gs_gpu_process){.gpu = i, .pid = 10 + i};
	before->lost_events = 5;
	for (unsigned i = 0; i < 2; i++) {
		fresh->sample[i].why[GS_GPU_ECC_CORRECTED] = GS_GPU_REASON_NOT_READ;
		fresh->sample[i].why[GS_GPU_POWER] = GS_GPU_REASON_FAILED;
	}
	assert_int_equal(agent_merge(fresh, before, GS_GPU_READ_BASIC), 0);
	assert_true(gs_gpu_has(&fresh->sample[0], GS_GPU_ECC_CORRECTED));
	assert_float_equal(fresh->sample[0].value[GS_GPU_ECC_CORRECTED], 100 + GS_GPU_ECC_CORRECTED,
			   0);
	/* What was read and failed is not what it was before. */
	assert_false(gs_gpu_has(&fresh->sample[0], GS_GPU_POWER));
	assert_int_equal(fresh->n_processes, 2);
	assert_int_equal(fresh->process[0].pid, 10);
	assert_int_equal(fresh->process[0].gpu, 1);
	assert_int_equal(fresh->process[1].pid, 11);
	assert_int_equal(fresh->process[1].gpu, 0);
	assert_int_equal(fresh->lost_events, 5);
	/* A lost GPU has no values of before. */
	fresh->sample[0].lost = 1;
	fresh->sample[0].why[GS_GPU_ECC_CORRECTED] = GS_GPU_REASON_LOST;
	assert_int_equal(agent_merge(fresh, before, GS_GPU_READ_BASIC), 0);
	assert_false(gs_gpu_has(&fresh->sample[0], GS_GPU_ECC_CORRECTED));
	/* With the group read, processes are those of the reading: none. */
	free(fresh->process);
	fresh->process = NULL;
	fresh->n_processes = 0;
	assert_int_equal(agent_merge(fresh, before, GS_GPU_READ_PROCESSES), 0);
	assert_int_equal(fresh->n_processes, 0);
	gs_gpu_snapshot_free(&before);
	gs_gpu_snapshot_free(&fresh);
}

static void xids_are_counted_by_gpu_and_code(void **state)
{
	struct agent_state s;

	assert_int_equal(agent_state_init(&s, &conf), 0);
	agent_schedule_init(&s.schedule, &conf, S);
	for (unsigned i = 0; i < 2 * AGENT_XIDS_MAX; i++) {
		struct gs_gpu_snapshot *fresh = snapshot(1);

		fresh->event = calloc(2, sizeof(*fresh->event));
		assert_non_null(fresh->event);
		fresh->n_events = 2;
		fresh->event[0].xid = 79;
		fresh->event[1].xid = i + 1000;
		agent_state_put(&s, &fresh, GS_GPU_READ_ALL, NULL);
		assert_null(fresh);
	}
	assert_int_equal(s.n_xids, AGENT_XIDS_MAX);
	assert_int_equal(s.xids[0].count, 2 * AGENT_XIDS_MAX);
	assert_int_equal(s.xids_dropped, AGENT_XIDS_MAX + 1);
	assert_int_equal(s.samples, 2 * AGENT_XIDS_MAX);
	agent_state_fini(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_groups_have_their_own_pace, set_up),
		cmocka_unit_test_setup(what_did_not_take_place_is_counted, set_up),
		cmocka_unit_test_setup(nothing_is_due_when_all_is_off, set_up),
		cmocka_unit_test_setup(a_change_is_one_of_the_group, set_up),
		cmocka_unit_test_setup(the_interval_grows_and_comes_back, set_up),
		cmocka_unit_test_setup(what_was_not_read_stays, set_up),
		cmocka_unit_test_setup(xids_are_counted_by_gpu_and_code, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
