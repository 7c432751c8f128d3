/*
 * The chosen sites against the kernel: a real breakpoint is put on each function below, at the byte
 * that was chosen for it. Every call must be hit exactly once and still return the right value, and
 * the kernel must have done what the choice says: the first single step makes it map an area named
 * [uprobes] into the process, emulation never does. Each function has its own child process,
 * because that area stays.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/x86/site.h"

#define N_CALLS 1000

/* Every function returns its first argument plus one. */
#define FN(name, body)                                                                             \
	__asm__(".pushsection .text\n.p2align 6\n.type " #name ", @function\n" #name ":\n" body    \
		"\n.size " #name ", . - " #name "\n.local " #name "_end\n" #name "_end: int3\n"    \
		".popsection");                                                                    \
	extern uint64_t name(uint64_t x);                                                          \
	extern const uint8_t name##_end[]

FN(fn_push, "push %rbp; mov %rsp,%rbp; lea 1(%rdi),%rax; pop %rbp; ret");
FN(fn_push15, "push %r15; lea 1(%rdi),%rax; pop %r15; ret");
FN(fn_endbr, "endbr64; push %rbp; lea 1(%rdi),%rax; pop %rbp; ret");
FN(fn_endbr_sub, "endbr64; sub $24,%rsp; lea 1(%rdi),%rax; add $24,%rsp; ret");
FN(fn_xor_test, "xor %eax,%eax; test %rdi,%rdi; push %rbx; lea 1(%rdi),%rax; pop %rbx; ret");
FN(fn_cuda535, "cmpl $0x321cba00,2f(%rip); je 1f; jmp *3f(%rip); 1: ud2; 4: lea 1(%rdi),%rax; ret;"
	       ".pushsection .data; 2: .long 7; .p2align 3; 3: .quad 4b; .popsection");
FN(fn_movabs, "movabs $0x1122334455667788,%rax; cmp %rdi,%rax; je 1f; 1: lea 1(%rdi),%rax; ret");
FN(fn_mov_jcc, "mov %rdi,%rax; sub $5,%rax; jb 1f; nop; 1: lea 1(%rdi),%rax; ret");
FN(fn_jmp, "mov %edi,%eax; .byte 0xe9; .long 0; lea 1(%rdi),%rax; ret");
FN(fn_call, "xor %eax,%eax; call 1f; ret; 1: lea 1(%rdi),%rax; ret");
FN(fn_sse, "movq %rdi,%xmm9; pxor %xmm8,%xmm8; movl 2f(%rip),%r11d; bt $0,%r11d; jc 1f; ud2;"
	   "1: movq %xmm9,%rax; inc %rax; ret; .pushsection .rodata; 2: .long 7; .popsection");
FN(fn_nop1, "xor %eax,%eax; nop; lea 1(%rdi),%rax; ret");
FN(fn_nop5, ".byte 0x0f,0x1f,0x44,0,0; lea 1(%rdi),%rax; ret");
FN(fn_nop5_moved, "endbr64; .byte 0x0f,0x1f,0x44,0,0; mov %rdi,-8(%rsp); mov -8(%rsp),%rax;"
		  "inc %rax; ret");
FN(fn_nop5_push, ".byte 0x0f,0x1f,0x44,0,0; push %rbx; lea 1(%rdi),%rax; pop %rbx; ret");
FN(fn_nop7_push, ".byte 0x0f,0x1f,0x80,0,0,0,0; push %rbx; lea 1(%rdi),%rax; pop %rbx; ret");
/* A value in the red zone across a nop5: a probe there would break it on Linux 6.18. */
FN(fn_red_zone, "mov %rdi,-8(%rsp); .byte 0x0f,0x1f,0x44,0,0; mov -8(%rsp),%rax; inc %rax; ret");
/* The je is run more than once a call. */
FN(fn_loop, "mov $3,%eax; 1: dec %eax; je 2f; jmp 1b; 2: lea 1(%rdi),%rax; ret");
FN(fn_cs_nop, ".byte 0x66,0x2e,0x0f,0x1f,0x84,0,0,0,0,0; push %rbx; lea 1(%rdi),%rax; pop %rbx;"
	      "ret");
