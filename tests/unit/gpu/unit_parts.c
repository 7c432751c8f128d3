/* What is read when, and at which cost: counted by the calls that the reader says it made. */
#include "core/base/clock.h"
#include "gpu_test.h"

static struct gs_gpu_cost cost_of(struct gs_gpu *gpu, enum gs_gpu_cost_by by, const char *name)
{
	struct gs_gpu_cost c[GS_GPU_COSTS_MAX];
	size_t n = gs_gpu_costs(gpu, by, c, GS_GPU_COSTS_MAX);

	for (size_t i = 0; i < n; i++)
		if (strcmp(c[i].name, name) == 0)
			return c[i];
	return (struct gs_gpu_cost){.name = name, .way = ""};
}

static unsigned parts_read(struct gs_gpu *gpu, const char *name)
{
	return (unsigned)cost_of(gpu, GS_GPU_COST_BY_PART, name).n;
}

static unsigned calls(struct gs_gpu *gpu, const char *name)
{
	return (unsigned)cost_of(gpu, GS_GPU_COST_BY_CALL, name).n;
}

static void read_times(struct gs_gpu *gpu, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		usleep(2000);
		skip_one(gpu);
	}
}

static void test_without_budget(void **state)
{
	struct gs_gpu *gpu;

	pretend("gpus=2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	read_times(gpu, 10);
	assert_int_equal(parts_read(gpu, "memory"), 20);
	assert_int_equal(parts_read(gpu, "utilization"), 20);
	assert_int_equal(parts_read(gpu, "power"), 20);
	assert_int_equal(parts_read(gpu, "ecc"), 2);
	assert_int_equal(calls(gpu, "nvmlDeviceGetUtilizationRates"), 20);
	assert_int_equal(calls(gpu, "nvmlDeviceGetPowerUsage"), 0);
	assert_int_equal(calls(gpu, "nvmlDeviceGetPcieThroughput"), 0);
	gs_gpu_close(&gpu);
}

/* A GPU with neither counters nor GPM: NVML measures, seldom, and the values say how old they are.
 */
static void test_pcie_is_measured(void **state)
{
	struct gs_gpu_snapshot *s, *later;
	uint64_t start_ns = gs_clock_mono_ns();
	struct gs_gpu *gpu;
	unsigned most;

	pretend("gpus=2,board=t4");
	gpu = open_with(FAKE_NVML_OLD, (struct gs_gpu_options){0});
	/* The first reading finds that there is no GPM. */
	skip_one(gpu);
	s = read_one(gpu);
	assert_why(&s->sample[0], PCIE_TX, NOT_SUPPORTED);
	assert_value(&s->sample[0], PCIE_TX_BPS, 1000 * 1024.0);
	assert_value(&s->sample[1], PCIE_RX_BPS, 2001 * 1024.0);
	assert_true(s->sample[1].pcie_measured);
	read_times(gpu, 20);
	later = read_one(gpu);
	most = 4 + 4 * (unsigned)((gs_clock_mono_ns() - start_ns) / 10000000000ull);
	assert_in_range(calls(gpu, "nvmlDeviceGetPcieThroughput"), 4, most);
	assert_string_equal(cost_of(gpu, GS_GPU_COST_BY_PART, "pcie_rate").way, "call");
	assert_value(&later->sample[1], PCIE_RX_BPS, 2001 * 1024.0);
	if (calls(gpu, "nvmlDeviceGetPcieThroughput") == 4)
		assert_int_equal(later->sample[0].time_ns -
					 gs_gpu_age_ns(&later->sample[0], GS_GPU_PCIE_RX_BPS),
				 s->sample[0].part_ns[GS_GPU_PART_PCIE_RATE]);
	gs_gpu_snapshot_free(&s);
	gs_gpu_snapshot_free(&later);
	gs_gpu_close(&gpu);

	gpu = open_with(FAKE_NVML_OLD,
			(struct gs_gpu_options){.leave_out = 1ull << GS_GPU_PART_PCIE_RATE});
	read_times(gpu, 3);
	assert_int_equal(calls(gpu, "nvmlDeviceGetPcieThroughput"), 0);
	gs_gpu_close(&gpu);
}

/* A rate from counters is as old as their reading, whatever else was read since. */
static void test_age_of_rates(void **state)
{
	struct gs_gpu_snapshot *s, *later;
	struct gs_gpu *gpu;

	pretend("gpus=1,board=a100");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	read_times(gpu, 2);
	s = read_one(gpu);
	assert_true(gs_gpu_has(&s->sample[0], GS_GPU_PCIE_TX_BPS));
	usleep(2000);
	assert_int_equal(gs_gpu_read_groups(gpu, GS_GPU_READ_GPM | GS_GPU_READ_PROCESSES, &later),
			 0);
	assert_true(later->sample[0].time_ns > s->sample[0].time_ns);
	assert_int_equal(later->sample[0].time_ns -
				 gs_gpu_age_ns(&later->sample[0], GS_GPU_PCIE_TX_BPS),
			 s->sample[0].part_ns[GS_GPU_PART_PCIE_RATE]);
	gs_gpu_snapshot_free(&s);
	gs_gpu_snapshot_free(&later);
	gs_gpu_close(&gpu);
}

/* Nothing is in the budget: each part is tried, then comes when its longest interval is over. */
static void test_costly_parts_wait(void **state)
{
	struct gs_gpu_snapshot *s;
	uint64_t first_ns;
	unsigned n;
	struct gs_gpu *gpu;

	pretend("gpus=2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.budget = 1e-7});
	s = read_one(gpu);
	/* The first reading is whole. */
	assert_value(&s->sample[1], POWER, 301);
	assert_value(&s->sample[1], UTIL, 0.17);
	assert_value(&s->sample[1], POWER_LIMIT, 700);
	first_ns = s->sample[1].part_ns[GS_GPU_PART_FAN];
	assert_true(first_ns > 0);
	gs_gpu_snapshot_free(&s);
	read_times(gpu, 39);
	assert_int_equal(parts_read(gpu, "memory"), 80);
	assert_int_equal(parts_read(gpu, "utilization"), 4);
	assert_int_equal(parts_read(gpu, "fan"), 4);
	assert_int_equal(parts_read(gpu, "ecc"), 2);
	/* Two ways, each tried twice. */
	assert_int_equal(parts_read(gpu, "power"), 8);
	assert_int_equal(calls(gpu, "nvmlDeviceGetPowerUsage"), 4);
	s = read_one(gpu);
	/* It is still there, and tells how old it is. */
	assert_int_equal(s->sample[1].why[GS_GPU_MEM_UTIL], GS_GPU_REASON_OK);
	assert_true(s->sample[1].part_ns[GS_GPU_PART_MEMORY_ACTIVITY] <
		    s->sample[1].part_ns[GS_GPU_PART_MEMORY]);
	assert_true(s->sample[1].part_ns[GS_GPU_PART_FAN] >= first_ns);
	/* Processes are listed in every snapshot, whether they were asked for or not. */
	assert_int_equal(s->n_processes, 1);
	gs_gpu_snapshot_free(&s);
	/* They are read each time until the next plan, when the first one did not know their cost.
	 */
	for (n = 41; parts_read(gpu, "processes") == n * 2 && n < 41 + 60; n++) {
		usleep(110000);
		skip_one(gpu);
	}
	assert_true(parts_read(gpu, "processes") < n * 2);
	gs_gpu_close(&gpu);
}

/* All is in the budget: nothing waits. */
/* Who asks more often has a larger budget: values must not stand still until the next plan. */
static void test_budget_that_changes(void **state)
{
	struct gs_gpu *gpu;
	struct gs_gpu_snapshot *before, *now;

	pretend("gpus=1,burn=DeviceGetUtilizationRates:3000");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.budget = 0.0001});
	read_times(gpu, 8);
	before = read_one(gpu);
	now = read_one(gpu);
	assert_int_equal(now->sample[0].part_ns[GS_GPU_PART_UTILIZATION],
			 before->sample[0].part_ns[GS_GPU_PART_UTILIZATION]);
	gs_gpu_set_budget(gpu, 100);
	/* The first reading finds the new intervals; the next plan would be made after 5 s. */
	for (int i = 0; i < 200 && now->sample[0].part_ns[GS_GPU_PART_UTILIZATION] ==
					   before->sample[0].part_ns[GS_GPU_PART_UTILIZATION];
	     i++) {
		usleep(5000);
		gs_gpu_snapshot_free(&now);
		now = read_one(gpu);
	}
	assert_true(now->sample[0].part_ns[GS_GPU_PART_UTILIZATION] >
		    before->sample[0].part_ns[GS_GPU_PART_UTILIZATION]);
	gs_gpu_snapshot_free(&before);
	gs_gpu_snapshot_free(&now);
	gs_gpu_close(&gpu);
}

