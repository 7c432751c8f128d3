/*
 * Screens as text against tests/golden/top_*.txt; GS_GOLDEN_UPDATE=1 writes these files anew (then
 * look at what changed).
 */
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "sample.h"
#include "output/tui/input.h"
#include "output/tui/layout.h"

static const struct gs_tui_source live = {.title = "", .wake_fd = -1};

struct view {
	struct tui_ui ui;
	struct tui_screen screen;
	struct gs_buf text;
};

static void view_open(struct view *v, bool ascii)
{
	struct gs_tui_options o = {
		.size = sizeof(o), .interval_ns = 1000000000ull, .ascii = ascii, .uid = 1000};

	memset(v, 0, sizeof(*v));
	v->text = GS_BUF_INIT(16u << 20);
	v->screen.ascii = ascii;
	assert_int_equal(tui_ui_init(&v->ui, &live, &o), 0);
}

static void view_close(struct view *v)
{
	tui_ui_fini(&v->ui);
	tui_screen_fini(&v->screen);
	gs_buf_fini(&v->text);
}

static const char *render(struct view *v, int rows, int columns)
{
	gs_buf_reset(&v->text);
	assert_int_equal(tui_screen_reset(&v->screen, rows, columns), 0);
	tui_layout(&v->ui, &v->screen);
	assert_int_equal(tui_screen_text(&v->screen, &v->text), 0);
	assert_int_equal(gs_buf_put(&v->text, "", 1), 0);
	return (const char *)v->text.data;
}

static void check(const char *name, const char *text)
{
	char path[512];
	GS_FREE char *golden = calloc(1, 1u << 20);
	GS_FCLOSE FILE *f = NULL;

	assert_non_null(golden);
	snprintf(path, sizeof(path), "%s/top_%s.txt", GS_GOLDEN_DIR, name);
	f = fopen(path, getenv("GS_GOLDEN_UPDATE") ? "we" : "re");
	if (!f)
		fail_msg("%s: %s; GS_GOLDEN_UPDATE=1 writes it", path, strerror(errno));
	if (getenv("GS_GOLDEN_UPDATE")) {
		assert_true(fputs(text, f) >= 0);
		return;
	}
	assert_true(fread(golden, 1, (1u << 20) - 1, f) < (1u << 20) - 1);
	assert_string_equal(text, golden);
}

static void feed(struct view *v, uint32_t n_gpus, uint32_t n_processes, unsigned moments)
{
	for (unsigned t = 0; t < moments; t++)
		assert_int_equal(tui_ui_show(&v->ui, sample_node(n_gpus, n_processes, t)), 0);
}

static void screens(void **state)
{
	static const struct {
		const char *name;
		uint32_t n_gpus, n_processes;
		int rows, columns;
		bool ascii;
	} cases[] = {
		{"2gpus_80x24", 2, 5, 24, 80, false},    {"2gpus_80x24_ascii", 2, 5, 24, 80, true},
		{"8gpus_80x24", 8, 16, 24, 80, false},   {"8gpus_200x50", 8, 16, 50, 200, false},
		{"64gpus_80x24", 64, 64, 24, 80, false}, {"64gpus_200x50", 64, 64, 50, 200, false},
		{"0gpus_80x24", 0, 4, 24, 80, false},    {"8gpus_20x5", 8, 4, 5, 20, false},
		{"8gpus_1x1", 8, 4, 1, 1, false},        {"8gpus_40x12", 8, 4, 12, 40, false},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct view v;

		view_open(&v, cases[i].ascii);
		feed(&v, cases[i].n_gpus, cases[i].n_processes, 30);
		if (!cases[i].n_gpus) {
			v.ui.node->gpu->state = GS_GPU_STATE_NO_DRIVER;
			strcpy(v.ui.node->gpu->state_text,
			       "the driver is not loaded: modprobe nvidia");
		}
		check(cases[i].name, render(&v, cases[i].rows, cases[i].columns));
		view_close(&v);
	}
}

