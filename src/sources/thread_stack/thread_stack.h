/*
 * Stacks of threads of running processes, read from outside without stopping them. Of a Python thread that runs
 * meanwhile, what is read may be of two moments; the native stack of one that runs is a sample of one moment.
 */
#ifndef GS_SOURCES_THREAD_STACK_THREAD_STACK_H
#define GS_SOURCES_THREAD_STACK_THREAD_STACK_H

#include "sources/unwind/native.h"
#include "sources/unwind/python.h"

struct gs_thread_stack_python {    /* a frame */
	char file[512], name[256]; /* UTF-8; the qualified name from 3.11 on */
	uint32_t line;             /* from 1; 0 not known */
};

/* The Python stack of a thread, the innermost frame first, by what gs_pythons_find() said of its process: how
 * many frames, at most max. -ENOENT: the thread runs no Python; -EFAULT: it cannot be read. */
int gs_thread_stack_python(pid_t pid, uint32_t tid, const struct gs_py_proc *proc,
			   struct gs_thread_stack_python *frames, unsigned max);

/* The native stack of a thread, the innermost frame first. -EBUSY: it wants to run, and got no processor for half
 * a second; or as gs_native_unwind(), or of reading it. */
int gs_thread_stack_native(struct gs_native *native, uint32_t pid, uint32_t tid,
			   struct gs_native_stack *ret_stack);

#endif
