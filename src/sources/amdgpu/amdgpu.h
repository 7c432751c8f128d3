/*
 * AMD's GPUs as the amdgpu and amdkfd drivers show them in sysfs. Needs no library of AMD's.
 * Not safe for several threads at once.
 */
#ifndef GS_SOURCES_AMDGPU_AMDGPU_H
#define GS_SOURCES_AMDGPU_AMDGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/node/gpu.h"

struct gs_amdgpu;

/* sysfs_root: "/sys"; another for tests. NULL: no memory. */
struct gs_amdgpu *gs_amdgpu_new(const char *sysfs_root);
void gs_amdgpu_free(struct gs_amdgpu **amd);

/* Which GPUs there are now; slow values are read again afterwards. */
void gs_amdgpu_rescan(struct gs_amdgpu *amd);
unsigned gs_amdgpu_count(const struct gs_amdgpu *amd);

/* Into arrays of gs_amdgpu_count() elements. What was not asked for is as it was read last. */
void gs_amdgpu_read(struct gs_amdgpu *amd, bool basic, bool health, struct gs_gpu_info *info,
		    struct gs_gpu_sample *sample);

/* Each process with memory on a GPU (by its place in those arrays); what add returns below 0 ends
 * it and is returned. */
typedef int (*gs_amdgpu_process_fn)(void *ctx, unsigned gpu, uint32_t pid, uint64_t bytes);
int gs_amdgpu_processes(const struct gs_amdgpu *amd, gs_amdgpu_process_fn add, void *ctx);

/* --- texts, pure --- */

/* A level file (pp_dpm_sclk): Hz of the level marked "*", and of the highest. */
bool gs_amdgpu_parse_levels(const char *text, uint64_t *ret_now_hz, uint64_t *ret_max_hz);
/* A number of a sysfs file, "123\n" or "0x1b\n"; false: it is none. */
bool gs_amdgpu_parse_number(const char *text, uint64_t *ret_value);

/* --- gpu_metrics: the firmware's own table (amdgpu_metrics.c) --- */

#define GS_AMDGPU_METRICS_MAX 4096

/* Before a reading: values that such a table may have are unknown. */
void gs_amdgpu_metrics_forget(bool basic, bool health, struct gs_gpu_sample *sample);

/* Set what the sample has not and these bytes have. False: a version that is not known, or cut
 * off. Pure. */
bool gs_amdgpu_metrics_fill(const uint8_t *table, size_t bytes, bool basic, bool health,
			    struct gs_gpu_sample *sample);

#endif
