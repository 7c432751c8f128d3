/*
 * Two threads of OpenMP, until they are killed:
 *
 *   imbalance   of each parallel loop one thread has nine tenths of the work
 *   triad       both stream arrays larger than the caches
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N (4u << 20)

static double *a, *b, *c;

static void run_imbalance(void)
{
	for (;;) {
#pragma omp parallel for schedule(static, 1) num_threads(2)
		for (int i = 0; i < 2; i++) {
			volatile double x = 1;

			for (long k = 0; k < (i ? 1000000L : 9000000L); k++)
				x = x * 1.0000001;
		}
	}
}

static void run_triad(void)
{
	for (;;) {
#pragma omp parallel for num_threads(2)
		for (unsigned i = 0; i < N; i++)
			a[i] = b[i] + 3 * c[i];
	}
}

int main(int argc, char **argv)
{
	a = calloc(N, sizeof(*a));
	b = calloc(N, sizeof(*b));
	c = calloc(N, sizeof(*c));
	if (argc != 2 || !a || !b || !c)
		return 2;
	if (strcmp(argv[1], "imbalance") == 0)
		run_imbalance();
	if (strcmp(argv[1], "triad") == 0)
		run_triad();
	fprintf(stderr, "unknown load: %s\n", argv[1]);
	return 2;
}
