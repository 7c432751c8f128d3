/* What keys and the mouse do. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "sample.h"
#include "output/tui/input.h"
#include "output/tui/layout.h"

static struct {
	uint32_t pid;
	uint64_t start_ns;
	int number, n, answer;
	bool all, jobs;
	uint32_t traffic_pid;
} sent;

static int take_signal(void *ctx, uint32_t pid, uint64_t start_ns, int number)
{
	sent.pid = pid;
	sent.start_ns = start_ns;
	sent.number = number;
	sent.n++;
	return sent.answer;
}

static void take_all(void *ctx, bool all)
{
	sent.all = all;
}

static void take_jobs(void *ctx, bool jobs)
{
	sent.jobs = jobs;
}

static void take_traffic(void *ctx, uint32_t pid)
{
	sent.traffic_pid = pid;
}

static bool traffic_of(void *ctx, uint32_t pid, struct gs_tui_traffic *ret)
{
	*ret = (struct gs_tui_traffic){.n_peers = 1};
	ret->peers[0] = (struct gs_traffic_peer){
		.address = "2001:db8::7", .port = 29500, .sums = {.requests = 3, .failed = 1}};
	return pid == sent.traffic_pid;
}

static int environment(void *ctx, uint32_t pid, struct gs_buf *buf)
{
	static const char text[] = "HOME=/root\0CUDA_VISIBLE_DEVICES=0,1\0SLURM_JOB_ID=7\0"
				   "SLURM_JWT_TOKEN=xyz\0";

	return gs_buf_put(buf, text, sizeof(text));
}

static struct gs_tui_source source = {.title = "",
				      .wake_fd = -1,
				      .signal = take_signal,
				      .set_all = take_all,
				      .set_jobs = take_jobs,
				      .set_traffic = take_traffic,
				      .traffic = traffic_of,
				      .environment = environment};

static int open_ui(void **state)
{
	static struct tui_ui ui;
	struct gs_tui_options o = {.size = sizeof(o), .interval_ns = 1000000000ull, .uid = 1000};

	memset(&sent, 0, sizeof(sent));
	source.is_replay = false;
	tui_ui_init(&ui, &source, &o);
	*state = &ui;
	return tui_ui_show(&ui, sample_node(2, 6, 1));
}

static int close_ui(void **state)
{
	tui_ui_fini(*state);
	return 0;
}

static uint32_t pid_at(const struct tui_ui *ui, int row)
{
	assert_in_range(row, 0, ui->table.n_rows - 1);
	return ui->table.rows[row].pid;
}

static void sorts(void **state)
{
	struct tui_ui *ui = *state;

	assert_int_equal(ui->table.n_rows, 6);
	assert_int_equal(pid_at(ui, 0), 105); /* the most GPU memory */
	tui_key(ui, 'P', 24);
	assert_int_equal(pid_at(ui, 0), 100);
	tui_key(ui, 'P', 24);
	assert_int_equal(pid_at(ui, 0), 105);
	tui_key(ui, 'C', 24);
	assert_int_equal(pid_at(ui, 0), 105);
	tui_key(ui, 'r', 24);
	assert_int_equal(pid_at(ui, 0), 100);
	tui_key(ui, 'U', 24);
	assert_string_equal(tui_row_user(&ui->table.rows[0]), "alice");
	tui_key(ui, 'T', 24);
	assert_int_equal(pid_at(ui, 0), 105); /* the oldest */
	tui_key(ui, 'D', 24);
	assert_int_equal(pid_at(ui, 0), 100);
	/* Through all columns and back to the same one. */
	for (int i = 0; i < TUI_N_COLUMNS; i++)
		tui_key(ui, TUI_KEY_F(6), 24);
	assert_int_equal(ui->table.sort, TUI_COL_GPU);
}

static void filters(void **state)
{
	struct tui_ui *ui = *state;

	tui_key(ui, '/', 24);
	for (const char *p = "RANK 3"; *p; p++)
		tui_key(ui, *p, 24);
	assert_int_equal(ui->table.n_rows, 1);
	assert_int_equal(pid_at(ui, 0), 103);
	assert_int_equal(ui->table.n_hidden, 5);
	tui_key(ui, TUI_KEY_BACKSPACE, 24);
	assert_int_equal(ui->table.n_rows, 6);
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_string_equal(ui->table.filter, "RANK ");
	tui_key(ui, TUI_KEY_ESCAPE, 24);
	assert_string_equal(ui->table.filter, "");
	tui_key(ui, 'u', 24);
	assert_int_equal(ui->table.n_rows, 3);
	tui_key(ui, 'u', 24);
	/* Keys of the main screen are letters here, and more than fit are left out. */
	tui_key(ui, '/', 24);
	for (int i = 0; i < 200; i++)
		tui_key(ui, i % 2 ? 'q' : 0x20ac, 24);
	assert_in_range(strlen(ui->table.filter), 60, sizeof(ui->table.filter) - 1);
	for (int i = 0; i < 100; i++)
		tui_key(ui, TUI_KEY_BACKSPACE, 24);
	assert_string_equal(ui->table.filter, "");
}

