/*
 * What is wrong with a GPU: the one judge, asked by `gpu`, `top`, the page, the API and alerts.
 *
 * In: a snapshot whose samples were followed one after another with gs_gpu_health_follow(), which
 * notes in struct gs_gpu_past since when each condition holds and which XID came last. A snapshot
 * that was never followed is judged by itself, without times, and without what only time shows.
 * Out: the conditions that hold, the worst of them, and a text with cause and figures. Pure: times
 * are those of the samples.
 */
#ifndef GS_ANALYSIS_GPU_HEALTH_GPU_HEALTH_H
#define GS_ANALYSIS_GPU_HEALTH_GPU_HEALTH_H

#include <stdio.h>

#include "analysis/gpu_health/condition.h"
#include "model/node/gpu.h"

#define GS_GPU_HEALTH_TEXT_BYTES 192

enum gs_gpu_severity {
	GS_GPU_SEVERITY_NONE = 0,
	GS_GPU_SEVERITY_INFO = 1,
	GS_GPU_SEVERITY_WARNING = 2,
	GS_GPU_SEVERITY_CRITICAL = 3,
};

enum gs_gpu_health_state { /* worse is more */
			   GS_GPU_HEALTH_OK = 0,
			   GS_GPU_HEALTH_IDLE = 1,
			   GS_GPU_HEALTH_DEGRADED = 2,
			   GS_GPU_HEALTH_THROTTLED = 3,
			   GS_GPU_HEALTH_FAILING = 4,
};

struct gs_gpu_health {
	enum gs_gpu_condition condition; /* the worst; GS_GPU_CONDITION_NONE: nothing is wrong */
	enum gs_gpu_health_state state;  /* in one word */
	enum gs_gpu_severity severity;   /* of the worst */
	uint32_t holds;                  /* bits: the conditions that hold */
	uint64_t since_ns;               /* boot clock: of the worst; 0 not known */
};

const char *gs_gpu_health_state_name(enum gs_gpu_health_state state); /* "ok", "idle", ... */
const char *gs_gpu_severity_name(enum gs_gpu_severity severity);      /* "none", "info", ... */
const char *gs_gpu_condition_key(enum gs_gpu_condition condition);    /* "" none */
const char *gs_gpu_condition_advice(enum gs_gpu_condition condition); /* "" none */
enum gs_gpu_severity gs_gpu_condition_severity(enum gs_gpu_condition condition); /* NONE: none */

/* What usually has XIDs of this number: XID, the GPU, or PROGRAM_XID, what runs on it. */
enum gs_gpu_condition gs_gpu_condition_of_xid(uint32_t xid);

/* Whether the event is of this GPU. */
bool gs_gpu_health_is_of(const struct gs_gpu_event *event, const struct gs_gpu_info *info);

/* Fills the pasts of now's samples. before: the snapshot of the same machine before it, followed
 * itself; NULL: there is none, so that what holds began at an unknown time before. */
void gs_gpu_health_follow(const struct gs_gpu_snapshot *before, struct gs_gpu_snapshot *now);

/* gpu: index in the snapshot. */
void gs_gpu_health_judge(const struct gs_gpu_snapshot *snapshot, uint32_t gpu,
			 struct gs_gpu_health *ret_health);

/* A condition that holds, with its figures: "throttled by heat: 91 °C, 780 of 1980 MHz, for 6 min".
 * "" for GS_GPU_CONDITION_NONE. Returns out. */
const char *gs_gpu_health_text(const struct gs_gpu_snapshot *snapshot, uint32_t gpu,
			       enum gs_gpu_condition condition, char out[GS_GPU_HEALTH_TEXT_BYTES]);

/* packaging/prometheus/alerts.yml. 0 or a negative errno. */
int gs_gpu_health_write_rules(FILE *out);

#endif
