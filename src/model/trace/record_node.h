/*
 * Snapshots of a machine as records; model/node/record.h makes them and reads them back. One snapshot
 * is one HOST_SAMPLE, which says how many records of each other kind belong to it, and these:
 * GPU_INFO, GPU_SAMPLE (one of each GPU), GPU_PROCESS, GPU_EVENT, HOST_PROCESS, HOST_JOB. A snapshot
 * needs nothing from an earlier one, so that a file can be read from any snapshot on.
 *
 * Texts stand after a record's fields, one after the other without terminators; text_bytes[] says
 * how long each is. A value of a GPU is known by the hash of its key in model/node/gpu_field.h, so
 * that rows can be added there; a reader leaves out values that it does not know.
 *
 * Fields as in the structs of model/node/gpu.h, host.h and job_account.h that the records are made
 * of; what is not known is as there, but NAN is -1. doc/format.md has them one by one.
 */
#ifndef GS_MODEL_TRACE_RECORD_NODE_H
#define GS_MODEL_TRACE_RECORD_NODE_H

#include "model/trace/record.h"

enum { GS_TEXT_HOST_NAME, GS_TEXT_HOST_GPU_STATE, GS_N_TEXTS_HOST };

struct gs_rec_host_sample {
	struct gs_record head;
	uint64_t time_ns; /* of the whole snapshot */
	int64_t wall_ns;
	uint32_t n_gpus, n_gpu_processes, n_gpu_events, n_host_processes; /* that follow */

	uint64_t host_time_ns, host_elapsed_ns;
	int32_t n_cpus, n_tasks, n_running; /* negative, here and below: unknown */
	uint32_t gpu_state;                 /* enum gs_gpu_state */
	double cpu_ratio, iowait_ratio, load1, load5, load15;
	int64_t mem_total_bytes, mem_used_bytes, swap_total_bytes, swap_used_bytes;
	double disk_read_bps, disk_write_bps, net_rx_bps, net_tx_bps;
	uint64_t failed_reads;

	uint64_t gpu_time_ns;
	int64_t gpu_wall_ns;
	uint64_t missed_samples, failed_calls, lost_events, read_ns;
	uint16_t text_bytes[GS_N_TEXTS_HOST];
	uint32_t n_jobs;
	uint32_t jobs_read; /* 0: whether there are jobs is not known */
	uint32_t pad;
	/* Of memory in use, where bytes are not reported, and of the root file system; 0 to 1, negative
	 * unknown. */
	double mem_used_ratio, root_used_ratio;
};

struct gs_rec_gpu_info {
	struct gs_record head;
	uint32_t gpu; /* its number in this snapshot, from 0 */
	uint32_t index, vendor;
	int32_t minor, numa_node, n_sms, compute_major, compute_minor;
	int32_t gpu_instance, compute_instance;
	uint8_t persistence, mig_enabled, is_mig, pad;
	uint16_t text_bytes[9]; /* uuid, pci_bus_id, name, serial, vbios, driver_version,
				 * cuda_version, architecture, mig_profile */
	uint16_t pad2;
};

struct gs_rec_gpu_value {
	uint32_t key_hash; /* gs_gpu_key_hash() */
	uint8_t why;       /* enum gs_gpu_reason; the value counts when it is 0 */
	/* How long before the sample's time it was read, in ms, least byte first; values that cost
	 * much are read less often than samples are taken. All bits set: that long or longer. */
	uint8_t age_ms[3];
	double value;
};

/* In ns, to whole ms; at most 0xffffff ms. */
static inline uint64_t gs_rec_gpu_value_age(const struct gs_rec_gpu_value *v)
{
	return (v->age_ms[0] | (uint64_t)v->age_ms[1] << 8 | (uint64_t)v->age_ms[2] << 16) *
	       1000000;
}

