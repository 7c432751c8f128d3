/*
 * gpu_metrics: a table that the GPU's firmware fills, as a file of bytes. Its layouts are those of
 * the kernel's drivers/gpu/drm/amd/include/kgd_pp_interface.h, struct gpu_metrics_v1_0 to v1_8,
 * v2_0 to v2_4 and v3_0, naturally aligned; numbers of all ones are not there. Offsets are written
 * down here because the layouts differ by members in the middle.
 *
 * What is left out, and why: energy below 1.4 (a Navi 10 was seen to report 6.3e18); temperature,
 * power and activity of 2.0 to 2.3 (their unit depends on chip and firmware); bandwidths (no unit
 * that holds for all). 1.9, a list of attributes, is not read.
 */
#include <string.h>

#include "sources/amdgpu/amdgpu.h"
#include "core/base/mem.h"

enum how {
	PLAIN,
	LARGEST,   /* of several members of two bytes */
	SPEED,     /* of a PCIe lane in 0.1 GT/s, to the generation */
	THROTTLES, /* the bits that do not depend on the chip */
};

struct value {
	uint16_t offset;
	uint8_t bytes, n; /* of one member; members, 0 is 1 */
	uint16_t field;   /* enum gs_gpu_field */
	double scale;     /* to base units */
	enum how how;
};

#define PERCENT 0.01
#define MHZ     1e6

static const struct value v1_0[] = {
	{16, 2, 0, GS_GPU_TEMP_GPU, 1, PLAIN},       {20, 2, 0, GS_GPU_TEMP_MEM, 1, PLAIN},
	{28, 2, 0, GS_GPU_UTIL, PERCENT, PLAIN},     {30, 2, 0, GS_GPU_MEM_UTIL, PERCENT, PLAIN},
	{32, 2, 0, GS_GPU_DEC_UTIL, PERCENT, PLAIN}, {34, 2, 0, GS_GPU_POWER, 1, PLAIN},
	{54, 2, 0, GS_GPU_CLOCK_SM, MHZ, PLAIN},     {58, 2, 0, GS_GPU_CLOCK_MEM, MHZ, PLAIN},
	{60, 2, 0, GS_GPU_CLOCK_VIDEO, MHZ, PLAIN},  {74, 1, 0, GS_GPU_PCIE_WIDTH, 1, PLAIN},
	{75, 1, 0, GS_GPU_PCIE_GEN, 1, SPEED},
};
/* The last is of 1.3 alone. */
static const struct value v1_1[] = {
	{4, 2, 0, GS_GPU_TEMP_GPU, 1, PLAIN},
	{8, 2, 0, GS_GPU_TEMP_MEM, 1, PLAIN},
	{16, 2, 0, GS_GPU_UTIL, PERCENT, PLAIN},
	{18, 2, 0, GS_GPU_MEM_UTIL, PERCENT, PLAIN},
	{20, 2, 0, GS_GPU_DEC_UTIL, PERCENT, PLAIN},
	{22, 2, 0, GS_GPU_POWER, 1, PLAIN},
	{54, 2, 0, GS_GPU_CLOCK_SM, MHZ, PLAIN},
	{58, 2, 0, GS_GPU_CLOCK_MEM, MHZ, PLAIN},
	{60, 2, 0, GS_GPU_CLOCK_VIDEO, MHZ, PLAIN},
	{74, 2, 0, GS_GPU_PCIE_WIDTH, 1, PLAIN},
	{76, 2, 0, GS_GPU_PCIE_GEN, 1, SPEED},
	{112, 8, 0, GS_GPU_THROTTLE_REASONS, 1, THROTTLES},
};

/* 1.4 and newer are of one shape, in which blocks move: by the offsets of the first members of the
 * energy, the link, the replays and the clocks. */
