/* Where functions are left: each call that returns passes exactly one of the places told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "code/exit.h"

#define MAX 16

static int exits(const uint8_t *code, size_t bytes, struct gs_exit out[MAX])
{
	memset(out, 0, MAX * sizeof(*out));
	return gs_exits_x86_64(code, bytes, out, MAX);
}

static void a_plain_return_is_stepped(void **state)
{
	const uint8_t code[] = {0x31, 0xc0, 0xc3}; /* xor %eax,%eax; ret */
	struct gs_exit x[MAX];

	assert_int_equal(exits(code, sizeof(code), x), 1);
	assert_int_equal(x[0].offset_bytes, 2);
	assert_int_equal(x[0].frame_bytes, 0);
	assert_true(x[0].is_stepped && x[0].when_taken && x[0].when_not_taken);
}

/* The shape of an operator: after the work, a branch to the rest of the cleaning up. */
static void gates_before_the_return(void **state)
{
	const uint8_t code[] = {
		0x53,                      /*  0 push %rbx */
		0x48, 0x83, 0xec, 0x20,    /*  1 sub $32,%rsp */
		0xff, 0xd0,                /*  5 call *%rax */
		0x80, 0x3c, 0x24, 0x00,    /*  7 cmpb $0,(%rsp) */
		0x75, 0x06,                /* 11 jne 19 */
		0x48, 0x83, 0xc4, 0x20,    /* 13 add $32,%rsp */
		0x5b,                      /* 17 pop %rbx */
		0xc3,                      /* 18 ret */
		0x85, 0xc0,                /* 19 test %eax,%eax */
		0x74, 0xf6,                /* 21 je 13 */
		0xe8, 0,    0,    0,    0, /* 23 call */
		0xeb, 0xef,                /* 28 jmp 13 */
	};
	struct gs_exit x[MAX];

	assert_int_equal(exits(code, sizeof(code), x), 3);
	assert_int_equal(x[0].offset_bytes, 11);
	assert_int_equal(x[0].condition, 5);
	assert_true(x[0].when_not_taken && !x[0].when_taken);
	assert_int_equal(x[1].offset_bytes, 21);
	assert_int_equal(x[1].condition, 4);
	assert_true(x[1].when_taken && !x[1].when_not_taken);
	assert_int_equal(x[2].offset_bytes, 28);
	assert_true(x[2].when_taken && x[2].when_not_taken);
	for (int i = 0; i < 3; i++) {
		assert_false(x[i].is_stepped);
		assert_int_equal(x[i].frame_bytes, 8 + 8 + 32);
	}
}

static void behind_a_call_the_return_itself(void **state)
{
	const uint8_t code[] = {
		0x53,                /* 0 push %rbx */
		0x74, 0x05,          /* 1 je 8 */
		0xe8, 0,    0, 0, 0, /* 3 call */
		0x5b,                /* 8 pop %rbx */
		0xc3,                /* 9 ret */
	};
	struct gs_exit x[MAX];

	assert_int_equal(exits(code, sizeof(code), x), 1);
	assert_int_equal(x[0].offset_bytes, 9);
	assert_true(x[0].is_stepped);
}

static void one_branch_two_returns(void **state)
{
	const uint8_t code[] = {
		0x85, 0xff, /* 0 test %edi,%edi */
		0x75, 0x03, /* 2 jne 7 */
		0x31, 0xc0, /* 4 xor %eax,%eax */
		0xc3,       /* 6 ret */
		0xc3,       /* 7 ret */
	};
	struct gs_exit x[MAX];

	assert_int_equal(exits(code, sizeof(code), x), 1);
	assert_int_equal(x[0].offset_bytes, 2);
	assert_true(x[0].when_taken && x[0].when_not_taken && !x[0].is_stepped);
}

static void a_loop_is_not_left_by_its_back_edge(void **state)
{
	const uint8_t code[] = {
		0xff, 0xcf, /* 0 dec %edi */
		0x75, 0xfc, /* 2 jne 0 */
		0xc3,       /* 4 ret */
	};
	struct gs_exit x[MAX];

	assert_int_equal(exits(code, sizeof(code), x), 1);
	assert_int_equal(x[0].offset_bytes, 2);
	assert_true(x[0].when_not_taken && !x[0].when_taken);
}

static void jumps_to_other_functions(void **state)
{
	const uint8_t tail[] = {0x53, 0x5b, 0xe9, 0, 1, 0, 0};       /* push; pop; jmp +256 */
	const uint8_t cold[] = {0x53, 0xe9, 0, 1, 0, 0, 0x5b, 0xc3}; /* push; jmp +256; pop; ret */
	struct gs_exit x[MAX];

	assert_int_equal(exits(tail, sizeof(tail), x), 1);
	assert_int_equal(x[0].offset_bytes, 2);
	assert_int_equal(x[0].frame_bytes, 0);
	assert_true(x[0].when_taken && x[0].when_not_taken && !x[0].is_stepped);
	/* With its frame in place it has not ended; nobody jumps to the return. */
	assert_int_equal(exits(cold, sizeof(cold), x), -EILSEQ);
}

static void what_cannot_be_told(void **state)
{
	const uint8_t bad[] = {0x06, 0xc3}, none[] = {0x90}, drops[] = {0xc2, 8, 0};
	const uint8_t table[] = {0x74, 1, 0x90, 0xff, 0xe0, 0x74, 0, 0xc3}; /* jmp *%rax */
	uint8_t many[2 * MAX + 2];
	struct gs_exit x[MAX];

	assert_int_equal(exits(bad, sizeof(bad), x), -EILSEQ);
	assert_int_equal(exits(none, sizeof(none), x), -EILSEQ);
	assert_int_equal(exits(drops, sizeof(drops), x), -EILSEQ);
	assert_int_equal(exits(table, 0, x), -EILSEQ);
	/* An indirect jump may lead to it. */
	assert_int_equal(exits(table, sizeof(table), x), 1);
	assert_true(x[0].is_stepped);
	memset(many, 0xc3, sizeof(many));
	assert_int_equal(exits(many, 1, x), 1);
	for (size_t i = 0; i + 1 < sizeof(many); i += 2) {
		many[i] = 0xff; /* call *%rax, ret */
		many[i + 1] = 0xd0;
	}
	assert_int_equal(exits(many, sizeof(many), x), -EILSEQ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plain_return_is_stepped),
		cmocka_unit_test(gates_before_the_return),
		cmocka_unit_test(behind_a_call_the_return_itself),
		cmocka_unit_test(one_branch_two_returns),
		cmocka_unit_test(a_loop_is_not_left_by_its_back_edge),
		cmocka_unit_test(jumps_to_other_functions),
		cmocka_unit_test(what_cannot_be_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
