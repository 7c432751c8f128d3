/*
 * Moments of a machine made by formula, so that each value on a screen can be known: GPU i at
 * moment t. Include after cmocka.h.
 */
#ifndef GS_TEST_TUI_SAMPLE_H
#define GS_TEST_TUI_SAMPLE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/node/host.h"

#define SAMPLE_START_NS 1000000000000ull
#define SAMPLE_GIB      1073741824.0

static inline void sample_gpu(struct gs_gpu_info *g, struct gs_gpu_sample *s, uint32_t i,
			      unsigned t)
{
	*g = (struct gs_gpu_info){.index = i,
				  .vendor = GS_GPU_VENDOR_NVIDIA,
				  .minor = (int32_t)i,
				  .numa_node = -1,
				  .n_sms = 132,
				  .gpu_instance = -1,
				  .compute_instance = -1};
	snprintf(g->uuid, sizeof(g->uuid), "GPU-%08x-0000", i);
	snprintf(g->pci_bus_id, sizeof(g->pci_bus_id), "00000000:%02X:00.0", 16 + i % 200);
	strcpy(g->name, "NVIDIA H100 80GB HBM3");
	strcpy(g->driver_version, "570.10");
	strcpy(g->cuda_version, "12.8");
	memset(s, 0, sizeof(*s));
	memset(s->why, GS_GPU_REASON_NOT_SUPPORTED, sizeof(s->why));
	s->time_ns = SAMPLE_START_NS + t * 1000000000ull;
	s->elapsed_ns = t ? 1000000000ull : 0;
	gs_gpu_set(s, GS_GPU_UTIL, (double)((i * 13 + t * 7) % 101) / 100);
	gs_gpu_set(s, GS_GPU_MEM_TOTAL, 80 * SAMPLE_GIB);
	gs_gpu_set(s, GS_GPU_MEM_USED, (10.0 + i % 70) * SAMPLE_GIB);
	gs_gpu_set(s, GS_GPU_TEMP_GPU, 40 + i % 30);
	gs_gpu_set(s, GS_GPU_TEMP_SLOWDOWN, 90);
	gs_gpu_set(s, GS_GPU_POWER, 100 + i);
	gs_gpu_set(s, GS_GPU_POWER_LIMIT, 700);
	gs_gpu_set(s, GS_GPU_CLOCK_SM, 1980e6);
	gs_gpu_set(s, GS_GPU_THROTTLE_REASONS, 0);
	gs_gpu_set(s, GS_GPU_SM_ACTIVE, 0.5);
	gs_gpu_set(s, GS_GPU_PIPE_TENSOR, 0.25);
}

/* n_gpus GPUs; n_processes, the k-th of them with pid 100 + k on GPU k % n_gpus. Process 0 is the
 * parent of all others on the machine. */
static inline struct gs_node_snapshot *sample_node(uint32_t n_gpus, uint32_t n_processes,
						   unsigned t)
{
	struct gs_node_snapshot *n = calloc(1, sizeof(*n));
	struct gs_gpu_snapshot *g = calloc(1, sizeof(*g));
	struct gs_host_snapshot *h = calloc(1, sizeof(*h));

	n->gpu = g;
	n->host = h;
	n->time_ns = g->time_ns = SAMPLE_START_NS + t * 1000000000ull;
	n->wall_ns = g->wall_ns = 1700000000000000000ll + (int64_t)t * 1000000000ll;
	strcpy(n->name, "node7");
	g->n_gpus = n_gpus;
	g->info = calloc(n_gpus + 1, sizeof(*g->info));
	g->sample = calloc(n_gpus + 1, sizeof(*g->sample));
	for (uint32_t i = 0; i < n_gpus; i++)
		sample_gpu(&g->info[i], &g->sample[i], i, t);
	g->n_processes = n_gpus ? n_processes : 0;
	g->process = calloc(n_processes + 1, sizeof(*g->process));
	h->process = calloc(n_processes + 2, sizeof(*h->process));
	h->n_processes = n_processes;
	for (uint32_t k = 0; k < n_processes; k++) {
		struct gs_host_process *p = &h->process[k];

		*p = (struct gs_host_process){.pid = 100 + k,
					      .parent_pid = k ? 100 : 1,
					      .uid = 1000 + k % 2,
					      .n_threads = (int32_t)k + 1,
					      .state = k % 2 ? 'S' : 'R',
					      .cpu_ratio = 0.25 * (k + 1),
					      .rss_bytes = (int64_t)(k + 1) << 28,
					      .cpu_ns = k * 1000000000ull,
					      .start_ns =
						      SAMPLE_START_NS - (k + 1) * 60000000000ull};
		snprintf(p->comm, sizeof(p->comm), "python%u", k);
		snprintf(p->user, sizeof(p->user), "%s", k % 2 ? "bob" : "alice");
		snprintf(p->cmdline, sizeof(p->cmdline), "python train.py --rank %u", k);
		if (!n_gpus)
			continue;
		g->process[k] = (struct gs_gpu_process){.gpu = k % n_gpus,
							.pid = p->pid,
							.kind = GS_GPU_PROCESS_COMPUTE,
							.uid = p->uid,
							.used_bytes = (int64_t)(k + 1) << 30,
							.sm_ratio = 0.1 * (k % 10),
							.mem_ratio = 0.05 * (k % 10)};
		strcpy(g->process[k].comm, p->comm);
		strcpy(g->process[k].user, p->user);
	}
	h->sample = (struct gs_host_sample){.time_ns = n->time_ns,
					    .elapsed_ns = t ? 1000000000ull : 0,
					    .n_cpus = 64,
					    .n_tasks = 900,
					    .n_running = 12,
					    .cpu_ratio = t ? 0.25 : -1,
					    .iowait_ratio = t ? 0.01 : -1,
					    .load1 = 12.5,
					    .load5 = 10.25,
					    .load15 = 8,
					    .mem_total_bytes = 512ll << 30,
					    .mem_used_bytes = 128ll << 30,
					    .swap_total_bytes = 0,
					    .swap_used_bytes = 0,
					    .disk_read_bps = t ? 1e6 : -1,
					    .disk_write_bps = t ? 2e6 : -1,
					    .net_rx_bps = t ? 3e9 : -1,
					    .net_tx_bps = t ? 4e9 : -1};
	return n;
}

