/* What a process can still do after gs_sandbox_enter(), asked of the kernel in a child each. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/sandbox/sandbox_int.h"
#include "core/base/sanitizer.h"

static const struct gs_sandbox reader = {
	.profile = GS_SANDBOX_READER,
	.own_user = true,
	.max_bytes = 512u << 20,
	.max_cpu_s = 60,
	.max_files = 16,
};

/* Exit status of a child that runs fn in the sandbox; 128 + signal. */
static int run_inside(const struct gs_sandbox *box, int (*fn)(unsigned held))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(fn(gs_sandbox_enter(box)));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A line of /proc/PID/status. */
static void status_line(pid_t pid, const char *name, char *text, size_t bytes)
{
	GS_FCLOSE FILE *f = NULL;
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	*text = 0;
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			snprintf(text, bytes, "%s", line + strlen(name) + 1);
	assert_true(*text);
}

static uint64_t status_hex(pid_t pid, const char *name)
{
	char text[256];

	status_line(pid, name, text, sizeof(text));
	return strtoull(text, NULL, 16);
}

static void test_status(void **state)
{
	unsigned held, uid;
	int socket[2], status;
	char text[256], byte;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, socket), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct iovec part = {&held, sizeof(held)};
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

		close(socket[1]);
		held = gs_sandbox_enter(&reader);
		_exit(sendmsg(socket[0], &message, 0) < 0 || read(socket[0], &byte, 1) != 1);
	}
	close(socket[0]);
	assert_int_equal(read(socket[1], &held, sizeof(held)), sizeof(held));
	assert_true(held & GS_SANDBOX_NO_NEW_PRIVS);
	assert_true(held & GS_SANDBOX_SECCOMP);
	assert_true(held & GS_SANDBOX_CAPABILITIES);
	assert_true(held & GS_SANDBOX_LIMITS);
	assert_int_equal(status_hex(pid, "CapEff:"), 0);
	assert_int_equal(status_hex(pid, "CapPrm:"), 0);
	assert_int_equal(status_hex(pid, "CapInh:"), 0);
	assert_int_equal(status_hex(pid, "CapAmb:"), 0);
	assert_int_equal(status_hex(pid, "NoNewPrivs:"), 1);
	assert_int_equal(status_hex(pid, "Seccomp:"), 2);
	status_line(pid, "Uid:", text, sizeof(text));
	assert_int_equal(sscanf(text, "%u", &uid), 1);
	if (geteuid() == 0) {
		assert_true(held & GS_SANDBOX_USER);
		assert_int_not_equal(uid, 0);
		assert_int_equal(status_hex(pid, "CapBnd:"), 0);
	} else {
		assert_int_equal(uid, geteuid());
	}
	assert_int_equal(write(socket[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(socket[1]);
}

static bool is_refused(long r)
{
	return r < 0 && (errno == EPERM || errno == EACCES);
}

/* The number of the first thing that was not refused; 0 all were. */
static int try_everything(unsigned held)
{
	char *const argv[] = {(char *)(uintptr_t) "true", NULL};

	if (!is_refused(open("/etc/passwd", O_RDONLY)))
		return 1;
	if (!is_refused(open("/tmp/x", O_WRONLY | O_CREAT, 0600)))
		return 2;
	if (!is_refused(socket(AF_INET, SOCK_STREAM, 0)))
		return 3;
	if (!is_refused(execv("/bin/true", argv)))
		return 4;
	if (!is_refused(ptrace(PTRACE_ATTACH, getppid(), 0, 0)))
		return 5;
	if (!is_refused(kill(getppid(), 0)))
		return 6;
	if (!is_refused(setuid(0)))
		return 7;
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
	    MAP_FAILED)
		return 8;
	if (!is_refused(mkdir("/tmp/gpuscope-sandbox", 0700)))
		return 9;
	return 0;
}

static int write_some(unsigned held)
{
	return write(STDERR_FILENO, "", 0) == 0 ? 0 : 1;
}

/* What a tracer keeps: nothing that root's accidents need, and what attaching takes. */
static int keep_tracing(unsigned gpu_counters)
{
	uint64_t effective, bound;

	gs_sandbox_keep_tracing(gpu_counters);
	effective = status_hex(getpid(), "CapEff:");
	bound = status_hex(getpid(), "CapBnd:");
	if ((effective | bound) & (1ull << 16 | 1ull << 17 | 1ull << 12 | 1ull << 27))
		return 1; /* SYS_MODULE, SYS_RAWIO, NET_ADMIN, MKNOD */
	if (geteuid() == 0 && (~effective & (1ull << 39 | 1ull << 38 | 1ull << 19 | 1ull << 2)))
		return 2; /* BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH */
	return gpu_counters && geteuid() == 0 && !(effective & 1ull << 21) ? 3 : 0;
}

/* And for control groups of devices, where Linux before 6.9 asks for NET_ADMIN. */
static int keep_devices(void)
{
	uint64_t effective;

	gs_sandbox_keep_tracing(GS_SANDBOX_DEVICE_CGROUPS);
	effective = status_hex(getpid(), "CapEff:");
	return (~effective & (1ull << 21 | 1ull << 12)) || effective & (1ull << 16 | 1ull << 17);
}

static void test_what_a_tracer_keeps(void **state)
{
	uint64_t had = status_hex(getpid(), "CapEff:");

	if (~had & (1ull << 39 | 1ull << 38 | 1ull << 21 | 1ull << 19 | 1ull << 8 | 1ull << 2))
		skip(); /* not all that a tracer wants was there */
	for (int with = 0; with < (had & 1ull << 12 ? 3 : 2); with++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0)
			_exit(with == 2 ? keep_devices() : keep_tracing((unsigned)with));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

static void test_everything_is_refused(void **state)
{
	const char *sanitizer = getenv("ASAN_OPTIONS");
	struct gs_sandbox printer;

	if (sanitizer)
		skip(); /* its calls are let in, and these are among them */
	assert_int_equal(run_inside(&reader, try_everything), 0);
	printer = reader;
	printer.profile = GS_SANDBOX_PRINTER;
	assert_int_equal(run_inside(&printer, try_everything), 0);
	assert_int_equal(run_inside(&reader, write_some), 1);
	assert_int_equal(run_inside(&printer, write_some), 0);
}

static const struct gs_sandbox_path sender_paths[] = {
	{"/etc", GS_SANDBOX_READ}, {"/usr", GS_SANDBOX_READ | GS_SANDBOX_EXECUTE}};
static const struct gs_sandbox sender = {
	.profile = GS_SANDBOX_SENDER,
	.own_user = true,
	.paths = sender_paths,
	.n_paths = GS_ARRAY_LEN(sender_paths),
	.tcp = true,
	.max_bytes = 512u << 20,
	.max_files = 16,
};

/* The number of the first thing that was not refused; 0 all were. */
static int try_all_but_sending(unsigned held)
{
	char *const argv[] = {(char *)(uintptr_t) "true", NULL};
	const int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

	if (file < 0)
		return 20; /* that is allowed: names of hosts are in such files */
	if (!is_refused(open("/etc/passwd", O_RDWR)) || !is_refused(open("/etc/shadow", O_RDONLY)))
		return 1;
	if (!is_refused(open("/tmp/x", O_WRONLY | O_CREAT, 0600)))
		return 2;
	if ((held & GS_SANDBOX_LANDLOCK) && !is_refused(open("/proc/self/maps", O_RDONLY)))
		return 3;
	if (!is_refused(execv("/bin/true", argv)) || !is_refused(fork()))
		return 4;
	if (!is_refused(ptrace(PTRACE_ATTACH, getppid(), 0, 0)) || !is_refused(kill(getppid(), 0)))
		return 5;
	if (!is_refused(setuid(0)) || !is_refused(mkdir("/tmp/gpuscope-sandbox", 0700)))
		return 6;
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		    MAP_FAILED ||
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE, file, 0) !=
		    MAP_FAILED)
		return 7;
	if (!is_refused(listen(socket(AF_INET, SOCK_STREAM, 0), 1)) ||
	    !is_refused(socket(AF_INET, SOCK_RAW, 1)) ||
	    !is_refused(socket(AF_PACKET, SOCK_RAW, 0)))
		return 8;
	return 0;
}

