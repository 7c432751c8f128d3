/*
 * Launches, collectives and MPI of jobs: probes on the libraries of CUDA, NCCL and MPI, added up in
 * the kernel. They are put in place when a process of a job has mapped such a library.
 */
#ifndef GS_SOURCES_LAUNCHES_LAUNCHES_H
#define GS_SOURCES_LAUNCHES_LAUNCHES_H

#include <stddef.h>
#include <stdint.h>

#include "model/node/job_mpi.h"
#include "model/node/job_usage.h"

struct gs_launches;

/* cuda: launches and NCCL; one of both at least. -ENOMEM. */
int gs_launches_open(bool cuda, bool mpi, struct gs_launches **ret_launches);
void gs_launches_close(struct gs_launches **launches);

/* The process belongs to this job. rank: what its launcher says; -1 none. */
void gs_launches_follow(struct gs_launches *launches, uint32_t pid, uint32_t job, int32_t rank);

/* To be called some times a second. */
void gs_launches_poll(struct gs_launches *launches);

/* Launches, time in NCCL, and what its processes did in MPI: calls that have returned. Sets the
 * families that are known. usage->n_gpus stands already; mpi is for gs_job_mpi_fini(). */
void gs_launches_usage(struct gs_launches *launches, uint32_t job, struct gs_job_usage *usage,
		       struct gs_job_mpi *ret_mpi);

/* Where the figures of CUDA or of MPI come from, or why there are none. Lent until the next call. */
const char *gs_launches_source(struct gs_launches *launches, enum gs_job_family family);

/* What was lost, in words; "" nothing. */
void gs_launches_losses(const struct gs_launches *launches, char *out, size_t bytes);

#endif
