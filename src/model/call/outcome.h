/* What is known of a call when it returns, before it is counted and sent. */
#ifndef GS_MODEL_CALL_OUTCOME_H
#define GS_MODEL_CALL_OUTCOME_H

#include <linux/types.h>
#include <stdbool.h>

/* What a finished call is made of, before it becomes an event or a part of a cell. */
struct gs_outcome {
	__u64 now_ns;
	__u64 dur_ns;
	__u64 bytes;        /* struct gs_event_call has what they mean */
	__s32 ret;          /* what it returned */
	__u32 id;           /* of the function */
	__u32 flags;        /* enum gs_call_flag */
	__u32 native_stack; /* id; 0 none was taken */
	__u32 pid;
	bool failed; /* ret is an error of this function */
};

#endif