/* What the C library does for a name, and a connection to a port where nobody is. */
static int send_on(unsigned held)
{
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	int fd;

	if (getaddrinfo("localhost", "1", &wanted, &found) != 0)
		return 1;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return 2;
	return connect(fd, found->ai_addr, found->ai_addrlen) < 0 && errno == ECONNREFUSED ? 0 : 3;
}

static void test_a_sender_sends_alone(void **state)
{
	assert_int_equal(run_inside(&sender, send_on), 0);
	if (getenv("ASAN_OPTIONS") || geteuid() != 0)
		skip(); /* as above; without root the user stays */
	assert_int_equal(run_inside(&sender, try_all_but_sending), 0);
}

/* What a reader does all day: memory, and descriptors that are open already. */
static int zero_fd;

static int do_work(unsigned held)
{
	char *block = malloc(8 << 20);
	struct stat st;
	uint64_t word;

	if (!block)
		return 1;
	memset(block, 1, 8 << 20);
	block = realloc(block, 16 << 20);
	if (!block)
		return 2;
	free(block);
	if (fstat(zero_fd, &st) < 0 || pread(zero_fd, &word, sizeof(word), 0) != sizeof(word))
		return 3;
	return close(zero_fd) == 0 ? 0 : 4;
}

static void test_work_goes_on(void **state)
{
	zero_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(zero_fd >= 0);
	assert_int_equal(run_inside(&reader, do_work), 0);
	close(zero_fd);
}

