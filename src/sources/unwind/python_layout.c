/*
 * Where each version keeps what a stack is read from.
 *
 * From 3.13 on an interpreter says it itself: _PyRuntime begins with _Py_DebugOffsets
 * (Include/internal/pycore_debug_offsets.h; 3.13.0: pycore_runtime.h), a run of 64-bit numbers
 * after a cookie, the version and a flag. What the numbers are changes with the version but not
 * within one. What they do not hold (bits of a str's flags) is here.
 *
 * For 3.8 to 3.12 the offsets are those of the released headers on LP64, the same for every build
 * of a version: Include/cpython and Include/internal of each.
 */
#include "sources/unwind/python.h"

#include <errno.h>
#include <string.h>

#include "core/base/mem.h"

#define NONE GS_PY_NONE

static const struct gs_py_proc layouts[] = {
	{
		.version = 0x0308,
		.runtime_current = 1368,
		.runtime_interp = 32,
		.interp_threads = 8,
		.state_thread_id = 176,
		.state_frame = 24,
		.cframe_frame = NONE,
		.frame_code = 32,
		.frame_previous = 24,
		.frame_at = 104,
		.frame_owner = NONE,
		.at_kind = GS_PY_AT_BYTES,
		.code_filename = 104,
		.code_first_line = 40,
		.text_ascii = 48,
		.text_compact = 72,
	},
	{
		.version = 0x0309,
		.runtime_current = 568,
		.runtime_interp = 32,
		.interp_threads = 8,
		.state_thread_id = 176,
		.state_frame = 24,
		.cframe_frame = NONE,
		.frame_code = 32,
		.frame_previous = 24,
		.frame_at = 104,
		.frame_owner = NONE,
		.at_kind = GS_PY_AT_BYTES,
		.code_filename = 104,
		.code_first_line = 40,
		.text_ascii = 48,
		.text_compact = 72,
	},
	{
		.version = 0x030a,
		.runtime_current = 568,
		.runtime_interp = 32,
		.interp_threads = 8,
		.state_thread_id = 176,
		.state_frame = 24,
		.cframe_frame = NONE,
		.frame_code = 32,
		.frame_previous = 24,
		.frame_at = 96,
		.frame_owner = NONE,
		.at_kind = GS_PY_AT_UNITS,
		.code_filename = 104,
		.code_first_line = 40,
		.text_ascii = 48,
		.text_compact = 72,
	},
	{
		.version = 0x030b,
		.runtime_current = 576,
		.runtime_interp = 40,
		.interp_threads = 16,
		.state_thread_id = 152,
		.state_frame = 56,
		.cframe_frame = 8,
		.frame_code = 32,
		.frame_previous = 48,
		.frame_at = 56,
		.frame_owner = NONE,
		.at_kind = GS_PY_AT_POINTER,
		.code_filename = 112,
		.code_first_line = 72,
		.code_begin = 184,
		.text_ascii = 48,
		.text_compact = 72,
	},
	{
		.version = 0x030c,
		.runtime_interp = 40,
		.interp_threads = 72,
		.state_thread_id = 136,
		.state_frame = 56,
		.cframe_frame = 0,
		.frame_code = 0,
		.frame_previous = 8,
		.frame_at = 56,
		.frame_owner = 70,
		.at_kind = GS_PY_AT_POINTER,
		.code_filename = 112,
		.code_first_line = 68,
		.code_begin = 192,
		.text_ascii = 40,
		.text_compact = 56,
	},
};

static uint16_t larger_of(uint16_t a, uint16_t b)
{
	return a > b ? a : b;
}

/* What follows from the offsets, or is the same in all versions of the table. */
static void complete_layout(struct gs_py_proc *p)
{
	p->state_bytes = larger_of(larger_of(p->state_thread_id, p->state_frame),
				   larger_of(p->state_interp, p->state_next)) +
			 8;
	p->frame_bytes = larger_of(larger_of(p->frame_code, p->frame_previous), p->frame_at) + 8;
	if (p->frame_owner != NONE)
		p->frame_bytes = larger_of(p->frame_bytes, p->frame_owner + 1);
	if (p->frame_tlbc != NONE)
		p->frame_bytes = larger_of(p->frame_bytes, p->frame_tlbc + 8);
}

int gs_python_layout(uint16_t version, struct gs_py_proc *ret_proc)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(layouts); i++) {
		if (layouts[i].version != version)
			continue;
		*ret_proc = layouts[i];
		ret_proc->state_next = 8;
		ret_proc->state_interp = 16;
		ret_proc->frame_tlbc = NONE;
		ret_proc->text_length = 16;
		ret_proc->text_state = 32;
		ret_proc->text_shift = 2;
		ret_proc->bytes_length = 16;
		ret_proc->bytes_data = 32;
		complete_layout(ret_proc);
		return 0;
	}
	return -ENOTSUP;
}

/* --- _Py_DebugOffsets --- */

