#include "output/screen/columns.h"

#include <string.h>

void tui_columns_head(struct tui_screen *s, int y, const struct tui_shape *columns, int n,
		      const bool *shown, int sort)
{
	int x = 0;

	tui_restyle(s, y, 0, s->columns, TUI_HEAD);
	for (int c = 0; c < n; c++) {
		int width = columns[c].width ? columns[c].width : s->columns - x;
		enum tui_style style = sort == c ? TUI_HEAD_SORT : TUI_HEAD;

		if (!shown[c])
			continue;
		if (sort == c)
			tui_restyle(s, y, x,
				    columns[c].width ? width : (int)strlen(columns[c].title),
				    style);
		if (columns[c].right)
			tui_put_right(s, y, x, width, style, columns[c].title);
		else
			tui_put(s, y, x, width, style, columns[c].title);
		tui_hit(s, y, x, width, TUI_HIT_COLUMN, c);
		x += width + 1;
	}
}

int tui_columns_top(int top, int selected, int n_rows, int lines)
{
	if (selected >= 0 && selected < top)
		top = selected;
	if (lines > 0 && selected >= top + lines)
		top = selected - lines + 1;
	if (top > n_rows - lines)
		top = n_rows - lines;
	return top < 0 ? 0 : top;
}
