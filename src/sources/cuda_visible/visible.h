/*
 * Which GPUs CUDA shows a process, and how it numbers them. Pure; the environment is of any content.
 */
#ifndef GS_SOURCES_CUDA_VISIBLE_VISIBLE_H
#define GS_SOURCES_CUDA_VISIBLE_VISIBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_CUDA_VISIBLE_MAX 64 /* GPUs; more are not looked at */

struct gs_cuda_visible_gpus {
	const char *uuid[GS_CUDA_VISIBLE_MAX]; /* in the order of the bus */
	uint32_t n;
	bool one_model; /* of all */
};

/* UUIDs in CUDA's order, with commas, at most out_bytes - 1 bytes; "" none, or not known. environ: as
 * /proc/PID/environ has it, at the process's start. */
void gs_cuda_visible_parse(const char *environ, size_t bytes, bool in_container,
			   const struct gs_cuda_visible_gpus *gpus, char *out, size_t out_bytes);

#endif
