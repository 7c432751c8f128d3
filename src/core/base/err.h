/*
 * Errors that a person must act on. Functions return 0 or a negative errno; where the reason is
 * known in words, the place that knows it also fills a struct gs_err with one line that says what
 * is wrong and what to do. The text is only valid when the call failed.
 */
#ifndef GS_CORE_BASE_ERR_H
#define GS_CORE_BASE_ERR_H

#include "core/base/mem.h"

struct gs_err {
	char text[768]; /* one line, no newline at the end; empty when not set */
};

/* Write the text into err (may be NULL) and return code, which is a negative errno. */
int gs_err_set(struct gs_err *err, int code, const char *fmt, ...) GS_PRINTF(3, 4);

/* Put "what: " in front of the text of err (may be NULL) and return code. */
int gs_err_prefix(struct gs_err *err, int code, const char *fmt, ...) GS_PRINTF(3, 4);

/* The text of err, or the system's words for code when none was set. */
const char *gs_err_text(const struct gs_err *err, int code);

#endif
