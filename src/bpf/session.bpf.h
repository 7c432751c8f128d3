/*
 * Session uprobes (Linux 6.13): one program runs at entry and at return of a call, with eight bytes
 * of its own in between. A program that returns 1 at entry is not called at the return.
 */
#ifndef GS_BPF_SESSION_H
#define GS_BPF_SESSION_H

#include "kernel.bpf.h"

#define SESSION_NO_RETURN 1

/* kernel/trace/bpf_trace.c */
extern __u64 *bpf_session_cookie(void) __ksym __weak;
extern _Bool bpf_session_is_return(void) __ksym __weak;

#endif