/* Every size, every mode, many GPUs and none: nothing is written beside the screen (ASan), each
 * line is as wide as it may be. */
static void every_size(void **state)
{
	static const int sizes[] = {1, 2, 3, 4, 5, 7, 8, 11, 20, 33, 79, 150, 300};
	static const enum tui_mode modes[] = {TUI_MAIN,       TUI_HELP,    TUI_DETAIL,
					      TUI_FILTER,     TUI_SIGNAL,  TUI_CONFIRM,
					      TUI_JOB_DETAIL, TUI_FINDINGS};
	static const uint32_t gpus[] = {0, 1, 9, 130};

	for (size_t g = 0; g < GS_ARRAY_LEN(gpus); g++) {
		struct view v;

		view_open(&v, false);
		feed(&v, gpus[g], 40, 3);
		sample_jobs(v.ui.node, 20);
		v.ui.shows_jobs = g % 2;
		assert_int_equal(tui_ui_fill(&v.ui), 0);
		v.ui.table.tree = g % 2;
		assert_int_equal(tui_table_fill(&v.ui.table, v.ui.node, 1000), 0);
		v.ui.detail_pid = 101;
		for (size_t m = 0; m < GS_ARRAY_LEN(modes); m++)
			for (size_t a = 0; a < GS_ARRAY_LEN(sizes); a++)
				for (size_t b = 0; b < GS_ARRAY_LEN(sizes); b++) {
					const char *text;
					int lines = 0;

					v.ui.mode = modes[m];
					text = render(&v, sizes[a], sizes[b]);
					for (const char *p = text; *p; lines++) {
						char line[4096];
						size_t n = strcspn(p, "\n");

						assert_true(n < sizeof(line));
						memcpy(line, p, n);
						line[n] = '\0';
						assert_true(tui_columns_of(line) <= sizes[b]);
						p += n + 1;
					}
					assert_int_equal(lines, sizes[a]);
				}
		view_close(&v);
	}
}

/* Names chosen by users: control characters, wide ones, those that turn the direction of writing,
 * bytes that are no UTF-8. */
static void names_are_tamed(void **state)
{
	static const char hostile[] =
		"a\x1b[31mred\x07\nb \xe4\xb8\xad\xe6\x96\x87 \xe2\x80\xaetxt.exe "
		"\xff\xc3( \xc2\x9b"
		"1m e\xcc\x81 end";
	struct view v;
	struct gs_node_snapshot *n = sample_node(1, 1, 0);
	const char *text;

	strcpy(n->host->process[0].cmdline, hostile);
	strcpy(n->host->process[0].user, "\xc3\xa4\xc3\xb6\xc3\xbc\x1b]0;x\x07");
	strcpy(n->gpu->info[0].name, "NVIDIA \x1b[2JH100\r");
	strcpy(n->name, "no\tde\x7f");
	view_open(&v, false);
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	text = render(&v, 24, 120);
	for (const char *p = text; *p; p++)
		assert_true((unsigned char)*p >= 0x20 || *p == '\n');
	assert_null(strstr(text, "\xe2\x80\xae"));
	assert_null(strstr(text, "\xc2\x9b"));
	assert_non_null(strstr(text, "a?[31mred??b \xe4\xb8\xad\xe6\x96\x87 txt.exe ?"
				     "?( ?1m e end"));
	assert_non_null(strstr(text, "\xc3\xa4\xc3\xb6\xc3\xbc?]0;x"));
	check("names_120x24", text);
	view_close(&v);
	/* With ASCII only, nothing else is drawn, and what is beside wide characters stays there.
	 */
	view_open(&v, true);
	n = sample_node(1, 1, 0);
	strcpy(n->host->process[0].cmdline, hostile);
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	text = render(&v, 24, 120);
	for (const char *p = text; *p; p++)
		assert_true((unsigned char)*p < 0x7f);
	assert_non_null(strstr(text, "b ???? txt"));
	view_close(&v);
}

