/* What the stand-in pretends, and what happens at the start of each call. */
#include "nvml_fake.h"

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct nvml_device_handle handles[GPU_MAX][PART_MAX + 1];
unsigned long long ticks[GPU_MAX][PART_MAX + 1];
unsigned started, sessions;
unsigned lost_session[GPU_MAX];

void config(char *out, size_t bytes)
{
	const char *file = getenv("FAKE_NVML_FILE"), *env = getenv("FAKE_NVML");
	FILE *f = file ? fopen(file, "re") : NULL;
	size_t n = 0;

	snprintf(out, bytes, ",%s,", env ? env : "");
	if (!f)
		return;
	out[0] = ',';
	n = fread(out + 1, 1, bytes - 3, f);
	fclose(f);
	while (n && out[n] == '\n')
		n--;
	out[n + 1] = ',';
	out[n + 2] = '\0';
}

/* The text behind "word=" (or behind "word"); NULL: it is not there. */
const char *word(const char *c, const char *name)
{
	size_t n = strlen(name);

	for (c = strchr(c, ','); c && c[1]; c = strchr(c + 1, ','))
		if (strncmp(c + 1, name, n) == 0 &&
		    (c[n + 1] == '=' || c[n + 1] == ',' || c[n + 1] == ':'))
			return c[n + 1] == '=' ? c + n + 2 : c + n + 1;
	return NULL;
}

long value(const char *c, const char *name, long otherwise)
{
	const char *w = word(c, name);

	return w ? strtol(w, NULL, 10) : otherwise;
}

int is_board(const char *c, const char *board)
{
	const char *w = word(c, "board");

	return w ? strncmp(w, board, strlen(board)) == 0 : strcmp(board, "h100") == 0;
}

/* True when one of the words "name=CALL[:...]" names the call; *ret: behind the colon. */
static int names_call(const char *c, const char *name, const char *call, const char **ret)
{
	size_t n = strlen(call);

	while ((c = word(c, name))) {
		if (strncmp(c, call, n) == 0 && (c[n] == ':' || c[n] == ',')) {
			*ret = c + n + 1;
			return 1;
		}
		c--;
	}
	return 0;
}

/* Processor time of a call on an H200 (driver 580), in us; of a field of FieldValues: its number.
 */
static const struct {
	const char *call;
	unsigned id, us;
} prices[] = {
	{"DeviceGetUtilizationRates", 0, 2000},
	{"DeviceGetMemoryInfo_v2", 0, 16},
	{"DeviceGetTemperature", 0, 365},
	{"DeviceGetPowerUsage", 0, 1262},
	{"DeviceGetTotalEnergyConsumption", 0, 2000},
	{"DeviceGetFanSpeed", 0, 286},
	{"DeviceGetComputeRunningProcesses_v3", 0, 89},
	{"DeviceGetGraphicsRunningProcesses_v3", 0, 89},
	{"DeviceGetMPSComputeRunningProcesses_v3", 0, 89},
	{"DeviceGetCurrentClocksEventReasons", 0, 328},
	{"DeviceGetProcessesUtilizationInfo", 0, 1000},
	{"DeviceGetClockInfo", 0, 436},
	{"DeviceGetRemappedRows", 0, 1243},
	{"DeviceGetEccMode", 0, 1346},
	{"DeviceGetNvLinkState", 0, 300},
	{"DeviceGetNvLinkErrorCounter", 0, 300},
	{"DeviceGetNvLinkRemoteDeviceType", 0, 100},
	{"DeviceGetNvLinkVersion", 0, 100},
	{"GpmSampleGet", 0, 167},
	{"GpmMetricsGet", 0, 2000},
	{"field", NVML_FI_ENERGY, 2000},
	{"field", NVML_FI_POWER_AVERAGE, 700},
	{"field", NVML_FI_POWER_INSTANT, 700},
	{"field", NVML_FI_MEMORY_TEMP, 400},
	{"field", NVML_FI_NVLINK_DATA_TX, 850},
	{"field", NVML_FI_NVLINK_DATA_RX, 850},
	{"field", NVML_FI_PCIE_TX_BYTES, 300},
	{"field", NVML_FI_PCIE_RX_BYTES, 300},
};

static void burn(long us)
{
	struct timespec t;
	long long until;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	until = t.tv_sec * 1000000000ll + t.tv_nsec + us * 1000ll;
	while (t.tv_sec * 1000000000ll + t.tv_nsec < until)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
}

void pay(const char *c, const char *call, unsigned id)
{
	const char *rest;

	if (names_call(c, "burn", call, &rest))
		burn(strtol(rest, NULL, 10));
	if (!word(c, "costs"))
		return;
	for (unsigned i = 0; i < sizeof(prices) / sizeof(prices[0]); i++)
		if (prices[i].id == id && strcmp(prices[i].call, id ? "field" : call) == 0)
			burn(prices[i].us);
}

/* What happens at the start of every call. */
nvml_return begin(const char *call, char c[1024], int needed)
{
	const char *rest;

	config(c, 1024);
	while (names_call(c, "hang", call, &rest)) {
		usleep(5000);
		config(c, 1024);
	}
	if (names_call(c, "slow", call, &rest))
		usleep((useconds_t)strtol(rest, NULL, 10) * 1000);
	if (strcmp(call, "DeviceGetFieldValues") != 0)
		pay(c, call, 0);
	if (names_call(c, "fail", call, &rest) || (!needed && names_call(c, "fail", "all", &rest)))
		return (nvml_return)strtol(rest, NULL, 10);
	return NVML_OK;
}

unsigned n_gpus(const char *c)
{
	long n = value(c, "gpus", 2);

	return n < 0 ? 0 : n > GPU_MAX ? GPU_MAX : (unsigned)n;
}

unsigned long long used_memory(const char *c, unsigned i, unsigned long long t)
{
	long mib = value(c, "memory", -1);

	return mib < 0 ? ((i + 1ull) << 30) + (t << 20) : (unsigned long long)mib << 20;
}

unsigned n_parts(const char *c)
{
	long n = value(c, "parts", 0);

	return n < 0 ? 0 : n > PART_MAX ? PART_MAX : (unsigned)n;
}

nvml_return check(const char *c, nvml_dev d)
{
	long lost = value(c, "lost", -1);

	if (!started)
		return NVML_UNINITIALIZED;
	if (!d || d->magic != 0x6e766d6c)
		return NVML_INVALID_ARGUMENT;
	if (lost == (long)d->i)
		lost_session[d->i] = sessions;
	if (lost_session[d->i] == sessions)
		return NVML_GPU_IS_LOST;
	/* A part of another division. */
	if (d->part && (d->part > n_parts(c) || d->session != (unsigned)value(c, "era", 0)))
		return NVML_NOT_FOUND;
	return NVML_OK;
}

unsigned long long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (unsigned long long)ts.tv_sec * 1000000 + (unsigned long long)ts.tv_nsec / 1000;
}
