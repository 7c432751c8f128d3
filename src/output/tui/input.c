#include "output/tui/input.h"
#include "output/tui/setup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

const struct tui_signal tui_signals[] = {
	{SIGTERM, "SIGTERM", "ask it to end"},
	{SIGINT, "SIGINT", "interrupt, as Ctrl-C"},
	{SIGKILL, "SIGKILL", "kill it now"},
	{SIGHUP, "SIGHUP", "hang-up: terminal closed"},
	{SIGQUIT, "SIGQUIT", "quit with a core dump"},
	{SIGUSR1, "SIGUSR1", "defined by the program"},
	{SIGUSR2, "SIGUSR2", "defined by the program"},
	{SIGSTOP, "SIGSTOP", "pause"},
	{SIGCONT, "SIGCONT", "resume"},
};
const int tui_n_signals = (int)GS_ARRAY_LEN(tui_signals);

static const struct tui_asked nothing = {TUI_ASK_NOTHING, 0};

static void refill_table(struct tui_ui *ui)
{
	if (ui->node && tui_ui_fill(ui) < 0)
		tui_ui_show_message(ui, TUI_BAD, "no memory for the table");
}

static const struct tui_row *selected_row(const struct tui_ui *ui)
{
	const struct tui_table *t = &ui->table;

	return t->selected >= 0 && t->selected < t->n_rows ? &t->rows[t->selected] : NULL;
}

uint64_t tui_interval_next(uint64_t interval_ns, int direction)
{
	static const uint64_t steps_ms[] = {100, 200, 500, 1000, 2000, 5000, 10000, 30000, 60000};
	size_t n = GS_ARRAY_LEN(steps_ms);

	for (size_t i = 0; i < n; i++) {
		size_t k = direction > 0 ? i : n - 1 - i;
		uint64_t ns = steps_ms[k] * 1000000ull;

		if (direction > 0 ? ns > interval_ns : ns < interval_ns)
			return ns;
	}
	return interval_ns;
}

/* --- the detail screen --- */

/* Variables that say which GPUs, which job and which rank a process is; nothing else of an
 * environment is shown: it may hold secrets. */
