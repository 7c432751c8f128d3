/* Where functions are left: each call that returns passes exactly one of the places told. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/x86/exit.h"
#include "unit/rounds.h"

#define MAX 16

static int exits(const uint8_t *code, size_t bytes, struct gs_exit out[MAX])
{
	memset(out, 0, MAX * sizeof(*out));
	return gs_x86_find_exits(code, bytes, NULL, out, MAX);
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

/* ---- with what is around the function ---- */

/* Calls to CALLEE_FREE give memory back, to CALLEE_THROW do not return. */
#define CALLEE_FREE  0x1000
#define CALLEE_THROW 0x2000
#define COLD_AT      0x400

struct cold {
	const uint8_t *code;
	size_t bytes;
};

static size_t read_cold(void *ctx, int64_t offset, uint8_t *buf, size_t bytes)
{
	const struct cold *c = ctx;
	size_t at = (size_t)(offset - COLD_AT), n;

	if (offset < COLD_AT || at >= c->bytes)
		return 0;
	n = c->bytes - at < bytes ? c->bytes - at : bytes;
	memcpy(buf, c->code + at, n);
	return n;
}

static enum gs_callee callee(void *ctx, int64_t offset)
{
	if (offset == CALLEE_FREE)
		return GS_CALLEE_RELEASE;
	return offset == CALLEE_THROW ? GS_CALLEE_NO_RETURN : GS_CALLEE_WORK;
}

static int exits_around(const uint8_t *code, size_t bytes, const uint8_t *cold, size_t cold_bytes,
			struct gs_exit out[MAX])
{
	struct cold c = {cold, cold_bytes};
	const struct gs_exit_around around = {&c, read_cold, callee};

	memset(out, 0, MAX * sizeof(*out));
	return gs_x86_find_exits(code, bytes, &around, out, MAX);
}

/* A call or jump of five bytes at `at`. */
static void put_rel32(uint8_t *code, size_t at, uint8_t opcode, int64_t from, int64_t target)
{
	int32_t rel = (int32_t)(target - (from + (int64_t)at + 5));

	code[at] = opcode;
	memcpy(code + at + 1, &rel, sizeof(rel));
}

static void assert_exit(const struct gs_exit *x, int64_t at, bool taken, bool not_taken)
{
	assert_int_equal(x->offset_bytes, at);
	assert_int_equal(x->when_taken, taken);
	assert_int_equal(x->when_not_taken, not_taken);
	assert_false(x->is_stepped);
}

/* How an operator ends in PyTorch's own builds: a flag, then a string that may have memory. */
static const uint8_t wheel[] = {
	0x53,                         /*  0 push %rbx */
	0x48, 0x83, 0xec, 0x78,       /*  1 sub $0x78,%rsp */
	0xff, 0xd0,                   /*  5 call *%rax */
	0x80, 0x7c, 0x24, 0x60, 0x00, /*  7 cmpb $0,0x60(%rsp) */
	0x74, 0x13,                   /* 12 je 33 */
	0x48, 0x8b, 0x3c, 0x24,       /* 14 mov (%rsp),%rdi */
	0x48, 0x8d, 0x44, 0x24, 0x10, /* 18 lea 0x10(%rsp),%rax */
	0x48, 0x39, 0xc7,             /* 23 cmp %rax,%rdi */
	0x74, 0x05,                   /* 26 je 33 */
	0xe8, 0,    0,    0,    0,    /* 28 call free */
	0x48, 0x83, 0xc4, 0x78,       /* 33 add $0x78,%rsp */
	0x48, 0x89, 0xe8,             /* 37 mov %rbp,%rax */
	0x5b,                         /* 40 pop %rbx */
	0xc3,                         /* 41 ret */
	0xe8, 0,    0,    0,    0,    /* 42 call: the slow way */
	0xeb, 0xd6,                   /* 47 jmp 7 */
	0x85, 0xc0,                   /* 49 test %eax,%eax */
	0x75, 0xec,                   /* 51 jne 33 */
	0x0f, 0x0b,                   /* 53 ud2 */
};

