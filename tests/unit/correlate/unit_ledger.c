/* The table of live blocks against a plain list, with many collisions and takes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "model/trace/dict.h"
#include "pipeline/correlate/ledger.h"
#include "pipeline/correlate/correlate.h"

#define LEDGER GS_CLEANUP(correlate_ledger_fini) struct ledger

#define N_PROCESSES 3
#define N_POINTERS  700

static uint64_t seed;

static uint32_t dice(uint32_t n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(seed >> 33) % n;
}

static void agrees_with_a_list(void **state)
{
	static uint64_t model[N_PROCESSES][SPACE_COUNT][N_POINTERS]; /* bytes; 0: not there */
	LEDGER l = {0};
	uint64_t bytes;

	seed = 7;
	memset(model, 0, sizeof(model));
	for (uint32_t p = 0; p < N_PROCESSES; p++)
		assert_non_null(correlate_ledger_process(&l, p + 1));
	for (unsigned round = 0; round < 200000; round++) {
		uint32_t p = dice(N_PROCESSES), space = dice(SPACE_COUNT), i = dice(N_POINTERS);
		uint64_t pointer = 0x7f0000000000 + 256 * (uint64_t)(i + 1);
		uint64_t *m = &model[p][space][i];

		if (round % 20011 == 20010) {
			correlate_ledger_drop(&l, p + 1);
			memset(model[p], 0, sizeof(model[p]));
		} else if (dice(2)) {
			*m = 1 + dice(1000);
			assert_int_equal(correlate_ledger_put(&l, p + 1, space, pointer, *m), 0);
		} else {
			bytes = 0;
			assert_int_equal(correlate_ledger_take(&l, p + 1, space, pointer, &bytes),
					 *m != 0);
			assert_int_equal(bytes, *m);
			*m = 0;
		}
	}
	for (uint32_t p = 0; p < N_PROCESSES; p++) {
		for (uint32_t space = 0; space < SPACE_COUNT; space++) {
			uint64_t sum = 0;

			for (uint32_t i = 0; i < N_POINTERS; i++)
				sum += model[p][space][i];
			assert_int_equal(
				correlate_ledger_find_process(&l, p + 1)->live_bytes[space], sum);
			for (uint32_t i = 0; i < N_POINTERS; i++) {
				uint64_t pointer = 0x7f0000000000 + 256 * (uint64_t)(i + 1);

				bytes = 0;
				correlate_ledger_take(&l, p + 1, space, pointer, &bytes);
				assert_int_equal(bytes, model[p][space][i]);
			}
			assert_int_equal(
				correlate_ledger_find_process(&l, p + 1)->live_bytes[space], 0);
		}
	}
	assert_int_equal(l.n_used, 0);
}

static void limits(void **state)
{
	LEDGER l = {0};
	uint64_t bytes;

	assert_null(correlate_ledger_find_process(&l, 1));
	assert_false(correlate_ledger_take(&l, 1, SPACE_DEVICE, 256, &bytes));
	correlate_ledger_drop(&l, 1);
	assert_null(correlate_ledger_process(&l, GS_DICT_MAX_ID));
	assert_non_null(correlate_ledger_process(&l, 1));
	for (uint64_t i = 1; i <= GS_CORRELATE_MAX_BLOCKS; i++)
		assert_int_equal(correlate_ledger_put(&l, 1, SPACE_DEVICE, i * 512, 1), 0);
	assert_int_equal(correlate_ledger_put(&l, 1, SPACE_DEVICE, 7, 1), -ENOBUFS);
	assert_int_equal(correlate_ledger_put(&l, 1, SPACE_DEVICE, 512, 5), 0); /* replaced */
	assert_int_equal(correlate_ledger_find_process(&l, 1)->live_bytes[SPACE_DEVICE],
			 GS_CORRELATE_MAX_BLOCKS + 4);
	assert_true(correlate_ledger_take(&l, 1, SPACE_DEVICE, 1024, &bytes));
	assert_int_equal(correlate_ledger_put(&l, 1, SPACE_DEVICE, 7, 1), 0);
	assert_false(correlate_ledger_take(&l, 1, SPACE_HOST, 7, &bytes));
	assert_false(correlate_ledger_take(&l, 1, SPACE_DEVICE, 0, &bytes));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_a_list),
		cmocka_unit_test(limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
