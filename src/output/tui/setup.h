/* The setup screen (F2): theme and columns, kept from one run to the next. */
#ifndef GS_OUTPUT_TUI_SETUP_H
#define GS_OUTPUT_TUI_SETUP_H

#include "output/tui/input.h"

/* The columns that ui->options says are hidden. */
void tui_setup_init(struct tui_ui *ui);

/* A key on the screen; leaving it asks for TUI_ASK_SAVE, with what was chosen in ui->options. */
struct tui_asked tui_setup_key(struct tui_ui *ui, int key);

/* The whole screen, scrolled to the line that is chosen. */
void tui_setup_draw(struct tui_ui *ui, struct tui_screen *s);

#endif
