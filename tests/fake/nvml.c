/*
 * A stand-in for libnvidia-ml.so.1: the functions and layouts of NVIDIA's, and GPUs whose values
 * follow from formulas of the GPU's number i and of the tick t (how often its memory was asked
 * for), so that a test knows each one. FAKE_NVML, or the file named by FAKE_NVML_FILE (read at
 * every call, so that it can change while a program runs), describes what it pretends, separated by
 * commas:
 *
 *   gpus=N            how many (default 2)
 *   board=h100|h200|b200|a100|t4   b200 has NVLink 5; h200 has no fan; a100 has no GPM; t4 neither
 * NVLink nor ECC remaps parts=N           GPU 0 is divided into N MIG parts era=N another division:
 * the parts' UUIDs change lost=I            GPU I has fallen off the bus (ends when the word goes
 * away and NVML restarts) init=CODE         nvmlInit fails fail=NAME:CODE    this function fails
 * (NAME without "nvml"; "all": every one that may) hang=NAME         this function does not come
 * back while the word is there slow=NAME:MS      this function takes that long burn=NAME:US this
 * function takes that much processor time (FieldValues: for each field) price=h200        calls
 * take the processor time that they took on an H200 under load c2c=N             coherent links to
 * the processor xid=I:CODE:SEQ    GPU I reports this XID, once for each SEQ pids=A:B:C processes,
 * the k-th on GPU k % N (default: the caller) accounting=PID    accounting is on, and this process
 * has ended idle              no process did anything; all utilisation is 0
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gpu/nvml_calls.h"

#define GPU_MAX  16
#define PART_MAX 7

struct nvml_device_handle {
	unsigned magic, i, part; /* part 0: the whole GPU, else its number from 1 */
	unsigned session;
};

struct nvml_gpm_sample {
	unsigned i;
	unsigned long long t;
};

