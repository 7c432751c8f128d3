/* gpuscope session: the sessions of a head, from the command line. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "server/session_export/session_export.h"
#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "commands/common/cli.h"
#include "commands/common/shared.h"
#include "commands/head/session.h"

#define LIST_MAX 64

enum allowed {                  /* which options a verb takes; ored */
	       TAKES_SHAPE = 1, /* what is measured */
	       TAKES_SWITCH = 2,
	       TAKES_ALL = 4,
	       TAKES_STATE = 8,
	       TAKES_DATA = 16,
	       TAKES_FILE = 32,
	       TAKES_JSON = 64,
	       TAKES_ANNOTATION = 128,
	       TAKES_JOB = 256,
};

struct words {
	char *word[LIST_MAX];
	size_t n;
};

struct session_command {
	struct remote_options remote;
	const struct verb *verb;
	const char *data, *format, *compat, *output, *session, *job;
	uint64_t interval_ns;
	struct words metrics, nodes, reports;
	Gpuscope__V1__Switch bandwidth, nvlink;
	bool all;
	unsigned state;
	int64_t wall_ns;
	char *arg[LIST_MAX];
	size_t n_args;
	unsigned used; /* enum allowed: options that were given */
};

struct verb {
	struct gs_cli_subcommand word;
	unsigned takes; /* enum allowed */
	size_t min_args, max_args;
	int (*run)(const struct session_command *c, struct remote *remote, struct gs_err *err);
};

#define CONTROL "/gpuscope.v1.Control/"

static bool wants_json(const struct session_command *c)
{
	return c->format && strcmp(c->format, "json") == 0;
}

static int show_one(const struct session_command *c, Gpuscope__V1__Session *s)
{
	return session_show(&s, 1, wants_json(c));
}

/* --- verbs --- */

static int start_session(const struct session_command *c, struct remote *remote, struct gs_err *err)
{
	Gpuscope__V1__SessionStart m = GPUSCOPE__V1__SESSION_START__INIT;
	Gpuscope__V1__Session *s;
	int r;

	m.name = c->n_args ? c->arg[0] : "";
	m.interval_ns = c->interval_ns;
	m.metrics = (char **)c->metrics.word;
	m.n_metrics = c->metrics.n;
	m.nodes = (char **)c->nodes.word;
	m.n_nodes = c->nodes.n;
	m.report_metrics = (char **)c->reports.word;
	m.n_report_metrics = c->reports.n;
	m.bandwidth = c->bandwidth == GPUSCOPE__V1__SWITCH__SWITCH_ON;
	m.nvlink = c->nvlink == GPUSCOPE__V1__SWITCH__SWITCH_ON;
	r = remote_call(remote, CONTROL "StartSession", &m.base, &gpuscope__v1__session__descriptor,
			&s, err);
	if (r < 0)
		return r;
	r = show_one(c, s);
	gpuscope__v1__session__free_unpacked(s, NULL);
	return r;
}

/* A call with a session's name that is answered by some. */
static int by_name(const struct session_command *c, struct remote *remote, const char *path,
		   const char *name, struct gs_err *err)
{
	Gpuscope__V1__SessionName m = GPUSCOPE__V1__SESSION_NAME__INIT;
	Gpuscope__V1__Sessions *s;
	int r;

	m.name = (char *)name;
	r = remote_call(remote, path, &m.base, &gpuscope__v1__sessions__descriptor, &s, err);
	if (r < 0)
		return r;
	r = session_show(s->sessions, s->n_sessions, wants_json(c));
	gpuscope__v1__sessions__free_unpacked(s, NULL);
	return r;
}

static int stop_session(const struct session_command *c, struct remote *remote, struct gs_err *err)
{
	return by_name(c, remote, CONTROL "StopSession", c->n_args ? c->arg[0] : "", err);
}

static int delete_session(const struct session_command *c, struct remote *remote,
			  struct gs_err *err)
{
	return by_name(c, remote, CONTROL "DeleteSession", c->arg[0], err);
}

static int resume_session(const struct session_command *c, struct remote *remote,
			  struct gs_err *err)
{
	Gpuscope__V1__SessionName m = GPUSCOPE__V1__SESSION_NAME__INIT;
	Gpuscope__V1__Session *s;
	int r;

