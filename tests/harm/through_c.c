#include "through.h"

long through_c(through_fn fn, long n)
{
	long r = fn(n);

	return r + 1;
}

long through_c_loop(through_fn fn, long n)
{
	long r = 0;

	for (long i = 0; i < n % 3 + 1; i++)
		r += fn(n);
	return r + 1;
}
