/* The table of the firmware, in each of its versions. */
#include "amdgpu_test.h"

static uint8_t table[GS_AMDGPU_METRICS_MAX];

static const struct member some[] = {
	{"edge", 51},         {"hotspot", 58},
	{"mem", 62},          {"gfx", 87},
	{"umc", 41},          {"mm", 3},
	{"vcn", 7},           {"jpeg", 9},
	{"power", 187},       {"energy", 65536 * 1000ull},
	{"gfxclk", 1365},     {"uclk", 1600},
	{"vclk0", 800},       {"width", 16},
	{"speed", 160},       {"replays", 3},
	{"indep", 1ull << 2}, {NULL, 0},
};

static void fill(uint8_t format, uint8_t content, const char *layout, struct gs_gpu_sample *s)
{
	size_t bytes = build(table, format, content, layout, some);

	nothing_known(s);
	assert_true(gs_amdgpu_metrics_fill(table, bytes, true, true, s));
	/* Cut off, or told to be shorter: nothing of it is believed. */
	for (size_t n = 0; n < bytes; n++)
		assert_false(gs_amdgpu_metrics_fill(table, n, true, true, s));
	table[0] = 8;
	table[1] = 0;
	assert_false(gs_amdgpu_metrics_fill(table, bytes, true, true, s));
}

static void test_sizes(void **state)
{
	static const struct member none[] = {{NULL, 0}};

	/* As real ones were seen: 1.3 of 120 bytes (rocm-smi on a Radeon RX 9070). */
	assert_int_equal(build(table, 1, 3, V1_3, none), 120);
	assert_int_equal(build(table, 1, 1, V1_1, none), 96);
	assert_int_equal(build(table, 1, 4, V1_4, none), 288);
	assert_int_equal(build(table, 2, 1, V2_1, none), 120);
	assert_int_equal(build(table, 3, 0, V3_0, none), 264);
}

static void test_cards(void **state)
{
	static const struct {
		uint8_t content;
		const char *layout;
	} versions[] = {{0, V1_0}, {1, V1_1}, {2, V1_2}, {3, V1_3}};
	struct gs_gpu_sample s;

	for (size_t i = 0; i < 4; i++) {
		fill(1, versions[i].content, versions[i].layout, &s);
		assert_value(&s, TEMP_GPU, 51);
		assert_value(&s, TEMP_MEM, 62);
		assert_value(&s, UTIL, 0.87);
		assert_value(&s, MEM_UTIL, 0.41);
		assert_value(&s, DEC_UTIL, 0.03);
		assert_value(&s, POWER, 187);
		assert_value(&s, CLOCK_SM, 1365e6);
		assert_value(&s, CLOCK_MEM, 1600e6);
		assert_value(&s, CLOCK_VIDEO, 800e6);
		assert_value(&s, PCIE_WIDTH, 16);
		assert_value(&s, PCIE_GEN, 4);
		assert_missing(&s, ENERGY);
		if (versions[i].content == 3)
			assert_value(&s, THROTTLE_REASONS, 0x4);
		else
			assert_missing(&s, THROTTLE_REASONS);
	}
}

static void test_instinct(void **state)
{
	static const struct {
		uint8_t content;
		const char *layout;
	} versions[] = {{4, V1_4}, {5, V1_5}, {6, V1_6}, {7, V1_7}, {8, V1_7}};
	struct gs_gpu_sample s;

	for (size_t i = 0; i < 5; i++) {
		/* What follows in 1.6 and newer, by partition, is not read. */
		fill(1, versions[i].content, versions[i].layout, &s);
		assert_value(&s, TEMP_GPU, 58);
		assert_value(&s, TEMP_MEM, 62);
		assert_value(&s, POWER, 187);
		assert_value(&s, UTIL, 0.87);
		assert_value(&s, MEM_UTIL, 0.41);
		assert_value(&s, ENERGY, 1000);
		assert_value(&s, CLOCK_SM, 1365e6);
		assert_value(&s, CLOCK_VIDEO, 800e6);
		assert_value(&s, CLOCK_MEM, 1600e6);
		assert_value(&s, PCIE_WIDTH, 16);
		assert_value(&s, PCIE_GEN, 4);
		assert_value(&s, PCIE_REPLAYS, 3);
		if (versions[i].content < 6)
			assert_value(&s, DEC_UTIL, 0.07);
		else
			assert_missing(&s, DEC_UTIL);
	}
	fill(1, 5, V1_5, &s);
	assert_value(&s, JPG_UTIL, 0.09);
}

