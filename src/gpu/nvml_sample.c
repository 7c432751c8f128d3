/*
 * The values of one GPU that are read at each sample. The main read is one GetFieldValues for all
 * that it can give; a field that the GPU does not have is not asked for again before the slow
 * values are due.
 *
 * nvmlDeviceGetPcieThroughput is never called: it measures for 20 ms in each direction while its
 * caller waits (nvml.h says so). Bytes over PCIe come from counters, or from GPM.
 */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gpu/gpu_int.h"

static const struct gs_nvml_row basic_batch[] = {
	{NVML_FI_MEMORY_TEMP, GS_GPU_TEMP_MEM, 1, false},
	{NVML_FI_ENERGY, GS_GPU_ENERGY, 1e-3, false},
	{NVML_FI_POWER_AVERAGE, GS_GPU_POWER, 1e-3, false},
	{NVML_FI_POWER_INSTANT, GS_GPU_POWER_INSTANT, 1e-3, false},
	{NVML_FI_PCIE_TX_BYTES, GS_GPU_PCIE_TX, 1, false},
	{NVML_FI_PCIE_RX_BYTES, GS_GPU_PCIE_RX, 1, false},
	{NVML_FI_PERF_POLICY_POWER, GS_GPU_THROTTLE_SW_POWER, 1e-9, false},
	{NVML_FI_PERF_POLICY_SYNC_BOOST, GS_GPU_THROTTLE_SYNC_BOOST, 1e-9, false},
	{NVML_FI_THROTTLE_SW_THERMAL, GS_GPU_THROTTLE_SW_THERMAL, 1e-9, false},
	/* The same counter under its old number. */
	{NVML_FI_PERF_POLICY_THERMAL, GS_GPU_THROTTLE_SW_THERMAL, 1e-9, true},
	{NVML_FI_THROTTLE_HW_THERMAL, GS_GPU_THROTTLE_HW_THERMAL, 1e-9, false},
	{NVML_FI_THROTTLE_HW_POWER_BRAKE, GS_GPU_THROTTLE_HW_POWER_BRAKE, 1e-9, false},
	{NVML_FI_PERF_POLICY_BOARD_LIMIT, GS_GPU_THROTTLE_BOARD_LIMIT, 1e-9, false},
	{NVML_FI_PERF_POLICY_LOW_UTILIZATION, GS_GPU_THROTTLE_LOW_UTIL, 1e-9, false},
	{NVML_FI_PERF_POLICY_RELIABILITY, GS_GPU_THROTTLE_RELIABILITY, 1e-9, false},
};

static double number_of(const struct nvml_field *f)
{
	switch (f->type) {
	case NVML_DOUBLE:
		return f->value.d;
	case NVML_UINT:
		return f->value.ui;
	case NVML_ULONG:
		return (double)f->value.ul;
	case NVML_ULLONG:
		return (double)f->value.ull;
	case NVML_LLONG:
		return (double)f->value.sll;
	case NVML_INT:
		return f->value.si;
	case NVML_USHORT:
		return f->value.us;
	default:
		return 0;
	}
}

/* Counters of bytes over PCIe may be 32 bits wide and start again at 0 (nvml.h: "value can wrap"):
 * carried on as 64 bits. One of 64 bits is as it is. */
static double unwrapped(struct gs_nvml_device *dev, unsigned i, const struct nvml_field *f)
{
	uint64_t now;

	if (f->type != NVML_UINT && f->type != NVML_INT)
		return number_of(f);
	now = f->value.ui;
	if (now < dev->pcie_last[i])
		dev->pcie_high[i] += 1ull << 32;
	dev->pcie_last[i] = now;
	return (double)(dev->pcie_high[i] + now);
}

