/* This process unwound by its tables, against libgcc's unwinder; and the tables of its own PLT. */
#include <errno.h>
#include <execinfo.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/elf/code.h"
#include "sources/unwind/cfi.h"
#include "sources/unwind/native.h"

#define NOINLINE     __attribute__((noinline, noclone))
#define COPIED_BYTES 32256

static struct gs_reader *reader; /* of this file: the test is its own */
static struct gs_native_stack ours;
static void *theirs[GS_STACK_MAX];
static int n_theirs;
static const unsigned char *top; /* of what may be read of the stack */

static struct gs_event_stack_bytes *event_new(void)
{
	struct gs_event_stack_bytes *e = calloc(1, sizeof(*e) + COPIED_BYTES);

	assert_non_null(e);
	e->head.bytes = sizeof(*e) + COPIED_BYTES;
	e->pid = (__u32)getpid();
	e->id = 1;
	return e;
}

/* The stack of the caller as the kernel side would send it. Not checked: it copies what lies above
 * this function's own frame, the callers'. */
static NOINLINE __attribute__((no_sanitize("address"))) void capture(unsigned copied)
{
	GS_FREE struct gs_event_stack_bytes *e = event_new();
	struct gs_native *native = NULL;
	const unsigned char *from;
	ucontext_t c;

	n_theirs = backtrace(theirs, GS_STACK_MAX);
	getcontext(&c);
	e->ip = (__u64)c.uc_mcontext.gregs[REG_RIP];
	e->sp = (__u64)c.uc_mcontext.gregs[REG_RSP];
	e->bp = (__u64)c.uc_mcontext.gregs[REG_RBP];
	e->bx = (__u64)c.uc_mcontext.gregs[REG_RBX];
	e->r12 = (__u64)c.uc_mcontext.gregs[REG_R12];
	e->r13 = (__u64)c.uc_mcontext.gregs[REG_R13];
	e->r14 = (__u64)c.uc_mcontext.gregs[REG_R14];
	e->r15 = (__u64)c.uc_mcontext.gregs[REG_R15];
	from = (const unsigned char *)e->sp;
	e->n_bytes = copied < (size_t)(top - from) ? copied : (unsigned)(top - from);
	for (unsigned i = 0; i < e->n_bytes; i++)
		e->bytes[i] = from[i];
	assert_int_equal(gs_native_new(reader, &native), 0);
	assert_int_equal(gs_native_unwind(native, e, &ours), 0);
	gs_native_free(&native);
}

static NOINLINE int nested(int n, unsigned copied)
{
	volatile int r = n;

	if (n == 0)
		capture(copied);
	else
		r = nested(n - 1, copied) + 1;
	return r;
}

/* The innermost frames are of different calls in capture(), and where a sanitizer stands between it
 * and libgcc there is one more in theirs. */
static int first_of_theirs(void)
{
	for (int i = 0; i < n_theirs; i++)
		if ((uintptr_t)theirs[i] == ours.frames[1].pc + 1)
			return i;
	fail();
	return 0;
}

static void assert_same(unsigned n)
{
	int k = first_of_theirs();

	for (unsigned i = 1; i < n; i++)
		assert_int_equal(ours.frames[i].pc + 1, (uintptr_t)theirs[k + (int)i - 1]);
}

static void finds_every_caller(void **state)
{
	assert_int_equal(nested(20, COPIED_BYTES), 20);
	assert_int_equal(ours.flags, 0);
	assert_int_equal((int)ours.n_frames - 1, n_theirs - first_of_theirs());
	assert_true(n_theirs > 21);
	assert_same(ours.n_frames);
}

static void tells_what_was_not_copied(void **state)
{
	assert_int_equal(nested(100, 4096), 100);
	assert_int_equal(ours.flags & GS_STACK_PARTIAL, GS_STACK_PARTIAL);
	assert_true(ours.n_frames > 1 && ours.n_frames < 100);
	assert_same(ours.n_frames);
}

static void refuses_malformed_events(void **state)
{
	GS_FREE struct gs_event_stack_bytes *e = event_new();
	struct gs_native *native = NULL;

	assert_int_equal(gs_native_new(reader, &native), 0);
	e->n_bytes = COPIED_BYTES + 1;
	assert_int_equal(gs_native_unwind(native, e, &ours), -EINVAL);
	e->n_bytes = 0;
	e->n_links = GS_NATIVE_LINKS + 1;
	assert_int_equal(gs_native_unwind(native, e, &ours), -EINVAL);
	e->n_links = 0;
	e->n_returns = GS_NATIVE_RETURNS + 1;
	assert_int_equal(gs_native_unwind(native, e, &ours), -EINVAL);
	e->n_returns = 0;
	e->ip = 16; /* nothing is mapped there */
	assert_int_equal(gs_native_unwind(native, e, &ours), -ESRCH);
	e->ip = 0;
	assert_int_equal(gs_native_unwind(native, e, &ours), 0);
	assert_int_equal(ours.n_frames, 0);
	gs_native_free(&native);
}

/* A return address that a probe has replaced, and frame pointers in place of a copy. */
static void puts_returns_right(void **state)
{
	GS_FREE struct gs_event_stack_bytes *e = event_new();
	struct gs_native *native = NULL;
	uint64_t words[2] = {0, 0x1234};

	assert_int_equal(gs_native_new(reader, &native), 0);
	/* At the first instruction of a function the return address is on top. */
	e->ip = (__u64)(uintptr_t)&getpid;
	e->sp = 0x7000;
	e->n_bytes = sizeof(words);
	words[0] = 0x1234; /* the kernel's trampoline, say */
	memcpy(e->bytes, words, sizeof(words));
	e->returns[0] =
		(struct gs_native_word){.at = 0x7000, .value = (uintptr_t)&finds_every_caller};
	e->n_returns = 1;
	assert_int_equal(gs_native_unwind(native, e, &ours), 0);
	assert_true(ours.n_frames >= 2);
	assert_int_equal(ours.frames[1].pc, (uintptr_t)&finds_every_caller - 1);
	gs_native_free(&native);
}