static void jobs(void **state)
{
	static const struct {
		const char *name;
		uint32_t n_gpus;
		int rows, columns;
		enum tui_mode mode;
	} cases[] = {
		{"jobs_80x24", 2, 24, 80, TUI_MAIN},
		{"jobs_140x30", 4, 30, 140, TUI_MAIN},
		{"jobs_0gpus_100x24", 0, 24, 100, TUI_MAIN},
		{"job_detail_80x24", 2, 24, 80, TUI_JOB_DETAIL},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_node_snapshot *n = sample_node(cases[i].n_gpus, 4, 1);
		struct view v;

		sample_jobs(n, 7);
		snprintf(n->host->process[2].job, sizeof(n->host->process[2].job), "4705");
		view_open(&v, false);
		v.ui.shows_jobs = true;
		assert_int_equal(tui_ui_show(&v.ui, n), 0);
		if (cases[i].mode == TUI_JOB_DETAIL)
			tui_key(&v.ui, TUI_KEY_ENTER, cases[i].rows);
		assert_int_equal(v.ui.mode, cases[i].mode);
		check(cases[i].name, render(&v, cases[i].rows, cases[i].columns));
		view_close(&v);
	}
}

/* Every word of a screen of lines can be read, however small the terminal: by scrolling. */
static void scrolls(void **state)
{
	static const struct {
		enum tui_mode mode;
		const char *last;
	} screens[] = {{TUI_HELP, "held."}, {TUI_DETAIL, "THE_END"}, {TUI_JOB_DETAIL, "rank 2"}};
	static const int sizes[][2] = {{24, 80}, {10, 40}, {5, 30}, {3, 20}};

	for (size_t i = 0; i < GS_ARRAY_LEN(screens); i++)
		for (size_t k = 0; k < GS_ARRAY_LEN(sizes); k++) {
			struct gs_node_snapshot *n = sample_node(2, 4, 1);
			int rows = sizes[k][0], columns = sizes[k][1], steps = 0, top;
			struct view v;

			sample_jobs(n, 7);
			for (int p = 0; p < 3; p++)
				snprintf(n->host->process[p].job, sizeof(n->host->process[p].job),
					 "4705");
			view_open(&v, false);
			v.ui.shows_jobs = screens[i].mode == TUI_JOB_DETAIL;
			assert_int_equal(tui_ui_show(&v.ui, n), 0);
			assert_int_equal(
				gs_buf_puts(&v.ui.environment, "CUDA_A=1\nCUDA_B=THE_END\n"), 0);
			assert_int_equal(gs_buf_put(&v.ui.environment, "", 1), 0);
			v.ui.mode = screens[i].mode;
			v.ui.detail_pid = 101;
			strcpy(v.ui.jobs.detail_id, v.ui.jobs.selected_id);
			v.ui.jobs.detail_kind = v.ui.jobs.selected_kind;
			while (!strstr(render(&v, rows, columns), screens[i].last)) {
				if (++steps > 300)
					fail_msg("mode %d, %dx%d: no \"%s\":\n%s", screens[i].mode,
						 columns, rows, screens[i].last, v.text.data);
				tui_key(&v.ui, TUI_KEY_DOWN, rows);
			}
			/* The help fits the usual terminal. */
			if (screens[i].mode == TUI_HELP && k == 0)
				assert_int_equal(steps, 0);
			/* No way beyond the end that would have to be gone back. */
			for (int j = 0; j < 50; j++)
				tui_key(&v.ui, TUI_KEY_PAGE_DOWN, rows);
			render(&v, rows, columns);
			top = v.ui.detail_top;
			tui_key(&v.ui, TUI_KEY_UP, rows);
			render(&v, rows, columns);
			assert_int_equal(v.ui.detail_top, top ? top - 1 : 0);
			view_close(&v);
		}
}