FN(fn_lea, "lea 1(%rdi),%rax; ret");
FN(fn_rip, "mov 2f(%rip),%rsi; lea (%rdi,%rsi),%rax; ret;"
	   ".pushsection .rodata; .p2align 3; 2: .quad 1; .popsection");
FN(fn_jmp_mem, "jmp *3f(%rip); 4: lea 1(%rdi),%rax; ret;"
	       ".pushsection .data; .p2align 3; 3: .quad 4b; .popsection");
FN(fn_jrcxz, "jrcxz 1f; 1: lea 1(%rdi),%rax; ret");

enum { STEPPED = -1, REFUSED = -2 };

static const struct {
	const char *name;
	uint64_t (*fn)(uint64_t);
	const uint8_t *end;
	int offset; /* on Linux 6.18, or STEPPED or REFUSED */
} functions[] = {
#define ROW(name, offset)                                                                          \
	{                                                                                          \
#name, name, name##_end, offset                                                    \
	}
	ROW(fn_push, 0),          ROW(fn_push15, 0),
	ROW(fn_endbr, 4),         ROW(fn_xor_test, 5),
	ROW(fn_cuda535, 10),      ROW(fn_movabs, 13),
	ROW(fn_mov_jcc, 7),       ROW(fn_jmp, 2),
	ROW(fn_call, 2),          ROW(fn_sse, 22),
	ROW(fn_nop1, 2),          ROW(fn_nop5, REFUSED),
	ROW(fn_cs_nop, 10),       ROW(fn_nop5_moved, STEPPED),
	ROW(fn_nop7_push, 0),     ROW(fn_nop5_push, 5),
	ROW(fn_lea, STEPPED),     ROW(fn_red_zone, STEPPED),
	ROW(fn_loop, STEPPED),    ROW(fn_rip, STEPPED),
	ROW(fn_jmp_mem, STEPPED), ROW(fn_endbr_sub, STEPPED),
	ROW(fn_jrcxz, STEPPED),
};

static struct gs_x86_site_rules rules_here(void)
{
	struct utsname uts;
	unsigned major = 0, minor = 0;

	uname(&uts);
	sscanf(uts.release, "%u.%u", &major, &minor);
	return (struct gs_x86_site_rules){
		.nop5_is_call = major > 6 || (major == 6 && minor >= 18),
		.long_nop_is_emulated = major > 6 || (major == 6 && minor >= 16),
	};
}

/* Whether /proc/self/maps has an area of that name; and where in its file an address lies. */
static bool area_named(const char *name)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	size_t n = strlen(name);

	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (strlen(line) >= n && !strcmp(line + strlen(line) - n, name))
			return true;
	}
	return false;
}

static uint64_t file_offset(const void *address)
{
	GS_FCLOSE FILE *f = fopen("/proc/self/maps", "re");
	unsigned long low, high, offset;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx", &low, &high, &offset) == 3 &&
		    (unsigned long)address >= low && (unsigned long)address < high)
			return (unsigned long)address - low + offset;
	return 0;
}

static int uprobe_type(void)
{
	GS_FCLOSE FILE *f = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type;

	return f && fscanf(f, "%d", &type) == 1 ? type : -ENOENT;
}

