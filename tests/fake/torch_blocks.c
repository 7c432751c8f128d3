/*
 * Allocates as PyTorch does: segments from CUDA, blocks of them from the caching allocator.
 * torch_blocks N: blocks 1..N of i * 512 bytes on device i % 2; those with i % 4 are freed again.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int cudaMalloc(void **pointer, size_t bytes);
void c10_malloc(void *pointer, int device, size_t size, long stream);
void c10_free(void *pointer);
void step(int n);

__attribute__((noinline)) void step(int n)
{
	__asm__ volatile("" : : "r"(&n) : "memory");
	c10_malloc((void *)(uintptr_t)(0x7f0000000000 + n * 4096), 0, 1 << 20, 7);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 100;
	void *segment;

	cudaMalloc(&segment, 64 << 20);
	for (int i = 1; i <= n; i++)
		c10_malloc((void *)(uintptr_t)(0x7e0000000000 + i * 1048576L), i % 2, i * 512,
			   i % 3);
	for (int i = 1; i <= n; i++)
		if (i % 4)
			c10_free((void *)(uintptr_t)(0x7e0000000000 + i * 1048576L));
	c10_free((void *)0x1000); /* of before */
	step(1);
	step(2);
	return 0;
}