static void selection_stays_with_its_process(void **state)
{
	struct tui_ui *ui = *state;

	tui_key(ui, TUI_KEY_DOWN, 24);
	assert_int_equal(ui->table.selected_pid, 104);
	tui_key(ui, 'P', 24);
	assert_int_equal(pid_at(ui, ui->table.selected), 104);
	assert_int_equal(tui_ui_show(ui, sample_node(2, 6, 2)), 0);
	assert_int_equal(pid_at(ui, ui->table.selected), 104);
	/* It ended: the selection stays in the table. */
	assert_int_equal(tui_ui_show(ui, sample_node(2, 2, 3)), 0);
	assert_in_range(ui->table.selected, 0, 1);
	assert_int_equal(tui_ui_show(ui, sample_node(2, 0, 4)), 0);
	assert_int_equal(ui->table.selected, -1);
	tui_key(ui, TUI_KEY_DOWN, 24);
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(ui->mode, TUI_MAIN);
	assert_int_equal(tui_ui_show(ui, sample_node(2, 3, 5)), 0);
	assert_int_equal(ui->table.selected, 0);
}

/* Whoever sorts wants to see what comes first: the first row follows nobody. */
static void the_first_row_is_the_first(void **state)
{
	struct tui_ui *ui = *state;

	tui_key(ui, 'P', 24);
	assert_int_equal(ui->table.selected, 0);
	tui_key(ui, 'r', 24);
	assert_int_equal(ui->table.selected, 0);
	assert_int_equal(ui->table.selected_pid, 105);
	tui_key(ui, TUI_KEY_DOWN, 24);
	tui_key(ui, TUI_KEY_UP, 24);
	tui_key(ui, 'r', 24);
	assert_int_equal(ui->table.selected, 0);
	assert_int_equal(ui->table.selected_pid, 100);
}

/* A signal from the screen of a process is for that process, and nobody else. */
static void signals_from_the_detail_screen(void **state)
{
	struct tui_ui *ui = *state;
	struct gs_node_snapshot *n;

	tui_key(ui, 'P', 24);
	tui_table_select(&ui->table, 1);
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(ui->detail_pid, 101);
	/* It ended; the selection has moved on. */
	assert_int_equal(tui_ui_show(ui, sample_node(2, 1, 2)), 0);
	assert_int_equal(ui->table.selected_pid, 100);
	tui_key(ui, 'k', 24);
	assert_int_equal(ui->mode, TUI_MAIN);
	assert_non_null(strstr(ui->message, "101 is not visible"));
	/* Its pid was given away. */
	assert_int_equal(tui_ui_show(ui, sample_node(2, 6, 3)), 0);
	tui_table_select(&ui->table, 1);
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(ui->detail_pid, 101);
	n = sample_node(2, 6, 4);
	n->host->process[1].start_ns += 5000000000ull;
	n->gpu->process[1].start_ns = n->host->process[1].start_ns;
	assert_int_equal(tui_ui_show(ui, n), 0);
	tui_key(ui, TUI_KEY_F(9), 24);
	assert_int_equal(ui->mode, TUI_MAIN);
	assert_non_null(strstr(ui->message, "101 is not visible"));
	/* It is there, but the filter hides it. */
	assert_int_equal(tui_ui_show(ui, sample_node(2, 6, 5)), 0);
	tui_table_select(&ui->table, 1);
	tui_key(ui, TUI_KEY_ENTER, 24);
	strcpy(ui->table.filter, "nobody");
	assert_int_equal(tui_ui_show(ui, sample_node(2, 6, 6)), 0);
	tui_key(ui, 'k', 24);
	assert_int_equal(ui->mode, TUI_SIGNAL);
	assert_int_equal(ui->signal_pid, 101);
	assert_int_equal(sent.n, 0);
}

