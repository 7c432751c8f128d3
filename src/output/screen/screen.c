#include "output/screen/screen.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <wchar.h>

int tui_screen_reset(struct tui_screen *s, int rows, int columns)
{
	struct tui_cell *cells;

	rows = rows < 1 ? 1 : rows > TUI_MAX_ROWS ? TUI_MAX_ROWS : rows;
	columns = columns < 1 ? 1 : columns > TUI_MAX_COLUMNS ? TUI_MAX_COLUMNS : columns;
	if (!s->cells || rows != s->rows || columns != s->columns) {
		cells = realloc(s->cells, (size_t)rows * (size_t)columns * sizeof(*cells));
		if (!cells)
			return -ENOMEM;
		s->cells = cells;
		s->rows = rows;
		s->columns = columns;
	}
	s->n_hits = 0;
	tui_clear(s, 0, 0, rows, columns);
	return 0;
}

void tui_screen_fini(struct tui_screen *s)
{
	free(s->cells);
	s->cells = NULL;
	s->rows = s->columns = 0;
}

static struct tui_cell *cell_at(struct tui_screen *s, int y, int x)
{
	return y >= 0 && y < s->rows && x >= 0 && x < s->columns
		       ? &s->cells[(size_t)y * (size_t)s->columns + (size_t)x]
		       : NULL;
}

void tui_clear(struct tui_screen *s, int y, int x, int rows, int columns)
{
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++) {
			struct tui_cell *c = cell_at(s, y + i, x + j);

			if (c)
				*c = (struct tui_cell){' ', TUI_PLAIN};
		}
}

void tui_restyle(struct tui_screen *s, int y, int x, int columns, enum tui_style style)
{
	for (int j = 0; j < columns; j++) {
		struct tui_cell *c = cell_at(s, y, x + j);

		if (c)
			c->style = (uint8_t)style;
	}
}

/* The character at *text, which moves after it; '?' for what is no UTF-8 (RFC 3629). */
static uint32_t decode_char(const char **text)
{
	const unsigned char *p = (const unsigned char *)*text;
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	int n = p[0] < 0x80                   ? 1
		: p[0] >= 0xf0 && p[0] < 0xf5 ? 4
		: p[0] >= 0xe0 && p[0] < 0xf0 ? 3
		: p[0] >= 0xc2 && p[0] < 0xe0 ? 2
					      : 0;
	uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);

	for (int i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) {
			n = 0;
			break;
		}
		c = c << 6 | (p[i] & 0x3f);
	}
	if (!n || c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
		*text += 1;
		return '?';
	}
	*text += n;
	return c;
}

/* Characters that change the order of writing (bidi_class of UAX 9) could show a name as another
 * one; wcwidth() gives them no width, but some C libraries do. */
static bool is_steering(uint32_t c)
{
	return (c >= 0x200b && c <= 0x200f) || (c >= 0x202a && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0x61c;
}

/* Columns of a character, which becomes one that may be shown; 0: leave it out. */
static int tame_char(uint32_t *c)
{
	int n;

	if (*c < 0x20 || (*c >= 0x7f && *c < 0xa0)) {
		*c = '?';
		return 1;
	}
	if (*c < 0x7f)
		return 1;
	if (is_steering(*c))
		return 0;
	n = wcwidth((wchar_t)*c);
	if (n < 0) {
		*c = '?';
		return 1;
	}
	return n;
}

int tui_columns_of(const char *text)
{
	int n = 0;

	while (*text) {
		uint32_t c = decode_char(&text);

		n += tame_char(&c);
	}
	return n;
}

size_t tui_words_within(const char *text, int columns)
{
	const char *p = text, *word = NULL;

	for (int used = 0; *p;) {
		const char *from = p;
		uint32_t c = decode_char(&p);

		used += tame_char(&c);
		if (c == ' ')
			word = from;
		else if (used > columns)
			return (size_t)((word ? word : from > text ? from : p) - text);
	}
	return (size_t)(p - text);
}

void tui_put_char(struct tui_screen *s, int y, int x, enum tui_style style, uint32_t ch)
{
	struct tui_cell *c = cell_at(s, y, x);

	if (c)
		*c = (struct tui_cell){ch, (uint8_t)style};
}

int tui_put(struct tui_screen *s, int y, int x, int max, enum tui_style style, const char *text)
{
	int at = 0;

	while (*text) {
		uint32_t c = decode_char(&text);
		int n = tame_char(&c);

		if (!n)
			continue;
		if (s->ascii && c == 0xb0) /* of "91 °C" only the sign goes */
			continue;
		if (s->ascii && c >= 0x80) {
			/* Takes as many columns, so that what is beside it stays in place. */
			c = '?';
		}
		if (at + n > max || x + at + n > s->columns)
			break;
		if (c == '?' && n == 2) {
			tui_put_char(s, y, x + at, style, '?');
			tui_put_char(s, y, x + at + 1, style, '?');
		} else {
			tui_put_char(s, y, x + at, style, c);
			if (n == 2)
				tui_put_char(s, y, x + at + 1, style, 0);
		}
		at += n;
	}
	return at;
}

int tui_putf(struct tui_screen *s, int y, int x, int max, enum tui_style style, const char *fmt,
	     ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return tui_put(s, y, x, max, style, text);
}

void tui_put_right(struct tui_screen *s, int y, int x, int columns, enum tui_style style,
		   const char *text)
{
	int n = tui_columns_of(text);

	tui_put(s, y, n < columns ? x + columns - n : x, columns, style, text);
}

void tui_hit(struct tui_screen *s, int y, int x, int columns, int what, int arg)
{
	if (s->n_hits < TUI_MAX_HITS && columns > 0)
		s->hits[s->n_hits++] = (struct tui_hit){y, x, columns, what, arg};
}

const struct tui_hit *tui_hit_at(const struct tui_screen *s, int y, int x)
{
	/* The later one lies on top. */
	for (size_t i = s->n_hits; i-- > 0;) {
		const struct tui_hit *h = &s->hits[i];

		if (h->y == y && x >= h->x && x < h->x + h->columns)
			return h;
	}
	return NULL;
}

static int put_utf8(struct gs_buf *buf, uint32_t c)
{
	char b[4];
	size_t n;

	if (c < 0x80) {
		b[0] = (char)c;
		n = 1;
	} else if (c < 0x800) {
		b[0] = (char)(0xc0 | c >> 6);
		b[1] = (char)(0x80 | (c & 0x3f));
		n = 2;
	} else if (c < 0x10000) {
		b[0] = (char)(0xe0 | c >> 12);
		b[1] = (char)(0x80 | (c >> 6 & 0x3f));
		b[2] = (char)(0x80 | (c & 0x3f));
		n = 3;
	} else {
		b[0] = (char)(0xf0 | c >> 18);
		b[1] = (char)(0x80 | (c >> 12 & 0x3f));
		b[2] = (char)(0x80 | (c >> 6 & 0x3f));
		b[3] = (char)(0x80 | (c & 0x3f));
		n = 4;
	}
	return gs_buf_put(buf, b, n);
}

int tui_screen_text(const struct tui_screen *s, struct gs_buf *buf)
{
	int r = 0;

	for (int y = 0; y < s->rows && r == 0; y++) {
		const struct tui_cell *row = &s->cells[(size_t)y * (size_t)s->columns];
		int end = s->columns;

		while (end > 0 && row[end - 1].ch == ' ')
			end--;
		for (int x = 0; x < end && r == 0; x++)
			if (row[x].ch)
				r = put_utf8(buf, row[x].ch);
		if (r == 0)
			r = gs_buf_puts(buf, "\n");
	}
	return r;
}
