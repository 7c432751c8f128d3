/* What is read from an interpreter: debug offsets, line tables, texts. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replay_main.h"
#include "sources/unwind/python.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	/* A copy of the exact size: reading past the end is seen. */
	uint8_t *copy = malloc(bytes ? bytes : 1);
	struct gs_py_proc p;
	char text[64];

	if (!copy)
		return 0;
	if (bytes)
		memcpy(copy, data, bytes);
	if (gs_python_layout_debug(copy, bytes, &p) == 0) {
		assert(p.state_bytes <= GS_PY_STATE_BYTES && p.frame_bytes <= GS_PY_FRAME_BYTES);
		assert(p.state_thread_id < p.state_bytes && p.state_frame < p.state_bytes);
		assert(p.frame_at < p.frame_bytes && p.frame_code < p.frame_bytes);
	}
	for (uint16_t version = 0x0308; version <= 0x030e; version++)
		for (int64_t at = -2; at < 512; at += 7)
			assert(gs_python_line(version, copy, bytes, 1, at) < 1u << 28);
	for (unsigned width = 0; width <= 5; width++) {
		size_t n = gs_python_text(copy, bytes, width, text, sizeof(text));

		assert(n < sizeof(text) && strlen(text) == n);
	}
	free(copy);
	return 0;
}
