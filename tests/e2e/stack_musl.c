/* A program for another libc: `stack_musl N` calls getppid() N times, three functions down. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

NOINLINE int inner(int n)
{
	volatile int parent = getppid();

	return parent > 0 ? n : 0;
}

NOINLINE int middle(int n)
{
	volatile char room[200];

	room[n & 127] = 1;
	return inner(n) + room[n & 127];
}

NOINLINE int outer(int n)
{
	int sum = 0;

	for (int i = 0; i < n; i++)
		sum += middle(1);
	return sum;
}

int main(int argc, char **argv)
{
	printf("%d\n", outer(argc > 1 ? atoi(argv[1]) : 1));
	return 0;
}
