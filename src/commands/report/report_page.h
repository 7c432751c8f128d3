/* gpuscope report -o FILE.html, FILE.pdf: a recording as a page, or as pages. */
#ifndef GS_COMMANDS_REPORT_REPORT_PAGE_H
#define GS_COMMANDS_REPORT_REPORT_PAGE_H

#include <stdbool.h>

/* Does the name of this output ask for a page? */
bool cmd_is_page(const char *output);

/* 0, or a negative errno after a message; -ENOPKG: cairo is not here. */
int cmd_write_page(const char *recording, const char *output);

#endif
