/*
 * What alerts are about: a job, a GPU or the node, with the values that rules can name. Who has
 * such values (the agent, `gpuscope job`) fills a struct gs_alert_subject and pushes it; the rules
 * do not know where they come from.
 *
 * Names: of a job those of GS_FIGURES (analysis/rules/verdict.h) and efficiency_score; of a GPU
 * those of model/node/gpu_field.h, and each "..._ratio" as "..._percent" too; of the node those of
 * GS_ALERT_NODE_VALUES.
 */
#ifndef GS_ANALYSIS_ALERT_SUBJECT_H
#define GS_ANALYSIS_ALERT_SUBJECT_H

#include <stddef.h>
#include <stdint.h>

#include "analysis/gpu_health/gpu_health.h"
#include "model/node/gpu.h"
#include "model/node/host.h"
#include "model/node/job.h"
#include "analysis/rules/verdict.h"

enum gs_alert_kind {
	GS_ALERT_NONE = 0,
	GS_ALERT_JOB = 1,
	GS_ALERT_GPU = 2,
	GS_ALERT_NODE = 3,
	GS_ALERT_KINDS
};

/* X(id, key, help) */
#define GS_ALERT_NODE_VALUES(X)                                                                    \
	X(CPU, "cpu_percent", "CPU time, as a share of all processors.")                           \
	X(IOWAIT, "iowait_percent", "Time in which a processor only waited for disks.")            \
	X(LOAD1, "load1", "Load average over one minute.")                                         \
	X(LOAD5, "load5", "Load average over five minutes.")                                       \
	X(LOAD15, "load15", "Load average over fifteen minutes.")                                  \
	X(CPUS, "cpus", "Processors.")                                                             \
	X(RUNNING, "running_tasks", "Threads on a processor or waiting for one.")                  \
	X(MEMORY, "memory_used_percent", "Memory in use (total - available).")                     \
	X(MEMORY_FREE, "memory_available_bytes", "Memory available to new programs.")              \
	X(SWAP, "swap_used_percent", "Swap space used.")                                           \
	X(DISK_READ, "disk_read_bytes_per_second", "Bytes read from disks.")                       \
	X(DISK_WRITE, "disk_write_bytes_per_second", "Bytes written to disks.")                    \
	X(NET_RX, "net_receive_bytes_per_second", "Bytes received from networks.")                 \
	X(NET_TX, "net_send_bytes_per_second", "Bytes sent to networks.")                          \
	X(GPUS, "gpus", "GPUs found.")                                                             \
	X(GPUS_LOST, "gpus_lost", "GPUs that fell off the bus.")                                   \
	X(FINDINGS, "findings", "Findings of detectors that hold (findings.enabled).")             \
	X(DRIVER, "driver_ok", "1: the GPU driver answers; 0: it does not.")

enum gs_alert_node_value {
#define GS_ALERT_NODE_ID(id, ...) GS_ALERT_NODE_##id,
	GS_ALERT_NODE_VALUES(GS_ALERT_NODE_ID)
#undef GS_ALERT_NODE_ID
		GS_ALERT_NODE_COUNT
};

/* After the fields of a GPU and their percents; after these come "health_KEY" for each condition of
 * analysis/gpu_health/condition.h: 1 while it holds. */
#define GS_ALERT_GPU_VALUES(X)                                                                     \
	X(MEMORY, "memory_used_percent", "Device memory used.")                                    \
	X(PROCESSES, "processes", "Processes on the GPU.")                                         \
	X(LOST, "lost", "1: it fell off the bus.")                                                 \
	X(XIDS, "xids", "XID errors since the previous evaluation.")                               \
	X(HEALTH, "health_severity", "0 nothing is wrong, 1 info, 2 warning, 3 critical.")

#define GS_ALERT_VALUES_MAX 256
#define GS_ALERT_LABELS_MAX 6
#define GS_ALERT_ID_BYTES   96
#define GS_ALERT_HEALTH_MAX 6

struct gs_alert_label { /* name and value as Prometheus has labels: "gpu", "0" */
	char name[20];
	char value[80];
};

struct gs_alert_subject {
	enum gs_alert_kind kind;    /* says which values v has */
	char id[GS_ALERT_ID_BYTES]; /* distinguishes it from others of its kind: "4711_3", "GPU-..." */
	char title[160];            /* for people: "job 4711 of alice (train)" */
	struct gs_alert_label label[GS_ALERT_LABELS_MAX]; /* n_labels of them */
	size_t n_labels;
	double v[GS_ALERT_VALUES_MAX]; /* NAN: not known */
	/* Of a GPU: the worst conditions that hold, with their figures. */
	struct {
		enum gs_gpu_condition condition;
		char text[GS_GPU_HEALTH_TEXT_BYTES];
	} health[GS_ALERT_HEALTH_MAX];
	size_t n_health;
};

const char *gs_alert_kind_name(enum gs_alert_kind kind); /* "job", "gpu", "node" */

/* The index of a value; -1: none of this name. */
int gs_alert_value_of(enum gs_alert_kind kind, const char *key);
const char *gs_alert_value_key(enum gs_alert_kind kind, unsigned index, char *out, size_t bytes);

/* All values unknown, no labels. */
void gs_alert_subject_init(struct gs_alert_subject *s, enum gs_alert_kind kind, const char *id);
void gs_alert_subject_label(struct gs_alert_subject *s, const char *name, const char *value);
void gs_alert_subject_set(struct gs_alert_subject *s, const char *key, double value);

/* Filled from what the rooms below know. score: NAN unknown. */
void gs_alert_of_job(struct gs_alert_subject *s, const struct gs_job *job,
		     const struct gs_figures *figures, double score);
void gs_alert_of_gpu(struct gs_alert_subject *s, const struct gs_gpu_snapshot *gpus, uint32_t gpu);

/* host and gpus may be NULL. */
void gs_alert_of_node(struct gs_alert_subject *s, const char *name,
		      const struct gs_host_sample *host, const struct gs_gpu_snapshot *gpus);

#endif
