/*
 * gsprof: the command lines of gswarm-profiler, unchanged. start and connect are our own head and
 * connect; profile, stop, status and exit are calls of gswarm's interface, and so work with a head
 * of either kind; recover lists, resumes and exports what a head of ours keeps.
 */
#include "compat/gswarm/gswarm_int.h"

#include <errno.h>
#include <string.h>

#include "server/session_export/session_export.h"
#include "commands/common/cli.h"
#include "commands/head/session.h"
#include "core/text/text.h"

#define SERVICE   "/gswarm_profiler.ProfilerService/"
#define WORDS_MAX 32

struct gsprof {
	struct remote_options remote;
	const char *name, *data, *session_id;
	char *report[WORDS_MAX];
	size_t n_report;
	bool list, export, has_head;
};

static int report_failure(int r, const struct gs_err *err)
{
	gs_cli_print_message("%s", gs_err_text(err, r));
	/* That program knows no status for what is not there. */
	return r == -ESRCH ? GS_EXIT_FAILED : gs_cli_exit_status_of(r);
}

/* A head's words, harmless. */
static void print_line(const char *what, const char *text)
{
	struct gs_buf b = GS_BUF_INIT(1 << 16);

	if (gs_text_line(&b, text) == 0)
		printf("%s%.*s\n", what, (int)b.bytes, (const char *)b.data);
	gs_buf_fini(&b);
}

/* --- calls --- */

static int start_profile(const struct gsprof *g, struct remote *remote, struct gs_err *err)
{
	GswarmProfiler__StartProfilingRequest m = GSWARM_PROFILER__START_PROFILING_REQUEST__INIT;
	GswarmProfiler__StartProfilingResponse *out;
	int r;

	m.name = (char *)(g->name ? g->name : "");
	m.report_metrics = (char **)g->report;
	m.n_report_metrics = g->n_report;
	r = remote_call(remote, SERVICE "StartProfiling", &m.base,
			&gswarm_profiler__start_profiling_response__descriptor, &out, err);
	if (r < 0)
		return r;
	if (out->success)
		print_line("profiling, output file ", out->output_file);
	else
		r = gs_err_set(err, -EEXIST, "%s", out->message);
	gswarm_profiler__start_profiling_response__free_unpacked(out, NULL);
	return r;
}

/* Names of the sessions that are active at a head of ours; 0 of another. */
static Gpuscope__V1__HeadStatus *head_of(struct remote *remote)
{
	Gpuscope__V1__HeadQuery q = GPUSCOPE__V1__HEAD_QUERY__INIT;
	Gpuscope__V1__HeadStatus *h = NULL;
	struct gs_err err = {{0}};

	if (remote_call(remote, "/gpuscope.v1.Control/GetHead", &q.base,
			&gpuscope__v1__head_status__descriptor, &h, &err) < 0)
		return NULL;
	return h;
}

/* gswarm's head writes the file when a session stops: we fetch it. */
static int fetch_file(const struct gsprof *g, struct remote *remote,
		      const Gpuscope__V1__HeadStatus *h, struct gs_err *err)
{
	int r = 0;

	for (size_t i = 0; h && r == 0 && i < h->n_active; i++)
		if (!g->name || strcmp(h->active[i]->name, g->name) == 0)
			r = session_export(remote, h->active[i]->id, GS_SESSION_EXPORT_GSWARM, NULL,
					   err);
	return r;
}

static int stop_profile(const struct gsprof *g, struct remote *remote, struct gs_err *err)
{
	GswarmProfiler__StopProfilingRequest m = GSWARM_PROFILER__STOP_PROFILING_REQUEST__INIT;
	GswarmProfiler__StopProfilingResponse *out;
	Gpuscope__V1__HeadStatus *h = head_of(remote);
	int r;

	m.name = (char *)(g->name ? g->name : "");
	r = remote_call(remote, SERVICE "StopProfiling", &m.base,
			&gswarm_profiler__stop_profiling_response__descriptor, &out, err);
	if (r == 0) {
		if (out->success)
			print_line("", out->message);
		else
			r = gs_err_set(err, -ENOENT, "%s", out->message);
		gswarm_profiler__stop_profiling_response__free_unpacked(out, NULL);
	}
	if (r == 0)
		r = fetch_file(g, remote, h, err);
	if (h)
		gpuscope__v1__head_status__free_unpacked(h, NULL);
	return r;
}

