/* Spans beside the other outputs; whose TRACEPARENT they have. */
#include "commands/trace_output/trace_spans.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "sources/host/host.h"

#define ENVIRON_MAX (1u << 20)

/* TRACEPARENT of the traced program: a command has ours. "" it has none, or cannot be asked. */
static void read_parent(const struct trace_options *options, char *out, size_t bytes)
{
	static const char key[] = "TRACEPARENT=";
	GS_CLEANUP(gs_buf_fini) struct gs_buf environ_text = GS_BUF_INIT(ENVIRON_MAX);
	const char *own = getenv("TRACEPARENT");
	struct gs_host *host = NULL;
	size_t n;

	out[0] = '\0';
	if (options->command)
		snprintf(out, bytes, "%s", own ? own : "");
	if (options->command || !options->n_pids || gs_host_open("/proc", &host, NULL) < 0)
		return;
	if (gs_host_read_environ(host, (uint32_t)options->pids[0], &environ_text) == 0 &&
	    gs_buf_put(&environ_text, "", 1) == 0)
		for (const char *at = (const char *)environ_text.data,
				*end = at + environ_text.bytes;
		     at < end; at += n + 1) {
			n = strlen(at);
			if (strncmp(at, key, sizeof(key) - 1) == 0)
				snprintf(out, bytes, "%s", at + sizeof(key) - 1);
		}
	gs_host_close(&host);
}

int trace_spans_open(const struct trace_options *options, struct gs_ingest *feed,
		     struct gs_aggregate *view, struct trace_spans *ret, struct gs_err *err)
{
	bool is_private = geteuid() == 0 && !options->command;
	char parent[128];
	int r = 0;

	for (size_t i = 0; r == 0 && i < options->n_outputs; i++) {
		const char *path = options->outputs[i];

		if (!gs_cli_spans_knows(path))
			continue;
		read_parent(options, parent, sizeof(parent));
		r = gs_cli_spans_open(path, parent, is_private, view, &ret->spans[ret->n], err);
		if (r == 0)
			r = gs_ingest_add_sink(feed, path, gs_cli_spans_sink(ret->spans[ret->n++]));
	}
	return r;
}

int trace_spans_close(struct trace_spans *s, bool is_quiet, int r)
{
	for (size_t i = 0; i < s->n; i++) {
		int one = gs_cli_spans_close(&s->spans[i], is_quiet);

		r = r < 0 ? r : one;
	}
	return r;
}

void trace_spans_abandon(struct trace_spans *s)
{
	for (size_t i = 0; i < s->n; i++)
		gs_cli_spans_abandon(&s->spans[i]);
}
