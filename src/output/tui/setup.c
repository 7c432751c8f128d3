/*
 * The setup screen (F2): the theme, and which columns the two tables have. What is chosen holds at
 * once; when the screen is left, the command that runs top is given it to keep (options.save).
 *
 * Columns are named by their titles, with commas between them, so that a kept choice outlives a
 * change of the tables: a title that is not there any more is passed over. The column with the
 * command, and a job's id and name, are always shown.
 */
#include "output/tui/setup.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

static const char *const theme_names[] = {"dark", "light", "mono"};

struct setup_item { /* of the screen, one a line */
	const char *title;
	uint32_t *hidden; /* its table's columns; NULL: the theme */
	uint32_t bit;
};

#define ITEMS_MAX (1 + TUI_N_COLUMNS + TUI_JOB_N_COLUMNS)
_Static_assert(TUI_N_COLUMNS <= 32 && TUI_JOB_N_COLUMNS <= 32, "a bit for each column");

static int setup_list_items(struct tui_ui *ui, struct setup_item items[ITEMS_MAX])
{
	int n = 0;

	items[n++] = (struct setup_item){"theme", NULL, 0};
	for (unsigned c = 0; c < TUI_N_COLUMNS; c++)
		if (c != TUI_COL_COMMAND)
			items[n++] = (struct setup_item){tui_column_title((enum tui_column)c),
							 &ui->table.hidden, 1u << c};
	for (unsigned c = 0; c < TUI_JOB_N_COLUMNS; c++)
		if (c != TUI_JOB_ID && c != TUI_JOB_NAME)
			items[n++] = (struct setup_item){tui_job_title((enum tui_job_column)c),
							 &ui->jobs.hidden, 1u << c};
	return n;
}

static bool setup_has_title(const char *list, const char *title)
{
	size_t n = strlen(title);

	for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
		if (strcspn(p, ",") == n && memcmp(p, title, n) == 0)
			return true;
	return false;
}

void tui_setup_init(struct tui_ui *ui)
{
	struct setup_item items[ITEMS_MAX];
	int n = setup_list_items(ui, items);

	for (int i = 0; i < n; i++)
		if (items[i].hidden &&
		    setup_has_title(items[i].hidden == &ui->table.hidden ? ui->options.hidden
									 : ui->options.hidden_jobs,
				    items[i].title))
			*items[i].hidden |= items[i].bit;
}

/* The titles of the hidden columns of one table. */
static void setup_put_titles(const struct setup_item *items, int n, const uint32_t *table,
			     char out[GS_TUI_TITLES_BYTES])
{
	size_t at = 0;

	out[0] = '\0';
	for (int i = 0; i < n; i++)
		if (items[i].hidden == table && *table & items[i].bit &&
		    at + strlen(items[i].title) + 2 < GS_TUI_TITLES_BYTES)
			at += (size_t)snprintf(out + at, GS_TUI_TITLES_BYTES - at, "%s%s",
					       at ? "," : "", items[i].title);
}

struct tui_asked tui_setup_key(struct tui_ui *ui, int key)
{
	struct setup_item items[ITEMS_MAX];
	int n = setup_list_items(ui, items);
	const struct setup_item *item = &items[ui->setup_at];

	switch (key) {
	case TUI_KEY_UP:
		ui->setup_at = (ui->setup_at + n - 1) % n;
		break;
	case TUI_KEY_DOWN:
		ui->setup_at = (ui->setup_at + 1) % n;
		break;
	case ' ':
	case TUI_KEY_ENTER:
		if (item->hidden) {
			*item->hidden ^= item->bit;
			break;
		}
		ui->options.theme =
			(enum gs_tui_theme)((ui->options.theme + 1) % GS_ARRAY_LEN(theme_names));
		return (struct tui_asked){TUI_ASK_THEME, ui->options.theme};
	case TUI_KEY_ESCAPE:
	case TUI_KEY_F(2):
	case 'q':
		ui->mode = TUI_MAIN;
		setup_put_titles(items, n, &ui->table.hidden, ui->options.hidden);
		setup_put_titles(items, n, &ui->jobs.hidden, ui->options.hidden_jobs);
		return (struct tui_asked){TUI_ASK_SAVE, 0};
	default:
		break;
	}
	return (struct tui_asked){TUI_ASK_NOTHING, 0};
}

/* The screen's row of line i of the list, which scrolls so that the chosen one is seen; -1: none. */
static int setup_row_of(const struct tui_screen *s, int i, int chosen)
{
	int room = s->rows - 2, top = room > 0 && chosen >= room ? chosen - room + 1 : 0;

	return i >= top && i - top < room ? 1 + i - top : -1;
}

void tui_setup_draw(struct tui_ui *ui, struct tui_screen *s)
{
	struct setup_item items[ITEMS_MAX];
	int n = setup_list_items(ui, items), line = 0, at[ITEMS_MAX];
	const uint32_t *table = NULL;

	/* A line of its own before the columns of each table. */
	for (int i = 0; i < n; i++) {
		line += items[i].hidden != table;
		table = items[i].hidden;
		at[i] = line++;
	}
	tui_put(s, 0, 0, s->columns, TUI_TITLE, "gpuscope top: setup");
	table = NULL;
	for (int i = 0; i < n; i++) {
		int y = setup_row_of(s, at[i], at[ui->setup_at]);

		if (items[i].hidden != table) {
			int above = setup_row_of(s, at[i] - 1, at[ui->setup_at]);

			table = items[i].hidden;
			if (above >= 0)
				tui_put(s, above, 1, s->columns - 1, TUI_KEY,
					table == &ui->table.hidden ? "columns of processes"
								   : "columns of jobs");
		}
		if (y < 0)
			continue;
		if (table)
			tui_putf(s, y, 3, s->columns - 3, TUI_PLAIN, "[%c] %s",
				 *table & items[i].bit ? ' ' : 'x', items[i].title);
		else
			tui_putf(s, y, 3, s->columns - 3, TUI_PLAIN, "theme: %s",
				 theme_names[ui->options.theme]);
		if (i == ui->setup_at)
			tui_restyle(s, y, 2, 24, TUI_SELECTED);
	}
	tui_put(s, s->rows - 1, 0, s->columns, TUI_DIM,
		"Up Down: choose   Space: change   Esc: back, and keep it");
}
