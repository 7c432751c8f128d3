/* The choice of a site from bytes alone; unit_site_attach.c asks the kernel about the same. The
 * source is included for the decoder. */
#include "sources/x86/site.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include <stdio.h>

static const struct gs_x86_site_rules linux_6_18 = {.nop5_is_call = 1, .long_nop_is_emulated = 1};
static const struct gs_x86_site_rules linux_6_16 = {.long_nop_is_emulated = 1};
static const struct gs_x86_site_rules linux_5_8 = {0};

#define E GS_X86_SITE_EMULATED
#define M GS_X86_SITE_MOVED
#define S GS_X86_SITE_STEPPED
#define R GS_X86_SITE_REFUSED

struct sample {
	const char *what;
	const char *hex;
	enum gs_x86_site_kind kind;
	unsigned offset_bytes;
	const char *reason; /* a part of it */
};

static size_t from_hex(const char *hex, uint8_t *out, size_t max)
{
	size_t n = 0;
	unsigned x;
	int used;

	while (n < max && sscanf(hex, " %2x%n", &x, &used) == 1) {
		out[n++] = (uint8_t)x;
		hex += used;
	}
	return n;
}

/* The bytes lie in memory of just their length, so that a sanitizer sees any read behind them. */
static struct gs_x86_site choose(const char *hex, uint64_t function_bytes,
				 const struct gs_x86_site_rules *rules)
{
	uint8_t all[256];
	size_t n = from_hex(hex, all, sizeof(all));
	GS_FREE uint8_t *exact = malloc(n ? n : 1);

	assert_non_null(exact);
	memcpy(exact, all, n);
	return gs_x86_choose_site(exact, n, function_bytes, rules);
}

static void check(const struct sample *samples, size_t n, const struct gs_x86_site_rules *rules)
{
	for (size_t i = 0; i < n; i++) {
		const struct sample *s = &samples[i];
		struct gs_x86_site site = choose(s->hex, 0, rules);

		if (site.kind != s->kind || site.offset_bytes != s->offset_bytes ||
		    (!s->reason != !site.reason) || (s->reason && !strstr(site.reason, s->reason)))
			fail_msg("%s: kind %d at +%u (%s), expected %d at +%u (%s)", s->what,
				 site.kind, site.offset_bytes, site.reason ? site.reason : "-",
				 s->kind, s->offset_bytes, s->reason ? s->reason : "-");
	}
}

