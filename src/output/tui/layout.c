#include "output/tui/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "output/screen/format.h"
#include "output/tui/input.h"
#include "output/tui/setup.h"

#define STATE_ROWS 3 /* for what is wrong with the driver, and for a finding, where there is room */

static void draw_title(const struct tui_ui *ui, struct tui_screen *s, int y)
{
	const struct gs_node_snapshot *n = ui->node;
	time_t at = n->wall_ns >= 0 ? (time_t)(n->wall_ns / 1000000000) : 0;
	char clock[32] = "", a[TUI_NUMBER_BYTES], right[128] = "";
	const char *driver = n->gpu->n_gpus ? n->gpu->info[0].driver_version : "";
	struct tm tm;
	int x;

	if (localtime_r(&at, &tm))
		strftime(clock, sizeof(clock),
			 ui->source->is_replay ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S", &tm);
	x = tui_put(s, y, 0, s->columns, TUI_TITLE, "gpuscope top");
	x += tui_putf(s, y, x, s->columns - x, TUI_BOLD, "  %s", n->name);
	x += tui_putf(s, y, x, s->columns - x, TUI_PLAIN, "  %s", clock);
	if (ui->source->title && ui->source->title[0] && s->columns - x > 30)
		x += tui_putf(s, y, x, s->columns - x - 24, TUI_DIM, "  %s", ui->source->title);
	if (driver[0] && s->columns - x > 50)
		x += tui_putf(s, y, x, s->columns - x, TUI_DIM, "  driver %s, CUDA %s", driver,
			      n->gpu->info[0].cuda_version[0] ? n->gpu->info[0].cuda_version : "-");
	if (ui->source->is_replay)
		snprintf(right, sizeof(right), "%s%zu/%zu",
			 ui->ended    ? "end "
			 : ui->paused ? "paused "
				      : "",
			 ui->position, ui->length);
	else if (ui->paused)
		snprintf(right, sizeof(right), "paused");
	else if (!ui->print_all)
		snprintf(right, sizeof(right), "every %s s",
			 (snprintf(a, sizeof(a), "%g", (double)ui->options.interval_ns / 1e9), a));
	if (tui_columns_of(right) + x + 1 < s->columns)
		tui_put_right(s, y, x, s->columns - x, ui->paused ? TUI_WARN : TUI_DIM, right);
}

static int put_pair(struct tui_screen *s, int y, int x, const char *name, const char *value)
{
	int n = tui_columns_of(name) + 1 + tui_columns_of(value);

	if (x + n > s->columns)
		return 0;
	tui_put(s, y, x, s->columns - x, TUI_DIM, name);
	tui_put(s, y, x + tui_columns_of(name) + 1, s->columns - x, TUI_PLAIN, value);
	return n + 2;
}

static void draw_machine(const struct tui_ui *ui, struct tui_screen *s, int y)
{
	const struct gs_host_sample *h = &ui->node->host->sample;
	char a[TUI_NUMBER_BYTES], b[TUI_NUMBER_BYTES], c[TUI_NUMBER_BYTES], text[96];
	int bar = s->columns >= 120  ? 24
		  : s->columns >= 60 ? s->columns / 5
				     : s->columns / 2 - 5,
	    x = 0;
	double mem = h->mem_total_bytes > 0 && h->mem_used_bytes >= 0
			     ? (double)h->mem_used_bytes / (double)h->mem_total_bytes
			     : NAN;

	x += tui_put(s, y, x, s->columns - x, TUI_DIM, "CPU");
	snprintf(text, sizeof(text), h->cpu_ratio >= 0 ? "%s%%" : "%s",
		 tui_percent(a, h->cpu_ratio));
	tui_meter(s, y, x, bar, h->cpu_ratio, tui_style_of(h->cpu_ratio, 0.8, 0.95), text);
	x += bar + 1;
	x += tui_put(s, y, x, s->columns - x, TUI_DIM, "Mem");
	snprintf(text, sizeof(text), "%s/%s", tui_bytes(a, (double)h->mem_used_bytes),
		 tui_bytes(b, (double)h->mem_total_bytes));
	tui_meter(s, y, x, bar, mem, tui_style_of(mem, 0.8, 0.95), text);
	x += bar + 1;
	if (h->load1 >= 0) {
		if (s->columns >= 100)
			snprintf(text, sizeof(text), "%.2f %.2f %.2f of %s", h->load1, h->load5,
				 h->load15, tui_number(a, h->n_cpus));
		else
			snprintf(text, sizeof(text), "%.1f/%s", h->load1, tui_number(a, h->n_cpus));
		x += put_pair(s, y, x, "load", text);
	}
	if (h->swap_used_bytes > 0)
		x += put_pair(s, y, x, "swap", tui_bytes(a, (double)h->swap_used_bytes));
	snprintf(text, sizeof(text), "%s/%s", tui_bytes(a, h->disk_read_bps),
		 tui_bytes(b, h->disk_write_bps));
	x += put_pair(s, y, x, "disk", text);
	snprintf(text, sizeof(text), "%s/%s", tui_bytes(a, h->net_rx_bps),
		 tui_bytes(b, h->net_tx_bps));
	x += put_pair(s, y, x, "net", text);
	if (h->iowait_ratio >= 0) {
		snprintf(text, sizeof(text), "%s%%", tui_percent(a, h->iowait_ratio));
		x += put_pair(s, y, x, "iowait", text);
	}
	if (h->n_tasks >= 0) {
		snprintf(text, sizeof(text), "%s, %s running", tui_number(a, h->n_tasks),
			 tui_number(c, h->n_running));
		put_pair(s, y, x, "threads", text);
	}
}

/* What was not had; false: nothing. */
static bool losses_text(const struct gs_gpu_snapshot *g, char *out, size_t bytes)
{
	const struct {
		uint64_t n;
		const char *what;
	} losses[] = {{g->missed_samples, "samples missed"},
		      {g->lost_events, "events lost"},
		      {g->failed_calls, "calls of the driver failed"}};
	size_t n = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(losses) && n < bytes; i++)
		if (losses[i].n)
			n += (size_t)snprintf(out + n, bytes - n, "%s%llu %s", n ? ", " : "so far ",
					      (unsigned long long)losses[i].n, losses[i].what);
	return n > 0;
}

