/* Private to the room. */
#ifndef GS_PIPELINE_SESSION_FILE_SESSION_FILE_INT_H
#define GS_PIPELINE_SESSION_FILE_SESSION_FILE_INT_H

#include <jansson.h>

#include "pipeline/session_file/session_file.h"

struct session_file_frames { /* what frames are read into */
	gs_session_file_fn fn;
	void *ctx;
	struct gs_session_file_stats *stats;
	struct gs_gpu_info *info;     /* owned; of the GPUs of one node */
	struct gs_gpu_sample *sample; /* likewise */
	size_t info_room, sample_room;
	bool has_pcie; /* gswarm-profiler says 0 of GPUs without counters, too: until another value has come */
};

/* Passes on a snapshot for each node of the frame. -EBADMSG: it has no time, or GPUs that are not
 * "host:index:name"; -ENOMEM; or what fn returned. */
int session_file_take_frame(struct session_file_frames *frames, const json_t *frame);

void session_file_fini(struct session_file_frames *frames);

#endif
