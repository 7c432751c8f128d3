/* Where libraries are that gpuscope has loaded into other programs (companion/). */
#ifndef GS_COMMANDS_COMMON_LIBRARY_H
#define GS_COMMANDS_COMMON_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/err.h"

#define GS_CLI_COMPANION_CALLS "libgpuscope_companion.so"

/* Where the program was installed to, or built: the absolute path. 0; names that LD_PRELOAD cannot hold are none: -ENOENT,
 * with what to do in err, and out is "". */
int gs_cli_find_library(const char *name, char *out, size_t bytes, struct gs_err *err);

#endif