static void test_apus(void **state)
{
	struct gs_gpu_sample s;
	const struct member precise[] = {{"gfxtemp", 4375}, {"gfx", 8700},    {"mm", 300},
					 {"power", 14250},  {"gfxclk", 1365}, {NULL, 0}};
	/* Strix Halo, as amd-smi shows it (ROCm/amdsmi pull request 110): 14 W, 7 %. */
	const struct member halo[] = {{"gfx", 7},      {"power", 14000}, {"vcn", 0},
				      {"gfxclk", 600}, {"uclk", 1000},   {NULL, 0}};
	size_t bytes;

	fill(2, 0, V2_0, &s);
	assert_value(&s, CLOCK_SM, 1365e6);
	assert_value(&s, CLOCK_MEM, 1600e6);
	assert_value(&s, CLOCK_VIDEO, 800e6);
	for (uint8_t content = 1; content <= 3; content++) {
		fill(2, content, content == 1 ? V2_1 : V2_2, &s);
		assert_value(&s, CLOCK_SM, 1365e6);
		assert_value(&s, CLOCK_MEM, 1600e6);
		assert_value(&s, CLOCK_VIDEO, 800e6);
		/* Units that differ from one APU to the next. */
		assert_missing(&s, POWER);
		assert_missing(&s, UTIL);
	}
	assert_value(&s, THROTTLE_REASONS, 0x4);
	bytes = build(table, 2, 4, V2_4, precise);
	nothing_known(&s);
	assert_true(gs_amdgpu_metrics_fill(table, bytes, true, true, &s));
	assert_value(&s, TEMP_GPU, 43.75);
	assert_value(&s, UTIL, 0.87);
	assert_value(&s, DEC_UTIL, 0.03);
	assert_value(&s, POWER, 14.25);
	bytes = build(table, 3, 0, V3_0, halo);
	nothing_known(&s);
	assert_true(gs_amdgpu_metrics_fill(table, bytes, true, true, &s));
	assert_value(&s, UTIL, 0.07);
	assert_value(&s, DEC_UTIL, 0);
	assert_value(&s, POWER, 14);
	assert_value(&s, CLOCK_SM, 600e6);
	assert_value(&s, CLOCK_MEM, 1000e6);
	assert_missing(&s, CLOCK_VIDEO);
}

static void test_what_is_kept(void **state)
{
	size_t bytes = build(table, 1, 3, V1_3, some);
	struct gs_gpu_sample s;

	/* A file of its own told it already. */
	nothing_known(&s);
	gs_gpu_set(&s, GS_GPU_POWER, 190.5);
	assert_true(gs_amdgpu_metrics_fill(table, bytes, true, false, &s));
	assert_value(&s, POWER, 190.5);
	assert_value(&s, UTIL, 0.87);
	assert_missing(&s, PCIE_GEN);
	/* And the next reading begins without what only the table tells. */
	gs_gpu_set(&s, GS_GPU_PCIE_GEN, 4);
	gs_amdgpu_metrics_forget(true, false, &s);
	assert_missing(&s, UTIL);
	assert_value(&s, PCIE_GEN, 4);
	gs_amdgpu_metrics_forget(false, true, &s);
	assert_missing(&s, PCIE_GEN);
}

static void test_versions(void **state)
{
	struct gs_gpu_sample s;

	nothing_known(&s);
	for (unsigned format = 0; format < 256; format++)
		for (unsigned content = 0; content < 256; content++) {
			bool known = (format == 1 && content <= 8) ||
				     (format == 2 && content <= 4) || (format == 3 && content == 0);

			memset(table, 0, sizeof(table));
			table[1] = 2;
			table[2] = (uint8_t)format;
			table[3] = (uint8_t)content;
			assert_int_equal(
				gs_amdgpu_metrics_fill(table, sizeof(table), true, true, &s),
				known);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),        cmocka_unit_test(test_cards),
		cmocka_unit_test(test_instinct),     cmocka_unit_test(test_apus),
		cmocka_unit_test(test_what_is_kept), cmocka_unit_test(test_versions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