enum word {
	W_RUNTIME_INTERP,
	W_INTERP_NEXT,
	W_INTERP_THREADS,
	W_STATE_PREV,
	W_STATE_NEXT,
	W_STATE_INTERP,
	W_STATE_FRAME,
	W_STATE_THREAD_ID,
	W_FRAME_PREVIOUS,
	W_FRAME_CODE,
	W_FRAME_AT,
	W_FRAME_OWNER,
	W_FRAME_TLBC,
	W_CODE_FILENAME,
	W_CODE_NAME,
	W_CODE_QUALNAME,
	W_CODE_TABLE,
	W_CODE_FIRST_LINE,
	W_CODE_BEGIN,
	W_CODE_TLBC,
	W_BYTES_LENGTH,
	W_BYTES_DATA,
	W_TEXT_SIZE, /* of the largest kind of str: a pointer more than a compact one */
	W_TEXT_STATE,
	W_TEXT_LENGTH,
	W_TEXT_ASCII,
	N_WORDS
};

/* Which number of the struct each is; 0: this version does not have it. */
static const uint8_t words_3_13[N_WORDS] = {
	[W_RUNTIME_INTERP] = 5, [W_INTERP_NEXT] = 8,      [W_INTERP_THREADS] = 9,
	[W_STATE_PREV] = 20,    [W_STATE_NEXT] = 21,      [W_STATE_INTERP] = 22,
	[W_STATE_FRAME] = 23,   [W_STATE_THREAD_ID] = 24, [W_FRAME_PREVIOUS] = 29,
	[W_FRAME_CODE] = 30,    [W_FRAME_AT] = 31,        [W_FRAME_OWNER] = 33,
	[W_CODE_FILENAME] = 35, [W_CODE_NAME] = 36,       [W_CODE_QUALNAME] = 37,
	[W_CODE_TABLE] = 38,    [W_CODE_FIRST_LINE] = 39, [W_CODE_BEGIN] = 43,
	[W_BYTES_LENGTH] = 65,  [W_BYTES_DATA] = 66,      [W_TEXT_SIZE] = 67,
	[W_TEXT_STATE] = 68,    [W_TEXT_LENGTH] = 69,     [W_TEXT_ASCII] = 70,
};

static const uint8_t words_3_14[N_WORDS] = {
	[W_RUNTIME_INTERP] = 5, [W_INTERP_NEXT] = 8,      [W_INTERP_THREADS] = 9,
	[W_STATE_PREV] = 23,    [W_STATE_NEXT] = 24,      [W_STATE_INTERP] = 25,
	[W_STATE_FRAME] = 26,   [W_STATE_THREAD_ID] = 27, [W_FRAME_PREVIOUS] = 32,
	[W_FRAME_CODE] = 33,    [W_FRAME_AT] = 34,        [W_FRAME_OWNER] = 36,
	[W_FRAME_TLBC] = 38,    [W_CODE_FILENAME] = 40,   [W_CODE_NAME] = 41,
	[W_CODE_QUALNAME] = 42, [W_CODE_TABLE] = 43,      [W_CODE_FIRST_LINE] = 44,
	[W_CODE_BEGIN] = 48,    [W_CODE_TLBC] = 49,       [W_BYTES_LENGTH] = 75,
	[W_BYTES_DATA] = 76,    [W_TEXT_SIZE] = 77,       [W_TEXT_STATE] = 78,
	[W_TEXT_LENGTH] = 79,   [W_TEXT_ASCII] = 80,
};

static uint64_t number_at(const uint8_t *data, size_t bytes, size_t idx)
{
	uint64_t v = UINT64_MAX;

	if ((idx + 1) * sizeof(v) <= bytes)
		memcpy(&v, data + idx * sizeof(v), sizeof(v));
	return v;
}

/* Numbers that the rest of the reading relies on. Alphas and betas of a version have them in other
 * places, which shows here. */
