/*
 * A summary as a table, JSON, CSV or YAML.
 */
#ifndef GS_OUTPUT_REPORT_SUMMARY_H
#define GS_OUTPUT_REPORT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "model/trace/summary.h"

enum gs_report_summary_format {
	GS_SUMMARY_TABLE = 0,
	GS_SUMMARY_JSON = 1,
	GS_SUMMARY_CSV = 2,
	GS_SUMMARY_YAML = 3,
};

/* "table", "json", "csv", "yaml". 0, or -EINVAL. */
int gs_report_summary_format_parse(const char *name, enum gs_report_summary_format *ret_format);

struct gs_report_summary_style {
	size_t size;    /* of this struct */
	unsigned width; /* columns of the terminal, 0: no limit */
	bool color;     /* ANSI colours in the table */
	bool threads;   /* the table also shows each thread */
	unsigned n_top; /* functions shown by layer in the table; 0: all */
	bool part;      /* of the calls of a run some were chosen: none proves nothing */
};

/* Render; 0 or a negative errno of writing to out. */
int gs_report_summary_write(FILE *out, const struct gs_summary *summary,
			    enum gs_report_summary_format format,
			    const struct gs_report_summary_style *style);

#endif