/* Where the time of its threads went, of a process whose job is counted. */
static void detail_of_a_counted_process(void **state)
{
	struct gs_node_snapshot *n = sample_node(2, 4, 1);
	struct gs_job_process *p = calloc(1, sizeof(*p));
	struct view v;

	view_open(&v, false);
	sample_jobs(n, 2);
	p->pid = n->host->process[1].pid;
	p->start_ns = n->host->process[1].start_ns;
	p->part_ns[GS_TIME_CPU] = 30000000000;
	p->part_ns[GS_TIME_LOCK] = 10000000000;
	n->jobs->process = p;
	n->jobs->n_processes = 1;
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	v.ui.mode = TUI_DETAIL;
	v.ui.detail_pid = p->pid;
	v.ui.detail_start_ns = p->start_ns;
	assert_non_null(strstr(render(&v, 40, 80), "40s of all its threads:"));
	assert_non_null(strstr(render(&v, 40, 80), " 75.0%  on CPU"));
	assert_non_null(strstr(render(&v, 40, 80), " 25.0%  locks"));
	v.ui.detail_pid = n->host->process[2].pid;
	v.ui.detail_start_ns = n->host->process[2].start_ns;
	assert_null(strstr(render(&v, 40, 80), "of all its threads"));
	view_close(&v);
}

/* A GPU that falls off the bus while one of its processes is shown. */
static void detail_of_a_lost_gpu(void **state)
{
	struct gs_node_snapshot *n = sample_node(2, 4, 1);
	struct view v;

	view_open(&v, false);
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	tui_key(&v.ui, TUI_KEY_ENTER, 24);
	assert_null(strstr(render(&v, 24, 80), "LOST"));
	n = sample_node(2, 4, 2);
	n->gpu->sample[0].lost = n->gpu->sample[1].lost = 1;
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	assert_non_null(strstr(render(&v, 24, 80), "LOST"));
	/* The driver no longer tells of its processes; the machine may. */
	n = sample_node(2, 4, 3);
	n->gpu->n_processes = 0;
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	assert_non_null(strstr(render(&v, 24, 80), "python train.py"));
	n = sample_node(2, 0, 4);
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	assert_non_null(strstr(render(&v, 24, 80), "It has ended, or is on no GPU any more."));
	view_close(&v);
}

/* What is wrong and what to do is whole on the usual terminal, and what failed is told. */
static void troubles_are_readable(void **state)
{
	struct gs_node_snapshot *n = sample_node(0, 4, 1);
	struct view v;
	const char *text;

	view_open(&v, false);
	n->gpu->state = GS_GPU_STATE_NO_LIBRARY;
	strcpy(n->gpu->state_text, "libnvidia-ml.so.1 was not found: NVIDIA's driver is not "
				   "installed here, or its library "
				   "lies elsewhere (--nvml, the agent's gpu.library)");
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	assert_non_null(strstr(render(&v, 24, 80), "gpu.library)"));
	v.ui.print_all = true;
	assert_non_null(strstr(render(&v, tui_rows_of_all(&v.ui, 80), 80), "gpu.library)"));
	v.ui.print_all = false;
	n = sample_node(1, 1, 2);
	n->gpu->failed_calls = 7;
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	text = render(&v, 24, 80);
	assert_non_null(strstr(text, "so far 7 calls of the driver failed"));
	view_close(&v);
}

static void unknown_is_not_zero(void **state)
{
	struct gs_node_snapshot *n = sample_node(1, 1, 0);
	struct view v;
	const char *text;

	memset(n->gpu->sample[0].why, GS_GPU_REASON_NOT_SUPPORTED, sizeof(n->gpu->sample[0].why));
	n->gpu->process[0].sm_ratio = -1;
	n->gpu->process[0].used_bytes = -1;
	n->host->process[0].cpu_ratio = -1;
	view_open(&v, false);
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	text = render(&v, 24, 100);
	check("unknown_100x24", text);
	assert_null(strstr(text, "  0%"));
	assert_null(strstr(text, "nan"));
	view_close(&v);
}