static void real_prologues(void **state)
{
	static const struct sample samples[] = {
		{"libcuda 535: cmpl, je, jmp *mem",
		 "813d 5a9c3b01 00ba1c32 7406 ff25 123b9a01 b804000000 c3", M, 10, NULL},
		{"libcuda 580: push %rbp; mov; push %r12; sub",
		 "55 4889e5 4154 4883ec08 813d 5a9c3b01 00ba1c32 7406", E, 0, NULL},
		{"push %r15", "4157 4156", E, 0, NULL},
		{"push %rsp", "54 c3", E, 0, NULL},
		{"endbr64; push", "f30f1efa 55 4889e5", M, 4, NULL},
		{"endbr64; jmp rel32", "f30f1efa e910000000", M, 4, NULL},
		{"endbr64; sub $8,%rsp", "f30f1efa 4883ec08 55", S, 0, "stack pointer changes"},
		{"xor; test; push", "31c0 4885ff 53 c3", M, 5, NULL},
		{"mov %rdi,%rax; sub %rsi,%rax; jae", "4889f8 4829f0 7305", M, 6, NULL},
		{"lea; cmp; ja", "488d4701 4883f810 0f8700010000", M, 8, NULL},
		{"movabs $..,%rax; push", "48b8 8877665544332211 55", M, 10, NULL},
		{"nccl: movabs; lea 8(%rsp),%r10; and $-32,%rsp",
		 "48b8 8877665544332211 4c8d542408 4883e4e0 41ff72f8", S, 0,
		 "stack pointer changes"},
		{"mov %fs:40,%rax; push", "64488b042528000000 55", M, 9, NULL},
		{"cmpb mem(%rip); jne", "803d 11223300 00 7505", M, 7, NULL},
		{"mov mem(%rip),%rax; test; je", "488b05 11223300 4885c0 7405", M, 10, NULL},
		{"movslq; cmovne; push", "4863c7 0f45c2 55", M, 6, NULL},
		{"movzx; shr; bt; jb", "0fb6c2 c1e803 0fa3c8 7205", M, 9, NULL},
		{"sete %al; neg; push", "0f94c0 f7d8 53", M, 5, NULL},
		{"movaps, movq, vmovdqu, vpxor; push",
		 "0f2805 11223300 f30f7e0f c5fe6f0e c5f9efc0 55", M, 19, NULL},
		{"rdx as a byte: mov %dh, then push", "b601 55", S, 0, "argument register"},
		{"ah is rax", "b401 55", M, 2, NULL},
		{"sil is an argument", "40b601 55", S, 0, "argument register"},
		{"call rel32", "e800000000 c3", E, 0, NULL},
		{"jmp rel8", "eb05", E, 0, NULL},
		{"je", "7405", E, 0, NULL},
		{"ret", "c3 55", S, 0, "is left"},
		{"xor; ret", "31c0 c3 55", S, 0, "is left"},
		{"jmp *mem (PLT)", "ff25 11223300 55", S, 0, "is left"},
		{"mov to memory; push", "48893d 11223300 55", S, 0, "memory is written"},
		{"red zone: mov %rdi,-8(%rsp); nop5", "48897c24f8 0f1f440000 488b4424f8", S, 0,
		 "memory is written"},
		{"mov %rsi,%rdi; push", "4889f7 55", S, 0, "argument register"},
		{"movups %xmm0,(%rdi); push", "0f1107 55", S, 0, "memory is written"},
		{"leaves the tables: fld", "d9ee 55", S, 0, "unknown effect"},
		{"push of an immediate", "6a01 55", S, 0, "stack pointer changes"},
		{"cqo writes rdx", "4899 55", S, 0, "argument register"},
		{"pop", "5d c3", S, 0, "stack pointer changes"},
		{"nine movs before the push", "89f8 89f8 89f8 89f8 89f8 89f8 89f8 89f8 89f8 55", S,
		 0, "first eight"},
		{"eight movs before the push", "89f8 89f8 89f8 89f8 89f8 89f8 89f8 89f8 55", M, 16,
		 NULL},
		{"a push past 32 bytes",
		 "48b81111111111111111 48b81111111111111111 48b81111111111111111 4883f801 55", S, 0,
		 "first eight"},
	};

	check(samples, GS_ARRAY_LEN(samples), &linux_5_8);
	check(samples, GS_ARRAY_LEN(samples), &linux_6_16);
	check(samples, GS_ARRAY_LEN(samples), &linux_6_18);
}

static void nops(void **state)
{
	static const struct sample old[] = {
		{"nop", "90 55", E, 0, NULL},
		{"nopl is stepped, the push behind it is not", "0f1f440000 55", M, 5, NULL},
		{"xchg %ax,%ax", "6690 4883ec08", S, 0, "stack pointer changes"},
	};
	static const struct sample since_6_16[] = {
		{"66 nop", "6690", E, 0, NULL},
		{"nop3", "0f1f00", E, 0, NULL},
		{"nop4", "0f1f4000", E, 0, NULL},
		{"nop5", "0f1f440000", E, 0, NULL},
		{"nop6", "660f1f440000", E, 0, NULL},
		{"nop7", "0f1f8000000000", E, 0, NULL},
		{"nop8", "0f1f840000000000", E, 0, NULL},
		{"endbr64; nop5", "f30f1efa 0f1f440000", M, 4, NULL},
		{"a nop of another form", "0f1f4001 55", M, 4, NULL},
		{"a nop of another form, alone", "0f1f4001 c3", S, 0, "is left"},
		{"five bytes of another form", "0f1f441122 c3", S, 0, "is left"},
		{"pause", "f390 55", M, 2, NULL},
		{"cs nopw; push", "662e0f1f840000000000 55", M, 10, NULL},
		{"cs nopw; ret", "662e0f1f840000000000 c3", R, 0, "segment prefix"},
	};
	static const struct sample since_6_18[] = {
		{"nop5", "0f1f440000 c3", R, 0, "five-byte nop"},
		{"five bytes of another form become a call as well", "0f1f441122 c3", R, 0,
		 "five-byte nop"},
		{"nop6", "660f1f440000", E, 0, NULL},
		{"a nop5 some bytes in", "31c0 0f1f440000 c3", S, 0, "is left"},
		{"a push after it", "f30f1efa 0f1f440000 55", M, 9, NULL},
		{"a push that is in a loop", "31c0 0f1f440000 55 ebf8", S, 0, "jump leads back"},
		{"a push after a first nop5 that is jumped to", "0f1f440000 55 ebf8", M, 5, NULL},
		{"a push after a first nop5, both in a loop", "0f1f440000 55 ebfd", R, 0,
		 "five-byte nop"},
	};

	check(old, GS_ARRAY_LEN(old), &linux_5_8);
	check(since_6_16, GS_ARRAY_LEN(since_6_16), &linux_6_16);
	check(since_6_18, GS_ARRAY_LEN(since_6_18), &linux_6_18);
}

