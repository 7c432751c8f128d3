/* The table of AMD's firmware: two bytes say what is asked for, the rest is the file. */
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sources/amdgpu/amdgpu.h"
#include "replay_main.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct gs_gpu_sample s;
	uint8_t *exact;

	if (bytes < 1)
		return 0;
	memset(&s, 0, sizeof(s));
	memset(s.why, GS_GPU_REASON_NOT_SUPPORTED, sizeof(s.why));
	/* Of its own size, so that a read beyond it is seen. */
	exact = malloc(bytes > 1 ? bytes - 1 : 1);
	if (!exact)
		return 0;
	memcpy(exact, data + 1, bytes - 1);
	gs_amdgpu_metrics_fill(exact, bytes - 1, data[0] & 1, data[0] & 2, &s);
	free(exact);
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		if (gs_gpu_has(&s, f))
			assert(isfinite(s.value[f]) && s.value[f] >= 0);
	if (gs_gpu_has(&s, GS_GPU_UTIL))
		assert(s.value[GS_GPU_UTIL] <= 1);
	gs_amdgpu_metrics_forget(true, true, &s);
	for (unsigned f = 0; f < GS_GPU_FIELD_COUNT; f++)
		assert(!gs_gpu_has(&s, f));
	return 0;
}
