/* Probe files: what they mean, and what is said of each wrong one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/trace/class.h"
#include "model/trace/record_stack.h"
#include "sources/probefile/probefile.h"

static struct gs_user_set *parsed(const char *text)
{
	struct gs_user_set *set = gs_user_set_new();
	struct gs_err err = {{0}};
	int r = gs_probefile_parse(text, strlen(text), "f", set, &err);

	if (r < 0)
		fail_msg("%s: %s", text, gs_err_text(&err, r));
	return set;
}

static void test_whole(void **state)
{
	struct gs_user_set *set =
		parsed("- name: n\n"
		       "  lib: libx.so*\n"
		       "  function: f\n"
		       "  args: [\"arg1: bytes size\", arg2: i32 kind, '*arg3: str path',\n"
		       "         'arg4+8->16@return: u16 tag', 'arg8: ptr', 'ret: i64']\n"
		       "  filter: size > 1MB && kind == -2\n"
		       "  aggregate: hist(size)\n");
	const struct gs_user_spec *s = gs_user_set_spec(set, 0);
	const struct gs_user_value *v = s->row.values;

	assert_int_equal(gs_user_set_n(set), 1);
	assert_string_equal(s->name, "n");
	assert_string_equal(s->library, "libx.so*");
	assert_string_equal(s->function, "f");
	assert_int_equal(s->row.flags, GS_USER_RETURN);
	assert_int_equal(s->row.n_values, 6);
	assert_int_equal(s->row.n_texts, 1);
	assert_int_equal(v[0].reg, 14); /* di */
	assert_int_equal(v[0].value_type, GS_VALUE_BYTES);
	assert_int_equal(v[1].reg, 13); /* si */
	assert_int_equal(v[1].bytes, 4);
	assert_true(v[1].is_signed);
	assert_int_equal(v[2].n_chain, 1);
	assert_int_equal(v[2].chain[0], 0);
	assert_int_equal(v[3].n_chain, 2);
	assert_int_equal(v[3].chain[0], 8);
	assert_int_equal(v[3].chain[1], 16);
	assert_int_equal(v[3].when, GS_WHEN_MEMORY_LATER);
	assert_int_equal(v[4].from, GS_FROM_STACK);
	assert_int_equal(v[4].add, 16); /* the second above the return address */
	assert_string_equal(s->names[4].name, "arg8");
	assert_int_equal(v[5].when, GS_WHEN_RETURN);
	assert_int_equal(s->row.aggregate, GS_AGGREGATE_HIST);
	assert_int_equal(s->row.aggregate_value, 0);
	gs_user_set_free(&set);
}

static void test_filter_program(void **state)
{
	static const struct {
		uint8_t code;
		uint64_t imm;
	} wanted[] = {{GS_OP_VALUE, 0},
		      {GS_OP_CONSTANT, 1 << 20},
		      {GS_OP_GT, 0},
		      {GS_OP_VALUE, 0},
		      {GS_OP_CONSTANT, 2},
		      {GS_OP_NEGATE, 0},
		      {GS_OP_LT_S, 0},
		      {GS_OP_DURATION, 0},
		      {GS_OP_CONSTANT, 1500000},
		      {GS_OP_GE, 0},
		      {GS_OP_AND, 0},
		      {GS_OP_OR, 0}};
	struct gs_user_set *set = parsed(
		"- {function: f, args: [arg1: u64 s, arg2: i32 k], filter: s > 1MB || k < -2 && "
		"duration >= 1.5ms}");
	const struct gs_user_row *row = &gs_user_set_spec(set, 0)->row;

	assert_int_equal(row->n_ops, GS_ARRAY_LEN(wanted));
	for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++) {
		assert_int_equal(row->ops[i].code, wanted[i].code);
		assert_int_equal(row->ops[i].imm, wanted[i].imm);
	}
	assert_int_equal(row->flags, GS_USER_RETURN | GS_USER_FILTER_LATE);
	gs_user_set_free(&set);
}

