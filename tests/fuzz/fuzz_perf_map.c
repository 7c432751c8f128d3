/* Names of code made at run time, as its process writes them. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replay_main.h"
#include "sources/unwind/perf_map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_perf_maps *all = gs_perf_maps_new();
	struct gs_perf_map *m = gs_perf_map_new(all);
	char *copy = malloc(bytes ? bytes : 1), name[64];
	uint64_t pc = 0;

	if (!copy || !m)
		abort();
	if (bytes)
		memcpy(copy, data, bytes);
	assert(gs_perf_map_parse(m, copy, bytes) <= bytes);
	for (size_t i = 0; i < bytes; i++) {
		pc = pc << 8 | data[i];
		if (gs_perf_map_name(m, pc, name, sizeof(name)))
			assert(strlen(name) < sizeof(name));
	}
	free(copy);
	assert(gs_perf_maps_bytes(all) <= GS_PERF_MAPS_BYTES);
	gs_perf_map_free(&m);
	gs_perf_maps_free(&all);
	return 0;
}
