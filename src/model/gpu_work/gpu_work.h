/* What a GPU did, as it reports itself: one kernel, copy, fill or graph, with the device's own times. Written inside of
 * traced programs (model/companion), kept in records. */
#ifndef GS_MODEL_GPU_WORK_GPU_WORK_H
#define GS_MODEL_GPU_WORK_GPU_WORK_H

#include <linux/types.h>

/* The numbers are stored. */
enum gs_gpu_work_kind {
	GS_WORK_KERNEL = 1,
	GS_WORK_COPY = 2,     /* detail: enum gs_work_copy */
	GS_WORK_FILL = 3,     /* detail: the value */
	GS_WORK_GRAPH = 4,    /* a graph as a whole */
	GS_WORK_SYNC = 5,     /* the host waits. detail: enum gs_work_sync */
	GS_WORK_OVERHEAD = 6, /* what looking costs, as CUPTI says. detail: its kind */
	GS_WORK_KINDS
};

/* As CUPTI numbers them (CUpti_ActivityMemcpyKind). */
enum gs_work_copy {
	GS_WORK_COPY_UNKNOWN = 0,
	GS_WORK_HOST_TO_DEVICE = 1,
	GS_WORK_DEVICE_TO_HOST = 2,
	GS_WORK_DEVICE_TO_DEVICE = 8,
	GS_WORK_HOST_TO_HOST = 9,
	GS_WORK_PEER_TO_PEER = 10,
};

/* As CUPTI numbers them (CUpti_ActivitySynchronizationType). */
enum gs_work_sync {
	GS_WORK_SYNC_EVENT = 1,
	GS_WORK_SYNC_STREAM_WAIT = 2,
	GS_WORK_SYNC_STREAM = 3,
	GS_WORK_SYNC_CONTEXT = 4,
};

/* Times are CLOCK_MONOTONIC ns. 0 in what a kind does not have, and in what is not known. */
struct gs_gpu_work {
	__u64 start_ns; /* 0: its time is not known, nor its end */
	__u64 end_ns;
	__u64 launch_ns; /* when the call that asked for it began and how long it took */
	__u64 launch_dur_ns;
	__u64 bytes;             /* of copies and fills */
	__u32 what;              /* enum gs_gpu_work_kind */
	__u32 detail;            /* by what: there */
	__u32 device;            /* as CUDA numbers it for the process */
	__u32 context;           /* CUPTI's number */
	__u32 stream;            /* CUPTI's number, not the handle */
	__u32 graph;             /* that it was part of; of a graph itself */
	__u32 correlation;       /* CUPTI's number of the call that asked for it */
	__u32 tid;               /* of the thread that asked for it */
	__u32 grid[3], block[3]; /* x, y, z: of a kernel */
	__u32 shared_bytes;      /* of a block: static and dynamic */
	__u32 registers;         /* of a thread */
};
_Static_assert(sizeof(struct gs_gpu_work) == 104, "gs_gpu_work");

#endif
