/* Arrays that grow: nothing is lost, no size wraps around, and without memory all is as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/vec.h"

static void reserves_and_keeps(void **state)
{
	uint32_t *items = NULL;
	size_t capacity = 0, moved = 0;

	for (uint32_t n = 0; n < 100000; n++) {
		size_t before = capacity;

		assert_true(gs_vec_reserve(&items, &capacity, n + 1));
		assert_true(capacity > n);
		moved += capacity != before;
		items[n] = n;
	}
	assert_true(moved < 20);
	for (uint32_t n = 0; n < 100000; n++)
		assert_int_equal(items[n], n);
	assert_true(gs_vec_reserve(&items, &capacity, 1000000));
	assert_true(capacity >= 1000000);
	assert_int_equal(items[99999], 99999);
	/* Nothing wanted is there always. */
	assert_true(gs_vec_reserve(&items, &capacity, 0));
	free(items);
}

/* The capacity never says less than there is, whatever its type. */
static void a_small_type(void **state)
{
	uint8_t capacity = 0;
	uint64_t *items = NULL;

	for (size_t n = 0; n < UINT8_MAX; n++) {
		assert_true(gs_vec_reserve(&items, &capacity, n + 1));
		assert_true(capacity > n);
		items[n] = n;
	}
	assert_int_equal(capacity, UINT8_MAX);
	assert_false(gs_vec_reserve(&items, &capacity, UINT8_MAX + 1));
	assert_int_equal(capacity, UINT8_MAX);
	for (size_t n = 0; n < UINT8_MAX; n++)
		assert_int_equal(items[n], n);
	assert_false(gs_vec_reach(&items, &capacity, UINT8_MAX));
	assert_false(gs_vec_reach(&items, &capacity, SIZE_MAX));
	free(items);
}

static void no_size_wraps(void **state)
{
	struct wide {
		char bytes[4096];
	} *items = NULL, *first;
	size_t capacity = 0;

	assert_true(gs_vec_reserve(&items, &capacity, 1));
	memset(&items[0], 0x5a, sizeof(items[0]));
	first = items;
	/* 2^52 + 1 of 2^12 bytes each are 4096 in 64 bits. */
	assert_false(gs_vec_reserve(&items, &capacity, ((size_t)1 << 52) + 1));
	assert_false(gs_vec_reserve(&items, &capacity, SIZE_MAX));
	assert_false(gs_vec_reserve_next(&items, (size_t)1 << 51));
	assert_false(gs_vec_reserve_next(&items, (size_t)1 << 63));
	assert_ptr_equal(items, first);
	assert_int_equal(capacity, 16);
	assert_int_equal(items[0].bytes[4095], 0x5a);
	free(items);
}

static void reaches_with_zeros(void **state)
{
	static const uint32_t indexes[] = {0, 15, 16, 3, 1000, 999, 65536};
	uint32_t *items = NULL, n = 0;

	for (size_t i = 0; i < sizeof(indexes) / sizeof(indexes[0]); i++) {
		uint32_t before = n;

		assert_true(gs_vec_reach(&items, &n, indexes[i]));
		assert_true(n > indexes[i]);
		for (uint32_t k = before; k < n; k++) {
			assert_int_equal(items[k], 0);
			items[k] = k + 1;
		}
		for (uint32_t k = 0; k < n; k++)
			assert_int_equal(items[k], k + 1);
	}
	free(items);
}

/* Also where elements leave in between. */
static void one_by_one(void **state)
{
	uint16_t *items = NULL;
	size_t n = 0;
	uint32_t random = 1;

	for (uint32_t i = 0; i < 20000; i++) {
		random = random * 1664525 + 1013904223;
		if (n && random >> 30 == 0) {
			n--;
			continue;
		}
		assert_true(gs_vec_reserve_next(&items, n));
		items[n] = (uint16_t)n;
		n++;
	}
	for (size_t i = 0; i < n; i++)
		assert_int_equal(items[i], (uint16_t)i);
	free(items);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reserves_and_keeps), cmocka_unit_test(a_small_type),
		cmocka_unit_test(no_size_wraps),      cmocka_unit_test(reaches_with_zeros),
		cmocka_unit_test(one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
