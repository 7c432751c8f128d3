/*
 * A document of several pages as PDF, drawn by cairo: headings, paragraphs, bars and tables from above to
 * below, broken into pages. Texts are UTF-8 without control characters, and are cut where a cell is full.
 */
#ifndef GS_OUTPUT_PLOT_DOCUMENT_H
#define GS_OUTPUT_PLOT_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"
#include "core/base/err.h"

#define GS_PLOT_COLUMNS_MAX 12
#define GS_PLOT_PAGES_MAX   60 /* what comes after them is left out, which the last one says */

struct gs_plot_document;

/* The pages go to out, which is borrowed until it is closed. title is borrowed likewise: it stands at the foot of each
 * page. -ENOPKG: cairo is not here; -ENOMEM. */
int gs_plot_open_document(struct gs_buf *out, const char *title, struct gs_plot_document **ret,
			  struct gs_err *err);

/* -EIO, or -ENOBUFS: out has no more room. NULL inside: nothing. */
int gs_plot_close_document(struct gs_plot_document **document, struct gs_err *err);

/* One line each, cut where it is full. */
void gs_plot_put_title(struct gs_plot_document *document, const char *text);
void gs_plot_put_heading(struct gs_plot_document *document, const char *text);

/* A paragraph, in as many lines as it takes; pale: what is said beside the matter. */
void gs_plot_put_paragraph(struct gs_plot_document *document, bool pale, const char *text);

/* Shares of a whole (0 to 1 each) side by side, each in a colour of its own; gs_plot_put_mark() puts that colour in
 * front of the next row. */
void gs_plot_put_bar(struct gs_plot_document *document, const double *shares, size_t n);
void gs_plot_put_mark(struct gs_plot_document *document, size_t i, size_t n);

struct gs_plot_column {
	const char *title;
	double width; /* of all columns together, any unit */
	bool right;   /* figures, at the right end */
};

/* The head of a table, which comes again on the next page. columns is borrowed until the table ends. */
void gs_plot_begin_table(struct gs_plot_document *document, const struct gs_plot_column *columns,
			 size_t n);
void gs_plot_put_row(struct gs_plot_document *document, const char *const *cells); /* n of them */
void gs_plot_end_table(struct gs_plot_document *document);

#endif
