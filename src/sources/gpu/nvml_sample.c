/*
 * The values of one GPU that change from moment to moment, part by part (nvml_part.c says when). A
 * field that the GPU does not have is not asked for again before the slow values are due.
 *
 * Bytes over PCIe come from counters, or from GPM. nvmlDeviceGetPcieThroughput measures for 20 ms
 * in each direction while its caller waits (nvml.h says so): it is called only for a GPU that has
 * neither, seldom, and for one GPU in a turn.
 */
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/gpu/gpu_int.h"

/* Two calls of 20 ms each: 0.4 % of the time in which others of this GPU could be read. */
#define PCIE_EVERY_NS 10000000000ull

static const struct gs_nvml_row power_rows[] = {
	{NVML_FI_POWER_AVERAGE, GS_GPU_POWER, 1e-3, false},
	{NVML_FI_POWER_INSTANT, GS_GPU_POWER_INSTANT, 1e-3, false},
};
static const struct gs_nvml_row energy_rows[] = {
	{NVML_FI_ENERGY, GS_GPU_ENERGY, 1e-3, false},
};
static const struct gs_nvml_row memory_temperature_rows[] = {
	{NVML_FI_MEMORY_TEMP, GS_GPU_TEMP_MEM, 1, false},
};
static const struct gs_nvml_row pcie_rows[] = {
	{NVML_FI_PCIE_TX_BYTES, GS_GPU_PCIE_TX, 1, false},
	{NVML_FI_PCIE_RX_BYTES, GS_GPU_PCIE_RX, 1, false},
};
static const struct gs_nvml_row throttle_rows[] = {
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

double gs_nvml_number(const struct nvml_field *f)
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

/* All bits set: the driver does not know (nvml.h: NVML_VALUE_NOT_AVAILABLE). */
static bool is_blank(const struct nvml_field *f)
{
	switch (f->type) {
	case NVML_UINT:
		return f->value.ui == UINT32_MAX;
	case NVML_ULONG:
	case NVML_ULLONG:
		return f->value.ull == UINT64_MAX;
	case NVML_INT:
		return f->value.si == -1;
	case NVML_LLONG:
		return f->value.sll == -1;
	case NVML_USHORT:
		return f->value.us == UINT16_MAX;
	default:
		return false;
	}
}

/* Counters of bytes over PCIe may be 32 bits wide and start again at 0 (nvml.h: "value can wrap"):
 * carried on as 64 bits. One of 64 bits is as it is. */
static double unwrap_counter(struct gs_nvml_device *dev, unsigned i, const struct nvml_field *f)
{
	uint64_t now;

	if (f->type != NVML_UINT && f->type != NVML_INT)
		return gs_nvml_number(f);
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
			dev->sample.why[rows[i].field] = GS_GPU_REASON_NOT_SUPPORTED;
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
		if (each == NVML_OK && is_blank(&f[i]))
			each = NVML_NO_DATA;
		if (row->rest && (each != NVML_OK || gs_gpu_has(&dev->sample, row->field)))
			continue;
		if (each == NVML_OK &&
		    (row->id == NVML_FI_PCIE_TX_BYTES || row->id == NVML_FI_PCIE_RX_BYTES))
			v = unwrap_counter(dev, row->id == NVML_FI_PCIE_RX_BYTES, &f[i]);
		else
			v = each == NVML_OK ? gs_nvml_scaled(gs_nvml_number(&f[i]), row->scale) : 0;
		gs_nvml_put(dev, row->field, each, v);
	}
}

/* Percent above 100 were seen of drivers (nvtop issue 110): gs_gpu_set_checked() refuses them. */
static void put_percent(struct gs_nvml_device *dev, enum gs_gpu_field field, nvml_return r,
			unsigned pct)
{
	gs_nvml_put(dev, field, r, pct / 100.0);
}

