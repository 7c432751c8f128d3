/*
 * Threads that are cancelled, end, or throw inside functions of a stand-in for NVIDIA's driver
 * (driver.c). Prints what became of each; run without and with probes, it has to print the same.
 *
 *   unwound          in functions that were seen to be cancellation points, or call back
 *   unwound launch   in a launch
 */
#include <cstdio>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>

extern "C" {
int cuCtxSynchronize(void);
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes);
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream);
int cuEventRecord(void *event, void *stream);
int cuMemAllocAsync(unsigned long long *at, size_t bytes, void *stream);
int cuLaunchKernel(void);
int cuLaunchHostFunc(void *stream, void (*fn)(void *), void *arg);
int cuStreamAddCallback(void *stream, void (*fn)(void *, int, void *), void *arg, unsigned flags);
extern volatile int driver_waits, driver_launch_waits;
}

struct lock {
	const char *name;
	~lock()
	{
		std::printf("%s released\n", name);
	}
};

static void *synchronize(void *)
{
	lock l{"synchronize"};

	cuCtxSynchronize();
	return nullptr;
}

static void *copy(void *)
{
	lock l{"copy"};
	int word;

	cuMemcpyDtoH_v2(&word, 0, sizeof(word));
	return nullptr;
}

static void *copy_later(void *)
{
	lock l{"copy_later"};
	int word;

	cuMemcpyDtoHAsync_v2(&word, 0, sizeof(word), nullptr);
	return nullptr;
}

static void *record(void *)
{
	lock l{"record"};

	cuEventRecord(nullptr, nullptr);
	return nullptr;
}

static void *allocate(void *)
{
	lock l{"allocate"};
	unsigned long long at;

	cuMemAllocAsync(&at, 8, nullptr);
	return nullptr;
}

static void *launch(void *)
{
	lock l{"launch"};

	cuLaunchKernel();
	return nullptr;
}

static void *leave(void *)
{
	lock l{"leave"};

	cuLaunchHostFunc(
		nullptr, [](void *) { pthread_exit(nullptr); }, nullptr);
	return nullptr;
}

static void throws(void *)
{
	throw std::runtime_error("from a callback");
}

static void throws_too(void *, int, void *)
{
	throw std::runtime_error("from a callback");
}

static void catches(void *)
{
	try {
		throw 1;
	} catch (int) {
	}
}

static void cancel(void *(*fn)(void *))
{
	pthread_t thread;
	void *result;

	driver_waits = 0;
	pthread_create(&thread, nullptr, fn, nullptr);
	while (!driver_waits)
		sched_yield();
	pthread_cancel(thread);
	pthread_join(thread, &result);
	std::printf("cancelled %d\n", result == PTHREAD_CANCELED);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int n_caught = 0;

	if (argc > 1) {
		driver_launch_waits = 1;
		cancel(launch);
		return 0;
	}
	cancel(synchronize);
	cancel(copy);
	cancel(copy_later);
	cancel(record);
	cancel(allocate);
	pthread_create(&thread, nullptr, leave, nullptr);
	pthread_join(thread, nullptr);
	for (int i = 0; i < 100; i++) {
		try {
			cuLaunchHostFunc(nullptr, throws, nullptr);
		} catch (const std::runtime_error &) {
			n_caught++;
		}
		try {
			cuStreamAddCallback(nullptr, throws_too, nullptr, 0);
		} catch (const std::runtime_error &) {
			n_caught++;
		}
		cuLaunchHostFunc(nullptr, catches, nullptr);
	}
	std::printf("caught %d\n", n_caught);
}
