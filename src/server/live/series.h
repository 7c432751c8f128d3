/* Values of a GPU over time. */
#ifndef GS_SERVER_LIVE_SERIES_H
#define GS_SERVER_LIVE_SERIES_H

#include "server/live/bucket.h"
#include "model/node/gpu.h"
#include "model/node/host.h"

#define GS_LIVE_SERIES_VALUES 8
#define GS_LIVE_SERIES_XIDS   64 /* beyond that the oldest are left out */

struct gs_live_xid {     /* an error of the GPU, or several of one number in one stretch */
	int64_t wall_ns; /* of the first */
	uint32_t xid, n; /* number; how many */
};

struct gs_live_series {
	int64_t node; /* its number in the store */
	char gpu[80]; /* number in the snapshot, or UUID */
	size_t n_values;
	/* enum gs_gpu_field; MEM_USED_RATIO is made when it is not reported */
	int field[GS_LIVE_SERIES_VALUES];
	struct gs_live_xid xid[GS_LIVE_SERIES_XIDS];
	size_t n_xids;
	struct gs_live_buckets in;
	uint64_t coarse_ns; /* how far apart samples are that were made coarser; 0: none was */
};

/* Its GPU's number in this snapshot; -1: it is not there. */
int gs_live_find_gpu(const struct gs_gpu_snapshot *g, const char *text);

/* A value of a series; NAN: it is not known. */
double gs_live_field(const struct gs_gpu_sample *s, int field);

/* The errors of its GPU (by its number there) in this snapshot; snapshots come as they were. offset_ns:
 * to add to the node's clock. */
void gs_live_add_xids(struct gs_live_series *series, const struct gs_node_snapshot *snapshot,
		      uint32_t gpu, int64_t offset_ns);

/* The answer. source: "memory", "store". */
void gs_live_put_series(struct gs_buf *b, const struct gs_live_series *s, const char *source,
			bool complete);

#endif