static void test_cheap_parts_do_not_wait(void **state)
{
	struct gs_gpu *gpu;

	pretend("gpus=1");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.budget = 1000});
	read_times(gpu, 20);
	assert_int_equal(parts_read(gpu, "utilization"), 20);
	assert_int_equal(parts_read(gpu, "fan"), 20);
	gs_gpu_close(&gpu);
}

static void test_cheaper_way(void **state)
{
	struct gs_gpu *gpu;

	/* A field costs 3 ms, the call nothing. */
	pretend("gpus=1,burn=DeviceGetFieldValues:3000");
	gpu = open_with(FAKE_NVML,
			(struct gs_gpu_options){.budget = 1000, .groups = GS_GPU_READ_BASIC});
	read_times(gpu, 8);
	assert_string_equal(cost_of(gpu, GS_GPU_COST_BY_PART, "power").way, "call");
	assert_string_equal(cost_of(gpu, GS_GPU_COST_BY_PART, "energy").way, "call");
	assert_true(calls(gpu, "nvmlDeviceGetPowerUsage") == 6);
	assert_true(cost_of(gpu, GS_GPU_COST_BY_CALL, "nvmlDeviceGetFieldValues").cpu_ns > 6000000);
	gs_gpu_close(&gpu);

	pretend("gpus=1,burn=DeviceGetPowerUsage:3000");
	gpu = open_with(FAKE_NVML,
			(struct gs_gpu_options){.budget = 1000, .groups = GS_GPU_READ_BASIC});
	read_times(gpu, 8);
	assert_string_equal(cost_of(gpu, GS_GPU_COST_BY_PART, "power").way, "fields");
	assert_int_equal(calls(gpu, "nvmlDeviceGetPowerUsage"), 2);
	gs_gpu_close(&gpu);

	/* The cheaper one does not work. */
	pretend("gpus=1,burn=DeviceGetFieldValues:500,fail=DeviceGetPowerUsage:3");
	gpu = open_with(FAKE_NVML,
			(struct gs_gpu_options){.budget = 1000, .groups = GS_GPU_READ_BASIC});
	read_times(gpu, 8);
	assert_string_equal(cost_of(gpu, GS_GPU_COST_BY_PART, "power").way, "fields");
	gs_gpu_close(&gpu);
}

