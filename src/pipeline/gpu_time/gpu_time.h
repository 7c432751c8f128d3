/*
 * Adds up what GPUs did by their own times: time by kernel, and by device in which stretches work of a sort ran.
 * Records of a window come in no order, so its stretches are found when it ends, or when there are many; what comes
 * later for a time that has been added up is cut off there. One thread.
 */
#ifndef GS_PIPELINE_GPU_TIME_GPU_TIME_H
#define GS_PIPELINE_GPU_TIME_GPU_TIME_H

#include "model/summary/summary.h"
#include "model/trace/dict.h"
#include "model/gpu_work/record.h"

struct gs_gpu_times;

void gs_gpu_times_free(struct gs_gpu_times **times); /* NULL inside: nothing */

/* GPU_WORK and GPU_WINDOW; others are passed over. *times: NULL, made with the first. dict: with all that came before.
 * 0 or -ENOMEM. */
int gs_gpu_times_take(struct gs_gpu_times **times, const struct gs_dict *dict,
		      const struct gs_record *record);

/* summary->gpu_time; stays NULL when nothing was said of GPUs (times NULL). 0 or -ENOMEM. */
int gs_gpu_times_summary(struct gs_gpu_times *times, const struct gs_dict *dict,
			 struct gs_summary *summary);

#endif
