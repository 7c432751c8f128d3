/*
 * Keys and mouse: how they change what is shown. Pure but for the source's functions that a key
 * asks for (a signal, another part of a recording).
 */
#ifndef GS_OUTPUT_TUI_INPUT_H
#define GS_OUTPUT_TUI_INPUT_H

#include "output/tui/ui.h"

enum { /* beyond Unicode; below it a key is its character */
       TUI_KEY_UP = 0x200000,
       TUI_KEY_DOWN,
       TUI_KEY_LEFT,
       TUI_KEY_RIGHT,
       TUI_KEY_PAGE_UP,
       TUI_KEY_PAGE_DOWN,
       TUI_KEY_HOME,
       TUI_KEY_END,
       TUI_KEY_ENTER,
       TUI_KEY_ESCAPE,
       TUI_KEY_BACKSPACE,
       TUI_KEY_F0,
};
#define TUI_KEY_F(n) (TUI_KEY_F0 + (n))

/* What a key asks of the loop; in ret_value with what goes with it. */
enum tui_ask {
	TUI_ASK_NOTHING,
	TUI_ASK_QUIT,
	TUI_ASK_STEP,     /* of a recording: so many snapshots on or back */
	TUI_ASK_GO,       /* to a snapshot; SIZE_MAX the last */
	TUI_ASK_INTERVAL, /* options.interval_ns is new */
	TUI_ASK_THEME,    /* options.theme is new */
	TUI_ASK_SAVE,     /* keep what the setup screen changed */
};

struct tui_asked {
	enum tui_ask what; /* what the caller has to do */
	int64_t value;     /* of what: there; else 0 */
};

/* rows: of the screen, for pages. */
struct tui_asked tui_key(struct tui_ui *ui, int key, int rows);

/* A press of the mouse on the screen as it was drawn last; twice: the second of a double click.
 * wheel: -1 up, 1 down, 0 a press. */
struct tui_asked tui_mouse(struct tui_ui *ui, const struct tui_screen *s, int y, int x, int wheel,
			   bool twice);

/* Up and down the intervals that keys choose from. */
uint64_t tui_interval_next(uint64_t interval_ns, int direction);

#endif
