/* Arrays of the kernel's, mapped piece by piece: what is reached is the kernel's, the rest costs no
 * memory. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "core/base/window.h"

#define N_ITEMS    6000u
#define ITEM_BYTES 4104u /* no part of a page */

/* An array map whose last item says so; -1: not permitted here. */
static int make_map(void)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	uint8_t item[ITEM_BYTES] = {0};
	uint32_t last = N_ITEMS - 1;
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, 4, ITEM_BYTES, N_ITEMS, &o);

	if (fd < 0)
		return -1;
	item[0] = 7;
	assert_int_equal(bpf_map_update_elem(fd, &last, item, BPF_ANY), 0);
	return fd;
}

/* Resident memory that is not our own. */
static size_t resident_kib(void)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	size_t kib;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "RssFile: %zu", &kib) == 1)
			return kib;
	fail_msg("no RssFile");
	return 0;
}

static void test_reach(void **state)
{
	size_t before = resident_kib(), all_kib = N_ITEMS * (size_t)ITEM_BYTES >> 10, kib;
	GS_CLOSE int fd = make_map();
	struct gs_window *w = NULL;
	uint8_t *items = NULL, *at;
	uint32_t key = 3;
	uint8_t item[ITEM_BYTES];

	if (fd < 0)
		skip();
	assert_int_equal(gs_window_open(fd, N_ITEMS, ITEM_BYTES, &w, &items), 0);
	at = items;
	assert_int_equal(gs_window_reach(w, 4), 4);
	items[3 * ITEM_BYTES] = 9;
	assert_int_equal(bpf_map_lookup_elem(fd, &key, item), 0);
	assert_int_equal(item[0], 9);
	assert_true(resident_kib() - before < all_kib / 4);
	for (unsigned n = 0; n <= N_ITEMS; n += 7) {
		assert_int_equal(gs_window_reach(w, n), n);
		if (n)
			items[(n - 1) * (size_t)ITEM_BYTES + ITEM_BYTES - 1] = 1;
	}
	assert_int_equal(gs_window_reach(w, UINT32_MAX), N_ITEMS);
	assert_ptr_equal(items, at);
	assert_int_equal(items[(N_ITEMS - 1) * (size_t)ITEM_BYTES], 7);
	assert_int_equal(items[3 * ITEM_BYTES], 9);
	kib = resident_kib() - before;
	assert_true(kib >= all_kib);
	gs_window_close(&w);
	assert_null(w);
}

/* What cannot be mapped is not reached, and does not take away what is. */
static void test_no_more(void **state)
{
	struct gs_window *w = NULL;
	uint8_t *items = NULL;
	int fd = make_map();

	if (fd < 0)
		skip();
	assert_int_equal(gs_window_open(fd, 2 * N_ITEMS, ITEM_BYTES, &w, &items), 0);
	assert_true(gs_window_reach(w, N_ITEMS) == N_ITEMS);
	assert_in_range(gs_window_reach(w, 2 * N_ITEMS), N_ITEMS, 2 * N_ITEMS - 1);
	assert_int_equal(items[(N_ITEMS - 1) * (size_t)ITEM_BYTES], 7);
	gs_window_close(&w);
	close(fd);
	assert_true(gs_window_open(-1, 1, 8, &w, &items) < 0);
	assert_null(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reach),
		cmocka_unit_test(test_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
