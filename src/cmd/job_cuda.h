/*
 * Launches and collectives of jobs, for `gpuscope job`: probes on the libraries of CUDA and NCCL,
 * added up in the kernel. They are put in place when a process of a job has mapped such a library.
 */
#ifndef GS_CMD_JOB_CUDA_H
#define GS_CMD_JOB_CUDA_H

#include "job/report.h"

struct job_cuda;

/* -ENOMEM. */
int job_cuda_open(struct job_cuda **ret_cuda);
void job_cuda_close(struct job_cuda **cuda);

/* The process belongs to this job. */
void job_cuda_follow(struct job_cuda *cuda, uint32_t pid, uint32_t job);

/* To be called some times a second. */
void job_cuda_look(struct job_cuda *cuda);

/* Launches, time in NCCL; sets the family known. usage->n_gpus stands already. */
void job_cuda_usage(struct job_cuda *cuda, uint32_t job, struct gs_job_usage *usage);

/* Where the figures come from, or why there are none. */
const char *job_cuda_source(const struct job_cuda *cuda);

/* What was lost, in words; "" nothing. */
void job_cuda_losses(const struct job_cuda *cuda, char *out, size_t bytes);

#endif