/* What is wrong with the whole of it; false: nothing. */
static bool state_text(const struct tui_ui *ui, char *out, size_t bytes)
{
	const struct gs_gpu_snapshot *g = ui->node->gpu;

	if (g->state != GS_GPU_STATE_OK)
		snprintf(out, bytes, "GPUs: %s",
			 g->state_text[0] ? g->state_text : gs_gpu_state_name(g->state));
	else if (!g->n_gpus)
		snprintf(out, bytes, "GPUs: none");
	else
		return losses_text(g, out, bytes);
	return true;
}

/* Written in as many lines as it needs, of most; s NULL: only counted. How many. */
static int put_state(const struct tui_ui *ui, struct tui_screen *s, int y, int columns, int most)
{
	char text[320];
	const char *p = text;
	int n = 0;

	if (!state_text(ui, text, sizeof(text)))
		return 0;
	do {
		size_t bytes = n + 1 < most ? tui_words_within(p, columns) : strlen(p);

		if (s)
			tui_putf(s, y + n, 0, columns, TUI_WARN, "%.*s", (int)bytes, p);
		p += bytes;
		p += strspn(p, " ");
		n++;
	} while (*p && n < most);
	return n;
}

static bool event_text(const struct tui_ui *ui, char *out, size_t bytes)
{
	const struct tui_xid *x;
	char n[TUI_NUMBER_BYTES];

	if (!ui->n_xids)
		return false;
	x = &ui->xids[(ui->n_xids - 1) % TUI_N_XIDS];
	if (ui->node->time_ns < x->time_ns || ui->node->time_ns - x->time_ns > 600000000000ull)
		return false;
	tui_duration(n, (double)(ui->node->time_ns - x->time_ns));
	if (x->xid)
		snprintf(out, bytes, "XID %u on %s %s ago: %s", x->xid, x->pci_bus_id, n, x->text);
	else
		snprintf(out, bytes, "%s %s ago: %s", x->pci_bus_id, n, x->text);
	return true;
}