static void a_string_freed_before_the_return(void **state)
{
	uint8_t code[sizeof(wheel)];
	struct gs_exit x[MAX];

	memcpy(code, wheel, sizeof(code));
	put_rel32(code, 28, 0xe8, 0, CALLEE_FREE);
	assert_int_equal(exits_around(code, sizeof(code), NULL, 0, x), 4);
	assert_exit(&x[0], 12, true, false);
	assert_exit(&x[1], 26, true, false);
	assert_exit(&x[2], 28, true, true);
	assert_exit(&x[3], 51, true, false);
	for (int i = 0; i < 4; i++)
		assert_int_equal(x[i].frame_bytes, 8 + 8 + 0x78);

	/* What is called may be the work: then only behind it, at the ret. */
	put_rel32(code, 28, 0xe8, 0, CALLEE_FREE + 1);
	assert_int_equal(exits_around(code, sizeof(code), NULL, 0, x), 1);
	assert_int_equal(x[0].offset_bytes, 41);
	assert_true(x[0].is_stepped);

	/* And behind what does not return nothing comes. */
	put_rel32(code, 28, 0xe8, 0, CALLEE_THROW);
	assert_int_equal(exits_around(code, sizeof(code), NULL, 0, x), 3);
	assert_exit(&x[0], 12, true, false);
	assert_exit(&x[1], 26, true, false);
	assert_exit(&x[2], 51, true, false);
}

static void ways_back_from_a_part_apart(void **state)
{
	uint8_t code[sizeof(wheel) + 6], cold[17];
	struct gs_exit x[MAX];

	memcpy(code, wheel, sizeof(wheel));
	put_rel32(code, 28, 0xe8, 0, CALLEE_FREE);
	/* jne cold, in place of jne 33 and ud2: six bytes */
	code[51] = 0x0f;
	code[52] = 0x85;
	memcpy(code + 53, &(int32_t){COLD_AT - 57}, 4);
	code[57] = 0x0f;
	code[58] = 0x0b;
	memset(cold, 0x90, sizeof(cold));
	cold[0] = 0x85; /* test %eax,%eax */
	cold[1] = 0xc0;
	cold[2] = 0x0f; /* je 33, into the tail */
	cold[3] = 0x84;
	memcpy(cold + 4, &(int32_t){33 - (COLD_AT + 8)}, 4);
	put_rel32(cold, 8, 0xe9, COLD_AT, 7); /* before the tail */
	assert_int_equal(exits_around(code, 59, cold, sizeof(cold), x), 4);
	assert_exit(&x[0], 12, true, false);
	assert_exit(&x[1], 26, true, false);
	assert_exit(&x[2], 28, true, true);
	assert_exit(&x[3], COLD_AT + 2, true, false);
	assert_int_equal(x[3].condition, 4);
	assert_int_equal(x[3].frame_bytes, 8 + 8 + 0x78);
	/* Into the middle of an instruction: not understood. */
	memcpy(cold + 4, &(int32_t){34 - (COLD_AT + 8)}, 4);
	assert_int_equal(exits_around(code, 59, cold, sizeof(cold), x), 1);
	assert_true(x[0].is_stepped);
}

/* A loop before the ret stays outside; its last round is the way in. One that cannot be told by a
 * condition (loop) may not be a part of the tail. */
static void loops_before_the_return(void **state)
{
	const uint8_t outside[] = {0x53, 0x90, 0x75,
				   0xfd, 0x5b, 0xc3}; /* push; nop; jne; pop; ret */
	const uint8_t inside[] = {0x75, 0x00, 0x90, 0xe2, 0xfd, 0xc3}; /* jne; nop; loop; ret */
	const uint8_t ahead[] = {0x75, 0x00, 0xe3, 0x01, 0x90, 0xc3};  /* jne; jrcxz; nop; ret */
	struct gs_exit x[MAX];

	assert_int_equal(exits_around(outside, sizeof(outside), NULL, 0, x), 1);
	assert_exit(&x[0], 2, false, true);
	assert_int_equal(exits_around(inside, sizeof(inside), NULL, 0, x), 1);
	assert_true(x[0].is_stepped);
	assert_int_equal(exits_around(ahead, sizeof(ahead), NULL, 0, x), 1);
	assert_exit(&x[0], 0, true, true);
}

/* One ret behind a call of work, the other one not: each for itself. */
static enum gs_callee checks_only(void *ctx, int64_t offset_bytes)
{
	return offset_bytes == 0x1000 ? GS_CALLEE_RELEASE : GS_CALLEE_WORK;
}

