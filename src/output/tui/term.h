/* The terminal, and all that is known of ncurses. One at a time in a program. */
#ifndef GS_OUTPUT_TUI_TERM_H
#define GS_OUTPUT_TUI_TERM_H

#include <stdbool.h>

#include "core/base/err.h"
#include "output/screen/screen.h"
#include "output/tui/tui.h"

enum tui_event_kind {
	TUI_EVENT_NONE,
	TUI_EVENT_KEY,
	TUI_EVENT_MOUSE,
	TUI_EVENT_RESIZE,
	TUI_EVENT_GONE, /* the terminal was closed */
};

struct tui_event {
	enum tui_event_kind kind; /* which of the fields below are set */
	int key;                  /* input.h */
	int y, x, wheel;          /* of the mouse: cell; lines, below 0 up */
	bool twice;               /* a double click */
};

/* Take over the terminal of stdin and stdout. -ENOTTY, -EINVAL: err says why. */
int tui_term_open(enum gs_tui_theme theme, struct gs_err *err);
void tui_term_close(void);
void tui_term_set_theme(enum gs_tui_theme theme);
void tui_term_size(int *ret_rows, int *ret_columns);
void tui_term_draw(const struct tui_screen *s);
struct tui_event tui_term_next(void); /* does not block */

/* A signal asked the program to end. */
bool tui_term_is_interrupted(void);

#endif
