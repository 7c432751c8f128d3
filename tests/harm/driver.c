/* A driver through which the stack can be unwound: built with -fexceptions. */
#include <poll.h>
#include <stddef.h>

volatile int driver_waits;

static int wait_for_work(void)
{
	driver_waits = 1;
	return poll(NULL, 0, 60000);
}

int cuCtxSynchronize(void)
{
	return wait_for_work();
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
	return wait_for_work();
}

int cuLaunchHostFunc(void *stream, void (*fn)(void *), void *arg)
{
	fn(arg);
	return 0;
}

int cuStreamAddCallback(void *stream, void (*fn)(void *, int, void *), void *arg, unsigned flags)
{
	fn(stream, 0, arg);
	return 0;
}

/* By these a driver is known. */
int cuLaunchKernel(void)
{
	return 0;
}

int cuMemAlloc_v2(void)
{
	return 0;
}
