/* What lies over the main screen or takes its place: help, one process, signals. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "output/screen/format.h"
#include "output/tui/layout.h"
#include "output/screen/lines.h"

#define WIDE            110 /* columns; what matters less has room */
#define ROWS_OF_PROCESS 64  /* GPUs that one process is on */

static const struct {
	const char *key, *what;
} help_lines[] = {
	{"Up Down PgUp PgDn", "choose a process (also the wheel, or a click)"},
	{"Home End, g G", "first, last process"},
	{"j", "switch between processes and jobs"},
	{"Enter", "details of one process or job (also a double click)"},
	{"< >  Left Right F6", "sort by the next column (or click on its title)"},
	{"S M C R T P U D", "sort by SM, GPU memory, CPU, RSS, CPU time, pid, user, GPU"},
	{"r", "reverse the order"},
	{"/  F4", "filter: a text in pid, user, command, container or job"},
	{"u", "only my processes"},
	{"a", "all processes of the machine, or only those on GPUs"},
	{"t  F5", "tree view"},
	{"Esc", "clear the filter"},
	{"F2", "setup: theme and columns, saved for next time"},
	{"o", "GPUs: worst first, or by index (click: its processes)"},
	{"[ ]", "scroll the GPUs"},
	{"k  F9", "send a signal (asks first)"},
	{"Space", "pause, resume"},
	{"+ -", "change the time between two readings"},
	{"q  F10", "quit"},
};
static const struct {
	const char *key, *what;
} replay_lines[] = {
	{"Left Right", "in a recording: one sample back, forward"},
	{", .", "in a recording: sixty samples back, forward"},
	{"Home End", "in a recording: the first, the last sample"},
};

static void put_help(const struct tui_ui *ui, struct tui_lines *l)
{
	for (size_t i = 0; ui->source->is_replay && i < GS_ARRAY_LEN(replay_lines); i++)
		tui_line(l, replay_lines[i].key, "%s", replay_lines[i].what);
	for (size_t i = 0; i < GS_ARRAY_LEN(help_lines); i++)
		tui_line(l, help_lines[i].key, "%s", help_lines[i].what);
	if (ui->source->findings)
		tui_line(l, "f", "findings that hold, why, and what to do");
	if (l->s->rows > 24)
		tui_lines_gap(l);
	tui_line_text(
		l, TUI_DIM,
		"SM%: share of the time in which the process had work on the GPU. CPU%: of one processor. \"-\" is a value that is not available, not zero. Worst first: lost, broken, XID, memory, throttled, hot, narrow PCIe link, idle though held.");
}

void tui_draw_help(struct tui_ui *ui, struct tui_screen *s)
{
	struct tui_lines l;

	do {
		tui_clear(s, 0, 0, s->rows, s->columns);
		tui_put(s, 0, 0, s->columns, TUI_TITLE, "gpuscope top: keys");
		tui_lines_begin(&l, s, 21, ui->detail_top);
		l.style = TUI_KEY;
		put_help(ui, &l);
	} while (tui_lines_too_far(&l, &ui->detail_top));
	tui_put(s, s->rows - 1, 0, s->columns, TUI_DIM,
		tui_lines_hidden(&l) ? "Up Down: more   any other key: back" : "any key: back");
}

/* --- one process --- */

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
		return "zombie: ended, but its parent has not read its status";
	case 'I':
		return "idle kernel thread";
	default:
		return "?";
	}
}

static void draw_machine_side(const struct tui_ui *ui, struct tui_lines *l, const struct tui_row *r)
{
	const struct gs_host_process *h = r->host;
	char a[TUI_NUMBER_BYTES], b[TUI_NUMBER_BYTES];
	const struct gs_job_process *p;

	tui_line(l, "command", "%s", tui_row_command(r));
	tui_line(l, "user", "%s", tui_row_user(r));
	tui_line(l, "container", "%s",
		 h && h->container[0] ? h->container
		 : r->gpu             ? r->gpu->container
				      : "");
	if (!h) {
		tui_line(
			l, "state", "%s",
			r->gpu && r->gpu->ended
				? "ended between two readings"
				: "not visible on this machine: of another pid namespace, or just ended");
		return;
	}
	tui_line(l, "job", "%s", h->job);
	tui_line(l, "state", "%c, %s", h->state, state_words(h->state));
	tui_line(l, "parent", "%u", h->parent_pid);
	tui_line(l, "threads", "%d", h->n_threads);
	tui_line(l, "CPU", "%s%% of one processor, %s in all", tui_percent(a, h->cpu_ratio),
		 tui_duration(b, (double)h->cpu_ns));
	tui_line(l, "RSS", "%s", tui_bytes(a, (double)h->rss_bytes));
	if (ui->node->time_ns >= h->start_ns)
		tui_line(l, "running for", "%s",
			 tui_duration(a, (double)(ui->node->time_ns - h->start_ns)));
	p = gs_node_process_times(ui->node, h);
	if (p)
		tui_draw_parts(l, p->part_ns);
}