void gs_nvml_read_rows(struct gs_nvml *nv, struct gs_nvml_device *dev,
		       const struct gs_nvml_row *rows, unsigned n_rows)
{
	struct nvml_field f[32];
	unsigned row_of[32], n = 0;
	nvml_return r;

	memset(f, 0, sizeof(f));
	for (unsigned i = 0; i < n_rows && n < GS_ARRAY_LEN(f); i++) {
		if (dev->no_field[rows[i].id] && !rows[i].rest)
			dev->sample.why[rows[i].field] = GS_GPU_WHY_NOT_SUPPORTED;
		if (dev->no_field[rows[i].id])
			continue;
		f[n].id = rows[i].id;
		row_of[n++] = i;
	}
	if (!n)
		return;
	r = NVML_OF(nv, dev, fields, dev->handle, (int)n, f);
	for (unsigned i = 0; i < n; i++) {
		const struct gs_nvml_row *row = &rows[row_of[i]];
		nvml_return each = r == NVML_OK ? f[i].r : r;
		double v;

		if (each == NVML_NOT_SUPPORTED || each == NVML_INVALID_ARGUMENT) {
			dev->no_field[row->id] = 1;
			each = NVML_NOT_SUPPORTED;
		}
		if (each == NVML_GPU_IS_LOST)
			dev->sample.lost = 1;
		if (row->rest && (each != NVML_OK || gs_gpu_has(&dev->sample, row->field)))
			continue;
		if (each == NVML_OK &&
		    (row->id == NVML_FI_PCIE_TX_BYTES || row->id == NVML_FI_PCIE_RX_BYTES))
			v = unwrapped(dev, row->id == NVML_FI_PCIE_RX_BYTES, &f[i]);
		else
			v = each == NVML_OK ? number_of(&f[i]) * row->scale : 0;
		gs_nvml_put(dev, row->field, each, v);
	}
}

static void read_utilization(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_utilization u = {0};
	unsigned pct = 0, period_us;
	nvml_return r = NVML_OF(nv, dev, utilization, dev->handle, &u);

	/* Percent above 100 were seen of drivers (nvtop issue 110): not a value. */
	gs_nvml_put(dev, GS_GPU_UTIL, r == NVML_OK && u.gpu > 100 ? NVML_UNKNOWN : r,
		    u.gpu / 100.0);
	gs_nvml_put(dev, GS_GPU_MEM_UTIL, r == NVML_OK && u.memory > 100 ? NVML_UNKNOWN : r,
		    u.memory / 100.0);
#define ENGINE(call, field)                                                                        \
	r = NVML_OF(nv, dev, call, dev->handle, &pct, &period_us);                                 \
	gs_nvml_put(dev, field, r == NVML_OK && pct > 100 ? NVML_UNKNOWN : r, pct / 100.0)
	ENGINE(enc_util, GS_GPU_ENC_UTIL);
	ENGINE(dec_util, GS_GPU_DEC_UTIL);
	ENGINE(jpg_util, GS_GPU_JPG_UTIL);
	ENGINE(ofa_util, GS_GPU_OFA_UTIL);
#undef ENGINE
}

static void read_memory(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_memory_v2 m2 = {.version = NVML_VERSION_OF(struct nvml_memory_v2, 2)};
	struct nvml_memory m = {0};
	nvml_return r = NVML_OF(nv, dev, memory_v2, dev->handle, &m2);

	if (r == NVML_OK) {
		gs_nvml_put(dev, GS_GPU_MEM_TOTAL, r, (double)m2.total);
		gs_nvml_put(dev, GS_GPU_MEM_USED, r, (double)m2.used);
		gs_nvml_put(dev, GS_GPU_MEM_RESERVED, r, (double)m2.reserved);
		gs_nvml_put(dev, GS_GPU_MEM_FREE, r, (double)m2.free);
		return;
	}
	/* The old call counts what is reserved as used. */
	r = NVML_OF(nv, dev, memory, dev->handle, &m);
	gs_nvml_put(dev, GS_GPU_MEM_TOTAL, r, (double)m.total);
	gs_nvml_put(dev, GS_GPU_MEM_USED, r, (double)m.used);
	gs_nvml_put(dev, GS_GPU_MEM_FREE, r, (double)m.free);
	gs_nvml_put(dev, GS_GPU_MEM_RESERVED, r == NVML_OK ? NVML_NOT_SUPPORTED : r, 0);
}

