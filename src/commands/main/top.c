/* gpuscope top: GPUs, their processes and the machine, on a full screen or once. */
#include <argp.h>
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "core/base/fmt.h"
#include "commands/common/cli.h"
#include "commands/main/top.h"
#include "sources/gpu/select.h"
#include "sources/identity/identity.h"
#include "output/node_report/node.h"

enum {
	OPT_INTERVAL = 256,
	OPT_ONCE,
	OPT_FORMAT,
	OPT_READ_ONLY,
	OPT_ASCII,
	OPT_THEME,
	OPT_REPLAY,
	OPT_RECORD,
	OPT_NVML,
	OPT_COMMANDS,
};

#define INTERVAL_LEAST_NS 50000000ull
#define INTERVAL_MOST_NS  3600000000000ull
#define ONCE_NS           500000000ull /* between the two readings that rates need */
#define ONCE_COLUMNS      120          /* where the width is not a terminal's */

enum top_format { TOP_TABLE, TOP_JSON, TOP_CSV };

struct top_command {
	struct top_options options;
	bool once, has_format, has_theme;
	enum top_format format;
	char gpus[GS_GPU_LIST_BYTES];
};

static int word_in(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(word, words[i]) == 0)
			return (int)i;
	return -1;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	static const char *const formats[] = {"table", "json", "csv"};
	static const char *const themes[] = {"dark", "light", "mono"};
	struct top_command *c = state->input;
	struct top_options *o = &c->options;
	struct gs_err err;
	int n;

	switch (key) {
	case OPT_INTERVAL:
	case 'd':
		if (gs_parse_ns(arg, 1000000000ull, &o->interval_ns) < 0 ||
		    o->interval_ns < INTERVAL_LEAST_NS || o->interval_ns > INTERVAL_MOST_NS)
			argp_error(state,
				   "--interval takes 50ms to 1h, such as 2 (seconds) or 500ms");
		return 0;
	case OPT_ONCE:
	case '1':
		c->once = true;
		return 0;
	case OPT_FORMAT:
		n = word_in(arg, formats, GS_ARRAY_LEN(formats));
		if (n < 0)
			argp_error(state, "--format takes table, json or csv");
		c->format = (enum top_format)n;
		c->has_format = true;
		return 0;
	case OPT_THEME:
		n = word_in(arg, themes, GS_ARRAY_LEN(themes));
		if (n < 0)
			argp_error(state, "--theme takes dark, light or mono");
		o->tui.theme = (enum gs_tui_theme)n;
		c->has_theme = true;
		return 0;
	case OPT_READ_ONLY:
		o->tui.read_only = true;
		return 0;
	case OPT_ASCII:
		o->tui.ascii = true;
		return 0;
	case 'a':
		o->tui.all = true;
		return 0;
	case 'j':
		o->tui.jobs = true;
		return 0;
	case OPT_REPLAY:
		o->replay = arg;
		return 0;
	case OPT_RECORD:
		o->record = arg;
		return 0;
	case OPT_COMMANDS:
		if (!gs_identity_choose_commands(arg))
			argp_error(state, "--commands takes scrubbed, name or full, not \"%s\"",
				   arg);
		return 0;
	case OPT_NVML:
		o->nvml = arg;
		return 0;
	case 'i':
		if (gs_gpu_list_add(c->gpus, arg, &err) < 0)
			argp_error(state, "-i: %s", err.text);
		o->gpus = c->gpus;
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "what is \"%s\"? top takes options only", arg);
		return 0;
	case ARGP_KEY_END:
		if (c->has_format && !c->once)
			argp_error(state, "--format is for --once");
		if (o->replay && o->record)
			argp_error(state,
				   "--replay and --record exclude each other: copy the file");
		if (o->replay && (o->nvml || o->tui.all))
			argp_error(state,
				   "--replay shows what was recorded: --nvml and -a are for this "
				   "machine");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int columns_of_output(void)
{
	struct winsize w;
	const char *text = getenv("COLUMNS");
	long n = text ? strtol(text, NULL, 10) : 0;

	if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
		return w.ws_col;
	return n >= 20 && n <= 1000 ? (int)n : ONCE_COLUMNS;
}

static int print_sample(const struct top_command *c, const struct gs_node_snapshot *before,
			const struct gs_node_snapshot *node)
{
	int r;

	switch (c->format) {
	case TOP_JSON:
		r = gs_report_node_json(stdout, node);
		break;
	case TOP_CSV:
		r = c->options.tui.jobs ? gs_report_node_jobs_csv(stdout, node)
					: gs_report_node_csv(stdout, node);
		break;
	default:
		r = gs_tui_print(stdout, before, node, &c->options.tui, columns_of_output());
		break;
	}
	if (r < 0 && r != -EPIPE)
		gs_cli_say("cannot write the output: %s", strerror(-r));
	return r;
}

static int once_live(const struct top_command *c, struct top_live *live, struct gs_err *err)
{
	GS_CLEANUP(gs_node_snapshot_free) struct gs_node_snapshot *before = NULL;
	GS_CLEANUP(gs_node_snapshot_free) struct gs_node_snapshot *node = NULL;
	uint64_t ns = c->options.interval_ns < ONCE_NS ? c->options.interval_ns : ONCE_NS;
	struct timespec pause = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
	int r = top_live_read(live, &before, err);

	if (r < 0) {
		gs_cli_say("%s", gs_err_text(err, r));
		return r;
	}
	while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
		;
	r = top_live_read(live, &node, err);
	if (r < 0) {
		gs_cli_say("%s", gs_err_text(err, r));
		return r;
	}
	return print_sample(c, before, node);
}

