/* Rows of a PDF's tables, cell after cell. Inside the room only. */
#ifndef GS_OUTPUT_RUN_PAGE_ROW_H
#define GS_OUTPUT_RUN_PAGE_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "output/plot/document.h"

#define RUN_PAGE_CELLS      8
#define RUN_PAGE_CELL_BYTES 96

/* A row that is being put together. */
struct run_page_row {
	struct gs_plot_document *to;
	struct gs_buf names[RUN_PAGE_CELLS]; /* texts of a program, made harmless */
	char figures[RUN_PAGE_CELLS][RUN_PAGE_CELL_BYTES];
	const char *cells[RUN_PAGE_CELLS];
	unsigned n;
};

/* to: borrowed until run_page_fini_row(). */
void run_page_init_row(struct run_page_row *row, struct gs_plot_document *to);
void run_page_fini_row(struct run_page_row *row);

/* The next cell, RUN_PAGE_CELLS at most. name: a text that a program chose; NULL is "". id: a number that is a name,
 * without separators. figure: a text that fits in RUN_PAGE_CELL_BYTES. share: of 1; below 0: not known. */
void run_page_add_name(struct run_page_row *row, const char *name);
void run_page_add_ns(struct run_page_row *row, uint64_t ns);
void run_page_add_count(struct run_page_row *row, uint64_t count);
void run_page_add_id(struct run_page_row *row, uint64_t id);
void run_page_add_bytes(struct run_page_row *row, uint64_t bytes);
void run_page_add_percent(struct run_page_row *row, double share);
void run_page_add_figure(struct run_page_row *row, const char *figure);
void run_page_end_row(struct run_page_row *row);

/* A heading and the head of its table; columns: as of gs_plot_begin_table(). */
void run_page_begin_block(struct run_page_row *row, const char *heading,
			  const struct gs_plot_column *columns, size_t n);

/* A paragraph of texts that a program chose; pale: as of gs_plot_put_paragraph(). */
void run_page_put_words(struct run_page_row *row, bool pale, const char *text);

#endif
