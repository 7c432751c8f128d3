/* Each condition with its text, the worst of several, since when, and what is no condition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/gpu_health/gpu_health.h"

#define S 1000000000ull

struct machine { /* one GPU, and the snapshot before */
	struct gs_gpu_info info[2];
	struct gs_gpu_sample sample[2];
	struct gs_gpu_process process;
	struct gs_gpu_event event;
	struct gs_gpu_snapshot snapshot[2];
	unsigned n;
};

static struct gs_gpu_sample *next_sample(struct machine *m, uint64_t second)
{
	unsigned at = m->n++ % 2;
	struct gs_gpu_snapshot *s = &m->snapshot[at];

	*s = (struct gs_gpu_snapshot){
		.time_ns = second * S, .info = &m->info[at], .sample = &m->sample[at], .n_gpus = 1};
	m->info[at] = gs_gpu_info_unknown;
	strcpy(m->info[at].uuid, "GPU-1");
	strcpy(m->info[at].pci_bus_id, "00000000:3B:00.0");
	memset(&m->sample[at], 0, sizeof(m->sample[at]));
	memset(m->sample[at].why, GS_GPU_REASON_NOT_READ, sizeof(m->sample[at].why));
	gs_gpu_set(&m->sample[at], GS_GPU_UTIL, 0.9);
	gs_gpu_set(&m->sample[at], GS_GPU_CLOCK_SM, 780e6);
	gs_gpu_set(&m->sample[at], GS_GPU_CLOCK_SM_MAX, 1980e6);
	gs_gpu_set(&m->sample[at], GS_GPU_TEMP_GPU, 70);
	gs_gpu_set(&m->sample[at], GS_GPU_POWER, 699);
	gs_gpu_set(&m->sample[at], GS_GPU_POWER_LIMIT, 700);
	return &m->sample[at];
}

static struct gs_gpu_health judge_sample(struct machine *m, char text[GS_GPU_HEALTH_TEXT_BYTES])
{
	struct gs_gpu_snapshot *s = &m->snapshot[(m->n - 1) % 2];
	struct gs_gpu_health h;

	gs_gpu_health_follow(m->n > 1 ? &m->snapshot[m->n % 2] : NULL, s);
	gs_gpu_health_judge(s, 0, &h);
	gs_gpu_health_text(s, 0, h.condition, text);
	return h;
}

