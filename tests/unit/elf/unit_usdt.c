/* Static probes: the notes of this very program, and all ways of writing an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static unsigned short gs_unit_guarded_semaphore __attribute__((section(".probes"), used));
#define _SDT_HAS_SEMAPHORES 1
static unsigned short gs_unit_plain_semaphore __attribute__((section(".probes"), used));
#include <sys/sdt.h>

#include "sources/elf/usdt.h"

static __attribute__((noinline)) int marked(int a, long b, char c)
{
	STAP_PROBE3(gs_unit, plain, a, b, c);
	if (gs_unit_guarded_semaphore)
		STAP_PROBE1(gs_unit, guarded, -7);
	return a + c;
}

struct seen {
	unsigned n, n_args[2], n_ref;
	int64_t constant;
};

static int on_site(void *ctx, const struct gs_usdt_site *site)
{
	struct seen *s = ctx;

	if (strcmp(site->provider, "gs_unit") != 0)
		return 0;
	s->n_args[strcmp(site->name, "guarded") == 0] = site->n_args;
	s->n_ref += site->ref_ctr_off != 0;
	if (site->n_args == 1 && site->args[0].place == GS_USDT_CONSTANT)
		s->constant = site->args[0].value;
	assert_true(site->file_off > 0);
	assert_null(site->bad_arg);
	s->n++;
	return 0;
}

static void test_own_notes(void **state)
{
	struct seen seen = {0};
	struct gs_elf *elf = NULL;
	struct gs_err err;

	assert_int_equal(marked(1, 2, 3), 4);
	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, &err), 0);
	assert_int_equal(gs_elf_usdt(elf, on_site, &seen, &err), 0);
	gs_elf_close(&elf);
	assert_int_equal(seen.n, 2);
	assert_int_equal(seen.n_args[0], 3);
	assert_int_equal(seen.n_args[1], 1);
	assert_int_equal(seen.n_ref, 2);
	assert_int_equal(seen.constant, -7);
}

static int stop(void *ctx, const struct gs_usdt_site *site)
{
	return 42;
}

static void test_walk_ends_when_told(void **state)
{
	struct gs_elf *elf = NULL;
	struct gs_err err;

	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, &err), 0);
	assert_int_equal(gs_elf_usdt(elf, stop, NULL, &err), 42);
	gs_elf_close(&elf);
}

static void test_find(void **state)
{
	struct gs_usdt_places probes[] = {{.provider = "gs_unit", .name = "guarded"},
					  {.provider = "gs_unit", .name = "plain"},
					  {.provider = "other", .name = "plain"}};
	struct gs_elf *elf = NULL;
	struct gs_err err;

	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, &err), 0);
	for (unsigned twice = 0; twice < 2; twice++)
		assert_int_equal(gs_elf_usdt_find(elf, probes, 3, &err), 0);
	gs_elf_close(&elf);
	assert_int_equal(probes[0].n, 1);
	assert_int_equal(probes[1].n, 1);
	assert_int_equal(probes[2].n, 0);
	assert_true(probes[0].at[0].ref_ctr_off > 0);
	assert_true(probes[0].at[0].file_off != probes[1].at[0].file_off);
	assert_true(probes[0].at[0].vaddr > 0);
}

#define NO GS_USDT_NO_REG

static const struct {
	const char *text;
	struct gs_usdt_arg arg;
} args[] = {
	{"8@%rdi", {GS_USDT_REGISTER, 8, false, 14, 0, NO, 0, 0}},
	{"-4@%eax", {GS_USDT_REGISTER, 4, true, 10, 0, NO, 0, 0}},
	{"1@%r8b", {GS_USDT_REGISTER, 1, false, 9, 0, NO, 0, 0}},
	{"-1@%bh", {GS_USDT_REGISTER, 1, true, 5, 8, NO, 0, 0}},
	{"2@%r15w", {GS_USDT_REGISTER, 2, false, 0, 0, NO, 0, 0}},
	{"-4@$-1", {GS_USDT_CONSTANT, 4, true, 0, 0, NO, 0, -1}},
	{"8@$0x7f", {GS_USDT_CONSTANT, 8, false, 0, 0, NO, 0, 127}},
	{"8@(%rsp)", {GS_USDT_MEMORY, 8, false, 19, 0, NO, 0, 0}},
	{"-4@-20(%rbp)", {GS_USDT_MEMORY, 4, true, 4, 0, NO, 0, -20}},
	{"8@16(%rax,%rbx,8)", {GS_USDT_MEMORY, 8, false, 10, 0, 5, 3, 16}},
	{"8@(%rax,%rbx)", {GS_USDT_MEMORY, 8, false, 10, 0, 5, 0, 0}},
	{"4@0x10(,%rcx,4)", {GS_USDT_MEMORY, 4, false, NO, 0, 11, 2, 16}},
	{"%rdx", {GS_USDT_REGISTER, 8, false, 12, 0, NO, 0, 0}},
};

static void test_arguments(void **state)
{
	struct gs_usdt_arg got[GS_USDT_ARG_MAX];
	const char *bad;

	for (size_t i = 0; i < GS_ARRAY_LEN(args); i++) {
		assert_int_equal(gs_usdt_parse_args(args[i].text, got, &bad), 1);
		assert_null(bad);
		assert_int_equal(got[0].place, args[i].arg.place);
		assert_int_equal(got[0].bytes, args[i].arg.bytes);
		assert_int_equal(got[0].is_signed, args[i].arg.is_signed);
		if (got[0].place != GS_USDT_CONSTANT)
			assert_int_equal(got[0].reg, args[i].arg.reg);
		assert_int_equal(got[0].shift, args[i].arg.shift);
		assert_int_equal(got[0].index_reg, args[i].arg.index_reg);
		assert_int_equal(got[0].scale_shift, args[i].arg.scale_shift);
		assert_int_equal(got[0].value, args[i].arg.value);
	}
}

static void test_arguments_that_cannot_be_read(void **state)
{
	static const struct {
		const char *text;
		unsigned n;
		const char *why;
	} wrong[] = {
		{"8@%rdi 8f@%xmm0", 1, "a floating-point number"},
		{"8@%xmm1", 0, "a floating-point register"},
		{"3@%rdi", 0, "a size other than 1, 2, 4 and 8 bytes"},
		{"8@%nope", 0, "an unknown register"},
		{"8@$abc", 0, "a constant that is not a number"},
		{"8@symbol(%rip)", 0, "an address with the name of a symbol"},
		{"8@4(%rax,%rbx,3)", 0, "a scale other than 1, 2, 4 and 8"},
		{"8@()", 0, "an address that is not understood"},
		{"8@%rdix", 0, "an unknown register"},
		{"1@%al 2@%ax 4@%eax 8@%rax 1@%al 2@%ax 4@%eax 8@%rax 1@%al 2@%ax 4@%eax 8@%rax "
		 "1@%bl",
		 12, "more arguments than sys/sdt.h knows"},
	};
	struct gs_usdt_arg got[GS_USDT_ARG_MAX];
	const char *bad;

	for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
		assert_int_equal(gs_usdt_parse_args(wrong[i].text, got, &bad), wrong[i].n);
		assert_string_equal(bad, wrong[i].why);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_notes),
		cmocka_unit_test(test_walk_ends_when_told),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_arguments_that_cannot_be_read),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
