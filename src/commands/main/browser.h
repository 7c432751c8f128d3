/*
 * Starting the user's browser on a local file: what $BROWSER names (several commands with colons between
 * them, each with blanks between its words and %s for the address, or the address after it), else xdg-open
 * where there is a display. No shell reads any of it.
 */
#ifndef GS_COMMANDS_MAIN_BROWSER_H
#define GS_COMMANDS_MAIN_BROWSER_H

#include "core/base/err.h"

/* Show the file, of an absolute path. A browser with a window goes on after our end; without a display,
 * what $BROWSER names has our terminal until it ends. 0; -ENODEV: there is neither $BROWSER nor a display;
 * another negative errno with err: none of them could be started, or all failed at once. */
int cmd_browser_show(const char *path, struct gs_err *err);

/* "file:///tmp/a%20b.html"; -ENAMETOOLONG. */
int cmd_browser_address(const char *path, char *ret_url, unsigned bytes);

#endif
