/*
 * GPUs as text: one snapshot for people (tables, scrolling lines) or for programs (JSON, CSV,
 * YAML), under gpuscope's names or under those of tools that came before.
 */
#ifndef GS_OUTPUT_REPORT_GPU_H
#define GS_OUTPUT_REPORT_GPU_H

#include <stdbool.h>
#include <stdio.h>

#include "output/report/summary.h"
#include "model/node/gpu.h"

enum gs_report_gpu_view {
	GS_GPU_VIEW_ALL = 0,    /* devices, processes and events, as far as the format has room */
	GS_GPU_VIEW_DMON = 1,   /* a line for each GPU, as `nvidia-smi dmon` (table only) */
	GS_GPU_VIEW_PMON = 2,   /* a line for each process, as `nvidia-smi pmon` (table only) */
	GS_GPU_VIEW_EACGM = 3,  /* the fields of eACGM's GPUSampler and NVMLSampler */
	GS_GPU_VIEW_GSWARM = 4, /* the fields of gswarm's GPUMetric */
};

/* Ored; CSV takes one. */
enum gs_report_gpu_show {
	GS_GPU_SHOW_DEVICES = 1,
	GS_GPU_SHOW_PROCESSES = 2,
};

struct gs_report_gpu_style {
	size_t size;                          /* of this struct */
	enum gs_report_summary_format format; /* table, JSON, CSV or YAML */
	enum gs_report_gpu_view view;         /* gpuscope's own, or as another tool shows GPUs */
	unsigned parts;                       /* enum gs_report_gpu_show; 0: all */
	unsigned width;                       /* columns of the terminal, 0: no limit */
	bool color;                           /* ANSI colours in tables */
	bool head;                            /* names of columns first: CSV, scrolling lines */
	bool stream;                          /* one of several: YAML gets its "---" */
	const int *fields; /* enum gs_gpu_field, n_fields; none: a choice for the table, else all */
	unsigned n_fields;
	const char *dmon; /* letters of column groups, of "pucvmet" */
	/* The snapshot before, for what happened in between; NULL: none. */
	const struct gs_gpu_snapshot *before;
};

/* 0, or a negative errno of writing to out. */
int gs_report_gpu_write(FILE *out, const struct gs_gpu_snapshot *snapshot,
			const struct gs_report_gpu_style *style);

/* "00000000:3B:00.0: XID 79: GPU has fallen off the bus"; returns out. */
#define GS_GPU_EVENT_LINE_BYTES 320
const char *gs_report_gpu_event_line(char out[GS_GPU_EVENT_LINE_BYTES],
				     const struct gs_gpu_event *event);

/* The names of --fields with what they mean. 0, or the first error of writing. */
int gs_report_gpu_write_fields(FILE *out);

#endif