static const char *row_id(const struct tui_ui *ui, int row)
{
	assert_true(row < ui->jobs.n_rows);
	return ui->jobs.rows[row]->job.id;
}

static void jobs(void **state)
{
	struct tui_ui *ui = *state;
	struct gs_node_snapshot *n = sample_node(2, 6, 2);
	char shown[64];

	tui_key(ui, 'j', 24);
	assert_true(ui->shows_jobs);
	assert_true(sent.jobs);
	assert_int_equal(ui->jobs.n_rows, 0);
	tui_key(ui, TUI_KEY_ENTER, 24); /* there is none */
	assert_int_equal(ui->mode, TUI_MAIN);
	sample_jobs(n, 6);
	assert_int_equal(tui_ui_show(ui, n), 0);
	/* Those with GPUs first; of these, by processors, what is not known last. */
	assert_string_equal(row_id(ui, 0), "4704");
	assert_string_equal(row_id(ui, 5), "4705");
	tui_key(ui, 'C', 24);
	assert_string_equal(row_id(ui, 0), "4704");
	tui_key(ui, 'C', 24);
	assert_string_equal(row_id(ui, 0), "4705");
	tui_key(ui, 'C', 24);
	assert_string_equal(row_id(ui, 0), "4704");
	tui_key(ui, 'P', 24);
	assert_string_equal(row_id(ui, 0), "4701");
	tui_key(ui, 'r', 24);
	assert_string_equal(row_id(ui, 5), "4701");
	tui_key(ui, '>', 24);
	assert_int_equal(ui->jobs.sort, TUI_JOB_KIND);
	/* The selection stays with its job. */
	tui_key(ui, 'C', 24);
	tui_jobs_select(&ui->jobs, 1);
	tui_key(ui, 'r', 24);
	assert_int_equal(ui->jobs.selected, 4);
	n = sample_node(2, 6, 3);
	sample_jobs(n, 6);
	assert_int_equal(tui_ui_show(ui, n), 0);
	assert_int_equal(ui->jobs.selected, 4);
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(ui->mode, TUI_JOB_DETAIL);
	/* It stays with its job when that is no longer in the table. */
	snprintf(shown, sizeof(shown), "%s", ui->jobs.selected_id);
	assert_string_equal(ui->jobs.detail_id, shown);
	strcpy(ui->table.filter, "nobody");
	assert_int_equal(tui_ui_fill(ui), 0);
	assert_string_equal(ui->jobs.detail_id, shown);
	ui->table.filter[0] = '\0';
	assert_int_equal(tui_ui_fill(ui), 0);
	tui_key(ui, TUI_KEY_ESCAPE, 24);
	/* The filter and "only mine" are of both views. */
	tui_key(ui, '/', 24);
	for (const char *p = "TRAIN-3"; *p; p++)
		tui_key(ui, *p, 24);
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(ui->jobs.n_rows, 1);
	assert_int_equal(ui->jobs.n_hidden, 5);
	tui_key(ui, TUI_KEY_ESCAPE, 24);
	tui_key(ui, 'u', 24);
	assert_int_equal(ui->jobs.n_rows, 3);
	tui_key(ui, TUI_KEY_ESCAPE, 24);
	/* No signal to a job. */
	tui_key(ui, 'k', 24);
	assert_int_equal(ui->mode, TUI_MAIN);
	assert_int_equal(sent.n, 0);
	tui_key(ui, 'j', 24);
	assert_false(ui->shows_jobs);
	assert_false(sent.jobs);
	/* All jobs went away with the moment. */
	assert_int_equal(tui_ui_show(ui, sample_node(2, 6, 4)), 0);
	assert_int_equal(ui->jobs.n_rows, 0);
}

/* The account of a process comes with its job: jobs are read as long as it is shown. */
static void jobs_are_read_for_a_process(void **state)
{
	struct tui_ui *ui = *state;

	sent.jobs = false;
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(ui->mode, TUI_DETAIL);
	assert_true(sent.jobs);
	tui_key(ui, TUI_KEY_ESCAPE, 24);
	assert_false(sent.jobs);
	tui_key(ui, 'j', 24);
	assert_true(sent.jobs);
	tui_key(ui, 'j', 24);
	assert_false(sent.jobs);
}

