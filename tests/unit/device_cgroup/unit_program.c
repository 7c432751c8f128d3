/* Device programs as instructions: kept, added to, taken apart again, and what they answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "core/base/mem.h"
#include "sources/device_cgroup/device_int.h"

#define INSN(c, d, s, o, i)                                                                        \
	((struct bpf_insn){.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)})

#define READ_WRITE_CHAR (6u << 16 | 2)
#define READ_BLOCK      (2u << 16 | 1)
#define MKNOD_CHAR      (1u << 16 | 2)

static const struct device_rules nvidia = {2, {{195, DEVICE_ANY_MINOR}, {511, 0}}};

/* Allows character device 1:3 alone, as runc writes it. */
static const struct bpf_insn null_only[] = {
	INSN(0x61, 2, 1, 0, 0), INSN(0x54, 2, 0, 0, 0xffff), INSN(0x61, 3, 1, 4, 0),
	INSN(0x61, 4, 1, 8, 0), INSN(0x55, 2, 0, 4, 2),      INSN(0x55, 3, 0, 3, 1),
	INSN(0x55, 4, 0, 2, 3), INSN(0xb7, 0, 0, 0, 1),      INSN(0x95, 0, 0, 0, 0),
	INSN(0xb7, 0, 0, 0, 0), INSN(0x95, 0, 0, 0, 0)};

/* The same as Linux 6.18 shows it with net.core.bpf_jit_harden=2. */
static const struct bpf_insn hardened[] = {INSN(0x61, 2, 1, 0, 0),
					   INSN(0xb4, 11, 0, 0, -819451237),
					   INSN(0xa4, 11, 0, 0, -819407516),
					   INSN(0x5c, 2, 11, 0, 0),
					   INSN(0x61, 3, 1, 4, 0),
					   INSN(0x61, 4, 1, 8, 0),
					   INSN(0xb7, 11, 0, 0, -679971056),
					   INSN(0xa7, 11, 0, 0, -679971054),
					   INSN(0x5d, 2, 11, 10, 0),
					   INSN(0xb7, 11, 0, 0, -751662692),
					   INSN(0xa7, 11, 0, 0, -751662691),
					   INSN(0x5d, 3, 11, 7, 0),
					   INSN(0xb7, 11, 0, 0, 942533114),
					   INSN(0xa7, 11, 0, 0, 942533113),
					   INSN(0x5d, 4, 11, 4, 0),
					   INSN(0xb7, 11, 0, 0, 1758811546),
					   INSN(0xa7, 11, 0, 0, 1758811547),
					   INSN(0xbf, 0, 11, 0, 0),
					   INSN(0x95, 0, 0, 0, 0),
					   INSN(0xaf, 0, 0, 0, 0),
					   INSN(0x95, 0, 0, 0, 0)};

static int decide(const struct bpf_insn *insns, size_t n, uint32_t access, uint32_t major,
		  uint32_t minor)
{
	uint32_t steps = 1000;

	return device_program_decide(insns, n, access, major, minor, &steps);
}

static void constants_are_shown_again(void **state)
{
	struct bpf_insn insns[GS_ARRAY_LEN(hardened)];
	size_t n = GS_ARRAY_LEN(insns);
	const char *why;

	memcpy(insns, hardened, sizeof(hardened));
	assert_int_equal(device_program_normalize(insns, &n, &why), 0);
	assert_null(why);
	assert_int_equal(n, GS_ARRAY_LEN(null_only));
	assert_memory_equal(insns, null_only, sizeof(null_only));
}

