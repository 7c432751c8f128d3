/*
 * What a snapshot stands for that is made of several (server/store/rollup.h makes it): a record ahead
 * of it says of how many, and of its values in how many of these each was known and how high it was.
 * What adds up snapshots asks here, so that means of means come out as means of what was measured.
 */
#ifndef GS_MODEL_NODE_ROLLUP_H
#define GS_MODEL_NODE_ROLLUP_H

#include <stdbool.h>

#include "model/node/gpu.h"
#include "model/trace/record.h"

struct gs_rec_rollup { /* n_values of the following after it */
	struct gs_record head;
	uint64_t interval_ns; /* that it was made for; the time it stands for may be less */
	uint32_t n_samples;   /* snapshots, as measured, that it is made of */
	uint32_t n_values;
};

/* Of a value of a GPU whose highest is kept, or that was not known in all snapshots. */
struct gs_rec_rollup_value {
	/* Number of the GPU in the snapshot; of the key in model/node/gpu_field.h. */
	uint32_t gpu, key_hash;
	uint32_t n; /* snapshots in which it was known */
	uint32_t pad;
	double most; /* as the mean, where it is not kept */
};

_Static_assert(sizeof(struct gs_rec_rollup) == 24 && sizeof(struct gs_rec_rollup_value) == 24,
	       "stored");

/* A record as far as it is one, lent as that is; all 0: a snapshot as it was measured. */
struct gs_rollup_mark {
	uint64_t interval_ns;
	uint32_t n_samples, n_values;
	const struct gs_rec_rollup_value *value; /* n_values of them */
	const struct gs_record *record;
};

/* True when it is a COARSE record; the mark belongs to the next snapshot. */
bool gs_rollup_read(const struct gs_record *record, struct gs_rollup_mark *ret_mark);

/* Of a value that the snapshot has: in how many snapshots it was known, and its highest (value where
 * nothing is known). */
uint32_t gs_rollup_n(const struct gs_rollup_mark *mark, uint32_t gpu, enum gs_gpu_field field);
double gs_rollup_max(const struct gs_rollup_mark *mark, uint32_t gpu, enum gs_gpu_field field,
		     double value);

/* The share of memory in use (gs_gpu_memory_ratio()), with both: its highest is kept as bytes, or as
 * a share. */
double gs_rollup_memory(const struct gs_rollup_mark *mark, uint32_t gpu,
			const struct gs_gpu_sample *sample, double *ret_max, uint32_t *ret_n);

#endif