static int once_replay(const struct top_command *c, struct top_replay *replay, struct gs_err *err)
{
	GS_CLEANUP(gs_node_snapshot_free) struct gs_node_snapshot *before = NULL;
	GS_CLEANUP(gs_node_snapshot_free) struct gs_node_snapshot *node = NULL;
	int r = top_replay_last(replay, &before, &node, err);

	if (r < 0) {
		gs_cli_say("%s", gs_err_text(err, r));
		return r;
	}
	return print_sample(c, before, node);
}

static int run_live(const struct top_command *c, struct gs_err *err)
{
	struct gs_tui_source source;
	struct top_live *live = NULL;
	int r = top_live_new(&c->options, &live, err), close_r;

	if (r < 0) {
		gs_cli_say("%s", gs_err_text(err, r));
		return r;
	}
	if (c->once) {
		r = once_live(c, live, err);
	} else {
		r = top_live_start(live, &source, err);
		if (r == 0)
			r = gs_tui_run(&source, &c->options.tui, err);
		if (r < 0)
			gs_cli_say("%s", gs_err_text(err, r));
	}
	close_r = top_live_close(&live, err);
	if (r == 0 && close_r < 0)
		gs_cli_say("%s", gs_err_text(err, close_r));
	return r < 0 ? r : close_r;
}

static int run_replay(const struct top_command *c, struct gs_err *err)
{
	struct gs_tui_source source;
	struct top_replay *replay = NULL;
	int r = top_replay_open(&c->options, &replay, err);

	if (r < 0) {
		gs_cli_say("%s", gs_err_text(err, r));
		return r;
	}
	top_replay_position(replay);
	if (c->once) {
		r = once_replay(c, replay, err);
	} else {
		top_replay_source(replay, &source);
		r = gs_tui_run(&source, &c->options.tui, err);
		if (r < 0)
			gs_cli_say("%s", gs_err_text(err, r));
	}
	top_replay_close(&replay);
	return r;
}

int gs_cmd_top(int argc, char **argv)
{
	static const struct argp_option option_table[] = {
		{"interval", OPT_INTERVAL, "TIME", 0, "between two readings (default 1 s)", 0},
		{NULL, 'd', "TIME", OPTION_ALIAS, NULL, 0},
		{"id", 'i', "GPU[,GPU]", 0,
		 "only these: index, UUID (or its beginning), PCI bus id, or INDEX:PART", 0},
		{"all-processes", 'a', NULL, 0, "begin with all processes, not only those on GPUs",
		 0},
		{"jobs", 'j', NULL, 0,
		 "begin with the jobs of the machine; with --once read them too", 0},
		{"once", OPT_ONCE, NULL, 0, "print one view and end", 0},
		{NULL, '1', NULL, OPTION_ALIAS, NULL, 0},
		{"format", OPT_FORMAT, "FORMAT", 0, "of --once: table, json, csv (processes)", 0},
		{"record", OPT_RECORD, "FILE.gst", 0, "also write everything that is read", 0},
		{"replay", OPT_REPLAY, "FILE.gst", 0, "show what was recorded", 0},
		{"read-only", OPT_READ_ONLY, NULL, 0, "send no signals", 0},
		{"theme", OPT_THEME, "THEME", 0, "dark, light, mono", 0},
		{"ascii", OPT_ASCII, NULL, 0, "draw with ASCII only", 0},
		{"commands", OPT_COMMANDS, "WHAT", 0,
		 "arguments of processes: scrubbed, name (none), full", 0},
		{"nvml", OPT_NVML, "PATH", 0, "another libnvidia-ml.so.1", 0},
		{0},
	};
	static const struct argp argp = {
		.options = option_table,
		.parser = parse_option,
		.help_filter = gs_cli_help_filter,
		.doc = "GPUs, their processes and the machine on a full screen; F1 tells the "
		       "keys.\v"
		       "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not permitted or not "
		       "supported here.",
	};
	struct top_command c = {
		.options = {.interval_ns = 1000000000ull, .tui = {.size = sizeof(c.options.tui)}}};
	struct gs_err err = {{0}};
	const char *no_color = getenv("NO_COLOR");
	int r;

	argp_err_exit_status = GS_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &c) != 0)
		return GS_EXIT_USAGE;
	/* Only what characters are: numbers in JSON and CSV keep their point. */
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		c.options.tui.ascii = true;
	if (no_color && *no_color && !c.has_theme)
		c.options.tui.theme = GS_TUI_MONO;
	c.options.tui.interval_ns = c.options.interval_ns;
	c.options.tui.uid = getuid();
	/* A full disk or a closed pipe is told, it does not kill. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	r = c.options.replay ? run_replay(&c, &err) : run_live(&c, &err);
	if (r == -ENODEV) /* of -i */
		return GS_EXIT_USAGE;
	return r < 0 ? gs_cli_exit_status_of(r) : GS_EXIT_DONE;
}