static void conditions_of_one_sample(void **state)
{
	static const struct {
		enum gs_gpu_field field;
		double value, limit;
		enum gs_gpu_field limit_field; /* of limit, when it is not 0 */
		enum gs_gpu_condition condition;
		enum gs_gpu_health_state state;
		const char *text;
	} cases[] = {
		{GS_GPU_RECOVERY_ACTION, 1, 0, 0, GS_GPU_CONDITION_RECOVERY, GS_GPU_HEALTH_FAILING,
		 "broken: the driver asks for a reset"},
		{GS_GPU_RECOVERY_ACTION, 9, 0, 0, GS_GPU_CONDITION_RECOVERY, GS_GPU_HEALTH_FAILING,
		 "broken: the driver asks for recovery action 9"},
		{GS_GPU_REMAP_FAILED, 1, 0, 0, GS_GPU_CONDITION_REMAP_FAILED, GS_GPU_HEALTH_FAILING,
		 "faulty memory: a row could not be replaced"},
		{GS_GPU_ECC_NOW_UNCORRECTED, 2, 0, 0, GS_GPU_CONDITION_ECC_UNCORRECTED,
		 GS_GPU_HEALTH_FAILING, "uncorrected memory errors: 2 since the driver was loaded"},
		{GS_GPU_THROTTLE_REASONS, 0x48, 0, 0, GS_GPU_CONDITION_HW_HEAT,
		 GS_GPU_HEALTH_THROTTLED, "throttled by heat: 70 °C, 780 of 1980 MHz"},
		{GS_GPU_THROTTLE_REASONS, 0x20, 0, 0, GS_GPU_CONDITION_SW_HEAT,
		 GS_GPU_HEALTH_THROTTLED, "throttled by heat (driver): 70 °C, 780 of 1980 MHz"},
		{GS_GPU_THROTTLE_REASONS, 0x88, 0, 0, GS_GPU_CONDITION_POWER_BRAKE,
		 GS_GPU_HEALTH_THROTTLED,
		 "throttled by the power brake: 699 of 700 W, 780 of 1980 MHz"},
		{GS_GPU_THROTTLE_REASONS, 0x08, 0, 0, GS_GPU_CONDITION_HW_SLOWDOWN,
		 GS_GPU_HEALTH_THROTTLED, "throttled by the hardware: 70 °C, 780 of 1980 MHz"},
		{GS_GPU_THROTTLE_REASONS, 0x04, 0, 0, GS_GPU_CONDITION_POWER_CAP,
		 GS_GPU_HEALTH_THROTTLED,
		 "throttled by the power cap: 699 of 700 W, 780 of 1980 MHz"},
		{GS_GPU_THROTTLE_REASONS, 0x10, 0, 0, GS_GPU_CONDITION_SYNC_BOOST,
		 GS_GPU_HEALTH_THROTTLED, "throttled by sync boost, 780 of 1980 MHz"},
		{GS_GPU_THROTTLE_REASONS, 0x103, 0, 0, GS_GPU_CONDITION_NONE, GS_GPU_HEALTH_OK, ""},
		{GS_GPU_TEMP_GPU, 88, 90, GS_GPU_TEMP_SLOWDOWN, GS_GPU_CONDITION_HOT,
		 GS_GPU_HEALTH_DEGRADED, "hot: 88 of 90 °C"},
		{GS_GPU_TEMP_GPU, 86, 90, GS_GPU_TEMP_SLOWDOWN, GS_GPU_CONDITION_NONE,
		 GS_GPU_HEALTH_OK, ""},
		{GS_GPU_TEMP_MEM, 103, 105, GS_GPU_TEMP_MEM_MAX, GS_GPU_CONDITION_MEMORY_HOT,
		 GS_GPU_HEALTH_DEGRADED, "memory hot: 103 of 105 °C"},
		{GS_GPU_REMAP_PENDING, 1, 0, 0, GS_GPU_CONDITION_REPAIR_PENDING,
		 GS_GPU_HEALTH_DEGRADED, "faulty memory: waits for a reset to be replaced"},
		{GS_GPU_RETIRED_PENDING, 1, 0, 0, GS_GPU_CONDITION_REPAIR_PENDING,
		 GS_GPU_HEALTH_DEGRADED, "faulty memory: waits for a reset to be replaced"},
		{GS_GPU_PCIE_WIDTH, 4, 16, GS_GPU_PCIE_WIDTH_MAX, GS_GPU_CONDITION_PCIE_WIDTH,
		 GS_GPU_HEALTH_DEGRADED, "PCIe x4 of x16"},
		{GS_GPU_PCIE_WIDTH, 16, 16, GS_GPU_PCIE_WIDTH_MAX, GS_GPU_CONDITION_NONE,
		 GS_GPU_HEALTH_OK, ""},
		{GS_GPU_UTIL, 0, 0, 0, GS_GPU_CONDITION_NONE, GS_GPU_HEALTH_IDLE, ""},
	};
	char text[GS_GPU_HEALTH_TEXT_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct machine m = {0};
		struct gs_gpu_sample *s = next_sample(&m, 100);
		struct gs_gpu_health h;

		gs_gpu_set(s, cases[i].field, cases[i].value);
		if (cases[i].limit > 0)
			gs_gpu_set(s, cases[i].limit_field, cases[i].limit);
		h = judge_sample(&m, text);
		assert_string_equal(text, cases[i].text);
		assert_int_equal(h.condition, cases[i].condition);
		assert_int_equal(h.state, cases[i].state);
		assert_int_equal(h.severity, gs_gpu_condition_severity(cases[i].condition));
		/* The same value without being known is nothing. */
		if (cases[i].field != GS_GPU_UTIL && cases[i].field != GS_GPU_TEMP_GPU) {
			s->why[cases[i].field] = GS_GPU_REASON_FAILED;
			assert_int_equal(judge_sample(&m, text).condition, GS_GPU_CONDITION_NONE);
		}
	}
}

static void since_when(void **state)
{
	char text[GS_GPU_HEALTH_TEXT_BYTES];
	struct machine m = {0};
	struct gs_gpu_health h;

	gs_gpu_set(next_sample(&m, 10), GS_GPU_THROTTLE_REASONS, 0);
	assert_int_equal(judge_sample(&m, text).condition, GS_GPU_CONDITION_NONE);
	gs_gpu_set(next_sample(&m, 20), GS_GPU_THROTTLE_REASONS, 0x40);
	judge_sample(&m, text);
	assert_string_equal(text, "throttled by heat: 70 °C, 780 of 1980 MHz");
	gs_gpu_set(next_sample(&m, 380), GS_GPU_THROTTLE_REASONS, 0x40);
	h = judge_sample(&m, text);
	assert_string_equal(text, "throttled by heat: 70 °C, 780 of 1980 MHz, for 6 min");
	assert_int_equal(h.since_ns, 20 * S);
	/* A gap, and it begins again. */
	gs_gpu_set(next_sample(&m, 390), GS_GPU_THROTTLE_REASONS, 0);
	judge_sample(&m, text);
	gs_gpu_set(next_sample(&m, 400), GS_GPU_THROTTLE_REASONS, 0x40);
	assert_int_equal(judge_sample(&m, text).since_ns, 400 * S);
	/* The machine was started again: times before are of another clock. */
	gs_gpu_set(next_sample(&m, 5), GS_GPU_THROTTLE_REASONS, 0x40);
	assert_int_equal(judge_sample(&m, text).since_ns, 5 * S);
	gs_gpu_set(next_sample(&m, 65), GS_GPU_THROTTLE_REASONS, 0x40);
	judge_sample(&m, text);
	assert_string_equal(text, "throttled by heat: 70 °C, 780 of 1980 MHz, for at least 60 s");
}