/* Likewise: an older one is as old as that. */
static inline void gs_rec_gpu_value_set_age(struct gs_rec_gpu_value *v, uint64_t age_ns)
{
	uint64_t ms = age_ns / 1000000 < 0xffffff ? age_ns / 1000000 : 0xffffff;

	for (unsigned i = 0; i < 3; i++)
		v->age_ms[i] = (uint8_t)(ms >> 8 * i);
}

struct gs_rec_gpu_link {
	uint8_t present, up, version, have_bytes, have_errors, pad[3];
	uint64_t tx_bytes, rx_bytes, crc_errors, replay_errors, recovery_errors;
	char remote_bus_id[32];
};

/* n_values of struct gs_rec_gpu_value after it, then n_links of struct gs_rec_gpu_link. Values
 * that were not read are left out. */
struct gs_rec_gpu_sample {
	struct gs_record head;
	uint32_t gpu;
	uint32_t lost;
	uint64_t time_ns, elapsed_ns;
	uint32_t n_values, n_links;
};

struct gs_rec_gpu_process {
	struct gs_record head;
	uint32_t gpu, pid, kind, uid;
	int64_t used_bytes;
	double sm_ratio, mem_ratio, enc_ratio, dec_ratio, jpg_ratio, ofa_ratio;
	uint64_t start_ns;
	uint8_t ended, gone, kept, pad[5];
	uint16_t text_bytes[4]; /* comm, user, container, cmdline */
};

struct gs_rec_gpu_event {
	struct gs_record head;
	uint64_t time_ns;
	uint32_t xid, source;
	uint16_t text_bytes[3]; /* pci_bus_id, uuid, text */
	uint16_t pad;
};

struct gs_rec_host_process {
	struct gs_record head;
	uint32_t pid, parent_pid, uid;
	int32_t n_threads;
	uint32_t flags;
	char state, pad[3];
	double cpu_ratio;
	int64_t rss_bytes;
	uint64_t cpu_ns, start_ns;
	uint16_t text_bytes[5]; /* comm, user, container, job, cmdline */
	uint16_t pad2[3];
};

/* What a job is doing now; its totals are not kept. Unknown numbers are -1. */
struct gs_rec_host_job {
	struct gs_record head;
	uint32_t kind; /* enum gs_job_kind */
	uint32_t n_processes, known, probes;
	int32_t n_gpus, gpus_idle;
	int64_t uid, start_s, limit_s;
	int64_t memory_bytes, memory_limit_bytes, gpu_memory_bytes;
	double cores, cpus, io_bps, net_bps, gpu_ratio, score, confidence;
	uint64_t gpu_mask;
	uint16_t text_bytes[7]; /* id, name, user, account, partition, nodes, class */
	uint16_t flags;         /* GS_REC_HOST_JOB_..., ored */
};

/* Where the time of the threads of one of the sample's processes went so far, by the parts of
 * gs_taskstats_parts(): of those whose job is counted. Before the record of that process. */
struct gs_rec_host_times {
	struct gs_record head;
	uint32_t pid, pad;
	uint64_t start_ns; /* boot clock */
	uint64_t part_ns[10];
};

#define GS_REC_HOST_JOB_CLAIMED 1 /* only its processes say that they are of it */

_Static_assert(sizeof(struct gs_rec_host_sample) == 264, "host_sample");
_Static_assert(sizeof(struct gs_rec_gpu_info) == 72, "gpu_info");
_Static_assert(sizeof(struct gs_rec_gpu_value) == 16, "gpu_value");
_Static_assert(sizeof(struct gs_rec_gpu_link) == 80, "gpu_link");
_Static_assert(sizeof(struct gs_rec_gpu_sample) == 40, "gpu_sample");
_Static_assert(sizeof(struct gs_rec_gpu_process) == 104, "gpu_process");
_Static_assert(sizeof(struct gs_rec_gpu_event) == 32, "gpu_event");
_Static_assert(sizeof(struct gs_rec_host_process) == 80, "host_process");
_Static_assert(sizeof(struct gs_rec_host_job) == 160, "host_job");
_Static_assert(sizeof(struct gs_rec_host_times) == 104, "host_times");

#endif