static void draw_graphs(const struct tui_ui *ui, struct tui_screen *s, int y, int rows,
			const struct tui_row *r)
{
	static const char *const names[] = {"SM", "memory", "CPU"};
	uint64_t key = tui_key_of_process(r->pid, r->host ? r->host->start_ns : 0, r->gpu->gpu);
	const struct tui_series *series = tui_history_get(&ui->history, key);
	int each = (s->columns - 3) / 3;

	for (int k = 0; k < 3; k++) {
		float values[TUI_HISTORY_LEN];
		int n = tui_graph_values(s, each - 2), x = 1 + k * (each + 1);

		if (n > TUI_HISTORY_LEN)
			n = TUI_HISTORY_LEN;
		tui_history_read(&ui->history, series, (unsigned)k, values, n);
		for (int i = 0; i < rows; i++)
			tui_put_char(s, y + i, x, TUI_DIM, s->ascii ? '|' : 0x2502);
		tui_graph(s, y, x + 1, rows, each - 2, values, n, k == 0 ? TUI_GRAPH : TUI_GRAPH_2);
		tui_put(s, y, x + 1, each - 2, TUI_DIM, names[k]);
	}
}

static void draw_gpu_side(const struct tui_ui *ui, struct tui_lines *l, const struct tui_row *r)
{
	const struct gs_gpu_process *g = r->gpu;
	char a[TUI_NUMBER_BYTES], b[TUI_NUMBER_BYTES], c[TUI_NUMBER_BYTES], d[TUI_NUMBER_BYTES];
	char where[TUI_CELL_BYTES], type[TUI_CELL_BYTES];
	const int rows = 3;
	int y;

	if (!g || g->gpu >= ui->node->gpu->n_gpus)
		return;
	tui_cell_text(ui->node, r, TUI_COL_GPU, where);
	tui_cell_text(ui->node, r, TUI_COL_TYPE, type);
	tui_lines_gap(l);
	tui_line(l, "GPU", "%s  %s  %s%s", where, ui->node->gpu->info[g->gpu].name,
		 ui->node->gpu->info[g->gpu].uuid,
		 ui->node->gpu->sample[g->gpu].lost ? "  LOST: it does not answer any more" : "");
	tui_line(l, "GPU memory", "%s of %s   type %s", tui_bytes(a, (double)g->used_bytes),
		 tui_bytes(b, r->device_bytes > 0 ? r->device_bytes : NAN), type);
	tui_line(l, "shares", "SM %s%%  memory %s%%  encoder %s%%  decoder %s%%",
		 tui_percent(a, g->sm_ratio), tui_percent(b, g->mem_ratio),
		 tui_percent(c, g->enc_ratio), tui_percent(d, g->dec_ratio));
	y = tui_lines_block(l, rows);
	if (y >= 0)
		draw_graphs(ui, l->s, y, rows, r);
}

/* "to 10.0.0.2:29500", "from 10.0.0.9 to port 8080": who connected comes first. */
static const char *name_peer(const struct gs_traffic_peer *p, char *out, size_t bytes)
{
	const char *address = p->address[0] ? p->address : "others";
	bool is_ipv6 = strchr(address, ':') != NULL;

	if (p->accepted)
		snprintf(out, bytes, "from %s to port %u", address, p->port);
	else
		snprintf(out, bytes, "to %s%s%s:%u", is_ipv6 ? "[" : "", address,
			 is_ipv6 ? "]" : "", p->port);
	return out;
}

