/* Why the clocks of a GPU are throttled, in words. */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "model/node/gpu.h"
#include "model/node/gpu_throttle.h"

static const struct {
	uint32_t bit;
	const char *text;
} reasons[] = {
	{GS_GPU_HELD_POWER_CAP, "power cap"},
	{GS_GPU_HELD_HW_HEAT, "heat (hardware)"},
	{GS_GPU_HELD_SW_HEAT, "heat"},
	{GS_GPU_HELD_POWER_BRAKE, "power brake"},
	{GS_GPU_HELD_HW_SLOWDOWN, "hardware slowdown"},
	{GS_GPU_HELD_SYNC_BOOST, "sync boost"},
};

static uint32_t bits_of(double mask)
{
	uint32_t bits = mask > 0 && mask < 4294967296.0 ? (uint32_t)mask : 0;

	/* Set with either of both, too. */
	if (bits & (GS_GPU_HELD_HW_HEAT | GS_GPU_HELD_POWER_BRAKE))
		bits &= ~(uint32_t)GS_GPU_HELD_HW_SLOWDOWN;
	return bits;
}

size_t gs_gpu_throttle_words(uint32_t vendor, double mask, char *out, size_t bytes)
{
	size_t n = 0;

	out[0] = '\0';
	/* Other vendors' bits mean other things; what is not known is no number. */
	if (vendor != GS_GPU_VENDOR_NVIDIA) {
		if (mask > 0)
			n = (size_t)snprintf(out, bytes, "throttled");
		return n;
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(reasons); i++)
		if (bits_of(mask) & reasons[i].bit && n < bytes)
			n += (size_t)snprintf(out + n, bytes - n, "%s%s", n ? ", " : "",
					      reasons[i].text);
	return n;
}
