/* Offsets: the table of versions, and what real interpreters say of themselves. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sources/unwind/python.h"

/* The first numbers of _PyRuntime of 3.13.0 and of 3.14.10, and of free-threaded builds, as their
 * programs have them. */
static const uint64_t of_3_13[] = {0x7970677562656478,
				   0x30d00f0,
				   0x0,
				   0x452b8,
				   0x260,
				   0x278,
				   0x2f998,
				   0x1c68,
				   0x1c60,
				   0x1cb0,
				   0x1ce8,
				   0x1de8,
				   0x1dd8,
				   0x1de0,
				   0x10,
				   0x1e48,
				   0x0,
				   0x1e58,
				   0x1e50,
				   0x130,
				   0x0,
				   0x8,
				   0x10,
				   0x48,
				   0x98,
				   0xa0,
				   0xe8,
				   0x20,
				   0x50,
				   0x8,
				   0x0,
				   0x38,
				   0x48,
				   0x46,
				   0xd0,
				   0x70,
				   0x78,
				   0x80,
				   0x88,
				   0x44,
				   0x34,
				   0x60,
				   0x68,
				   0xc8,
				   0x10,
				   0x8,
				   0x1a0,
				   0x18,
				   0x58,
				   0xa8,
				   0x20,
				   0x18,
				   0x10,
				   0x28,
				   0x18,
				   0x10,
				   0x30,
				   0x20,
				   0x28,
				   0x18,
				   0x10,
				   0x20,
				   0x10,
				   0x18,
				   0x28,
				   0x10,
				   0x20,
				   0x40,
				   0x20,
				   0x10,
				   0x28,
				   0xf0,
				   0xc8,
				   0x1,
				   0x100000001,
				   0x1,
				   0x0,
				   0x0,
				   0x0,
				   0x7f015573ede0,
				   0x7f015573ede0,
				   0x1,
				   0x7f01558b5b80,
				   0x7f015576e620,
				   0x100000001,
				   0x0,
				   0x559417aa57e0,
				   0x0,
				   0x0,
				   0x7f0155351d40,
				   0x7f0155351d60,
				   0x7f0155351d90,
				   0x7f0155351410,
				   0x0,
				   0x7f015536b660,
				   0x7f015536b560};
static const uint64_t of_3_14[] = {0x7970677562656478,
				   0x30e0af0,
				   0x0,
				   0x4d4c8,
				   0x310,
				   0x328,
				   0x37248,
				   0x1c70,
				   0x1c68,
				   0x1cb0,
				   0x1cc0,
				   0x1cf0,
				   0x1e08,
				   0x1df8,
				   0x1e00,
				   0x10,
				   0x1e68,
				   0x0,
				   0x1e78,
				   0x1e70,
				   0x1f38,
				   0x0,
				   0x340,
				   0x0,
				   0x8,
				   0x10,
				   0x48,
				   0x98,
				   0xa0,
				   0xe8,
				   0x20,
				   0x58,
				   0x8,
				   0x0,
				   0x38,
				   0x50,
				   0x4a,
				   0x40,
				   0x0,
				   0xd8,
				   0x70,
				   0x78,
				   0x80,
				   0x88,
				   0x44,
				   0x34,
				   0x60,
				   0x68,
				   0xd0,
				   0x0,
				   0x10,
				   0x8,
				   0x1a0,
				   0x18,
				   0x58,
				   0xa8,
				   0x28,
				   0x20,
				   0x10,
				   0x28,
				   0x18,
				   0x10,
				   0xc8,
				   0x18,
				   0x28,
				   0x20,
				   0x30,
				   0x20,
				   0x28,
				   0x18,
				   0x10,
				   0x20,
				   0x10,
				   0x18,
				   0x28,
				   0x10,
				   0x20,
				   0x40,
				   0x20,
				   0x10,
				   0x28,
				   0x108,
				   0xc0,
				   0xa0,
				   0x18,
				   0x48,
				   0x43,
				   0x0,
				   0x8,
				   0x18,
				   0x130,
				   0x1f8c,
				   0x0,
				   0x4,
				   0x200,
				   0x1};

/* clang-format off */
static const uint64_t of_3_14t[] = {
	0x7970677562656478, 0x30e07f0, 0x1, 0x58780, 0x310, 0x328, 0x3c3c0, 0x1c70, 0x1c68,
	0x1cb0, 0x1cc0, 0x1cf0, 0x1e20, 0x1e10, 0x1e18, 0x10, 0x1e80, 0x0,
	0x1e98, 0x1e90, 0x1f58, 0x44dc, 0x340, 0x0, 0x8, 0x10, 0x48,
	0x98, 0xa0, 0xe8, 0x20, 0x58, 0x8, 0x0, 0x38, 0x50,
	0x4e, 0x40, 0x48, 0xf0, 0x80, 0x88, 0x90, 0x98, 0x54,
	0x44, 0x70, 0x78, 0xe8, 0xe0, 0x20, 0x18, 0x1b0, 0x28,
	0x68, 0xb8, 0x38, 0x30, 0x20, 0x38, 0x28, 0x20, 0xd8,
	0x28, 0x38, 0x30, 0x40, 0x30, 0x38, 0x28, 0x20, 0x30,
	0x20, 0x28, 0x38, 0x20, 0x30, 0x50, 0x30, 0x20, 0x38,
};
static const uint64_t of_3_13t[] = {
	0x7970677562656478, 0x30d0ff0, 0x1, 0x502c0, 0x260, 0x278, 0x34a40, 0x1c68, 0x1c60,
	0x1cb0, 0x1ce8, 0x1df0, 0x1de0, 0x1de8, 0x10, 0x1e50, 0x0, 0x1e68,
	0x1e60, 0x138, 0x0, 0x8, 0x10, 0x48, 0x98, 0xa0, 0xe8,
	0x20, 0x50, 0x8, 0x0, 0x38, 0x48, 0x46, 0xe0, 0x80,
	0x88, 0x90, 0x98, 0x54, 0x44, 0x70, 0x78, 0xd8, 0x20,
	0x18, 0x1b0, 0x28, 0x68, 0xb8, 0x30, 0x28, 0x20, 0x38,
	0x28, 0x20, 0x40, 0x30, 0x38, 0x28, 0x20, 0x30, 0x20,
	0x28, 0x38, 0x20, 0x30, 0x50, 0x30, 0x20, 0x38,
};
/* clang-format on */

