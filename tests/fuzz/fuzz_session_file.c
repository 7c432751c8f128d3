/* JSON of sessions, as somebody's file may be: what is read of it can be written to a recording. */
#include <stdlib.h>

#include "model/node/record.h"
#include "pipeline/session_file/session_file.h"
#include "replay_main.h"

#define RECORDS_MAX (8u << 20)

static int take(void *ctx, const struct gs_node_snapshot *snapshot)
{
	struct gs_buf *records = ctx;

	gs_buf_reset(records);
	if (gs_node_encode(records, snapshot) < 0)
		abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	FILE *file = bytes ? fmemopen((void *)data, bytes, "r") : NULL;
	struct gs_buf records = GS_BUF_INIT(RECORDS_MAX);
	struct gs_session_file_stats stats;
	struct gs_err err;

	if (!file)
		return 0;
	(void)gs_session_file_is_one(file);
	(void)gs_session_file_read(file, take, &records, &stats, &err);
	gs_buf_fini(&records);
	fclose(file);
	return 0;
}
