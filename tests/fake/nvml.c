/*
 * A stand-in for libnvidia-ml.so.1: the functions and layouts of NVIDIA's, and GPUs whose values
 * follow from formulas of the GPU's number i and of the tick t (how often its memory was asked
 * for), so that a test knows each one. FAKE_NVML, or the file named by FAKE_NVML_FILE (read at
 * every call, so that it can change while a program runs), describes what it pretends, separated by
 * commas:
 *
 * - gpus=N: how many (default 2)
 * - board=h100|h200|b200|a100|t4: b200 has NVLink 5; h200 has no fan; a100 has no GPM; t4 neither
 *   NVLink nor ECC remaps
 * - parts=N: GPU 0 is divided into N MIG parts
 * - era=N: another division: the parts' UUIDs change
 * - lost=I: GPU I has fallen off the bus (ends when the word goes away and NVML restarts)
 * - init=CODE: nvmlInit fails
 * - fail=NAME:CODE: this function fails (NAME without "nvml"; "all": every one that may)
 * - hang=NAME: this function does not come back while the word is there
 * - slow=NAME:MS: this function takes that long
 * - burn=NAME:US: this function takes that much processor time (FieldValues: for each field)
 * - costs=h200: calls take the processor time that they took on an H200 under load
 * - c2c=N: coherent links to the processor
 * - xid=I:CODE:SEQ: GPU I reports this XID, once for each SEQ
 * - pids=A:B:C: processes, the k-th on GPU k % N (default: the caller)
 * - held=N: each process has N MiB of its GPU (default: the k-th of a GPU k + 1 GiB)
 * - accounting=PID: accounting is on, and this process has ended
 * - blank: numbers have all their bits set, as drivers say that they do not know
 * - throttle=MASK: why clocks are throttled (without it: GPUs with odd numbers by the power cap)
 * - width=N: lanes of the PCIe link, of 16
 * - ecc=N: uncorrected memory errors since the driver was loaded
 * - memory=N: N MiB of each GPU's memory are used
 * - idle: no process did anything; all utilisation is 0
 * - future: the driver's shares of processes have a row from an hour ahead
 *
 * nvml.c has what every driver has, nvml_process.c processes, nvml_new.c what newer drivers have
 * (not with FAKE_OLD), nvml_config.c the words above and what happens at the start of each call.
 */
#include "nvml_fake.h"

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
	m->used = used_memory(c, I, T);
	m->free = m->total - m->used;
	MAY_BE_BLANK(m);
})
WHOLE(DeviceGetUtilizationRates, (nvml_dev d, struct nvml_utilization *u), {
	u->gpu = word(c, "idle")   ? 0
		 : word(c, "util") ? (unsigned)value(c, "util", 0)
				   : (unsigned)((I * 10 + T * 7) % 101);
	u->memory = word(c, "idle") ? 0 : (unsigned)((I * 5 + T * 3) % 101);
	MAY_BE_BLANK(u);
})
WHOLE(DeviceGetEncoderUtilization, (nvml_dev d, unsigned *u, unsigned *p), {
	*u = I;
	*p = 166000;
	MAY_BE_BLANK(u);
})
WHOLE(DeviceGetDecoderUtilization, (nvml_dev d, unsigned *u, unsigned *p), {
	*u = I + 1;
	*p = 166000;
})
WHOLE(DeviceGetTemperature, (nvml_dev d, unsigned s, unsigned *t), {
	*t = 40 + I + s;
	MAY_BE_BLANK(t);
})
WHOLE(DeviceGetTemperatureThreshold, (nvml_dev d, unsigned which, unsigned *t), {
	if (which > NVML_THRESHOLD_GPU_MAX)
		return NVML_INVALID_ARGUMENT;
	*t = 95 - which * 3;
})
WHOLE(DeviceGetPowerUsage, (nvml_dev d, unsigned *mw), {
	*mw = 300000 + I * 1000;
	MAY_BE_BLANK(mw);
})
WHOLE(DeviceGetEnforcedPowerLimit, (nvml_dev d, unsigned *mw), { *mw = 700000; })
WHOLE(DeviceGetPowerManagementDefaultLimit, (nvml_dev d, unsigned *mw), { *mw = 700000; })
WHOLE(DeviceGetPowerManagementLimitConstraints, (nvml_dev d, unsigned *low, unsigned *high), {
	*low = 200000;
	*high = 700000;
})
WHOLE(DeviceGetClockInfo, (nvml_dev d, unsigned which, unsigned *mhz), {
	*mhz = 1000 + which * 100 + I;
	MAY_BE_BLANK(mhz);
})
WHOLE(DeviceGetMaxClockInfo, (nvml_dev d, unsigned which, unsigned *mhz), { *mhz = 1980 + which; })
WHOLE(DeviceGetPerformanceState, (nvml_dev d, int *p), { *p = (int)I % 3; })
WHOLE(DeviceGetCurrentClocksThrottleReasons, (nvml_dev d, unsigned long long *bits),
      { *bits = (unsigned long long)value(c, "throttle", I % 2 ? 4 : 0); })
WHOLE(DeviceGetCurrPcieLinkGeneration, (nvml_dev d, unsigned *n), { *n = 5; })
WHOLE(DeviceGetMaxPcieLinkGeneration, (nvml_dev d, unsigned *n), { *n = 5; })
WHOLE(DeviceGetCurrPcieLinkWidth, (nvml_dev d, unsigned *n),
      { *n = (unsigned)value(c, "width", 16); })
WHOLE(DeviceGetMaxPcieLinkWidth, (nvml_dev d, unsigned *n), { *n = 16; })
WHOLE(DeviceGetPcieReplayCounter, (nvml_dev d, unsigned *n), {
	*n = I;
	MAY_BE_BLANK(n);
})
WHOLE(DeviceGetEccMode, (nvml_dev d, unsigned *now, unsigned *pending), { *now = *pending = 1; })
WHOLE(DeviceGetTotalEccErrors, (nvml_dev d, unsigned kind, unsigned counter, unsigned long long *n),
      {
	      *n = kind * 100 + counter * 10 + I;
	      if (kind == 1 && counter == 0)
		      *n = (unsigned long long)value(c, "ecc", (long)*n);
	      MAY_BE_BLANK(n);
      })
WHOLE(DeviceGetFanSpeed, (nvml_dev d, unsigned *pct), {
	if (is_board(c, "h200") || is_board(c, "h100"))
		return NVML_NOT_SUPPORTED;
	*pct = 30 + I;
})

/* PCIe throughput takes 20 ms, as the real one does. */
WHOLE(DeviceGetPcieThroughput, (nvml_dev d, unsigned which, unsigned *kbps), {
	usleep(20000);
	*kbps = (which ? 2000 : 1000) + I;
})
