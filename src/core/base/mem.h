/*
 * Ownership helpers. An owning local is tagged with the function that releases it and starts at
 * NULL or -1, so that a reader of one function sees that it neither leaks nor frees twice; a value
 * that leaves the function leaves it through gs_take().
 */
#ifndef GS_CORE_BASE_MEM_H
#define GS_CORE_BASE_MEM_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define GS_CLEANUP(fn)  __attribute__((cleanup(fn)))
#define GS_UNUSED       __attribute__((unused))
#define GS_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define GS_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Hand an owned pointer on: the variable becomes NULL, the value is returned. */
#define gs_take(p)                                                                                 \
	({                                                                                         \
		__typeof__(p) taken = (p);                                                         \
		(p) = NULL;                                                                        \
		taken;                                                                             \
	})

/* Hand an owned file descriptor on: the variable becomes -1. */
static inline int gs_take_fd(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

/* For GS_FREE: p points to the owning pointer, whose memory is freed, and which is NULL then. */
static inline void gs_free_p(void *p)
{
	free(*(void **)p);
	*(void **)p = NULL;
}

/* Close *fd when it is open and set it to -1. */
static inline void gs_close_p(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Close *f when there is one and set it to NULL. What closing fails with is not seen: not for files
 * that are written. */
static inline void gs_fclose_p(FILE **f)
{
	if (*f)
		fclose(*f);
	*f = NULL;
}

#define GS_FREE   GS_CLEANUP(gs_free_p)
#define GS_CLOSE  GS_CLEANUP(gs_close_p)
#define GS_FCLOSE GS_CLEANUP(gs_fclose_p)

#endif
