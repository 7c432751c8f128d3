/* What tests of AMD's GPUs share: tables of the firmware, built member by member. */
#ifndef AMD_TEST_H
#define AMD_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sources/amdgpu/amdgpu.h"

/* Members in the order of the kernel's kgd_pp_interface.h behind the header of four bytes: a letter
 * for the width (b 1, h 2, w 4, q 8 bytes), a name, and of how many. Aligned as C does. */
#define EARLY                                                                                      \
	"h.edge h.hotspot h.mem h.vr*3 h.gfx h.umc h.mm h.power q.energy q.time h.average*7 "      \
	"h.gfxclk h.socclk h.uclk h.vclk0 h.clocks*3 w.throttle h.fan h.width h.speed h.pad "      \
	"w.acc*2 h.hbm*4 "
#define V1_0                                                                                       \
	"q.time h.edge h.hotspot h.mem h.vr*3 h.gfx h.umc h.mm h.power w.energy h.average*7 "      \
	"h.gfxclk h.socclk h.uclk h.vclk0 h.clocks*3 w.throttle h.fan b.width b.speed "
#define V1_1    EARLY
#define V1_2    EARLY "q.firmware "
#define V1_3    V1_2 "h.voltage*3 h.pad1 q.indep "
#define TRAFFIC "h.width h.speed h.xgmi*2 w.acc*2 q.pcie_acc q.pcie_inst q.l0 q.replays q.rover "
#define CLOCKS  "q.firmware h.gfxclk*8 h.socclk*4 h.vclk0*4 h.dclk0*4 h.uclk h.partitions "
#define HEAD    "h.hotspot h.mem h.vrsoc h.power h.gfx h.umc "
#define V1_4    HEAD "h.vcn*4 q.energy q.time w.throttle w.lock " TRAFFIC "q.xgmi_data*16 " CLOCKS
#define V1_5                                                                                       \
	HEAD "h.vcn*4 h.jpeg*32 q.energy q.time w.throttle w.lock " TRAFFIC                        \
	     "w.nak*2 q.xgmi_data*16 " CLOCKS
#define RESIDENCY "w.counter w.residency*5 w.lock "
#define V1_6      HEAD "q.energy q.time " RESIDENCY TRAFFIC "w.nak*2 q.xgmi_data*16 " CLOCKS
#define V1_7                                                                                       \
	HEAD "q.bandwidth q.energy q.time " RESIDENCY TRAFFIC                                      \
	     "w.nak*2 q.xgmi_data*16 h.xgmi_status*8 h.pad " CLOCKS
#define APU                                                                                        \
	"h.average*6 h.gfxclk h.socclk h.uclk h.fclk h.vclk0 h.dclk0 h.cores*10 w.throttle h.fan "
#define V2_0 "q.time h.gfxtemp h.soctemp h.temps*10 h.gfx h.mm h.power h.powers*11 " APU "h.pad "
#define V2_1 "h.gfxtemp h.soctemp h.temps*10 h.gfx h.mm q.time h.power h.powers*11 " APU "h.pad*3 "
#define V2_2 V2_1 "q.indep "
#define V2_4 V2_2 "h.averages*12 h.volts*6 "
#define V3_0                                                                                       \
	"h.gfxtemp h.soctemp h.temps*16 h.skin h.gfx h.vcn h.ipu*8 h.c0*16 h.dram*2 h.ipu_rw*2 "   \
	"q.time w.power h.ipu_power w.apu w.gfx_power w.dgpu w.all_core h.core_power*16 h.sys "    \
	"h.stapm*2 h.gfxclk h.socclk h.vpe h.ipuclk h.fclk h.vclk0 h.uclk h.mpipu h.coreclk*16 "   \
	"h.max*2 w.residency*7 w.alpha "

struct member {
	const char *name;
	uint64_t value; /* into all of its elements; members that are not named are all ones */
};

/* The bytes of a table; returns how many. */
static inline size_t build(uint8_t *out, uint8_t format, uint8_t content, const char *layout,
			   const struct member *members)
{
	size_t at = 4, align = 4;

	memset(out, 0xff, GS_AMDGPU_METRICS_MAX);
	while (*layout) {
		char width, name[32];
		unsigned n = 1, bytes;
		int used = 0;

		if (sscanf(layout, "%c.%31[a-z0-9_]*%u %n", &width, name, &n, &used) != 3 || !used)
			assert_int_equal(sscanf(layout, "%c.%31[a-z0-9_] %n", &width, name, &used),
					 2);
		layout += used;
		bytes = width == 'b' ? 1 : width == 'h' ? 2 : width == 'w' ? 4 : 8;
		align = bytes > align ? bytes : align;
		at = (at + bytes - 1) / bytes * bytes;
		for (unsigned i = 0; i < n; i++, at += bytes)
			for (const struct member *m = members; m->name; m++)
				if (strcmp(m->name, name) == 0)
					memcpy(out + at, &m->value, bytes);
	}
	at = (at + align - 1) / align * align;
	out[0] = (uint8_t)at;
	out[1] = (uint8_t)(at >> 8);
	out[2] = format;
	out[3] = content;
	return at;
}

static inline void nothing_known(struct gs_gpu_sample *s)
{
	memset(s, 0, sizeof(*s));
	memset(s->why, GS_GPU_REASON_NOT_SUPPORTED, sizeof(s->why));
}

#define assert_value(s, field, wanted)                                                             \
	do {                                                                                       \
		assert_int_equal((s)->why[GS_GPU_##field], GS_GPU_REASON_OK);                      \
		assert_float_equal((s)->value[GS_GPU_##field], wanted,                             \
				   1e-6 * ((wanted) > 1 ? (wanted) : 1));                          \
	} while (0)
#define assert_missing(s, field)                                                                   \
	assert_int_equal((s)->why[GS_GPU_##field], GS_GPU_REASON_NOT_SUPPORTED)

#endif
