/*
 * A screen as cells: what the layout draws into and a terminal or a test reads. Whatever text is
 * put, no cell holds anything that could steer a terminal: control characters and bytes that are no
 * UTF-8 become '?', characters without a width are left out.
 */
#ifndef GS_OUTPUT_SCREEN_SCREEN_H
#define GS_OUTPUT_SCREEN_SCREEN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"

/* What a cell means; themes say how that looks. */
enum tui_style {
	TUI_PLAIN,
	TUI_DIM,
	TUI_BOLD,
	TUI_TITLE,
	TUI_HEAD, /* of the table */
	TUI_HEAD_SORT,
	TUI_GOOD,
	TUI_WARN,
	TUI_BAD,
	TUI_ALARM,
	TUI_SELECTED,
	TUI_KEY,
	TUI_GRAPH,
	TUI_GRAPH_2,
	TUI_N_STYLES
};

struct tui_cell {
	uint32_t ch;   /* 0: the right half of a wide character */
	uint8_t style; /* enum tui_style */
};

struct tui_hit {           /* a part of the screen that the mouse can press */
	int y, x, columns; /* row and first column, from 0; columns */
	int what;          /* a key (input.h), or TUI_HIT_... */
	int arg;           /* of what: a row, a column; 0 none */
};

enum { TUI_HIT_COLUMN = -1, TUI_HIT_ROW = -2, TUI_HIT_GPU = -3 };

#define TUI_MAX_ROWS    4096
#define TUI_MAX_COLUMNS 1024
#define TUI_MAX_HITS    512

struct tui_screen {
	int rows, columns;                 /* of cells */
	bool ascii;                        /* graphs and lines are drawn with ASCII alone */
	struct tui_cell *cells;            /* owned */
	struct tui_hit hits[TUI_MAX_HITS]; /* a later one lies on top */
	size_t n_hits;
};

/* Of this size (bounded by the maxima), blank. -ENOMEM. */
int tui_screen_reset(struct tui_screen *s, int rows, int columns);
void tui_screen_fini(struct tui_screen *s);

/* Put text at a place, cut at max columns and at the border; how many columns it took. A place
 * outside takes nothing. */
int tui_put(struct tui_screen *s, int y, int x, int max, enum tui_style style, const char *text);
int tui_putf(struct tui_screen *s, int y, int x, int max, enum tui_style style, const char *fmt,
	     ...) GS_PRINTF(6, 7);

/* Ends at x + columns. What is too long is cut at its end. */
void tui_put_right(struct tui_screen *s, int y, int x, int columns, enum tui_style style,
		   const char *text);
void tui_put_char(struct tui_screen *s, int y, int x, enum tui_style style, uint32_t ch);

/* Style of cells that are there already. */
void tui_restyle(struct tui_screen *s, int y, int x, int columns, enum tui_style style);
void tui_clear(struct tui_screen *s, int y, int x, int rows, int columns);

/* Columns that a text takes. */
int tui_columns_of(const char *text);

/* Bytes of the beginning of a text that stand within so many columns: whole words, else a part of
 * one; never none of a text that has some. */
size_t tui_words_within(const char *text, int columns);

/* Enter a part; at: the one there, lent until the next drawing, NULL: none. Beyond TUI_MAX_HITS:
 * nothing. */
void tui_hit(struct tui_screen *s, int y, int x, int columns, int what, int arg);
const struct tui_hit *tui_hit_at(const struct tui_screen *s, int y, int x);

/* Append the screen as lines of UTF-8, blanks at their ends cut. 0 or the error of gs_buf_put(). */
int tui_screen_text(const struct tui_screen *s, struct gs_buf *buf);

/* A bar like [||||    45%]: the share in 0..1 (negative: not known) and a text at its right end. */
void tui_meter(struct tui_screen *s, int y, int x, int columns, double ratio, enum tui_style style,
	       const char *text);

/* Values 0..1, oldest first, NAN for those that are not there, as dots (ASCII: letters) that end at
 * the right border; a value that is there shows at least its lowest dot. Cells take as many values
 * as tui_graph_values() says. */
void tui_graph(struct tui_screen *s, int y, int x, int rows, int columns, const float *values,
	       int n_values, enum tui_style style);
int tui_graph_values(const struct tui_screen *s, int columns);

/* Good below warn, then warning, and bad from bad on; plain when not known. */
enum tui_style tui_style_of(double ratio, double warn, double bad);

#endif
