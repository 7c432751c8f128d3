/* What the files of the room share. Inside the room only. */
#ifndef GS_SOURCES_THREAD_STACK_THREAD_STACK_INT_H
#define GS_SOURCES_THREAD_STACK_THREAD_STACK_INT_H

#include "model/trace/event.h"
#include "sources/thread_stack/thread_stack.h"

#define THREAD_STACK_BYTES 32768u /* of a stack, from its top */

/* Registers and stack of a thread that runs, with room for THREAD_STACK_BYTES. -EBUSY: it did not get to run; else of
 * perf_event_open(2). */
int thread_stack_sample(uint32_t tid, struct gs_event_stack_bytes *ret_stack);

#endif
