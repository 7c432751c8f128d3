/* The formats of a summary, and the pen that their renderers write with. */
#include "export/export.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "export/summary_int.h"

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
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	gs_pen_puts(pen, text);
}

void gs_pen_yield(struct gs_pen *pen)
{
	if (pen->buf.bytes >= PIECE_BYTES)
		hand_on(pen);
}

static const struct {
	const char *name;
	void (*render)(struct gs_pen *pen, const struct gs_summary *summary,
		       const struct gs_summary_style *style);
} formats[] = {
	[GS_SUMMARY_TABLE] = {"table", gs_summary_table},
	[GS_SUMMARY_JSON] = {"json", gs_summary_json},
	[GS_SUMMARY_CSV] = {"csv", gs_summary_csv},
	[GS_SUMMARY_YAML] = {"yaml", gs_summary_yaml},
};

int gs_summary_format_parse(const char *name, enum gs_summary_format *ret_format)
{
	for (size_t i = 0; i < GS_ARRAY_LEN(formats); i++)
		if (strcmp(name, formats[i].name) == 0) {
			*ret_format = (enum gs_summary_format)i;
			return 0;
		}
	return -EINVAL;
}

int gs_summary_write(FILE *out, const struct gs_summary *summary, enum gs_summary_format format,
		     const struct gs_summary_style *style)
{
	struct gs_pen pen;

	if ((size_t)format >= GS_ARRAY_LEN(formats) || style->size < sizeof(*style))
		return -EINVAL;
	gs_pen_open(&pen, out);
	formats[format].render(&pen, summary, style);
	return gs_pen_close(&pen);
}
