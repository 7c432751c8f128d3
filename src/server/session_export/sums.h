/*
 * What a session says of one GPU as a whole: means, highest values, percentiles, energy. For its
 * file and for the summary that the API answers with, so that both have the same figures.
 *
 * A snapshot that stands for several counts as these: its mean by as many as the value was known in,
 * its highest as it was measured.
 */
#ifndef GS_SERVER_SESSION_EXPORT_SUMS_H
#define GS_SERVER_SESSION_EXPORT_SUMS_H

#include "core/series/bucket.h"
#include "core/series/energy.h"
#include "model/node/gpu.h"
#include "model/node/rollup.h"

struct gs_session_export_sums { /* begins as all 0 */
	uint64_t n_samples;     /* as measured; of snapshots in which the GPU was there */
	struct gs_bucket util, memory, dram; /* 0 to 1 */
	struct gs_bucket power;              /* W */
	struct gs_bucket temperature;        /* degrees Celsius */
	uint64_t util_count[101];            /* samples by utilisation, in percent */
	struct gs_energy energy;             /* J, out of the counter, else of power */
	int64_t before_ns;                   /* how long the last sample stood for */
};

/* A sample of this GPU (its number in the snapshot), as time goes on. One that was lost says nothing. */
void gs_session_export_sums_add(struct gs_session_export_sums *sums, uint32_t gpu,
				const struct gs_gpu_sample *sample,
				const struct gs_rollup_mark *mark, int64_t wall_ns);

/* The utilisation below which this share of the samples lies, in percent; NAN: none is known. */
double gs_session_export_sums_util(const struct gs_session_export_sums *sums, double share);

#endif