/* Where the call of utilisation is too dear GPM tells it, which is read anyway. */
static void test_utilization_of_gpm(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=1,burn=DeviceGetUtilizationRates:2000");
	gpu = open_with(FAKE_NVML,
			(struct gs_gpu_options){.budget = 1e-4,
						.groups = GS_GPU_READ_BASIC | GS_GPU_READ_GPM});
	s = read_one(gpu);
	assert_value(&s->sample[0], UTIL, 0.07);
	gs_gpu_snapshot_free(&s);
	/* Plans are made each 5 s; the first one after two readings of everything. */
	for (unsigned i = 0; i < 60; i++) {
		usleep(110000);
		s = read_one(gpu);
		if (strcmp(cost_of(gpu, GS_GPU_COST_BY_PART, "utilization").way, "gpm") == 0 &&
		    s->sample[0].value[GS_GPU_UTIL] == s->sample[0].value[GS_GPU_GR_ACTIVE])
			break;
		gs_gpu_snapshot_free(&s);
	}
	assert_non_null(s);
	assert_value(&s->sample[0], UTIL, 0.05);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_left_out(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=1");
	gpu = open_with(FAKE_NVML,
			(struct gs_gpu_options){.leave_out = 1ull << GS_GPU_PART_FAN |
							     1ull << GS_GPU_PART_LINK_EACH});
	s = read_one(gpu);
	assert_int_equal(calls(gpu, "nvmlDeviceGetFanSpeed"), 0);
	assert_int_equal(parts_read(gpu, "nvlink_each"), 0);
	assert_why(&s->sample[0], FAN, NOT_READ);
	assert_int_equal(s->sample[0].n_links, 18);
	assert_int_equal(s->sample[0].link[0].have_bytes, 0);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

/* Links tell the same by calls as by fields. */
static void test_links(void **state)
{
	struct gs_gpu_snapshot *s = NULL;
	struct gs_gpu *gpu;

	pretend("gpus=2,burn=DeviceGetNvLinkErrorCounter:100");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.budget = 1000, .slow_ns = 1});
	for (unsigned i = 0; i < 400; i++) {
		usleep(2000);
		s = read_one(gpu);
		assert_value(&s->sample[1], NVLINK_ACTIVE, 17);
		assert_value(&s->sample[0], NVLINK_CRC, NVML_LINK_CRC_FLIT + 1);
		assert_value(&s->sample[0], NVLINK_REPLAY, NVML_LINK_REPLAY + 1);
		assert_value(&s->sample[0], NVLINK_RECOVERY, NVML_LINK_RECOVERY + 1);
		assert_why(&s->sample[0], NVLINK_SYMBOL, NOT_SUPPORTED);
		gs_gpu_snapshot_free(&s);
		if (strcmp(cost_of(gpu, GS_GPU_COST_BY_PART, "nvlink_state").way, "fields") == 0)
			break;
	}
	assert_string_equal(cost_of(gpu, GS_GPU_COST_BY_PART, "nvlink_state").way, "fields");
	gs_gpu_close(&gpu);
}