/* Sanitizers take their memory by other ways. */
#ifndef GS_SANITIZER
static int take_memory(unsigned held)
{
	return malloc(1u << 30) == NULL ? 0 : 1;
}
#endif

static int spin_on(unsigned held)
{
	for (volatile uint64_t i = 0;; i++)
		;
	return 0;
}

static void test_limits(void **state)
{
	struct gs_sandbox box = reader;

#ifndef GS_SANITIZER
	assert_int_equal(run_inside(&box, take_memory), 0);
#endif
	box.max_cpu_s = 1;
	assert_int_equal(run_inside(&box, spin_on), 128 + SIGKILL);
}

static int open_some(void)
{
	const struct gs_sandbox_path paths[] = {{"/proc/self", GS_SANDBOX_READ},
						{"/nothing/there", GS_SANDBOX_READ}};
	const struct gs_sandbox box = {.paths = paths, .n_paths = GS_ARRAY_LEN(paths)};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return 1;
	if (sandbox_restrict_paths(&box) < 0)
		return 77; /* this kernel has it not */
	if (open("/proc/self/stat", O_RDONLY | O_CLOEXEC) < 0)
		return 2;
	return open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : 3;
}

static void test_paths(void **state)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(open_some());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_names(void **state)
{
	char text[128];

	assert_string_equal(gs_sandbox_names(0, text, sizeof(text)), "");
	assert_string_equal(
		gs_sandbox_names(GS_SANDBOX_NO_NEW_PRIVS | GS_SANDBOX_SECCOMP, text, sizeof(text)),
		"no_new_privs, seccomp");
	assert_int_equal(strlen(gs_sandbox_names(GS_SANDBOX_ALL, text, 10)), 9);
}

static void test_waits_before_restarts(void **state)
{
	static const unsigned wait_ms[] = {100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000};
	unsigned n_failures = 0;

	(void)state;
	assert_int_equal(gs_sandbox_restart_wait_ns(&n_failures, 3600000000000ull), 0);
	for (size_t i = 0; i < sizeof(wait_ms) / sizeof(wait_ms[0]); i++)
		assert_int_equal(gs_sandbox_restart_wait_ns(&n_failures, 1000),
				 wait_ms[i] * 1000000ull);
	assert_int_equal(gs_sandbox_restart_wait_ns(&n_failures, 10000000000ull), 0);
	assert_int_equal(gs_sandbox_restart_wait_ns(&n_failures, 0), 100000000ull);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_everything_is_refused),
		cmocka_unit_test(test_work_goes_on),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_a_sender_sends_alone),
		cmocka_unit_test(test_what_a_tracer_keeps),
		cmocka_unit_test(test_waits_before_restarts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
