#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/grpc/grpc_int.h"

/* Delays of an attempt: none above the bound, and the largest random number reaches it. */
static void backoff(void **state)
{
	static const uint64_t bounds_s[] = {1, 2, 4, 8, 16, 32, 60, 60, 60};
	struct gs_grpc_backoff b = {0}, tiny = {.base_ns = 10, .max_ns = 25};

	(void)state;
	for (size_t i = 0; i < GS_ARRAY_LEN(bounds_s); i++) {
		struct gs_grpc_backoff low = b, half = b;

		assert_int_equal(gs_grpc_backoff_next_ns(&low, 0), 0);
		assert_int_equal(gs_grpc_backoff_next_ns(&half, 1ULL << 63),
				 bounds_s[i] * 500000000);
		assert_int_equal(gs_grpc_backoff_next_ns(&b, UINT64_MAX), bounds_s[i] * 1000000000);
	}
	gs_grpc_backoff_held(&b, GS_GRPC_BACKOFF_HELD_NS);
	assert_int_equal(b.n_failures, GS_ARRAY_LEN(bounds_s));
	gs_grpc_backoff_held(&b, GS_GRPC_BACKOFF_HELD_NS + 1);
	assert_int_equal(gs_grpc_backoff_next_ns(&b, UINT64_MAX), 1000000000);
	assert_int_equal(gs_grpc_backoff_next_ns(&tiny, UINT64_MAX), 10);
	assert_int_equal(gs_grpc_backoff_next_ns(&tiny, UINT64_MAX), 20);
	assert_int_equal(gs_grpc_backoff_next_ns(&tiny, UINT64_MAX), 25);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(gs_grpc_backoff_next_ns(&tiny, UINT64_MAX), 25);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backoff),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