static void head_adds_its_devices_alone(void **state)
{
	struct bpf_insn insns[DEVICE_HEAD_MAX + GS_ARRAY_LEN(null_only)];
	size_t n_head = device_program_write_head(&nvidia, insns),
	       n = n_head + GS_ARRAY_LEN(null_only);
	struct device_rules rules;

	memcpy(insns + n_head, null_only, sizeof(null_only));
	assert_int_equal(decide(insns, n, READ_WRITE_CHAR, 195, 0), 1);
	assert_int_equal(decide(insns, n, READ_WRITE_CHAR, 195, 255), 1);
	assert_int_equal(decide(insns, n, READ_WRITE_CHAR, 511, 0), 1);
	assert_int_equal(decide(insns, n, READ_WRITE_CHAR, 511, 1), 0);
	assert_int_equal(decide(insns, n, READ_WRITE_CHAR, 1, 3), 1);
	assert_int_equal(decide(insns, n, READ_WRITE_CHAR, 1, 5), 0);
	assert_int_equal(decide(insns, n, MKNOD_CHAR, 195, 0), 0);
	assert_int_equal(decide(insns, n, READ_BLOCK, 195, 0), 0);
	assert_int_equal(device_program_read_head(insns, n, &rules), n_head);
	assert_int_equal(rules.n, nvidia.n);
	assert_memory_equal(rules.rule, nvidia.rule, nvidia.n * sizeof(nvidia.rule[0]));
	/* One instruction differs: it is another's. */
	insns[2].imm = 0xff;
	assert_int_equal(device_program_read_head(insns, n, &rules), 0);
	assert_int_equal(device_program_read_head(null_only, GS_ARRAY_LEN(null_only), &rules), 0);
	/* A head without an old program behind it. */
	device_program_write_head(&nvidia, insns);
	assert_int_equal(device_program_read_head(insns, n_head, &rules), 0);
}

static void most_rules_fit(void **state)
{
	struct bpf_insn insns[DEVICE_HEAD_MAX + 2];
	struct device_rules rules = {0}, read;
	size_t n;

	for (uint32_t i = 0; i < DEVICE_RULES_MAX; i++)
		assert_true(device_add_rule(&rules, 195, i));
	assert_false(device_add_rule(&rules, 195, DEVICE_RULES_MAX));
	n = device_program_write_head(&rules, insns);
	assert_true(n <= DEVICE_HEAD_MAX);
	insns[n] = INSN(0xb7, 0, 0, 0, 0);
	insns[n + 1] = INSN(0x95, 0, 0, 0, 0);
	assert_int_equal(device_program_read_head(insns, n + 2, &read), n);
	assert_memory_equal(&read, &rules, sizeof(rules));
	for (uint32_t i = 0; i <= DEVICE_RULES_MAX; i++)
		assert_int_equal(decide(insns, n + 2, READ_WRITE_CHAR, 195, i),
				 i < DEVICE_RULES_MAX);
}

static void which_device_is_forbidden(void **state)
{
	struct device_rules rules = {2, {{1, 3}, {195, DEVICE_ANY_MINOR}}};
	struct device_rule forbidden;
	size_t n = GS_ARRAY_LEN(null_only);

	assert_int_equal(device_program_allows(null_only, n, &rules, &forbidden), 0);
	assert_int_equal(forbidden.major, 195);
	assert_int_equal(forbidden.minor, 0);
	rules.n = 1;
	assert_int_equal(device_program_allows(null_only, n, &rules, &forbidden), 1);
}