struct nvml_event_set {
	unsigned n;
	struct nvml_device_handle *gpu[GPU_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvml_device_handle handles[GPU_MAX][PART_MAX + 1];
static unsigned long long ticks[GPU_MAX][PART_MAX + 1];
static unsigned started, sessions;
static unsigned lost_session[GPU_MAX]; /* the session in which it was lost: until a restart */
#ifndef FAKE_OLD
static long xid_seen;
#endif

static void config(char *out, size_t bytes)
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
static const char *word(const char *c, const char *name)
{
	size_t n = strlen(name);

	for (c = strchr(c, ','); c && c[1]; c = strchr(c + 1, ','))
		if (strncmp(c + 1, name, n) == 0 &&
		    (c[n + 1] == '=' || c[n + 1] == ',' || c[n + 1] == ':'))
			return c[n + 1] == '=' ? c + n + 2 : c + n + 1;
	return NULL;
}

static long value(const char *c, const char *name, long otherwise)
{
	const char *w = word(c, name);

	return w ? strtol(w, NULL, 10) : otherwise;
}

static int is_board(const char *c, const char *board)
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

static void pay(const char *c, const char *call, unsigned id)
{
	const char *rest;

	if (names_call(c, "burn", call, &rest))
		burn(strtol(rest, NULL, 10));
	if (!word(c, "price"))
		return;
	for (unsigned i = 0; i < sizeof(prices) / sizeof(prices[0]); i++)
		if (prices[i].id == id && strcmp(prices[i].call, id ? "field" : call) == 0)
			burn(prices[i].us);
}

/* What happens at the start of every call. */
static nvml_return begin(const char *call, char c[1024], int needed)
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

static unsigned n_gpus(const char *c)
{
	long n = value(c, "gpus", 2);

	return n < 0 ? 0 : n > GPU_MAX ? GPU_MAX : (unsigned)n;
}

static unsigned n_parts(const char *c)
{
	long n = value(c, "parts", 0);

	return n < 0 ? 0 : n > PART_MAX ? PART_MAX : (unsigned)n;
}

static nvml_return check(const char *c, nvml_dev d)
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

#define EXPORT __attribute__((visibility("default")))

/* A function of NVML: its configuration in c, the check of its device done. */
#define CALL(name, args, ...)                                                                      \
	EXPORT nvml_return nvml##name args;                                                        \
	EXPORT nvml_return nvml##name args                                                         \
	{                                                                                          \
		char c[1024];                                                                      \
		nvml_return r = begin(#name, c, 0);                                                \
                                                                                                   \
		if (r == NVML_OK)                                                                  \
			r = check(c, d);                                                           \
		if (r != NVML_OK)                                                                  \
			return r;                                                                  \
		__VA_ARGS__                                                                        \
		return NVML_OK;                                                                    \
	}

/* One that a part of a GPU does not have. */
#define WHOLE(name, args, ...) CALL(name, args, if (d->part) return NVML_NOT_SUPPORTED; __VA_ARGS__)

/* One without which nothing works. */
#define NEEDED(name, args, ...)                                                                    \
	EXPORT nvml_return nvml##name args;                                                        \
	EXPORT nvml_return nvml##name args                                                         \
	{                                                                                          \
		char c[1024];                                                                      \
		nvml_return r = begin(#name, c, 1);                                                \
                                                                                                   \
		if (r != NVML_OK)                                                                  \
			return r;                                                                  \
		__VA_ARGS__                                                                        \
		return NVML_OK;                                                                    \
	}

#define I d->i
#define T ticks[d->i][d->part]
#define TEXT(...)                                                                                  \
	do {                                                                                       \
		if ((unsigned)snprintf(out, n, __VA_ARGS__) >= n)                                  \
			return NVML_INSUFFICIENT_SIZE;                                             \
	} while (0)

NEEDED(Init_v2, (void), {
	nvml_return code = (nvml_return)value(c, "init", 0);

	if (code != NVML_OK)
		return code;
	pthread_mutex_lock(&lock);
	started++;
	sessions++;
	pthread_mutex_unlock(&lock);
})

NEEDED(Shutdown, (void), {
	if (!started)
		return NVML_UNINITIALIZED;
	started--;
})

NEEDED(DeviceGetCount_v2, (unsigned *n), {
	if (!started)
		return NVML_UNINITIALIZED;
	*n = n_gpus(c);
})

NEEDED(DeviceGetHandleByIndex_v2, (unsigned i, nvml_dev *ret), {
	if (i >= n_gpus(c))
		return NVML_INVALID_ARGUMENT;
	if (value(c, "lost", -1) == (long)i)
		return NVML_GPU_IS_LOST;
	lost_session[i] = 0;
	handles[i][0] = (struct nvml_device_handle){.magic = 0x6e766d6c, .i = i};
	*ret = &handles[i][0];
})

NEEDED(DeviceGetUUID, (nvml_dev d, char *out, unsigned n), {
	r = check(c, d);
	if (r != NVML_OK)
		return r;
	if (d->part)
		TEXT("MIG-%08lx-0000-0000-0000-%012x", value(c, "era", 0), d->part);
	else
		TEXT("GPU-%08x-1111-2222-3333-444455556666", I);
})

NEEDED(DeviceGetName, (nvml_dev d, char *out, unsigned n), {
	const char *w = word(c, "board");

	r = check(c, d);
	if (r != NVML_OK)
		return r;
	TEXT("%s%s",
	     !w || strncmp(w, "h100", 4) == 0 ? "NVIDIA H100 80GB HBM3"
	     : strncmp(w, "h200", 4) == 0     ? "NVIDIA H200"
	     : strncmp(w, "a100", 4) == 0     ? "NVIDIA A100-SXM4-40GB"
					      : "Tesla T4",
	     d->part ? " MIG 1g.10gb" : "");
})

EXPORT nvml_return nvmlSystemGetDriverVersion(char *out, unsigned n);
EXPORT nvml_return nvmlSystemGetDriverVersion(char *out, unsigned n)
{
#ifdef FAKE_OLD
	TEXT("390.157");
#else
	TEXT("580.159.04");
#endif
	return NVML_OK;
}

CALL(DeviceGetPciInfo_v3, (nvml_dev d, struct nvml_pci *p), {
	memset(p, 0, sizeof(*p));
	p->domain = 0;
	p->bus = 0x10 + I;
	snprintf(p->bus_id_legacy, sizeof(p->bus_id_legacy), "0000:%02X:00.0", p->bus & 0xff);
	snprintf(p->bus_id, sizeof(p->bus_id), "00000000:%02X:00.0", p->bus & 0xff);
})
CALL(DeviceGetPersistenceMode, (nvml_dev d, unsigned *on), { *on = 1; })
CALL(DeviceGetMinorNumber, (nvml_dev d, unsigned *n), { *n = I; })
CALL(DeviceGetSerial, (nvml_dev d, char *out, unsigned n), { TEXT("16532%07u", I); })
CALL(DeviceGetVbiosVersion, (nvml_dev d, char *out, unsigned n),
     { TEXT("96.00.74.00.%02X", I & 0xff); })
CALL(DeviceGetMemoryInfo, (nvml_dev d, struct nvml_memory *m), {
	T++;
	m->total = 80ull << 30;
	m->used = ((I + 1ull) << 30) + (T << 20);
	m->free = m->total - m->used;
})
WHOLE(DeviceGetUtilizationRates, (nvml_dev d, struct nvml_utilization *u), {
	u->gpu = word(c, "idle") ? 0 : (unsigned)((I * 10 + T * 7) % 101);
	u->memory = word(c, "idle") ? 0 : (unsigned)((I * 5 + T * 3) % 101);
})
WHOLE(DeviceGetEncoderUtilization, (nvml_dev d, unsigned *u, unsigned *p), {
	*u = I;
	*p = 166000;
})
WHOLE(DeviceGetDecoderUtilization, (nvml_dev d, unsigned *u, unsigned *p), {
	*u = I + 1;
	*p = 166000;
})
WHOLE(DeviceGetTemperature, (nvml_dev d, unsigned s, unsigned *t), { *t = 40 + I + s; })
WHOLE(DeviceGetTemperatureThreshold, (nvml_dev d, unsigned which, unsigned *t), {
	if (which > NVML_THRESHOLD_GPU_MAX)
		return NVML_INVALID_ARGUMENT;
	*t = 95 - which * 3;
})
WHOLE(DeviceGetPowerUsage, (nvml_dev d, unsigned *mw), { *mw = 300000 + I * 1000; })
WHOLE(DeviceGetEnforcedPowerLimit, (nvml_dev d, unsigned *mw), { *mw = 700000; })
WHOLE(DeviceGetPowerManagementDefaultLimit, (nvml_dev d, unsigned *mw), { *mw = 700000; })
WHOLE(DeviceGetPowerManagementLimitConstraints, (nvml_dev d, unsigned *low, unsigned *high), {
	*low = 200000;
	*high = 700000;
})
WHOLE(DeviceGetClockInfo, (nvml_dev d, unsigned which, unsigned *mhz),
      { *mhz = 1000 + which * 100 + I; })
WHOLE(DeviceGetMaxClockInfo, (nvml_dev d, unsigned which, unsigned *mhz), { *mhz = 1980 + which; })
WHOLE(DeviceGetPerformanceState, (nvml_dev d, int *p), { *p = (int)I % 3; })
WHOLE(DeviceGetCurrentClocksThrottleReasons, (nvml_dev d, unsigned long long *bits),
      { *bits = I % 2 ? 4 : 0; })
WHOLE(DeviceGetCurrPcieLinkGeneration, (nvml_dev d, unsigned *n), { *n = 5; })
WHOLE(DeviceGetMaxPcieLinkGeneration, (nvml_dev d, unsigned *n), { *n = 5; })
WHOLE(DeviceGetCurrPcieLinkWidth, (nvml_dev d, unsigned *n), { *n = 16; })
WHOLE(DeviceGetMaxPcieLinkWidth, (nvml_dev d, unsigned *n), { *n = 16; })
WHOLE(DeviceGetPcieReplayCounter, (nvml_dev d, unsigned *n), { *n = I; })
WHOLE(DeviceGetEccMode, (nvml_dev d, unsigned *now, unsigned *pending), { *now = *pending = 1; })
WHOLE(DeviceGetTotalEccErrors, (nvml_dev d, unsigned kind, unsigned counter, unsigned long long *n),
      { *n = kind * 100 + counter * 10 + I; })
WHOLE(DeviceGetFanSpeed, (nvml_dev d, unsigned *pct), {
	if (is_board(c, "h200") || is_board(c, "h100"))
		return NVML_NOT_SUPPORTED;
	*pct = 30 + I;
})

/* PCIe throughput takes 20 ms, as the real one does: a program that calls it is seen. */
WHOLE(DeviceGetPcieThroughput, (nvml_dev d, unsigned which, unsigned *kbps), {
	usleep(20000);
	*kbps = which;
	fprintf(stderr, "fake_nvml: nvmlDeviceGetPcieThroughput was called\n");
})

/* ---- processes ---- */

static unsigned pids_of(const char *c, unsigned gpu, unsigned part, unsigned *pids, unsigned max)
{
	const char *w = word(c, "pids");
	unsigned n = 0, gpus = n_gpus(c), k = 0, parts = n_parts(c);
	char *end;

	if (word(c, "nopids"))
		return 0;
	if (!w) {
		pids[0] = (unsigned)getpid();
		return gpu == 0 && part <= 1 && (part == 1) == (parts > 0);
	}
	for (;; k++) {
		unsigned pid = (unsigned)strtoul(w, &end, 10);

		if (end == w)
			break;
		if (k % gpus == gpu && n < max && (parts && gpu == 0 ? part == 1 : part == 0))
			pids[n++] = pid;
		if (*end != ':')
			break;
		w = end + 1;
	}
	return n;
}

#ifdef FAKE_OLD
CALL(DeviceGetComputeRunningProcesses, (nvml_dev d, unsigned *n, struct nvml_process_v1 *out), {
	unsigned pids[64];
	unsigned m = pids_of(c, I, d->part, pids, 64);

	if (*n < m) {
		*n = m;
		return NVML_INSUFFICIENT_SIZE;
	}
	for (unsigned k = 0; k < m; k++)
		out[k] = (struct nvml_process_v1){.pid = pids[k], .used_bytes = (k + 1ull) << 30};
	*n = m;
})
#else

static unsigned long long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (unsigned long long)ts.tv_sec * 1000000 + (unsigned long long)ts.tv_nsec / 1000;
}

CALL(DeviceGetComputeRunningProcesses_v3, (nvml_dev d, unsigned *n, struct nvml_process *out), {
	unsigned pids[64];
	unsigned m = pids_of(c, I, d->part, pids, 64);

	if (*n < m) {
		*n = m;
		return NVML_INSUFFICIENT_SIZE;
	}
	for (unsigned k = 0; k < m; k++)
		out[k] = (struct nvml_process){.pid = pids[k],
					       .used_bytes = (k + 1ull) << 30,
					       .gpu_instance = ~0u,
					       .compute_instance = ~0u};
	*n = m;
})
WHOLE(DeviceGetGraphicsRunningProcesses_v3, (nvml_dev d, unsigned *n, struct nvml_process *out), {
	(void)out;
	*n = 0;
})
WHOLE(DeviceGetMPSComputeRunningProcesses_v3, (nvml_dev d, unsigned *n, struct nvml_process *out), {
	(void)out;
	*n = 0;
})

/* Rows of those that did something, and between them rows such as drivers were seen to return: of a
 * process that is not there, with more than 100 %, and from before what was asked for. */
WHOLE(DeviceGetProcessesUtilizationInfo, (nvml_dev d, struct nvml_processes_util *u), {
	unsigned pids[64];
	unsigned m = pids_of(c, I, 0, pids, 61);

	if (u->version != NVML_VERSION_OF(struct nvml_processes_util, 1))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	if (word(c, "idle"))
		return NVML_NOT_FOUND;
	if (u->n < m + 3) {
		u->n = m + 3;
		return NVML_INSUFFICIENT_SIZE;
	}
	memset(u->rows, 0, (m + 3) * sizeof(*u->rows));
	u->rows[0] = (struct nvml_process_util){.time_us = now_us(), .pid = 4194303, .sm = 50};
	for (unsigned k = 0; k < m; k++)
		u->rows[k + 1] = (struct nvml_process_util){.time_us = now_us(),
							    .pid = pids[k],
							    .sm = 30 + k,
							    .mem = 20 + k,
							    .enc = k,
							    .dec = k + 1,
							    .jpg = k + 2,
							    .ofa = k + 3};
	u->rows[m + 1] = (struct nvml_process_util){
		.time_us = now_us() + 1000, .pid = m ? pids[0] : 1, .sm = 3812, .mem = 77};
	u->rows[m + 2] = (struct nvml_process_util){
		.time_us = u->last_seen_us - 5, .pid = m ? pids[0] : 1, .sm = 99};
	u->n = m + 3;
})
WHOLE(DeviceGetAccountingMode, (nvml_dev d, unsigned *on), { *on = word(c, "accounting") != NULL; })
WHOLE(DeviceGetAccountingPids, (nvml_dev d, unsigned *n, unsigned *pids), {
	if (*n < 1)
		return NVML_INSUFFICIENT_SIZE;
	*n = value(c, "accounting", 0) > 0 && I == 0;
	pids[0] = (unsigned)value(c, "accounting", 0);
})
WHOLE(DeviceGetAccountingStats, (nvml_dev d, unsigned pid, struct nvml_accounting *s), {
	if ((long)pid != value(c, "accounting", 0))
		return NVML_NOT_FOUND;
	*s = (struct nvml_accounting){.gpu_pct = 42,
				      .memory_pct = 21,
				      .max_memory_bytes = 3ull << 30,
				      .time_ms = 350,
				      .start_us = 1000000ull * pid};
})

/* ---- what newer drivers have ---- */

EXPORT nvml_return nvmlSystemGetCudaDriverVersion_v2(int *v);
EXPORT nvml_return nvmlSystemGetCudaDriverVersion_v2(int *v)
{
	*v = 13000;
	return NVML_OK;
}
CALL(DeviceGetArchitecture, (nvml_dev d, unsigned *a), {
	*a = is_board(c, "a100") ? 7 : is_board(c, "t4") ? 6 : 9;
})
CALL(DeviceGetCudaComputeCapability, (nvml_dev d, int *major, int *minor), {
	*major = is_board(c, "a100") ? 8 : is_board(c, "t4") ? 7 : 9;
	*minor = is_board(c, "t4") ? 5 : 0;
})
WHOLE(DeviceGetNumGpuCores, (nvml_dev d, unsigned *n), {
	*n = is_board(c, "a100") ? 6912 : is_board(c, "t4") ? 2560 : 16896;
})
CALL(DeviceGetNumaNodeId, (nvml_dev d, unsigned *n), { *n = I / 4; })
CALL(DeviceGetMemoryInfo_v2, (nvml_dev d, struct nvml_memory_v2 *m), {
	if (m->version != NVML_VERSION_OF(struct nvml_memory_v2, 2))
		return NVML_ARGUMENT_VERSION_MISMATCH;
	T++;
	m->total = d->part ? 10ull << 30 : is_board(c, "h200") ? 141ull << 30 : 80ull << 30;
	m->reserved = 512ull << 20;
	m->used = ((I + 1ull) << 30) + (T << 20);
	m->free = m->total - m->reserved - m->used;
})
WHOLE(DeviceGetBAR1MemoryInfo, (nvml_dev d, struct nvml_bar1 *b), {
	b->total = 128ull << 30;
	b->used = (I + 1ull) << 20;
	b->free = b->total - b->used;
})
WHOLE(DeviceGetJpgUtilization, (nvml_dev d, unsigned *u, unsigned *p), {
	*u = I + 2;
	*p = 166000;
})
WHOLE(DeviceGetOfaUtilization, (nvml_dev d, unsigned *u, unsigned *p), {
	*u = I + 3;
	*p = 166000;
})
WHOLE(DeviceGetTotalEnergyConsumption, (nvml_dev d, unsigned long long *mj),
      { *mj = 1000000ull * (I + 1) + T * 300000; })
WHOLE(DeviceGetMemoryErrorCounter,
      (nvml_dev d, unsigned kind, unsigned counter, unsigned where, unsigned long long *n),
      { *n = kind * 1000 + counter * 100 + where * 10 + I; })
WHOLE(DeviceGetRemappedRows,
      (nvml_dev d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed),
      {
	      if (is_board(c, "t4"))
		      return NVML_NOT_SUPPORTED;
	      *corrected = I;
	      *uncorrected = 2 * I;
	      *pending = I == 1;
	      *failed = 0;
      })

static nvml_return field(const char *c, nvml_dev d, struct nvml_field *f)
{
	f->time_us = (long long)now_us();
	f->latency_us = 10;
	f->type = NVML_ULLONG;
	switch (f->id) {
	case NVML_FI_MEMORY_TEMP:
		f->type = NVML_UINT;
		f->value.ui = 50 + I;
		return NVML_OK;
	case NVML_FI_ENERGY:
		f->value.ull = 1000000ull * (I + 1) + T * 300000;
		return NVML_OK;
	case NVML_FI_POWER_AVERAGE:
		f->type = NVML_UINT;
		f->value.ui = 300000 + I * 1000;
		return NVML_OK;
	case NVML_FI_POWER_INSTANT:
		f->type = NVML_UINT;
		f->value.ui = 310000 + I * 1000;
		return NVML_OK;
	/* 32 bits wide: starts again at the fourth tick. */
	case NVML_FI_PCIE_TX_BYTES:
	case NVML_FI_PCIE_RX_BYTES:
		f->type = NVML_UINT;
		f->value.ui = (unsigned)(T * (f->id == NVML_FI_PCIE_TX_BYTES ? 1500000000ull
									     : 1000000000ull));
		return NVML_OK;
	case NVML_FI_PERF_POLICY_POWER:
	case NVML_FI_PERF_POLICY_SYNC_BOOST:
	case NVML_FI_THROTTLE_SW_THERMAL:
	case NVML_FI_THROTTLE_HW_THERMAL:
	case NVML_FI_THROTTLE_HW_POWER_BRAKE:
	case NVML_FI_PERF_POLICY_BOARD_LIMIT:
	case NVML_FI_PERF_POLICY_LOW_UTILIZATION:
	case NVML_FI_PERF_POLICY_RELIABILITY:
		f->value.ull = f->id * 1000000000ull + I * 1000000;
		return NVML_OK;
	case NVML_FI_NVLINK_DATA_TX:
	case NVML_FI_NVLINK_DATA_RX:
		if (is_board(c, "t4") || is_board(c, "b200"))
			return NVML_NOT_SUPPORTED;
		f->value.ull = T * (f->id == NVML_FI_NVLINK_DATA_TX ? 18000 : 36000);
		if (f->scope != NVML_SCOPE_ALL)
			f->value.ull /= 18;
		return NVML_OK;
	/* Of each link, as the calls for links tell it. */
	case NVML_FI_LINK_STATE:
	case NVML_FI_LINK_CRC:
	case NVML_FI_LINK_REPLAY:
	case NVML_FI_LINK_RECOVERY:
		if (is_board(c, "t4") || is_board(c, "a100") || f->scope >= 18)
			return NVML_NOT_SUPPORTED;
		if (f->id == NVML_FI_LINK_STATE) {
			f->type = NVML_UINT;
			f->value.ui = f->scope != 17 || I != 1;
			return NVML_OK;
		}
		f->value.ull = f->scope != 2 ? 0
			       : f->id == NVML_FI_LINK_REPLAY ? NVML_LINK_REPLAY + 1
			       : f->id == NVML_FI_LINK_RECOVERY ? NVML_LINK_RECOVERY + 1
								: NVML_LINK_CRC_FLIT + 1;
		return NVML_OK;
	case NVML_FI_NVLINK_XMIT_BYTES:
	case NVML_FI_NVLINK_RCV_BYTES:
	case NVML_FI_NVLINK_MALFORMED ... NVML_FI_NVLINK_DISCARDS:
	case NVML_FI_NVLINK_RECOVERY_FAILED:
	case NVML_FI_NVLINK_EFFECTIVE:
	case NVML_FI_NVLINK_SYMBOL:
		if (!is_board(c, "b200") || f->scope >= 18)
			return NVML_NOT_SUPPORTED;
		f->value.ull = f->id <= NVML_FI_NVLINK_RCV_BYTES ? T * (f->id - 201) * 1000
								 : f->id * 10 + f->scope;
		return NVML_OK;
	case NVML_FI_C2C_COUNT:
	case NVML_FI_C2C_STATUS:
	case NVML_FI_C2C_MAX_BW:
		if (!value(c, "c2c", 0))
			return NVML_NOT_SUPPORTED;
		f->type = NVML_UINT;
		f->value.ui = f->id == NVML_FI_C2C_COUNT ? (unsigned)value(c, "c2c", 0)
			      : f->id == NVML_FI_C2C_STATUS ? f->scope != 1 /* one is down */
							    : 44712;
		return NVML_OK;
	case NVML_FI_RETIRED_SBE:
	case NVML_FI_RETIRED_DBE:
	case NVML_FI_RETIRED_PENDING:
		if (!is_board(c, "t4"))
			return NVML_NOT_SUPPORTED;
		f->type = NVML_UINT;
		f->value.ui = f->id == NVML_FI_RETIRED_PENDING ? 0 : f->id - 28;
		return NVML_OK;
	case NVML_FI_PCIE_CORRECTABLE:
	case NVML_FI_PCIE_NON_FATAL:
	case NVML_FI_PCIE_FATAL:
	case NVML_FI_PCIE_REPLAY:
		f->type = NVML_UINT;
		f->value.ui = f->id - 90 + I;
		return NVML_OK;
	case NVML_FI_RECOVERY_ACTION:
		f->type = NVML_UINT;
		f->value.ui = I == 1;
		return NVML_OK;
	default:
		return NVML_NOT_SUPPORTED;
	}
}

WHOLE(DeviceGetFieldValues, (nvml_dev d, int n, struct nvml_field *f), {
	for (int k = 0; k < n; k++) {
		pay(c, "DeviceGetFieldValues", f[k].id);
		f[k].r = field(c, d, &f[k]);
	}
})

/* ---- NVLink: 18 links to switches; on an a100 four straight to the next GPU ---- */

WHOLE(DeviceGetNvLinkState, (nvml_dev d, unsigned link, unsigned *up), {
	if (is_board(c, "t4") || link >= 18)
		return link >= 18 ? NVML_INVALID_ARGUMENT : NVML_NOT_SUPPORTED;
	*up = link != 17 || I != 1; /* one link of GPU 1 is down */
})
WHOLE(DeviceGetNvLinkVersion, (nvml_dev d, unsigned link, unsigned *v), { *v = 4 + 0 * link; })
WHOLE(DeviceGetNvLinkErrorCounter,
      (nvml_dev d, unsigned link, unsigned which, unsigned long long *n),
      { *n = link == 2 ? which + 1 : 0; })
WHOLE(DeviceGetNvLinkRemoteDeviceType, (nvml_dev d, unsigned link, unsigned *type), {
	(void)link;
	*type = is_board(c, "a100") ? NVML_LINK_TO_GPU : NVML_LINK_TO_SWITCH;
})
WHOLE(DeviceGetNvLinkRemotePciInfo_v2, (nvml_dev d, unsigned link, struct nvml_pci *p), {
	memset(p, 0, sizeof(*p));
	if (link < 4)
		snprintf(p->bus_id, sizeof(p->bus_id), "00000000:%02X:00.0", 0x10 + (I ^ 1));
	else
		snprintf(p->bus_id, sizeof(p->bus_id), "00000000:F0:00.0");
})
WHOLE(DeviceGetC2cModeInfoV, (nvml_dev d, struct nvml_c2c_mode *m), {
	if (!value(c, "c2c", 0))
		return NVML_NOT_SUPPORTED;
	m->enabled = 1;
})
WHOLE(DeviceGetTopologyCommonAncestor, (nvml_dev d, nvml_dev other, unsigned *level),
      { *level = I / 4 == other->i / 4 ? NVML_TOPOLOGY_NODE : NVML_TOPOLOGY_SYSTEM; })

/* ---- MIG ---- */

WHOLE(DeviceGetMigMode, (nvml_dev d, unsigned *now, unsigned *pending), {
	if (is_board(c, "t4"))
		return NVML_NOT_SUPPORTED;
	*now = *pending = I == 0 && n_parts(c) > 0;
})
WHOLE(DeviceGetMaxMigDeviceCount, (nvml_dev d, unsigned *n), { *n = I == 0 ? PART_MAX : 0; })
WHOLE(DeviceGetMigDeviceHandleByIndex, (nvml_dev d, unsigned k, nvml_dev *ret), {
	if (I != 0 || k >= n_parts(c))
		return NVML_NOT_FOUND;
	handles[0][k + 1] = (struct nvml_device_handle){
		.magic = 0x6e766d6c, .part = k + 1, .session = (unsigned)value(c, "era", 0)};
	*ret = &handles[0][k + 1];
})
CALL(DeviceGetGpuInstanceId, (nvml_dev d, unsigned *id), {
	if (!d->part)
		return NVML_NOT_SUPPORTED;
	*id = 6 + d->part;
})
CALL(DeviceGetComputeInstanceId, (nvml_dev d, unsigned *id), {
	if (!d->part)
		return NVML_NOT_SUPPORTED;
	*id = 0;
})
CALL(DeviceGetAttributes_v2, (nvml_dev d, struct nvml_attributes *a), {
	if (!d->part)
		return NVML_NOT_SUPPORTED;
	*a = (struct nvml_attributes){
		.n_sms = 16, .n_gpu_slices = 1, .n_compute_slices = 1, .memory_mib = 9856};
})

/* ---- GPM ---- */

WHOLE(GpmQueryDeviceSupport, (nvml_dev d, struct nvml_gpm_support *s),
      { s->supported = is_board(c, "h100") || is_board(c, "h200") || is_board(c, "b200"); })
NEEDED(GpmSampleAlloc, (struct nvml_gpm_sample * *s), {
	*s = calloc(1, sizeof(**s));
	if (!*s)
		return NVML_UNKNOWN;
})
NEEDED(GpmSampleFree, (struct nvml_gpm_sample * s), { free(s); })
WHOLE(GpmSampleGet, (nvml_dev d, struct nvml_gpm_sample *s), {
	s->i = I;
	s->t = T;
})
WHOLE(GpmMigSampleGet, (nvml_dev d, unsigned instance, struct nvml_gpm_sample *s), {
	if (instance < 7 || instance > 6 + n_parts(c))
		return NVML_INVALID_ARGUMENT;
	s->i = instance;
	s->t = ticks[0][instance - 6];
})
NEEDED(GpmMetricsGet, (struct nvml_gpm_metrics * m), {
	if (m->version != 1)
		return NVML_ARGUMENT_VERSION_MISMATCH;
	/* In the wrong order, or of one moment: nothing can be told. */
	if (m->from->t >= m->to->t || m->from->i != m->to->i)
		return NVML_INVALID_ARGUMENT;
	for (unsigned k = 0; k < m->n; k++) {
		m->metrics[k].r = NVML_OK;
		m->metrics[k].value = m->metrics[k].id >= 20 ? m->metrics[k].id * 10 + m->to->i
							     : m->metrics[k].id * 5 + m->to->i;
	}
})

/* ---- events ---- */

WHOLE(DeviceGetSupportedEventTypes, (nvml_dev d, unsigned long long *types), { *types = 0x1f; })
NEEDED(EventSetCreate, (struct nvml_event_set * *set), {
	*set = calloc(1, sizeof(**set));
	if (!*set)
		return NVML_UNKNOWN;
})
NEEDED(EventSetFree, (struct nvml_event_set * set), { free(set); })
WHOLE(DeviceRegisterEvents, (nvml_dev d, unsigned long long types, struct nvml_event_set *set), {
	if (!(types & NVML_EVENT_XID) || set->n >= GPU_MAX)
		return NVML_INVALID_ARGUMENT;
	set->gpu[set->n++] = d;
})
NEEDED(EventSetWait_v2, (struct nvml_event_set * set, struct nvml_event *e, unsigned ms), {
	for (unsigned k = 0; k <= ms; k += 5) {
		const char *w = word(c, "xid");
		char *end = NULL;
		long i = w ? strtol(w, &end, 10) : -1, code = 0, seq = 0;

		if (w && *end == ':')
			code = strtol(end + 1, &end, 10);
		if (w && *end == ':')
			seq = strtol(end + 1, &end, 10);
		pthread_mutex_lock(&lock);
		w = code && seq != xid_seen ? w : NULL;
		if (w)
			xid_seen = seq;
		pthread_mutex_unlock(&lock);
		for (unsigned j = 0; w && j < set->n; j++)
			if ((long)set->gpu[j]->i == i) {
				*e = (struct nvml_event){.device = set->gpu[j],
							 .type = NVML_EVENT_XID,
							 .data = (unsigned long long)code};
				return NVML_OK;
			}
		/* Without a file nothing can change: sleeps as the driver's library does. */
		if (!getenv("FAKE_NVML_FILE")) {
			usleep(ms * 1000);
			break;
		}
		usleep(5000);
		config(c, sizeof(c));
	}
	return NVML_TIMEOUT;
})
#endif
