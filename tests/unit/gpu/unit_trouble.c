/* When things are not as they should be: absent, old, failing, lost, hanging, let go of. */
#include "gpu_test.h"

#include "core/base/clock.h"

static void test_no_library(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu =
		open_with("/nonexistent/libnvidia-ml.so.1", (struct gs_gpu_options){0});

	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_NO_LIBRARY);
	assert_int_equal(s->n_gpus, 0);
	assert_true(strstr(s->state_text, "/nonexistent/libnvidia-ml.so.1") != NULL);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_library_appears(void **state)
{
	char path[] = "/tmp/gpuscope_late_XXXXXX", link[64];
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=3");
	assert_non_null(mkdtemp(path));
	snprintf(link, sizeof(link), "%s/libnvidia-ml.so.1", path);
	gpu = open_with(link, (struct gs_gpu_options){0});
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_NO_LIBRARY);
	gs_gpu_snapshot_free(&s);
	assert_int_equal(symlink(FAKE_NVML, link), 0);
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_OK);
	assert_int_equal(s->n_gpus, 3);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
	unlink(link);
	rmdir(path);
}

static void test_not_the_library(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu = open_with("libm.so.6", (struct gs_gpu_options){0});

	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_FAILED);
	assert_true(strstr(s->state_text, "nvmlInit_v2") != NULL);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_driver_states(void **state)
{
	static const struct {
		const char *words;
		unsigned state;
		const char *says;
	} cases[] = {
		{"init=9", GS_GPU_STATE_NO_DRIVER, "not loaded"},
		{"init=18", GS_GPU_STATE_NO_DRIVER, "different versions"},
		{"init=4", GS_GPU_STATE_FAILED, "permission"},
		{"init=999", GS_GPU_STATE_FAILED, "999"},
		{"gpus=0", GS_GPU_STATE_NO_GPU, "no GPU"},
		{"gpus=1", GS_GPU_STATE_OK, ""},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_gpu_snapshot *s;
		struct gs_gpu *gpu;

		pretend(cases[i].words);
		gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
		s = read_one(gpu);
		assert_int_equal(s->state, cases[i].state);
		assert_true(strstr(s->state_text, cases[i].says) != NULL);
		gs_gpu_snapshot_free(&s);
		/* The driver is loaded later. */
		pretend("gpus=2");
		if (cases[i].state == GS_GPU_STATE_NO_DRIVER) {
			s = read_one(gpu);
			assert_int_equal(s->state, GS_GPU_STATE_OK);
			gs_gpu_snapshot_free(&s);
		}
		gs_gpu_close(&gpu);
	}
}

static void test_old_driver(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=1,board=t4");
	gpu = open_with(FAKE_NVML_OLD, (struct gs_gpu_options){0});
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_OK);
	assert_string_equal(s->info[0].driver_version, "390.157");
	assert_value(&s->sample[0], UTIL, 0.07);
	assert_value(&s->sample[0], MEM_TOTAL, 80.0 * (1 << 30));
	assert_value(&s->sample[0], POWER, 300);
	assert_value(&s->sample[0], FAN, 0.30);
	assert_value(&s->sample[0], PCIE_REPLAYS, 0);
	assert_why(&s->sample[0], MEM_RESERVED, NOT_SUPPORTED);
	assert_why(&s->sample[0], POWER_INSTANT, NOT_SUPPORTED);
	assert_why(&s->sample[0], SM_ACTIVE, NOT_SUPPORTED);
	assert_why(&s->sample[0], NVLINK_ACTIVE, NOT_SUPPORTED);
	assert_int_equal(s->n_processes, 1);
	assert_int_equal(s->process[0].used_bytes, 1ll << 30);
	assert_true(s->process[0].sm_ratio < 0);
	assert_int_equal(s->failed_calls, 0);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

/* Each function of the table fails in turn, in several ways: what it gives is not there, and all
 * that others give is. */
static void test_each_call_fails(void **state)
{
	static const char *const names[] = {
#define NAME(need, member, args, ...) #need, #member, __VA_ARGS__, NULL,
		NVML_CALLS(NAME)
#undef NAME
	};
	static const int codes[] = {NVML_NOT_SUPPORTED, NVML_NO_PERMISSION, NVML_UNKNOWN};
	unsigned n_whole = 0, tried = 0;

	for (size_t at = 0; at < GS_ARRAY_LEN(names); at++) {
		size_t end = at;

		while (names[end])
			end++;
		for (size_t c = 0; strcmp(names[at], "OPTIONAL") == 0 && c < 3; c++) {
			struct gs_gpu_snapshot *s;
			unsigned n = 0;
			struct gs_gpu *gpu;
			char words[512] = "gpus=1,board=a100";

			for (size_t i = at + 2; i < end; i++)
				snprintf(words + strlen(words), sizeof(words) - strlen(words),
					 ",fail=%s:%d", names[i] + 4, codes[c]);
			pretend(words);
			gpu = open_with(FAKE_NVML,
					(struct gs_gpu_options){.groups = GS_GPU_READ_ALL &
									  ~GS_GPU_READ_EVENTS,
								.accounting = true});
			s = read_one(gpu);
			assert_int_equal(s->state, GS_GPU_STATE_OK);
			assert_int_equal(s->n_gpus, 1);
			for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
				n += s->sample[0].why[f] == GS_GPU_REASON_OK;
			/* The most that hangs on one call are the fields. */
			assert_true(n >= 40);
			n_whole = n > n_whole ? n : n_whole;
			tried++;
			gs_gpu_snapshot_free(&s);
			gs_gpu_close(&gpu);
		}
		at = end;
	}
	assert_true(tried > 150);
	assert_true(n_whole > 60);
}

