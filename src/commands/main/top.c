/* gpuscope top: GPUs, their processes and the machine, on a full screen or once. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#include "core/base/fmt.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "commands/main/top.h"
#include "sources/gpu/select.h"
#include "sources/identity/identity.h"
#include "output/node_report/node.h"

#define INTERVAL_LEAST_NS 50000000ull
#define INTERVAL_MOST_NS  3600000000000ull
#define ONCE_NS           500000000ull /* between the two readings that rates need */
#define PIDS_MAX          64
#define ONCE_COLUMNS      120 /* where the width is not a terminal's */

enum top_format { TOP_TABLE, TOP_JSON, TOP_CSV };

struct top_command {
	struct top_options options;
	bool once, has_format, has_theme;
	enum gs_tui_theme theme;
	enum top_format format;
	char gpus[GS_GPU_LIST_BYTES];
	uint32_t pids[PIDS_MAX];
};

static int add_gpus(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct top_command *c = target;

	c->options.gpus = c->gpus;
	return gs_gpu_list_add(c->gpus, argument, err);
}

static int add_pid(void *target, const struct gs_cli_option *option, char *argument,
		   struct gs_err *err)
{
	struct top_command *c = target;
	struct gs_node_choice *choice = &c->options.choice;

	if (choice->n_pids == PIDS_MAX || gs_cli_parse_pid(argument, &c->pids[choice->n_pids]) < 0)
		return -EINVAL;
	choice->pids = c->pids;
	choice->n_pids++;
	c->options.tui.all = true;
	return 0;
}

static int set_user(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct top_options *o = &((struct top_command *)target)->options;

	o->choice.has_user = o->tui.all = true;
	return gs_cli_parse_user(argument, &o->choice.uid);
}

static int check_options(void *target, struct gs_err *err)
{
	const struct top_command *c = target;
	const struct top_options *o = &c->options;
	bool chosen = o->choice.n_pids || o->choice.has_user;

	if (c->has_format && !c->once)
		return gs_err_set(err, -EINVAL, "--format is for --once");
	if (c->once && o->replay && o->tui.count > 1)
		return gs_err_set(err, -EINVAL,
				  "--once prints the last sample of a recording: leave out -n");
	if (o->replay && o->record)
		return gs_err_set(err, -EINVAL,
				  "--replay and --record exclude each other: copy the file");
	if (o->replay && (o->nvml || (o->tui.all && !chosen)))
		return gs_err_set(
			err, -EINVAL,
			"--replay shows what was recorded: --nvml and -a are for live data");
	if (!c->once && gs_log_level() > GS_LOG_WARNING && isatty(STDERR_FILENO))
		return gs_err_set(err, -EINVAL,
				  "the log would be written over the screen: add --once or 2>FILE");
	return 0;
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

static int print_sample(const struct top_command *c, struct top_findings *findings,
			const struct gs_node_snapshot *before, const struct gs_node_snapshot *node)
{
	const struct gs_tui_source source = {
		.title = "", .wake_fd = -1, .findings = top_findings_at, .findings_ctx = findings};
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
		r = gs_tui_print(stdout, &source, before, node, &c->options.tui,
				 columns_of_output());
		break;
	}
	if (r < 0 && r != -EPIPE)
		gs_cli_print_message("cannot write the output: %s", strerror(-r));
	return r;
}

static int once_live(const struct top_command *c, struct top_live *live, struct gs_err *err)
{
	GS_CLEANUP(gs_node_snapshot_free) struct gs_node_snapshot *before = NULL;
	unsigned n = c->options.tui.count ? c->options.tui.count : 1;
	int r = top_live_read(live, &before, err);

	for (unsigned i = 0; i < n && r == 0; i++) {
		uint64_t ns = i == 0 && c->options.interval_ns > ONCE_NS ? ONCE_NS
									 : c->options.interval_ns;
		struct timespec pause = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
		struct gs_node_snapshot *node = NULL;

		while (nanosleep(&pause, &pause) < 0 && errno == EINTR)
			;
		r = top_live_read(live, &node, err);
		if (r < 0)
			break;
		r = print_sample(c, top_live_findings(live), before, node);
		gs_node_snapshot_free(&before);
		before = node;
		if (r < 0)
			return r;
	}
	if (r < 0)
		gs_cli_print_message("%s", gs_err_text(err, r));
	return r;
}

static int once_replay(const struct top_command *c, struct top_replay *replay, struct gs_err *err)
{
	GS_CLEANUP(gs_node_snapshot_free) struct gs_node_snapshot *before = NULL;
	GS_CLEANUP(gs_node_snapshot_free) struct gs_node_snapshot *node = NULL;
	int r = top_replay_last(replay, &before, &node, err);

	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(err, r));
		return r;
	}
	return print_sample(c, top_replay_findings(replay), before, node);
}

static int run_live(const struct top_command *c, struct gs_err *err)
{
	struct gs_tui_source source;
	struct top_live *live = NULL;
	int r = top_live_new(&c->options, &live, err), close_r;

	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(err, r));
		return r;
	}
	if (c->once) {
		r = once_live(c, live, err);
	} else {
		r = top_live_start(live, &source, err);
		if (r == 0)
			r = gs_tui_run(&source, &c->options.tui, err);
		if (r < 0)
			gs_cli_print_message("%s", gs_err_text(err, r));
	}
	close_r = top_live_close(&live, err);
	if (r == 0 && close_r < 0)
		gs_cli_print_message("%s", gs_err_text(err, close_r));
	return r < 0 ? r : close_r;
}

