/* Values of the stand-in library's GPUs, each against its formula. */
#include "gpu_test.h"

static void test_h100(void **state)
{
	struct gs_gpu *gpu;
	struct gs_gpu_snapshot *s;

	pretend("gpus=8,board=h100");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_OK);
	assert_string_equal(s->state_text, "");
	assert_int_equal(s->n_gpus, 8);
	for (unsigned i = 0; i < 8; i++) {
		const struct gs_gpu_sample *v = &s->sample[i];
		const struct gs_gpu_info *info = &s->info[i];
		char text[64];

		assert_int_equal(info->index, i);
		snprintf(text, sizeof(text), "GPU-%08x-1111-2222-3333-444455556666", i);
		assert_string_equal(info->uuid, text);
		snprintf(text, sizeof(text), "00000000:%02X:00.0", 0x10 + i);
		assert_string_equal(info->pci_bus_id, text);
		assert_string_equal(info->name, "NVIDIA H100 80GB HBM3");
		assert_string_equal(info->architecture, "Hopper");
		assert_string_equal(info->driver_version, "580.159.04");
		assert_string_equal(info->cuda_version, "13.0");
		assert_int_equal(info->n_sms, 132);
		assert_int_equal(info->numa_node, i / 4);
		assert_int_equal(info->persistence, 1);
		assert_value(v, UTIL, ((i * 10 + 7) % 101) / 100.0);
		assert_value(v, MEM_UTIL, ((i * 5 + 3) % 101) / 100.0);
		assert_value(v, ENC_UTIL, i / 100.0);
		assert_value(v, DEC_UTIL, (i + 1) / 100.0);
		assert_value(v, JPG_UTIL, (i + 2) / 100.0);
		assert_value(v, OFA_UTIL, (i + 3) / 100.0);
		assert_value(v, MEM_TOTAL, 80.0 * (1 << 30));
		assert_value(v, MEM_RESERVED, 512.0 * (1 << 20));
		assert_value(v, MEM_USED, (i + 1.0) * (1 << 30) + (1 << 20));
		assert_value(v, BAR1_USED, (i + 1.0) * (1 << 20));
		assert_value(v, TEMP_GPU, 40 + i);
		assert_value(v, TEMP_MEM, 50 + i);
		assert_value(v, TEMP_SHUTDOWN, 95);
		assert_value(v, TEMP_GPU_MAX, 86);
		assert_value(v, POWER, 300 + i);
		assert_value(v, POWER_INSTANT, 310 + i);
		assert_value(v, POWER_LIMIT, 700);
		assert_value(v, POWER_LIMIT_MIN, 200);
		assert_value(v, ENERGY, 1000.0 * (i + 1) + 300);
		assert_value(v, CLOCK_GRAPHICS, (1000.0 + i) * 1e6);
		assert_value(v, CLOCK_SM, (1100.0 + i) * 1e6);
		assert_value(v, CLOCK_MEM, (1200.0 + i) * 1e6);
		assert_value(v, CLOCK_VIDEO, (1300.0 + i) * 1e6);
		assert_value(v, CLOCK_MEM_MAX, 1982e6);
		assert_value(v, PSTATE, i % 3);
		assert_value(v, THROTTLE_REASONS, i % 2 ? 4 : 0);
		assert_value(v, THROTTLE_SW_POWER, 74 + i * 1e-3);
		assert_value(v, THROTTLE_SW_THERMAL, 269 + i * 1e-3);
		assert_value(v, THROTTLE_HW_POWER_BRAKE, 271 + i * 1e-3);
		assert_value(v, PCIE_GEN, 5);
		assert_value(v, PCIE_WIDTH, 16);
		assert_value(v, PCIE_TX, 1.5e9);
		assert_value(v, PCIE_REPLAYS, 4 + i);
		assert_value(v, ECC_CORRECTED, 10 + i);
		assert_value(v, ECC_UNCORRECTED, 110 + i);
		assert_value(v, ECC_NOW_UNCORRECTED, 100 + i);
		assert_value(v, ECC_DRAM_CORRECTED, 120 + i);
		assert_value(v, ECC_SRAM_UNCORRECTED, 1170 + i);
		assert_value(v, REMAP_CORRECTABLE, i);
		assert_value(v, REMAP_UNCORRECTABLE, 2 * i);
		assert_value(v, REMAP_PENDING, i == 1);
		assert_value(v, RECOVERY_ACTION, i == 1);
		assert_why(v, RETIRED_PAGES, NOT_SUPPORTED);
		assert_why(v, FAN, NOT_SUPPORTED); /* and nothing else suffers */
		assert_int_equal(v->n_links, 18);
		assert_value(v, NVLINK_ACTIVE, i == 1 ? 17 : 18);
		assert_value(v, NVLINK_TX, 18000.0 * 1024);
		assert_value(v, NVLINK_REPLAY, 1);
		assert_value(v, NVLINK_CRC, 3);
		assert_int_equal(v->link[5].tx_bytes, 1000 * 1024);
		assert_int_equal(v->link[5].rx_bytes, 2000 * 1024);
		assert_int_equal(v->link[17].up, i != 1);
		/* Of one reading no rate is known, and none is 0. */
		assert_why(v, SM_ACTIVE, NOT_READ);
		assert_why(v, PCIE_TX_BPS, NOT_READ);
		assert_int_equal(v->elapsed_ns, 0);
	}
	assert_string_equal(gs_gpu_topology(gpu, 0, 0), "X");
	assert_string_equal(gs_gpu_topology(gpu, 0, 7), "NV18");
	assert_string_equal(gs_gpu_topology(gpu, 1, 0), "NV17");
	assert_string_equal(gs_gpu_topology(gpu, 0, 8), "");
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
	assert_null(gpu);
}

