/* What lies over the main screen or takes its place: help, one process, signals. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tui/format.h"
#include "tui/layout.h"

static const struct {
	const char *key, *what;
} help_lines[] = {
	{"Up Down PgUp PgDn", "choose a process (also the wheel, or a click)"},
	{"Home End, g G", "the first, the last"},
	{"j", "jobs in place of processes, and back (sort, filter, Enter work there too)"},
	{"Enter", "all of one process: history, environment (also a double click)"},
	{"< >  Left Right F6", "sort by the next column (or click on its title)"},
	{"S M C R T P U D", "sort by SM, GPU memory, CPU, RSS, time, pid, user, GPU"},
	{"r", "turn the order round"},
	{"/  F4", "filter: pid, user, command, container or job with this text in it"},
	{"u", "only my processes"},
	{"a", "all processes of the machine, or only those on GPUs"},
	{"t  F5", "as a tree"},
	{"Esc", "no filter: everything again"},
	{"o", "GPUs: worst first, or by index (click on one: only its processes)"},
	{"[ ]", "move through the GPUs when not all have room"},
	{"k  F9", "send a signal; asks before it does"},
	{"Space", "stand still, go on"},
	{"+ -", "the time between two readings"},
	{"q  F10", "quit"},
};
static const struct {
	const char *key, *what;
} replay_lines[] = {
	{"Left Right", "in a recording: a moment back, on"},
	{", .", "in a recording: sixty moments back, on"},
	{"Home End", "in a recording: the first, the last"},
};

void tui_draw_help(const struct tui_ui *ui, struct tui_screen *s)
{
	int y = 0, n = (int)GS_ARRAY_LEN(help_lines);

	tui_put(s, y, 0, s->columns, TUI_TITLE, "gpuscope top: keys");
	y += s->rows > 24 ? 2 : 1;
	for (int i = 0; ui->source->is_replay && i < (int)GS_ARRAY_LEN(replay_lines); i++, y++) {
		tui_put(s, y, 1, 20, TUI_KEY, replay_lines[i].key);
		tui_put(s, y, 22, s->columns - 22, TUI_PLAIN, replay_lines[i].what);
	}
	for (int i = 0; i < n; i++, y++) {
		tui_put(s, y, 1, 20, TUI_KEY, help_lines[i].key);
		tui_put(s, y, 22, s->columns - 22, TUI_PLAIN, help_lines[i].what);
	}
	y += s->rows > 24;
	if (y < s->rows - 3)
		tui_put(s, y++, 1, s->columns - 1, TUI_DIM,
			"SM%: share of the time in which the process had work on the GPU.  CPU%: "
			"of one "
			"processor.");
	if (y < s->rows - 2)
		tui_put(s, y++, 1, s->columns - 1, TUI_DIM,
			"\"-\" is a value that could not be had, not zero. Worst first: lost, "
			"broken, "
			"XID, throttled, hot, idle");
	if (y < s->rows - 1)
		tui_put(s, y, 1, s->columns - 1, TUI_DIM,
			"though held, a narrow PCIe link, power cap.");
	tui_put(s, s->rows - 1, 0, s->columns, TUI_DIM, "any key: back");
}

/* --- one process --- */

struct lines { /* as far as they fit under each other */
	struct tui_screen *s;
	int y, end, x, columns;
};

static void line(struct lines *l, const char *name, const char *fmt, ...) GS_PRINTF(3, 4);
static void line(struct lines *l, const char *name, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (l->y >= l->end || !text[0])
		return;
	tui_put(l->s, l->y, l->x, 12, TUI_DIM, name);
	tui_put(l->s, l->y++, l->x + 12, l->columns - 12, TUI_PLAIN, text);
}

static const char *state_words(char state)
{
	switch (state) {
	case 'R':
		return "running";
	case 'S':
		return "sleeping";
	case 'D':
		return "waiting for a device or disk, cannot be stopped";
	case 'T':
		return "stopped by a signal";
	case 't':
		return "stopped by a debugger";
	case 'Z':
		return "ended, its parent has not asked for its status";
	case 'I':
		return "idle kernel thread";
	default:
		return "?";
	}
}