static void read_clocks(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	static const struct {
		unsigned id;
		enum gs_gpu_field field;
	} clocks[] = {{NVML_CLOCK_SM, GS_GPU_CLOCK_SM},
		      {NVML_CLOCK_MEM, GS_GPU_CLOCK_MEM},
		      {NVML_CLOCK_GRAPHICS, GS_GPU_CLOCK_GRAPHICS},
		      {NVML_CLOCK_VIDEO, GS_GPU_CLOCK_VIDEO}};
	unsigned long long reasons = 0;
	int pstate = 32; /* NVML_PSTATE_UNKNOWN */
	nvml_return r;

	for (size_t i = 0; i < GS_ARRAY_LEN(clocks); i++) {
		unsigned mhz = 0;

		r = NVML_OF(nv, dev, clock, dev->handle, clocks[i].id, &mhz);
		gs_nvml_put(dev, clocks[i].field, r, mhz * 1e6);
	}
	r = NVML_OF(nv, dev, pstate, dev->handle, &pstate);
	gs_nvml_put(dev, GS_GPU_PSTATE, r == NVML_OK && pstate > 15 ? NVML_NOT_SUPPORTED : r,
		    pstate);
	r = NVML_OF(nv, dev, throttle, dev->handle, &reasons);
	gs_nvml_put(dev, GS_GPU_THROTTLE_REASONS, r, (double)reasons);
}

static void read_heat(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned number = 0;
	unsigned long long mj = 0;
	nvml_return r = NVML_OF(nv, dev, temperature, dev->handle, 0u, &number);

	gs_nvml_put(dev, GS_GPU_TEMP_GPU, r, number);
	/* A GPU without a fan says "not supported", and that is all that it costs. */
	r = NVML_OF(nv, dev, fan, dev->handle, &number);
	gs_nvml_put(dev, GS_GPU_FAN, r, number / 100.0);
	if (!gs_gpu_has(&dev->sample, GS_GPU_POWER)) {
		r = NVML_OF(nv, dev, power, dev->handle, &number);
		gs_nvml_put(dev, GS_GPU_POWER, r, number * 1e-3);
	}
	if (!gs_gpu_has(&dev->sample, GS_GPU_ENERGY)) {
		r = NVML_OF(nv, dev, energy, dev->handle, &mj);
		gs_nvml_put(dev, GS_GPU_ENERGY, r, (double)mj * 1e-3);
	}
	/* 0 means "no sensor" where the memory has none. */
	if (gs_gpu_has(&dev->sample, GS_GPU_TEMP_MEM) && dev->sample.value[GS_GPU_TEMP_MEM] <= 0)
		dev->sample.why[GS_GPU_TEMP_MEM] = GS_GPU_WHY_NOT_SUPPORTED;
}

/* A rate from two readings of a counter. */
static void put_rate(struct gs_nvml_device *dev, enum gs_gpu_field rate, enum gs_gpu_field counter,
		     unsigned slot, uint64_t elapsed_ns)
{
	struct gs_gpu_sample *s = &dev->sample;
	uint64_t now;

	if (!gs_gpu_has(s, counter)) {
		if (!gs_gpu_has(s, rate))
			s->why[rate] = s->why[counter];
		return;
	}
	now = (uint64_t)s->value[counter];
	if (!elapsed_ns)
		s->why[rate] = GS_GPU_WHY_NOT_READ;
	else if (now >= dev->bytes_last[slot]) /* else: reset in between */
		gs_gpu_set(s, rate,
			   (double)(now - dev->bytes_last[slot]) * 1e9 / (double)elapsed_ns);
	dev->bytes_last[slot] = now;
}

