/* Why the clocks of a GPU are throttled: bits of GS_GPU_THROTTLE_REASONS, and words. */
#ifndef GS_MODEL_NODE_GPU_THROTTLE_H
#define GS_MODEL_NODE_GPU_THROTTLE_H

#include <stddef.h>
#include <stdint.h>

/* As NVML has them (nvml.h of CUDA 12.4, nvmlClocksEventReason*). Idle,
 * application clocks and display clocks are set on purpose and hold nothing down. */
enum gs_gpu_held_bit {
	GS_GPU_HELD_POWER_CAP = 0x04,
	GS_GPU_HELD_HW_SLOWDOWN = 0x08,
	GS_GPU_HELD_SYNC_BOOST = 0x10,
	GS_GPU_HELD_SW_HEAT = 0x20,
	GS_GPU_HELD_HW_HEAT = 0x40,
	GS_GPU_HELD_POWER_BRAKE = 0x80,
};

#define GS_GPU_THROTTLE_TEXT_BYTES 96

/* "power cap, heat"; "" the clocks are not throttled, or it is not known (mask NAN). The length of the
 * text. vendor: enum gs_gpu_vendor. */
size_t gs_gpu_throttle_words(uint32_t vendor, double mask, char *out, size_t bytes);

#endif
