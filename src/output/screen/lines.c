#include "output/screen/lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MIN   16 /* columns; with less the text stands below its name */
#define TEXT_BYTES 2048

static int room_left(const struct tui_lines *l)
{
	return l->s->rows > 2 ? l->s->rows - 2 : l->s->rows > 1;
}

/* The screen's row of the line that comes next; -1: it is not visible. */
static int next_line(struct tui_lines *l)
{
	int at = l->n++ - l->skip;

	return at >= 0 && at < room_left(l) ? 1 + at : -1;
}

void tui_lines_begin(struct tui_lines *l, struct tui_screen *s, int name_columns, int skip)
{
	*l = (struct tui_lines){
		.s = s, .style = TUI_DIM, .name_columns = name_columns, .skip = skip};
}

/* The name belongs to the first line. */
static void put_field(struct tui_lines *l, int x, const char *name, enum tui_style style,
		      const char *text)
{
	int columns = l->s->columns - x;

	do {
		size_t bytes = tui_words_within(text, columns < 1 ? 1 : columns);
		int y = next_line(l);

		if (y >= 0 && name)
			tui_put(l->s, y, 1, x - 2, l->style, name);
		if (y >= 0)
			tui_putf(l->s, y, x, columns, style, "%.*s", (int)bytes, text);
		name = NULL;
		text += bytes;
		text += strspn(text, " ");
	} while (*text);
}

void tui_line(struct tui_lines *l, const char *name, const char *fmt, ...)
{
	int x = l->name_columns + 1;
	char text[TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!text[0])
		return;
	if (l->s->columns - x < TEXT_MIN) {
		int y = name[0] ? next_line(l) : -1;

		if (y >= 0)
			tui_put(l->s, y, 1, l->s->columns - 1, l->style, name);
		put_field(l, 3, NULL, TUI_PLAIN, text);
	} else {
		put_field(l, x, name, TUI_PLAIN, text);
	}
}

void tui_line_text(struct tui_lines *l, enum tui_style style, const char *text)
{
	put_field(l, 1, NULL, style, text);
}

void tui_lines_gap(struct tui_lines *l)
{
	l->n++;
}

int tui_lines_block(struct tui_lines *l, int rows)
{
	int at = l->n - l->skip;

	l->n += rows;
	return at >= 0 && at + rows <= room_left(l) ? 1 + at : -1;
}

bool tui_lines_too_far(const struct tui_lines *l, int *skip)
{
	int most = l->n > room_left(l) ? l->n - room_left(l) : 0;

	if (*skip <= most)
		return false;
	*skip = most;
	return true;
}

bool tui_lines_hidden(const struct tui_lines *l)
{
	return l->skip > 0 || l->n > room_left(l);
}
