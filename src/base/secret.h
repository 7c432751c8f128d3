/* Passwords and tokens out of files. */
#ifndef GS_BASE_SECRET_H
#define GS_BASE_SECRET_H

#include <stddef.h>

#include "base/err.h"

/* -EPERM with err: everybody may read or write the file, so that what it holds is no secret; or why
 * it cannot be read. what: for messages, as "the key". */
int gs_secret_check(const char *path, const char *what, struct gs_err *err);

/* The first line of a file that not everybody may read; what: for messages. */
int gs_secret_read(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err);

/* The first line that is neither empty nor begins with '#': what a client shows to a server, whose
 * own file of tokens may have such lines too. what: for messages. */
int gs_token_read(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err);

#endif
