/*
 * Session uprobes (Linux 6.13): one program runs at entry and at return of a call, with eight bytes
 * of its own in between. A program that returns 1 at entry is not called at the return.
 */
#ifndef GS_BPF_CALLS_SESSION_BPF_H
#define GS_BPF_CALLS_SESSION_BPF_H

#include "kernel.bpf.h"

#define SESSION_NO_RETURN 1

/* kernel/trace/bpf_trace.c */
extern __u64 *bpf_session_cookie(void) __ksym __weak;
/* Ours is never 0 once an entry has asked for its return, and it is 0 at the entry: the kernel
 * clears it for each call (handler_chain() in kernel/events/uprobes.c, since sessions exist). So
 * the cookie distinguishes the two ends, without the two calls of bpf_session_is_return(). */
static __always_inline _Bool session_is_return(const __u64 *cookie)
{
	return *cookie != 0;
}

#endif
