/*
 * What each call of NVIDIA's library costs on this machine: gpu_calls [TIMES] [NVML LIBRARY].
 * Every call that gpuscope makes or could make instead, one by one, on GPU 0: the first call, then
 * the median wall time and the mean processor time of this thread over TIMES calls. Rows of
 * FieldValues ask for one field each, and once for all; "within" is the time that the library
 * itself says the field took (latencyUsec). What a GPU does not support is shown with its error
 * number and its cost, for it is paid too.
 *
 * gpu_calls --floor [NVML LIBRARY] instead makes each call once on every GPU and shows what memory
 * this program, which has nothing else, then has: no program that reads these values by this
 * library can have less. It then waits until its input ends, so that others can look at its
 * mappings.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "sources/gpu/nvml_calls.h"

static struct nvml_api api;
static nvml_dev dev;
static unsigned times = 30;
static bool quiet;

static const struct {
	const char *names[4];
	size_t offset;
} symbols[] = {
#define ROW(need, member, args, ...) {{__VA_ARGS__}, offsetof(struct nvml_api, member)},
	NVML_CALLS(ROW)
#undef ROW
};

static double now_us(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

struct timing {
	double first, *wall, cpu;
	double begin_wall, begin_cpu;
};

static void begin(struct timing *t)
{
	t->begin_cpu = now_us(CLOCK_THREAD_CPUTIME_ID);
	t->begin_wall = now_us(CLOCK_MONOTONIC);
}

static void end(struct timing *t, unsigned i)
{
	double wall = now_us(CLOCK_MONOTONIC) - t->begin_wall;

	if (i == 0)
		t->first = wall;
	else
		t->cpu += now_us(CLOCK_THREAD_CPUTIME_ID) - t->begin_cpu;
	t->wall[i] = wall;
}

static void print_timing(const char *what, struct timing *t, nvml_return r, double within)
{
	char text[32] = "";

	if (quiet)
		return;
	/* The first is shown by itself. */
	qsort(t->wall + 1, times, sizeof(*t->wall), by_value);
	if (r != NVML_OK)
		snprintf(text, sizeof(text), "  error %d", (int)r);
	else if (within >= 0)
		snprintf(text, sizeof(text), "  within %.0f", within);
	printf("%-38s %9.1f %9.1f %9.1f %9.1f%s\n", what, t->first, t->wall[1 + times / 2],
	       t->wall[times], t->cpu / times, text);
}

#define TIME(what, call)                                                                           \
	do {                                                                                       \
		struct timing t = {.wall = wall_room};                                             \
		nvml_return r = NVML_FUNCTION_NOT_FOUND;                                           \
                                                                                                   \
		for (unsigned i = 0; i <= times; i++) {                                            \
			begin(&t);                                                                 \
			r = (call);                                                                \
			end(&t, i);                                                                \
		}                                                                                  \
		print_timing(what, &t, r, -1);                                                     \
	} while (0)

#define TIME_OF(member, what, ...)                                                                 \
	do {                                                                                       \
		if (api.member)                                                                    \
			TIME(what, api.member(__VA_ARGS__));                                       \
	} while (0)

static void time_fields(const char *what, struct nvml_field *f, unsigned n, double *wall_room)
{
	struct timing t = {.wall = wall_room};
	nvml_return r = NVML_FUNCTION_NOT_FOUND;
	double within = 0;

	for (unsigned i = 0; i <= times; i++) {
		begin(&t);
		r = api.fields(dev, (int)n, f);
		end(&t, i);
	}
	for (unsigned i = 0; i < n; i++)
		within += (double)f[i].latency_us;
	print_timing(what, &t, r == NVML_OK && n == 1 ? f[0].r : r, within);
}

