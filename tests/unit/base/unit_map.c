#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/map.h"

static void put_get_del(void **state)
{
	struct gs_map m = GS_MAP_INIT(10);
	uint64_t v = 77;

	assert_false(gs_map_get(&m, 0, &v));
	assert_false(gs_map_del(&m, 0));
	assert_int_equal(v, 77);
	assert_int_equal(gs_map_put(&m, 0, 5), 0);
	assert_int_equal(gs_map_put(&m, UINT64_MAX, 6), 0);
	assert_true(gs_map_get(&m, 0, &v));
	assert_int_equal(v, 5);
	assert_int_equal(gs_map_put(&m, 0, 7), 0);
	assert_int_equal(m.n_used, 2);
	assert_true(gs_map_get(&m, 0, &v));
	assert_int_equal(v, 7);
	assert_true(gs_map_del(&m, 0));
	assert_false(gs_map_del(&m, 0));
	assert_false(gs_map_get(&m, 0, &v));
	assert_true(gs_map_get(&m, UINT64_MAX, &v));
	assert_int_equal(v, 6);
	gs_map_fini(&m);
	assert_int_equal(m.max_used, 10);
	assert_false(gs_map_get(&m, UINT64_MAX, &v));
	gs_map_fini(&m);
}

static void the_maximum(void **state)
{
	struct gs_map m = GS_MAP_INIT(100);
	uint64_t v;

	for (uint64_t k = 0; k < 100; k++)
		assert_int_equal(gs_map_put(&m, k, k), 0);
	assert_int_equal(gs_map_put(&m, 100, 0), -ENOBUFS);
	assert_false(gs_map_get(&m, 100, &v));
	assert_int_equal(gs_map_put(&m, 50, 1), 0); /* a key that is there is no new one */
	assert_true(gs_map_del(&m, 50));
	assert_int_equal(gs_map_put(&m, 100, 0), 0);
	assert_int_equal(m.n_used, 100);
	gs_map_fini(&m);
}

/* Against a plain array, with keys that come and go; the table must not grow by what was deleted.
 */
static void like_an_array(void **state)
{
	enum { N = 1000 };
	struct gs_map m = GS_MAP_INIT(N);
	uint64_t model[N] = {0}, random = 12345, sum = 0, expected = 0, v;
	size_t n = 0;

	for (unsigned i = 0; i < 200000; i++) {
		uint64_t k;

		random = random * 6364136223846793005ull + 1442695040888963407ull;
		k = random >> 33;
		if (k & 1024) {
			k %= N;
			assert_int_equal(gs_map_del(&m, k << 32), model[k] != 0);
			model[k] = 0;
		} else {
			k %= N;
			assert_int_equal(gs_map_put(&m, k << 32, i + 1), 0);
			model[k] = i + 1;
		}
		assert_int_equal(gs_map_get(&m, k << 32, &v), model[k] != 0);
		if (model[k])
			assert_int_equal(v, model[k]);
	}
	for (unsigned k = 0; k < N; k++) {
		assert_int_equal(gs_map_get(&m, (uint64_t)k << 32, &v), model[k] != 0);
		n += model[k] != 0;
		expected += model[k];
	}
	assert_int_equal(m.n_used, n);
	assert_true(m.n_slots <= 4096);
	n = 0;
	gs_map_for_each (&m, s) {
		n++;
		sum += s->value;
	}
	assert_int_equal(n, m.n_used);
	assert_int_equal(sum, expected);
	gs_map_fini(&m);
}

static void hash_is_fnv1a(void **state)
{
	assert_true(gs_hash_bytes("", 0) == 0xcbf29ce484222325ull);
	assert_true(gs_hash_bytes("a", 1) == 0xaf63dc4c8601ec8cull);
	assert_true(gs_hash_bytes("foobar", 6) == 0x85944171f73967e8ull);
	assert_true(gs_hash_bytes("a\0", 2) != gs_hash_bytes("a", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_get_del),
		cmocka_unit_test(the_maximum),
		cmocka_unit_test(like_an_array),
		cmocka_unit_test(hash_is_fnv1a),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
