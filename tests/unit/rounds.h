/* How often a test with random input repeats: sanitizers look at the code that runs, not at how likely it is, and slow it down
 * by five. */
#ifndef GS_TESTS_UNIT_ROUNDS_H
#define GS_TESTS_UNIT_ROUNDS_H

#include "core/base/sanitizer.h"

#ifdef GS_SANITIZER
#define TEST_ROUNDS(n) ((n) / 5)
#else
#define TEST_ROUNDS(n) (n)
#endif

#endif
