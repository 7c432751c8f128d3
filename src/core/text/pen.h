/*
 * The pen that renderers of text write with. It gathers text and hands it to the file in pieces.
 * Its first error sticks: what comes after it is dropped, and gs_pen_close() returns it, so that
 * renderers need not look at every single write.
 */
#ifndef GS_CORE_TEXT_PEN_H
#define GS_CORE_TEXT_PEN_H

#include <stdio.h>

#include "core/base/buf.h"

struct gs_pen {
	FILE *out;         /* borrowed; NULL: what is written is only gathered in buf */
	struct gs_buf buf; /* gathered and not yet handed on */
	int r;             /* the first error, a negative errno; or 0 */
};

/* out is borrowed until gs_pen_close(), which does not close it. NULL: of a pen that is never closed, whose
 * buf its owner reads and frees. */
void gs_pen_open(struct gs_pen *pen, FILE *out);

/* Writes the rest, makes sure that the file took it, and frees. 0 or the first error. */
int gs_pen_close(struct gs_pen *pen);

/* Remember r when it is the first error. */
void gs_pen_check(struct gs_pen *pen, int r);

/* Text as it is: nothing is escaped or made harmless. */
void gs_pen_puts(struct gs_pen *pen, const char *text);
void gs_pen_printf(struct gs_pen *pen, const char *fmt, ...) GS_PRINTF(2, 3);

/* Hands on what is gathered when it is a good piece; called between lines. */
void gs_pen_yield(struct gs_pen *pen);

#endif
