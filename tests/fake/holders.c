/*
 * holders: a known number of bytes of every kind, from known functions, threads and devices, and what
 * is left of them, as one line of JSON. It needs no GPU. With an argument it waits for a line on its
 * input first, and for another one when it has freed what it frees.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_abi.h"
#include "cuda_drv.h"

#define KIB 1024ul
#define MIB (1024 * KIB)

static void must(int result, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "holders: %s: %d\n", what, result);
	exit(1);
}

#define MUST(call) must((int)(call), #call)

static char registered[64 * KIB] __attribute__((aligned(4096)));
static void *activations[8], *weights[3], *other_device[5];

/* Three blocks that stay. */
static __attribute__((noinline)) void make_weights(void)
{
	for (unsigned i = 0; i < 3; i++)
		MUST(cudaMalloc(&weights[i], 3 * MIB));
}

/* Eight blocks at a time, four times; they go. */
static __attribute__((noinline)) void make_activations(void)
{
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 8; i++)
			MUST(cudaMalloc(&activations[i], 512));
		for (unsigned i = 0; i < 8; i++)
			MUST(cudaFree(activations[i]));
	}
}

static __attribute__((noinline)) void make_others(void)
{
	struct cudaPitchedPtr volume;
	struct cudaExtent extent = {1000, 10, 3};
	struct cudaChannelFormatDesc desc = {32, 0, 0, 0, cudaChannelFormatKindFloat};
	cudaArray_t array;
	size_t pitch;
	void *p;

	MUST(cudaMallocPitch(&p, &pitch, 1000, 10));
	MUST(cudaMalloc3D(&volume, extent));
	MUST(cudaMallocArray(&array, &desc, 100, 10, 0));
	MUST(cudaMallocManaged(&p, 7 * KIB, 1));
	MUST(cudaHostAlloc(&p, 9 * KIB, 0));
	MUST(cudaMallocHost(&p, 5 * KIB));
	MUST(cudaFreeHost(p));
	MUST(cudaHostRegister(registered, sizeof(registered), 0));
}

static __attribute__((noinline)) void use_pool(void)
{
	void *p[6];

	for (unsigned i = 0; i < 6; i++)
		MUST(cudaMallocAsync(&p[i], 100 * KIB, NULL));
	for (unsigned i = 0; i < 4; i++)
		MUST(i % 2 ? cudaFree(p[i]) : cudaFreeAsync(p[i], NULL));
}

/* Four pieces are mapped; one was released before, one is unmapped and goes. */
static __attribute__((noinline)) void map_memory(void)
{
	CUmemAllocationProp prop = {.type = 1, .location = {.type = 1, .id = 0}};
	CUmemGenericAllocationHandle handle[4];
	CUdeviceptr at;

	MUST(cuMemAddressReserve(&at, 16 * MIB, 0, 0, 0));
	for (unsigned i = 0; i < 4; i++) {
		MUST(cuMemCreate(&handle[i], 2 * MIB, &prop, 0));
		MUST(cuMemMap(at + i * 2 * MIB, 2 * MIB, 0, handle[i], 0));
	}
	MUST(cuMemRelease(handle[0]));
	/* As NCCL frees its buffers. */
	MUST(cuMemRetainAllocationHandle(&handle[1], (void *)(at + 2 * MIB)));
	MUST(cuMemRelease(handle[1]));
	MUST(cuMemUnmap(at + 2 * MIB, 2 * MIB));
	MUST(cuMemRelease(handle[1]));
}

static void *use_second_device(void *arg)
{
	MUST(cudaSetDevice(1));
	for (unsigned i = 0; i < 5; i++)
		MUST(cudaMalloc(&other_device[i], 10 * KIB));
	return NULL;
}

static void wait_for_line(int argc)
{
	char line[16];

	if (argc > 1 && !fgets(line, sizeof(line), stdin))
		exit(1);
}

int main(int argc, char **argv)
{
	pthread_t second;

	wait_for_line(argc);
	make_weights();
	make_activations();
	make_others();
	use_pool();
	map_memory();
	must(pthread_create(&second, NULL, use_second_device, NULL), "pthread_create");
	must(pthread_join(second, NULL), "pthread_join");
	MUST(cudaFree(other_device[0])); /* by another thread than allocated it */
	cudaFree(other_device[0]);       /* and again: refused */
	cudaFree(registered);            /* never allocated: refused */
	printf("{\"device\": %lu, \"device_1\": %lu, \"pool\": %lu, \"virtual\": %lu, "
	       "\"managed\": %lu, \"pinned\": %lu, \"registered\": %lu}\n",
	       9 * MIB, 40 * KIB, 200 * KIB, 6 * MIB, 7 * KIB, 9 * KIB, 64 * KIB);
	fflush(stdout);
	wait_for_line(argc);
	return 0;
}
