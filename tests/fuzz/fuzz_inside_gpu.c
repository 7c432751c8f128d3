/* Records of what GPUs did, as a process may write them. */
#include "pipeline/inside/gpu.h"

static void take_record(struct gs_ingest *feed, const struct gs_companion_record *record)
{
	(void)gs_inside_take_gpu(feed, 1, record);
}

#include "inside_records.h"