static void unkept_programs_say_why(void **state)
{
	static const struct {
		struct bpf_insn insns[3];
		size_t n;
		const char *why;
	} cases[] = {
		{{INSN(0x85, 0, 0, 0, 7), INSN(0x95, 0, 0, 0, 0)},
		 2,
		 "it calls functions of the kernel"},
		{{INSN(0x18, 2, 1, 0, 7), INSN(0, 0, 0, 0, 0), INSN(0x95, 0, 0, 0, 0)},
		 3,
		 "it uses maps"},
		{{INSN(0xbf, 11, 1, 0, 0), INSN(0x95, 0, 0, 0, 0)},
		 2,
		 "it has instructions that only the kernel generates"},
		{{INSN(0x05, 0, 0, 5, 0), INSN(0x95, 0, 0, 0, 0)},
		 2,
		 "it jumps out of the program"},
		{{INSN(0x06, 0, 0, 0, 0), INSN(0x95, 0, 0, 0, 0)}, 2, "it has far jumps"},
		{{INSN(0x30, 0, 0, 0, 0), INSN(0x95, 0, 0, 0, 0)}, 2, "it reads packets"},
		{{INSN(0x18, 2, 0, 0, 7)}, 1, "it reads packets"},
		{{{0}}, 0, "the kernel does not show its instructions"},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct bpf_insn insns[3];
		size_t n = cases[i].n;
		const char *why = NULL;

		memcpy(insns, cases[i].insns, sizeof(insns));
		assert_int_equal(device_program_normalize(insns, &n, &why), -ENOTSUP);
		assert_string_equal(why, cases[i].why);
	}
}

static void jumps_survive_what_is_left_out(void **state)
{
	/* for (i = 0; i != 3; i++) ; with a jump to the next instruction before, in and behind. */
	struct bpf_insn insns[] = {
		INSN(0x05, 0, 0, 0, 0), INSN(0xb7, 0, 0, 0, 0),  INSN(0x07, 0, 0, 0, 1),
		INSN(0x05, 0, 0, 0, 0), INSN(0x55, 0, 0, -3, 3), INSN(0x05, 0, 0, 0, 0),
		INSN(0x18, 2, 0, 0, 9), INSN(0, 0, 0, 0, 0),     INSN(0x95, 0, 0, 0, 0)};
	size_t n = GS_ARRAY_LEN(insns);
	const char *why;

	assert_int_equal(device_program_normalize(insns, &n, &why), 0);
	assert_int_equal(n, 6);
	assert_int_equal(insns[2].code, 0x55);
	assert_int_equal(insns[2].off, -2);
	assert_int_equal(insns[3].code, 0x18);
	assert_int_equal(decide(insns, n, 0, 0, 0), 1);
}

static void bounds_hold(void **state)
{
	const struct bpf_insn ever[] = {INSN(0x05, 0, 0, -1, 0), INSN(0x95, 0, 0, 0, 0)};
	const struct bpf_insn outside[] = {INSN(0x61, 0, 1, 12, 0), INSN(0x95, 0, 0, 0, 0)};
	const struct bpf_insn below[] = {INSN(0x7b, 10, 1, -520, 0), INSN(0x95, 0, 0, 0, 0)};
	const struct bpf_insn above[] = {INSN(0x7b, 10, 1, -4, 0), INSN(0x95, 0, 0, 0, 0)};
	const struct bpf_insn stack[] = {INSN(0x7a, 10, 0, -8, 5), INSN(0x69, 0, 10, -8, 0),
					 INSN(0x95, 0, 0, 0, 0)};
	const struct bpf_insn write[] = {INSN(0x62, 1, 0, 0, 5), INSN(0x95, 0, 0, 0, 0)};
	const struct bpf_insn no_end[] = {INSN(0xb7, 0, 0, 0, 1)};

	assert_int_equal(decide(ever, 2, 0, 0, 0), -ELOOP);
	assert_int_equal(decide(outside, 2, 0, 0, 0), -ENOTSUP);
	assert_int_equal(decide(below, 2, 0, 0, 0), -ENOTSUP);
	assert_int_equal(decide(above, 2, 0, 0, 0), -ENOTSUP);
	assert_int_equal(decide(write, 2, 0, 0, 0), -ENOTSUP);
	assert_int_equal(decide(no_end, 1, 0, 0, 0), -ENOTSUP);
	assert_int_equal(decide(stack, 3, 0, 0, 0), 1);
}

