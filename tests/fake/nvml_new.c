/* What newer drivers have: fields, NVLink, MIG, GPM, events. */
#ifndef FAKE_OLD
#include "nvml_fake.h"

static long xid_seen;

/* joules=N: the counter's value. seen=PATH: who has read which value stands in PATH.PID.GPU. */
static unsigned long long energy_mj(const char *c, nvml_dev d)
{
	long joules = value(c, "joules", -1);
	const char *seen = word(c, "seen");
	char path[512], temporary[520];
	FILE *file;

	if (joules < 0)
		return 1000000ull * (I + 1) + T * 300000;
	if (!seen)
		return (unsigned long long)joules * 1000;
	snprintf(path, sizeof(path), "%.*s.%d.%u", (int)strcspn(seen, ",:"), seen, (int)getpid(),
		 I);
	snprintf(temporary, sizeof(temporary), "%s.new", path);
	file = fopen(temporary, "w");
	if (file) {
		fprintf(file, "%ld", joules);
		if (fclose(file) == 0)
			rename(temporary, path);
	}
	return (unsigned long long)joules * 1000;
}

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
	m->used = used_memory(c, I, T);
	m->free = m->total - m->reserved - m->used;
	if (word(c, "blank"))
		m->used = m->free = m->reserved = ~0ull;
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
WHOLE(DeviceGetTotalEnergyConsumption, (nvml_dev d, unsigned long long *mj), {
	*mj = energy_mj(c, d);
	MAY_BE_BLANK(mj);
})
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
		f->value.ull = energy_mj(c, d);
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
		f->value.ull = f->scope != 2                    ? 0
			       : f->id == NVML_FI_LINK_REPLAY   ? NVML_LINK_REPLAY + 1
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
		f->value.ui = f->id == NVML_FI_C2C_COUNT    ? (unsigned)value(c, "c2c", 0)
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
		MAY_BE_BLANK(&f[k].value);
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