static void traffic_is_counted_while_a_process_is_shown(void **state)
{
	struct tui_ui *ui = *state;
	struct tui_screen s = {0};
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(1u << 20);

	sent.traffic_pid = 1;
	tui_key(ui, 'j', 24);
	tui_key(ui, 'j', 24);
	assert_int_equal(sent.traffic_pid, 1); /* nothing was asked for */
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(sent.traffic_pid, ui->detail_pid);
	assert_false(ui->has_traffic);
	assert_int_equal(tui_ui_show(ui, sample_node(2, 6, 2)), 0);
	assert_true(ui->has_traffic);
	assert_int_equal(tui_screen_reset(&s, 60, 100), 0);
	tui_layout(ui, &s);
	assert_int_equal(tui_screen_text(&s, &text), 0);
	assert_int_equal(gs_buf_put(&text, "", 1), 0);
	assert_non_null(strstr((const char *)text.data, "to [2001:db8::7]:29500"));
	assert_non_null(strstr((const char *)text.data, "3 requests, some connections failed"));
	tui_key(ui, TUI_KEY_ESCAPE, 24);
	assert_int_equal(sent.traffic_pid, 0);
	tui_screen_fini(&s);
}

static void tree(void **state)
{
	struct tui_ui *ui = *state;

	tui_key(ui, 't', 24);
	assert_int_equal(pid_at(ui, 0), 100);
	assert_int_equal(ui->table.rows[0].depth, 0);
	for (int i = 1; i < 6; i++)
		assert_int_equal(ui->table.rows[i].depth, 1);
	assert_int_equal(pid_at(ui, 1), 105); /* siblings in the order of the column */
	assert_true(ui->table.rows[5].is_last);
	/* Parents of each other, as no real machine has them: each is there, once. */
	ui->node->host->process[0].parent_pid = 101;
	assert_int_equal(tui_table_fill(&ui->table, ui->node, 1000), 0);
	assert_int_equal(ui->table.n_rows, 6);
	for (uint32_t pid = 100; pid < 106; pid++) {
		int n = 0;

		for (int i = 0; i < 6; i++)
			n += pid_at(ui, i) == pid;
		assert_int_equal(n, 1);
	}
}

static void signals_ask_first(void **state)
{
	struct tui_ui *ui = *state;

	tui_key(ui, TUI_KEY_F(9), 24);
	assert_int_equal(ui->mode, TUI_SIGNAL);
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(ui->mode, TUI_CONFIRM);
	tui_key(ui, TUI_KEY_ENTER, 24); /* not an answer */
	assert_int_equal(sent.n, 0);
	tui_key(ui, 'n', 24);
	assert_int_equal(sent.n, 0);
	tui_key(ui, 'k', 24);
	tui_key(ui, TUI_KEY_DOWN, 24);
	tui_key(ui, TUI_KEY_DOWN, 24);
	/* The table turns meanwhile: the process that was chosen is still the one. */
	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(tui_ui_show(ui, sample_node(2, 3, 2)), 0);
	tui_key(ui, 'y', 24);
	assert_int_equal(sent.n, 1);
	assert_int_equal(sent.pid, 105);
	assert_int_equal(sent.start_ns, SAMPLE_START_NS - 6 * 60000000000ull);
	assert_int_equal(sent.number, SIGKILL);
	assert_non_null(strstr(ui->message, "SIGKILL was sent to 105"));
	sent.answer = -EPERM;
	tui_key(ui, 'k', 24);
	tui_key(ui, TUI_KEY_ENTER, 24);
	tui_key(ui, 'y', 24);
	assert_non_null(strstr(ui->message, "could not be sent"));
}

static void signals_are_refused(void **state)
{
	struct tui_ui *ui = *state;

	ui->options.read_only = true;
	tui_key(ui, TUI_KEY_F(9), 24);
	assert_int_equal(ui->mode, TUI_MAIN);
	assert_non_null(strstr(ui->message, "--read-only"));
	ui->options.read_only = false;
	source.is_replay = true;
	tui_key(ui, 'k', 24);
	assert_int_equal(ui->mode, TUI_MAIN);
	assert_non_null(strstr(ui->message, "recording"));
	assert_int_equal(sent.n, 0);
}

static void environment_is_chosen(void **state)
{
	struct tui_ui *ui = *state;
	const char *text;

	tui_key(ui, TUI_KEY_ENTER, 24);
	assert_int_equal(ui->mode, TUI_DETAIL);
	text = (const char *)ui->environment.data;
	assert_non_null(strstr(text, "CUDA_VISIBLE_DEVICES=0,1\n"));
	assert_non_null(strstr(text, "SLURM_JOB_ID=7\n"));
	assert_null(strstr(text, "HOME"));
	assert_null(strstr(text, "xyz"));
	tui_key(ui, TUI_KEY_ESCAPE, 24);
	assert_int_equal(ui->mode, TUI_MAIN);
}