static void idle_takes_time_and_a_holder(void **state)
{
	char text[GS_GPU_HEALTH_TEXT_BYTES];
	struct machine m = {.process = {.user = "alice"}};

	for (uint64_t second = 100; second <= 125; second++) {
		struct gs_gpu_health h;

		gs_gpu_set(next_sample(&m, second), GS_GPU_UTIL, second == 100 ? 0.5 : 0);
		m.snapshot[(m.n - 1) % 2].process = &m.process;
		m.snapshot[(m.n - 1) % 2].n_processes = 1;
		h = judge_sample(&m, text);
		assert_int_equal(h.state, second == 100 ? GS_GPU_HEALTH_OK : GS_GPU_HEALTH_IDLE);
		assert_int_equal(h.condition, second >= 121 ? GS_GPU_CONDITION_IDLE_HELD
							    : GS_GPU_CONDITION_NONE);
	}
	assert_string_equal(text, "idle for 24 s, held by alice");
	gs_gpu_set(next_sample(&m, 126), GS_GPU_UTIL, 0);
	assert_int_equal(judge_sample(&m, text).condition, GS_GPU_CONDITION_NONE); /* it ended */
}

static struct gs_gpu_health judge_event(struct machine *m, uint64_t second, uint32_t xid,
					char text[GS_GPU_HEALTH_TEXT_BYTES])
{
	next_sample(m, second);
	m->event = (struct gs_gpu_event){.time_ns = second * S, .xid = xid};
	strcpy(m->event.pci_bus_id, "00000000:3b:00.0");
	m->snapshot[(m->n - 1) % 2].event = &m->event;
	m->snapshot[(m->n - 1) % 2].n_events = xid != 0;
	return judge_sample(m, text);
}

static void xids_are_fresh_for_ten_minutes(void **state)
{
	char text[GS_GPU_HEALTH_TEXT_BYTES];
	struct machine m = {0};

	assert_int_equal(judge_event(&m, 10, 31, text).condition, GS_GPU_CONDITION_PROGRAM_XID);
	assert_int_equal(judge_event(&m, 11, 0, text).state, GS_GPU_HEALTH_OK);
	assert_int_equal(judge_event(&m, 12, 79, text).state, GS_GPU_HEALTH_FAILING);
	/* That of a program does not hide it. */
	assert_int_equal(judge_event(&m, 72, 31, text).condition, GS_GPU_CONDITION_XID);
	assert_string_equal(text, "XID 79 60 s ago: GPU has fallen off the bus");
	assert_int_equal(judge_event(&m, 611, 0, text).condition, GS_GPU_CONDITION_XID);
	assert_int_equal(judge_event(&m, 612, 0, text).condition, GS_GPU_CONDITION_NONE);
}

static void lost_hides_what_was_before(void **state)
{
	char text[GS_GPU_HEALTH_TEXT_BYTES];
	struct machine m = {0};
	struct gs_gpu_sample *s = next_sample(&m, 10);
	struct gs_gpu_health h;

	gs_gpu_set(s, GS_GPU_THROTTLE_REASONS, 0x40);
	gs_gpu_set(s, GS_GPU_PCIE_WIDTH, 4);
	gs_gpu_set(s, GS_GPU_PCIE_WIDTH_MAX, 16);
	h = judge_sample(&m, text);
	assert_int_equal(h.holds,
			 1u << GS_GPU_CONDITION_HW_HEAT | 1u << GS_GPU_CONDITION_PCIE_WIDTH);
	s->lost = 1;
	h = judge_sample(&m, text);
	assert_int_equal(h.holds, 1u << GS_GPU_CONDITION_LOST);
	assert_int_equal(h.state, GS_GPU_HEALTH_FAILING);
	assert_string_equal(text, "lost: off the bus");
	assert_true(gs_gpu_condition_advice(h.condition)[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conditions_of_one_sample),
		cmocka_unit_test(since_when),
		cmocka_unit_test(idle_takes_time_and_a_holder),
		cmocka_unit_test(xids_are_fresh_for_ten_minutes),
		cmocka_unit_test(lost_hides_what_was_before),
	};

	return cmocka_run_group_tests_name("gpu_health/health", tests, NULL, NULL);
}