/* An interpreter: operations are reached by indirect jumps alone, and share one end. */
static void the_loop_of_an_interpreter(void **state)
{
	uint8_t code[] = {
		0x53,                      /*  0 push %rbx */
		0x48, 0x83, 0xec, 0x20,    /*  1 sub $32,%rsp */
		0xff, 0xe0,                /*  5 jmp *%rax */
		0x66, 0x90,                /*  7 nop */
		0x85, 0xc0,                /*  9 test %eax,%eax */
		0x74, 0x0b,                /* 11 je 24 */
		0xff, 0xe0,                /* 13 jmp *%rax */
		0xe9, 0x00, 0x01, 0,    0, /* 15 jmp 276: a part apart */
		0x85, 0xc0,                /* 20 test %eax,%eax */
		0xff, 0xe0,                /* 22 jmp *%rax */
		0xe8, 0,    0,    0,    0, /* 24 call of the check */
		0x48, 0x83, 0xc4, 0x20,    /* 29 add $32,%rsp */
		0x5b,                      /* 33 pop %rbx */
		0xc3,                      /* 34 ret */
	};
	struct gs_exit_around around = {.callee = checks_only, .is_loop = true};
	struct gs_exit x[MAX];

	put_rel32(code, 24, 0xe8, 0, 0x1000);
	assert_int_equal(gs_x86_find_exits(code, sizeof(code), &around, x, MAX), 1);
	assert_exit(&x[0], 24, true, true);
	assert_int_equal(x[0].depth_bytes, 40);
	/* The jump to the part apart is none of its ends: the stack is as in the loop. */
	around.is_loop = false;
	assert_int_equal(gs_x86_find_exits(code, sizeof(code), &around, x, MAX), 2);
	assert_int_equal(x[0].offset_bytes, 15);
	assert_int_equal(x[1].offset_bytes, 34);
	/* Without knowing what is called at the end, the return itself, where the stack is as at
	 * the entry. */
	around = (struct gs_exit_around){.is_loop = true};
	assert_int_equal(gs_x86_find_exits(code, sizeof(code), &around, x, MAX), 1);
	assert_int_equal(x[0].offset_bytes, 34);
	assert_int_equal(x[0].depth_bytes, 0);
	assert_true(x[0].is_stepped);
}

static void two_returns(void **state)
{
	uint8_t code[] = {
		0x53,                /*  0 push %rbx */
		0x85, 0xff,          /*  1 test %edi,%edi */
		0x74, 0x07,          /*  3 je 12 */
		0xe8, 0,    0, 0, 0, /*  5 call */
		0x5b,                /* 10 pop %rbx */
		0xc3,                /* 11 ret */
		0x31, 0xc0,          /* 12 xor %eax,%eax */
		0x5b,                /* 14 pop %rbx */
		0xc3,                /* 15 ret */
	};
	struct gs_exit x[MAX];

	put_rel32(code, 5, 0xe8, 0, CALLEE_FREE + 1);
	assert_int_equal(exits_around(code, sizeof(code), NULL, 0, x), 2);
	assert_exit(&x[0], 3, true, false);
	assert_int_equal(x[1].offset_bytes, 11);
	assert_true(x[1].is_stepped);
	put_rel32(code, 5, 0xe8, 0, CALLEE_FREE);
	assert_int_equal(exits_around(code, sizeof(code), NULL, 0, x), 2);
	assert_exit(&x[0], 3, true, false);
	assert_exit(&x[1], 5, true, true);
}

/* ---- all paths of functions by chance ---- */

enum { N_SLOTS = 14, N_COLD = 4, SLOT_BYTES = 8 };

enum what {
	NOTHING,
	BRANCH,
	LONG_BRANCH,
	JUMP,
	WORK,
	INDIRECT,
	RELEASE,
	RETURN,
	THROW,
	LOOP,
	N_WHAT
};

struct slot {
	enum what what;
	int64_t target;
};

/* Slots of eight bytes: an instruction and nops, which do not count as ways out. */
struct program {
	uint8_t code[(N_SLOTS + N_COLD) * SLOT_BYTES];
	struct slot slots[N_SLOTS + N_COLD];
};

static int64_t at_of(int slot)
{
	return slot < N_SLOTS ? slot * SLOT_BYTES : COLD_AT + (slot - N_SLOTS) * SLOT_BYTES;
}

static int slot_at(int64_t at)
{
	return (int)(at < COLD_AT ? at / SLOT_BYTES : N_SLOTS + (at - COLD_AT) / SLOT_BYTES);
}

