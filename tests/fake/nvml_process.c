/* Processes on the GPUs, as old and new drivers tell them. */
#include "nvml_fake.h"

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

CALL(DeviceGetComputeRunningProcesses_v3, (nvml_dev d, unsigned *n, struct nvml_process *out), {
	unsigned pids[64];
	unsigned m = pids_of(c, I, d->part, pids, 64);

	if (*n < m) {
		*n = m;
		return NVML_INSUFFICIENT_SIZE;
	}
	for (unsigned k = 0; k < m; k++)
		out[k] = (struct nvml_process){.pid = pids[k],
					       .used_bytes = value(c, "held", (k + 1) << 10) << 20,
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
 * process that is not there, with more than 100 %, from before what was asked for, and (word
 * "future") from an hour ahead. */
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
	if (word(c, "future"))
		u->rows[m + 1] = (struct nvml_process_util){
			.time_us = now_us() + 3600000000ull, .pid = m ? pids[0] : 1, .sm = 5};
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
#endif
