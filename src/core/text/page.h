/*
 * A page of text for a terminal: lines of cells with colours, every text made harmless first and
 * measured by the columns that it takes, so that a line never passes the width. Blanks are only
 * written when text follows them: no line ends in one.
 *
 * A grid is a small table on a page whose columns are as wide as what they hold: its rows are put
 * twice, first with measuring set and then, after gs_grid_fit(), for good.
 */
#ifndef GS_CORE_TEXT_PAGE_H
#define GS_CORE_TEXT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/text/pen.h"

enum gs_ink {
	GS_INK_PLAIN = 0,
	GS_INK_BOLD = 1,
	GS_INK_DIM = 2,
	GS_INK_RED = 3,
	GS_INK_WARN = 4,
	GS_INK_COUNT
};

/* Which part of a text that is too long makes room for the dots. */
enum gs_cut {
	GS_CUT_END,
	GS_CUT_MIDDLE,
	GS_CUT_START,
};

struct gs_page {
	struct gs_pen *pen;    /* borrowed; keeps the first error */
	size_t width;          /* columns, SIZE_MAX without limit */
	bool color;            /* escape sequences for inks */
	size_t at;             /* columns of this line so far, pending blanks included */
	size_t pending;        /* blanks not yet written */
	struct gs_buf scratch; /* a text made harmless */
};

/* pen is borrowed until fini, which frees the scratch text and writes nothing. width: columns, 0:
 * without limit. */
void gs_page_init(struct gs_page *page, struct gs_pen *pen, unsigned width, bool color);
void gs_page_fini(struct gs_page *page);

/* Columns that the text takes on the page. */
size_t gs_page_columns(struct gs_page *page, const char *text);

/* The text in exactly this many columns (fewer only at the end of the line), to their left or right
 * end; cut when it is longer. */
void gs_page_left(struct gs_page *page, enum gs_ink ink, const char *text, size_t columns,
		  enum gs_cut cut);
void gs_page_right(struct gs_page *page, enum gs_ink ink, const char *text, size_t columns);

/* So many blanks, written when text follows on this line. */
void gs_page_gap(struct gs_page *page, size_t columns);

/* The text up to the end of the line, cut when it is longer. */
void gs_page_rest(struct gs_page *page, enum gs_ink ink, const char *text, enum gs_cut cut);

/* Words from here on, further lines starting below this column; ends the line. */
void gs_page_words(struct gs_page *page, enum gs_ink ink, const char *text);

void gs_page_line(struct gs_page *page); /* ends the line */

#define GS_GRID_MAX 128

struct gs_grid {
	struct gs_page *page;        /* borrowed */
	bool measuring;              /* cells are measured, not written */
	unsigned n;                  /* the cell that comes next */
	size_t columns[GS_GRID_MAX]; /* the widest text of each cell; 0: none */
	/* of gs_grid_piece(): */
	unsigned cells, from,
		to;  /* of a row, and which of them besides the first are in the piece */
	size_t rest; /* widest text after the cells */
	bool in_pieces, with_rest; /* it is laid out so; this piece has the text after the cells */
};

/* A table that may be wider than its page is laid out in pieces below each other, each with the
 * first cell, so that nothing is cut off: after measuring, `while (gs_grid_piece(&g, keep))` write
 * all rows. Of the text after the cells keep columns are enough (0: all of it). */
bool gs_grid_piece(struct gs_grid *grid, size_t keep);

/* Narrow this column, where the page asks for it, so that the others and keep_columns of the text
 * after them have room; ends measuring. */
void gs_grid_fit(struct gs_grid *grid, unsigned narrow, size_t keep_columns);

/* The next cell of the row, to its left or right end: measured or written. A row has at most
 * GS_GRID_MAX of them, and ends by one of the two below. */
void gs_grid_left(struct gs_grid *grid, enum gs_ink ink, const char *text, enum gs_cut cut);
void gs_grid_right(struct gs_grid *grid, enum gs_ink ink, const char *text);

/* The last cell of a row: cut at the end of the line, or in as many lines as it needs. */
void gs_grid_rest(struct gs_grid *grid, enum gs_ink ink, const char *text, enum gs_cut cut);
void gs_grid_words(struct gs_grid *grid, enum gs_ink ink, const char *text);

#endif