static void refused(void **state)
{
	static const struct sample samples[] = {
		{"int3", "cc 55", R, 0, "already set a breakpoint"},
		{"lock cmpxchg", "f00fb117 c3", R, 0, "lock prefix"},
		{"lock inc of a variable, no push", "f0ff0511223344 c3", R, 0, "lock prefix"},
		{"lock inc of a variable, then a push", "f0ff0511223344 55 c3", M, 7, NULL},
		{"lock inc of what an argument points to", "f0ff07 55 c3", R, 0, "lock prefix"},
		{"lock xadd whose old value is in eax", "f00fc10511223344 53 c3", M, 8, NULL},
		{"lock xadd whose old value is in edi", "f00fc13d11223344 53 c3", R, 0,
		 "lock prefix"},
		{"lock cmpxchg8b changes edx", "f00fc70d11223344 53 c3", R, 0, "lock prefix"},
		{"a push that is jumped to again", "f0ff0511223344 53 ebfd", R, 0, "lock prefix"},
		{"hlt", "f4", R, 0, "allows no probe"},
		{"cli", "fa", R, 0, "allows no probe"},
		{"in", "ec", R, 0, "allows no probe"},
		{"out imm", "e601", R, 0, "allows no probe"},
		{"outs", "6e", R, 0, "allows no probe"},
		{"int $0x80", "cd80", R, 0, "allows no probe"},
		{"iret", "48cf", R, 0, "allows no probe"},
		{"icebp", "f1", R, 0, "allows no probe"},
		{"far ret", "cb", R, 0, "far jump"},
		{"far jmp *mem", "ff2f", R, 0, "far jump"},
		{"far call *mem", "ff1f", R, 0, "far jump"},
		{"notrack jmp *%rax", "3effe0", R, 0, "segment prefix"},
		{"callw", "66e800000000", R, 0, "word-sized"},
		{"jew", "660f8400000000", R, 0, "word-sized"},
		{"mov to ss", "8ed0", R, 0, "load of ss"},
		{"pushf", "9c 58", R, 0, "pushf"},
		{"xchg %r8,%rax", "4990 c3", R, 0, "xchg of r8"},
		{"syscall", "0f05", R, 0, "system call"},
		{"ud2", "0f0b", R, 0, "of the system"},
		{"vmovdqa store: its opcode 7f is good", "c5f97f07", S, 0, "memory is written"},
		{"vmovdqa load: its opcode 6f is outs", "c5f96f07 c3", R, 0, "allows no probe"},
		{"the same, a push follows", "c5f96f07 55", M, 4, NULL},
		{"push %es", "06", R, 0, "no known instruction"},
		{"xbegin", "c7f800000000", R, 0, "no known instruction"},
		{"lea of a register", "488dc0", R, 0, "no known instruction"},
		{"REX before VEX", "48c5f96f07", R, 0, "no known instruction"},
		{"sixteen prefixes", "66666666666666666666666666666666 90", R, 0,
		 "no known instruction"},
		{"cut off in the immediate", "48b8 887766", R, 0, "cut off"},
		{"cut off in the prefix", "66", R, 0, "cut off"},
		{"nothing", "", R, 0, "cut off"},
		{"undecodable after a good first", "31c0 06", S, 0, "unknown effect"},
	};

	check(samples, GS_ARRAY_LEN(samples), &linux_6_18);
	check(samples, GS_ARRAY_LEN(samples), &linux_6_16);
}

