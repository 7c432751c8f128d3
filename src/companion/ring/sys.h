/*
 * System calls without libc: in a traced program its errno is not ours to change, and its libc need not
 * be one that we know. x86-64; each returns a negative errno when it fails.
 */
#ifndef GS_COMPANION_RING_SYS_H
#define GS_COMPANION_RING_SYS_H

#include <stdint.h>
#include <sys/syscall.h>

/* The result, or a negative errno. Arguments that the call does not have are 0. */
static inline long companion_sys(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return r;
}

#define COMPANION_SYS3(number, a, b, c)                                                            \
	companion_sys(SYS_##number, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define COMPANION_SYS4(number, a, b, c, d)                                                         \
	companion_sys(SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define COMPANION_SYS6(number, a, b, c, d, e, f)                                                   \
	companion_sys(SYS_##number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),         \
		      (long)(f))

#endif