static int show_status(const struct gsprof *g, struct remote *remote, struct gs_err *err)
{
	GswarmProfiler__Empty m = GSWARM_PROFILER__EMPTY__INIT;
	GswarmProfiler__StatusResponse *s;
	int r = remote_call(remote, SERVICE "GetStatus", &m.base,
			    &gswarm_profiler__status_response__descriptor, &s, err);

	if (r < 0)
		return r;
	printf("freq: %d ms\nbandwidth profiling: %s\nNVLink profiling: %s\nprofiling: %s\n",
	       s->freq, s->enable_bandwidth_profiling ? "enabled" : "disabled",
	       s->enable_nvlink_profiling ? "enabled" : "disabled", s->is_profiling ? "yes" : "no");
	if (s->is_profiling) {
		print_line("output file: ", s->output_filename);
		printf("frame: %d\n", s->frame_id_counter);
	}
	printf("connected clients: %zu\n", s->n_connected_clients);
	for (size_t i = 0; i < s->n_connected_clients; i++)
		print_line("  ", s->connected_clients[i]);
	if (s->active_sessions_json[0])
		print_line("active sessions: ", s->active_sessions_json);
	gswarm_profiler__status_response__free_unpacked(s, NULL);
	return 0;
}

static int end_profile(const struct gsprof *g, struct remote *remote, struct gs_err *err)
{
	GswarmProfiler__Empty m = GSWARM_PROFILER__EMPTY__INIT, *out;
	int r = remote_call(remote, SERVICE "Exit", &m.base, &gswarm_profiler__empty__descriptor,
			    &out, err);

	if (r == 0)
		gswarm_profiler__empty__free_unpacked(out, NULL);
	return r;
}

static int recover_profile(const struct gsprof *g, struct remote *remote, struct gs_err *err)
{
	Gpuscope__V1__SessionQuery q = GPUSCOPE__V1__SESSION_QUERY__INIT;
	Gpuscope__V1__SessionName n = GPUSCOPE__V1__SESSION_NAME__INIT;
	const char *which = g->session_id ? g->session_id : g->name;
	Gpuscope__V1__Sessions *list;
	Gpuscope__V1__Session *one;
	int r;

	if (g->export && which)
		return session_export(remote, which, GS_SESSION_EXPORT_GSWARM, NULL, err);
	if (which) {
		n.name = (char *)which;
		r = remote_call(remote, "/gpuscope.v1.Control/ResumeSession", &n.base,
				&gpuscope__v1__session__descriptor, &one, err);
		if (r < 0)
			return r;
		r = session_show(&one, 1, false);
		gpuscope__v1__session__free_unpacked(one, NULL);
		return r;
	}
	q.limit = 1000;
	r = remote_call(remote, "/gpuscope.v1.Control/ListSessions", &q.base,
			&gpuscope__v1__sessions__descriptor, &list, err);
	if (r < 0)
		return r;
	r = session_show(list->sessions, list->n_sessions, false);
	gpuscope__v1__sessions__free_unpacked(list, NULL);
	return r;
}

/* The same without a head, of what it left. */
static int recover_data(const struct gsprof *g, struct gs_err *err)
{
	const char *which = g->session_id ? g->session_id : g->name;

	if (!which)
		return session_show_store(g->data, 0, false, err);
	if (!g->export)
		return gs_err_set(
			err, -EINVAL,
			"only a running head can resume a session: start it, or give --export");
	return session_export_store(g->data, which, GS_SESSION_EXPORT_GSWARM, NULL, err);
}

/* --- command lines of calls --- */

static int add_metric(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	struct gsprof *g = target;

	if (g->n_report == WORDS_MAX)
		return gs_err_set(err, -EINVAL, "more than %d metrics", WORDS_MAX);
	g->report[g->n_report++] = argument;
	return 0;
}

static int take_head(void *target, char **words, struct gs_err *err)
{
	struct gsprof *g = target;

	if (g->has_head)
		return gs_err_set(err, -EINVAL, "what is \"%s\"?", words[0]);
	g->remote.head = words[0];
	g->has_head = true;
	return remote_check_address(words[0], err);
}

#define AT(member) GS_CLI_AT(struct gsprof, member)
#define NAME_ROW                                                                                   \
	{                                                                                          \
		"name", 'n', "NAME", "name of the session", GS_CLI_TEXT, AT(name)                  \
	}
#define HEAD_ROW REMOTE_HEAD(struct gsprof, remote)

static const struct gs_cli_option profile_options[] = {
	NAME_ROW,
	{"report-metrics", 'r', "NAME,...", "metrics to plot", GS_CLI_LIST, .set = add_metric},
	HEAD_ROW,
	GS_CLI_END};
static const struct gs_cli_option stop_options[] = {NAME_ROW, HEAD_ROW, GS_CLI_END};
static const struct gs_cli_option no_options[] = {HEAD_ROW, GS_CLI_END};
static const struct gs_cli_option recover_options[] = {
	{"list", 'l', NULL, "list sessions", GS_CLI_FLAG, AT(list)},
	{"session-id", 0, "ID", "session with this ID", GS_CLI_TEXT, AT(session_id)},
	NAME_ROW,
	{"export", 'e', NULL, "write NAME.json instead of resuming the session", GS_CLI_FLAG,
	 AT(export)},
	{"data", 0, "DIR", "read the data of a stopped head", GS_CLI_TEXT, AT(data)},
	HEAD_ROW,
	GS_CLI_END};