static void draw_machine_side(const struct tui_ui *ui, struct lines *l, const struct tui_row *r)
{
	const struct gs_host_process *h = r->host;
	char a[TUI_NUMBER_BYTES], b[TUI_NUMBER_BYTES];

	line(l, "command", "%s", tui_row_command(r));
	line(l, "user", "%s", tui_row_user(r));
	line(l, "container", "%s",
	     h && h->container[0] ? h->container
	     : r->gpu             ? r->gpu->container
				  : "");
	if (!h) {
		line(l, "state", "%s",
		     r->gpu && r->gpu->ended ? "ended between two readings"
					     : "not visible on this machine: of another pid "
					       "namespace, or just ended");
		return;
	}
	line(l, "job", "%s", h->job);
	line(l, "state", "%c, %s", h->state, state_words(h->state));
	line(l, "parent", "%u", h->parent_pid);
	line(l, "threads", "%d", h->n_threads);
	line(l, "CPU", "%s%% of one processor, %s in all", tui_percent(a, h->cpu_ratio),
	     tui_duration(b, (double)h->cpu_ns));
	line(l, "RSS", "%s", tui_bytes(a, (double)h->rss_bytes));
	if (ui->node->time_ns >= h->start_ns)
		line(l, "running for", "%s",
		     tui_duration(a, (double)(ui->node->time_ns - h->start_ns)));
}

static void draw_gpu_side(const struct tui_ui *ui, struct lines *l, const struct tui_row *r)
{
	const struct gs_gpu_process *g = r->gpu;
	char a[TUI_NUMBER_BYTES], b[TUI_NUMBER_BYTES], c[TUI_NUMBER_BYTES], d[TUI_NUMBER_BYTES];
	char where[TUI_CELL_BYTES], type[TUI_CELL_BYTES];
	uint64_t key;
	int rows = 3;

	if (!g || g->gpu >= ui->node->gpu->n_gpus)
		return;
	tui_cell_text(ui->node, r, TUI_COL_GPU, where);
	tui_cell_text(ui->node, r, TUI_COL_TYPE, type);
	l->y++;
	line(l, "GPU", "%s  %s  %s", where, ui->node->gpu->info[g->gpu].name,
	     ui->node->gpu->info[g->gpu].uuid);
	line(l, "GPU memory", "%s of %s   type %s", tui_bytes(a, (double)g->used_bytes),
	     tui_bytes(b, r->device_bytes > 0 ? r->device_bytes : NAN), type);
	line(l, "shares", "SM %s%%  memory %s%%  encoder %s%%  decoder %s%%",
	     tui_percent(a, g->sm_ratio), tui_percent(b, g->mem_ratio),
	     tui_percent(c, g->enc_ratio), tui_percent(d, g->dec_ratio));
	key = tui_key_of_process(r->pid, r->host ? r->host->start_ns : 0, g->gpu);
	if (l->end - l->y >= rows) {
		static const char *const names[] = {"SM", "memory", "CPU"};
		const struct tui_series *series = tui_history_get(&ui->history, key);
		int each = (l->columns - 2) / 3;

		for (int k = 0; k < 3; k++) {
			float values[TUI_HISTORY_LEN];
			int n = tui_graph_values(l->s, each - 2), x = l->x + k * (each + 1);

			if (n > TUI_HISTORY_LEN)
				n = TUI_HISTORY_LEN;
			tui_history_read(&ui->history, series, (unsigned)k, values, n);
			for (int i = 0; i < rows; i++)
				tui_put_char(l->s, l->y + i, x, TUI_DIM,
					     l->s->ascii ? '|' : 0x2502);
			tui_graph(l->s, l->y, x + 1, rows, each - 2, values, n,
				  k == 0 ? TUI_GRAPH : TUI_GRAPH_2);
			tui_put(l->s, l->y, x + 1, each - 2, TUI_DIM, names[k]);
		}
		l->y += rows;
	}
}

