/*
 * contexts: launches in the default streams of several contexts of the driver, chosen in all ways, as one
 * line of JSON: how many in which. It needs no GPU.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda_abi.h"
#include "cuda_drv.h"

static CUcontext primary_0, primary_1, own, other;
static CUfunction function;

static void must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "contexts: %s: %d\n", what, result);
	exit(1);
}

#define MUST(call) must((int)(call), #call)

static void launch(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		MUST(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

/* A thread has no context of the one that began it. */
static void *second_thread(void *arg)
{
	MUST(cuCtxSetCurrent(primary_1));
	launch(13);
	MUST(cuCtxSynchronize());
	return arg;
}

int main(void)
{
	CUmodule module;
	CUcontext was;
	pthread_t thread;

	MUST(cuModuleLoadData(&module, "image"));
	MUST(cuModuleGetFunction(&function, module, "kernel"));
	/* As the runtime does in a thread that chose no device: it asks for the handle after it chose it. */
	MUST(cuCtxGetCurrent(&was));
	MUST(cuCtxSetCurrent(was));
	MUST(cuDevicePrimaryCtxRetain(&primary_0, 0));
	launch(5); /* device 0 */
	MUST(cuDevicePrimaryCtxRetain(&primary_1, 1));
	MUST(cuCtxPushCurrent_v2(primary_1));
	launch(3); /* device 1 */
	MUST(cuCtxPopCurrent_v2(&was));
	launch(2); /* device 0 */
	MUST(cuCtxCreate_v2(&own, 0, 1));
	launch(7); /* its own, of device 1 */
	MUST(cuCtxCreate_v2(&other, 0, 0));
	launch(4); /* its own, of device 0 */
	MUST(cuCtxPopCurrent_v2(&was));
	launch(1); /* own */
	MUST(cuCtxPopCurrent_v2(&was));
	MUST(cudaSetDevice(2));
	launch(6); /* device 2 */
	MUST(cuCtxSetCurrent(own));
	launch(11);
	MUST(cuCtxSynchronize());
	MUST(cuCtxDestroy_v2(own));
	MUST(cuCtxSetCurrent(other));
	launch(8);
	if (pthread_create(&thread, NULL, second_thread, NULL) || pthread_join(thread, NULL))
		return 1;
	printf("{\"pid\": %d, \"own\": \"%p\", \"other\": \"%p\"}\n", getpid(), (void *)own,
	       (void *)other);
	return 0;
}
