/* A screen of named lines that can be scrolled: help, one process, one job. */
#ifndef GS_OUTPUT_SCREEN_LINES_H
#define GS_OUTPUT_SCREEN_LINES_H

#include "output/screen/screen.h"

struct tui_lines {
	struct tui_screen *s; /* borrowed */
	enum tui_style style; /* of names */
	int name_columns;     /* columns that names have, before values */
	int skip;             /* lines above the first one that is shown */
	int n;                /* lines so far, shown or not */
};

/* Lines stand between the first and the last row of the screen, which are the caller's. */
void tui_lines_begin(struct tui_lines *l, struct tui_screen *s, int name_columns, int skip);

/* A text after its name, in as many lines as it needs; none when the text is "". */
void tui_line(struct tui_lines *l, const char *name, const char *fmt, ...) GS_PRINTF(3, 4);
/* The same without a name, over the whole width. */
void tui_line_text(struct tui_lines *l, enum tui_style style, const char *text);
void tui_lines_gap(struct tui_lines *l);

/* So many rows for something else. Its first row on the screen; -1: they are not all visible. */
int tui_lines_block(struct tui_lines *l, int rows);

/* After the last line. True: skip was beyond the end and is right now; clear the screen and draw
 * everything once more. */
bool tui_lines_too_far(const struct tui_lines *l, int *skip);

/* Are there lines that are not shown? */
bool tui_lines_hidden(const struct tui_lines *l);

#endif