static void test_all_calls_fail(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=2,fail=all:999");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	s = read_one(gpu);
	assert_int_equal(s->n_gpus, 2);
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		assert_true(s->sample[0].why[f] != GS_GPU_REASON_OK);
	assert_why(&s->sample[0], UTIL, FAILED);
	assert_true(s->failed_calls > 40);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

/* All bits set is how drivers say that they do not know: 4294967 W, 4294967295 C and a memory that
 * is used by more than there is were shown as measurements. */
static void test_blank(void **state)
{
	static const enum gs_gpu_field unknown[] = {
		GS_GPU_UTIL,          GS_GPU_MEM_UTIL,
		GS_GPU_ENC_UTIL,      GS_GPU_MEM_USED,
		GS_GPU_MEM_FREE,      GS_GPU_MEM_RESERVED,
		GS_GPU_TEMP_GPU,      GS_GPU_TEMP_MEM,
		GS_GPU_POWER,         GS_GPU_ENERGY,
		GS_GPU_CLOCK_SM,      GS_GPU_CLOCK_MEM,
		GS_GPU_PCIE_TX,       GS_GPU_PCIE_REPLAYS,
		GS_GPU_ECC_CORRECTED, GS_GPU_THROTTLE_SW_POWER,
	};
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	assert_true(gs_gpu_plausible(GS_GPU_UTIL, 1.0));
	assert_false(gs_gpu_plausible(GS_GPU_UTIL, 1.01));
	pretend("gpus=1,blank");
	for (int old = 0; old < 2; old++) {
		gpu = open_with(old ? FAKE_NVML_OLD : FAKE_NVML, (struct gs_gpu_options){0});
		skip_one(gpu);
		s = read_one(gpu);
		assert_int_equal(s->n_gpus, 1);
		for (size_t i = 0; i < GS_ARRAY_LEN(unknown); i++)
			if (gs_gpu_has(&s->sample[0], unknown[i]))
				fail_msg("%s is %g", gs_gpu_field_info(unknown[i])->key,
					 s->sample[0].value[unknown[i]]);
		assert_true(gs_gpu_has(&s->sample[0], GS_GPU_PCIE_GEN));
		gs_gpu_snapshot_free(&s);
		gs_gpu_close(&gpu);
	}
	pretend("gpus=1");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	skip_one(gpu);
	s = read_one(gpu);
	for (size_t i = 0; i < GS_ARRAY_LEN(unknown); i++)
		if (!gs_gpu_has(&s->sample[0], unknown[i]))
			fail_msg("%s is not known", gs_gpu_field_info(unknown[i])->key);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_lost(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=3");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.slow_ns = 1000000000000ull});
	skip_one(gpu);
	pretend("gpus=3,lost=1");
	for (unsigned turn = 0; turn < 3; turn++) {
		s = read_one(gpu);
		assert_int_equal(s->state, GS_GPU_STATE_OK);
		assert_int_equal(s->n_gpus, 3);
		assert_true(s->sample[1].lost);
		assert_false(s->sample[0].lost || s->sample[2].lost);
		/* Still known by name, with what was read last. */
		assert_string_equal(s->info[1].uuid, "GPU-00000001-1111-2222-3333-444455556666");
		assert_value(&s->sample[1], POWER_LIMIT, 700);
		assert_value(&s->sample[2], POWER, 302);
		gs_gpu_snapshot_free(&s);
	}
	/* After a reset it is back. */
	pretend("gpus=3");
	skip_one(gpu);
	s = read_one(gpu);
	assert_false(s->sample[1].lost);
	assert_value(&s->sample[1], POWER, 301);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

#define HANG_NS  500000000ull
#define N_HANGS  60
#define SETTLE_N 10000

/* Until a reading is made, on a machine that stands still at any moment; *missed: those that were
 * not. */
static struct gs_gpu_snapshot *read_until_ok(struct gs_gpu *gpu, uint64_t *missed)
{
	struct gs_gpu_snapshot *s = read_one(gpu);

	for (int i = 0; s->state != GS_GPU_STATE_OK && i < SETTLE_N; i++) {
		++*missed;
		usleep(10000);
		gs_gpu_snapshot_free(&s);
		s = read_one(gpu);
	}
	assert_int_equal(s->state, GS_GPU_STATE_OK);
	return s;
}

static void test_hang(void **state)
{
	struct gs_gpu_snapshot *s;
	uint64_t start_ns, missed = 0;
	struct gs_gpu *gpu;

	pretend("gpus=2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.hang_ns = HANG_NS});
	s = read_until_ok(gpu, &missed);
	assert_int_equal(s->missed_samples, missed);
	gs_gpu_snapshot_free(&s);
	pretend("gpus=2,hang=DeviceGetUtilizationRates");
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_HUNG);
	assert_int_equal(s->missed_samples, ++missed);
	assert_int_equal(s->n_gpus, 2);
	assert_value(&s->sample[0], UTIL, 0.07);
	gs_gpu_snapshot_free(&s);
	/* Not waited for again: that would take all of them HANG_NS each. */
	start_ns = gs_clock_mono_ns();
	for (int i = 0; i < N_HANGS; i++) {
		s = read_one(gpu);
		assert_int_equal(s->state, GS_GPU_STATE_HUNG);
		assert_int_equal(s->missed_samples, ++missed);
		gs_gpu_snapshot_free(&s);
	}
	assert_true(gs_clock_mono_ns() - start_ns < N_HANGS * HANG_NS);
	/* The call comes back. */
	pretend("gpus=2");
	s = read_until_ok(gpu, &missed);
	assert_int_equal(s->missed_samples, missed);
	assert_value(&s->sample[1], POWER, 301);
	gs_gpu_snapshot_free(&s);
	/* Closed while a call hangs: the worker is left behind and ends when it can. */
	pretend("gpus=2,hang=DeviceGetUtilizationRates");
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_HUNG);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
	pretend("gpus=2");
	usleep(300000);
}

static void note_text(void *ctx, const char *text)
{
	snprintf(ctx, 160, "%s", text);
}

/* Who waits longer than a second hears what for. */
static void test_waiting_is_said(void **state)
{
	char text[160] = "";
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.hang_ns = 2500000000ull,
							   .on_slow = note_text,
							   .on_slow_ctx = text});
	skip_one(gpu);
	pretend("gpus=2,hang=DeviceGetUtilizationRates");
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_HUNG);
	assert_non_null(strstr(text, "nvmlDeviceGetUtilizationRates"));
	assert_non_null(strstr(s->state_text, "nvmlDeviceGetUtilizationRates"));
	assert_non_null(strstr(s->state_text, "values are the last known"));
	gs_gpu_snapshot_free(&s);
	pretend("gpus=2");
	gs_gpu_close(&gpu);
}