/* n_jobs jobs: the k-th has the id 4700 + k, k processors at work, and one GPU of those there are;
 * the last one has ended and knows nothing. */
static inline void sample_jobs(struct gs_node_snapshot *n, uint32_t n_jobs)
{
	struct gs_job_accounts *all = calloc(1, sizeof(*all));

	all->account = calloc(n_jobs + 1, sizeof(*all->account));
	all->n_accounts = n_jobs;
	all->time_ns = n->time_ns;
	all->probes = true;
	for (uint32_t k = 0; k < n_jobs; k++) {
		struct gs_job_account *a = &all->account[k];
		bool known = k + 1 < n_jobs;

		*a = (struct gs_job_account){.job = {.kind = k % 3 ? GS_JOB_SLURM : GS_JOB_UNIT,
						     .job_id = -1,
						     .array_job_id = -1,
						     .array_task_id = -1,
						     .het_job_id = -1,
						     .het_offset = -1,
						     .uid = 1000 + k % 2,
						     .n_cpus = -1,
						     .mem_bytes = -1,
						     .start_s = 1699990000,
						     .limit_s = 36000},
					     .n_processes = known ? k + 1 : 0,
					     .known = (1u << GS_JOB_KNOWS_COUNT) - 1,
					     .cores = 8,
					     .memory_bytes = known ? (int64_t)(k + 1) << 30 : -1,
					     .memory_peak_bytes = -1,
					     .memory_limit_bytes = (int64_t)4 << 30,
					     .n_gpus = n->gpu->n_gpus ? 1 : 0,
					     .gpus_idle = n->gpu->n_gpus ? k == 1 : 0,
					     .gpu_mask = n->gpu->n_gpus ? 1ull << k % n->gpu->n_gpus
									: 0,
					     .gpu_memory_bytes = known ? (int64_t)k << 30 : -1,
					     .gpu_ratio = known ? 0.1 * k : NAN,
					     .cpus = known ? k : NAN,
					     .io_bps = known ? 1e6 * k : NAN,
					     .net_bps = known ? 1e3 * k : NAN,
					     .score = known ? 10.0 * k : NAN,
					     .confidence = known ? 0.5 : NAN,
					     .cpu_percent = NAN,
					     .io_percent = NAN,
					     .wait_percent = NAN,
					     .net_percent = NAN,
					     .memory_percent = NAN};
		memset(a->pressure_ns, 0xff, sizeof(a->pressure_ns));
		a->job.gpu_mask = a->gpu_mask;
		if (k % 3)
			snprintf(a->job.id, sizeof(a->job.id), "%u", 4700 + k);
		else
			snprintf(a->job.id, sizeof(a->job.id), "service-with-a-name-%u.service", k);
		snprintf(a->job.user, sizeof(a->job.user), "%s", k % 2 ? "bob" : "alice");
		snprintf(a->job.name, sizeof(a->job.name), "train-%u", k);
		snprintf(a->job.account, sizeof(a->job.account), "phys");
		snprintf(a->job.partition, sizeof(a->job.partition), "long");
		snprintf(a->job_class, sizeof(a->job_class), "%s",
			 !known  ? ""
			 : k % 2 ? "CPU-bound"
				 : "Idle-heavy");
	}
	n->jobs = all;
}

#endif
