/*
 * _Py_DebugOffsets, at the begin of _PyRuntime: words of 64 bits, in groups that differ by version. Facts of
 * Include/internal/pycore_debug_offsets.h of the released versions.
 */
#include <errno.h>
#include <string.h>

#include "core/base/mem.h"
#include "sources/python_attach/python_attach.h"

enum word {
	W_RUNTIME_BYTES,
	W_RUNTIME_INTERP,
	W_INTERP_BYTES,
	W_INTERP_ID,
	W_INTERP_NEXT,
	W_INTERP_MAIN,
	W_STATE_BYTES,
	W_STATE_INTERP,
	W_BREAKER, /* the first of six that follow each other */
	W_SUPPORT,
	W_ENABLED,
	W_PENDING,
	W_PATH,
	W_PATH_BYTES,
	N_WORDS
};

static const struct {
	uint16_t version;
	uint8_t at[N_WORDS]; /* number of the word */
} layouts[] = {
	{0x030e, {3, 5, 6, 7, 8, 10, 22, 25, 89, 90, 91, 92, 93, 94}},
	{0x030f, {3, 5, 6, 7, 8, 10, 22, 25, 105, 106, 107, 108, 109, 110}},
};

/* A member of so many bytes within a struct of so many. */
static bool is_inside(uint64_t at, uint64_t bytes, uint64_t of)
{
	return at < of && bytes <= of - at && at % (bytes < 8 ? bytes : 8) == 0;
}

static bool is_plausible(const uint64_t v[N_WORDS])
{
	const uint64_t most = 1u << 24; /* bytes of any of these structs */

	for (unsigned i = 0; i < N_WORDS; i++)
		if (v[i] > most)
			return false;
	return is_inside(v[W_RUNTIME_INTERP], 8, v[W_RUNTIME_BYTES]) &&
	       is_inside(v[W_INTERP_ID], 8, v[W_INTERP_BYTES]) &&
	       is_inside(v[W_INTERP_NEXT], 8, v[W_INTERP_BYTES]) &&
	       is_inside(v[W_INTERP_MAIN], 8, v[W_INTERP_BYTES]) &&
	       is_inside(v[W_ENABLED], 4, v[W_INTERP_BYTES]) &&
	       is_inside(v[W_STATE_INTERP], 8, v[W_STATE_BYTES]) &&
	       is_inside(v[W_BREAKER], 8, v[W_STATE_BYTES]) &&
	       is_inside(v[W_SUPPORT] + v[W_PENDING], 4, v[W_STATE_BYTES]) &&
	       v[W_PATH_BYTES] >= 64 && v[W_PATH_BYTES] <= 65536 &&
	       v[W_SUPPORT] + v[W_PATH] < v[W_STATE_BYTES] &&
	       v[W_PATH_BYTES] <= v[W_STATE_BYTES] - v[W_SUPPORT] - v[W_PATH] &&
	       (v[W_PENDING] + 4 <= v[W_PATH] || v[W_PATH] + v[W_PATH_BYTES] <= v[W_PENDING]) &&
	       (v[W_BREAKER] + 8 <= v[W_SUPPORT] ||
		v[W_BREAKER] >= v[W_SUPPORT] + v[W_PATH] + v[W_PATH_BYTES]) &&
	       v[W_INTERP_ID] != v[W_INTERP_NEXT] && v[W_INTERP_ID] != v[W_INTERP_MAIN] &&
	       v[W_INTERP_NEXT] != v[W_INTERP_MAIN];
}

int gs_python_attach_read_offsets(const void *data, size_t bytes,
				  struct gs_python_attach_offsets *ret)
{
	uint64_t head[3], v[N_WORDS];
	const uint8_t *at = NULL;

	if (bytes < sizeof(head) || memcmp(data, "xdebugpy", 8) != 0)
		return -ENOENT;
	memcpy(head, data, sizeof(head));
	/* 0x030e00f0 is 3.14.0: other digits in the place of the f are of pre-releases. */
	for (size_t i = 0; i < GS_ARRAY_LEN(layouts) && (head[1] & 0xf0) == 0xf0; i++)
		if (layouts[i].version == head[1] >> 16)
			at = layouts[i].at;
	if (!at || head[2] > 1)
		return -ENOTSUP;
	for (unsigned i = 0; i < N_WORDS; i++) {
		if ((at[i] + 1u) * sizeof(v[i]) > bytes)
			return -ENOTSUP;
		memcpy(&v[i], (const uint8_t *)data + at[i] * sizeof(v[i]), sizeof(v[i]));
	}
	if (!is_plausible(v))
		return -ENOTSUP;
	*ret = (struct gs_python_attach_offsets){
		.version = (uint16_t)(head[1] >> 16),
		.is_free_threaded = head[2],
		.runtime_interp = (uint32_t)v[W_RUNTIME_INTERP],
		.interp_id = (uint32_t)v[W_INTERP_ID],
		.interp_next = (uint32_t)v[W_INTERP_NEXT],
		.interp_main = (uint32_t)v[W_INTERP_MAIN],
		.interp_enabled = (uint32_t)v[W_ENABLED],
		.state_interp = (uint32_t)v[W_STATE_INTERP],
		.state_breaker = (uint32_t)v[W_BREAKER],
		.state_pending = (uint32_t)(v[W_SUPPORT] + v[W_PENDING]),
		.state_path = (uint32_t)(v[W_SUPPORT] + v[W_PATH]),
		.path_bytes = (uint32_t)v[W_PATH_BYTES],
	};
	return 0;
}
