/*
 * Which faults a version of CUPTI has that matter here, as NVIDIA's release notes say ("Resolved Issues" of CUPTI 12.4.1 to
 * 13.4.1). Two numbers name a version: what cuptiGetVersion() answers, a count up to CUDA 12.9 and 130001 for 13.0.1; and the
 * release of CUDA that it belongs to, as 100 * (100 * major + minor) + update: 130001, too.
 */
#ifndef GS_MODEL_GPU_WORK_CUPTI_H
#define GS_MODEL_GPU_WORK_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_CUPTI_CUDA_11_0 13u /* cuptiGetVersion() of it */

/* Why a version, as cuptiGetVersion() answers it, is not used at all; NULL: it is. */
static inline const char *gs_cupti_refusal(uint32_t version)
{
	if (version < GS_CUPTI_CUDA_11_0)
		return "is older than that of CUDA 11.0";
	/* 13.0.1 mends a deadlock on switching kernel records off, and a crash in flushes. */
	if (version == 130000)
		return "can hang when it is switched off, which CUDA 13.0.1 mends";
	return NULL;
}

/* Memory leaks with graphs (mended in 13.3), stale names after modules are loaded again (13.4.1). */
static inline bool gs_cupti_may_stay_open(uint32_t version)
{
	return version >= 130401;
}

/* A fault of releases of CUDA from first on, before mended. The notes do not say since when most are there: then first is the
 * oldest that is used. */
struct gs_cupti_fault {
	uint32_t first, mended;
	const char *what;
};

#define GS_CUPTI_FAULTS                                                                            \
	{110000, 120401, "cuptiFinalize() can crash with CUDA graphs"},                            \
		{110000, 120601, "switching one domain of callbacks off switches others off"},     \
		{110000, 120900, "a crash where no buffer is to be had"},                          \
		{120602, 130100, "kernels may have no times"},                                     \
		{130000, 130001, "a deadlock when kernel records are switched off"},               \
		{110000, 130001, "cuptiActivityFlushAll() can crash"},                             \
		{110000, 130101, "wrong ids of graphs after the first session"},                   \
		{130200, 130300, "repeated calls become slow"},                                    \
		{110000, 130300, "a memory leak with graphs that copy"},                           \
		{110000, 130401, "a deadlock with latency timestamps of kernels"},                 \
		{110000, 130401, "long traces need ever more processor time"},                     \
	{                                                                                          \
		110000, 130401, "stale names of kernels after a module is loaded again"            \
	}

#endif