struct memory {
	uint64_t at, value;
};

static bool read_one(void *ctx, uint64_t addr, uint64_t *ret_value)
{
	const struct memory *m = ctx;

	*ret_value = m->value;
	return addr == m->at;
}

/* Entries of a PLT push a word halfway: their one rule is an expression of the address. */
static void evaluates_expressions(void **state)
{
	struct gs_regs regs = {.known = 1u << GS_REG_RSP | 1u << GS_REG_RIP};
	struct memory memory = {.value = 0x4321};
	struct gs_cfi_row row;
	struct gs_elf *elf = NULL;
	struct gs_cfi *cfi = NULL;
	struct gs_elf_part plt;
	uint64_t slot;

	assert_int_equal(gs_elf_open("/proc/self/exe", &elf, NULL), 0);
	assert_int_equal(gs_cfi_new(elf, &cfi), 0);
	if (gs_elf_section_bytes(elf, ".plt", &plt) < 0 ||
	    gs_cfi_find(cfi, plt.vaddr + 16, &row) < 0 || !row.cfa_is_expr) {
		gs_cfi_free(&cfi);
		gs_elf_close(&elf);
		skip();
	}
	for (unsigned at = 0; at < 16; at++) {
		/* From the 11th byte on the push has happened. */
		memory.at = 0x8000 + (at >= 11 ? 8 : 0);
		regs.known = 1u << GS_REG_RSP | 1u << GS_REG_RIP;
		regs.value[GS_REG_RSP] = 0x8000;
		regs.value[GS_REG_RIP] = plt.vaddr + 16 + at;
		assert_int_equal(gs_cfi_find(cfi, plt.vaddr + 16 + at, &row), 0);
		assert_int_equal(gs_cfi_step(&row, 0, read_one, &memory, &regs, &slot), 0);
		assert_int_equal(slot, memory.at);
		assert_int_equal(regs.value[GS_REG_RIP], 0x4321);
		assert_int_equal(regs.value[GS_REG_RSP], memory.at + 8);
	}
	assert_int_equal(gs_cfi_find(cfi, 1, &row), -ENOENT);
	gs_cfi_free(&cfi);
	gs_elf_close(&elf);
}

/* Our readers, of which no other child is. */
static void kill_readers(void)
{
	GS_FCLOSE FILE *f = fopen("/proc/thread-self/children", "re");
	int pid;

	assert_non_null(f);
	while (fscanf(f, "%d", &pid) == 1)
		assert_int_equal(kill(pid, SIGKILL), 0);
}

/* What a reader knew is asked of the next one; and code that no file has. */
static void names_go_on_when_a_reader_dies(void **state)
{
	struct gs_native_frame made = {.pid = (uint32_t)getpid(), .pc = 0x1008};
	GS_FREE struct gs_event_stack_bytes *e = event_new();
	struct gs_native *native = NULL;
	char name[2][128], path[64];
	FILE *f;

	assert_int_equal(gs_native_new(reader, &native), 0);
	e->ip = (__u64)(uintptr_t)&event_new;
	e->sp = 0x7000;
	e->n_bytes = 16;
	assert_int_equal(gs_native_unwind(native, e, &ours), 0);
	assert_true(gs_native_name(native, &ours.frames[0], name[0], sizeof(name[0])));
	assert_string_equal(name[0], "event_new");
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	assert_false(gs_native_name(native, &made, name[0], sizeof(name[0])));
	f = fopen(path, "we");
	assert_non_null(f);
	fputs("1000 10 made up\n", f);
	fclose(f);
	for (unsigned i = 0; i < 2; i++) {
		/* Its file is looked for again after a while. */
		usleep(50000);
		assert_true(gs_native_name(native, &made, name[i], sizeof(name[i])));
		assert_string_equal(name[i], "made up");
		assert_true(gs_native_name(native, &ours.frames[0], name[i], sizeof(name[i])));
		assert_string_equal(name[i], "event_new");
		kill_readers();
	}
	assert_int_equal(gs_native_unwind(native, e, &ours), 0);
	unlink(path);
	gs_native_free(&native);
}

int main(int argc, char **argv)
{
	static const gs_reader_serve_fn services[GS_READER_N_SERVICES] = {[GS_READER_NATIVE] =
										  gs_native_serve};
	const struct gs_reader_options options = {.name = "stacks", .keeps_state = true};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_every_caller),
		cmocka_unit_test(tells_what_was_not_copied),
		cmocka_unit_test(refuses_malformed_events),
		cmocka_unit_test(puts_returns_right),
		cmocka_unit_test(evaluates_expressions),
		cmocka_unit_test(names_go_on_when_a_reader_dies),
	};
	int failed;

	if (gs_reader_is_called(argc, argv))
		return gs_reader_main(argc, argv, services);
	if (gs_reader_new(&options, &reader, NULL) < 0)
		return 1;
	/* The C library's frames and the arguments lie above. */
	top = (const unsigned char *)__builtin_frame_address(0) + 768;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	gs_reader_free(&reader);
	return failed;
}