/* The whole reason of the worst GPU, and how many others have it; false: nothing is wrong. */
static bool put_worst(const struct tui_ui *ui, struct tui_screen *s, int y)
{
	uint32_t worst = 0, n = 0, n_gpus = ui->node->gpu->n_gpus;
	char number[GS_GPU_NUMBER_BYTES], more[24] = "";
	const struct tui_health *h = ui->health;

	for (uint32_t i = 0; i < n_gpus; i++)
		worst = h[i].level > h[worst].level ? i : worst;
	for (uint32_t i = 0; i < n_gpus; i++)
		n += h[i].level == h[worst].level;
	if (!n || !h[worst].level)
		return false;
	if (n > 1)
		snprintf(more, sizeof(more), " and %u more", n - 1);
	tui_putf(s, y, 0, s->columns, h[worst].style, "GPU %s%s: %s",
		 gs_gpu_number(number, &ui->node->gpu->info[worst]), more, h[worst].text);
	return true;
}

static void draw_status(const struct tui_ui *ui, struct tui_screen *s, int y)
{
	const struct tui_table *t = &ui->table;
	char text[512];
	int n = 0;

	if (ui->mode == TUI_FILTER) {
		int x = tui_putf(s, y, 0, s->columns, TUI_BOLD, "Filter: %s", t->filter);

		tui_put(s, y, x, s->columns - x, TUI_SELECTED, " ");
		tui_put(s, y, x + 3, s->columns - x - 3, TUI_DIM, "Enter keeps it, Esc drops it");
		return;
	}
	if (ui->message[0]) {
		tui_put(s, y, 0, s->columns, ui->message_style, ui->message);
		return;
	}
	text[0] = '\0';
	if (t->gpu >= 0 && t->gpu < (int)ui->node->gpu->n_gpus)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "only GPU %u%s%s  ",
			      ui->node->gpu->info[t->gpu].index,
			      ui->health[t->gpu].level ? ": " : "", ui->health[t->gpu].text);
	if (t->mine)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "only mine  ");
	if (t->filter[0])
		n += snprintf(text + n, sizeof(text) - (size_t)n, "filter: %s  ", t->filter);
	if (n && (ui->shows_jobs ? ui->jobs.n_hidden : t->n_hidden))
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%d hidden  ",
			      ui->shows_jobs ? ui->jobs.n_hidden : t->n_hidden);
	if (n) {
		tui_put(s, y, 0, s->columns, TUI_WARN, text);
		return;
	}
	/* Of many GPUs a line each has no room for the whole reason: that of the worst stands here. */
	if (put_worst(ui, s, y))
		return;
	if (event_text(ui, text, sizeof(text)))
		tui_put(s, y, 0, s->columns, TUI_BAD, text);
}

static void draw_keys(const struct tui_ui *ui, struct tui_screen *s, int y)
{
	static const struct {
		const char *key, *what;
		int code;
		bool live, recorded;
	} keys[] = {
		{"F1", "Help", TUI_KEY_F(1), true, true},
		{"Left", "Back", TUI_KEY_LEFT, false, true},
		{"Right", "On", TUI_KEY_RIGHT, false, true},
		{"Space", "Pause", ' ', false, true},
		{"Enter", "Details", TUI_KEY_ENTER, true, true},
		{"j", "Jobs", 'j', true, true},
		{"/", "Filter", '/', true, true},
		{"u", "Mine", 'u', true, true},
		{"t", "Tree", 't', true, true},
		{"F6", "Sort", TUI_KEY_F(6), true, true},
		{"F9", "Kill", TUI_KEY_F(9), true, false},
		{"q", "Quit", 'q', true, true},
		{"F2", "Setup", TUI_KEY_F(2), true, true},
		{"a", "All", 'a', true, false},
		{"o", "Order", 'o', true, true},
		{"Space", "Pause", ' ', true, false},
		{"f", "Findings", 'f', true, true},
	};
	int x = 0;

	for (size_t i = 0; i < GS_ARRAY_LEN(keys); i++) {
		int n = (int)(strlen(keys[i].key) + strlen(keys[i].what)) + 1;

		if (!(ui->source->is_replay ? keys[i].recorded : keys[i].live) ||
		    (keys[i].code == TUI_KEY_F(9) && ui->options.read_only) ||
		    (keys[i].code == 'f' && !ui->source->findings) || x + n > s->columns)
			continue;
		tui_hit(s, y, x, n, keys[i].code, 0);
		x += tui_put(s, y, x, n, TUI_KEY, keys[i].key);
		x += 1 + tui_put(s, y, x + 1, n, TUI_DIM, keys[i].what) + 2;
	}
}