static void not_in_a_loop(void **state)
{
	static const struct sample samples[] = {
		{"jump to the site", "31c0 90 ffc0 83f80a 75f8 c3", S, 0, "jump leads back"},
		{"jump to between first byte and site", "31c0 4885ff 740a 48ffcf ebf6 c3", S, 0,
		 "jump leads back"},
		{"jump to the first byte is a tail call", "31c0 4885ff 740a 48ffcf ebf4 c3", M, 5,
		 NULL},
		{"rel32 jump back", "4885ff 740a 48ffcf 0f85f2ffffff c3", M, 3, NULL},
		{"rel32 jump back to the site", "4885ff 740a 48ffcf 0f85f5ffffff c3", S, 0,
		 "jump leads back"},
		{"loop instruction", "31c0 90 ffc0 e2fb c3", S, 0, "jump leads back"},
		{"jump behind the site", "31c0 53 ffc0 75fc 5b c3", M, 2, NULL},
		{"the jump comes after bytes that are no instruction", "31c0 53 06 75fb c3", M, 2,
		 NULL},
	};

	check(samples, GS_ARRAY_LEN(samples), &linux_5_8);
	/* The jump lies behind the end of the function: it is another function's. */
	assert_int_equal(choose("31c0 90 c3 ebfc", 4, &linux_5_8).kind, GS_X86_SITE_MOVED);
	assert_int_equal(choose("31c0 90 c3 ebfc", 6, &linux_5_8).kind, GS_X86_SITE_STEPPED);
}

static void never_behind_the_end(void **state)
{
	struct gs_x86_site site;

	site = choose("31c0 55 c3", 3, &linux_5_8);
	assert_int_equal(site.kind, GS_X86_SITE_MOVED);
	site = choose("31c0 55 c3", 2, &linux_5_8);
	assert_int_equal(site.kind, GS_X86_SITE_STEPPED);
	assert_non_null(strstr(site.reason, "function ends"));
	/* A site that would only begin inside. */
	site = choose("31c0 4155 c3", 3, &linux_5_8);
	assert_int_equal(site.kind, GS_X86_SITE_STEPPED);
	site = choose("4889f8 55", 1, &linux_5_8);
	assert_int_equal(site.kind, GS_X86_SITE_REFUSED);
	assert_int_equal(choose("55", 0, &linux_5_8).kind, GS_X86_SITE_EMULATED);
	assert_int_equal(choose("55", 1u << 31, &linux_5_8).kind, GS_X86_SITE_EMULATED);
}

static void lengths(void **state)
{
	static const struct {
		const char *hex;
		unsigned bytes;
	} table[] = {
		{"00c0", 2},
		{"8b042511223344", 7},          /* SIB without base */
		{"8b442408", 4},                /* SIB and disp8 */
		{"8b842411223344", 7},          /* SIB and disp32 */
		{"8b0511223344", 6},            /* rip */
		{"678b0511223344", 7},          /* eip */
		{"66b81122", 4},                /* imm16 */
		{"6648b81122334455667788", 11}, /* REX.W beats 66 */
		{"66c7001122", 5},
		{"f6c001", 3},
		{"f6d0", 2},
		{"66f7c01122", 5},
		{"f7c011223344", 6},
		{"48a11122334455667788", 10},
		{"6748a111223344", 7},
		{"c8112233", 4},
		{"c21122", 3},
		{"0fba3807", 4},
		{"0fa4c807", 4},
		{"0fc7c8", 3},
		{"660f3800c0", 5},
		{"660f3a0fc001", 6},
		{"f20f38f1c0", 5},
		{"c5f877", 3},
		{"c5f970c001", 5},
		{"c4e37d190001", 6},   /* vextractf128, map 3 */
		{"c4e2f1f7c0", 5},     /* shlx, map 2 */
		{"62f17c481007", 6},   /* vmovups (%rdi),%zmm0 */
		{"62f17c48104701", 7}, /* disp8 */
		{"62f37d48390001", 7}, /* vextracti32x4 */
		{"62f1fd487bc0", 6},   /* vcvtpd2qq, 0f 7b only with EVEX */
		{"62f57c4858c0", 6},   /* vaddph, map 5 */
		{"0fc8", 2},
		{"0f0fc0b4", 4}, /* 3DNow! */
		{"666666662e0f1f840000000000", 13},
	};
	uint8_t code[32];
	struct insn in;

	for (size_t i = 0; i < GS_ARRAY_LEN(table); i++) {
		size_t n = from_hex(table[i].hex, code, sizeof(code));

		assert_int_equal(n, table[i].bytes);
		if (!gs_x86_insn_decode(code, n, &in) || in.length_bytes != n)
			fail_msg("%s: not %u bytes", table[i].hex, table[i].bytes);
		for (size_t cut = 0; cut < n; cut++)
			if (gs_x86_insn_decode(code, cut, &in))
				fail_msg("%s: decoded from %zu bytes", table[i].hex, cut);
	}
}

/* A function of that many bytes with its site at +2, and others after it; nops where nothing is. */
struct far_code {
	uint8_t bytes[16384];
	unsigned n_function;
};