static void test_second_reading(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	skip_one(gpu);
	usleep(110000);
	s = read_one(gpu);
	for (unsigned i = 0; i < 2; i++) {
		const struct gs_gpu_sample *v = &s->sample[i];

		assert_true(v->elapsed_ns >= 110000000);
		assert_value(v, GR_ACTIVE, (5 + i) / 100.0);
		assert_value(v, SM_ACTIVE, (10 + i) / 100.0);
		assert_value(v, SM_OCCUPANCY, (15 + i) / 100.0);
		assert_value(v, PIPE_INT, (20 + i) / 100.0);
		assert_value(v, PIPE_TENSOR, (25 + i) / 100.0);
		assert_value(v, DRAM_ACTIVE, (50 + i) / 100.0);
		assert_value(v, PIPE_FP64, (55 + i) / 100.0);
		assert_value(v, PIPE_FP32, (60 + i) / 100.0);
		assert_value(v, PIPE_FP16, (65 + i) / 100.0);
		/* MiB/s: tx and rx are not swapped. */
		assert_value(v, PCIE_TX_BPS, (200.0 + i) * (1 << 20));
		assert_value(v, PCIE_RX_BPS, (210.0 + i) * (1 << 20));
		assert_value(v, NVLINK_RX_BPS, (600.0 + i) * (1 << 20));
		assert_value(v, NVLINK_TX_BPS, (610.0 + i) * (1 << 20));
		assert_value(v, MEM_USED, (i + 1.0) * (1 << 30) + (2 << 20));
		/* Slow values stay. */
		assert_value(v, POWER_LIMIT, 700);
	}
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

/* A counter of 32 bits is carried on: 1.5e9 a tick, five ticks. */
static void test_wrapping_counter(void **state)
{
	struct gs_gpu_snapshot *s = NULL;
	struct gs_gpu *gpu;

	pretend("gpus=1,board=a100");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	for (unsigned t = 1; t <= 5; t++) {
		gs_gpu_snapshot_free(&s);
		usleep(2000);
		s = read_one(gpu);
		assert_value(&s->sample[0], PCIE_TX, t * 1.5e9);
		assert_value(&s->sample[0], PCIE_RX, t * 1.0e9);
	}
	/* No GPM here: the rate is that of the counter. */
	assert_why(&s->sample[0], SM_ACTIVE, NOT_SUPPORTED);
	/* Each is of its own moment: only about the time between two samples. */
	assert_true(gs_gpu_has(&s->sample[0], GS_GPU_PCIE_TX_BPS));
	assert_float_equal(s->sample[0].value[GS_GPU_PCIE_TX_BPS] /
				   s->sample[0].value[GS_GPU_PCIE_RX_BPS],
			   1.5, 1e-3);
	assert_value(&s->sample[0], FAN, 0.3);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_a100_topology(void **state)
{
	struct gs_gpu *gpu;

	pretend("gpus=6,board=a100");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	skip_one(gpu);
	assert_string_equal(gs_gpu_topology(gpu, 0, 1), "NV4");
	assert_string_equal(gs_gpu_topology(gpu, 0, 2), "NODE");
	assert_string_equal(gs_gpu_topology(gpu, 0, 5), "SYS");
	gs_gpu_close(&gpu);
}

static void test_processes(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;
	char words[128];

	snprintf(words, sizeof(words), "gpus=2,pids=%d:%d:1", getpid(), getppid());
	pretend(words);
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	s = read_one(gpu);
	assert_int_equal(s->n_processes, 3);
	/* GPU 0: this one (1 GiB) and 1 (2 GiB), most memory first; GPU 1: the parent. */
	assert_int_equal(s->process[0].gpu, 0);
	assert_int_equal(s->process[0].pid, 1);
	assert_int_equal(s->process[0].used_bytes, 2ll << 30);
	assert_float_equal(s->process[0].sm_ratio, 0.31, 1e-9);
	assert_int_equal(s->process[1].pid, getpid());
	/* 0.30, not the 3812 % and not the 99 % of a row from before. */
	assert_float_equal(s->process[1].sm_ratio, 0.30, 1e-9);
	assert_float_equal(s->process[1].mem_ratio, 0.20, 1e-9);
	assert_float_equal(s->process[1].enc_ratio, 0.00, 1e-9);
	assert_float_equal(s->process[1].dec_ratio, 0.01, 1e-9);
	assert_float_equal(s->process[1].jpg_ratio, 0.02, 1e-9);
	assert_float_equal(s->process[1].ofa_ratio, 0.03, 1e-9);
	assert_int_equal(s->process[1].uid, getuid());
	assert_int_equal(s->process[1].kind, GS_GPU_PROCESS_COMPUTE);
	assert_false(s->process[1].gone);
	assert_string_equal(s->process[1].comm, "unit_gpu_nvml");
	assert_true(strstr(s->process[1].cmdline, "unit_gpu_nvml") != NULL);
	assert_int_equal(s->process[2].gpu, 1);
	gs_gpu_snapshot_free(&s);

	/* Idle is 0 and no error. */
	snprintf(words, sizeof(words), "gpus=2,pids=%d,idle", getpid());
	pretend(words);
	usleep(1000000);
	s = read_one(gpu);
	assert_int_equal(s->n_processes, 1);
	assert_float_equal(s->process[0].sm_ratio, 0, 1e-9);
	assert_float_equal(s->process[0].ofa_ratio, 0, 1e-9);
	assert_int_equal(s->failed_calls, 0);
	gs_gpu_snapshot_free(&s);

	/* A row from an hour ahead is no share, and does not hide those that follow. */
	snprintf(words, sizeof(words), "gpus=2,pids=%d,future", getpid());
	pretend(words);
	for (int i = 0; i < 2; i++) {
		usleep(1000000);
		s = read_one(gpu);
		assert_float_equal(s->process[0].sm_ratio, 0.30, 1e-9);
		gs_gpu_snapshot_free(&s);
	}

	/* One that has just ended. */
	pretend("gpus=1,pids=5000000");
	s = read_one(gpu);
	assert_int_equal(s->n_processes, 1);
	assert_true(s->process[0].gone);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_accounting(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=1,accounting=777");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.accounting = true});
	s = read_one(gpu);
	/* What ended before the first reading is not told. */
	for (unsigned i = 0; i < s->n_processes; i++)
		assert_false(s->process[i].ended);
	gs_gpu_snapshot_free(&s);
	pretend("gpus=1,accounting=778");
	s = read_one(gpu);
	assert_int_equal(s->n_processes, 2);
	assert_int_equal(s->process[0].pid, 778);
	assert_true(s->process[0].ended);
	assert_int_equal(s->process[0].used_bytes, 3ll << 30);
	assert_float_equal(s->process[0].sm_ratio, 0.42, 1e-9);
	gs_gpu_snapshot_free(&s);
	s = read_one(gpu);
	assert_int_equal(s->n_processes, 1); /* once */
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_parts(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=2,parts=2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.slow_ns = 1});
	skip_one(gpu);
	usleep(110000);
	s = read_one(gpu);
	assert_int_equal(s->n_gpus, 4);
	assert_true(s->info[0].mig_enabled);
	assert_true(s->info[1].is_mig && s->info[2].is_mig);
	assert_false(s->info[3].is_mig);
	assert_string_equal(s->info[1].uuid, "MIG-00000000-0000-0000-0000-000000000001");
	assert_string_equal(s->info[1].mig_profile, "1g.10gb");
	assert_int_equal(s->info[2].gpu_instance, 8);
	assert_int_equal(s->info[2].n_sms, 16);
	assert_string_equal(s->info[2].pci_bus_id, "00000000:10:00.0");
	assert_value(&s->sample[1], MEM_TOTAL, 10.0 * (1 << 30));
	assert_value(&s->sample[2], SM_ACTIVE, (10 + 8) / 100.0);
	assert_why(&s->sample[1], UTIL, NOT_SUPPORTED);
	assert_why(&s->sample[1], POWER, NOT_SUPPORTED);
	/* Processes are those of the parts, shares are not told there. */
	assert_int_equal(s->n_processes, 1);
	assert_int_equal(s->process[0].gpu, 1);
	assert_true(s->process[0].sm_ratio < 0);
	assert_string_equal(gs_gpu_topology(gpu, 0, 1), "X");
	assert_string_equal(gs_gpu_topology(gpu, 2, 3), "NV17");
	gs_gpu_snapshot_free(&s);

	/* Divided anew while it is watched. */
	pretend("gpus=2,parts=3,era=1");
	s = read_one(gpu);
	assert_int_equal(s->n_gpus, 5);
	assert_string_equal(s->info[3].uuid, "MIG-00000001-0000-0000-0000-000000000003");
	assert_value(&s->sample[3], MEM_TOTAL, 10.0 * (1 << 30));
	gs_gpu_snapshot_free(&s);
	pretend("gpus=2");
	s = read_one(gpu);
	assert_int_equal(s->n_gpus, 2);
	assert_false(s->info[0].mig_enabled);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_groups(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=1");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.groups = GS_GPU_READ_BASIC});
	s = read_one(gpu);
	assert_value(&s->sample[0], UTIL, 0.07);
	assert_why(&s->sample[0], POWER_LIMIT, NOT_READ);
	assert_why(&s->sample[0], NVLINK_TX, NOT_READ);
	assert_int_equal(s->n_processes, 0);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_h100),
		cmocka_unit_test(test_second_reading),
		cmocka_unit_test(test_wrapping_counter),
		cmocka_unit_test(test_a100_topology),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_accounting),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_groups),
	};

	return cmocka_run_group_tests(tests, NULL, clean_up);
}