static void draw_main(struct tui_ui *ui, struct tui_screen *s)
{
	int rows = s->rows, y = 0, bottom = rows, gpus;
	bool for_paper = ui->print_all;

	if (rows >= 3)
		draw_title(ui, s, y++);
	if (rows >= 6)
		draw_machine(ui, s, y++);
	if (rows >= 4)
		y += put_state(ui, s, y, s->columns, for_paper || rows >= 16 ? STATE_ROWS : 1);
	if (rows >= 8)
		y += tui_put_findings(ui, s, y, s->columns, rows >= 16 ? STATE_ROWS : 1);
	if (rows >= 8 && !for_paper)
		draw_keys(ui, s, --bottom);
	if ((rows >= 7 || ui->message[0] || ui->mode == TUI_FILTER) && rows >= 2 && !for_paper)
		draw_status(ui, s, --bottom);
	/* The table has at least a head and some rows where there is room for both. */
	gpus = bottom - y;
	if (rows >= 8 && !for_paper)
		gpus = gpus * 6 / 10 < 1 ? 1 : gpus * 6 / 10;
	else if (rows >= 4 && !for_paper && gpus > 2)
		gpus = gpus - 2;
	if (for_paper)
		gpus = (int)ui->node->gpu->n_gpus * 2;
	gpus = tui_gpu_rows_wanted(ui, s, gpus);
	tui_draw_gpus(ui, s, y, gpus);
	y += gpus;
	if (ui->shows_jobs) {
		tui_jobs_draw(&ui->jobs, ui->node, s, y, bottom - y, !for_paper);
		return;
	}
	tui_table_draw(&ui->table, ui->node, s, y, bottom - y, !for_paper);
	if (!ui->table.n_rows && bottom - y >= 2)
		tui_put(s, y + 1, 0, s->columns, TUI_DIM,
			ui->table.n_hidden ? "No process passes the filter."
			: ui->options.all  ? "No such process is running."
					   : "No process is on a GPU.");
}

int tui_rows_of_all(const struct tui_ui *ui, int columns)
{
	struct tui_screen s = {.columns = columns};
	int n = (int)ui->node->gpu->n_gpus;
	int rows = ui->shows_jobs ? ui->jobs.n_rows : ui->table.n_rows;

	return 2 + put_state(ui, NULL, 0, columns, STATE_ROWS) +
	       tui_put_findings(ui, NULL, 0, columns, STATE_ROWS) +
	       tui_gpu_rows_wanted(ui, &s, n * 2) + 1 + (rows ? rows : 1);
}

void tui_layout(struct tui_ui *ui, struct tui_screen *s)
{
	if (!ui->node) {
		tui_put(s, 0, 0, s->columns, TUI_TITLE, "gpuscope top");
		tui_put(s, s->rows > 2 ? 2 : 0, 0, s->columns, TUI_DIM,
			ui->message[0] ? ui->message : "Reading the GPUs ...");
		return;
	}
	switch (ui->mode) {
	case TUI_HELP:
		tui_draw_help(ui, s);
		return;
	case TUI_SETUP:
		tui_setup_draw(ui, s);
		return;
	case TUI_FINDINGS:
		tui_draw_findings(ui, s);
		return;
	case TUI_JOB_DETAIL:
		tui_job_draw_detail(&ui->jobs, ui->node, s, &ui->detail_top);
		return;
	case TUI_DETAIL:
		tui_draw_detail(ui, s);
		return;
	case TUI_SIGNAL:
	case TUI_CONFIRM:
		draw_main(ui, s);
		tui_draw_signals(ui, s);
		return;
	default:
		draw_main(ui, s);
		return;
	}
}
