/*
 * What GPUs did, as processes report it from inside of themselves (model/companion/gpu.h). In come
 * records of a process's file, of which any byte may be wrong: each is checked, and only what can
 * be true goes on to ingest. Also the option that says when it is looked at.
 */
#ifndef GS_PIPELINE_INSIDE_GPU_H
#define GS_PIPELINE_INSIDE_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "model/companion/file.h"
#include "pipeline/ingest/ingest.h"

/* A record of what a GPU did for the process; others are passed over. False: it is malformed. */
bool gs_inside_take_gpu(struct gs_ingest *feed, uint32_t pid,
			const struct gs_companion_record *record);

/* "1s/20s": look for the first time in each second one; "always": period 0. -EINVAL: neither. */
int gs_inside_gpu_window(const char *text, uint64_t *ret_window_ns, uint64_t *ret_period_ns);

#endif