/* No part of the memory is larger than all of it. */
static void check_memory(struct gs_gpu_sample *s)
{
	static const enum gs_gpu_field parts[] = {GS_GPU_MEM_USED, GS_GPU_MEM_RESERVED,
						  GS_GPU_MEM_FREE};

	for (size_t i = 0; i < GS_ARRAY_LEN(parts); i++)
		if (gs_gpu_has(s, GS_GPU_MEM_TOTAL) && gs_gpu_has(s, parts[i]) &&
		    s->value[parts[i]] > s->value[GS_GPU_MEM_TOTAL])
			s->why[parts[i]] = GS_GPU_REASON_IMPLAUSIBLE;
}

void gs_nvml_read_utilization(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_utilization u = {0};
	nvml_return r = NVML_OF(nv, dev, utilization, dev->handle, &u);

	if (!dev->util_from_gpm)
		put_percent(dev, GS_GPU_UTIL, r, u.gpu);
	put_percent(dev, GS_GPU_MEM_UTIL, r, u.memory);
}

void gs_nvml_read_engines(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned pct = 0, period_us;
	nvml_return r = NVML_OF(nv, dev, enc_util, dev->handle, &pct, &period_us);

	put_percent(dev, GS_GPU_ENC_UTIL, r, pct);
	r = NVML_OF(nv, dev, dec_util, dev->handle, &pct, &period_us);
	put_percent(dev, GS_GPU_DEC_UTIL, r, pct);
	r = NVML_OF(nv, dev, jpg_util, dev->handle, &pct, &period_us);
	put_percent(dev, GS_GPU_JPG_UTIL, r, pct);
	r = NVML_OF(nv, dev, ofa_util, dev->handle, &pct, &period_us);
	put_percent(dev, GS_GPU_OFA_UTIL, r, pct);
}

void gs_nvml_read_memory(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	struct nvml_memory_v2 m2 = {.version = NVML_VERSION_OF(struct nvml_memory_v2, 2)};
	struct nvml_memory m = {0};
	nvml_return r = NVML_OF(nv, dev, memory_v2, dev->handle, &m2);

	if (r == NVML_OK) {
		gs_nvml_put(dev, GS_GPU_MEM_TOTAL, r, (double)m2.total);
		gs_nvml_put(dev, GS_GPU_MEM_USED, r, (double)m2.used);
		gs_nvml_put(dev, GS_GPU_MEM_RESERVED, r, (double)m2.reserved);
		gs_nvml_put(dev, GS_GPU_MEM_FREE, r, (double)m2.free);
		check_memory(&dev->sample);
		return;
	}
	/* The old call counts what is reserved as used. */
	r = NVML_OF(nv, dev, memory, dev->handle, &m);
	gs_nvml_put(dev, GS_GPU_MEM_TOTAL, r, (double)m.total);
	gs_nvml_put(dev, GS_GPU_MEM_USED, r, (double)m.used);
	gs_nvml_put(dev, GS_GPU_MEM_FREE, r, (double)m.free);
	gs_nvml_put(dev, GS_GPU_MEM_RESERVED, r == NVML_OK ? NVML_NOT_SUPPORTED : r, 0);
	check_memory(&dev->sample);
}

static void read_clock(struct gs_nvml *nv, struct gs_nvml_device *dev, unsigned domain,
		       enum gs_gpu_field field)
{
	unsigned mhz = 0;
	nvml_return r = NVML_OF(nv, dev, clock, dev->handle, domain, &mhz);

	gs_nvml_put(dev, field, r, mhz * 1e6);
}

void gs_nvml_read_clocks(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	read_clock(nv, dev, NVML_CLOCK_SM, GS_GPU_CLOCK_SM);
	read_clock(nv, dev, NVML_CLOCK_MEM, GS_GPU_CLOCK_MEM);
}

void gs_nvml_read_clocks_more(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	read_clock(nv, dev, NVML_CLOCK_GRAPHICS, GS_GPU_CLOCK_GRAPHICS);
	read_clock(nv, dev, NVML_CLOCK_VIDEO, GS_GPU_CLOCK_VIDEO);
}