static const struct call_row {
	const char *name, *help;
	const struct gs_cli_option *options;
	int (*run)(const struct gsprof *g, struct remote *remote, struct gs_err *err);
	bool needs_head;
} calls[] = {
	{"profile", "Starts a session.", profile_options, start_profile, false},
	{"stop", "Stops a session, or all, and writes NAME.json to the current directory.",
	 stop_options, stop_profile, false},
	{"status", "Shows the state of a head.", no_options, show_status, false},
	{"exit", "Stops a head that allows it.", no_options, end_profile, true},
	{"recover", "Lists sessions, resumes one, or writes one to a file.", recover_options,
	 recover_profile, false},
};

static int run_call(const struct call_row *row, int argc, char **argv)
{
	const struct gs_cli_command command = {
		.name = argv[0],
		.usage = row->run == recover_profile ? NULL : "[HEAD:PORT]",
		.about = row->help,
		.options = row->options,
		.groups = {GS_CLI_CONNECTION(struct gsprof, remote.connection)},
		.take_word = take_head};
	struct gsprof g = {.remote = {.head = "localhost:8090"}};
	struct remote *remote = NULL;
	struct gs_err err = {{0}};
	int r, status;

	if (!gs_cli_parse(&command, argc, argv, &g, &status))
		return status;
	if (row->needs_head && !g.has_head) {
		gs_cli_print_message("which head? gsprof %s HEAD:PORT", row->name);
		return GS_EXIT_USAGE;
	}
	if (row->run == recover_profile && !g.list && !g.session_id && !g.name) {
		gs_cli_print_message(
			"recover what? --list, --session-id ID or --name NAME, with --export for a file");
		return GS_EXIT_USAGE;
	}
	if (g.data)
		r = recover_data(&g, &err);
	else if ((r = remote_open(&g.remote, &remote, &err)) == 0)
		r = row->run(&g, remote, &err);
	remote_close(&remote);
	return r < 0 ? report_failure(r, &err) : GS_EXIT_DONE;
}

/* --- start --- */

struct start {
	const char *host, *port;
	const char *word[WORDS_MAX];
	char option[WORDS_MAX][32], interval[32]; /* texts of words */
	int n;
};

static void pass_word(struct start *s, const char *word)
{
	if (s->n < WORDS_MAX - 1)
		s->word[s->n++] = word;
}

/* Our head's has the same name. */
static int pass_option(void *target, const struct gs_cli_option *option, char *argument,
		       struct gs_err *err)
{
	struct start *s = target;
	char *text = s->option[s->n < WORDS_MAX ? s->n : 0];

	if (s->n + 2 >= WORDS_MAX)
		return gs_err_set(err, -EINVAL, "more than %d words", WORDS_MAX);
	snprintf(text, sizeof(s->option[0]), "--%s", option->name);
	pass_word(s, text);
	if (argument)
		pass_word(s, argument);
	return 0;
}

/* gswarm's plain number is milliseconds. */
static int set_interval(void *target, const struct gs_cli_option *option, char *argument,
			struct gs_err *err)
{
	struct start *s = target;
	bool is_plain = *argument && strspn(argument, "0123456789.") == strlen(argument);

	snprintf(s->interval, sizeof(s->interval), "%.24s%s", argument, is_plain ? "ms" : "");
	return 0;
}

#define START_AT(member) GS_CLI_AT(struct start, member)

static const struct gs_cli_option start_options[] = {
	{"host", 0, "HOST", "address to listen on, for HTTP too (localhost)", GS_CLI_TEXT,
	 START_AT(host)},
	{"port", 'p', "PORT", "port to listen on (8090)", GS_CLI_TEXT, START_AT(port)},
	{"http-port", 0, "PORT", "port of page and HTTP API; 0 none (8091)", GS_CLI_SET,
	 .set = pass_option},
	{"freq", 'f', "MS", "time between samples in ms (500)", GS_CLI_SET, .set = set_interval},
	{"enable-bandwidth", 0, NULL, "read PCIe and memory counters", GS_CLI_SET,
	 .set = pass_option},
	{"disable-bandwidth", 0, NULL, "do not read them (default)", GS_CLI_SET,
	 .set = pass_option},
	{"enable-nvlink", 0, NULL, "read NVLink counters", GS_CLI_SET, .set = pass_option},
	{"disable-nvlink", 0, NULL, "do not read them (default)", GS_CLI_SET, .set = pass_option},
	{"anonymous-control", 0, NULL, "let anyone who can connect control it, as gswarm does",
	 GS_CLI_SET, .set = pass_option},
	{"background", 'b', NULL, "return once it listens", GS_CLI_SET, .set = pass_option},
	{"http-origins", 0, "URL,...", "origins whose pages may use the HTTP API (CORS)",
	 GS_CLI_SET, .set = pass_option},
	{"data", 0, "DIR", "data directory (.gswarm_profiler_data)", GS_CLI_SET,
	 .set = pass_option},
	{"output-dir", 0, "DIR", "write each stopped session to DIR: NAME.json, NAME.png (.)",
	 GS_CLI_SET, .set = pass_option},
	GS_CLI_END};