	m.name = c->arg[0];
	r = remote_call(remote, CONTROL "ResumeSession", &m.base,
			&gpuscope__v1__session__descriptor, &s, err);
	if (r < 0)
		return r;
	r = show_one(c, s);
	gpuscope__v1__session__free_unpacked(s, NULL);
	return r;
}

/* All pages of it, in one list. */
static int list_sessions(const struct session_command *c, struct remote *remote, struct gs_err *err)
{
	Gpuscope__V1__SessionQuery q = GPUSCOPE__V1__SESSION_QUERY__INIT;
	Gpuscope__V1__Sessions *page[1000];
	Gpuscope__V1__Session **all = NULL, **grown;
	size_t n = 0, n_pages = 0;
	int r = 0;

	q.state = (Gpuscope__V1__SessionState)c->state;
	q.limit = 1000;
	do {
		Gpuscope__V1__Sessions *p;

		r = remote_call(remote, CONTROL "ListSessions", &q.base,
				&gpuscope__v1__sessions__descriptor, &p, err);
		if (r < 0)
			break;
		page[n_pages++] = p;
		grown = reallocarray(all, n + p->n_sessions + 1, sizeof(*grown));
		if (!grown) {
			r = gs_err_set(err, -ENOMEM, "no memory");
			break;
		}
		all = grown;
		memcpy(all + n, p->sessions, p->n_sessions * sizeof(*all));
		n += p->n_sessions;
		q.after = n ? all[n - 1]->id : "";
	} while (page[n_pages - 1]->more && n_pages < GS_ARRAY_LEN(page));
	if (r == 0)
		r = session_show(all, n, wants_json(c));
	free(all);
	while (n_pages)
		gpuscope__v1__sessions__free_unpacked(page[--n_pages], NULL);
	return r;
}

static int show_status(const struct session_command *c, struct remote *remote, struct gs_err *err)
{
	Gpuscope__V1__HeadQuery q = GPUSCOPE__V1__HEAD_QUERY__INIT;
	Gpuscope__V1__HeadStatus *h;
	int r = remote_call(remote, CONTROL "GetHead", &q.base,
			    &gpuscope__v1__head_status__descriptor, &h, err);

	if (r < 0)
		return r;
	r = session_show_head(h, wants_json(c));
	gpuscope__v1__head_status__free_unpacked(h, NULL);
	return r;
}

static int set_values(const struct session_command *c, struct remote *remote, struct gs_err *err)
{
	Gpuscope__V1__Switches m = GPUSCOPE__V1__SWITCHES__INIT;
	Gpuscope__V1__HeadStatus *h;
	int r;

	if (!c->interval_ns && !c->bandwidth && !c->nvlink)
		return gs_err_set(
			err, -EDOM,
			"set needs one of --interval, --enable-bandwidth, --disable-bandwidth, --enable-nvlink, --disable-nvlink");
	m.interval_ns = c->interval_ns;
	m.bandwidth = c->bandwidth;
	m.nvlink = c->nvlink;
	r = remote_call(remote, CONTROL "Set", &m.base, &gpuscope__v1__head_status__descriptor, &h,
			err);
	if (r < 0)
		return r;
	if (wants_json(c))
		r = session_show_head(h, true);
	gpuscope__v1__head_status__free_unpacked(h, NULL);
	return r;
}

static int annotate_session(const struct session_command *c, struct remote *remote,
			    struct gs_err *err)
{
	Gpuscope__V1__Annotation m = GPUSCOPE__V1__ANNOTATION__INIT;
	Gpuscope__V1__Annotation__ValuesEntry value[LIST_MAX], *pointers[LIST_MAX];
	Gpuscope__V1__Session *s;
	int r;

	m.session = (char *)(c->session ? c->session : "");
	m.name = c->arg[0];
	m.wall_ns = c->wall_ns;
	for (size_t i = 1; i < c->n_args; i++) {
		char *equals = strchr(c->arg[i], '='), *end;

		gpuscope__v1__annotation__values_entry__init(&value[i - 1]);
		pointers[i - 1] = &value[i - 1];
		if (!equals || equals == c->arg[i])
			return gs_err_set(err, -EDOM, "\"%s\" is not KEY=NUMBER", c->arg[i]);
		value[i - 1].value = strtod(equals + 1, &end);
		if (end == equals + 1 || *end)
			return gs_err_set(err, -EDOM, "\"%s\" is not KEY=NUMBER", c->arg[i]);
		*equals = 0;
		value[i - 1].key = c->arg[i];
	}
	m.values = pointers;
	m.n_values = c->n_args - 1;
	r = remote_call(remote, CONTROL "AddAnnotation", &m.base,
			&gpuscope__v1__session__descriptor, &s, err);
	if (r == 0)
		gpuscope__v1__session__free_unpacked(s, NULL);
	return r;
}