static void intervals(void **state)
{
	struct tui_ui *ui = *state;
	struct tui_asked a = tui_key(ui, '+', 24);

	assert_int_equal(a.what, TUI_ASK_INTERVAL);
	assert_int_equal(a.value, 2000000000);
	tui_key(ui, '-', 24);
	a = tui_key(ui, '-', 24);
	assert_int_equal(a.value, 500000000);
	assert_int_equal(tui_interval_next(100000000ull, -1), 100000000ull);
	assert_int_equal(tui_interval_next(60000000000ull, 1), 60000000000ull);
	assert_int_equal(tui_interval_next(300000000ull, 1), 500000000ull);
	assert_int_equal(tui_interval_next(300000000ull, -1), 200000000ull);
	tui_key(ui, ' ', 24);
	assert_true(ui->paused);
	tui_key(ui, 'a', 24);
	assert_true(sent.all);
	assert_int_equal(tui_key(ui, 'q', 24).what, TUI_ASK_QUIT);
}

static void seeks(void **state)
{
	struct tui_ui *ui = *state;

	assert_int_equal(tui_key(ui, TUI_KEY_LEFT, 24).what, TUI_ASK_NOTHING);
	source.is_replay = true;
	assert_int_equal(tui_key(ui, TUI_KEY_LEFT, 24).value, -1);
	assert_int_equal(tui_key(ui, '.', 24).value, 60);
	assert_int_equal(tui_key(ui, TUI_KEY_HOME, 24).what, TUI_ASK_GO);
	assert_int_equal(tui_key(ui, TUI_KEY_END, 24).value, INT64_MAX);
}

/* A press on what was drawn does what its key does. */
static void mouse(void **state)
{
	struct tui_ui *ui = *state;
	struct tui_screen s = {0};
	int head = -1, row = -1, help = -1;

	assert_int_equal(tui_screen_reset(&s, 24, 80), 0);
	tui_layout(ui, &s);
	for (size_t i = 0; i < s.n_hits; i++) {
		if (s.hits[i].what == TUI_HIT_COLUMN && s.hits[i].arg == TUI_COL_PID)
			head = (int)i;
		if (s.hits[i].what == TUI_HIT_ROW && s.hits[i].arg == 2)
			row = (int)i;
		if (s.hits[i].what == TUI_KEY_F(1))
			help = (int)i;
	}
	assert_true(head >= 0 && row >= 0 && help >= 0);
	tui_mouse(ui, &s, s.hits[row].y, s.hits[row].x + 3, 0, false);
	assert_int_equal(ui->table.selected, 2);
	tui_mouse(ui, &s, s.hits[head].y, s.hits[head].x, 0, false);
	assert_int_equal(ui->table.sort, TUI_COL_PID);
	tui_mouse(ui, &s, s.hits[row].y, 0, 0, true);
	assert_int_equal(ui->mode, TUI_DETAIL);
	ui->mode = TUI_MAIN;
	tui_mouse(ui, &s, 0, 0, 1, false);
	assert_int_equal(ui->table.selected, 3);
	tui_mouse(ui, &s, 2, 10, 0, false); /* a GPU */
	assert_int_equal(ui->table.gpu, 0);
	assert_int_equal(ui->table.n_rows, 3);
	tui_mouse(ui, &s, s.hits[help].y, s.hits[help].x, 0, false);
	assert_int_equal(ui->mode, TUI_HELP);
	tui_screen_fini(&s);
}

int main(void)
{
#define WITH_UI(f) cmocka_unit_test_setup_teardown(f, open_ui, close_ui)
	const struct CMUnitTest tests[] = {
		WITH_UI(sorts),
		WITH_UI(filters),
		WITH_UI(selection_stays_with_its_process),
		WITH_UI(the_first_row_is_the_first),
		WITH_UI(signals_from_the_detail_screen),
		WITH_UI(jobs_are_read_for_a_process),
		WITH_UI(traffic_is_counted_while_a_process_is_shown),
		WITH_UI(tree),
		WITH_UI(jobs),
		WITH_UI(signals_ask_first),
		WITH_UI(signals_are_refused),
		WITH_UI(environment_is_chosen),
		WITH_UI(intervals),
		WITH_UI(seeks),
		WITH_UI(mouse),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