static void make_slot(struct program *p, int i, unsigned *seed)
{
	struct slot *slot = &p->slots[i];
	uint8_t *code = p->code + (size_t)i * SLOT_BYTES;
	int64_t next = at_of(i) + 6;
	int32_t rel;

	/* From outside the function, only back: no slot of the cold part returns. */
	slot->what = (enum what)(rand_r(seed) % N_WHAT);
	if (i >= N_SLOTS && (slot->what == RETURN || slot->what == LOOP))
		slot->what = NOTHING;
	if (i == N_SLOTS - 1 || i == N_SLOTS + N_COLD - 1)
		slot->what = i < N_SLOTS ? RETURN : JUMP;
	/* The cold part is known from jumps to its first slot; nobody jumps to the push. */
	slot->target = at_of(1 + rand_r(seed) % (i < N_SLOTS ? N_SLOTS : N_SLOTS - 1));
	if (slot->what == LOOP || slot->what == BRANCH)
		slot->target = at_of(1 + rand_r(seed) % (N_SLOTS - 1));
	if (i >= N_SLOTS && slot->what == BRANCH)
		slot->what = LONG_BRANCH;
	memset(code, 0x90, SLOT_BYTES);
	switch (slot->what) {
	case BRANCH:
	case LOOP:
		code[0] = slot->what == LOOP ? 0xe3 : (uint8_t)(0x70 | rand_r(seed) % 16);
		code[1] = (uint8_t)(slot->target - at_of(i) - 2);
		break;
	case LONG_BRANCH:
		rel = (int32_t)(slot->target - next);
		code[0] = 0x0f;
		code[1] = (uint8_t)(0x80 | rand_r(seed) % 16);
		memcpy(code + 2, &rel, sizeof(rel));
		break;
	case JUMP:
		put_rel32(code, 0, 0xe9, at_of(i), slot->target);
		break;
	case WORK:
		put_rel32(code, 0, 0xe8, at_of(i), CALLEE_FREE + 1);
		break;
	case RELEASE:
		put_rel32(code, 0, 0xe8, at_of(i), CALLEE_FREE);
		break;
	case THROW:
		put_rel32(code, 0, 0xe8, at_of(i), CALLEE_THROW);
		break;
	case INDIRECT:
		code[0] = 0xff;
		code[1] = 0xd0;
		break;
	case RETURN:
		code[0] = 0xc3;
		break;
	default:
		break;
	}
}

static void make_program(struct program *p, unsigned seed)
{
	for (int i = 0; i < N_SLOTS + N_COLD; i++)
		make_slot(p, i, &seed);
	/* The entry has a frame, so that no jump is one to another function. */
	p->slots[0].what = NOTHING;
	memset(p->code, 0x90, SLOT_BYTES);
	p->code[0] = 0x53;
}

struct walk {
	const struct program *p;
	const struct gs_exit *x;
	int n;
	bool seen[N_SLOTS + N_COLD][3];
	bool failed;
	unsigned n_returns, n_cheap;
};

static int passed(const struct walk *w, int slot, bool taken)
{
	int n = 0;

	for (int i = 0; i < w->n; i++)
		if (w->x[i].offset_bytes == at_of(slot))
			n += taken ? w->x[i].when_taken : w->x[i].when_not_taken;
	return n;
}

/* Follows every path; n ways out were passed. */
static void follow(struct walk *w, int slot, int n)
{
	const struct slot *s = &w->p->slots[slot];

	if (n > 1)
		w->failed = true;
	if (w->failed || w->seen[slot][n])
		return;
	w->seen[slot][n] = true;
	switch (s->what) {
	case RETURN:
		w->n_returns++;
		w->n_cheap += n == 1;
		w->failed |= n + passed(w, slot, true) != 1;
		return;
	case THROW:
		return;
	case JUMP:
		follow(w, slot_at(s->target), n + passed(w, slot, true));
		return;
	case BRANCH:
	case LONG_BRANCH:
	case LOOP:
		follow(w, slot_at(s->target), n + passed(w, slot, true));
		break;
	default:
		break;
	}
	follow(w, slot + 1, n + passed(w, slot, false));
}

