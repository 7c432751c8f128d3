/*
 * Files of real GPUs, as their owners have shown them in public: what was in them, and what we make
 * of it. Each names where it stands. The file "vendor" is PCI's, which every device has.
 */
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "amdgpu_test.h"

static char root[64];

static int drop(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

static void put_bytes(const char *name, const void *bytes, size_t n)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *slash = path + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(path, 0755);
		*slash = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void put(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

#define DEVICE "class/drm/card0/device/"
#define HWMON  DEVICE "hwmon/hwmon4/"

static int begin(void **state)
{
	strcpy(root, "/tmp/gs_amdgpu_XXXXXX");
	if (!mkdtemp(root))
		return -1;
	put(DEVICE "vendor", "0x1002\n");
	return 0;
}

static int end(void **state)
{
	return nftw(root, drop, 16, FTW_DEPTH | FTW_PHYS);
}

static void read_card(struct gs_gpu_info *info, struct gs_gpu_sample *s)
{
	struct gs_amdgpu *amd = gs_amdgpu_new(root);

	assert_non_null(amd);
	assert_int_equal(gs_amdgpu_count(amd), 1);
	gs_amdgpu_read(amd, true, true, info, s);
	gs_amdgpu_free(&amd);
}

/* github.com/prometheus/procfs, sysfs/class_drm_amdgpu_test.go: a card of 8 GB. */
static void test_procfs(void **state)
{
	struct gs_gpu_info info;
	struct gs_gpu_sample s;

	put(DEVICE "gpu_busy_percent", "4\n");
	put(DEVICE "mem_info_gtt_total", "8573157376\n");
	put(DEVICE "mem_info_gtt_used", "144560128\n");
	put(DEVICE "mem_info_vis_vram_total", "8573157376\n");
	put(DEVICE "mem_info_vis_vram_used", "1490378752\n");
	put(DEVICE "mem_info_vram_total", "8573157376\n");
	put(DEVICE "mem_info_vram_used", "1490378752\n");
	put(DEVICE "mem_info_vram_vendor", "samsung\n");
	put(DEVICE "power_dpm_force_performance_level", "manual\n");
	put(DEVICE "unique_id", "0123456789abcdef\n");
	read_card(&info, &s);
	assert_string_equal(info.uuid, "AMD-0123456789abcdef");
	assert_value(&s, UTIL, 0.04);
	assert_value(&s, MEM_TOTAL, 8573157376.0);
	assert_value(&s, MEM_USED, 1490378752.0);
	assert_value(&s, MEM_FREE, 7082778624.0);
	assert_value(&s, BAR1_TOTAL, 8573157376.0);
	assert_value(&s, BAR1_USED, 1490378752.0);
	assert_missing(&s, POWER);
}

/* github.com/lm-sensors/lm-sensors, issue 261: Hz and uW. */
static void test_hwmon(void **state)
{
	struct gs_gpu_info info;
	struct gs_gpu_sample s;

	put(HWMON "freq1_input", "351590000\n");
	put(HWMON "freq2_input", "300000000\n");
	put(HWMON "power1_average", "9103000\n");
	put(HWMON "in0_input", "750\n");
	read_card(&info, &s);
	assert_value(&s, CLOCK_SM, 351590000.0);
	assert_value(&s, CLOCK_MEM, 300000000.0);
	assert_value(&s, POWER, 9.103);
	assert_missing(&s, POWER_INSTANT);
	/* No gpu_busy_percent: some cards refuse it (github.com/netdata/netdata, issue 12616). */
	assert_missing(&s, UTIL);
}

/* github.com/hakandundar34coding/system-monitoring-center, issue 45: levels end in a blank. */
static void test_levels(void **state)
{
	struct gs_gpu_info info;
	struct gs_gpu_sample s;

	put(DEVICE "pp_dpm_sclk", "0: 300Mhz \n1: 588Mhz \n2: 976Mhz \n3: 1065Mhz \n4: 1130Mhz \n"
				  "5: 1192Mhz \n6: 1233Mhz *\n7: 1268Mhz \n");
	put(DEVICE "pp_dpm_pcie", "0: 2.5GT/s, x8 \n1: 8.0GT/s, x16 *\n");
	read_card(&info, &s);
	assert_value(&s, CLOCK_SM, 1233e6);
	assert_value(&s, CLOCK_SM_MAX, 1268e6);
}

/* github.com/wandb/wandb, pull request 5449: an MI250X in use, by rocm-smi. */
static void test_mi250x(void **state)
{
	struct gs_gpu_info info;
	struct gs_gpu_sample s;

	put(DEVICE "gpu_busy_percent", "100\n");
	put(DEVICE "mem_busy_percent", "0\n");
	put(DEVICE "pcie_replay_count", "0\n");
	put(DEVICE "serial_number", "692139000119\n");
	put(DEVICE "uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c9:00.0\n");
	put(HWMON "power1_average", "128000000\n");
	put(HWMON "power1_cap", "560000000\n");
	put(HWMON "in0_input", "906\n");
	read_card(&info, &s);
	assert_string_equal(info.serial, "692139000119");
	assert_string_equal(info.pci_bus_id, "00000000:C9:00.0");
	assert_value(&s, UTIL, 1);
	assert_value(&s, MEM_UTIL, 0);
	assert_value(&s, POWER, 128);
	assert_value(&s, POWER_LIMIT, 560);
	assert_value(&s, PCIE_REPLAYS, 0);
}

static void put_table(const struct member *members)
{
	uint8_t table[GS_AMDGPU_METRICS_MAX];
	size_t bytes = build(table, 1, 3, V1_3, members);

	assert_int_equal(bytes, 120);
	put_bytes(DEVICE "gpu_metrics", table, bytes);
}

/* github.com/Ricks-Lab/gpu-utils, issue 122: a Navi 10, Linux 5.15. 65535 is what is not there, and
 * its energy is no energy. */
static void test_navi10(void **state)
{
	static const struct member members[] = {
		{"edge", 53},    {"hotspot", 53},
		{"mem", 58},     {"vr", 0},
		{"gfx", 0},      {"umc", 0},
		{"power", 12},   {"energy", 6294297477348589567ull},
		{"gfxclk", 100}, {"socclk", 1266},
		{"uclk", 1085},  {NULL, 0},
	};
	struct gs_gpu_info info;
	struct gs_gpu_sample s;

	put_table(members);
	read_card(&info, &s);
	assert_value(&s, TEMP_GPU, 53);
	assert_value(&s, TEMP_MEM, 58);
	assert_value(&s, UTIL, 0);
	assert_value(&s, MEM_UTIL, 0);
	assert_missing(&s, DEC_UTIL);
	assert_value(&s, POWER, 12);
	assert_missing(&s, ENERGY);
	assert_value(&s, CLOCK_SM, 100e6);
	assert_value(&s, CLOCK_MEM, 1085e6);
	assert_missing(&s, CLOCK_VIDEO);
}

/* github.com/ollama/ollama, issue 9633: a Radeon RX 9070, all of its table by rocm-smi. */
static void test_rx9070(void **state)
{
	static const struct member members[] = {
		{"edge", 41},   {"hotspot", 43}, {"mem", 62},
		{"gfx", 3},     {"umc", 4},      {"mm", 0},
		{"power", 20},  {"energy", 0},   {"time", 115756787021127ull},
		{"gfxclk", 41}, {"socclk", 417}, {"uclk", 96},
		{"vclk0", 25},  {"clocks", 25},  {"throttle", 0},
		{"fan", 0},     {"width", 16},   {"speed", 160},
		{NULL, 0},
	};
	struct gs_gpu_info info;
	struct gs_gpu_sample s;

	put_table(members);
	/* Files of their own come first. */
	put(DEVICE "gpu_busy_percent", "5\n");
	put(DEVICE "current_link_width", "8\n");
	read_card(&info, &s);
	assert_value(&s, UTIL, 0.05);
	assert_value(&s, MEM_UTIL, 0.04);
	assert_value(&s, DEC_UTIL, 0);
	assert_value(&s, TEMP_GPU, 41);
	assert_value(&s, POWER, 20);
	assert_value(&s, CLOCK_SM, 41e6);
	assert_value(&s, CLOCK_VIDEO, 25e6);
	assert_value(&s, PCIE_WIDTH, 8);
	assert_value(&s, PCIE_GEN, 4);
	assert_missing(&s, ENERGY);
}

/* A table that tells less than before: nothing of the reading before stays. */
static void test_again(void **state)
{
	static const struct member first[] = {{"gfx", 50}, {"vclk0", 700}, {NULL, 0}};
	static const struct member second[] = {{"gfx", 60}, {NULL, 0}};
	struct gs_gpu_info info;
	struct gs_gpu_sample s;
	struct gs_amdgpu *amd;

	put_table(first);
	amd = gs_amdgpu_new(root);
	assert_non_null(amd);
	gs_amdgpu_read(amd, true, false, &info, &s);
	assert_value(&s, UTIL, 0.5);
	assert_value(&s, CLOCK_VIDEO, 700e6);
	put_table(second);
	gs_amdgpu_read(amd, true, false, &info, &s);
	assert_value(&s, UTIL, 0.6);
	assert_missing(&s, CLOCK_VIDEO);
	put(DEVICE "gpu_metrics", "\x08\x00\x09\x09");
	gs_amdgpu_read(amd, true, false, &info, &s);
	assert_missing(&s, UTIL);
	/* Known again: a driver that was updated. */
	put_table(first);
	gs_amdgpu_read(amd, true, false, &info, &s);
	assert_missing(&s, UTIL);
	gs_amdgpu_rescan(amd);
	gs_amdgpu_read(amd, true, false, &info, &s);
	assert_value(&s, UTIL, 0.5);
	gs_amdgpu_free(&amd);
}

int main(void)
{
#define RECORDED(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		RECORDED(test_procfs), RECORDED(test_hwmon),  RECORDED(test_levels),
		RECORDED(test_mi250x), RECORDED(test_navi10), RECORDED(test_rx9070),
		RECORDED(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