static int run_replay(const struct top_command *c, struct gs_err *err)
{
	struct gs_tui_source source;
	struct top_replay *replay = NULL;
	int r = top_replay_open(&c->options, &replay, err);

	if (r < 0) {
		gs_cli_print_message("%s", gs_err_text(err, r));
		return r;
	}
	top_replay_position(replay);
	if (c->once) {
		r = once_replay(c, replay, err);
	} else {
		top_replay_source(replay, &source);
		r = gs_tui_run(&source, &c->options.tui, err);
		if (r < 0)
			gs_cli_print_message("%s", gs_err_text(err, r));
	}
	top_replay_close(&replay);
	return r;
}

#define AT(member) GS_CLI_AT(struct top_command, member)

static const struct gs_cli_option option_table[] = {
	{"interval", 'i', "TIME", "time between two readings (1s)", GS_CLI_TIME,
	 AT(options.interval_ns), .min = INTERVAL_LEAST_NS, .max = INTERVAL_MOST_NS},
	GS_CLI_SELECT_GPUS,
	{"pid", 'p', "PID[,PID]", "only these processes", GS_CLI_LIST,
	 .takes = "process ids, such as 1234,1240 (at most 64)", .set = add_pid},
	{"user", 'u', "USER", "only processes and jobs of this user", GS_CLI_SET,
	 .takes = "the name of a user of this machine, or a number", .set = set_user},
	{"all-processes", 'a', NULL, "show every process, not only those on GPUs", GS_CLI_FLAG,
	 AT(options.tui.all)},
	{"jobs", 0, NULL, "start with the jobs; with --once also print them", GS_CLI_FLAG,
	 AT(options.tui.jobs)},
	{"count", 'n', "N", "end after N samples; with --once print N views", GS_CLI_COUNT,
	 AT(options.tui.count), .min = 1},
	{"once", '1', NULL, "print one view and end", GS_CLI_FLAG, AT(once)},
	{"format", 0, "FORMAT", "format of --once: table, json, csv (processes)", GS_CLI_WORD,
	 AT(format), GS_CLI_GIVEN(struct top_command, has_format), .words = "table json csv"},
	GS_CLI_JSON,
	{"record", 0, "FILE.gst", "also record all samples", GS_CLI_TEXT, AT(options.record)},
	{"replay", 0, "FILE.gst", "replay a recording", GS_CLI_TEXT, AT(options.replay)},
	{"read-only", 0, NULL, "send no signals", GS_CLI_FLAG, AT(options.tui.read_only)},
	{"theme", 0, "THEME", "dark, light, mono", GS_CLI_WORD, AT(theme),
	 GS_CLI_GIVEN(struct top_command, has_theme), .words = "dark light mono"},
	{"ascii", 0, NULL, "draw with ASCII only", GS_CLI_FLAG, AT(options.tui.ascii)},
	GS_CLI_COMMANDS,
	GS_CLI_NO_ARGS,
	GS_CLI_NVML(struct top_command, options.nvml),
	GS_CLI_END};

const struct gs_cli_command gs_cli_top = {
	.name = "gpuscope top",
	.about = "Shows GPUs, processes and jobs on a full screen; F1 lists the keys.",
	.notes =
		"Exit status: 0 done, 1 failed, 2 wrong usage, 3 not permitted or not supported here, 4 no such GPU.",
	.brief =
		"interval gpu pid user all-processes jobs count once json record replay read-only no-args",
	.options = option_table,
	.groups = {GS_CLI_LOG_GROUP},
	.check = check_options,
};

int gs_cmd_top(int argc, char **argv)
{
	struct top_command c = {
		.options = {.interval_ns = 1000000000ull, .tui = {.size = sizeof(c.options.tui)}}};
	struct gs_err err = {{0}};
	const char *no_color = getenv("NO_COLOR");
	int r;

	if (!gs_cli_parse(&gs_cli_top, argc, argv, &c, &r))
		return r;
	/* Only what characters are: numbers in JSON and CSV keep their point. */
	setlocale(LC_CTYPE, "");
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		c.options.tui.ascii = true;
	if (!c.once) {
		top_settings_read(&c.options.tui);
		c.options.tui.save = top_settings_save;
	}
	if (c.has_theme)
		c.options.tui.theme = c.theme;
	else if (no_color && *no_color)
		c.options.tui.theme = GS_TUI_MONO;
	c.options.tui.interval_ns = c.options.interval_ns;
	c.options.tui.uid = getuid();
	/* A full disk or a closed pipe is reported, it does not kill. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	r = c.options.replay ? run_replay(&c, &err) : run_live(&c, &err);
	if (r == -ENODEV) /* of --gpu */
		return GS_EXIT_NOTHING;
	if (r == -EINVAL && c.options.gpus)
		return GS_EXIT_USAGE;
	return r < 0 ? gs_cli_exit_status_of(r) : GS_EXIT_DONE;
}
