// For tests/e2e/inside.py: calls of the stand-in runtime by every kind of pointer that a program has of a function,
// and whatever may come through, into or out of the midst of one. Prints what it counted, ends with 0 when all was right.
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
int cudaMalloc(void **ptr, size_t bytes);
int cudaFree(void *ptr);
int cudaLaunchHostFunc(void *stream, void (*fn)(void *), void *data);
int cudaDeviceSynchronize(void);
}
extern char **environ;

static int (*in_data)(void **, size_t) = cudaMalloc; // R_X86_64_64: a pointer in the program's data
static int bad;

static void check(bool ok, const char *what)
{
	if (!ok) {
		std::fprintf(stderr, "wrong: %s\n", what);
		bad++;
	}
}

static void allocate(int n)
{
	void *ptr = nullptr;
	for (int i = 0; i < n; i++)
		check(cudaMalloc(&ptr, 64) == 0 && ptr, "cudaMalloc");
}

static void pointers(int n)
{
	void *ptr = nullptr;
	int (*volatile taken)(void **, size_t) = cudaMalloc;
	auto found = (int (*)(void **, size_t))dlsym(RTLD_DEFAULT, "cudaMalloc");
	for (int i = 0; i < n; i++)
		check(in_data(&ptr, 1) == 0 && taken(&ptr, 1) == 0 && found(&ptr, 1) == 0,
		      "by a pointer");
}

static void thrower(void *data)
{
	throw std::runtime_error("out of a callback");
}

static void throws(int n)
{
	int caught = 0;
	for (int i = 0; i < n; i++) {
		try {
			cudaLaunchHostFunc(nullptr, thrower, nullptr);
		} catch (const std::runtime_error &) {
			caught++;
		}
		allocate(1);
	}
	check(caught == n, "exceptions");
}

static jmp_buf out;
static void jumper(void *data)
{
	longjmp(out, 1);
}

static void jumps(int n)
{
	for (volatile int i = 0; i < n; i++) {
		if (setjmp(out) == 0)
			cudaLaunchHostFunc(nullptr, jumper, nullptr);
		allocate(1);
	}
}

struct unwound {
	~unwound()
	{
		++*n;
	}
	int *n;
};

