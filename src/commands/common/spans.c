/* Where spans go: a file, or a collector by way of output/metrics_push. */
#include "commands/common/spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common/cli.h"
#include "core/base/mem.h"
#include "core/base/output.h"
#include "output/metrics_push/push.h"
#include "output/trace_export/spans.h"

#define DRAIN_NS 10000000000ull

struct gs_cli_spans {
	const char *path;              /* borrowed */
	struct gs_export_spans *spans; /* NULL: the parent is not sampled */
	struct gs_aggregate *view;     /* borrowed */
	struct gs_sink none;
	struct gs_output file; /* of a path */
	struct gs_push *push;  /* owned; of a URL */
};

bool gs_cli_spans_is_url(const char *path)
{
	return strncmp(path, "http://", 7) == 0 || strncmp(path, "https://", 8) == 0 ||
	       strncmp(path, "grpc://", 7) == 0 || strncmp(path, "grpcs://", 8) == 0;
}

bool gs_cli_spans_knows(const char *path)
{
	size_t n = strlen(path);

	if (gs_cli_spans_is_url(path))
		return gs_push_otlp_url_valid(path);
	return n > 5 && strcmp(path + n - 5, ".otlp") == 0 && path[n - 6] != '/';
}

static int push_nothing(void *ctx, const struct gs_batch *batch)
{
	return 0;
}

