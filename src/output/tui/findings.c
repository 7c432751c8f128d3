/* Findings on the screen: some lines below the machine, and a screen of their own with all that is known. */
#include <stdio.h>
#include <string.h>

#include "output/screen/format.h"
#include "output/screen/lines.h"
#include "output/tui/layout.h"

#define NAME_COLUMNS 9

void tui_note_findings(struct tui_ui *ui)
{
	const struct gs_tui_source *s = ui->source;

	ui->n_findings = s->findings ? s->findings(s->findings_ctx, ui->node->time_ns, ui->findings,
						   GS_TUI_FINDINGS_MAX)
				     : 0;
}

/* In as many lines as it needs, of most; s NULL: only counted. How many. */
static int put_words(struct tui_screen *s, int y, int columns, int most, const char *text)
{
	int n = 0;

	do {
		size_t bytes = n + 1 < most ? tui_words_within(text, columns) : strlen(text);

		if (s)
			tui_putf(s, y + n, 0, columns, TUI_WARN, "%.*s", (int)bytes, text);
		text += bytes;
		text += strspn(text, " ");
		n++;
	} while (*text && n < most);
	return n;
}

/* On paper there are no keys: all of each, however long. */
static int put_all(const struct tui_ui *ui, struct tui_screen *s, int y, int columns)
{
	char text[sizeof(struct gs_tui_finding) + 16];
	int n = 0;

	for (size_t i = 0; i < ui->n_findings; i++) {
		const struct gs_tui_finding *f = &ui->findings[i];

		snprintf(text, sizeof(text), "since %s: %s; %s%s%s", f->since, f->text, f->cause,
			 f->advice[0] ? "; " : "", f->advice);
		n += put_words(s, y + n, columns, INT32_MAX, text);
	}
	return n;
}

int tui_put_findings(const struct tui_ui *ui, struct tui_screen *s, int y, int columns, int most)
{
	const struct gs_tui_finding *f = &ui->findings[0];
	char text[sizeof(f->since) + sizeof(f->text) + 64], more[24] = "";

	if (!ui->n_findings || most < 1)
		return 0;
	if (ui->print_all)
		return put_all(ui, s, y, columns);
	if (ui->n_findings > 1)
		snprintf(more, sizeof(more), " (1 of %zu)", ui->n_findings);
	/* The key first: it is what is left where there is no room for the rest. */
	snprintf(text, sizeof(text), "f: why%s  since %s: %s", more, f->since, f->text);
	return put_words(s, y, columns, most, text);
}

#define CAUSE "cause: "
#define SEE   "; see: "

/* The text of a cause begins with its name and ends with the command that shows it, for a line of its own. */
static void put_one(struct tui_lines *l, const struct gs_tui_finding *f)
{
	bool is_named = strncmp(f->cause, CAUSE, strlen(CAUSE)) == 0;
	const char *cause = f->cause + (is_named ? strlen(CAUSE) : 0);
	const char *see = strstr(cause, SEE), *command = see ? see + strlen(SEE) : "";

	tui_line_text(l, TUI_WARN, f->text);
	tui_line(l, "  since", "%s", f->since);
	tui_line(l, "  cause", "%.*s", see ? (int)(see - cause) : (int)strlen(cause), cause);
	tui_line(l, "  do", "%s", f->advice);
	/* That is this program. */
	tui_line(l, "  see", "%s", strcmp(command, "gpuscope top") == 0 ? "" : command);
	tui_lines_gap(l);
}

void tui_draw_findings(struct tui_ui *ui, struct tui_screen *s)
{
	struct tui_lines l;

	do {
		tui_clear(s, 0, 0, s->rows, s->columns);
		tui_put(s, 0, 0, s->columns, TUI_TITLE, "gpuscope top: findings that hold");
		tui_lines_begin(&l, s, NAME_COLUMNS, ui->detail_top);
		l.style = TUI_KEY;
		if (!ui->n_findings)
			tui_line_text(&l, TUI_DIM, "None holds.");
		for (size_t i = 0; i < ui->n_findings; i++)
			put_one(&l, &ui->findings[i]);
	} while (tui_lines_too_far(&l, &ui->detail_top));
	tui_put(s, s->rows - 1, 0, s->columns, TUI_DIM,
		tui_lines_hidden(&l) ? "Up Down: more   any other key: back" : "any key: back");
}
