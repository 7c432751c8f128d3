/*
 * How far what calls say of a GPU's time is from what the GPU itself counted. Two sources meet on one
 * grid of time:
 *
 *     of the device  samples of a trace: the share of the time in which a kernel ran (GS_GPU_UTIL)
 *     bounds         stretches in which work was pending, at most and at least (pipeline/gpu_activity)
 *
 * A cell of the grid is compared when the GPU's counter covers it and no other process used the GPU
 * then, as far as the driver says. At first a cell is 100 ms; a trace with more than GS_ACCURACY_CELLS
 * of them gets cells of twice that, so that memory is bounded. One thread.
 */
#ifndef GS_PIPELINE_GPU_ACCURACY_ACCURACY_H
#define GS_PIPELINE_GPU_ACCURACY_ACCURACY_H

#include "model/summary/summary.h"
#include "model/trace/dict.h"
#include "model/trace/record.h"
#include "pipeline/gpu_activity/gpu_activity.h"

#define GS_ACCURACY_CELLS 1024

struct gs_accuracy;

/* 0 or -ENOMEM. */
int gs_accuracy_new(struct gs_accuracy **ret_accuracy);
void gs_accuracy_free(struct gs_accuracy **accuracy);

/* The sink for stretches of contexts (gs_activity_set_busy_sink()), ctx a struct gs_accuracy. */
gs_activity_busy_fn gs_accuracy_busy;

/* A record: sessions, processes and samples are looked at, others passed over. 0 or -ENOMEM. */
int gs_accuracy_take(struct gs_accuracy *accuracy, const struct gs_record *record);

/* Of the context at this index: its process, and the UUID of its GPU, "" where that is not known. Lent until the
 * next call. */
typedef const char *gs_accuracy_gpu_fn(void *ctx, uint32_t index, uint32_t *ret_process);

/* Fills summary->gpus, when there were samples beside calls. 0 or -ENOMEM. */
int gs_accuracy_summarize(struct gs_accuracy *accuracy, gs_accuracy_gpu_fn *gpu_of, void *ctx,
			  struct gs_summary *summary);

/* The same at the end of a stream that activity has followed: with what is pending there, and UUIDs by the environment
 * of processes. */
int gs_accuracy_finish(struct gs_accuracy *accuracy, const struct gs_activity *activity,
		       const struct gs_dict *dict, struct gs_summary *summary);

#endif