static void test_nvlink_5_and_c2c(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=1,board=b200,c2c=10");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	s = read_one(gpu);
	/* Sum over 18 links of 10 * field + link. */
	assert_value(&s->sample[0], NVLINK_MALFORMED, 18 * 2060 + 153);
	assert_value(&s->sample[0], NVLINK_DISCARDS, 18 * 2120 + 153);
	assert_value(&s->sample[0], NVLINK_SYMBOL, 18 * 2210 + 153);
	assert_int_equal(s->sample[0].link[3].have_counts, (1 << GS_GPU_LINK_COUNTS) - 1);
	assert_int_equal(s->sample[0].link[3].count[GS_GPU_LINK_EFFECTIVE], 2193);
	assert_int_equal(s->sample[0].link[0].have_bytes, 1);
	assert_value(&s->sample[0], C2C_ENABLED, 1);
	assert_value(&s->sample[0], C2C_LINKS, 9);
	assert_value(&s->sample[0], C2C_BPS_MAX, 9 * 44712e6);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);

	pretend("gpus=1");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	s = read_one(gpu);
	assert_why(&s->sample[0], C2C_ENABLED, NOT_SUPPORTED);
	assert_why(&s->sample[0], C2C_LINKS, NOT_SUPPORTED);
	assert_int_equal(s->sample[0].link[3].have_counts, 0);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

/* What a board says of a value when only what the value needs is read: read until its turn has come,
 * rates and shares after some samples. With a wrong group it never comes. */
static enum gs_gpu_reason read_alone(enum gs_gpu_field field, const char *board)
{
	/* The stand-in's clock ticks when memory is asked for, which `gpuscope gpu` always does. */
	struct gs_gpu_options o = {
		.leave_out = ~(gs_gpu_parts_needed(field) | 1ull << GS_GPU_PART_MEMORY)};
	enum gs_gpu_reason why = GS_GPU_REASON_NOT_READ;
	struct gs_gpu *gpu;

	pretend(board);
	gpu = open_with(FAKE_NVML, o);
	for (int i = 0; i < 4000 && why == GS_GPU_REASON_NOT_READ; i++) {
		struct gs_gpu_snapshot *s;

		usleep(2000);
		s = read_one(gpu);
		why = (enum gs_gpu_reason)s->sample[0].why[field];
		gs_gpu_snapshot_free(&s);
	}
	gs_gpu_close(&gpu);
	return why;
}

/* With a wrong group in its row a field would never be read when it alone is asked for. */
static void test_every_field_is_read_by_its_group(void **state)
{
	static const char *const boards[] = {"gpus=1", "gpus=1,board=b200,c2c=10",
					     "gpus=1,board=a100", "gpus=1,board=t4"};

	for (int f = 0; f < GS_GPU_FIELD_COUNT; f++) {
		bool found = f == GS_GPU_MEM_USED_RATIO; /* only gswarm's nodes send it */

		for (size_t b = 0; b < sizeof(boards) / sizeof(boards[0]) && !found; b++) {
			enum gs_gpu_reason why = read_alone((enum gs_gpu_field)f, boards[b]);

			found = why == GS_GPU_REASON_OK;
			if (why == GS_GPU_REASON_NOT_READ)
				break;
		}
		if (!found)
			fail_msg("%s: no board has it when its group is read",
				 gs_gpu_field_info((unsigned)f)->key);
	}
}

static void test_names(void **state)
{
	for (int i = 0; i < GS_GPU_PARTS; i++)
		assert_int_equal(gs_gpu_part_by_name(gs_gpu_part_name((unsigned)i)), i);
	assert_int_equal(gs_gpu_part_by_name("nonsense"), -1);
	assert_int_equal(gs_gpu_part_of(GS_GPU_ECC_SRAM_CORRECTED), GS_GPU_PART_ECC);
	assert_int_equal(gs_gpu_part_of(GS_GPU_TEMP_GPU_MAX), GS_GPU_PART_LIMITS);
	assert_int_equal(gs_gpu_part_of(GS_GPU_PIPE_IMMA), GS_GPU_PART_GPM);
	assert_int_equal(gs_gpu_part_of(GS_GPU_NVLINK_INTEGRITY), GS_GPU_PART_LINKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_budget),
		cmocka_unit_test(test_pcie_is_measured),
		cmocka_unit_test(test_age_of_rates),
		cmocka_unit_test(test_costly_parts_wait),
		cmocka_unit_test(test_budget_that_changes),
		cmocka_unit_test(test_cheap_parts_do_not_wait),
		cmocka_unit_test(test_cheaper_way),
		cmocka_unit_test(test_utilization_of_gpm),
		cmocka_unit_test(test_left_out),
		cmocka_unit_test(test_links),
		cmocka_unit_test(test_nvlink_5_and_c2c),
		cmocka_unit_test(test_every_field_is_read_by_its_group),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, clean_up);
}