#define INSTINCT(energy, link, replays, clocks)                                                    \
	{4, 2, 0, GS_GPU_TEMP_GPU, 1, PLAIN}, {6, 2, 0, GS_GPU_TEMP_MEM, 1, PLAIN},                \
		{10, 2, 0, GS_GPU_POWER, 1, PLAIN}, {12, 2, 0, GS_GPU_UTIL, PERCENT, PLAIN},       \
		{14, 2, 0, GS_GPU_MEM_UTIL, PERCENT, PLAIN},                                       \
		{energy, 8, 0, GS_GPU_ENERGY, 1.0 / 65536, PLAIN},                                 \
		{link, 2, 0, GS_GPU_PCIE_WIDTH, 1, PLAIN},                                         \
		{(link) + 2, 2, 0, GS_GPU_PCIE_GEN, 1, SPEED},                                     \
		{replays, 8, 0, GS_GPU_PCIE_REPLAYS, 1, PLAIN},                                    \
		{clocks, 2, 8, GS_GPU_CLOCK_SM, MHZ, LARGEST},                                     \
		{(clocks) + 24, 2, 4, GS_GPU_CLOCK_VIDEO, MHZ, LARGEST},                           \
	{                                                                                          \
		(clocks) + 40, 2, 0, GS_GPU_CLOCK_MEM, MHZ, PLAIN                                  \
	}

static const struct value v1_4[] = {INSTINCT(24, 48, 88, 240),
				    {16, 2, 4, GS_GPU_DEC_UTIL, PERCENT, LARGEST}};
static const struct value v1_5[] = {INSTINCT(88, 112, 152, 312),
				    {16, 2, 4, GS_GPU_DEC_UTIL, PERCENT, LARGEST},
				    {24, 2, 32, GS_GPU_JPG_UTIL, PERCENT, LARGEST}};
static const struct value v1_6[] = {INSTINCT(16, 60, 104, 264)};
static const struct value v1_7[] = {INSTINCT(24, 68, 112, 296)};

static const struct value v2_0[] = {
	{80, 2, 0, GS_GPU_CLOCK_SM, MHZ, PLAIN},
	{84, 2, 0, GS_GPU_CLOCK_MEM, MHZ, PLAIN},
	{88, 2, 0, GS_GPU_CLOCK_VIDEO, MHZ, PLAIN},
};
/* The fourth is of 2.2 on, the rest of 2.4 alone, whose units are documented: 0.01 degrees and per cent,
 * mW. */
static const struct value v2_1[] = {
	{76, 2, 0, GS_GPU_CLOCK_SM, MHZ, PLAIN},
	{80, 2, 0, GS_GPU_CLOCK_MEM, MHZ, PLAIN},
	{84, 2, 0, GS_GPU_CLOCK_VIDEO, MHZ, PLAIN},
	{120, 8, 0, GS_GPU_THROTTLE_REASONS, 1, THROTTLES},
	{4, 2, 0, GS_GPU_TEMP_GPU, 0.01, PLAIN},
	{28, 2, 0, GS_GPU_UTIL, 1e-4, PLAIN},
	{30, 2, 0, GS_GPU_DEC_UTIL, 1e-4, PLAIN},
	{40, 2, 0, GS_GPU_POWER, 1e-3, PLAIN},
};
static const struct value v3_0[] = {
	{42, 2, 0, GS_GPU_UTIL, PERCENT, PLAIN},     {44, 2, 0, GS_GPU_DEC_UTIL, PERCENT, PLAIN},
	{112, 4, 0, GS_GPU_POWER, 1e-3, PLAIN},      {174, 2, 0, GS_GPU_CLOCK_SM, MHZ, PLAIN},
	{184, 2, 0, GS_GPU_CLOCK_VIDEO, MHZ, PLAIN}, {186, 2, 0, GS_GPU_CLOCK_MEM, MHZ, PLAIN},
};

#define ALL(values) values, GS_ARRAY_LEN(values)

static const struct layout {
	uint8_t format, content;
	const struct value *values;
	size_t n;
} layouts[] = {
	{1, 0, ALL(v1_0)}, {1, 1, v1_1, 11},  {1, 2, v1_1, 11},  {1, 3, ALL(v1_1)},
	{1, 4, ALL(v1_4)}, {1, 5, ALL(v1_5)}, {1, 6, ALL(v1_6)}, {1, 7, ALL(v1_7)},
	{1, 8, ALL(v1_7)}, {2, 0, ALL(v2_0)}, {2, 1, v2_1, 3},   {2, 2, v2_1, 4},
	{2, 3, v2_1, 4},   {2, 4, ALL(v2_1)}, {3, 0, ALL(v3_0)},
};

