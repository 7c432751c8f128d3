/* Columns of the screen's tables. */
#ifndef GS_OUTPUT_SCREEN_COLUMNS_H
#define GS_OUTPUT_SCREEN_COLUMNS_H

#include <stdbool.h>

#include "output/screen/screen.h"

struct tui_shape {         /* of a column */
	const char *title; /* its heading; static */
	int width;         /* 0: what is left of the line; the last one */
	bool right;        /* texts stand at its right end */
	int weight; /* the columns of least weight go first where there is no room; 9 never */
	bool falls; /* sorted from the greatest value down */
};

/* The line of titles, each of which is a place to click; sort: the column that sorts. */
void tui_columns_head(struct tui_screen *s, int y, const struct tui_shape *columns, int n,
		      const bool *shown, int sort);

/* Which of a table's rows is the first that is shown, where `lines` of them fit: top, moved as far
 * as the selected row (-1: none) asks for, and without empty lines below the last row. */
int tui_columns_top(int top, int selected, int n_rows, int lines);

#endif