static void all_fields(double *wall_room)
{
	static const struct {
		const char *what;
		unsigned id, scope;
	} rows[] = {
		{"field power average 185", NVML_FI_POWER_AVERAGE, 0},
		{"field power instant 186", NVML_FI_POWER_INSTANT, 0},
		{"field energy 83", NVML_FI_ENERGY, 0},
		{"field energy 191", 191, 0},
		{"field memory temperature 82", NVML_FI_MEMORY_TEMP, 0},
		{"field PCIe tx 197", NVML_FI_PCIE_TX_BYTES, 0},
		{"field PCIe rx 198", NVML_FI_PCIE_RX_BYTES, 0},
		{"field throttle power 74", NVML_FI_PERF_POLICY_POWER, 0},
		{"field throttle sync 76", NVML_FI_PERF_POLICY_SYNC_BOOST, 0},
		{"field throttle reliability 79", NVML_FI_PERF_POLICY_RELIABILITY, 0},
		{"field throttle sw thermal 269", NVML_FI_THROTTLE_SW_THERMAL, 0},
		{"field NVLink tx, all 138", NVML_FI_NVLINK_DATA_TX, NVML_SCOPE_ALL},
		{"field NVLink tx, link 0 138", NVML_FI_NVLINK_DATA_TX, 0},
		{"field NVLink state 165", NVML_FI_LINK_STATE, 0},
		{"field NVLink CRC 163", NVML_FI_LINK_CRC, 0},
		{"field NVLink 5 bytes 202", NVML_FI_NVLINK_XMIT_BYTES, 0},
		{"field PCIe replays 94", NVML_FI_PCIE_REPLAY, 0},
		{"field PCIe correctable 173", NVML_FI_PCIE_CORRECTABLE, 0},
		{"field recovery action 230", NVML_FI_RECOVERY_ACTION, 0},
		{"field C2C links 170", NVML_FI_C2C_COUNT, 0},
	};
	struct nvml_field f[GS_ARRAY_LEN(rows)], one;
	unsigned n = 0;

	if (!api.fields)
		return;
	memset(f, 0, sizeof(f));
	for (unsigned i = 0; i < GS_ARRAY_LEN(rows); i++) {
		memset(&one, 0, sizeof(one));
		one.id = rows[i].id;
		one.scope = rows[i].scope;
		time_fields(rows[i].what, &one, 1, wall_room);
		if (one.r == NVML_OK && i < 13) {
			f[n].id = rows[i].id;
			f[n++].scope = rows[i].scope;
		}
	}
	if (n)
		time_fields("these up to 138 in one call", f, n, wall_room);
	memset(f, 0, sizeof(f));
	f[0].id = NVML_FI_POWER_AVERAGE;
	f[1].id = NVML_FI_POWER_INSTANT;
	time_fields("185 and 186 in one call", f, 2, wall_room);
}

static void moving(double *wall_room)
{
	struct nvml_memory_v2 m2 = {.version = NVML_VERSION_OF(struct nvml_memory_v2, 2)};
	struct nvml_utilization u;
	unsigned long long wide;
	unsigned number, other;
	int state;

	TIME_OF(memory_v2, "MemoryInfo_v2", dev, &m2);
	TIME_OF(utilization, "UtilizationRates", dev, &u);
	TIME_OF(enc_util, "EncoderUtilization", dev, &number, &other);
	TIME_OF(dec_util, "DecoderUtilization", dev, &number, &other);
	TIME_OF(jpg_util, "JpgUtilization", dev, &number, &other);
	TIME_OF(ofa_util, "OfaUtilization", dev, &number, &other);
	TIME_OF(power, "PowerUsage", dev, &number);
	TIME_OF(energy, "TotalEnergyConsumption", dev, &wide);
	TIME_OF(temperature, "Temperature", dev, 0u, &number);
	TIME_OF(fan, "FanSpeed", dev, &number);
	TIME_OF(clock, "ClockInfo SM", dev, NVML_CLOCK_SM, &number);
	TIME_OF(clock, "ClockInfo memory", dev, NVML_CLOCK_MEM, &number);
	TIME_OF(clock, "ClockInfo video", dev, NVML_CLOCK_VIDEO, &number);
	TIME_OF(pstate, "PerformanceState", dev, &state);
	TIME_OF(throttle, "CurrentClocksEventReasons", dev, &wide);
}