static size_t far_read(void *ctx, int64_t offset, uint8_t *buf, size_t bytes)
{
	const struct far_code *f = ctx;

	if (offset < 0 || offset >= (int64_t)sizeof(f->bytes))
		return 0;
	if (bytes > sizeof(f->bytes) - (size_t)offset)
		bytes = sizeof(f->bytes) - (size_t)offset;
	memcpy(buf, f->bytes + offset, bytes);
	return bytes;
}

/* A jump of 32 bits at one place to another; opcode e9, or the second byte of a conditional one. */
static void far_jump(struct far_code *f, int at, uint8_t opcode, int to)
{
	int32_t rel;

	if (opcode != 0xe9)
		f->bytes[at++] = 0x0f;
	f->bytes[at] = opcode;
	rel = to - (at + 5);
	memcpy(f->bytes + at + 1, &rel, sizeof(rel));
}

static struct gs_x86_site far_site(const struct far_code *f, bool sized)
{
	const struct gs_x86_site_source source = {(void *)(uintptr_t)f, far_read,
						  sized ? f->n_function : 0};

	return gs_x86_find_site(&source, &linux_6_18);
}

static void far_begin(struct far_code *f)
{
	memset(f->bytes, 0x90, sizeof(f->bytes));
	/* xor %eax,%eax; push %rbx */
	memcpy(f->bytes, "\x31\xc0\x53", 3);
	f->n_function = 3000;
}

static void jumps_back_from_afar(void **state)
{
	struct far_code f;

	far_begin(&f);
	assert_int_equal(far_site(&f, true).kind, M);
	assert_int_equal(far_site(&f, false).kind, M);
	/* From its last bytes, and from within what the length of an unsized one covers. */
	far_jump(&f, 2990, 0xe9, 2);
	assert_int_equal(far_site(&f, true).kind, S);
	assert_int_equal(far_site(&f, false).kind, S);
	/* To the first byte: a tail call of itself. */
	far_jump(&f, 2990, 0xe9, 0);
	assert_int_equal(far_site(&f, true).kind, M);
	/* After a table in the code, from where on instructions cannot be told. */
	far_begin(&f);
	f.bytes[1000] = 0x06;
	far_jump(&f, 2000, 0x84, 2);
	assert_int_equal(far_site(&f, true).kind, S);
	/* From a part that lies apart, to which the function jumps. */
	far_begin(&f);
	far_jump(&f, 100, 0x85, 12000);
	assert_int_equal(far_site(&f, true).kind, M);
	far_jump(&f, 12500, 0xe9, 1);
	assert_int_equal(far_site(&f, true).kind, S);
	/* What the function does not jump to is another function. */
	far_begin(&f);
	far_jump(&f, 12500, 0xe9, 1);
	assert_int_equal(far_site(&f, true).kind, M);
	/* Cut off, and too large. */
	f.n_function = sizeof(f.bytes) + 1;
	assert_int_equal(far_site(&f, true).kind, S);
	f.n_function = 2u << 20;
	assert_int_equal(far_site(&f, true).kind, S);
}

/* Any bytes: no crash, and what the header promises of the answer. */
static void promises(void **state)
{
	uint64_t seed = 88172645463325252u;

	for (unsigned round = 0; round < 200000; round++) {
		uint8_t code[64];
		struct gs_x86_site site;
		size_t n = round % 65;
		uint64_t function_bytes = round % 3 ? 0 : round % 70;

		for (size_t i = 0; i < n; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			code[i] = (uint8_t)seed;
		}
		site = gs_x86_choose_site(code, n, function_bytes, &linux_6_18);
		assert_in_range(site.kind, GS_X86_SITE_EMULATED, GS_X86_SITE_REFUSED);
		assert_int_equal(site.kind == GS_X86_SITE_MOVED, site.offset_bytes != 0);
		assert_int_equal(site.kind >= GS_X86_SITE_STEPPED, site.reason != NULL);
		if (site.kind <= GS_X86_SITE_MOVED) {
			assert_true(site.offset_bytes < n);
			assert_true(site.offset_bytes < WALK_MAX_BYTES);
			assert_true(!function_bytes || site.offset_bytes < function_bytes);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_prologues), cmocka_unit_test(nops),
		cmocka_unit_test(refused),        cmocka_unit_test(not_in_a_loop),
		cmocka_unit_test(lengths),        cmocka_unit_test(never_behind_the_end),
		cmocka_unit_test(promises),       cmocka_unit_test(jumps_back_from_afar),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
