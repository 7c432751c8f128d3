/*
 * A mark as a record (model/trace/mark.h says when one is made): of runs that add calls up, to find
 * steps by.
 */
#ifndef GS_MODEL_TRACE_RECORD_MARK_H
#define GS_MODEL_TRACE_RECORD_MARK_H

#include "model/trace/mark.h"
#include "model/trace/record.h"

/* Fields as in struct gs_event_mark. */
struct gs_rec_mark {
	struct gs_record head;
	uint64_t time_ns;
	uint64_t dur_ns;
	uint64_t called;
	uint64_t covered_ns;
	uint64_t cpu_ns;
	uint64_t calls;
	uint32_t thread;   /* id */
	uint32_t function; /* id */
};
_Static_assert(sizeof(struct gs_rec_mark) == 64, "mark");

#endif
