/* Numbers in few columns. Each writes into out and returns it; what is not known is "-". */
#ifndef GS_OUTPUT_SCREEN_FORMAT_H
#define GS_OUTPUT_SCREEN_FORMAT_H

#include <stdint.h>

#define TUI_NUMBER_BYTES 24

const char *tui_bytes(char out[TUI_NUMBER_BYTES], double bytes);   /* "0", "850M", "12.3G" */
const char *tui_percent(char out[TUI_NUMBER_BYTES], double ratio); /* "0", "45", "100" */
const char *tui_number(char out[TUI_NUMBER_BYTES], double v);      /* no digits after the point */
const char *tui_duration(char out[TUI_NUMBER_BYTES], double ns); /* "12s", "3:05", "2:03h", "4d" */

#endif
