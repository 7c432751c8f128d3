/*
 * A summary as a table, JSON, CSV or YAML.
 */
#ifndef GS_OUTPUT_REPORT_SUMMARY_H
#define GS_OUTPUT_REPORT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/text/doc.h"
#include "model/summary/summary.h"

enum gs_report_summary_format {
	GS_SUMMARY_TABLE = 0,
	GS_SUMMARY_JSON = 1,
	GS_SUMMARY_CSV = 2,
	GS_SUMMARY_YAML = 3,
};

/* "table", "json", "csv", "yaml". 0, or -EINVAL. */
int gs_report_summary_format_parse(const char *name, enum gs_report_summary_format *ret_format);

/* What the table is made of. */
enum gs_summary_view {
	GS_SUMMARY_ALL = 0,       /* every block that has something */
	GS_SUMMARY_SHORT = 1,     /* one screen: the answer, and what took most time */
	GS_SUMMARY_PROCESSES = 2, /* the answer, and functions by process */
	GS_SUMMARY_THREADS = 3,
	GS_SUMMARY_STREAMS = 4,
	GS_SUMMARY_OPERATORS = 5,
	GS_SUMMARY_LINES = 6,
	GS_SUMMARY_KERNELS = 7,
	GS_SUMMARY_MEMORY = 8,
};

/* "process", "thread", "stream", "operator", "line", "kernel", "memory". 0, or -EINVAL. */
int gs_report_summary_view_parse(const char *name, enum gs_summary_view *ret_view);

#define GS_SUMMARY_TOP       20 /* rows of a block, */
#define GS_SUMMARY_TOP_SHORT 10 /* and of the one table of the short screen */

struct gs_report_summary_style {
	size_t size;               /* of this struct */
	unsigned width;            /* columns of the terminal, 0: no limit */
	bool color;                /* ANSI colours in the table */
	bool threads;              /* the table also shows each thread */
	unsigned n_top;            /* functions shown by layer in the table; 0: all */
	bool part;                 /* of the calls of a run some were chosen: none proves nothing */
	enum gs_summary_view view; /* which part is shown; GS_SUMMARY_ALL */
	bool verbose;          /* with a view: also what is of use only when something is wrong */
	bool gpus;             /* also GPUs, and how far bounds were from what they counted */
	uint32_t layers;       /* bits by enum gs_layer that were traced; 0: not known */
	const char *recording; /* .gst file that hints name; NULL: there is none */
	/* Members that JSON and YAML have beside those of the summary, the last ones. NULL: none. */
	void (*put_more)(void *ctx, struct gs_doc *doc);
	void *more_ctx; /* of it */
};

/* Render; 0 or a negative errno of writing to out. */
int gs_report_summary_write(FILE *out, const struct gs_summary *summary,
			    enum gs_report_summary_format format,
			    const struct gs_report_summary_style *style);

/* The whole summary as one map, for who puts more around it. */
void gs_report_summary_doc(struct gs_doc *doc, const struct gs_summary *summary,
			   const struct gs_report_summary_style *style);

#endif
