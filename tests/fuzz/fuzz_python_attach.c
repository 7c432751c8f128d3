/* Where an interpreter says that a request is put: whatever it says lies within its own structs, and apart from each other. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replay_main.h"
#include "sources/python_attach/python_attach.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* A copy of the exact size: reading past the end is seen. */
	uint8_t *copy = malloc(bytes ? bytes : 1);
	struct gs_python_attach_offsets o;

	if (!copy)
		return 0;
	if (bytes)
		memcpy(copy, data, bytes);
	if (gs_python_attach_read_offsets(copy, bytes, &o) == 0) {
		assert(o.version >= GS_PYTHON_ATTACH_FIRST && o.version <= GS_PYTHON_ATTACH_LAST);
		assert(o.path_bytes >= 64 && o.path_bytes <= 65536);
		assert(o.state_path < 1u << 25 && o.state_pending < 1u << 25);
		assert(o.state_pending + 4 <= o.state_path ||
		       o.state_path + o.path_bytes <= o.state_pending);
		assert(o.state_breaker % 8 == 0 && o.state_pending % 4 == 0);
		assert(o.interp_main % 8 == 0 && o.interp_enabled % 4 == 0);
	}
	free(copy);
	return 0;
}
