/*
 * What the kernel side keeps of each thread to find a process's first calls of CUDA, which are left without a
 * return probe (src/bpf/calls/first.bpf.h). It is a part of struct gs_thread and is only there for its size.
 */
#ifndef GS_MODEL_TRACE_FIRST_SIDE_H
#define GS_MODEL_TRACE_FIRST_SIDE_H

#include "model/trace/event.h"

#define GS_FIRST_RECENT 64 /* a power of two */

/* What a thread knows of calls that may be cancellation points (src/bpf/calls/first.bpf.h). */
struct gs_first {
	__u32 gen;      /* gs_kernel_state.context_gen when the next two were looked up */
	__u32 device;   /* of the thread, by its cudaSetDevice */
	__u64 layers;   /* 1 << enum gs_layer: its process is known to have a context */
	__u64 epoch_ns; /* of that context */
	__u16 id;       /* function of a call that was left alone and may not be over; 0 none */
	__u16 inner_id; /* the innermost call by which that one does its work, or itself */
	__u32 n_inside; /* entries since, below its stack pointer */
	__u64 sp, ip, ret_ip;          /* where the innermost came in, and where it returns to */
	__u64 function;                /* what it launches; 0 nothing */
	__u64 recent[GS_FIRST_RECENT]; /* launches that are none of the first ones, by hash */
};

#endif