static void test_hang_in_init(void **state)
{
	struct gs_gpu_snapshot *s;
	uint64_t missed = 0;
	struct gs_gpu *gpu;

	pretend("gpus=2,hang=Init_v2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){.hang_ns = 100000000});
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_HUNG);
	assert_int_equal(s->n_gpus, 0);
	gs_gpu_snapshot_free(&s);
	pretend("gpus=2");
	s = read_until_ok(gpu, &missed);
	assert_int_equal(s->n_gpus, 2);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

static void test_release(void **state)
{
	struct gs_gpu_snapshot *s;
	struct gs_gpu *gpu;

	pretend("gpus=2");
	gpu = open_with(FAKE_NVML, (struct gs_gpu_options){0});
	skip_one(gpu);
	gs_gpu_release(gpu);
	/* Whatever the library would do now: it is not asked. */
	pretend("gpus=2,hang=DeviceGetMemoryInfo_v2,init=999");
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_RELEASED);
	assert_int_equal(s->n_gpus, 2);
	assert_false(s->sample[0].lost);
	gs_gpu_snapshot_free(&s);
	pretend("gpus=4");
	gs_gpu_resume(gpu);
	s = read_one(gpu);
	assert_int_equal(s->state, GS_GPU_STATE_OK);
	assert_int_equal(s->n_gpus, 4);
	gs_gpu_snapshot_free(&s);
	gs_gpu_close(&gpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_library),
		cmocka_unit_test(test_library_appears),
		cmocka_unit_test(test_not_the_library),
		cmocka_unit_test(test_driver_states),
		cmocka_unit_test(test_old_driver),
		cmocka_unit_test(test_each_call_fails),
		cmocka_unit_test(test_all_calls_fail),
		cmocka_unit_test(test_blank),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_hang),
		cmocka_unit_test(test_waiting_is_said),
		cmocka_unit_test(test_hang_in_init),
		cmocka_unit_test(test_release),
	};

	return cmocka_run_group_tests(tests, NULL, clean_up);
}