/* In which time half of the answers began. "": there was none. */
static const char *write_answer_time(const struct gs_traffic_sums *sums, char *out, size_t bytes)
{
	double s = gs_traffic_quantile(sums, 0.5);

	if (isnan(s))
		out[0] = '\0';
	else if (s < 0.001)
		snprintf(out, bytes, ", half in %.0f us", s * 1e6);
	else
		snprintf(out, bytes, ", half in %.3g %s", s < 1 ? s * 1e3 : s, s < 1 ? "ms" : "s");
	return out;
}

static void draw_peer(struct tui_lines *l, const struct gs_traffic_peer *p)
{
	const struct gs_traffic_sums *s = &p->sums;
	char in[TUI_NUMBER_BYTES], out[TUI_NUMBER_BYTES], name[96], answer[64], text[320];
	char more[96] = "";

	if (l->s->columns >= WIDE)
		snprintf(more, sizeof(more), ", %lld open", (long long)s->open);
	snprintf(text, sizeof(text), "  %-28s in %5s  out %5s  %llu requests%s%s%s",
		 name_peer(p, name, sizeof(name)), tui_bytes(in, (double)s->received_bytes),
		 tui_bytes(out, (double)s->sent_bytes), (unsigned long long)s->requests,
		 write_answer_time(s, answer, sizeof(answer)), more,
		 s->failed ? ", some connections failed" : "");
	tui_line_text(l, TUI_PLAIN, text);
}

static void draw_traffic(const struct tui_ui *ui, struct tui_lines *l)
{
	const struct gs_tui_traffic *t = &ui->traffic;
	char text[64];

	if (!ui->traffic_pid)
		return;
	tui_lines_gap(l);
	tui_line_text(l, TUI_DIM, "TCP by peer, since this screen was opened");
	if (!ui->has_traffic) {
		tui_line_text(l, TUI_DIM, "  not counted yet");
		return;
	}
	for (size_t i = 0; i < t->n_peers && i < GS_TUI_PEERS_MAX; i++)
		draw_peer(l, &t->peers[i]);
	if (t->n_peers > GS_TUI_PEERS_MAX) {
		snprintf(text, sizeof(text), "  and %zu more peers", t->n_peers - GS_TUI_PEERS_MAX);
		tui_line_text(l, TUI_DIM, text);
	}
	if (t->why[0])
		tui_line_text(l, TUI_WARN, t->why);
	else if (!t->n_peers)
		tui_line_text(l, TUI_DIM, "  none");
}

static void draw_process(const struct tui_ui *ui, struct tui_lines *l)
{
	const char *p = ui->environment.data ? (const char *)ui->environment.data : "";
	struct tui_row rows[ROWS_OF_PROCESS];
	int n = tui_rows_of_process(ui->node, ui->detail_pid, ui->detail_start_ns, rows,
				    ROWS_OF_PROCESS);

	if (!n) {
		/* Only where all are read it is known that there is none. */
		tui_line_text(l, TUI_WARN,
			      ui->table.all ? "It has ended."
					    : "It has ended, or is on no GPU any more.");
		return;
	}
	draw_machine_side(ui, l, &rows[0]);
	for (int i = 0; i < n; i++)
		draw_gpu_side(ui, l, &rows[i]);
	if (rows[0].gpu && rows[0].host)
		tui_line(l, "calls", "not timed here, see gpuscope trace -p %u", rows[0].pid);
	draw_traffic(ui, l);
	tui_lines_gap(l);
	tui_line_text(l, TUI_DIM, "environment");
	while (*p) {
		int bytes = (int)strcspn(p, "\n");
		char text[1100];

		snprintf(text, sizeof(text), "  %.*s", bytes, p);
		tui_line_text(l, TUI_PLAIN, text);
		p += bytes + (p[bytes] == '\n');
	}
}

void tui_draw_detail(struct tui_ui *ui, struct tui_screen *s)
{
	const char *signal = ui->options.read_only || ui->source->is_replay ? "" : "   F9: signal";
	struct tui_lines l;

	do {
		tui_clear(s, 0, 0, s->rows, s->columns);
		tui_putf(s, 0, 0, s->columns, TUI_TITLE, "Process %u", ui->detail_pid);
		tui_lines_begin(&l, s, 12, ui->detail_top);
		draw_process(ui, &l);
	} while (tui_lines_too_far(&l, &ui->detail_top));
	tui_putf(s, s->rows - 1, 0, s->columns, TUI_DIM, "Esc: back%s%s", signal,
		 tui_lines_hidden(&l) ? "   Up Down: more" : "");
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