static void worst_comes_first(void **state)
{
	struct gs_node_snapshot *n = sample_node(6, 6, 40);
	struct view v;

	view_open(&v, false);
	feed(&v, 6, 6, 1);
	n->gpu->sample[2].lost = 1;
	gs_gpu_set(&n->gpu->sample[3], GS_GPU_THROTTLE_REASONS, 0x40 | 0x4);
	gs_gpu_set(&n->gpu->sample[4], GS_GPU_TEMP_GPU, 89);
	gs_gpu_set(&n->gpu->sample[0], GS_GPU_THROTTLE_REASONS, 0x4);
	n->gpu->n_events = 1;
	n->gpu->event = calloc(1, sizeof(*n->gpu->event));
	*n->gpu->event = (struct gs_gpu_event){.time_ns = n->time_ns, .xid = 79};
	strcpy(n->gpu->event->pci_bus_id, n->gpu->info[5].pci_bus_id);
	strcpy(n->gpu->event->text, "GPU has fallen off the bus");
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	assert_memory_equal(v.ui.gpu_order, ((uint32_t[]){2, 5, 3, 4, 0, 1}), 6 * sizeof(uint32_t));
	check("worst_120x30", render(&v, 30, 120));
	tui_key(&v.ui, 'o', 24);
	assert_memory_equal(v.ui.gpu_order, ((uint32_t[]){0, 1, 2, 3, 4, 5}), 6 * sizeof(uint32_t));
	view_close(&v);
}

static void idle_though_held(void **state)
{
	struct view v;

	view_open(&v, false);
	for (unsigned t = 0; t < 60; t++) {
		struct gs_node_snapshot *n = sample_node(2, 1, t);

		gs_gpu_set(&n->gpu->sample[0], GS_GPU_UTIL, 0);
		gs_gpu_set(&n->gpu->sample[1], GS_GPU_UTIL, 0);
		assert_int_equal(tui_ui_show(&v.ui, n), 0);
	}
	assert_string_equal(v.ui.health[0].text, "idle for at least 59 s, held by alice");
	assert_int_equal(v.ui.health[1].level, 0); /* nobody is on it */
	view_close(&v);
}

static void parts_stay_with_their_gpu(void **state)
{
	struct gs_node_snapshot *n = sample_node(4, 0, 1);
	struct view v;

	for (uint32_t i = 2; i < 4; i++) {
		n->gpu->info[i].index = 1;
		n->gpu->info[i].is_mig = 1;
		n->gpu->info[i].gpu_instance = (int32_t)i;
		strcpy(n->gpu->info[i].mig_profile, "1g.10gb");
	}
	n->gpu->sample[3].lost = 1;
	view_open(&v, false);
	assert_int_equal(tui_ui_show(&v.ui, n), 0);
	assert_memory_equal(v.ui.gpu_order, ((uint32_t[]){1, 2, 3, 0}), 4 * sizeof(uint32_t));
	assert_non_null(strstr(render(&v, 24, 80), " 1:2 1g.10gb"));
	view_close(&v);
}

/* --- findings --- */

static const struct gs_tui_finding found[] = {
	{"12:03:11", "node7 GPU 1 XID 79: GPU has fallen off the bus",
	 "cause: not known; see: gpuscope top", "Look this number up in NVIDIA's XID guide."},
	{"11:58:02", "steps take 24.8 % longer (1.00 s -> 1.25 s)",
	 "cause: waiting for the GPU: 257 ms more in each step (988 ms -> 1.24 s), 100 % of the difference; "
	 "node7 GPU 0 has had hw_thermal_slowdown since then; see: gpuscope trace --by stream -p 4711",
	 "Check fans, airflow, and the load of its neighbours."},
};

/* Time decides which hold: the second one from 15 s on. */
static size_t give_findings(void *ctx, uint64_t time_ns, struct gs_tui_finding *ret, size_t most)
{
	size_t n = time_ns >= SAMPLE_START_NS + 15000000000ull ? 2 : 1;

	assert_ptr_equal(ctx, found);
	assert_true(n <= most);
	memcpy(ret, found, n * sizeof(*ret));
	return n;
}

