/* Between the files of the room: the writer of text; the GPUs of one snapshot with their labels. */
#ifndef GS_OUTPUT_METRICS_METRICS_INT_H
#define GS_OUTPUT_METRICS_METRICS_INT_H

#include "output/metrics/metrics.h"

/* The writer of text; ctx is the struct gs_metrics. */
gs_metrics_put_fn gs_metrics_text_put;

/* What the kind adds to a family's name: "_total", "_info" or "". */
const char *gs_metrics_suffix(enum gs_metrics_kind kind);

struct gs_metrics_gpus {
	const struct gs_gpu_snapshot *snapshot;
	const struct gs_metrics_xid *xids;
	size_t n_xids;
	const struct gs_metrics_gpu_options *options;
	enum gs_metrics_names names; /* of options, those that are put now */
	bool alerts_only;            /* native: only what alert rules ask for */
	struct gs_buf labels;        /* leads of all GPUs, each with a zero after it */
	size_t *label_offset;        /* n_gpus */
	int64_t *time_ms;            /* n_gpus; 0 unless timestamps were asked for */
	bool *hidden;                /* n_gpus; lost, or of no part of these names */
};

static inline const char *gs_metrics_gpu_labels(const struct gs_metrics_gpus *g, uint32_t gpu)
{
	return (const char *)g->labels.data + g->label_offset[gpu];
}

/* The last values of a driver that hangs, was released or lost the GPU are not current. */
static inline bool gs_metrics_gpu_hidden(const struct gs_metrics_gpus *g, uint32_t gpu)
{
	return g->snapshot->sample[gpu].lost || g->snapshot->state != GS_GPU_STATE_OK;
}

/* Fill labels, time_ms and hidden with dcgm-exporter's labels. 0 or -ENOMEM. */
int gs_metrics_dcgm_labels(struct gs_metrics_gpus *g);
void gs_metrics_dcgm(struct gs_metrics *p, const struct gs_metrics_gpus *g);

/* The same of OpenTelemetry's names. */
int gs_metrics_hardware_labels(struct gs_metrics_gpus *g);
void gs_metrics_hardware(struct gs_metrics *p, const struct gs_metrics_gpus *g);

/* Append the lead of one GPU and note where it begins. */
int gs_metrics_gpus_add(struct gs_metrics_gpus *g, uint32_t gpu,
			const struct gs_metrics_label *labels, size_t n_labels);

#endif
