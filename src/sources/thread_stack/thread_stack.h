/*
 * Stacks of threads of running processes, read from outside without stopping them: of threads that wait,
 * which stand still. Of one that runs meanwhile, what is read may be of two moments.
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

/* The native stack of a thread that waits in a system call, the innermost frame first. -EBUSY: it runs;
 * or as gs_native_unwind(), or of reading it. */
int gs_thread_stack_native(struct gs_native *native, uint32_t pid, uint32_t tid,
			   struct gs_native_stack *ret_stack);

#endif