static void slow(double *wall_room)
{
	unsigned a, b, c, d;
	unsigned long long wide;
	struct nvml_bar1 bar1;
	struct nvml_pci pci;
	struct nvml_c2c_mode mode;

	TIME_OF(bar1, "BAR1MemoryInfo", dev, &bar1);
	TIME_OF(threshold, "TemperatureThreshold", dev, NVML_THRESHOLD_SLOWDOWN, &a);
	TIME_OF(clock_max, "MaxClockInfo", dev, NVML_CLOCK_SM, &a);
	TIME_OF(power_limit, "EnforcedPowerLimit", dev, &a);
	TIME_OF(power_default, "PowerManagementDefaultLimit", dev, &a);
	TIME_OF(power_bounds, "PowerManagementLimitConstraints", dev, &a, &b);
	TIME_OF(ecc_mode, "EccMode", dev, &a, &b);
	TIME_OF(ecc_total, "TotalEccErrors", dev, 0u, 1u, &wide);
	TIME_OF(ecc_at, "MemoryErrorCounter", dev, 0u, 1u, NVML_LOCATION_DRAM, &wide);
	TIME_OF(remapped, "RemappedRows", dev, &a, &b, &c, &d);
	TIME_OF(pcie_gen, "CurrPcieLinkGeneration", dev, &a);
	TIME_OF(pcie_width, "CurrPcieLinkWidth", dev, &a);
	TIME_OF(pcie_gen_max, "MaxPcieLinkGeneration", dev, &a);
	TIME_OF(uplink_state, "NvLinkState", dev, 0u, &a);
	TIME_OF(link_version, "NvLinkVersion", dev, 0u, &a);
	TIME_OF(link_errors, "NvLinkErrorCounter", dev, 0u, NVML_LINK_CRC_FLIT, &wide);
	TIME_OF(link_type, "NvLinkRemoteDeviceType", dev, 0u, &a);
	TIME_OF(link_pci, "NvLinkRemotePciInfo", dev, 0u, &pci);
	TIME_OF(c2c_mode, "C2cModeInfo", dev, &mode);
	TIME_OF(mig_mode, "MigMode", dev, &a, &b);
}

static struct nvml_process process_room[4096];
static struct nvml_process_util util_room[4096];
static struct nvml_process_sample sample_room[4096];

static void processes(double *wall_room)
{
	unsigned n;
	struct nvml_processes_util u;
	unsigned long long since = (unsigned long long)time(NULL) * 1000000ull - 1000000;

	TIME_OF(compute_v3, "ComputeRunningProcesses_v3", dev, (n = 4096, &n), process_room);
	TIME_OF(graphics_v3, "GraphicsRunningProcesses_v3", dev, (n = 4096, &n), process_room);
	TIME_OF(mps_v3, "MPSComputeRunningProcesses_v3", dev, (n = 4096, &n), process_room);
	TIME_OF(process_util, "ProcessUtilization", dev, sample_room, (n = 4096, &n), since);
	TIME_OF(processes_util, "ProcessesUtilizationInfo", dev,
		(u = (struct nvml_processes_util){.version = NVML_VERSION_OF(
							  struct nvml_processes_util, 1),
						  .n = 4096,
						  .last_seen_us = since,
						  .rows = util_room},
		 &u));
}

static struct nvml_gpm_metrics metrics;

static void gpm(double *wall_room)
{
	static const uint16_t ids[] = {NVML_GPM_GRAPHICS, NVML_GPM_SM,       NVML_GPM_OCCUPANCY,
				       NVML_GPM_TENSOR,   NVML_GPM_DRAM,     NVML_GPM_FP32,
				       NVML_GPM_PCIE_TX,  NVML_GPM_NVLINK_TX};
	struct nvml_gpm_sample *s[2] = {NULL, NULL};
	struct timespec pause = {0, 120000000};

	if (!api.gpm_alloc || !api.gpm_get || !api.gpm_metrics || api.gpm_alloc(&s[0]) != NVML_OK ||
	    api.gpm_alloc(&s[1]) != NVML_OK)
		return;
	TIME("GpmSampleGet", api.gpm_get(dev, s[0]));
	nanosleep(&pause, NULL);
	/* As it is when the machine did something else in between. */
	TIME("GpmSampleGet after 120 ms", (nanosleep(&pause, NULL), api.gpm_get(dev, s[1])));
	metrics.version = 1;
	metrics.n = GS_ARRAY_LEN(ids);
	metrics.from = s[0];
	metrics.to = s[1];
	for (size_t i = 0; i < GS_ARRAY_LEN(ids); i++)
		metrics.metrics[i].id = ids[i];
	TIME("GpmMetricsGet", api.gpm_metrics(&metrics));
	api.gpm_free(s[0]);
	api.gpm_free(s[1]);
}

