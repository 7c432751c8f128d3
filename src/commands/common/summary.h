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

#define GS_CLI_COLUMNS     100 /* of a pipe or file, unless COLUMNS or --width says otherwise */
#define GS_CLI_COLUMNS_MIN 40
#define GS_CLI_COLUMNS_MAX 100000

/* The style of a summary that goes to path or, NULL, to this stream. width: of --width, 0 without
 * limit, -1 not given. */
void gs_cli_summary_page(FILE *stream, const char *path, bool color_auto, int width,
			 struct gs_report_summary_style *style);

/* What follows from the options of a view: how many rows, and what -v alone means. */
void gs_cli_summary_settle(struct gs_report_summary_style *style, bool top_given);

/* The word of --width. */
bool gs_cli_parse_width(const char *word, int *ret_width);

#endif
