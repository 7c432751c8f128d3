#include "core/text/pen.h"

#include <errno.h>
#include <stdarg.h>

#define PIECE_BYTES     (64u << 10)
#define PIECE_MAX_BYTES (16u << 20) /* between two lines; a text has 4 KiB at most */

void gs_pen_open(struct gs_pen *pen, FILE *out)
{
	*pen = (struct gs_pen){.out = out, .buf = GS_BUF_INIT(PIECE_MAX_BYTES)};
}

void gs_pen_check(struct gs_pen *pen, int r)
{
	if (r < 0 && pen->r == 0)
		pen->r = r;
}

static void hand_on(struct gs_pen *pen)
{
	if (pen->r == 0 && pen->buf.bytes) {
		errno = 0;
		if (fwrite(pen->buf.data, 1, pen->buf.bytes, pen->out) != pen->buf.bytes)
			gs_pen_check(pen, errno ? -errno : -EIO);
	}
	gs_buf_reset(&pen->buf);
}

int gs_pen_close(struct gs_pen *pen)
{
	hand_on(pen);
	/* A full disk often shows only here. */
	errno = 0;
	if (pen->r == 0 && (fflush(pen->out) != 0 || ferror(pen->out)))
		gs_pen_check(pen, errno ? -errno : -EIO);
	gs_buf_fini(&pen->buf);
	return pen->r;
}

void gs_pen_puts(struct gs_pen *pen, const char *text)
{
	gs_pen_check(pen, gs_buf_puts(&pen->buf, text));
}

void gs_pen_printf(struct gs_pen *pen, const char *fmt, ...)
{
	char text[160]; /* nearly all of them; a longer one is printed twice */
	va_list ap, again;
	int n;

	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < (int)sizeof(text)) {
		gs_pen_puts(pen, n < 0 ? "" : text);
	} else if (gs_buf_reserve(&pen->buf, (size_t)n) < 0) {
		gs_pen_check(pen, -ENOMEM);
	} else { /* the buffer has a byte more than it says, for the end */
		vsnprintf((char *)pen->buf.data + pen->buf.bytes, (size_t)n + 1, fmt, again);
		pen->buf.bytes += (size_t)n;
	}
	va_end(again);
}

void gs_pen_yield(struct gs_pen *pen)
{
	if (pen->out && pen->buf.bytes >= PIECE_BYTES)
		hand_on(pen);
}