void gs_nvml_read_state(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned long long reasons = 0;
	int pstate = 32; /* NVML_PSTATE_UNKNOWN */
	nvml_return r = NVML_OF(nv, dev, pstate, dev->handle, &pstate);

	gs_nvml_put(dev, GS_GPU_PSTATE, r == NVML_OK && pstate > 15 ? NVML_NOT_SUPPORTED : r,
		    pstate);
	r = NVML_OF(nv, dev, throttle, dev->handle, &reasons);
	gs_nvml_put(dev, GS_GPU_THROTTLE_REASONS, r, (double)reasons);
}

void gs_nvml_read_temperature(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned celsius = 0;
	nvml_return r = NVML_OF(nv, dev, temperature, dev->handle, 0u, &celsius);

	gs_nvml_put(dev, GS_GPU_TEMP_GPU, r, celsius);
}

void gs_nvml_read_memory_temperature(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	gs_nvml_read_rows(nv, dev, memory_temperature_rows, GS_ARRAY_LEN(memory_temperature_rows));
	/* 0 means "no sensor" where the memory has none. */
	if (gs_gpu_has(&dev->sample, GS_GPU_TEMP_MEM) && dev->sample.value[GS_GPU_TEMP_MEM] <= 0)
		dev->sample.why[GS_GPU_TEMP_MEM] = GS_GPU_REASON_NOT_SUPPORTED;
}

void gs_nvml_read_fan(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned percent = 0;
	nvml_return r = NVML_OF(nv, dev, fan, dev->handle, &percent);

	gs_nvml_put(dev, GS_GPU_FAN, r, percent / 100.0);
}

void gs_nvml_read_power_call(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned mw = 0;
	nvml_return r = NVML_OF(nv, dev, power, dev->handle, &mw);

	gs_nvml_put(dev, GS_GPU_POWER, r, gs_nvml_scaled(mw, 1e-3));
}

void gs_nvml_read_power(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	gs_nvml_read_rows(nv, dev, power_rows, GS_ARRAY_LEN(power_rows));
	if (!gs_gpu_has(&dev->sample, GS_GPU_POWER))
		gs_nvml_read_power_call(nv, dev);
}

void gs_nvml_read_energy_call(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	unsigned long long mj = 0;
	nvml_return r = NVML_OF(nv, dev, energy, dev->handle, &mj);

	gs_nvml_put(dev, GS_GPU_ENERGY, r, gs_nvml_scaled((double)mj, 1e-3));
}

void gs_nvml_read_energy(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	gs_nvml_read_rows(nv, dev, energy_rows, GS_ARRAY_LEN(energy_rows));
	if (!gs_gpu_has(&dev->sample, GS_GPU_ENERGY))
		gs_nvml_read_energy_call(nv, dev);
}

void gs_nvml_read_throttle(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	gs_nvml_read_rows(nv, dev, throttle_rows, GS_ARRAY_LEN(throttle_rows));
}

/* Whether the rates of PCIe can be had in no cheaper way, and their time has come. */
static bool pcie_due(const struct gs_nvml *nv, const struct gs_nvml_device *dev, uint64_t now_ns)
{
	bool gpm_asked = nv->options->groups & GS_GPU_READ_GPM &&
			 !(nv->options->leave_out >> GS_GPU_PART_GPM & 1);

	if (dev->parent || nv->options->leave_out >> GS_GPU_PART_PCIE_RATE & 1 ||
	    dev->sample.why[GS_GPU_PCIE_TX] != GS_GPU_REASON_NOT_SUPPORTED ||
	    dev->sample.why[GS_GPU_PCIE_RX] != GS_GPU_REASON_NOT_SUPPORTED)
		return false;
	/* GPM is read after this: in the first turn it is not known yet whether there is one. */
	if (gpm_asked && dev->gpm_state != 2)
		return false;
	if (!dev->pcie_measured_ns)
		return true;
	return !nv->pcie_measured && now_ns - dev->pcie_measured_ns >= PCIE_EVERY_NS;
}

