/* The table of blocks against a plain list, with many collisions and removals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "pipeline/gpu_memory/gpu_memory_int.h"

#define N_PROCESSES 3
#define N_SPACES    2
#define N_POINTERS  700

static uint64_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static uint64_t pointer_of(uint32_t i)
{
	return 0x7f0000000000 + 256 * (uint64_t)(i + 1);
}

static bool is_of(struct gs_memory *m GS_UNUSED, const struct memory_block *b, const void *ctx)
{
	return b->process == *(const uint32_t *)ctx;
}

static void agrees_with_a_list(void **state)
{
	static uint64_t model[N_PROCESSES][N_SPACES][N_POINTERS]; /* bytes; 0: not there */
	struct memory_table t = {.max_used = 1u << 20};
	size_t n = 0;

	seed = 7;
	memset(model, 0, sizeof(model));
	for (unsigned round = 0; round < 200000; round++) {
		uint32_t p = dice(N_PROCESSES), space = dice(N_SPACES), i = dice(N_POINTERS);
		struct memory_block *b = memory_table_find(&t, p, space, pointer_of(i));
		uint64_t *bytes = &model[p][space][i];

		assert_int_equal(b ? b->bytes : 0, *bytes);
		if (round % 20011 == 20010) {
			memory_table_sweep(&t, is_of, NULL, &p);
			memset(model[p], 0, sizeof(model[p]));
		} else if (!b) {
			b = memory_table_add(&t, p, space, pointer_of(i));
			assert_non_null(b);
			assert_int_equal(b->n_references, 0);
			b->bytes = *bytes = 1 + dice(1000);
		} else if (dice(2)) {
			memory_table_remove(&t, b);
			*bytes = 0;
		}
	}
	for (uint32_t p = 0; p < N_PROCESSES; p++)
		for (uint32_t space = 0; space < N_SPACES; space++)
			for (uint32_t i = 0; i < N_POINTERS; i++) {
				struct memory_block *b =
					memory_table_find(&t, p, space, pointer_of(i));

				assert_int_equal(b ? b->bytes : 0, model[p][space][i]);
				n += b != NULL;
			}
	assert_int_equal(t.n_used, n);
	free(t.slots);
}

static void limits(void **state)
{
	struct memory_table t = {.max_used = 1000};

	assert_null(memory_table_find(&t, 1, MEMORY_SPACE_ADDRESS, 256));
	assert_null(memory_table_add(&t, 1, MEMORY_SPACE_ADDRESS, 0));
	for (uint64_t i = 1; i <= 1000; i++)
		assert_non_null(memory_table_add(&t, 1, MEMORY_SPACE_ADDRESS, i * 512));
	assert_null(memory_table_add(&t, 1, MEMORY_SPACE_ADDRESS, 7));
	memory_table_remove(&t, memory_table_find(&t, 1, MEMORY_SPACE_ADDRESS, 512));
	assert_non_null(memory_table_add(&t, 1, MEMORY_SPACE_ADDRESS, 7));
	assert_null(memory_table_find(&t, 1, MEMORY_SPACE_HOST, 7));
	assert_null(memory_table_find(&t, 2, MEMORY_SPACE_ADDRESS, 7));
	free(t.slots);
}

static void freed_addresses(void **state)
{
	struct gs_memory m = {0};

	assert_false(memory_freed_has(&m, 1, MEMORY_SPACE_ADDRESS, 0x1000));
	memory_freed_note(&m, 1, MEMORY_SPACE_ADDRESS, 0x1000);
	assert_true(memory_freed_has(&m, 1, MEMORY_SPACE_ADDRESS, 0x1000));
	assert_false(memory_freed_has(&m, 1, MEMORY_SPACE_HOST, 0x1000));
	assert_false(memory_freed_has(&m, 2, MEMORY_SPACE_ADDRESS, 0x1000));
	free(m.freed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_a_list),
		cmocka_unit_test(limits),
		cmocka_unit_test(freed_addresses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