static bool is_interesting(const char *text)
{
	static const char *const prefixes[] = {"CUDA_",
					       "NVIDIA_VISIBLE",
					       "SLURM_",
					       "SLURMD_",
					       "NCCL_",
					       "HIP_VISIBLE",
					       "ROCR_VISIBLE",
					       "GPU_DEVICE",
					       "RANK=",
					       "WORLD_SIZE=",
					       "LOCAL_RANK=",
					       "LOCAL_WORLD_SIZE=",
					       "GROUP_RANK=",
					       "MASTER_ADDR=",
					       "MASTER_PORT=",
					       "OMP_NUM_THREADS=",
					       "OMPI_COMM_WORLD_",
					       "PMI_RANK=",
					       "PMIX_RANK=",
					       "PBS_JOBID=",
					       "LSB_JOBID=",
					       "JOB_ID="};
	static const char *const secrets[] = {"TOKEN", "SECRET", "PASS", "KEY"};
	const char *equals = strchr(text, '=');

	for (size_t i = 0; equals && i < GS_ARRAY_LEN(secrets); i++) {
		const char *found = strstr(text, secrets[i]);

		if (found && found < equals)
			return false;
	}
	for (size_t i = 0; equals && i < GS_ARRAY_LEN(prefixes); i++)
		if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

static void read_environment(struct tui_ui *ui, uint32_t pid)
{
	struct gs_buf raw = GS_BUF_INIT(4u << 20);
	int r = ui->source->environment ? ui->source->environment(ui->source->ctx, pid, &raw)
					: -ENOTSUP;

	gs_buf_reset(&ui->environment);
	if (r == -ENOTSUP) {
		gs_buf_puts(&ui->environment, "(not recorded)\n");
	} else if (r < 0) {
		gs_buf_printf(&ui->environment, "(cannot be read: %s)\n", strerror(-r));
	} else {
		const char *p = (const char *)raw.data;
		const char *end = p + raw.bytes;

		while (p && p < end && *p) {
			size_t n = strnlen(p, (size_t)(end - p));

			if ((size_t)(end - p) > n && is_interesting(p) && n < 1024)
				gs_buf_printf(&ui->environment, "%s\n", p);
			p += n + 1;
		}
		if (!ui->environment.bytes)
			gs_buf_puts(&ui->environment,
				    "(nothing of CUDA, NCCL, Slurm or ranks in it)\n");
	}
	gs_buf_put(&ui->environment, "", 1);
	gs_buf_fini(&raw);
}

static void open_job(struct tui_ui *ui)
{
	struct tui_jobs *j = &ui->jobs;

	if (j->selected < 0) {
		tui_ui_show_message(ui, TUI_WARN, "no job is selected");
		return;
	}
	memcpy(j->detail_id, j->selected_id, sizeof(j->detail_id));
	j->detail_kind = j->selected_kind;
	ui->detail_top = 0;
	ui->mode = TUI_JOB_DETAIL;
}

static void open_detail(struct tui_ui *ui)
{
	const struct tui_row *r = selected_row(ui);

	if (ui->shows_jobs) {
		open_job(ui);
		return;
	}
	if (!r) {
		tui_ui_show_message(ui, TUI_WARN, "no process is selected");
		return;
	}
	ui->detail_pid = r->pid;
	ui->detail_start_ns = r->start_ns;
	ui->detail_top = 0;
	read_environment(ui, r->pid);
	ui->mode = TUI_DETAIL;
}

/* --- signals --- */

/* To the process of a row; NULL: there is none. */
static void open_signals(struct tui_ui *ui, const struct tui_row *r)
{
	if (ui->shows_jobs)
		tui_ui_show_message(ui, TUI_WARN, "signals are for processes: j shows them");
	else if (ui->options.read_only)
		tui_ui_show_message(ui, TUI_WARN, "started with --read-only: no signals are sent");
	else if (ui->source->is_replay)
		tui_ui_show_message(ui, TUI_WARN,
				    "this is a recording: there is no process to signal");
	else if (!ui->source->signal)
		tui_ui_show_message(ui, TUI_WARN, "signals cannot be sent there");
	else if (!r)
		tui_ui_show_message(ui, TUI_WARN, "no process is selected");
	else if (!r->host)
		tui_ui_show_message(ui, TUI_WARN,
				    "process %u is not visible on this machine (any more)", r->pid);
	else {
		ui->mode = TUI_SIGNAL;
		ui->signal_at = 0;
		ui->signal_pid = r->pid;
		ui->signal_start_ns = r->start_ns;
		snprintf(ui->signal_name, sizeof(ui->signal_name), "%s", r->host->comm);
	}
}

static void send_signal(struct tui_ui *ui)
{
	const struct tui_signal *sig = &tui_signals[ui->signal_at];
	int r = ui->source->signal(ui->source->ctx, ui->signal_pid, ui->signal_start_ns,
				   sig->number);

	ui->mode = TUI_MAIN;
	if (r == 0)
		tui_ui_show_message(ui, TUI_GOOD, "%s was sent to %u (%s)", sig->name,
				    ui->signal_pid, ui->signal_name);
	else if (r == -ESRCH)
		tui_ui_show_message(ui, TUI_WARN, "%u (%s) has ended already", ui->signal_pid,
				    ui->signal_name);
	else
		tui_ui_show_message(ui, TUI_BAD, "%s could not be sent to %u: %s", sig->name,
				    ui->signal_pid, strerror(-r));
}

static void key_of_signals(struct tui_ui *ui, int key)
{
	if (key == TUI_KEY_ESCAPE || key == 'q' || key == 'n' || key == TUI_KEY_F(10)) {
		ui->mode = TUI_MAIN;
		tui_ui_show_message(ui, TUI_DIM, "no signal was sent");
	} else if (ui->mode == TUI_CONFIRM) {
		if (key == 'y' || key == 'Y')
			send_signal(ui);
	} else if (key == TUI_KEY_UP) {
		ui->signal_at = (ui->signal_at + tui_n_signals - 1) % tui_n_signals;
	} else if (key == TUI_KEY_DOWN) {
		ui->signal_at = (ui->signal_at + 1) % tui_n_signals;
	} else if (key == TUI_KEY_ENTER) {
		ui->mode = TUI_CONFIRM;
	}
}

/* --- the filter --- */

static void key_of_filter(struct tui_ui *ui, int key)
{
	char *f = ui->table.filter;
	size_t n = strlen(f);

	if (key == TUI_KEY_ENTER) {
		ui->mode = TUI_MAIN;
		return;
	}
	if (key == TUI_KEY_ESCAPE) {
		ui->mode = TUI_MAIN;
		f[0] = '\0';
	} else if (key == TUI_KEY_BACKSPACE) {
		while (n && ((unsigned char)f[n - 1] & 0xc0) == 0x80)
			f[--n] = '\0';
		if (n)
			f[n - 1] = '\0';
	} else if (key >= ' ' && key < 0x110000 && key != 0x7f) {
		struct tui_screen one = {0};
		struct gs_buf text = GS_BUF_INIT(64);

		/* The screen knows how a character is written in UTF-8. */
		if (tui_screen_reset(&one, 1, 2) == 0) {
			tui_put_char(&one, 0, 0, TUI_PLAIN, (uint32_t)key);
			tui_put_char(&one, 0, 1, TUI_PLAIN, 0);
			if (tui_screen_text(&one, &text) == 0 &&
			    n + text.bytes <= sizeof(ui->table.filter) && text.bytes) {
				memcpy(f + n, text.data, text.bytes - 1);
				f[n + text.bytes - 1] = '\0';
			}
		}
		gs_buf_fini(&text);
		tui_screen_fini(&one);
	}
	refill_table(ui);
}

/* --- the main screen --- */

static void sort_by(struct tui_ui *ui, enum tui_column c)
{
	struct tui_table *t = &ui->table;

	t->reverse = t->sort == c && !t->reverse;
	t->sort = c;
	tui_ui_show_message(ui, TUI_DIM, "sorted by %s%s", tui_column_title(c),
			    t->reverse ? ", turned round" : "");
	refill_table(ui);
}

static void sort_jobs_by(struct tui_ui *ui, enum tui_job_column c, bool turn)
{
	struct tui_jobs *t = &ui->jobs;

	t->reverse = turn && t->sort == c && !t->reverse;
	t->sort = c;
	tui_ui_show_message(ui, TUI_DIM, "sorted by %s%s", tui_job_title(c),
			    t->reverse ? ", turned round" : "");
	refill_table(ui);
}

static void sort_next(struct tui_ui *ui, int by)
{
	struct tui_table *t = &ui->table;

	if (ui->shows_jobs) {
		sort_jobs_by(ui,
			     (enum tui_job_column)(((int)ui->jobs.sort + by + TUI_JOB_N_COLUMNS) %
						   TUI_JOB_N_COLUMNS),
			     false);
		return;
	}
	t->sort = (enum tui_column)(((int)t->sort + by + TUI_N_COLUMNS) % TUI_N_COLUMNS);
	t->reverse = false;
	tui_ui_show_message(ui, TUI_DIM, "sorted by %s", tui_column_title(t->sort));
	refill_table(ui);
}

static struct tui_asked change_interval(struct tui_ui *ui, int direction)
{
	uint64_t ns = tui_interval_next(ui->options.interval_ns, direction);

	if (ns == ui->options.interval_ns)
		return nothing;
	ui->options.interval_ns = ns;
	tui_ui_show_message(ui, TUI_DIM, "every %g s", (double)ns / 1e9);
	return (struct tui_asked){TUI_ASK_INTERVAL, (int64_t)ns};
}

static struct tui_asked key_of_replay(struct tui_ui *ui, int key)
{
	switch (key) {
	case TUI_KEY_LEFT:
		return (struct tui_asked){TUI_ASK_STEP, -1};
	case TUI_KEY_RIGHT:
		return (struct tui_asked){TUI_ASK_STEP, 1};
	case '<':
	case ',':
		return (struct tui_asked){TUI_ASK_STEP, -60};
	case '>':
	case '.':
		return (struct tui_asked){TUI_ASK_STEP, 60};
	case TUI_KEY_HOME:
		return (struct tui_asked){TUI_ASK_GO, 0};
	case TUI_KEY_END:
		return (struct tui_asked){TUI_ASK_GO, INT64_MAX};
	default:
		return nothing;
	}
}

static void show_all(struct tui_ui *ui)
{
	if (!ui->source->set_all) {
		tui_ui_show_message(ui, TUI_WARN,
				    "a recording shows the processes that were recorded");
		return;
	}
	ui->table.all = !ui->table.all;
	ui->source->set_all(ui->source->ctx, ui->table.all);
	tui_ui_show_message(ui, TUI_DIM, ui->table.all ? "all processes" : "processes on GPUs");
}

static void show_jobs(struct tui_ui *ui)
{
	ui->shows_jobs = !ui->shows_jobs;
	tui_ui_show_message(ui, TUI_DIM, ui->shows_jobs ? "jobs" : "processes");
}

/* Without a filter, whatever it is by. */
static void show_everything(struct tui_ui *ui)
{
	ui->table.filter[0] = '\0';
	ui->table.gpu = -1;
	ui->table.mine = false;
	refill_table(ui);
}

static void open_findings(struct tui_ui *ui)
{
	ui->mode = ui->source->findings ? TUI_FINDINGS : TUI_MAIN;
	ui->detail_top = 0;
}

static void select_row(struct tui_ui *ui, int row)
{
	if (ui->shows_jobs)
		tui_jobs_select(&ui->jobs, row);
	else
		tui_table_select(&ui->table, row);
}

/* Keys that move in the table; false: none of them. */
static bool move_selection(struct tui_ui *ui, int key, int rows)
{
	int page = rows > 12 ? rows / 2 : 5;
	int at = ui->shows_jobs ? ui->jobs.selected : ui->table.selected;

	switch (key) {
	case TUI_KEY_UP:
		select_row(ui, at - 1);
		return true;
	case TUI_KEY_DOWN:
		select_row(ui, at + 1);
		return true;
	case TUI_KEY_PAGE_UP:
		select_row(ui, at - page);
		return true;
	case TUI_KEY_PAGE_DOWN:
		select_row(ui, at + page);
		return true;
	case TUI_KEY_HOME:
	case 'g':
		select_row(ui, 0);
		return true;
	case TUI_KEY_END:
	case 'G':
		select_row(ui, INT32_MAX);
		return true;
	case '[':
		ui->gpu_top--;
		return true;
	case ']':
		ui->gpu_top++;
		return true;
	default:
		return false;
	}
}

/* Keys that sort by one column; TUI_N_COLUMNS: none of them. */
static enum tui_column column_of_key(int key)
{
	switch (key) {
	case 'C':
		return TUI_COL_CPU;
	case 'M':
		return TUI_COL_GMEM;
	case 'S':
		return TUI_COL_SM;
	case 'R':
		return TUI_COL_RSS;
	case 'P':
		return TUI_COL_PID;
	case 'U':
		return TUI_COL_USER;
	case 'T':
		return TUI_COL_TIME;
	case 'D':
		return TUI_COL_GPU;
	default:
		return TUI_N_COLUMNS;
	}
}

/* The same in the view of jobs. */
static enum tui_job_column job_column_of_key(int key)
{
	switch (key) {
	case 'C':
		return TUI_JOB_CPU;
	case 'M':
		return TUI_JOB_GPU_MEMORY;
	case 'S':
		return TUI_JOB_GPU;
	case 'R':
		return TUI_JOB_MEMORY;
	case 'P':
		return TUI_JOB_ID;
	case 'U':
		return TUI_JOB_USER;
	case 'D':
		return TUI_JOB_GPUS;
	default:
		return TUI_JOB_N_COLUMNS;
	}
}

static struct tui_asked key_of_main(struct tui_ui *ui, int key, int rows)
{
	struct tui_table *t = &ui->table;
	enum tui_column column = column_of_key(key);
	struct tui_asked asked = nothing;

	if (ui->source->is_replay)
		asked = key_of_replay(ui, key);
	if (asked.what != TUI_ASK_NOTHING || move_selection(ui, key, rows))
		return asked;
	if (ui->shows_jobs && job_column_of_key(key) < TUI_JOB_N_COLUMNS) {
		sort_jobs_by(ui, job_column_of_key(key), true);
		return nothing;
	}
	if (column < TUI_N_COLUMNS && !ui->shows_jobs) {
		sort_by(ui, column);
		return nothing;
	}
	switch (key) {
	case 'q':
	case TUI_KEY_F(10):
		return (struct tui_asked){TUI_ASK_QUIT, 0};
	case 'h':
	case '?':
	case TUI_KEY_F(1):
		ui->mode = TUI_HELP;
		ui->detail_top = 0;
		break;
	case TUI_KEY_F(2):
		ui->mode = TUI_SETUP;
		ui->setup_at = 0;
		break;
	case '/':
	case TUI_KEY_F(4):
		ui->mode = TUI_FILTER;
		break;
	case TUI_KEY_ESCAPE:
		show_everything(ui);
		break;
	case 'u':
		t->mine = !t->mine;
		refill_table(ui);
		break;
	case 't':
	case TUI_KEY_F(5):
		t->tree = !t->tree;
		refill_table(ui);
		break;
	case 'a':
		show_all(ui);
		break;
	case 'j':
		show_jobs(ui);
		break;
	case 'r':
		if (ui->shows_jobs)
			sort_jobs_by(ui, ui->jobs.sort, true);
		else
			sort_by(ui, t->sort);
		break;
	case TUI_KEY_F(6):
	case '>':
	case TUI_KEY_RIGHT:
		sort_next(ui, 1);
		break;
	case '<':
	case TUI_KEY_LEFT:
		sort_next(ui, -1);
		break;
	case 'o':
		ui->order = (enum tui_gpu_order)((ui->order + 1) % TUI_N_GPU_ORDERS);
		tui_ui_show_message(ui, TUI_DIM,
				    ui->order == TUI_WORST_FIRST ? "GPUs: worst first"
								 : "GPUs: by index");
		tui_ui_sort_gpus(ui);
		break;
	case 'f':
		open_findings(ui);
		break;
	case TUI_KEY_ENTER:
		open_detail(ui);
		break;
	case 'k':
	case TUI_KEY_F(9):
		open_signals(ui, selected_row(ui));
		break;
	case ' ':
		ui->paused = !ui->paused;
		break;
	case '+':
	case '=':
		return change_interval(ui, 1);
	case '-':
		return change_interval(ui, -1);
	default:
		break;
	}
	return nothing;
}

/* Keys that scroll a screen of lines; false: none of them. How far it goes is known when it is
 * drawn. */
static bool scroll_rows(struct tui_ui *ui, int key, int rows)
{
	int page = rows > 4 ? rows - 3 : 1, by = 0;

	switch (key) {
	case TUI_KEY_UP:
	case TUI_KEY_DOWN:
		by = key == TUI_KEY_DOWN ? 1 : -1;
		break;
	case TUI_KEY_PAGE_UP:
	case TUI_KEY_PAGE_DOWN:
		by = key == TUI_KEY_PAGE_DOWN ? page : -page;
		break;
	default:
		return false;
	}
	ui->detail_top = ui->detail_top + by < 0 ? 0 : ui->detail_top + by;
	return true;
}

/* Of all of one process or job. */
static struct tui_asked key_of_detail(struct tui_ui *ui, int key, int rows)
{
	if (scroll_rows(ui, key, rows))
		return nothing;
	if (ui->mode == TUI_DETAIL && (key == 'k' || key == TUI_KEY_F(9))) {
		/* To the process that is shown, wherever the selection went meanwhile. */
		struct tui_row row;
		int n = tui_rows_of_process(ui->node, ui->detail_pid, ui->detail_start_ns, &row, 1);

		ui->mode = TUI_MAIN;
		if (n)
			open_signals(ui, &row);
		else
			tui_ui_show_message(ui, TUI_WARN,
					    "process %u is not visible on this machine any more",
					    ui->detail_pid);
	} else if (key == TUI_KEY_ESCAPE || key == 'q' || key == TUI_KEY_ENTER) {
		ui->mode = TUI_MAIN;
	} else if (key == ' ' || (ui->source->is_replay && key != 'o' && key != 'j')) {
		return key_of_main(ui, key, rows);
	}
	return nothing;
}

/* The account of a process comes with that of its job. */
static void ask_for_jobs(struct tui_ui *ui)
{
	bool wanted = ui->shows_jobs || ui->mode == TUI_DETAIL;

	if (wanted != ui->wants_jobs && ui->source->set_jobs)
		ui->source->set_jobs(ui->source->ctx, wanted);
	ui->wants_jobs = wanted;
}

/* It costs something, so only while it is shown. */
static void ask_for_traffic(struct tui_ui *ui)
{
	uint32_t wanted = ui->mode == TUI_DETAIL ? ui->detail_pid : 0;

	if (wanted == ui->traffic_pid || !ui->source->set_traffic)
		return;
	ui->source->set_traffic(ui->source->ctx, wanted);
	ui->traffic_pid = wanted;
	ui->has_traffic = false;
}

static struct tui_asked key_of_mode(struct tui_ui *ui, int key, int rows)
{
	switch (ui->mode) {
	case TUI_HELP:
	case TUI_FINDINGS:
		if (!scroll_rows(ui, key, rows))
			ui->mode = TUI_MAIN;
		return nothing;
	case TUI_SETUP:
		return tui_setup_key(ui, key);
	case TUI_FILTER:
		key_of_filter(ui, key);
		return nothing;
	case TUI_SIGNAL:
	case TUI_CONFIRM:
		key_of_signals(ui, key);
		return nothing;
	case TUI_JOB_DETAIL:
	case TUI_DETAIL:
		return key_of_detail(ui, key, rows);
	default:
		return key_of_main(ui, key, rows);
	}
}

struct tui_asked tui_key(struct tui_ui *ui, int key, int rows)
{
	struct tui_asked asked;

	ui->message[0] = '\0';
	asked = key_of_mode(ui, key, rows);
	ask_for_jobs(ui);
	ask_for_traffic(ui);
	return asked;
}

struct tui_asked tui_mouse(struct tui_ui *ui, const struct tui_screen *s, int y, int x, int wheel,
			   bool twice)
{
	const struct tui_hit *hit = tui_hit_at(s, y, x);

	if (wheel)
		return tui_key(ui, wheel < 0 ? TUI_KEY_UP : TUI_KEY_DOWN, s->rows);
	if (ui->mode != TUI_MAIN)
		return ui->mode == TUI_HELP || ui->mode == TUI_FINDINGS
			       ? tui_key(ui, TUI_KEY_ESCAPE, s->rows)
			       : nothing;
	if (!hit)
		return nothing;
	ui->message[0] = '\0';
	switch (hit->what) {
	case TUI_HIT_COLUMN:
		if (ui->shows_jobs)
			sort_jobs_by(ui, (enum tui_job_column)hit->arg, true);
		else
			sort_by(ui, (enum tui_column)hit->arg);
		return nothing;
	case TUI_HIT_ROW:
		select_row(ui, hit->arg);
		if (twice)
			open_detail(ui);
		ask_for_jobs(ui);
		ask_for_traffic(ui);
		return nothing;
	case TUI_HIT_GPU:
		ui->table.gpu = ui->table.gpu == hit->arg ? -1 : hit->arg;
		refill_table(ui);
		return nothing;
	default:
		return tui_key(ui, hit->what, s->rows);
	}
}
