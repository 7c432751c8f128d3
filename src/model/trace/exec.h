/* What the kernel says of a new program: it may have ended before anybody reads its /proc. */
#ifndef GS_MODEL_TRACE_EXEC_H
#define GS_MODEL_TRACE_EXEC_H

#include "model/trace/event.h"

#define GS_EXEC_FILE_BYTES 256 /* with its zero: a longer path is cut off */

struct gs_event_exec {                 /* GS_EV_TASK */
	struct gs_event_task task;     /* GS_TASK_EXEC */
	char file[GS_EXEC_FILE_BYTES]; /* as the kernel opened it: of a script its interpreter */
};
_Static_assert(sizeof(struct gs_event_exec) == 56 + GS_EXEC_FILE_BYTES, "gs_event_exec");

#endif