/* r0 = 1 where the operation gives what the kernel's own would. */
static void arithmetic_is_the_kernels(void **state)
{
	static const struct {
		uint8_t code;
		int32_t a, b;
		int64_t result;
	} cases[] = {
		{0x07, 3, 4, 7},
		{0x17, 3, 4, -1},
		{0x14, 3, 4, 0xffffffff},
		{0x27, -2, 3, -6},
		{0x37, 7, 2, 3},
		{0x37, 7, 0, 0},
		{0x97, 7, 4, 3},
		{0x97, 7, 0, 7},
		{0x47, 5, 2, 7},
		{0x57, -1, 15, 15},
		{0xa7, 6, 3, 5},
		{0x67, 1, 33, 1ll << 33},
		{0x64, 1, 33, 2},
		{0x77, -1, 60, 15},
		{0x74, -1, 28, 15},
		{0xc7, -16, 2, -4},
		{0xc4, -16, 2, 0xfffffffc},
		{0xc7, 16, 2, 4},
		{0x84, 1, 0, 0xffffffff},
		{0xb4, 0, -1, 0xffffffff},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		const struct bpf_insn insns[] = {INSN(0xb7, 2, 0, 0, cases[i].a),
						 INSN(cases[i].code, 2, 0, 0, cases[i].b),
						 INSN(0x18, 3, 0, 0, (int32_t)cases[i].result),
						 INSN(0, 0, 0, 0, (int32_t)(cases[i].result >> 32)),
						 INSN(0xb7, 0, 0, 0, 1),
						 INSN(0x1d, 2, 3, 1, 0),
						 INSN(0xb7, 0, 0, 0, 0),
						 INSN(0x95, 0, 0, 0, 0)};

		if (decide(insns, GS_ARRAY_LEN(insns), 0, 0, 0) != 1)
			fail_msg("operation %#x of %d and %d", cases[i].code, cases[i].a,
				 cases[i].b);
	}
}

static void jumps_are_the_kernels(void **state)
{
	static const struct {
		uint8_t code; /* of 64 bits */
		int32_t a, b;
		int wide, narrow; /* whether it is taken */
	} cases[] = {
		{0x15, 1, 1, 1, 1},   {0x15, 1, 2, 0, 0},  {0x55, 1, 2, 1, 1},  {0x25, -1, 1, 1, 1},
		{0x25, 1, -1, 0, 0},  {0x35, 1, 1, 1, 1},  {0xa5, 1, 2, 1, 1},  {0xb5, 2, 2, 1, 1},
		{0x45, 6, 2, 1, 1},   {0x45, 4, 2, 0, 0},  {0x65, -1, 1, 0, 0}, {0x65, 2, 1, 1, 1},
		{0x75, -1, -1, 1, 1}, {0xc5, -1, 0, 1, 1}, {0xd5, 0, 0, 1, 1},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++)
		for (int narrow = 0; narrow < 2; narrow++) {
			const struct bpf_insn insns[] = {
				INSN(0xb7, 2, 0, 0, cases[i].a), INSN(0xb7, 0, 0, 0, 1),
				INSN((uint8_t)(cases[i].code + narrow), 2, 0, 1, cases[i].b),
				INSN(0xb7, 0, 0, 0, 0), INSN(0x95, 0, 0, 0, 0)};
			int wanted = narrow ? cases[i].narrow : cases[i].wide;

			if (decide(insns, GS_ARRAY_LEN(insns), 0, 0, 0) != wanted)
				fail_msg("jump %#x of %d and %d", cases[i].code + narrow,
					 cases[i].a, cases[i].b);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constants_are_shown_again),
		cmocka_unit_test(head_adds_its_devices_alone),
		cmocka_unit_test(most_rules_fit),
		cmocka_unit_test(which_device_is_forbidden),
		cmocka_unit_test(unkept_programs_say_why),
		cmocka_unit_test(jumps_survive_what_is_left_out),
		cmocka_unit_test(bounds_hold),
		cmocka_unit_test(arithmetic_is_the_kernels),
		cmocka_unit_test(jumps_are_the_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
