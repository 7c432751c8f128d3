/* GPUs as text: what a line says of values that no stand-in makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "output/node_report/gpu.h"

static struct gs_gpu_info info = {.uuid = "GPU-1"};
static struct gs_gpu_sample before_sample, sample;
static struct gs_gpu_snapshot before = {.info = &info, .sample = &before_sample, .n_gpus = 1},
			      now = {.info = &info, .sample = &sample, .n_gpus = 1};

static int nothing_known(void **state)
{
	(void)state;
	before_sample = sample = (struct gs_gpu_sample){0};
	memset(before_sample.why, GS_GPU_REASON_NOT_SUPPORTED, sizeof(before_sample.why));
	memcpy(sample.why, before_sample.why, sizeof(sample.why));
	before_sample.time_ns = 1000000000;
	sample.time_ns = 2000000000;
	return 0;
}

static char *line_of_dmon(const char *groups)
{
	struct gs_report_gpu_style style = {
		.size = sizeof(style), .view = GS_GPU_VIEW_DMON, .dmon = groups, .before = &before};
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_int_equal(gs_report_gpu_write(f, &now, &style), 0);
	fclose(f);
	return text;
}

static void check_dmon(const char *groups, const char *expected)
{
	char *text = line_of_dmon(groups);

	assert_string_equal(text, expected);
	free(text);
}

/* Heat that the hardware acts on is a thermal violation too. */
static void thermal_violations(void **state)
{
	(void)state;
	check_dmon("v", "    0     -     -\n");
	gs_gpu_set(&before_sample, GS_GPU_THROTTLE_SW_THERMAL, 5);
	gs_gpu_set(&sample, GS_GPU_THROTTLE_SW_THERMAL, 5);
	check_dmon("v", "    0     -     0\n");
	gs_gpu_set(&before_sample, GS_GPU_THROTTLE_HW_THERMAL, 5);
	gs_gpu_set(&sample, GS_GPU_THROTTLE_HW_THERMAL, 5.5);
	check_dmon("v", "    0     -     1\n");
	before_sample.why[GS_GPU_THROTTLE_SW_THERMAL] = GS_GPU_REASON_FAILED;
	check_dmon("v", "    0     -     1\n");
	gs_gpu_set(&before_sample, GS_GPU_THROTTLE_SW_POWER, 1);
	gs_gpu_set(&sample, GS_GPU_THROTTLE_SW_POWER, 1.25);
	check_dmon("v", "    0    25     1\n");
}

/* A number that is wider than its column is whole, and apart from its neighbours. */
static void wide_numbers(void **state)
{
	(void)state;
	gs_gpu_set(&sample, GS_GPU_ECC_NOW_CORRECTED, 123456);
	gs_gpu_set(&sample, GS_GPU_ECC_NOW_UNCORRECTED, 1234567890);
	gs_gpu_set(&sample, GS_GPU_PCIE_REPLAYS, 7);
	check_dmon("e", "    0 123456 1234567890     7\n");
}

static void events(void **state)
{
	struct gs_gpu_event e = {.xid = 79, .pci_bus_id = "00000000:3B:00.0", .text = "gone"};
	char line[GS_GPU_EVENT_LINE_BYTES];

	(void)state;
	assert_string_equal(gs_report_gpu_event_line(line, &e), "00000000:3B:00.0: XID 79: gone");
	e.xid = 0;
	assert_string_equal(gs_report_gpu_event_line(line, &e), "00000000:3B:00.0: gone");
	e.pci_bus_id[0] = '\0';
	assert_string_equal(gs_report_gpu_event_line(line, &e), "a GPU: gone");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(thermal_violations, nothing_known),
		cmocka_unit_test_setup(wide_numbers, nothing_known),
		cmocka_unit_test(events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
