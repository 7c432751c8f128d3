/* Records of what NCCL says of itself, as a process may write them. */
#include "pipeline/inside/nccl.h"

static void take_record(struct gs_ingest *feed, const struct gs_companion_record *record)
{
	static struct gs_companion_ticks
		ticks; /* no pair of clocks: times of the processor's counter are 0 */
	const struct gs_companion_thread from = {
		.pid = 1 + record->at % 3, .tid = 1 + record->at % 5, .clock = record->at & 1};

	(void)gs_inside_take_nccl(feed, &ticks, &from, record);
}

#include "inside_records.h"