static void test_stack(void **state)
{
	static const struct {
		const char *text;
		unsigned flags;
	} wanted[] = {{"- {function: f, stack: native}", GS_USER_NATIVE_STACK | GS_USER_ALWAYS},
		      {"- {function: f, stack: python}", GS_USER_PY_STACK | GS_USER_ALWAYS},
		      {"- {function: f, stack: true}",
		       GS_USER_PY_STACK | GS_USER_NATIVE_STACK | GS_USER_ALWAYS},
		      {"- {function: f, stack: false, aggregate: count}", 0}};

	for (size_t i = 0; i < GS_ARRAY_LEN(wanted); i++) {
		struct gs_user_set *set = parsed(wanted[i].text);

		assert_int_equal(gs_user_set_spec(set, 0)->row.flags, wanted[i].flags);
		gs_user_set_free(&set);
	}
}

static void test_eacgm(void **state)
{
	struct gs_user_set *set = parsed(
		"[{\"name\": \"CUDASampler\", \"exe_path\": [\"/a/libcudart.so\", "
		"\"/b/libcudart.so\"],"
		" \"exe_sym\": [\"cudaMalloc\", \"cudaFree\"]},"
		" {\"name\": \"TorchSampler\", \"exe_path\": [\"/t.so\"],"
		" \"exe_sym\": [\"_ZN5torch8autogradL15THPVariable_addEP7_objectS2_S2_\"]}]");

	assert_int_equal(gs_user_set_n(set), 5);
	assert_string_equal(gs_user_set_spec(set, 0)->library, "/a/libcudart.so");
	assert_string_equal(gs_user_set_spec(set, 1)->function, "cudaFree");
	assert_string_equal(gs_user_set_spec(set, 2)->library, "/b/libcudart.so");
	assert_int_equal(gs_user_set_spec(set, 4)->row.flags, GS_USER_RETURN);
	gs_user_set_free(&set);
}

static void test_usdt(void **state)
{
	struct gs_user_set *set =
		parsed("probes: [{usdt: 'python:gc__start', args: {arg1: i32 gen}}]");
	const struct gs_user_spec *s = gs_user_set_spec(set, 0);

	assert_string_equal(s->provider, "python");
	assert_string_equal(s->probe, "gc__start");
	assert_int_equal(s->row.flags, 0);
	assert_int_equal(s->func_class, GS_CLASS_SITE);
	gs_user_set_free(&set);
}

/* A return probe may end the program: none is made unless something asks for the return. */
static void test_no_return_unless_asked(void **state)
{
	struct gs_user_set *set =
		parsed("- function: f\n"
		       "- {function: f, return: true}\n"
		       "- {function: f, args: ['ret: i32']}\n"
		       "- {function: f, args: ['*arg1@return: i32']}\n"
		       "- {function: f, filter: duration > 1s}\n"
		       "- {function: f, aggregate: hist(duration)}\n"
		       "- {function: _Z1fv, args: ['arg1: i32 n'], aggregate: sum(n)}\n");

	for (size_t i = 0; i < gs_user_set_n(set); i++) {
		const struct gs_user_spec *s = gs_user_set_spec(set, i);
		bool wanted = i != 0 && i != 6;

		assert_int_equal(s->row.flags & GS_USER_RETURN, wanted ? GS_USER_RETURN : 0);
		assert_int_equal(s->func_class, wanted ? GS_CLASS_PROBE : GS_CLASS_SITE);
	}
	gs_user_set_free(&set);
}

#define F(rest) "- function: f\n  " rest
#define A(rest) F("args: [arg1: u64 size, arg2: str path, '*arg3: f64 x', arg4: i32 k]\n  " rest)