/* Slow values: read with health. */
static bool is_health(uint16_t field)
{
	return field == GS_GPU_PCIE_WIDTH || field == GS_GPU_PCIE_GEN ||
	       field == GS_GPU_PCIE_REPLAYS;
}

static uint64_t number_at(const uint8_t *at, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes; i++) /* little-endian, as x86-64 is */
		v |= (uint64_t)at[i] << (8 * i);
	return v;
}

static bool is_known(uint64_t v, unsigned bytes)
{
	return v != (bytes == 8 ? UINT64_MAX : (1ull << (8 * bytes)) - 1);
}

/* Bits 0-15 power, 16-31 current, 32-47 temperature, 46 and 47 a signal from outside (the kernel's
 * drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h, SMU_THROTTLER_*), to NVML's reasons. */
static double reasons_of(uint64_t v)
{
	unsigned reasons = 0;

	if (v & 0xffffull)
		reasons |= 0x4; /* SW power cap */
	if (v & 0xffff0000ull)
		reasons |= 0x8; /* hardware slowdown */
	if (v & 0x3fffull << 32)
		reasons |= 0x20; /* thermal */
	if (v & 0x3ull << 46)
		reasons |= 0x80; /* power brake: another device asks for it */
	return reasons;
}

/* "16.0 GT/s" is generation 4; 0: none. */
static double generation_of(uint64_t tenths)
{
	static const unsigned speeds[] = {25, 50, 80, 160, 320, 640};

	for (size_t i = 0; i < GS_ARRAY_LEN(speeds); i++)
		if (tenths == speeds[i])
			return (double)(i + 1);
	return 0;
}

static void put_value(const struct value *v, const uint8_t *table, struct gs_gpu_sample *s)
{
	unsigned n = v->n ? v->n : 1;
	uint64_t number = 0;
	bool known = false;
	double value;

	for (unsigned i = 0; i < n; i++) {
		uint64_t one = number_at(table + v->offset + i * v->bytes, v->bytes);

		if (!is_known(one, v->bytes))
			continue;
		known = true;
		if (one > number)
			number = one;
	}
	if (!known)
		return;
	value = v->how == THROTTLES ? reasons_of(number)
		: v->how == SPEED   ? generation_of(number)
				    : (double)number * v->scale;
	switch (v->field) {
	case GS_GPU_UTIL:
	case GS_GPU_MEM_UTIL:
	case GS_GPU_DEC_UTIL:
	case GS_GPU_JPG_UTIL:
		if (value > 1) /* no share */
			return;
		break;
	case GS_GPU_TEMP_GPU:
	case GS_GPU_TEMP_MEM:
	case GS_GPU_PCIE_GEN:
	case GS_GPU_PCIE_WIDTH:
	case GS_GPU_ENERGY:
		if (value <= 0) /* a sensor or a link that is not there */
			return;
		break;
	default:
		break;
	}
	gs_gpu_set_checked(s, v->field, value);
}

bool gs_amdgpu_metrics_fill(const uint8_t *table, size_t bytes, bool basic, bool health,
			    struct gs_gpu_sample *s)
{
	const struct layout *layout = NULL;
	size_t size;

	if (bytes < 4)
		return false;
	for (size_t i = 0; i < GS_ARRAY_LEN(layouts) && !layout; i++)
		if (layouts[i].format == table[2] && layouts[i].content == table[3])
			layout = &layouts[i];
	size = (size_t)number_at(table, 2);
	if (!layout || size > bytes)
		return false;
	for (size_t i = 0; i < layout->n; i++) {
		const struct value *v = &layout->values[i];

		if (v->offset + (v->n ? v->n : 1) * (size_t)v->bytes > size)
			return false;
	}
	for (size_t i = 0; i < layout->n; i++) {
		const struct value *v = &layout->values[i];

		if ((is_health(v->field) ? health : basic) && !gs_gpu_has(s, v->field))
			put_value(v, table, s);
	}
	return true;
}

void gs_amdgpu_metrics_forget(bool basic, bool health, struct gs_gpu_sample *s)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(layouts); i++)
		for (size_t j = 0; j < layouts[i].n; j++) {
			uint16_t field = layouts[i].values[j].field;

			if (is_health(field) ? health : basic)
				s->why[field] = GS_GPU_REASON_NOT_SUPPORTED;
		}
}
