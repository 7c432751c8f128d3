/* Meters and graphs. */
#include <math.h>
#include <string.h>

#include "output/screen/screen.h"

enum tui_style tui_style_of(double ratio, double warn, double bad)
{
	if (!(ratio >= 0))
		return TUI_PLAIN;
	return ratio >= bad ? TUI_BAD : ratio >= warn ? TUI_WARN : TUI_GOOD;
}

void tui_meter(struct tui_screen *s, int y, int x, int columns, double ratio, enum tui_style style,
	       const char *text)
{
	int inside = columns - 2, n_text = tui_columns_of(text), filled;

	if (inside < 1)
		return;
	if (n_text > inside) {
		tui_put(s, y, x, columns, TUI_PLAIN, text);
		return;
	}
	tui_put_char(s, y, x, TUI_DIM, '[');
	tui_put_char(s, y, x + columns - 1, TUI_DIM, ']');
	filled = ratio > 0 ? (int)lround((ratio < 1 ? ratio : 1) * inside) : 0;
	for (int i = 0; i < inside; i++)
		tui_put_char(s, y, x + 1 + i, style, i < filled ? '|' : ' ');
	tui_put_right(s, y, x + 1, inside, style == TUI_PLAIN ? TUI_PLAIN : TUI_BOLD, text);
}

int tui_graph_values(const struct tui_screen *s, int columns)
{
	return s->ascii ? columns : columns * 2;
}

/* Height of a value in steps, 0: not there. */
static int steps_of(float v, int most)
{
	int n;

	if (!(v >= 0))
		return 0;
	n = (int)lroundf((v < 1 ? v : 1) * (float)most);
	return n < 1 ? 1 : n;
}

static void graph_ascii(struct tui_screen *s, int y, int x, int rows, int columns,
			const float *values, int n, enum tui_style style)
{
	static const char part[] = {' ', '.', ':', '|'};

	for (int c = 0; c < columns; c++) {
		int i = n - columns + c, high = i >= 0 ? steps_of(values[i], rows * 3) : 0;

		for (int r = 0; r < rows; r++) {
			int left = high - (rows - 1 - r) * 3;

			tui_put_char(s, y + r, x + c, style,
				     (uint32_t)part[left < 0   ? 0
						    : left > 3 ? 3
							       : left]);
		}
	}
}

void tui_graph(struct tui_screen *s, int y, int x, int rows, int columns, const float *values,
	       int n, enum tui_style style)
{
	/* Dots of a braille cell from the bottom up: dots 7 3 2 1 left, 8 6 5 4 right (Unicode 4.0,
	 * block 2800). */
	static const uint8_t left_dots[4] = {0x40, 0x04, 0x02, 0x01};
	static const uint8_t right_dots[4] = {0x80, 0x20, 0x10, 0x08};

	if (rows < 1 || columns < 1)
		return;
	if (s->ascii) {
		graph_ascii(s, y, x, rows, columns, values, n, style);
		return;
	}
	for (int c = 0; c < columns; c++) {
		int i = n - columns * 2 + c * 2;
		int a = i >= 0 && i < n ? steps_of(values[i], rows * 4) : 0;
		int b = i + 1 >= 0 && i + 1 < n ? steps_of(values[i + 1], rows * 4) : 0;

		for (int r = 0; r < rows; r++) {
			int below = (rows - 1 - r) * 4;
			uint32_t dots = 0;

			for (int k = 0; k < 4; k++) {
				if (a > below + k)
					dots |= left_dots[k];
				if (b > below + k)
					dots |= right_dots[k];
			}
			tui_put_char(s, y + r, x + c, style, dots ? 0x2800 + dots : ' ');
		}
	}
}
