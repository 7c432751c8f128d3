/*
 * Counts calls of malloc, calloc and realloc, and lets one of them fail: the program must be linked
 * with -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc. To be included by one file of a program.
 */
#ifndef GS_TESTS_MALLOC_COUNT_H
#define GS_TESTS_MALLOC_COUNT_H

#include <stddef.h>

static unsigned long n_mallocs;
static unsigned long fail_at; /* the call of this number fails; 0: none does */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return ++n_mallocs == fail_at ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return ++n_mallocs == fail_at ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *p, size_t bytes)
{
	return ++n_mallocs == fail_at ? NULL : __real_realloc(p, bytes);
}

#endif