static int put_message(void *ctx, const void *data, size_t bytes, uint32_t n_spans)
{
	struct gs_cli_spans *s = ctx;
	const uint8_t *at = data;

	/* What has no room is counted, and more may have it later. */
	if (s->push)
		return gs_push_put(s->push, data, bytes, n_spans) == -ENOMEM ? -ENOMEM : 0;
	while (bytes) {
		ssize_t n = write(s->file.fd, at, bytes);

		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	return 0;
}

static void take_step(void *ctx, const struct gs_aggregate_step *step)
{
	struct gs_cli_spans *s = ctx;

	gs_export_spans_step(s->spans, &(struct gs_export_step){.process = step->process,
								.tid = step->tid,
								.start_ns = step->start_ns,
								.dur_ns = step->dur_ns,
								.is_regular = step->regular});
}

static void log_push(void *ctx, const char *text)
{
	gs_cli_print_message("%s", text);
}

/* "authorization=Bearer%20TOKEN" among headers with commas, as OpenTelemetry's variable has them. */
static void read_token(char *ret_token, size_t bytes)
{
	static const char key[] = "authorization=Bearer";
	const char *at = getenv("OTEL_EXPORTER_OTLP_HEADERS");

	ret_token[0] = '\0';
	for (; at && *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
		at += strspn(at, " ");
		if (strncasecmp(at, key, sizeof(key) - 1) != 0)
			continue;
		at += sizeof(key) - 1;
		at += strncmp(at, "%20", 3) == 0 ? 3 : *at == ' ';
		snprintf(ret_token, bytes, "%.*s", (int)strcspn(at, ","), at);
		return;
	}
}

static int open_collector(struct gs_cli_spans *s, struct gs_err *err)
{
	char token[512];
	const struct gs_push_options o = {.size = sizeof(o),
					  .protocol = GS_PUSH_OTLP_TRACES,
					  .url = s->path,
					  .token = token,
					  .ca_file = getenv("OTEL_EXPORTER_OTLP_CERTIFICATE"),
					  .interval_ns = 1000000000,
					  .on_message = log_push};
	int r;

	read_token(token, sizeof(token));
	r = gs_push_start(&o, &s->push, err);
	explicit_bzero(token, sizeof(token));
	return r;
}

/* *ret_parent is filled; false: there is none. */
static bool has_parent(const char *text, struct gs_export_parent *ret_parent)
{
	if (!text || !text[0])
		return false;
	if (gs_export_parent_parse(text, ret_parent) == 0)
		return true;
	gs_cli_print_message(
		"TRACEPARENT is not valid, and not used: the spans are a trace of their own");
	return false;
}

int gs_cli_spans_open(const char *path, const char *traceparent, bool is_private,
		      struct gs_aggregate *view, struct gs_cli_spans **ret, struct gs_err *err)
{
	GS_CLEANUP(gs_cli_spans_abandon) struct gs_cli_spans *s = calloc(1, sizeof(*s));
	struct gs_export_parent parent;
	struct gs_export_spans_options o = {.size = sizeof(o),
					    .parent = has_parent(traceparent, &parent) ? &parent
										       : NULL,
					    .put = put_message,
					    .ctx = s};
	int r;

	if (!s)
		return gs_err_set(err, -ENOMEM, "no memory");
	s->path = path;
	s->file = (struct gs_output)GS_OUTPUT_INIT;
	s->none = (struct gs_sink){.push = push_nothing};
	if (o.parent && !parent.is_sampled) {
		gs_cli_print_message("%s gets no spans: the trace of TRACEPARENT is not sampled",
				     path);
		*ret = gs_take(s);
		return 0;
	}
	r = gs_cli_spans_is_url(path)
		    ? open_collector(s, err)
		    : gs_output_open(path, is_private ? GS_OUTPUT_PRIVATE : 0, &s->file, err);
	if (r < 0)
		return r;
	r = gs_export_spans_new(&o, &s->spans);
	if (r < 0)
		return gs_err_set(err, r, "no memory");
	s->view = view;
	gs_aggregate_set_step_receiver(view, take_step, s);
	*ret = gs_take(s);
	return 0;
}

const struct gs_sink *gs_cli_spans_sink(struct gs_cli_spans *s)
{
	return s->spans ? gs_export_spans_sink(s->spans) : &s->none;
}

void gs_cli_spans_abandon(struct gs_cli_spans **spans)
{
	struct gs_cli_spans *s = *spans;

	if (!s)
		return;
	if (s->view)
		gs_aggregate_set_step_receiver(s->view, NULL, s);
	gs_export_spans_free(&s->spans);
	gs_push_stop(&s->push, 0);
	(void)gs_output_close(&s->file, -ECANCELED, NULL);
	gs_free_p(spans);
}

/* 0, or -EIO: not all of them. */
static int close_collector(struct gs_cli_spans *s, const struct gs_export_spans_stats *made,
			   bool is_quiet)
{
	struct gs_push_stats sent;

	gs_push_end(s->push, DRAIN_NS);
	gs_push_stats(s->push, &sent);
	gs_push_stop(&s->push, 0);
	if (sent.samples < made->n_spans) {
		gs_cli_print_message("%s has %llu of %llu spans%s%s", s->path,
				     (unsigned long long)sent.samples,
				     (unsigned long long)made->n_spans, sent.trouble[0] ? ": " : "",
				     sent.trouble);
		return -EIO;
	}
	if (!is_quiet)
		gs_cli_print_message("sent %llu spans to %s", (unsigned long long)made->n_spans,
				     s->path);
	return 0;
}

int gs_cli_spans_close(struct gs_cli_spans **spans, bool is_quiet)
{
	struct gs_cli_spans *s = *spans;
	struct gs_export_spans_stats made;
	struct gs_err err = {{0}};
	int r;

	if (!s || !s->spans) {
		gs_cli_spans_abandon(spans);
		return 0;
	}
	r = gs_export_spans_end(s->spans);
	gs_export_spans_stats(s->spans, &made);
	if (r == 0 && made.n_spans <= 1) /* the command, at most */
		gs_cli_print_message(
			"%s has no step, operator or collective: --layer torch,nccl traces operators and collectives",
			s->path);
	if (r == 0 && s->push) {
		r = close_collector(s, &made, is_quiet);
	} else if (!s->push) {
		r = gs_output_close(&s->file, r, &err);
		if (r == 0 && !is_quiet)
			gs_cli_report_written(s->path, NULL);
	}
	if (r < 0 && err.text[0])
		gs_cli_print_message("%s", err.text);
	if (made.n_left_out && !is_quiet)
		gs_cli_print_message("%llu spans were left out by sampling",
				     (unsigned long long)made.n_left_out);
	gs_cli_spans_abandon(spans);
	return r;
}
