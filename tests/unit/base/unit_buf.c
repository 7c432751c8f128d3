#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/buf.h"

static void grows_and_keeps(void **state)
{
	struct gs_buf b = GS_BUF_INIT(100000);
	uint32_t v;

	for (uint32_t i = 0; i < 20000; i++)
		assert_int_equal(gs_buf_put(&b, &i, sizeof(i)), 0);
	assert_int_equal(b.bytes, 80000);
	for (uint32_t i = 0; i < 20000; i++) {
		memcpy(&v, b.data + i * sizeof(v), sizeof(v));
		assert_int_equal(v, i);
	}
	gs_buf_reset(&b);
	assert_int_equal(b.bytes, 0);
	assert_true(b.capacity_bytes >= 80000 && b.capacity_bytes <= 100000);
	gs_buf_fini(&b);
	assert_null(b.data);
	assert_int_equal(b.capacity_bytes, 0);
	assert_int_equal(b.max_bytes, 100000);
	gs_buf_fini(&b);
}

static void the_maximum_is_exact(void **state)
{
	struct gs_buf b = GS_BUF_INIT(10);

	assert_int_equal(gs_buf_puts(&b, "0123456"), 0);
	assert_int_equal(gs_buf_puts(&b, "789a"), -ENOBUFS);
	assert_int_equal(gs_buf_printf(&b, "%d", 1234), -ENOBUFS);
	assert_null(gs_buf_extend(&b, 4));
	assert_int_equal(gs_buf_reserve(&b, 4), -ENOBUFS);
	assert_int_equal(gs_buf_reserve(&b, SIZE_MAX), -ENOBUFS);
	assert_int_equal(b.bytes, 7);
	assert_memory_equal(b.data, "0123456", 7);
	/* What just fits, fits, by each way. */
	assert_int_equal(gs_buf_printf(&b, "%s", "789"), 0);
	assert_memory_equal(b.data, "0123456789", 10);
	assert_int_equal(gs_buf_put(&b, "", 0), 0);
	assert_int_equal(gs_buf_put(&b, "x", 1), -ENOBUFS);
	gs_buf_reset(&b);
	assert_non_null(gs_buf_extend(&b, 10));
	gs_buf_reset(&b);
	assert_int_equal(gs_buf_reserve(&b, 10), 0);
	gs_buf_fini(&b);

	b = GS_BUF_INIT(0);
	assert_int_equal(gs_buf_put(&b, "x", 1), -ENOBUFS);
	assert_int_equal(gs_buf_put(&b, NULL, 0), 0);
	assert_null(b.data);
}

static void a_maximum_beyond_all_memory(void **state)
{
	struct gs_buf b = GS_BUF_INIT(SIZE_MAX);

	assert_int_equal(gs_buf_puts(&b, "x"), 0);
	assert_int_equal(gs_buf_reserve(&b, SIZE_MAX / 4 * 3), -ENOMEM);
	assert_int_equal(b.bytes, 1);
	assert_int_equal(b.data[0], 'x');
	gs_buf_fini(&b);
}

static void extends_with_zeros(void **state)
{
	struct gs_buf b = GS_BUF_INIT(4096);
	unsigned char *p;

	assert_non_null(gs_buf_extend(&b, 0));
	assert_int_equal(b.bytes, 0);
	for (int i = 0; i < 1000; i++)
		gs_buf_puts(&b, "xxxx");
	gs_buf_reset(&b);
	p = gs_buf_extend(&b, 4000);
	assert_non_null(p);
	for (int i = 0; i < 4000; i++)
		assert_int_equal(p[i], 0);
	assert_int_equal(b.bytes, 4000);
	gs_buf_fini(&b);
}

static void prints(void **state)
{
	struct gs_buf b = GS_BUF_INIT(4096);
	char long_text[1001];

	memset(long_text, 'l', 1000);
	long_text[1000] = '\0';
	assert_int_equal(gs_buf_printf(&b, "%s", ""), 0);
	assert_int_equal(b.bytes, 0);
	assert_string_equal((char *)b.data, "");
	gs_buf_puts(&b, "left over");
	gs_buf_reset(&b);
	assert_int_equal(gs_buf_puts(&b, "new"), 0);
	assert_int_equal(gs_buf_printf(&b, "%s", ""), 0);
	assert_string_equal((char *)b.data, "new");
	gs_buf_reset(&b);
	assert_int_equal(gs_buf_printf(&b, "%d-%s", 42, "a"), 0);
	assert_int_equal(gs_buf_printf(&b, "%s", long_text), 0);
	assert_int_equal(b.bytes, 1004);
	assert_memory_equal(b.data, "42-all", 6);
	assert_int_equal(strlen((char *)b.data), b.bytes);
	gs_buf_fini(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(grows_and_keeps),
		cmocka_unit_test(the_maximum_is_exact),
		cmocka_unit_test(a_maximum_beyond_all_memory),
		cmocka_unit_test(extends_with_zeros),
		cmocka_unit_test(prints),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
