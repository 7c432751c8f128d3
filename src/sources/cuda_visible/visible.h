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
	/* The only compute instance of a GPU that MIG divides: GI/CI. */
	const char *instance[GS_CUDA_VISIBLE_MAX];
	uint8_t n_instances[GS_CUDA_VISIBLE_MAX]; /* 0: it is whole */
	uint32_t n;                               /* GPUs */
	bool one_model;                           /* of all */
};

/* UUIDs in CUDA's order, with commas, at most out_bytes - 1 bytes; "" none, or not known. environ: as
 * /proc/PID/environ has it, at the process's start. */
void gs_cuda_visible_parse(const char *environ, size_t bytes, bool in_container,
			   const struct gs_cuda_visible_gpus *gpus, char *out, size_t out_bytes);

/* What is known of a process besides. */
struct gs_cuda_visible_facts {
	const char *first; /* by the environment of its begin */
	const char *now;   /* by that which it has now; NULL: not known */
	uint64_t open;     /* GPUs whose devices it has open, by index in the list; 0: not known */
	bool begun;        /* it is at its first call of CUDA; else that may be long ago */
};

/* The same, of these lists. *ret_only: the device that is the only one that can be in use, -1: not known. What
 * the process changed since it began counts at its first call: CUDA looks at it then, and never again. Later it
 * is not known when that was, and the devices that it has open decide. */
void gs_cuda_visible_settle(const struct gs_cuda_visible_gpus *gpus,
			    const struct gs_cuda_visible_facts *facts, char *out, size_t out_bytes,
			    int *ret_only);

#endif
