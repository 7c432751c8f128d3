/*
 * Launches and collectives of jobs: probes on the libraries of CUDA and NCCL, added up in the
 * kernel. They are put in place when a process of a job has mapped such a library.
 */
#ifndef GS_SOURCES_LAUNCHES_LAUNCHES_H
#define GS_SOURCES_LAUNCHES_LAUNCHES_H

#include <stddef.h>
#include <stdint.h>

#include "model/node/job_usage.h"

struct gs_launches;

/* -ENOMEM. */
int gs_launches_open(struct gs_launches **ret_cuda);
void gs_launches_close(struct gs_launches **cuda);

/* The process belongs to this job. */
void gs_launches_follow(struct gs_launches *cuda, uint32_t pid, uint32_t job);

/* To be called some times a second. */
void gs_launches_poll(struct gs_launches *cuda);

/* Launches, time in NCCL; sets the family known. usage->n_gpus stands already. */
void gs_launches_usage(struct gs_launches *cuda, uint32_t job, struct gs_job_usage *usage);

/* Where the figures come from, or why there are none. */
const char *gs_launches_source(const struct gs_launches *cuda);

/* What was lost, in words; "" nothing. */
void gs_launches_losses(const struct gs_launches *cuda, char *out, size_t bytes);

#endif
