/*
 * Passwords, tokens and keys out of files. What only their owner may know or choose is
 * believed only of a regular file that others can neither read nor change (a group may read it), of
 * root or of the user this program runs as, in a folder where others cannot put another one. Every
 * function says so in the same words, and returns -EPERM then. what: for messages, as "the key".
 */
#ifndef GS_CORE_BASE_SECRET_H
#define GS_CORE_BASE_SECRET_H

#include <stddef.h>

#include "core/base/err.h"

#define GS_SECRET_FILE_MAX 65536 /* bytes that a file has less than */

/* Only that; another library reads the file. */
int gs_secret_check(const char *path, const char *what, struct gs_err *err);

/* The whole file as a terminated text without zeros. out is to be wiped by the caller. -EINVAL:
 * longer, or a zero in it; with err. */
int gs_secret_load(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err);

/* The first line. */
int gs_secret_read(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err);

/* The first line that is neither empty nor begins with '#': what a client shows to a server, whose
 * own file of tokens may have such lines too. */
int gs_token_read(const char *path, const char *what, char *out, size_t bytes, struct gs_err *err);

#endif