static int export_session(const struct session_command *c, struct remote *remote,
			  struct gs_err *err)
{
	const char *name = c->compat ? c->compat : c->format ? c->format : "json";
	int format = gs_session_export_format(name);

	if (c->compat && c->format && strcmp(c->format, "json") != 0)
		return gs_err_set(err, -EDOM, "--compat gswarm writes JSON only");
	if (c->compat && strcmp(c->compat, "gswarm") != 0)
		return gs_err_set(err, -EDOM, "--compat takes gswarm only");
	if (format < 0)
		return gs_err_set(err, -EDOM, "--format takes json, csv or gst");
	if (remote)
		return session_export(remote, c->arg[0], (unsigned)format, c->output, err);
	return session_export_store(c->data, c->arg[0], (unsigned)format, c->output, err);
}

static int list_findings(const struct session_command *c, struct remote *remote, struct gs_err *err)
{
	return session_show_findings(c->job, wants_json(c), remote, err);
}

static int list_steps(const struct session_command *c, struct remote *remote, struct gs_err *err)
{
	return session_show_steps(c->job, wants_json(c), remote, err);
}

static const struct verb verbs[] = {
	{GS_CLI_SUBCOMMAND("start", "[NAME]", "start a session"),
	 TAKES_SHAPE | TAKES_SWITCH | TAKES_JSON, 0, 1, start_session},
	{GS_CLI_SUBCOMMAND("stop", "NAME | --all", "stop a session; its data are kept"),
	 TAKES_ALL | TAKES_JSON, 0, 1, stop_session},
	{GS_CLI_SUBCOMMAND("list", "", "list sessions, newest first"),
	 TAKES_STATE | TAKES_DATA | TAKES_JSON, 0, 0, list_sessions},
	{GS_CLI_SUBCOMMAND("status", "", "show the head, its nodes and active sessions"),
	 TAKES_JSON, 0, 0, show_status},
	{GS_CLI_SUBCOMMAND("resume", "NAME", "continue a stopped or interrupted session"),
	 TAKES_JSON, 1, 1, resume_session},
	{GS_CLI_SUBCOMMAND("recover", "NAME", "same as resume"), TAKES_JSON, 1, 1, resume_session},
	{GS_CLI_SUBCOMMAND("export", "NAME", "write a session to a file"), TAKES_DATA | TAKES_FILE,
	 1, 1, export_session},
	{GS_CLI_SUBCOMMAND("delete", "NAME", "delete a session; retention applies to its data"),
	 TAKES_JSON, 1, 1, delete_session},
	{GS_CLI_SUBCOMMAND("annotate", "TEXT [KEY=NUMBER...]",
			   "annotate the current time in active sessions"),
	 TAKES_ANNOTATION, 1, LIST_MAX, annotate_session},
	{GS_CLI_SUBCOMMAND("findings", "", "list late ranks, hangs and slowdowns of jobs"),
	 TAKES_JOB | TAKES_JSON, 0, 0, list_findings},
	{GS_CLI_SUBCOMMAND("steps", "", "show steps of ranks of jobs, side by side"),
	 TAKES_JOB | TAKES_JSON, 0, 0, list_steps},
	{GS_CLI_SUBCOMMAND("set", "", "set what the head records without a session"),
	 TAKES_SHAPE | TAKES_SWITCH | TAKES_JSON, 0, 0, set_values},
};

static const struct gs_cli_subcommand *session_subcommand_at(size_t i)
{
	return i < GS_ARRAY_LEN(verbs) ? &verbs[i].word : NULL;
}

/* --- options --- */

static int add_word(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct words *w = (struct words *)((char *)target + option->offset);

	if (w->n == LIST_MAX)
		return gs_err_set(err, -EINVAL, "--%s takes at most %d words", option->name,
				  LIST_MAX);
	w->word[w->n++] = argument;
	return 0;
}

