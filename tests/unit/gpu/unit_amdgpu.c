/* AMD's GPUs from a recorded sysfs: an MI210, a Radeon that has less, and a card of another vendor.
 */
#include "gpu_test.h"

#include "sources/amdgpu/amdgpu.h"

static void test_tree(void **state)
{
	struct gs_gpu_options o = {
		.size = sizeof(o), .sysfs_root = AMD_TREE, .kmsg_path = "/nonexistent"};
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu = NULL;
	struct gs_err err;

	assert_int_equal(gs_gpu_open(&o, &gpu, &err), 0);
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_OK);
	if (s->n_gpus && s->info[0].vendor != GS_GPU_VENDOR_AMD) {
		print_message("SKIP: this machine has GPUs of NVIDIA's beside the recorded ones\n");
		gs_gpu_snapshot_free(&s);
		gs_gpu_close(&gpu);
		skip();
	}
	assert_int_equal(s->n_gpus, 2);
	assert_int_equal(s->info[0].vendor, GS_GPU_VENDOR_AMD);
	assert_string_equal(s->info[0].name, "AMD Instinct MI210");
	assert_string_equal(s->info[0].uuid, "AMD-6c2d8a1f0b7e4d55");
	assert_string_equal(s->info[0].pci_bus_id, "00000000:43:00.0");
	assert_string_equal(s->info[0].driver_version, "6.7.0");
	assert_int_equal(s->info[0].numa_node, 1);
	assert_int_equal(s->info[0].n_sms, 104);
	assert_value(&s->sample[0], UTIL, 0.87);
	assert_value(&s->sample[0], MEM_UTIL, 0.41);
	assert_value(&s->sample[0], MEM_TOTAL, 68702699520.0);
	assert_value(&s->sample[0], MEM_USED, 12884901888.0);
	assert_value(&s->sample[0], MEM_FREE, 55817797632.0);
	assert_value(&s->sample[0], TEMP_GPU, 48);
	assert_value(&s->sample[0], TEMP_MEM, 51);
	assert_value(&s->sample[0], TEMP_SHUTDOWN, 105);
	assert_value(&s->sample[0], POWER, 187);
	assert_value(&s->sample[0], POWER_LIMIT, 300);
	assert_value(&s->sample[0], CLOCK_SM, 1365e6);
	assert_value(&s->sample[0], CLOCK_SM_MAX, 1700e6);
	assert_value(&s->sample[0], PCIE_GEN, 4);
	assert_value(&s->sample[0], PCIE_WIDTH, 16);
	assert_value(&s->sample[0], PCIE_REPLAYS, 3);
	assert_value(&s->sample[0], ECC_NOW_CORRECTED, 5);
	assert_why(&s->sample[0], FAN, NOT_SUPPORTED);
	assert_why(&s->sample[0], SM_ACTIVE, NOT_SUPPORTED);

	assert_string_equal(s->info[1].name, "AMD GPU 0x744c");
	assert_string_equal(s->info[1].uuid, "AMD-00000000:03:00.0");
	assert_int_equal(s->info[1].numa_node, -1);
	assert_value(&s->sample[1], UTIL, 0);
	assert_value(&s->sample[1], POWER, 21);
	assert_value(&s->sample[1], FAN, 0.2);
	assert_value(&s->sample[1], CLOCK_SM, 500e6);
	assert_why(&s->sample[1], MEM_UTIL, NOT_SUPPORTED);

	assert_int_equal(s->n_processes, 2);
	assert_int_equal(s->process[0].pid, 1);
	assert_int_equal(s->process[0].gpu, 0);
	assert_int_equal(s->process[0].used_bytes, 8ll << 30);
	assert_true(s->process[0].sm_ratio < 0);
	assert_true(s->process[1].gone);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_levels(void **state)
{
	uint64_t now, max;

	assert_true(gs_amdgpu_parse_levels("0: 500Mhz\n1: 1370Mhz *\n2: 1700Mhz\n", &now, &max));
	assert_int_equal(now, 1370000000);
	assert_int_equal(max, 1700000000);
	assert_true(gs_amdgpu_parse_levels("S: 19Mhz *", &now, &max));
	assert_int_equal(now, 19000000);
	assert_false(gs_amdgpu_parse_levels("0: 500Mhz\n1: 1370Mhz\n", &now, &max));
	assert_int_equal(max, 1370000000);
	assert_false(gs_amdgpu_parse_levels("", &now, &max));
	assert_false(gs_amdgpu_parse_levels("*\n:\n: *\n99999999999999999999Mhz *", &now, &max));
}

static void test_numbers(void **state)
{
	uint64_t v;

	assert_true(gs_amdgpu_parse_number("123\n", &v) && v == 123);
	assert_true(gs_amdgpu_parse_number("0x1002\n", &v) && v == 0x1002);
	assert_false(gs_amdgpu_parse_number("", &v));
	assert_false(gs_amdgpu_parse_number("-1\n", &v));
	assert_false(gs_amdgpu_parse_number("12x\n", &v));
	assert_false(gs_amdgpu_parse_number("99999999999999999999999\n", &v));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