/* The time since these two were read last; 0: never, or so short ago that it tells nothing. */
static bool rate_due(struct gs_nvml_device *dev, unsigned which, uint64_t *ret_elapsed_ns)
{
	uint64_t now = dev->sample.time_ns, before = dev->bytes_time_ns[which];

	*ret_elapsed_ns = before ? now - before : 0;
	if (before && *ret_elapsed_ns < 1000000)
		return false;
	dev->bytes_time_ns[which] = now;
	return true;
}

/* Bytes a second, where GPM does not tell them. PCIe and NVLink may be read at other times. */
static void rates(struct gs_nvml_device *dev, unsigned groups)
{
	uint64_t elapsed;

	if (groups & GS_GPU_READ_BASIC && rate_due(dev, 0, &elapsed)) {
		put_rate(dev, GS_GPU_PCIE_TX_BPS, GS_GPU_PCIE_TX, 0, elapsed);
		put_rate(dev, GS_GPU_PCIE_RX_BPS, GS_GPU_PCIE_RX, 1, elapsed);
	}
	if (groups & GS_GPU_READ_LINKS && rate_due(dev, 1, &elapsed)) {
		put_rate(dev, GS_GPU_NVLINK_TX_BPS, GS_GPU_NVLINK_TX, 2, elapsed);
		put_rate(dev, GS_GPU_NVLINK_RX_BPS, GS_GPU_NVLINK_RX, 3, elapsed);
	}
}

void gs_nvml_sample(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned groups,
		    uint64_t now_ns)
{
	struct gs_gpu_sample *s = &dev->sample;
	uint64_t before_ns = s->time_ns;
	/* Slow values wait for a reading that asks for them. */
	bool slow = now_ns >= dev->next_slow_ns &&
		    (groups & GS_GPU_READ_HEALTH || !(nv->options->groups & GS_GPU_READ_HEALTH));

	if (!dev->handle)
		return;
	s->lost = 0;
	if (slow) {
		memset(dev->unsupported, 0, sizeof(dev->unsupported));
		memset(dev->no_field, 0, sizeof(dev->no_field));
		dev->next_slow_ns = now_ns + nv->options->slow_ns;
	}
	/* The first call tells whether the GPU answers. */
	if (groups & GS_GPU_READ_BASIC)
		read_memory(nv, dev);
	if (s->lost)
		return;
	s->time_ns = gs_clock_boot_ns();
	s->elapsed_ns = before_ns ? s->time_ns - before_ns : 0;
	if (groups & GS_GPU_READ_BASIC && !dev->parent) {
		gs_nvml_read_rows(nv, dev, basic_batch, GS_ARRAY_LEN(basic_batch));
		read_utilization(nv, dev);
		read_clocks(nv, dev);
		read_heat(nv, dev);
	}
	if (slow && groups & GS_GPU_READ_HEALTH && !s->lost)
		gs_nvml_sample_slow(nv, dev);
	if (groups & GS_GPU_READ_LINKS && !dev->parent && !s->lost)
		gs_nvml_sample_links(nv, dev, slow);
	if (!dev->parent)
		rates(dev, groups);
	if (groups & GS_GPU_READ_GPM && !s->lost)
		gs_nvml_sample_gpm(nv, dev, now_ns);
	/* What belongs to the GPU as a whole is not there for a part of it. */
	if (dev->parent)
		for (unsigned i = 0; i < GS_GPU_FIELD_COUNT; i++)
			if (s->why[i] == GS_GPU_WHY_NOT_READ &&
			    !(groups & GS_GPU_READ_GPM && i >= GS_GPU_GR_ACTIVE &&
			      i <= GS_GPU_DRAM_ACTIVE))
				s->why[i] = GS_GPU_WHY_NOT_SUPPORTED;
}
