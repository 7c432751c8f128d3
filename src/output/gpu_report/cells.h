/* Cells and lines that the tables of this room share. What is 0 is shown as "-". */
#ifndef GS_OUTPUT_GPU_REPORT_CELLS_H
#define GS_OUTPUT_GPU_REPORT_CELLS_H

#include <stdint.h>

#include "core/text/page.h"

/* One cell, to its right end: a number, bytes or ns in short form ("1.5 GiB"). */
void report_put_count(struct gs_grid *grid, uint64_t n);
void report_put_bytes(struct gs_grid *grid, uint64_t bytes);
void report_put_time(struct gs_grid *grid, uint64_t ns);

/* An empty line and a heading; a line of small print, broken where it must be. */
void report_put_title(struct gs_page *page, const char *text);
void report_put_remark(struct gs_page *page, const char *text);

#endif