/* An event that counts the hits in this process. */
static int open_uprobe(const void *address)
{
	struct perf_event_attr attr = {
		.type = (uint32_t)uprobe_type(),
		.size = sizeof(attr),
		.config1 = (uint64_t)(uintptr_t) "/proc/self/exe",
		.config2 = file_offset(address),
	};
	long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

enum outcome { GOOD, NOT_OPENED, WRONG_VALUE, WRONG_COUNT, WRONGLY_STEPPED, WRONGLY_EMULATED };

static const char *const outcomes[] = {"good",
				       "the kernel refused the probe",
				       "the function returned a wrong value",
				       "a call was not hit just once",
				       "an emulated site was single-stepped",
				       "a stepped site was emulated"};

static enum outcome try_site(uint64_t (*fn)(uint64_t), struct gs_x86_site site)
{
	int fd = open_uprobe((const uint8_t *)fn + site.offset_bytes);
	uint64_t hits = 0;
	bool stepped;

	if (fd < 0)
		return NOT_OPENED;
	for (uint64_t i = 0; i < N_CALLS; i++)
		if (fn(i) != i + 1)
			return WRONG_VALUE;
	if (read(fd, &hits, sizeof(hits)) != sizeof(hits) || hits != N_CALLS)
		return WRONG_COUNT;
	stepped = area_named("[uprobes]");
	if (site.kind == GS_X86_SITE_STEPPED)
		return stepped ? GOOD : WRONGLY_EMULATED;
	return stepped ? WRONGLY_STEPPED : GOOD;
}

static enum outcome in_child(uint64_t (*fn)(uint64_t), struct gs_x86_site site)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit((int)try_site(fn, site));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status))
		fail_msg("the child died of signal %d", WTERMSIG(status));
	return (enum outcome)WEXITSTATUS(status);
}

static void skip_without_uprobes(void)
{
	int fd = uprobe_type() < 0 ? -ENOENT : open_uprobe(fn_push);

	if (fd < 0) {
		print_message("skipped: no uprobe can be opened here: %s\n", strerror(-fd));
		skip();
	}
	close(fd);
}

static void choices_are_as_expected(void **state)
{
	static const struct gs_x86_site_rules linux_6_18 = {1, 1};

	for (size_t i = 0; i < GS_ARRAY_LEN(functions); i++) {
		const uint8_t *code = (const uint8_t *)functions[i].fn;
		size_t bytes = (size_t)(functions[i].end - code);
		struct gs_x86_site site = gs_x86_choose_site(code, bytes, bytes, &linux_6_18);
		int offset = site.kind == GS_X86_SITE_STEPPED   ? STEPPED
			     : site.kind == GS_X86_SITE_REFUSED ? REFUSED
								: (int)site.offset_bytes;

		if (offset != functions[i].offset)
			fail_msg("%s: kind %d at +%u, expected %d: %s", functions[i].name,
				 site.kind, site.offset_bytes, functions[i].offset,
				 site.reason ? site.reason : "");
	}
}

static void the_kernel_does_what_was_chosen(void **state)
{
	struct gs_x86_site_rules rules = rules_here();

	skip_without_uprobes();
	for (size_t i = 0; i < GS_ARRAY_LEN(functions); i++) {
		const uint8_t *code = (const uint8_t *)functions[i].fn;
		size_t bytes = (size_t)(functions[i].end - code);
		struct gs_x86_site site = gs_x86_choose_site(code, bytes, bytes, &rules);
		enum outcome outcome;

		if (site.kind == GS_X86_SITE_REFUSED)
			continue;
		outcome = in_child(functions[i].fn, site);
		if (outcome != GOOD)
			fail_msg("%s at +%u: %s", functions[i].name, site.offset_bytes,
				 outcomes[outcome]);
	}
}

/* The check above can fail: a stepped instruction is told from an emulated one. */
static void stepping_is_noticed(void **state)
{
	struct gs_x86_site as_emulated = {GS_X86_SITE_EMULATED, 0, NULL};
	struct gs_x86_site as_stepped = {GS_X86_SITE_STEPPED, 0, ""};

	skip_without_uprobes();
	assert_int_equal(in_child(fn_endbr, as_emulated), WRONGLY_STEPPED);
	assert_int_equal(in_child(fn_push, as_stepped), WRONGLY_EMULATED);
	as_emulated.offset_bytes = 7; /* the je of the loop */
	assert_int_equal(in_child(fn_loop, as_emulated), WRONG_COUNT);
	assert_int_equal(in_child(fn_cs_nop, as_stepped), NOT_OPENED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choices_are_as_expected),
		cmocka_unit_test(the_kernel_does_what_was_chosen),
		cmocka_unit_test(stepping_is_noticed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
