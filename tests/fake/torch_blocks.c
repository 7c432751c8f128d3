/*
 * Allocates as PyTorch does: segments from CUDA, blocks of them from the caching allocator.
 * torch_blocks N [FILE]: blocks 1..N of i * 512 bytes on device i % 2; those with i % 4 are freed
 * again. With FILE the same again until that file exists, and then how often.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int cudaMalloc(void **pointer, size_t bytes);
void c10_malloc(void *pointer, int device, size_t size, long stream);
void c10_free(void *pointer);
void step(int n);

static char *segment;

/* The first block of a segment begins where it does. */
__attribute__((noinline)) void step(int n)
{
	__asm__ volatile("" : : "r"(&n) : "memory");
	c10_malloc(segment + (n - 1) * (1 << 20), 0, 1 << 20, 7);
}

static void make_blocks(int n)
{
	for (int i = 1; i <= n; i++)
		c10_malloc((void *)(uintptr_t)(0x7e0000000000 + i * 1048576L), i % 2, i * 512,
			   i % 3);
	for (int i = 1; i <= n; i++)
		if (i % 4)
			c10_free((void *)(uintptr_t)(0x7e0000000000 + i * 1048576L));
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 100, rounds = 1;

	cudaMalloc((void **)&segment, 64 << 20);
	for (make_blocks(n); argc > 2 && access(argv[2], F_OK) != 0; rounds++)
		make_blocks(n);
	if (argc > 2)
		printf("%d\n", rounds);
	c10_free((void *)0x1000); /* of before */
	step(1);
	step(2);
	return 0;
}