static void every_path_passes_one_exit(void **state)
{
	unsigned n_returns = 0, n_cheap = 0;

	for (unsigned seed = 1; seed <= TEST_ROUNDS(200000); seed++) {
		struct program p;
		struct gs_exit x[MAX * 2];
		struct cold cold = {p.code + N_SLOTS * SLOT_BYTES, N_COLD * SLOT_BYTES};
		const struct gs_exit_around around = {&cold, read_cold, callee};
		struct walk w = {.p = &p, .x = x};

		make_program(&p, seed);
		w.n = gs_x86_find_exits(p.code, N_SLOTS * SLOT_BYTES, &around, x, MAX * 2);
		assert_true(w.n > 0 || w.n == -EILSEQ);
		follow(&w, 0, 0);
		if (w.failed) {
			for (int i = 0; i < N_SLOTS + N_COLD; i++)
				print_message("%lld: what %d target %lld\n", (long long)at_of(i),
					      p.slots[i].what, (long long)p.slots[i].target);
			for (int i = 0; i < w.n; i++)
				print_message("exit %lld taken %d not %d stepped %d\n",
					      (long long)x[i].offset_bytes, x[i].when_taken,
					      x[i].when_not_taken, x[i].is_stepped);
			fail_msg("seed %u", seed);
		}
		n_returns += w.n_returns;
		n_cheap += w.n_cheap;
	}
	/* Enough were of either kind. */
	assert_true(n_cheap > 10000);
	assert_true(n_returns - n_cheap > 10000);
}

/* Where the result is known: at rets alone, and not where another function returns. */
static void returns_and_tail_calls(void **state)
{
	static const uint8_t plain[] = {
		0x55,                /*  0 push %rbp */
		0x85, 0xff,          /*  1 test %edi,%edi */
		0x74, 0x07,          /*  3 je 12 */
		0xe8, 0x10, 0, 0, 0, /*  5 call */
		0x5d,                /* 10 pop %rbp */
		0xc3,                /* 11 ret */
		0x5d,                /* 12 pop %rbp */
		0xc3,                /* 13 ret */
	};
	/* cmpl; je 12; jmp *(%rip); mov $4,%eax; ret: an entry of NVIDIA's driver */
	static const uint8_t stub[] = {0x83, 0x3d, 0, 0, 0,    0, 7, 0x74, 6, 0xff, 0x25,
				       0,    0,    0, 0, 0xb8, 4, 0, 0,    0, 0xc3};
	/* call; jmp to another function */
	static const uint8_t tail[] = {0xe8, 0x10, 0, 0, 0, 0xe9, 0x20, 0, 0, 0};
	static const uint8_t endless[] = {0xeb, 0xfe};
	/* lea 1(%rdi),%rax; ret */
	static const uint8_t leaf[] = {0x48, 0x8d, 0x47, 1, 0xc3};
	static const uint8_t system[] = {0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0xc3};
	/* test; jne to a part apart, which may throw; ret */
	static const uint8_t apart[] = {0x85, 0xff, 0x0f, 0x85, 0x80, 0, 0, 0, 0xc3};
	struct gs_returns returns;
	struct gs_exit x[MAX];

	assert_int_equal(gs_x86_find_returns(plain, sizeof(plain), x, MAX, &returns), 2);
	assert_int_equal(x[0].offset_bytes, 11);
	assert_int_equal(x[1].offset_bytes, 13);
	assert_true(x[0].is_stepped && x[0].frame_bytes == 0);
	assert_true(returns.calls && !returns.jumps && !returns.alone);
	assert_int_equal(gs_x86_find_returns(plain, sizeof(plain), x, 1, &returns), -E2BIG);

	assert_int_equal(gs_x86_find_returns(stub, sizeof(stub), x, MAX, &returns), 1);
	assert_int_equal(x[0].offset_bytes, 20);
	assert_true(!returns.calls && returns.jumps);
	assert_int_equal(returns.indirect_jump, 9);

	assert_int_equal(gs_x86_find_returns(tail, sizeof(tail), x, MAX, &returns), 0);
	assert_true(returns.calls && returns.jumps);
	assert_int_equal(returns.indirect_jump, -1);

	assert_int_equal(gs_x86_find_returns(leaf, sizeof(leaf), x, MAX, &returns), 1);
	assert_true(returns.alone);
	assert_int_equal(gs_x86_find_returns(system, sizeof(system), x, MAX, &returns), 1);
	assert_false(returns.alone);
	assert_int_equal(gs_x86_find_returns(apart, sizeof(apart), x, MAX, &returns), 1);
	assert_false(returns.alone);

	assert_int_equal(gs_x86_find_returns(endless, sizeof(endless), x, MAX, &returns), -EILSEQ);
	assert_int_equal(gs_x86_find_returns(plain, 4, x, MAX, &returns), -EILSEQ);
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
		cmocka_unit_test(a_string_freed_before_the_return),
		cmocka_unit_test(ways_back_from_a_part_apart),
		cmocka_unit_test(loops_before_the_return),
		cmocka_unit_test(the_loop_of_an_interpreter),
		cmocka_unit_test(two_returns),
		cmocka_unit_test(returns_and_tail_calls),
		cmocka_unit_test(every_path_passes_one_exit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
