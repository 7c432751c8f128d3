/*
 * Functions of many beginnings, called in situations that a probe on them could spoil. Prints a
 * line for each function: what its calls came to, or by which signal the child that made them died.
 * The same program is run without and with probes, and has to print the same (tests/e2e/harm.py).
 *
 *   harm SITUATION
 *
 * Each function f(n) returns n + 1. Those with a frame call inner(n) on the way, which is where the
 * situations happen.
 */
#include <csetjmp>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

extern "C" {
void (*harm_inner)(long) = nullptr;
void harm_call_inner(long n)
{
	if (harm_inner)
		harm_inner(n);
}
}

/* A whole function; the second form has unwind tables and calls inner. */
#define LEAF(name, body)                                                                           \
	asm(".text\n.p2align 6\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" body   \
	    "\n.size " #name ", . - " #name "\n");                                                 \
	extern "C" long name(long)
#define FRAME(name, begin, bytes, end)                                                             \
	asm(".text\n.p2align 6\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"        \
	    ".cfi_startproc\n" begin "\n.cfi_def_cfa_offset " bytes                                \
	    "\n sub $16,%rsp\n .cfi_adjust_cfa_offset 16\n mov %rdi,(%rsp)\n"                      \
	    " call harm_call_inner@PLT\n mov (%rsp),%rax\n add $16,%rsp\n"                         \
	    " .cfi_adjust_cfa_offset -16\n inc %rax\n" end "\n.cfi_def_cfa_offset 8\n ret\n"       \
	    ".cfi_endproc\n.size " #name ", . - " #name "\n");                                     \
	extern "C" long name(long)

#define NOP5 ".byte 0x0f,0x1f,0x44,0,0\n"

LEAF(k_nop5, NOP5 "lea 1(%rdi),%rax; ret");
LEAF(k_nop5_push, NOP5 "push %rbx; lea 1(%rdi),%rax; pop %rbx; ret");
LEAF(k_endbr_nop5, "endbr64; " NOP5 "mov %rdi,-8(%rsp); mov -8(%rsp),%rax; inc %rax; ret");
/* The loop comes back to the first byte with a value below the stack pointer. */
LEAF(k_loop_far, "xor %ecx,%ecx; jmp 2f; 1: " NOP5 "mov -8(%rsp),%rax; test %ecx,%ecx; jnz 3f;"
		 "2: mov %rdi,-8(%rsp); inc %ecx; .fill 100,1,0x90; jmp 1b; 3: inc %rax; ret");
LEAF(k_loop_first, NOP5 "mov -8(%rsp),%rax; test %rdi,%rdi; js 1f; mov %rdi,-8(%rsp);"
			"or $-1,%rdi; .fill 100,1,0x90; jmp k_loop_first; 1: inc %rax; ret");
LEAF(k_loop_near, "xor %eax,%eax; 1: nop; inc %eax; cmp $10,%eax; jb 1b; lea 1(%rdi),%rax; ret");
LEAF(k_loop_push, "mov $3,%eax; 1: push %rbx; pop %rbx; dec %eax; jnz 1b; lea 1(%rdi),%rax; ret");
/* The part apart comes back into the first bytes. */
LEAF(k_cold, NOP5 "k_cold_in: mov -8(%rsp),%rax; test %rdi,%rdi; jns k_cold_part; inc %rax; ret");
asm(".section .text.unlikely\nk_cold_part: mov %rdi,-8(%rsp); or $-1,%rdi; jmp k_cold\n.text\n");
/* A jump from another function that has left a value below the stack pointer. */
LEAF(k_tail_from, "mov %rdi,-8(%rsp); jmp k_tail_to");
LEAF(k_tail_to, NOP5 "mov -8(%rsp),%rax; inc %rax; ret");
LEAF(k_red_zone, "mov %rdi,-8(%rsp); " NOP5 "mov -8(%rsp),%rax; inc %rax; ret");
LEAF(k_nop1, "xor %eax,%eax; nop; lea 1(%rdi),%rax; ret");
LEAF(k_nop7, ".byte 0x0f,0x1f,0x80,0,0,0,0; push %rbx; lea 1(%rdi),%rax; pop %rbx; ret");
LEAF(k_branch, "mov %rdi,%rax; sub $5,%rax; jb 1f; nop; 1: lea 1(%rdi),%rax; ret");
LEAF(k_call, "xor %eax,%eax; call 1f; ret; 1: lea 1(%rdi),%rax; ret");
LEAF(k_jrcxz, "jrcxz 1f; 1: lea 1(%rdi),%rax; ret");
LEAF(k_stepped, "lea 1(%rdi),%rax; ret");
LEAF(k_rip, "mov 1f(%rip),%rsi; lea (%rdi,%rsi),%rax; ret; .section .rodata; 1: .quad 1; .text");
LEAF(k_jump_memory, "jmp *1f(%rip); 2: lea 1(%rdi),%rax; ret; .data; 1: .quad 2b; .text");
FRAME(k_push, "push %rbp", "16", "pop %rbp");
FRAME(k_endbr_push, "endbr64; push %r12", "16", "pop %r12");
FRAME(k_sub, "sub $24,%rsp", "32", "add $24,%rsp");
FRAME(k_test_push, "xor %eax,%eax; test %rdi,%rdi; push %rbx", "16", "pop %rbx");
FRAME(k_nop5_frame, NOP5 "push %rbp", "16", "pop %rbp");

/* Compiled ones: extern "C" of C++, and with an object that has to be destroyed. */
extern "C" __attribute__((noinline)) long k_extern_c(long n)
{
	harm_call_inner(n);
	asm volatile("" ::: "memory");
	return n + 1;
}

static volatile long n_destroyed;

struct guard {
	std::string text = "a text that is long enough to be on the heap";
	~guard()
	{
		n_destroyed = n_destroyed + 1;
	}
};

extern "C" __attribute__((noinline)) long k_guard(long n)
{
	guard g;

	harm_call_inner(n);
	asm volatile("" ::: "memory");
	return n + (long)(g.text.size() > 0);
}

static const struct kind {
	const char *name;
	long (*f)(long);
	bool calls;
} kinds[] = {
#define LEAF_ROW(name)                                                                             \
	{                                                                                          \
#name, name, false                                                                 \
	}
#define FRAME_ROW(name)                                                                            \
	{                                                                                          \
#name, name, true                                                                  \
	}
	LEAF_ROW(k_nop5),       LEAF_ROW(k_nop5_push),   LEAF_ROW(k_endbr_nop5),
	LEAF_ROW(k_loop_far),   LEAF_ROW(k_loop_first),  LEAF_ROW(k_loop_near),
	LEAF_ROW(k_loop_push),  LEAF_ROW(k_cold),        LEAF_ROW(k_tail_from),
	LEAF_ROW(k_red_zone),   LEAF_ROW(k_nop1),        LEAF_ROW(k_nop7),
	LEAF_ROW(k_branch),     LEAF_ROW(k_call),        LEAF_ROW(k_jrcxz),
	LEAF_ROW(k_stepped),    LEAF_ROW(k_rip),         LEAF_ROW(k_jump_memory),
	FRAME_ROW(k_push),      FRAME_ROW(k_endbr_push), FRAME_ROW(k_sub),
	FRAME_ROW(k_test_push), FRAME_ROW(k_nop5_frame), FRAME_ROW(k_extern_c),
	FRAME_ROW(k_guard),
};

static const struct kind *now;

static long calls(long n)
{
	long sum = 0;

	for (long i = 0; i < n; i++)
		sum += now->f(i) - i;
	return sum;
}

/* ---- situations: each returns what its calls came to ---- */

static long in_call()
{
	return calls(100);
}

static long of_child(pid_t pid)
{
	int status = 0;

	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static long in_fork()
{
	long before = calls(1), sum = 0;
	pid_t pid;

	for (int i = 0; i < 5; i++) {
		pid = fork();
		if (pid == 0)
			_exit((int)calls(20));
		sum += of_child(pid);
	}
	return before + sum;
}

static void fork_inside(long)
{
	pid_t pid = fork();

	/* The child returns through the open function too. */
	if (pid > 0)
		n_destroyed = n_destroyed + of_child(pid) * 1000;
}

static long in_fork_inside()
{
	pid_t self = getpid();
	long sum;

	harm_inner = fork_inside;
	sum = calls(1);
	if (getpid() != self)
		_exit((int)sum);
	return sum;
}

static long in_vfork()
{
	long before = calls(1);
	volatile long sum = 0;
	pid_t pid = vfork();

	if (pid == 0) {
		sum = now->f(41);
		_exit(7);
	}
	return before + of_child(pid) + sum + calls(1);
}

static volatile long from_handler;

static void on_signal(int)
{
	from_handler = from_handler + now->f(1);
}

static void raise_inside(long)
{
	harm_inner = nullptr;
	raise(SIGUSR1);
	harm_inner = raise_inside;
}

static long in_signal()
{
	struct itimerval often = {{0, 300}, {0, 300}};
	long sum;

	signal(SIGUSR1, on_signal);
	harm_inner = raise_inside;
	sum = calls(20);
	harm_inner = nullptr;
	sum += now->calls ? from_handler : 0;
	/* At any instruction. */
	signal(SIGALRM, on_signal);
	setitimer(ITIMER_REAL, &often, nullptr);
	sum += calls(5000);
	often = {{0, 0}, {0, 0}};
	setitimer(ITIMER_REAL, &often, nullptr);
	return sum;
}

static sigjmp_buf back;

static void jump_out(long n)
{
	if (n % 2)
		siglongjmp(back, 1);
}

static long in_longjmp()
{
	volatile long sum = 0;

	harm_inner = jump_out;
	for (volatile long i = 0; i < 50; i = i + 1) {
		if (sigsetjmp(back, 0))
			sum = sum + 1000;
		else
			sum = sum + now->f(i) - i;
	}
	return sum;
}

static ucontext_t main_context, coroutine;
static char coroutine_stack[1 << 16];
static volatile long coroutine_sum;

static void switch_out(long)
{
	swapcontext(&coroutine, &main_context);
}

static void coroutine_main()
{
	harm_inner = switch_out;
	for (int i = 0; i < 10; i++)
		coroutine_sum = coroutine_sum + now->f(i) - i;
	harm_inner = nullptr;
}

static long in_coroutine()
{
	volatile long sum = 0;

	getcontext(&coroutine);
	coroutine.uc_stack.ss_sp = coroutine_stack;
	coroutine.uc_stack.ss_size = sizeof(coroutine_stack);
	coroutine.uc_link = &main_context;
	makecontext(&coroutine, coroutine_main, 0);
	for (int i = 0; i < 11; i++) {
		void (*inner)(long) = harm_inner;

		if (i < (now->calls ? 11 : 1)) {
			harm_inner = inner;
			swapcontext(&main_context, &coroutine);
		}
		/* The other stack calls it too, while that one is within. */
		inner = harm_inner;
		harm_inner = nullptr;
		sum = sum + calls(3);
		harm_inner = inner;
	}
	return sum * 1000 + coroutine_sum;
}

static void throw_odd(long n)
{
	if (n % 2)
		throw std::runtime_error("odd");
}

static long in_exception()
{
	long sum = 0;

	harm_inner = throw_odd;
	for (long i = 0; i < 50; i++) {
		try {
			sum += now->f(i) - i;
		} catch (const std::exception &) {
			sum += 1000;
		}
	}
	return sum;
}

static volatile bool cleaned, waiting;

struct cleaner {
	~cleaner()
	{
		cleaned = true;
	}
};

static void wait_inside(long)
{
	waiting = true;
	for (;;)
		poll(nullptr, 0, 1000);
}

static void *cancelled(void *)
{
	cleaner c;

	if (!now->calls) {
		calls(10);
		wait_inside(0);
	}
	calls(1);
	return nullptr;
}

static long in_cancel()
{
	pthread_t thread;
	void *result = nullptr;

	harm_inner = wait_inside;
	pthread_create(&thread, nullptr, cancelled, nullptr);
	while (!waiting)
		sched_yield();
	pthread_cancel(thread);
	pthread_join(thread, &result);
	harm_inner = nullptr;
	return (result == PTHREAD_CANCELED) + 10 * cleaned + 100 * calls(1);
}

static void exit_inside(long)
{
	pthread_exit((void *)7);
}

static void *exiting(void *)
{
	cleaner c;

	calls(1);
	if (!now->calls)
		exit_inside(0);
	return nullptr;
}

static long in_thread_exit()
{
	pthread_t thread;
	void *result = nullptr;

	harm_inner = exit_inside;
	pthread_create(&thread, nullptr, exiting, nullptr);
	pthread_join(thread, &result);
	harm_inner = nullptr;
	return (long)result + 10 * cleaned + 100 * calls(1);
}

/* The result by exit status: in strict mode nothing else is left. */
static long in_seccomp(bool strict)
{
	struct sock_filter deny[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {4, deny};
	pid_t pid = fork();

	if (pid == 0) {
		long before = calls(2);

		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (strict)
			prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		else
			prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
		before += calls(20);
		syscall(strict ? SYS_exit : SYS_exit_group, before);
	}
	return of_child(pid);
}

static long in_seccomp_strict()
{
	return in_seccomp(true);
}

static long in_seccomp_filter()
{
	return in_seccomp(false);
}

static long in_setuid()
{
	long before = calls(5);

	if (setuid(65534) < 0)
		return -1;
	return before + calls(20);
}

static long in_ptrace()
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
		raise(SIGSTOP);
		_exit((int)calls(20));
	}
	waitpid(pid, &status, 0);
	/* Some steps, one at a time, then on. */
	for (int i = 0; i < 200 && WIFSTOPPED(status); i++) {
		ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr);
		waitpid(pid, &status, 0);
	}
	if (WIFSTOPPED(status))
		ptrace(PTRACE_CONT, pid, nullptr, nullptr);
	while (WIFSTOPPED(status)) {
		waitpid(pid, &status, 0);
		if (WIFSTOPPED(status))
			ptrace(PTRACE_CONT, pid, nullptr,
			       WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status));
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* All kinds in turn until the file is there; then whether any result was wrong. Children too. */
static int in_flight(const char *until)
{
	const size_t n = sizeof(kinds) / sizeof(kinds[0]);
	long wrong[sizeof(kinds) / sizeof(kinds[0])] = {0};
	unsigned long turns = 0;

	puts("ready");
	fflush(stdout);
	do {
		for (size_t i = 0; i < n; i++) {
			now = &kinds[i];
			wrong[i] += calls(20) != 20;
		}
		if (++turns % 256 == 0) {
			pid_t pid = fork();

			for (size_t i = 0; pid == 0 && i < n; i++) {
				now = &kinds[i];
				if (calls(1) != 1)
					_exit((int)i + 1);
			}
			if (pid == 0)
				_exit(0);
			long r = of_child(pid);
			if (r)
				wrong[r <= (long)n ? r - 1 : 0] += 1000000;
		}
	} while (access(until, F_OK) != 0);
	for (size_t i = 0; i < n; i++)
		printf("%s %ld wrong\n", kinds[i].name, wrong[i]);
	return 0;
}

static const struct situation {
	const char *name;
	long (*run)();
	bool for_leaves; /* of use for functions that call nothing */
} situations[] = {
	{"call", in_call, true},
	{"fork", in_fork, true},
	{"fork-inside", in_fork_inside, false},
	{"vfork", in_vfork, true},
	{"signal", in_signal, true},
	{"longjmp", in_longjmp, false},
	{"coroutine", in_coroutine, true},
	{"exception", in_exception, false},
	{"cancel", in_cancel, true},
	{"thread-exit", in_thread_exit, true},
	{"seccomp-strict", in_seccomp_strict, true},
	{"seccomp-filter", in_seccomp_filter, true},
	{"setuid", in_setuid, true},
	{"ptrace", in_ptrace, true},
};

static void run(const struct situation *s, const struct kind *k)
{
	long *result = (long *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(20);
		now = k;
		*result = s->run();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	printf("%s %s %ld", s->name, k->name, *result);
	if (WIFSIGNALED(status))
		printf(" signal %d", WTERMSIG(status));
	puts("");
	munmap(result, 4096);
}

int main(int argc, char **argv)
{
	const char *wanted = argc > 1 ? argv[1] : "all";

	if (argc > 2 && !strcmp(wanted, "flight"))
		return in_flight(argv[2]);
	for (const struct situation &s : situations)
		for (const struct kind &k : kinds)
			if ((!strcmp(wanted, "all") || !strcmp(wanted, s.name)) &&
			    (k.calls || s.for_leaves))
				run(&s, &k);
	return 0;
}