static unsigned state_of(const char *name)
{
	for (unsigned s = GS_STORE_SESSION_ACTIVE; s <= GS_STORE_SESSION_RECOVERABLE; s++)
		if (strcmp(name, gs_store_session_state_name(s)) == 0)
			return s;
	return 0;
}

static int check_options(void *target, struct gs_err *err)
{
	struct session_command *c = target;
	const struct verb *v = c->verb;
	char names[160];

	if (!v)
		return gs_err_set(err, -EINVAL, "give a command: %s",
				  gs_cli_list_subcommands(&gs_cli_session, names, sizeof(names)));
	if (c->n_args < v->min_args)
		return gs_err_set(err, -EINVAL, "usage: session %s %s", v->word.name, v->word.args);
	if (c->n_args > v->max_args)
		return gs_err_set(err, -EINVAL, "unexpected argument \"%s\"; usage: session %s %s",
				  c->arg[v->max_args], v->word.name, v->word.args);
	if (v->run == stop_session && !c->n_args == !c->all)
		return gs_err_set(err, -EINVAL, "which session? give its NAME, or --all");
	if (c->used & ~v->takes)
		return gs_err_set(err, -EINVAL, "session %s does not take one of these options",
				  v->word.name);
	if (v->run == set_values && (c->metrics.n || c->nodes.n || c->reports.n))
		return gs_err_set(err, -EINVAL, "set takes --interval, bandwidth and nvlink only");
	if (v->run != export_session && c->format && strcmp(c->format, "json") != 0 &&
	    strcmp(c->format, "table") != 0)
		return gs_err_set(err, -EINVAL, "--format takes table or json, not \"%s\"",
				  c->format);
	if (remote_head_from_environment(&c->remote.head, err) < 0)
		return -EINVAL;
	if (!c->remote.head)
		c->remote.head = "127.0.0.1:8090";
	return 0;
}

static int take_word(void *target, char **words, struct gs_err *err)
{
	struct session_command *c = target;
	int i;

	if (!c->verb) {
		i = gs_cli_find_subcommand(&gs_cli_session, words[0]);
		if (i < 0)
			return gs_cli_refuse_subcommand(&gs_cli_session, words[0], err);
		c->verb = &verbs[i];
		return 0;
	}
	if (c->n_args == LIST_MAX)
		return gs_err_set(err, -EINVAL, "too many words");
	c->arg[c->n_args++] = words[0];
	return 0;
}

static int set_switch(void *target, const struct gs_cli_option *option, char *argument,
		      struct gs_err *err)
{
	Gpuscope__V1__Switch *value = (Gpuscope__V1__Switch *)((char *)target + option->offset);

	*value = strncmp(option->name, "enable", 6) == 0 ? GPUSCOPE__V1__SWITCH__SWITCH_ON
							 : GPUSCOPE__V1__SWITCH__SWITCH_OFF;
	return 0;
}

static int set_state(void *target, const struct gs_cli_option *option, char *argument,
		     struct gs_err *err)
{
	struct session_command *c = target;

	c->state = state_of(argument);
	return c->state ? 0 : -EINVAL;
}

static int set_time(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct session_command *c = target;
	char *end;
	double s = strtod(argument, &end);

	if (*end || !(s > 0 && s < 9e9))
		return -EINVAL;
	c->wall_ns = (int64_t)(s * 1e9);
	return 0;
}

static int run_verb(const struct session_command *c)
{
	struct remote *remote = NULL;
	struct gs_err err = {{0}};
	int r = 0;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (c->data && c->verb->run == list_sessions)
		r = session_show_store(c->data, c->state, wants_json(c), &err);
	else if (c->data)
		r = c->verb->run(c, NULL, &err);
	else if ((r = remote_open(&c->remote, &remote, &err)) == 0)
		r = c->verb->run(c, remote, &err);
	remote_close(&remote);
	if (r >= 0)
		return GS_EXIT_DONE;
	gs_cli_print_message("%s", gs_err_text(&err, r));
	return r == -EDOM ? GS_EXIT_USAGE : gs_cli_exit_status_of(r);
}

#define AT(member) GS_CLI_AT(struct session_command, member)