void tui_draw_detail(struct tui_ui *ui, struct tui_screen *s)
{
	struct lines l = {s, 1, s->rows - 1, 1, s->columns - 1};
	const struct tui_row *first = NULL;
	const char *p = ui->environment.data ? (const char *)ui->environment.data : "";
	int skip = ui->detail_top;

	for (int i = 0; i < ui->table.n_rows && !first; i++)
		if (ui->table.rows[i].pid == ui->detail_pid)
			first = &ui->table.rows[i];
	tui_putf(s, 0, 0, s->columns, TUI_TITLE, "Process %u", ui->detail_pid);
	tui_put(s, s->rows - 1, 0, s->columns, TUI_DIM,
		ui->options.read_only || ui->source->is_replay
			? "Esc: back   Up Down: its environment"
			: "Esc: back   F9: signal   Up Down: its environment");
	if (!first) {
		tui_put(s, 2, 1, s->columns - 1, TUI_WARN, "It has ended.");
		return;
	}
	draw_machine_side(ui, &l, first);
	for (int i = 0; i < ui->table.n_rows; i++)
		if (ui->table.rows[i].pid == ui->detail_pid)
			draw_gpu_side(ui, &l, &ui->table.rows[i]);
	l.y++;
	if (l.y < l.end)
		tui_put(s, l.y++, l.x, l.columns, TUI_DIM, "environment");
	while (*p) {
		const char *end = strchr(p, '\n');
		int n = end ? (int)(end - p) : (int)strlen(p);

		if (skip > 0)
			skip--;
		else if (l.y < l.end)
			tui_putf(s, l.y++, l.x + 2, l.columns - 2, TUI_PLAIN, "%.*s", n, p);
		p += n + (end != NULL);
	}
}

/* --- signals --- */

void tui_draw_signals(const struct tui_ui *ui, struct tui_screen *s)
{
	int rows = tui_n_signals + 3, columns = 46, y, x;

	if (rows > s->rows)
		rows = s->rows;
	if (columns > s->columns)
		columns = s->columns;
	y = (s->rows - rows) / 2;
	x = (s->columns - columns) / 2;
	s->n_hits = 0;
	tui_clear(s, y, x, rows, columns);
	for (int i = 0; i < rows; i++) {
		tui_put_char(s, y + i, x, TUI_KEY, s->ascii ? '|' : 0x2502);
		tui_put_char(s, y + i, x + columns - 1, TUI_KEY, s->ascii ? '|' : 0x2502);
	}
	x += 2;
	columns -= 3;
	if (ui->mode == TUI_CONFIRM) {
		const struct tui_signal *sig = &tui_signals[ui->signal_at];
		int at = y + (rows > 4 ? rows / 2 - 2 : 0);

		tui_putf(s, at, x, columns, TUI_BOLD, "Send %s to %u (%s)?", sig->name,
			 ui->signal_pid, ui->signal_name);
		tui_putf(s, at + 1, x, columns, TUI_PLAIN, "%s", sig->what);
		tui_put(s, at + (rows > 4 ? 3 : 2), x, columns, TUI_WARN, "y: yes    n, Esc: no");
		return;
	}
	tui_putf(s, y, x, columns, TUI_BOLD, "Signal to %u (%s)", ui->signal_pid, ui->signal_name);
	for (int i = 0; i < tui_n_signals && i + 1 < rows - 1; i++) {
		int first = ui->signal_at > rows - 3 ? ui->signal_at - (rows - 3) : 0,
		    k = first + i;

		if (k >= tui_n_signals)
			break;
		tui_putf(s, y + 1 + i, x, columns, TUI_PLAIN, " %-8s %2d  %s", tui_signals[k].name,
			 tui_signals[k].number, tui_signals[k].what);
		if (k == ui->signal_at)
			tui_restyle(s, y + 1 + i, x, columns - 1, TUI_SELECTED);
	}
	tui_put(s, y + rows - 1, x, columns, TUI_DIM, "Enter: choose    Esc: none");
}