static const struct gs_tui_source finding = {
	.title = "", .wake_fd = -1, .findings = give_findings, .findings_ctx = (void *)found};

/* Every word of it, in this order, whatever lines it was broken into. */
static void assert_words(const char *text, const char *words)
{
	while (*words) {
		char word[64];
		size_t n = strcspn(words, " ");

		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		text = strstr(text, word);
		if (!text)
			fail_msg("no \"%s\"", word);
		words += n;
		words += strspn(words, " ");
	}
}

static void findings_are_shown(void **state)
{
	struct view v;
	char *printed = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&printed, &bytes);
	const char *text;

	view_open(&v, true);
	v.ui.source = &finding;
	feed(&v, 2, 5, 3);
	text = render(&v, 24, 80);
	assert_words(text, "f: why since 12:03:11: node7 GPU 1 XID 79: GPU has fallen off the bus");
	assert_null(strstr(text, "1 of"));
	feed(&v, 2, 5, 30);
	assert_words(
		render(&v, 24, 40),
		"f: why (1 of 2) since 12:03:11: node7 GPU 1 XID 79: GPU has fallen off the bus");
	render(&v, 5, 80); /* no room */
	tui_key(&v.ui, 'f', 24);
	text = render(&v, 24, 80);
	for (size_t i = 0; i < 2; i++) {
		assert_words(text, found[i].text);
		assert_non_null(strstr(text, found[i].since));
		assert_words(text, found[i].advice);
	}
	assert_words(text, "since 12:03:11 cause not known do Look");
	assert_words(text, "since 11:58:02 cause waiting for the GPU: 257 ms more");
	assert_words(
		text,
		"do Check fans, airflow, and the load of its neighbours. see gpuscope trace --by stream -p 4711");
	assert_null(strstr(text, "gpuscope top\n")); /* it is this screen */
	/* On a small one the rest comes by scrolling. */
	assert_null(strstr(render(&v, 8, 50), "neighbours"));
	for (unsigned i = 0; i < 60; i++)
		tui_key(&v.ui, TUI_KEY_DOWN, 8);
	assert_non_null(strstr(render(&v, 8, 50), "neighbours"));
	tui_key(&v.ui, 'q', 24);
	assert_int_equal(v.ui.mode, TUI_MAIN);
	tui_key(&v.ui, TUI_KEY_F(1), 24);
	assert_non_null(strstr(render(&v, 30, 80), "findings that hold"));
	v.ui.mode = TUI_MAIN;
	v.ui.source = &live; /* that knows none */
	tui_key(&v.ui, 'f', 24);
	assert_int_equal(v.ui.mode, TUI_MAIN);

	assert_non_null(out);
	assert_int_equal(gs_tui_print(out, &finding, NULL, v.ui.node, &v.ui.options, 60), 0);
	assert_int_equal(fclose(out), 0);
	for (size_t i = 0; i < 2; i++) {
		assert_words(printed, found[i].text);
		assert_words(printed, found[i].cause);
		assert_words(printed, found[i].advice);
	}
	free(printed);
	view_close(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(screens),
		cmocka_unit_test(findings_are_shown),
		cmocka_unit_test(every_size),
		cmocka_unit_test(names_are_tamed),
		cmocka_unit_test(unknown_is_not_zero),
		cmocka_unit_test(jobs),
		cmocka_unit_test(scrolls),
		cmocka_unit_test(troubles_are_readable),
		cmocka_unit_test(detail_of_a_counted_process),
		cmocka_unit_test(detail_of_a_lost_gpu),
		cmocka_unit_test(worst_comes_first),
		cmocka_unit_test(idle_though_held),
		cmocka_unit_test(parts_stay_with_their_gpu),
	};

	setlocale(LC_CTYPE, "C.UTF-8");
	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
