/*
 * Marks: what is sent of a call that was added up when its function had not returned on that thread
 * for GS_MARK_APART_NS (src/bpf/calls/mark.bpf.h). Both sides of the kernel border know it.
 */
#ifndef GS_MODEL_TRACE_MARK_H
#define GS_MODEL_TRACE_MARK_H

#include "model/trace/event.h"

#define GS_MARK_APART_NS 1000000ull

/* As of the return of the call, with it. */
struct gs_event_mark {
	struct gs_event head;
	__u64 time_ns;
	__u64 dur_ns;
	__u64 called;     /* of the thread: GS_MARK_ONE_CALL and gs_mark_hash() for each call */
	__u64 covered_ns; /* of the thread: in calls that no other one was around */
	__u64 cpu_ns;     /* how long the thread has had a processor */
	__u64 calls;      /* of the function since its last mark: 1: none was without */
	__u32 pid;
	__u32 tid;
	__u32 func; /* id */
	__u32 pad;
};
_Static_assert(sizeof(struct gs_event_mark) == 72, "gs_event_mark");

/* The sums of two runs of calls are the same only for as many calls of the same functions; of
 * differences, of up to 2^24 calls. */
#define GS_MARK_ONE_CALL   (1ull << 40)
#define GS_MARK_CALL_SHIFT 40

/* What a call of this function adds to the sum beside GS_MARK_ONE_CALL: below 2^16. */
static inline __u64 gs_mark_hash(__u32 func)
{
	return (func * 0x9e3779b1u) >> 16;
}

#endif
