/* Computes for a second of a processor in a function two calls below main(). */
#include <time.h>

static volatile unsigned long sink;

__attribute__((noinline, noclone)) void spin_here(void)
{
	struct timespec start, now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
	do {
		for (unsigned long i = 0; i < 1000000; i++)
			sink += i * i;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec <
		 1000000000L);
}

__attribute__((noinline, noclone)) int between(void)
{
	spin_here();
	__asm__ volatile("" ::: "memory");
	return 1;
}

int main(void)
{
	int r = between();

	__asm__ volatile("" ::: "memory");
	return r - 1;
}