static int start_head(int argc, char **argv)
{
	const struct gs_cli_command command = {
		.name = argv[0], .about = "Starts the head.", .options = start_options};
	struct start s = {.host = "localhost", .port = "8090", .interval = "500ms", .n = 1};
	char address[300];
	int status;

	s.word[0] = argv[0];
	pass_word(&s, "--allow-exit");
	pass_word(&s, "--data");
	pass_word(&s, ".gswarm_profiler_data");
	pass_word(&s, "--output-dir"); /* as its head, where it was started */
	pass_word(&s, ".");
	if (!gs_cli_parse(&command, argc, argv, &s, &status))
		return status;
	pass_word(&s, "--interval");
	pass_word(&s, s.interval);
	snprintf(address, sizeof(address), strchr(s.host, ':') ? "[%s]:%s" : "%s:%s", s.host,
		 s.port);
	pass_word(&s, "--listen");
	pass_word(&s, address);
	pass_word(&s, "--http-listen"); /* its head's HTTP is where its gRPC is */
	pass_word(&s, s.host);
	pass_word(&s, "--http-anonymous"); /* as its HTTP API is, for all who reach that address */
	s.word[s.n] = NULL;
	return gs_cmd_head(s.n, (char **)s.word);
}

/* --- the program --- */

static void print_help(FILE *out)
{
	fputs("Usage: gsprof COMMAND [OPTION...]\n\n"
	      "The commands of gswarm-profiler, done by gpuscope.\n\n"
	      "  start    the head\n"
	      "  connect  measure this node and deliver it to a head\n",
	      out);
	for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++)
		fprintf(out, "  %-8s %s\n", calls[i].name, calls[i].help);
	fputs("  stat     Draws a session's file.\n"
	      "  http-profile, http-stop, http-status  the same by a head's HTTP.\n"
	      "  generate-grpc  needs nothing: the code for gRPC is built in.\n",
	      out);
	fputs("\nRun `gsprof COMMAND --help` for its options.\n", out);
}

int gswarm_run_gsprof(int argc, char **argv)
{
	char name[64];

	if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    (strcmp(argv[1], "help") == 0 && argc == 2)) {
		print_help(argc < 2 ? stderr : stdout);
		return argc < 2 ? GS_EXIT_USAGE : GS_EXIT_DONE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		printf("gsprof (gpuscope %s)\n", GS_VERSION);
		return GS_EXIT_DONE;
	}
	if (strcmp(argv[1], "help") == 0) { /* help CMD is CMD --help */
		argv[1] = argv[2];
		argv[2] = (char *)"--help";
	}
	snprintf(name, sizeof(name), "gsprof %s", argv[1]);
	for (size_t i = 0; i < GS_ARRAY_LEN(calls); i++)
		if (strcmp(argv[1], calls[i].name) == 0) {
			argv[1] = name;
			return run_call(&calls[i], argc - 1, argv + 1);
		}
	if (strcmp(argv[1], "start") == 0 || strcmp(argv[1], "connect") == 0) {
		bool is_start = argv[1][0] == 's';

		argv[1] = name;
		return is_start ? start_head(argc - 1, argv + 1)
				: gs_cmd_connect(argc - 1, argv + 1);
	}
	if (strcmp(argv[1], "stat") == 0) {
		argv[1] = name;
		return gswarm_run_stat(argc - 1, argv + 1);
	}
	if (strcmp(argv[1], "http-profile") == 0 || strcmp(argv[1], "http-stop") == 0 ||
	    strcmp(argv[1], "http-status") == 0) {
		char *command = argv[1];

		argv[1] = name;
		return gswarm_run_http(argc - 1, argv + 1, command);
	}
	if (strcmp(argv[1], "generate-grpc") == 0) {
		gs_cli_print_message(
			"generate-grpc: there is nothing to generate, the code for gRPC is built in (other programs generate theirs from proto/gswarm_profiler.proto of gpuscope's source)");
		return GS_EXIT_DONE;
	}
	gs_cli_print_message("no command \"%s\": `gsprof help` lists them", argv[1]);
	return GS_EXIT_USAGE;
}
