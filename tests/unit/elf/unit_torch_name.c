/* Names of PyTorch's operators out of symbols and schemas. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/elf/torch_name.h"
#include "model/trace/kernel_side.h"

static void assert_part(const char *symbol, const char *wanted)
{
	const char *part = NULL;
	size_t bytes = 0;

	assert_int_equal(gs_torch_part(symbol, &part, &bytes), wanted != NULL);
	if (!wanted)
		return;
	assert_int_equal(bytes, strlen(wanted));
	assert_memory_equal(part, wanted, bytes);
}

static void parts_of_symbols(void **state)
{
	assert_part("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE", "add_Tensor");
	assert_part("_ZN2at4_ops2mm4callERKNS_6TensorES4_", "mm");
	assert_part("_ZN2at4_ops18_foreach_add__List4callEN3c108ArrayRefINS_6TensorEEES5_",
		    "_foreach_add__List");
	assert_part("_ZN2at4_ops10add_Tensor10redispatchEN3c1014DispatchKeySetE", NULL);
	assert_part("_ZN2at4_ops11add_Tensor4callE", NULL); /* one byte less than it says */
	assert_part("_ZN2at4_ops10add_Tensor4call", NULL);
	assert_part("_ZN2at4_ops99999999999999999999x4callE", NULL);
	assert_part("_ZN2at4_ops04callE", NULL);
	assert_part("_ZN2at4_ops", NULL);
	assert_part("_ZN2at4_ops3a+b4callEv", NULL);
	assert_part("_ZN2at6native3addERKNS_6TensorE", NULL);
	assert_part("", NULL);
}

static void names_of_schemas(void **state)
{
	assert_int_equal(gs_torch_schema_name("add.Tensor(Tensor self) -> Tensor"), 10);
	assert_int_equal(gs_torch_schema_name("_foreach_add_.List(Tensor[] self) -> ()"), 18);
	assert_int_equal(gs_torch_schema_name("mm(Tensor self) -> Tensor"), 2);
	assert_int_equal(gs_torch_schema_name("no space (x) -> y"), 0);
	assert_int_equal(gs_torch_schema_name("a.b.c(x) -> y"), 0);
	assert_int_equal(gs_torch_schema_name("a.(x) -> y"), 0);
	assert_int_equal(gs_torch_schema_name("(x) -> y"), 0);
	assert_int_equal(gs_torch_schema_name("9a(x) -> y"), 0);
	assert_int_equal(gs_torch_schema_name(""), 0);
}

static void globs(void **state)
{
	const char *add = "aten::add.Tensor";

	assert_true(gs_torch_matches("add", add));
	assert_true(gs_torch_matches("aten::add", add));
	assert_true(gs_torch_matches("add.*", add));
	assert_true(gs_torch_matches("aten::add.Tensor", add));
	assert_true(gs_torch_matches("*", add));
	assert_false(gs_torch_matches("add_", add));
	assert_false(gs_torch_matches("add.Scalar", add));
	assert_false(gs_torch_matches("", add));
	assert_true(gs_torch_matches("autograd::*", "autograd::execute"));
	assert_false(gs_torch_matches("execute", "autograd::execute"));
}

static void sets(void **state)
{
	assert_string_equal(gs_torch_eacgm_name("add.Tensor"), "TorchAdd");
	assert_string_equal(gs_torch_eacgm_name("max_unpool2d"), "TorchMaxUnpool2d");
	assert_null(gs_torch_eacgm_name("add_.Tensor"));
	assert_null(gs_torch_eacgm_name("addmm"));
	assert_true(gs_torch_is_trivial("size.int"));
	assert_true(gs_torch_is_trivial("is_complex"));
	assert_true(gs_torch_is_trivial("detach"));
	assert_true(gs_torch_is_trivial("view.dtype"));
	assert_false(gs_torch_is_trivial("view_copy"));
	assert_false(gs_torch_is_trivial("_local_scalar_dense"));
	assert_false(gs_torch_is_trivial("detach_copy"));
}

static void spans(void **state)
{
	assert_string_equal(gs_torch_span("_ZN5torch8autograd6Engine7executeERKSt6vector"),
			    "autograd::execute");
	assert_string_equal(gs_torch_span("_ZN5torch5optim3SGD4stepESt8functionIFvvEE"),
			    "optim::SGD.step");
	assert_null(gs_torch_span("_ZN5torch8autograd6Engine23execute_with_graph_taskE"));
	assert_null(gs_torch_span(""));
}

/* Of Debian's 1.13 and of builds with the string of the old ABI. */
static void span_sites(void **state)
{
	const char *text =
		"_ZN5torch8autograd8profiler25record_function_enter_newERKNSt7__cxx1112basic_"
		"stringIcSt11char_traitsIcESaIcEEERKN3c108optionalIS7_EE";

	assert_int_equal(gs_torch_span_site(text), GS_SPAN_NAME);
	text = "_ZN5torch8autograd8profiler25record_function_enter_newERKSsRKN3c108optionalISsEE";
	assert_int_equal(gs_torch_span_site(text), GS_SPAN_NAME);
	text = "_ZN2at14RecordFunctionC1ENS_11RecordScopeE";
	assert_int_equal(gs_torch_span_site(text), GS_SPAN_BEGIN);
	assert_int_equal(gs_torch_span_site("_ZN2at14RecordFunction3endEv"), GS_SPAN_END);
	assert_int_equal(gs_torch_span_site("_ZN2at14RecordFunctionC1EONS_13StepCallbacksE"), 0);
	assert_int_equal(gs_torch_span_site("_ZN2at14RecordFunction3end"), 0);
	assert_int_equal(gs_torch_span_site(""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_of_symbols),
		cmocka_unit_test(names_of_schemas),
		cmocka_unit_test(globs),
		cmocka_unit_test(sets),
		cmocka_unit_test(spans),
		cmocka_unit_test(span_sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