static const struct {
	const char *text, *message;
} faults[] = {
	{"", "f:1:1: the file is empty"},
	{"x: 1",
	 "f:1:1: the file must be a list of probes, or \"probes:\" with such a list and nothing else"},
	{"probes: 3", "f:1:9: a list of probes is expected here"},
	{"[]", "f:1:1: the list has no probes"},
	{"- f", "f:1:3: a probe is a mapping: \"function: NAME\" or \"usdt: PROVIDER:NAME\", and "
		"more keys"},
	{"- {lib: x}", "f:1:3: \"function: NAME\" or \"usdt: PROVIDER:NAME\" is missing"},
	{"- {function: f, usdt: 'a:b'}", "f:1:3: a probe has \"function\" or \"usdt\", not both"},
	{"- {usdt: ab}", "f:1:10: \"usdt\" takes PROVIDER:NAME, such as pytorch:malloc"},
	{"- {function: 'f*'}",
	 "f:1:14: a pattern of functions needs \"lib\": the files to look in"},
	{F("colour: red"),
	 "f:2:3: \"colour\" is not a key of a probe: name lib function usdt return "
	 "args filter aggregate stack"},
	{F("stack: yes"), "f:2:10: \"stack\" takes native, python, true (both) or false"},
	{F("stack: [native]"), "f:2:10: \"stack\" takes native, python, true (both) or false"},
	{F("stack: native\n  aggregate: count"),
	 "f:2:10: calls that are added up have no stacks: \"stack\" "
	 "and \"aggregate\" do not go together"},
	{F("function: g"), "f:2:3: \"function\" is given twice"},
	{F("return: maybe"), "f:2:11: \"return\" takes true or false"},
	{"- {usdt: 'a:b', return: true}",
	 "f:1:25: a static probe is a place, which does not return"},
	{F("args: 3"), "f:2:9: \"args\" takes a list"},
	{F("args: [size]"),
	 "f:2:10: a value is described as \"PLACE: TYPE NAME\", such as \"arg1: u64 size\""},
	{F("args: [arg1: u63 size]"),
	 "f:2:16: \"u63\" is not a type: u8 u16 u32 u64 i8 i16 i32 i64 bool bytes ptr str f32 f64 "
	 "char[N] (N up to 127)"},
	{F("args: ['arg1: u63 size']"),
	 "f:2:17: \"u63\" is not a type: u8 u16 u32 u64 i8 i16 i32 i64 bool bytes ptr str f32 f64 "
	 "char[N] (N up to 127)"},
	{F("args: [arg1: 'char[8] name']"),
	 "f:2:17: char[N] is text in memory: *arg1, arg1+8 or str?"},
	{F("args: ['*arg1: char[128] name']"),
	 "f:2:18: \"char[128]\" is not a type: u8 u16 u32 u64 "
	 "i8 i16 i32 i64 bool bytes ptr str f32 f64 "
	 "char[N] (N up to 127)"},
	{F("args: [arg13: u64]"), "f:2:10: arguments are arg1 to arg12"},
	{F("args: [size: u64]"),
	 "f:2:10: \"size\" is not a place: arg1 ... arg12, ret, *arg1, arg1+8, arg1->8, *arg1@return"},
	{F("args: [arg1x: u64]"), "f:2:14: \"x\" is not understood here"},
	{F("args: [arg1+: u64]"), "f:2:15: a number of bytes is missing here"},
	{F("args: ['****arg1: u64']"), "f:2:11: more than three pointers to follow"},
	{F("args: [arg1: f64]"), "f:2:16: floating-point arguments are in registers that a probe "
				 "cannot read; those in memory can be"},
	{F("args: [arg1: u64 a-b]"), "f:2:21: \"a-b\" is not a name: letters, digits and _"},
	{F("args: [arg1: u64 a b]"),
	 "f:2:22: a type and one name are expected, such as \"u64 size\""},
	{F("args: [arg1: u64 a, arg2: u64 a]"), "f:2:33: a second value with the name \"a\""},
	{F("args: [arg1: u64 pid]"),
	 "f:2:20: \"pid\" is a name that filters reserve for the call itself"},
	{F("args: [arg1@return: u64]"),
	 "f:2:10: at the return only memory can be read: *arg1@return?"},
	{F("return: false\n  args: [ret: u64]"),
	 "f:3:10: ret needs the return, which this probe does not see (return: false)"},
	{F("args: [*arg1: u64]"), "f:2:10: not YAML: found undefined alias (* begins an alias in "
				  "YAML: put \"*arg1: ...\" in quotes)"},
	{A("filter: sise > 1"),
	 "f:3:11: no value is named \"sise\": there are size, path, x, k, duration, pid, tid"},
	{A("filter: size"), "f:3:11: a filter is a condition, and this is a number"},
	{A("filter: size > 1 && k"), "f:3:23: && needs conditions on both sides, and this is a "
				     "number (compare it with something)"},
	{A("filter: path > 3"), "f:3:18: a number cannot be compared with a string"},
	{A("filter: path > 'a'"), "f:3:11: > is for numbers, and this is a string"},
	{A("filter: duration > 1MB"), "f:3:22: a number of bytes cannot be compared with a time"},
	{A("filter: size > 1XB"),
	 "f:3:19: \"XB\" is not a unit: KB MB GB TB of bytes (powers of 1024), ns us ms s m of time"},
	{A("filter: size > 1.5"),
	 "f:3:18: only numbers with a unit may have a fraction, such as 1.5MB"},
	{A("filter: size > 99999999999999999999"), "f:3:18: the number is too large"},
	{A("filter: size >"), "f:3:17: a value is missing at the end"},
	{A("filter: (size > 1"), "f:3:20: a \")\" is missing here"},
	{A("filter: size = 1"), "f:3:16: \"= 1\" is not understood here (== compares)"},
	{A("filter: size > 1 $"), "f:3:20: \"$\" is not understood here"},
	{A("filter: \"path == 'abc\""), "f:3:20: unterminated string"},
	{A("filter: '!size'"),
	 "f:3:13: ! needs a condition (such as !(size > 4)), and this is a number"},
	{A("filter: k+1+2+3+4+5+6+7+8+9+1+2+3+4+5+6+7 > 1"),
	 "f:3:11: the filter is too complex for the kernel: 35 steps, at most 32"},
	{A("filter: k+(k+(k+(k+(k+(k+(k+(k+k))))))) > 1"),
	 "f:3:11: the filter is too complex for the kernel: it stacks 9 operands, at most 8 (use "
	 "fewer parentheses on the right)"},
	{F("args: ['*arg1: f32 x']\n  filter: x > 1"),
	 "f:3:11: x is a floating-point number, which filters cannot use"},
	{F("return: false\n  filter: duration > 1s"),
	 "f:3:11: duration needs the return, which this probe does not see"},
	{A("aggregate: mean(size)"),
	 "f:3:14: \"mean(size)\" is not an aggregate: count, sum(VALUE), "
	 "hist(VALUE) or hist(duration)"},
	{A("aggregate: sum(path)"), "f:3:18: path is a string: only whole numbers can be added up"},
	{A("aggregate: hist(nope)"),
	 "f:3:19: no value is named \"nope\": there are size, path, x, k, duration, pid, tid"},
	{"- {name: a, exe_path: [x]}",
	 "f:1:3: exe_path and exe_sym go together: one of them is missing"},
	{"- {exe_path: [x], exe_sym: [y], filter: a}",
	 "f:1:41: \"filter\" does not go with exe_path and exe_sym"},
	{"- {exe_path: [[]], exe_sym: [y]}", "f:1:15: \"exe_path\" takes a list of texts"},
};

static void test_faults(void **state)
{
	unsigned n_wrong = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(faults); i++) {
		struct gs_user_set *set = gs_user_set_new();
		struct gs_err err = {{0}};
		const char *wanted = faults[i].message;
		int r = gs_probefile_parse(faults[i].text, strlen(faults[i].text), "f", set, &err);

		if (r != -22 || strcmp(gs_err_text(&err, r), wanted) != 0)
			print_error("%s\n  %s\n  wanted: %s\n", faults[i].text,
				    gs_err_text(&err, r), wanted);
		n_wrong += r != -22 || strcmp(gs_err_text(&err, r), wanted) != 0;
		gs_user_set_free(&set);
	}
	assert_int_equal(n_wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),  cmocka_unit_test(test_filter_program),
		cmocka_unit_test(test_stack),  cmocka_unit_test(test_eacgm),
		cmocka_unit_test(test_usdt),   cmocka_unit_test(test_no_return_unless_asked),
		cmocka_unit_test(test_faults),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