static void measure_pcie(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	static const struct {
		unsigned counter;
		enum gs_gpu_field field;
	} rates[] = {{NVML_PCIE_TX, GS_GPU_PCIE_TX_BPS}, {NVML_PCIE_RX, GS_GPU_PCIE_RX_BPS}};
	uint64_t now_ns = gs_clock_mono_ns();
	struct gs_nvml_meter meter;

	if (!pcie_due(nv, dev, now_ns))
		return;
	nv->pcie_measured |= dev->pcie_measured_ns != 0;
	dev->pcie_measured_ns = now_ns;
	dev->sample.pcie_measured = 0;
	gs_nvml_part_begin(&meter);
	for (size_t i = 0; i < GS_ARRAY_LEN(rates); i++) {
		unsigned kib = 0; /* a second */
		nvml_return r =
			NVML_OF(nv, dev, pcie_throughput, dev->handle, rates[i].counter, &kib);

		if (r == NVML_OK && kib == UINT32_MAX)
			r = NVML_NO_DATA;
		gs_nvml_put(dev, rates[i].field, r, kib * 1024.0);
		dev->sample.pcie_measured |= r == NVML_OK;
	}
	gs_nvml_part_end(nv, dev, GS_GPU_PART_PCIE_RATE, 0, &meter);
}

void gs_nvml_read_pcie(struct gs_nvml *nv, struct gs_nvml_device *dev)
{
	uint64_t now_ns;

	gs_nvml_read_rows(nv, dev, pcie_rows, GS_ARRAY_LEN(pcie_rows));
	now_ns = gs_clock_boot_ns();
	gs_nvml_put_rate(dev, GS_GPU_PCIE_TX_BPS, GS_GPU_PCIE_TX, 0, now_ns);
	gs_nvml_put_rate(dev, GS_GPU_PCIE_RX_BPS, GS_GPU_PCIE_RX, 1, now_ns);
	measure_pcie(nv, dev);
}

void gs_nvml_put_rate(struct gs_nvml_device *dev, enum gs_gpu_field rate, enum gs_gpu_field counter,
		      unsigned slot, uint64_t now_ns)
{
	struct gs_gpu_sample *s = &dev->sample;
	uint64_t before_ns = dev->bytes_time_ns[slot], now;
	/* GPM has the rate of the last moment, this one that since the counter was read. */
	bool keep = dev->rate_from_gpm >> slot & 1;

	if (!gs_gpu_has(s, counter)) {
		if (!gs_gpu_has(s, rate))
			s->why[rate] = s->why[counter];
		return;
	}
	/* So short ago that it means nothing. */
	if (before_ns && now_ns - before_ns < 1000000)
		return;
	now = (uint64_t)s->value[counter];
	if (!before_ns)
		s->why[rate] = keep ? s->why[rate] : GS_GPU_REASON_NOT_READ;
	else if (now >= dev->bytes_last[slot] && !keep) { /* else: reset in between */
		gs_gpu_set_checked(s, rate,
				   (double)(now - dev->bytes_last[slot]) * 1e9 /
					   (double)(now_ns - before_ns));
		s->part_ns[gs_gpu_part_of(rate)] = now_ns;
	}
	dev->bytes_last[slot] = now;
	dev->bytes_time_ns[slot] = now_ns;
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
		/* What is not supported costs as much as an answer: asked again ten times less
		 * often. */
		dev->next_slow_ns =
			now_ns + nv->options->slow_ns * (nv->options->budget > 0 ? 10 : 1);
	}
	s->time_ns = gs_clock_boot_ns();
	s->elapsed_ns = before_ns ? s->time_ns - before_ns : 0;
	gs_nvml_parts_read(nv, dev, groups, slow, now_ns);
	if (s->lost)
		return;
	/* A MIG instance has no values of the whole GPU. */
	if (dev->parent)
		for (unsigned i = 0; i < GS_GPU_FIELD_COUNT; i++)
			if (s->why[i] == GS_GPU_REASON_NOT_READ &&
			    !(groups & GS_GPU_READ_GPM && i >= GS_GPU_GR_ACTIVE &&
			      i <= GS_GPU_DRAM_ACTIVE))
				s->why[i] = GS_GPU_REASON_NOT_SUPPORTED;
}
