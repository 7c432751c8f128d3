/* From what is to be shown to cells. Pure: no terminal, no clock, nothing is read. */
#ifndef GS_OUTPUT_TUI_LAYOUT_H
#define GS_OUTPUT_TUI_LAYOUT_H

#include "output/tui/ui.h"

/* The whole screen, into s as large as it is. Only scroll positions of the ui change. */
void tui_layout(struct tui_ui *ui, struct tui_screen *s);

/* Parts of it (layout.c decides where). */
int tui_gpu_rows_wanted(const struct tui_ui *ui, const struct tui_screen *s, int most);
void tui_draw_gpus(struct tui_ui *ui, struct tui_screen *s, int y, int rows);
/* Some lines of them, at most so many; s NULL: only counted. How many. */
int tui_put_findings(const struct tui_ui *ui, struct tui_screen *s, int y, int columns, int most);
void tui_draw_findings(struct tui_ui *ui, struct tui_screen *s);
void tui_draw_help(struct tui_ui *ui, struct tui_screen *s);
void tui_draw_detail(struct tui_ui *ui, struct tui_screen *s);
void tui_draw_signals(const struct tui_ui *ui, struct tui_screen *s);

/* Rows that the whole content takes, for printing it. */
int tui_rows_of_all(const struct tui_ui *ui, int columns);

#endif
