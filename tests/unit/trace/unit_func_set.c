/* Functions given ids during a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "model/trace/func_set.h"

static void the_fixed_table_is_there(void **state)
{
	struct gs_func_set *s = gs_func_set_new();

	assert_non_null(s);
	for (unsigned id = 0; id < GS_FUNC_FIXED; id++) {
		assert_ptr_equal(gs_func_set_get(s, id), gs_func_by_id(id));
		assert_ptr_equal(gs_func_set_get(NULL, id), gs_func_by_id(id));
	}
	assert_null(gs_func_set_get(s, GS_FUNC_FIXED));
	assert_null(gs_func_set_get(NULL, GS_FUNC_FIXED));
	assert_true(gs_func_count() < GS_FUNC_FIXED);
	gs_func_set_free(&s);
	assert_null(s);
}

static void a_name_has_one_id_in_its_layer(void **state)
{
	struct gs_func_set *s = gs_func_set_new();
	uint16_t a, b, c;

	assert_int_equal(
		gs_func_set_add(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::add.Tensor", &a), 0);
	assert_int_equal(
		gs_func_set_add(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "aten::add.Tensor", &b), 0);
	assert_int_equal(gs_func_set_add(s, GS_LAYER_USER, GS_CLASS_PROBE, "aten::add.Tensor", &c),
			 0);
	assert_int_equal(a, GS_FUNC_FIXED);
	assert_int_equal(b, a);
	assert_int_equal(c, a + 1);
	assert_string_equal(gs_func_set_get(s, a)->name, "aten::add.Tensor");
	assert_int_equal(gs_func_set_get(s, a)->desc.layer, GS_LAYER_TORCH);
	assert_int_equal(gs_func_set_get(s, c)->desc.op, GS_CLASS_PROBE);
	assert_int_equal(gs_func_set_end(s), a + 2);
	gs_func_set_free(&s);
}

static void a_full_set_refuses(void **state)
{
	struct gs_func_set *s = gs_func_set_new();
	char name[32];
	uint16_t id;

	for (unsigned i = GS_FUNC_FIXED; i < GS_FUNC_MAX; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(gs_func_set_add(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, name, &id),
				 0);
		assert_int_equal(id, i);
	}
	assert_int_equal(gs_func_set_add(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "more", &id),
			 -ENOBUFS);
	assert_int_equal(gs_func_set_add(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "f2000", &id), 0);
	assert_int_equal(id, 2000);
	assert_null(gs_func_set_get(s, GS_FUNC_MAX));
	gs_func_set_free(&s);
}

/* Names that come later. */
static void reserved(void **state)
{
	GS_CLEANUP(gs_func_set_free) struct gs_func_set *s = gs_func_set_new();
	const struct gs_func *f;
	uint16_t id, first, after;

	assert_int_equal(gs_func_set_add(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "a", &id), 0);
	assert_int_equal(gs_func_set_name(s, id, "x"), -EINVAL);
	assert_int_equal(gs_func_set_reserve(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, GS_FUNC_MAX,
					     "rest", &first),
			 -ENOBUFS);
	assert_int_equal(
		gs_func_set_reserve(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, 3, "rest", &first), 0);
	assert_int_equal(first, id + 1);
	assert_int_equal(
		gs_func_set_reserve(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, 3, "rest", &first),
		-ENOBUFS);
	assert_int_equal(gs_func_set_add(s, GS_LAYER_TORCH, GS_CLASS_OPERATOR, "b", &after), 0);
	assert_int_equal(after, first + 3);
	assert_string_equal(gs_func_set_get(s, first)->name, "rest");
	assert_null(gs_func_set_get(s, first + 1u));
	assert_int_equal(gs_func_set_name(s, first, "x"), -EINVAL);
	assert_int_equal(gs_func_set_name(s, after, "x"), -EINVAL);
	assert_int_equal(gs_func_set_name(s, first + 2u, "step"), 0);
	assert_int_equal(gs_func_set_name(s, first + 2u, "again"), -EINVAL);
	f = gs_func_set_get(s, first + 2u);
	assert_string_equal(f->name, "step");
	assert_int_equal(f->id, first + 2);
	assert_int_equal(f->desc.layer, GS_LAYER_TORCH);
	assert_null(gs_func_set_get(s, first + 1u));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_fixed_table_is_there),
		cmocka_unit_test(a_name_has_one_id_in_its_layer),
		cmocka_unit_test(a_full_set_refuses),
		cmocka_unit_test(reserved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
