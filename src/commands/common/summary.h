/* Where a command's summary goes, and how it looks there. */
#ifndef GS_COMMANDS_COMMON_SUMMARY_H
#define GS_COMMANDS_COMMON_SUMMARY_H

#include <stdbool.h>
#include <stdio.h>

#include "output/report/summary.h"

/* Render a summary to path (flags: enum gs_output_flag), or to fallback when path is NULL; said
 * when it fails. */
int gs_cli_summary_write(const char *path, unsigned flags, FILE *fallback,
			 const struct gs_summary *summary, enum gs_report_summary_format format,
			 const struct gs_report_summary_style *style);

/* The style of a summary on this stream when it is a terminal: its width and, when they are left to
 * it, colours. */
void gs_cli_summary_style(FILE *stream, bool color_auto, struct gs_report_summary_style *style);

#endif