static void table_of_versions(void **state)
{
	struct gs_py_proc p;

	for (uint16_t v = 0x0308; v <= 0x030c; v++) {
		assert_int_equal(gs_python_layout(v, &p), 0);
		assert_int_equal(p.version, v);
		assert_true(p.state_bytes <= GS_PY_STATE_BYTES &&
			    p.frame_bytes <= GS_PY_FRAME_BYTES);
		assert_true(p.state_thread_id + 8 <= p.state_bytes);
		assert_true(p.frame_at + 8 <= p.frame_bytes);
	}
	assert_int_equal(gs_python_layout(0x0307, &p), -ENOTSUP);
	assert_int_equal(gs_python_layout(0x030d, &p), -ENOTSUP);
	assert_int_equal(gs_python_layout(0, &p), -ENOTSUP);
}

static void what_interpreters_say(void **state)
{
	struct gs_py_proc p;

	assert_int_equal(gs_python_layout_debug(of_3_13, sizeof(of_3_13), &p), 0);
	assert_int_equal(p.version, 0x030d);
	assert_int_equal(p.runtime_interp, 632);
	assert_int_equal(p.state_frame, 72);
	assert_int_equal(p.state_thread_id, 152);
	assert_int_equal(p.frame_owner, 70);
	assert_int_equal(p.code_filename, 112);
	assert_int_equal(p.code_begin, 200);
	assert_int_equal(p.text_compact, 56);
	assert_int_equal(p.frame_tlbc, GS_PY_NONE);
	assert_int_equal(gs_python_layout_debug(of_3_14, sizeof(of_3_14), &p), 0);
	assert_int_equal(p.version, 0x030e);
	assert_int_equal(p.runtime_interp, 808);
	assert_int_equal(p.interp_threads, 7344);
	assert_int_equal(p.frame_owner, 74);
	assert_int_equal(p.code_begin, 208);
	assert_int_equal(p.bytes_data, 32);
	assert_int_equal(p.text_shift, 2);
}

static void free_threaded(void **state)
{
	struct gs_py_proc p;

	assert_int_equal(gs_python_layout_debug(of_3_14t, sizeof(of_3_14t), &p), 0);
	assert_true(p.is_free_threaded);
	assert_int_equal(p.frame_tlbc, 72);
	assert_int_equal(p.code_tlbc, 224);
	assert_int_equal(p.text_shift, 8);
	assert_true(p.frame_bytes >= 80);
	/* No copies of code, and flags of a str as in every 3.13. */
	assert_int_equal(gs_python_layout_debug(of_3_13t, sizeof(of_3_13t), &p), 0);
	assert_true(p.is_free_threaded);
	assert_int_equal(p.frame_tlbc, GS_PY_NONE);
	assert_int_equal(p.text_shift, 2);
	assert_int_equal(gs_python_layout_debug(of_3_14, sizeof(of_3_14), &p), 0);
	assert_false(p.is_free_threaded);
	assert_int_equal(p.frame_tlbc, GS_PY_NONE);
}

static void what_is_refused(void **state)
{
	uint64_t words[sizeof(of_3_14) / 8];
	struct gs_py_proc p;

	assert_int_equal(gs_python_layout_debug("no cookie here, but a text", 26, &p), -ENOENT);
	assert_int_equal(gs_python_layout_debug(of_3_13, 23, &p), -ENOENT);
	/* Cut before the last number that is used. */
	assert_int_equal(gs_python_layout_debug(of_3_13, 70 * 8, &p), -ENOTSUP);
	assert_int_equal(gs_python_layout_debug(of_3_13, 71 * 8, &p), 0);
	memcpy(words, of_3_14, sizeof(words));
	words[1] = 0x030f00f0;
	assert_int_equal(gs_python_layout_debug(words, sizeof(words), &p), -ENOTSUP);
	/* A version that says 3.14 with the numbers of 3.13, as a beta might. */
	memcpy(words, of_3_13, sizeof(of_3_13) < sizeof(words) ? sizeof(of_3_13) : sizeof(words));
	words[1] = 0x030e00b1;
	assert_int_equal(gs_python_layout_debug(words, sizeof(words), &p), -ENOTSUP);
	/* Whatever number is mad, nothing outside of the buffers is ever asked for. */
	for (unsigned i = 3; i < 81; i++) {
		static const uint64_t mad[] = {0, 1, 3, 127, 511, 4096, 1u << 20, UINT64_MAX};

		for (unsigned k = 0; k < sizeof(mad) / sizeof(mad[0]); k++) {
			memcpy(words, of_3_14, sizeof(words));
			words[i] = mad[k];
			if (gs_python_layout_debug(words, sizeof(words), &p) < 0)
				continue;
			assert_true(p.state_bytes <= GS_PY_STATE_BYTES);
			assert_true(p.frame_bytes <= GS_PY_FRAME_BYTES);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_of_versions),
		cmocka_unit_test(what_interpreters_say),
		cmocka_unit_test(free_threaded),
		cmocka_unit_test(what_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
