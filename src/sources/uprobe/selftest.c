/*
 * Does a probe change what a function does on the running kernel? Three functions of our own are
 * probed and called in a child process, which forks once more: one that begins with the usual push;
 * one that begins with a five-byte nop, to which a loop comes back from afar with a value below the
 * stack pointer; and one under a return probe that looks at its own return address, as an unwinder
 * would that an exception or a cancelled thread has set to work.
 *
 * In:  nothing. Out: what went well. The child is alone with its probes (perf events of its own
 * process), is killed when it is late, and needs no eBPF. What could not be tried counts as harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "sources/uprobe/uprobe_int.h"

#define TIME_LIMIT_MS 500
#define N_CALLS       3

#define SUBJECT(name, body)                                                                        \
	long name(long x);                                                                         \
	__asm__(".text\n.p2align 6\n.globl " #name "\n.hidden " #name "\n.type " #name             \
		", @function\n" #name ":\n" body "\n.size " #name ", .-" #name "\n")

/* Each returns x + 1. */
SUBJECT(gs_selftest_push, "	push %rbp\n	lea 1(%rdi), %rax\n	pop %rbp\n	ret\n");
SUBJECT(gs_selftest_nop5, "	.byte 0x0f, 0x1f, 0x44, 0, 0\n"
			  "	mov -8(%rsp), %rax\n"
			  "	test %rdi, %rdi\n"
			  "	js 1f\n"
			  "	mov %rdi, -8(%rsp)\n"
			  "	or $-1, %rdi\n"
			  "	.fill 200, 1, 0x90\n"
			  "	jmp gs_selftest_nop5\n"
			  "1:	inc %rax\n"
			  "	ret\n");
/* This one returns its return address. */
SUBJECT(gs_selftest_return, "	push %rbp\n	mov 8(%rsp), %rax\n	pop %rbp\n	ret\n");

static int open_probe(int type, const char *path, uint64_t file_off, bool is_return)
{
	struct perf_event_attr attr = {
		.type = (uint32_t)type,
		.size = sizeof(attr),
		.config = is_return,
		.config1 = (uintptr_t)path,
		.config2 = file_off,
	};

	return (int)syscall(__NR_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Calls it here and in a child. */
static bool survives_probe(long (*volatile subject)(long))
{
	int status = 0;
	pid_t pid;

	for (long i = 0; i < N_CALLS; i++)
		if (subject(i) != i + 1)
			return false;
	pid = fork();
	if (pid == 0)
		_exit(subject(1) == 2 ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

struct places {
	uint64_t push, nop5, ret;
	char path[PATH_MAX]; /* of the file that they are in */
};

/* Is the return address where it was? Outside of this file's own code it is not. */
static bool keeps_return(long (*volatile subject)(long), const struct places *at)
{
	char path[PATH_MAX];
	uint64_t off;

	return uprobe_own_place((void *)subject(0), path, &off) == 0 && strcmp(path, at->path) == 0;
}

static struct selftest try_here(int type, const struct places *at)
{
	struct selftest t = {.done = true};

	if (open_probe(type, at->path, at->push, false) < 0 ||
	    open_probe(type, at->path, at->nop5, false) < 0 ||
	    open_probe(type, at->path, at->ret, true) < 0)
		return (struct selftest){0};
	t.push_is_safe = survives_probe(gs_selftest_push);
	t.nop5_is_safe = survives_probe(gs_selftest_nop5);
	t.return_is_kept = keeps_return(gs_selftest_return, at);
	return t;
}

/* To be waited for; 0 none. Its end takes longer than its answer: the kernel removes the probes. */
static _Atomic pid_t selftest_child;

static bool late_or_closed(int fd, struct selftest *ret_test)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	uint64_t until = gs_clock_mono_ns() + TIME_LIMIT_MS * 1000000ull, now;

	while ((now = gs_clock_mono_ns()) < until) {
		int n = poll(&p, 1, (int)((until - now) / 1000000) + 1);

		if (n < 0 && errno == EINTR)
			continue;
		return n <= 0 || read(fd, ret_test, sizeof(*ret_test)) != sizeof(*ret_test);
	}
	return true;
}

static struct selftest uprobe_selftest_run(void)
{
	uint64_t from = gs_clock_mono_ns();
	struct selftest test = {0};
	struct places at;
	int type = uprobe_event_type(), fds[2];
	pid_t pid;

	if (type < 0 || uprobe_own_place((void *)gs_selftest_push, at.path, &at.push) < 0 ||
	    uprobe_own_place((void *)gs_selftest_nop5, at.path, &at.nop5) < 0 ||
	    uprobe_own_place((void *)gs_selftest_return, at.path, &at.ret) < 0 ||
	    pipe2(fds, O_CLOEXEC) < 0)
		return test;
	pid = fork();
	if (pid == 0) {
		/* Whatever signal hits it is for the test to see. */
		for (int i = 1; i < NSIG; i++)
			signal(i, SIG_DFL);
		setpgid(0, 0);
		test = try_here(type, &at);
		_exit(write(fds[1], &test, sizeof(test)) != sizeof(test));
	}
	close(fds[1]);
	if (pid > 0 && late_or_closed(fds[0], &test)) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
		test = (struct selftest){0};
	}
	close(fds[0]);
	atomic_store(&selftest_child, pid > 0 ? pid : 0);
	gs_log(GS_LOG_INFO, GS_LOG_ATTACH,
	       "self-test of probes (%.1f ms): %s; five-byte nops %s; return probes %s return addresses",
	       (double)(gs_clock_mono_ns() - from) / 1e6,
	       !test.done          ? "could not be made"
	       : test.push_is_safe ? "functions do what they did"
				   : "functions are changed",
	       test.nop5_is_safe ? "are safe" : "are not probed",
	       test.return_is_kept ? "keep" : "replace");
	return test;
}

static pthread_once_t selftest_once = PTHREAD_ONCE_INIT;
static struct selftest selftest_result;

static void uprobe_selftest_first(void)
{
	selftest_result = uprobe_selftest_run();
}

struct selftest uprobe_selftest_get(void)
{
	pthread_once(&selftest_once, uprobe_selftest_first);
	return selftest_result;
}

void uprobe_selftest_reap(void)
{
	pid_t pid = atomic_exchange(&selftest_child, 0);

	if (pid > 0)
		waitpid(pid, NULL, 0);
}