static const struct gs_cli_option option_table[] = {
	GS_CLI_TITLE("What is recorded:"),
	{"interval", 'i', "TIME", "start, set: time between samples (the head's)", GS_CLI_TIME,
	 AT(interval_ns), .min = 1, .data = TAKES_SHAPE},
	{"metrics", 0, "KEY[,KEY]", "start: metrics to record (all; see gpu --fields help)",
	 GS_CLI_LIST, AT(metrics), .data = TAKES_SHAPE, .set = add_word},
	{"nodes", 0, "PATTERN[,PATTERN]", "start: hosts to record, with * and ? (all)", GS_CLI_LIST,
	 AT(nodes), .data = TAKES_SHAPE, .set = add_word},
	{"report-metrics", 0, "NAME[,NAME]", "start: metrics to plot", GS_CLI_LIST, AT(reports),
	 .data = TAKES_SHAPE, .set = add_word},
	{"enable-bandwidth", 0, NULL, "start, set: PCIe and memory counters", GS_CLI_SET,
	 AT(bandwidth), .data = TAKES_SWITCH, .set = set_switch},
	{"disable-bandwidth", 0, NULL, "set: disable unless a session requests it", GS_CLI_SET,
	 AT(bandwidth), .data = TAKES_SWITCH, .set = set_switch},
	{"enable-nvlink", 0, NULL, "start, set: NVLink counters", GS_CLI_SET, AT(nvlink),
	 .data = TAKES_SWITCH, .set = set_switch},
	{"disable-nvlink", 0, NULL, "set: disable unless a session requests it", GS_CLI_SET,
	 AT(nvlink), .data = TAKES_SWITCH, .set = set_switch},
	GS_CLI_TITLE("Which sessions:"),
	{"all", 0, NULL, "stop: every active session", GS_CLI_FLAG, AT(all), .data = TAKES_ALL},
	{"state", 0, "STATE", "list: only active, stopped or recoverable sessions", GS_CLI_SET,
	 .words = "active stopped recoverable", .data = TAKES_STATE, .set = set_state},
	{"job-id", 'j', "ID", "findings, steps: only those of this job", GS_CLI_TEXT, AT(job),
	 .data = TAKES_JOB},
	GS_CLI_TITLE("Output:"),
	{"format", 0, "FORMAT", "table or json; export: json, csv or gst", GS_CLI_TEXT, AT(format)},
	GS_CLI_JSON,
	{"compat", 0, "gswarm", "export: JSON in gswarm-profiler's form", GS_CLI_TEXT, AT(compat),
	 .data = TAKES_FILE},
	{"output", 'o', "FILE", "export: output file (NAME.json here; - standard output)",
	 GS_CLI_TEXT, AT(output), .data = TAKES_FILE},
	GS_CLI_QUIET,
	{"data", 0, "DIR", "list, export: read a head's data directory, running or not",
	 GS_CLI_TEXT, AT(data), .data = TAKES_DATA},
	GS_CLI_TITLE("Annotations:"),
	{"session", 0, "NAME", "annotate: only this session (all active ones)", GS_CLI_TEXT,
	 AT(session), .data = TAKES_ANNOTATION},
	{"time", 0, "SECONDS", "annotate: this time, in seconds since 1970 (now)", GS_CLI_SET,
	 .takes = "seconds since 1970", .data = TAKES_ANNOTATION, .set = set_time},
	GS_CLI_TITLE("The head:"),
	REMOTE_HEAD(struct session_command, remote),
	GS_CLI_END};

const struct gs_cli_command gs_cli_session = {
	.name = "gpuscope session",
	.usage = "COMMAND [ARGUMENT...]",
	.subcommand_at = session_subcommand_at,
	.about = "Controls a head's sessions: named recordings of what nodes measure.",
	.brief = "job-id format output head",
	.options = option_table,
	.groups = {GS_CLI_CONNECTION(struct session_command, remote.connection), GS_CLI_LOG_GROUP},
	.used = 1 + offsetof(struct session_command, used),
	.take_word = take_word,
	.check = check_options,
};

int gs_cmd_session(int argc, char **argv)
{
	struct session_command c = {.used = 0};
	int status;

	return gs_cli_parse(&gs_cli_session, argc, argv, &c, &status) ? run_verb(&c) : status;
}
