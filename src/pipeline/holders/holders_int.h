/* What the files of the room share. */
#ifndef GS_PIPELINE_HOLDERS_HOLDERS_INT_H
#define GS_PIPELINE_HOLDERS_HOLDERS_INT_H

#include "pipeline/holders/holders.h"

#define HOLDERS_UUID_BYTES 80

/* A process on a GPU, by its samples. */
struct holders_measured {
	uint32_t pid;
	char gpu[HOLDERS_UUID_BYTES];
	uint64_t first_bytes, last_bytes, peak_bytes;
	uint64_t n_readings, read_ns; /* how often that was read, and when last */
	uint64_t there_ns,
		gone_ns; /* the last snapshot with it, and the first without since; 0 none */
};

struct holders_gpu {
	char uuid[HOLDERS_UUID_BYTES];
};

struct gs_holders {
	struct gs_rec_memory *sums; /* owned, as all arrays */
	size_t n_sums, cap_sums;
	struct gs_rec_memory_site *sites;
	size_t n_sites, cap_sites;
	struct holders_measured *measured;
	size_t n_measured, cap_measured;
	struct holders_gpu *gpus; /* of the snapshot in hand, by their numbers in it */
	size_t n_gpus, cap_gpus;
	uint64_t snapshot_ns; /* its time */
};

void holders_measured_fini(struct gs_holders *h);

/* GPU_INFO and GPU_PROCESS; others are passed over. False: there is no room. */
bool holders_measured_take(struct gs_holders *h, const struct gs_record *record);

/* Processes that the dictionary has. 0 or -ENOMEM. */
int holders_measured_summarize(const struct gs_holders *h, const struct gs_dict *dict,
			       struct gs_summary *summary, struct gs_memory_summary *memory);

#endif