static void tell_memory(const char *when)
{
	unsigned long kib, rss = 0, pss = 0, anonymous = 0;
	GS_FCLOSE FILE *f = fopen("/proc/self/smaps_rollup", "re");
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Rss: %lu", &kib) == 1)
			rss = kib;
		else if (sscanf(line, "Pss: %lu", &kib) == 1)
			pss = kib;
		else if (sscanf(line, "Anonymous: %lu", &kib) == 1)
			anonymous = kib;
	}
	printf("%-34s RSS %6.2f  PSS %6.2f  anonymous %6.2f  files %6.2f MiB\n", when,
	       (double)rss / 1024, (double)pss / 1024, (double)anonymous / 1024,
	       (double)(rss - anonymous) / 1024);
	fflush(stdout);
}

static void read_once_on_all(double *wall_room)
{
	quiet = true;
	times = 1;
	for (unsigned i = 0; api.by_index(i, &dev) == NVML_OK; i++) {
		moving(wall_room);
		processes(wall_room);
		gpm(wall_room);
		all_fields(wall_room);
		slow(wall_room);
	}
}

int main(int argc, char **argv)
{
	bool only_floor = argc > 1 && strcmp(argv[1], "--floor") == 0;
	const char *path = argc > 2 ? argv[2] : "libnvidia-ml.so.1";
	double begin_us = now_us(CLOCK_MONOTONIC), *wall_room;
	void *handle;
	char name[96] = "", driver[96] = "";

	if (only_floor)
		tell_memory("before the library is opened");
	handle = dlopen(path, RTLD_NOW);
	if (!handle) {
		fprintf(stderr, "gpu_calls: %s\n", dlerror());
		return 3;
	}
	if (argc > 1 && !only_floor)
		times = (unsigned)strtoul(argv[1], NULL, 10);
	times = times ? times : 1;
	wall_room = calloc(times + 2, sizeof(*wall_room));
	for (size_t i = 0; i < GS_ARRAY_LEN(symbols); i++) {
		void *found = NULL;

		for (unsigned j = 0; j < 4 && symbols[i].names[j] && !found; j++)
			found = dlsym(handle, symbols[i].names[j]);
		memcpy((char *)&api + symbols[i].offset, &found, sizeof(found));
	}
	if (!wall_room || !api.init || api.init() != NVML_OK || api.by_index(0, &dev) != NVML_OK) {
		fprintf(stderr, "gpu_calls: no GPU answers\n");
		return 3;
	}
	if (only_floor) {
		tell_memory("after nvmlInit");
		read_once_on_all(wall_room);
		tell_memory("after each call once, on all GPUs");
		malloc_trim(0);
		tell_memory("after malloc_trim");
		while (getchar() != EOF)
			;
		api.shutdown();
		free(wall_room);
		return 0;
	}
	api.name(dev, name, sizeof(name));
	if (api.driver_version)
		api.driver_version(driver, sizeof(driver));
	printf("%s, driver %s; opened in %.1f ms; us: first call, median, most, processor\n", name,
	       driver, (now_us(CLOCK_MONOTONIC) - begin_us) / 1e3);
	moving(wall_room);
	processes(wall_room);
	gpm(wall_room);
	all_fields(wall_room);
	slow(wall_room);
	api.shutdown();
	free(wall_room);
	return 0;
}
