/* gsprof's commands that need no gRPC: stat draws a file, http-* speak to a head's HTTP API. */
#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <string.h>

#include "compat/gswarm/gswarm_int.h"
#include "commands/common/cli.h"
#include "commands/head/session.h"
#include "net/http_client/http_client.h"
#include "output/plot/plot.h"
#include "core/text/text.h"

#define ANSWER_MAX (4 << 20)
#define TIMEOUT_NS 30000000000ull
#define EXPORT_NS  86400000000000ull /* a session may be of months */

/* --- stat --- */

struct stat_options {
	char *data;
	const char *plot;
};

static int set_plot(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	struct stat_options *o = target;

	o->plot = argument;
	return gs_plot_knows(argument) ? 0 : -EINVAL;
}

static int check_stat(void *target, struct gs_err *err)
{
	const struct stat_options *o = target;

	return o->data ? 0 : gs_err_set(err, -EINVAL, "which file? --data SESSION.json");
}

static const struct gs_cli_option stat_options[] = {
	{"data", 'd', "FILE", "a session's file (.json, .gst)", GS_CLI_TEXT,
	 GS_CLI_AT(struct stat_options, data)},
	{"plot", 'p', "FILE", "the figure: .pdf, .svg or .png (the file's name.pdf)", GS_CLI_SET,
	 .takes = "a file ending in one of " GS_PLOT_SUFFIXES, .set = set_plot},
	GS_CLI_END};

int gswarm_run_stat(int argc, char **argv)
{
	const struct gs_cli_command command = {.name = argv[0],
					       .about = "Draws a session.",
					       .options = stat_options,
					       .check = check_stat};
	struct stat_options o = {.data = NULL};
	char figure[1024];
	const char *name, *dot;
	int status;

	if (!gs_cli_parse(&command, argc, argv, &o, &status))
		return status;
	if (!o.plot) {
		name = strrchr(o.data, '/') ? strrchr(o.data, '/') + 1 : o.data;
		dot = strrchr(name, '.');
		snprintf(figure, sizeof(figure), "%.*s.pdf",
			 dot && dot != name ? (int)(dot - o.data) : (int)strlen(o.data), o.data);
		o.plot = figure;
	}
	return gs_cmd_plot(&o.data, 1, o.plot, 0);
}

/* --- http-profile, http-stop, http-status --- */

struct http_options {
	const char *name, *head;
	bool has_head;
};

static int take_head(void *target, char **words, struct gs_err *err)
{
	struct http_options *o = target;

	if (o->has_head)
		return gs_err_set(err, -EINVAL, "what is \"%s\"?", words[0]);
	o->head = words[0];
	o->has_head = true;
	return 0;
}

/* What the head says, harmless, on one line of this stream. */
static void print_text(FILE *to, const char *text)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf b = GS_BUF_INIT(1 << 16);

	if (gs_text_line(&b, text) == 0)
		fprintf(to, "%s%.*s\n", to == stderr ? "gpuscope: " : "", (int)b.bytes,
			(const char *)b.data);
}

/* "message" of an answer, or of the error in it; NULL: it has none. */
static const char *message_of(const json_t *answer)
{
	const char *text = json_string_value(json_object_get(answer, "message"));

	return text ? text
		    : json_string_value(
			      json_object_get(json_object_get(answer, "error"), "message"));
}

static int report_answer(const struct gs_buf *body, long status, bool whole)
{
	json_t *answer = json_loadb((const char *)body->data, body->bytes, 0, NULL);
	const char *message = message_of(answer);
	char *text = NULL;
	int r = GS_EXIT_FAILED;

	if (status >= 200 && status < 300 && answer) {
		text = whole ? json_dumps(answer, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
		if (text)
			puts(text);
		else
			print_text(stdout, message ? message : "done");
		r = GS_EXIT_DONE;
	} else if (message) {
		print_text(stderr, message);
	} else {
		gs_cli_print_message(
			"the head answered %ld, in a form that this command does not understand",
			status);
	}
	free(text);
	json_decref(answer);
	return r;
}

static int ask_head(const struct http_options *o, const char *path, json_t *body, bool whole)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf answer = GS_BUF_INIT(ANSWER_MAX);
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	atomic_bool stop = false;
	char url[600];
	struct gs_http_client_http q = {.url = url,
					.body = text,
					.bytes = text ? strlen(text) : 0,
					.timeout_ns = TIMEOUT_NS,
					.stop = &stop,
					.answer = &answer};
	struct gs_err err = {{0}};
	long status = 0;
	int r = body && !text ? -ENOMEM : gs_http_client_load(&err);

	snprintf(url, sizeof(url), "http://%s%s", o->head, path);
	if (r == 0)
		r = gs_http_client_http(&q, &status, NULL, &err);
	if (r < 0)
		gs_cli_print_message("no head answers at %s: %s", o->head, gs_err_text(&err, r));
	else
		r = report_answer(&answer, status, whole);
	free(text);
	return r < 0 ? GS_EXIT_FAILED : r;
}

