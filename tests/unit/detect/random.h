/* Random numbers of the tests of detectors, and of mixture_golden.py, which makes the same. */
#ifndef TESTS_UNIT_DETECT_RANDOM_H
#define TESTS_UNIT_DETECT_RANDOM_H

#include <stdint.h>

static inline double draw_uniform(uint64_t *state) /* splitmix64 */
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* Nearly normal: no function of the mathematical library, whose last digit differs. */
static inline double draw_normal(uint64_t *state)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += draw_uniform(state);
	return sum - 6;
}

#endif
