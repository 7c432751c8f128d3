/* A stand-in for libc10_cuda: the static probes of PyTorch's caching allocator, as its
 * CUDACachingAllocator.cpp has them. */
#include <stddef.h>

unsigned short pytorch_malloc_semaphore __attribute__((section(".probes"), used));
unsigned short pytorch_free_semaphore __attribute__((section(".probes"), used));
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

void c10_malloc(void *pointer, int device, size_t size, long stream);
void c10_free(void *pointer);

void c10_malloc(void *pointer, int device, size_t size, long stream)
{
	if (pytorch_malloc_semaphore)
		STAP_PROBE4(pytorch, malloc, pointer, device, size, stream);
}

void c10_free(void *pointer)
{
	if (pytorch_free_semaphore)
		STAP_PROBE1(pytorch, free, pointer);
}