static bool is_plausible(const uint64_t v[N_WORDS])
{
	for (unsigned i = 0; i < N_WORDS; i++)
		if (v[i] > (i == W_RUNTIME_INTERP || i == W_INTERP_NEXT || i == W_INTERP_THREADS
				    ? 1u << 24
				    : 2048))
			return false;
	return v[W_STATE_THREAD_ID] <= GS_PY_STATE_BYTES - 8 && v[W_STATE_THREAD_ID] % 8 == 0 &&
	       v[W_STATE_THREAD_ID] > 0 && v[W_STATE_FRAME] <= GS_PY_STATE_BYTES - 8 &&
	       v[W_STATE_FRAME] % 8 == 0 && v[W_STATE_FRAME] > 0 && v[W_STATE_PREV] % 8 == 0 &&
	       v[W_STATE_NEXT] % 8 == 0 && v[W_STATE_PREV] != v[W_STATE_NEXT] &&
	       v[W_STATE_INTERP] % 8 == 0 && v[W_STATE_PREV] < 256 && v[W_STATE_NEXT] < 256 &&
	       v[W_STATE_INTERP] < 256 && v[W_FRAME_PREVIOUS] <= GS_PY_FRAME_BYTES - 8 &&
	       v[W_FRAME_PREVIOUS] % 8 == 0 && v[W_FRAME_CODE] <= GS_PY_FRAME_BYTES - 8 &&
	       v[W_FRAME_CODE] % 8 == 0 && v[W_FRAME_CODE] != v[W_FRAME_PREVIOUS] &&
	       v[W_FRAME_AT] <= GS_PY_FRAME_BYTES - 8 && v[W_FRAME_AT] % 8 == 0 &&
	       v[W_FRAME_AT] > 0 && v[W_FRAME_OWNER] > 0 && v[W_FRAME_OWNER] < GS_PY_FRAME_BYTES &&
	       v[W_FRAME_TLBC] <= GS_PY_FRAME_BYTES - 8 &&
	       v[W_CODE_NAME] == v[W_CODE_FILENAME] + 8 &&
	       v[W_CODE_QUALNAME] == v[W_CODE_NAME] + 8 &&
	       v[W_CODE_TABLE] == v[W_CODE_QUALNAME] + 8 && v[W_CODE_FIRST_LINE] > 0 &&
	       v[W_CODE_BEGIN] > v[W_CODE_TABLE] && v[W_BYTES_DATA] > v[W_BYTES_LENGTH] &&
	       v[W_TEXT_SIZE] >= v[W_TEXT_ASCII] + 16 && v[W_TEXT_STATE] < v[W_TEXT_ASCII] &&
	       v[W_TEXT_LENGTH] < v[W_TEXT_ASCII];
}

int gs_python_layout_debug(const void *data, size_t bytes, struct gs_py_proc *ret_proc)
{
	uint64_t v[N_WORDS] = {0}, version, free_threaded;
	const uint8_t *words;

	if (bytes < 24 || memcmp(data, "xdebugpy", 8) != 0)
		return -ENOENT;
	version = number_at(data, bytes, 1) >> 16;
	free_threaded = number_at(data, bytes, 2);
	if (version == 0x030d)
		words = words_3_13;
	else if (version == 0x030e)
		words = words_3_14;
	else
		return -ENOTSUP;
	for (unsigned i = 0; i < N_WORDS; i++)
		if (words[i])
			v[i] = number_at(data, bytes, words[i]);
	if (!is_plausible(v))
		return -ENOTSUP;
	*ret_proc = (struct gs_py_proc){
		.version = (uint16_t)version,
		.runtime_interp = (uint32_t)v[W_RUNTIME_INTERP],
		.interp_next = (uint32_t)v[W_INTERP_NEXT],
		.interp_threads = (uint32_t)v[W_INTERP_THREADS],
		.state_prev = (uint16_t)v[W_STATE_PREV],
		.state_next = (uint16_t)v[W_STATE_NEXT],
		.state_interp = (uint16_t)v[W_STATE_INTERP],
		.state_thread_id = (uint16_t)v[W_STATE_THREAD_ID],
		.state_frame = (uint16_t)v[W_STATE_FRAME],
		.cframe_frame = NONE,
		.frame_code = (uint16_t)v[W_FRAME_CODE],
		.frame_previous = (uint16_t)v[W_FRAME_PREVIOUS],
		.frame_at = (uint16_t)v[W_FRAME_AT],
		.frame_owner = (uint16_t)v[W_FRAME_OWNER],
		.frame_tlbc = free_threaded && v[W_FRAME_TLBC] ? (uint16_t)v[W_FRAME_TLBC] : NONE,
		.code_tlbc = (uint16_t)v[W_CODE_TLBC],
		.at_kind = GS_PY_AT_POINTER,
		.code_filename = (uint16_t)v[W_CODE_FILENAME],
		.code_first_line = (uint16_t)v[W_CODE_FIRST_LINE],
		.code_begin = (uint16_t)v[W_CODE_BEGIN],
		.text_length = (uint16_t)v[W_TEXT_LENGTH],
		.text_state = (uint16_t)v[W_TEXT_STATE],
		.text_ascii = (uint16_t)v[W_TEXT_ASCII],
		/* After that of ASCII ones: the length and the address of its UTF-8 form. */
		.text_compact = (uint16_t)(v[W_TEXT_ASCII] + 16),
		/* Whether a str is interned takes two bits; without the lock a byte of its own,
		 * from 3.14 on (Include/cpython/unicodeobject.h). */
		.text_shift = free_threaded && version >= 0x030e ? 8 : 2,
		.is_free_threaded = free_threaded != 0,
		.bytes_length = (uint16_t)v[W_BYTES_LENGTH],
		.bytes_data = (uint16_t)v[W_BYTES_DATA],
	};
	complete_layout(ret_proc);
	return 0;
}
