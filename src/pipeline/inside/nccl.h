/* Records of what NCCL says of itself in a process (model/companion/nccl.h), checked and handed to ingest. */
#ifndef GS_PIPELINE_INSIDE_NCCL_H
#define GS_PIPELINE_INSIDE_NCCL_H

#include <stdbool.h>

#include "pipeline/ingest/ingest.h"
#include "sources/companion/companion.h"

/* A record of what NCCL said in the process; others are passed over. False: it is malformed. */
bool gs_inside_take_nccl(struct gs_ingest *feed, struct gs_companion_ticks *ticks,
			 const struct gs_companion_thread *from,
			 const struct gs_companion_record *record);

#endif