static void canceller(void *data)
{
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

static void *cancelled(void *count)
{
	unwound u{static_cast<int *>(count)};
	cudaLaunchHostFunc(nullptr, canceller, nullptr);
	return nullptr;
}

static void cancels(int n)
{
	int destroyed = 0;
	for (int i = 0; i < n; i++) {
		pthread_t t;
		void *result = nullptr;
		pthread_create(&t, nullptr, cancelled, &destroyed);
		pthread_join(t, &result);
		check(result == PTHREAD_CANCELED, "the thread was cancelled");
	}
	check(destroyed == n, "destructors of cancelled threads");
	allocate(n);
}

// A function that may be called in a signal handler: the stand-in takes locks.
static int (*volatile driver_alloc)(unsigned long long *, size_t);
static const int N_SIGNALS = 1500;
static std::atomic<int> n_signals;
static void in_handler(int)
{
	unsigned long long ptr = 0;
	check(driver_alloc(&ptr, 8) == 0 && ptr == 0x10008, "a call in a signal handler");
	n_signals++;
}

// Each when the one before was handled: of those that come while one is pending nothing is left, so that
// on a loaded machine any number that is sent may be fewer than are waited for.
static void *kicks(void *of)
{
	for (int i = 0; i < N_SIGNALS; i++) {
		pthread_kill(*static_cast<pthread_t *>(of), SIGUSR1);
		do
			usleep(50);
		while (n_signals == i);
	}
	return nullptr;
}

static void signals(const char *driver)
{
	unsigned long long ptr = 0;
	pthread_t self = pthread_self(), kicker;
	int made = 0;
	void *library = dlopen(driver, RTLD_NOW);
	driver_alloc =
		library ? (int (*)(unsigned long long *, size_t))dlsym(library, "cuMemAlloc_v2")
			: nullptr;
	if (!driver_alloc) {
		check(false, "the driver");
		return;
	}
	signal(SIGUSR1, in_handler);
	pthread_create(&kicker, nullptr, kicks, &self);
	for (int before = -1; n_signals < N_SIGNALS; before = n_signals) {
		check(driver_alloc(&ptr, 16) == 0 && ptr == 0x10010,
		      "a call that signals come into");
		made++;
		if (before == n_signals && made % 64 == 0)
			usleep(20);
	}
	pthread_join(kicker, nullptr);
	std::printf("signals %d %d\n", made, n_signals.load());
}

static void forks(int n, char **argv)
{
	for (int i = 0; i < 3; i++) {
		pid_t child = i == 1 ? vfork() : fork();
		if (child == 0 && i == 0) {
			allocate(n);
			_exit(bad);
		}
		if (child == 0) { // and another program, by both ways
			execl("/proc/self/exe", argv[0], "plain", std::to_string(n).c_str(),
			      nullptr);
			_exit(99);
		}
		int status;
		waitpid(child, &status, 0);
		check(status == 0, "a child");
	}
	allocate(n);
}

static volatile bool asking;
static void *asks(void *)
{
	while (asking)
		check(dlsym(RTLD_DEFAULT, "cudaMalloc") != nullptr, "dlsym");
	return nullptr;
}

// Children that are made while another thread is in the midst of a question to the loader.
static void copies(int n)
{
	pthread_t t[3];
	asking = true;
	for (auto &x : t)
		pthread_create(&x, nullptr, asks, nullptr);
	for (int i = 0; i < n; i++) {
		pid_t child = fork();
		if (child == 0) {
			alarm(20);
			check(dlsym(RTLD_DEFAULT, "cudaFree") != nullptr, "dlsym in a child");
			allocate(1);
			_exit(bad);
		}
		int status;
		waitpid(child, &status, 0);
		check(status == 0, "a copy");
	}
	asking = false;
	for (auto &x : t)
		pthread_join(x, nullptr);
}

static void closes(int n, const char *library)
{
	for (int i = 0; i < 20; i++) {
		void *l = dlopen(library, RTLD_NOW | RTLD_LOCAL);
		auto calls = l ? (int (*)(int))dlsym(l, "run_calls") : nullptr;
		check(calls && calls(n) == 0, "a library that is loaded and closed");
		if (l)
			dlclose(l);
	}
}

static void *one_call(void *)
{
	allocate(1);
	return nullptr;
}

// Far more threads than slots, a few at one time.
static void threads(int n)
{
	for (int i = 0; i < n; i++) {
		pthread_t t[4];
		for (auto &x : t)
			pthread_create(&x, nullptr, one_call, nullptr);
		for (auto &x : t)
			pthread_join(x, nullptr);
		if (i % 8 == 0)
			usleep(30000);
	}
}

// Calls of a program that becomes another one, which makes as many.
static void execs(int n, char **argv)
{
	allocate(n);
	execl("/proc/self/exe", argv[0], "plain", std::to_string(n).c_str(), nullptr);
	check(false, "another program");
}

// Calls in what runs at the end: handlers in their order, and destructors after those registered later.
static int at_end, n_ended;
static void handle_exit()
{
	allocate(at_end);
	n_ended++;
}

struct ended {
	~ended()
	{
		allocate(at_end);
		if (n_ended != 2 || bad)
			_exit(9);
	}
};

static void exits(int n)
{
	static ended last; // its destructor runs after the handlers, which are registered later
	at_end = n;
	atexit(handle_exit);
	atexit(handle_exit);
	allocate(n);
}

typedef int (*driver_call)(unsigned long long *, size_t);
static driver_call load_driver(const char *driver)
{
	void *library = dlopen(driver, RTLD_NOW);
	return library ? (driver_call)dlsym(library, "cuMemAlloc_v2") : nullptr;
}

#define LOAD_CALL BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0)
#define ALLOW(call)                                                                                \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1),                                     \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE(call)                                                                               \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1),                                     \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static bool set_filter(sock_filter *code, unsigned short n)
{
	struct sock_fprog program = {n, code};
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// From some point on any system call but exit_group(2) ends the program.
static void strict(int n, const char *driver)
{
	struct sock_filter code[] = {LOAD_CALL, ALLOW(exit_group),
				     BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
	driver_call call = load_driver(driver);
	unsigned long long ptr = 0;
	if (!call || call(&ptr, 16) != 0 || !set_filter(code, sizeof(code) / sizeof(*code))) {
		check(false, "a filter");
		return;
	}
	for (int i = 0; i < n; i++)
		if (call(&ptr, 16) != 0 || ptr != 0x10010)
			_exit(9);
	_exit(0);
}

// A thread that may not read the processor's counter, from before its first call on.
static driver_call in_thread;
static void *call_without_counter(void *n)
{
	unsigned long long ptr = 0;
	check(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0, "a counter that is forbidden");
	for (int i = 0; i < *static_cast<int *>(n); i++)
		check(in_thread(&ptr, 16) == 0 && ptr == 0x10010, "a call without a counter");
	return nullptr;
}

static void without_counter(int n, const char *driver)
{
	pthread_t thread;
	in_thread = load_driver(driver);
	check(in_thread && pthread_create(&thread, nullptr, call_without_counter, &n) == 0 &&
		      pthread_join(thread, nullptr) == 0,
	      "a thread");
}

// A filter that refuses what a thread's first record, or that of a child, needs of the kernel.
static void filtered(int n)
{
	struct sock_filter code[] = {
		LOAD_CALL,         REFUSE(madvise),
		REFUSE(openat),    REFUSE(gettid),
		REFUSE(ftruncate), REFUSE(renameat),
		REFUSE(prlimit64), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	pthread_t thread;

	allocate(n);
	if (!set_filter(code, sizeof(code) / sizeof(*code))) {
		check(false, "a filter");
		return;
	}
	pthread_create(&thread, nullptr, one_call, nullptr);
	pthread_join(thread, nullptr);
	pid_t child = fork();
	if (child == 0) {
		allocate(n);
		_exit(bad);
	}
	int status;
	waitpid(child, &status, 0);
	check(status == 0, "a child of a filtered program");
	allocate(n);
}

// Libraries with thread-local memory in the block that all threads have from their start: how many find room?
static void tls(int n, const char *folder)
{
	int loaded = 0;
	for (int i = 0; i < n; i++)
		loaded += dlopen((std::string(folder) + "/tls" + std::to_string(i) + ".so").c_str(),
				 RTLD_NOW) != nullptr;
	allocate(1);
	std::printf("loaded %d\n", loaded);
}

int main(int argc, char **argv)
{
	std::string what = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? std::atoi(argv[2]) : 1;

	errno = 77;
	allocate(1);
	check(errno == 77, "errno is left alone");
	if (what == "plain")
		allocate(n - 1);
	else if (what == "pointers")
		pointers(n);
	else if (what == "throws")
		throws(n);
	else if (what == "jumps")
		jumps(n);
	else if (what == "cancels")
		cancels(n);
	else if (what == "signals")
		signals(argv[3]);
	else if (what == "forks")
		forks(n, argv);
	else if (what == "execs")
		execs(n, argv);
	else if (what == "exits")
		exits(n);
	else if (what == "strict")
		strict(n, argv[3]);
	else if (what == "counter")
		without_counter(n, argv[3]);
	else if (what == "filtered")
		filtered(n);
	else if (what == "tls")
		tls(n, argv[3]);
	else if (what == "closes")
		closes(n, argv[3]);
	else if (what == "threads")
		threads(n);
	else if (what == "copies")
		copies(n);
	else if (what == "hang") {
		cudaLaunchHostFunc(
			nullptr,
			[](void *) {
				std::puts("hangs");
				std::fflush(stdout);
				pause();
			},
			nullptr);
	} else
		return 2;
	return bad != 0;
}