/* --- what http-stop leaves here: gswarm's head wrote NAME.json when a session stopped --- */

/* The sessions that are active. NULL: the head has no such list (it is gswarm's own). */
static json_t *active_of(const struct http_options *o)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf answer = GS_BUF_INIT(ANSWER_MAX);
	atomic_bool stop = false;
	char url[600];
	struct gs_http_client_http q = {
		.url = url, .timeout_ns = TIMEOUT_NS, .stop = &stop, .answer = &answer};
	struct gs_err err = {{0}};
	long status = 0;
	json_t *all = NULL;

	snprintf(url, sizeof(url), "http://%s/api/v1/sessions?state=active&limit=2000", o->head);
	if (gs_http_client_load(&err) == 0 && gs_http_client_http(&q, &status, NULL, &err) == 0 &&
	    status == 200)
		all = json_loadb((const char *)answer.data, answer.bytes, 0, NULL);
	return all;
}

struct file_request {
	const struct http_options *o;
	const char *id;
};

static int fill_file(void *fill_ctx, session_take take, void *ctx, struct gs_err *err)
{
	const struct file_request *w = fill_ctx;
	atomic_bool stop = false;
	char url[600];
	struct gs_http_client_http q = {
		.url = url, .timeout_ns = EXPORT_NS, .stop = &stop, .take = take, .take_ctx = ctx};
	long status = 0;
	int r;

	snprintf(url, sizeof(url), "http://%s/api/v1/sessions/%s/export?format=gswarm", w->o->head,
		 w->id);
	r = gs_http_client_http(&q, &status, NULL, err);
	if (r == 0 && status != 200)
		r = gs_err_set(err, -EIO, "the head answered %ld, without the session's file",
			       status);
	return r;
}

static int fetch_stopped(const struct http_options *o, const json_t *active)
{
	json_t *s;
	size_t i;

	json_array_foreach(json_object_get(active, "sessions"), i, s)
	{
		const char *name = json_string_value(json_object_get(s, "name")),
			   *id = json_string_value(json_object_get(s, "id"));
		struct file_request w = {o, id};
		char file[300];
		struct gs_err err = {{0}};
		int r;

		if (!name || !id || strlen(id) > 64 || (o->name && strcmp(o->name, name) != 0))
			continue;
		snprintf(file, sizeof(file), "%s.json", name);
		r = session_write_file(file, fill_file, &w, &err);
		if (r < 0) {
			gs_cli_print_message("%s", gs_err_text(&err, r));
			return GS_EXIT_FAILED;
		}
	}
	return GS_EXIT_DONE;
}

static int stop_by_http(const struct http_options *o, json_t *body)
{
	json_t *active = active_of(o);
	int r = ask_head(o, "/profiling/stop", body, false);

	if (r == GS_EXIT_DONE)
		r = fetch_stopped(o, active);
	json_decref(active);
	return r;
}

int gswarm_run_http(int argc, char **argv, const char *command)
{
	static const struct gs_cli_option named[] = {{"name", 'n', "NAME", "of the session",
						      GS_CLI_TEXT,
						      GS_CLI_AT(struct http_options, name)},
						     GS_CLI_END};
	bool is_status = strcmp(command, "http-status") == 0;
	const struct gs_cli_command line = {
		.name = argv[0],
		.usage = "[HEAD:PORT]",
		.about = "The same by HTTP; HEAD:PORT is localhost:8091 where none is given.",
		.options = is_status ? NULL : named,
		.take_word = take_head};
	struct http_options o = {.head = "localhost:8091"};
	json_t *body = NULL;
	int r, status;

	if (!gs_cli_parse(&line, argc, argv, &o, &status))
		return status;
	if (is_status)
		return ask_head(&o, "/status", NULL, true);
	body = o.name ? json_pack("{s:s}", "name", o.name) : json_object();
	if (!body) {
		gs_cli_print_message("the name of a session is text in UTF-8");
		return GS_EXIT_USAGE;
	}
	r = strcmp(command, "http-stop") == 0 ? stop_by_http(&o, body)
					      : ask_head(&o, "/profiling/start", body, false);
	json_decref(body);
	return r;
}
