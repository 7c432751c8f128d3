/*
 * Threads with a cancellation pending that make the first CUDA call of a process, of a device, of a
 * program after exec, or after a reset, or launch a function first or after code was unloaded, by a
 * stand-in for the runtime (runtime.c) in which only these are cancellation points. Prints what became
 * of each; run without and with probes, it has to print the same.
 *
 *   first          all cases, each in a process of its own
 *   first CASE     one, here
 *   first count    some hundred calls of which it prints how many are first ones
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
int cudaLaunchKernel(const void *function);
int cudaGraphLaunch(void *graph, void *stream);
int cudaStreamQuery(void *stream);
int cudaMemsetAsync(void *at, int value, size_t bytes, void *stream);
int cudaStreamCreate(void **stream);
int cudaMalloc(void **at, size_t bytes);
int cudaSetDevice(int number);
int cudaDeviceReset(void);
void __cudaUnregisterFatBinary(void **handle);
int cuCtxDestroy_v2(void *context);
}

static char functions[8];
static void *stream;

static void launch()
{
	cudaLaunchKernel(functions);
}

static void launch_other()
{
	cudaLaunchKernel(functions + 1);
}

static void launch_graph()
{
	cudaGraphLaunch(functions + 2, nullptr);
}

static void query()
{
	cudaStreamQuery(nullptr);
}

static void fill()
{
	cudaMemsetAsync(nullptr, 0, 8, nullptr);
}

static void create()
{
	cudaStreamCreate(&stream);
}

struct lock {
	~lock()
	{
		std::printf("released ");
	}
};

struct calling {
	void (*prepare)(), (*call)();
};

static void *call_thread(void *arg)
{
	calling *c = static_cast<calling *>(arg);
	lock l;

	if (c->prepare)
		c->prepare();
	pthread_cancel(pthread_self());
	c->call();
	return nullptr;
}

/* A context, with all that is called below but launch_other(). */
static void use()
{
	void *p;

	cudaMalloc(&p, 8);
	for (int i = 0; i < 3; i++) {
		launch();
		fill();
		query();
	}
}

static void other_device()
{
	cudaSetDevice(1);
}

static void run_again()
{
	use();
	execl("/proc/self/exe", "first", "launch", nullptr);
	_exit(1);
}

static const struct {
	const char *name;
	void (*before)(), (*prepare)(), (*call)();
} cases[] = {
	{"launch", nullptr, nullptr, launch},
	{"graph", nullptr, nullptr, launch_graph},
	{"query", nullptr, nullptr, query},
	{"fill", nullptr, nullptr, fill},
	{"create", nullptr, nullptr, create},
	{"other", use, nullptr, launch_other},
	{"known", use, nullptr, launch},
	{"reset:query",
	 [] {
		 use();
		 cudaDeviceReset();
	 },
	 nullptr, query},
	{"reset:launch",
	 [] {
		 use();
		 cudaDeviceReset();
		 query();
		 query();
	 },
	 nullptr, launch},
	{"device:fill", use, other_device, fill},
	{"device:launch",
	 [] {
		 use();
		 other_device();
		 query();
		 query();
	 },
	 other_device, launch},
	{"unregister:launch",
	 [] {
		 use();
		 __cudaUnregisterFatBinary(nullptr);
	 },
	 nullptr, launch},
	{"destroy:launch",
	 [] {
		 use();
		 other_device();
		 use();
		 cuCtxDestroy_v2(nullptr);
	 },
	 nullptr, launch},
	{"exec", run_again, nullptr, launch},
};

static void run(size_t i)
{
	calling c = {cases[i].prepare, cases[i].call};
	void *result = nullptr;
	pthread_t thread;

	std::printf("%s: ", cases[i].name);
	std::fflush(stdout);
	if (cases[i].before)
		cases[i].before();
	pthread_create(&thread, nullptr, call_thread, &c);
	pthread_join(thread, &result);
	std::printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "passed");
	std::fflush(stdout);
	_exit(0);
}

static int count()
{
	int n_first = 0;

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 80; i++) /* the first makes the context, too */
			cudaLaunchKernel(functions + i % 8);
		n_first += 8;
		for (int i = 0; i < 10; i++)
			fill();
		for (int i = 0; i < 10; i++)
			query();
		cudaDeviceReset();
	}
	std::printf("%d\n", n_first);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "count"))
		return count();
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int status = 0;

		if (argc > 1 && !strcmp(argv[1], cases[i].name))
			run(i);
		if (argc > 1)
			continue;
		if (!fork())
			run(i);
		wait(&status);
		if (status)
			std::printf("ended by %d\n", status);
		std::fflush(stdout);
	}
	return 0;
}
