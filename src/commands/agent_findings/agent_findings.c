/*
 * Findings of this node, for who asks the agent: lines of text and JSON by number, the document of the API,
 * metrics. The main thread feeds; the server's thread and the control socket read under a lock.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/agent_findings/agent_findings.h"
#include "commands/common/cli.h"
#include "commands/common/node_findings.h"
#include "core/base/mem.h"

struct agent_findings {
	struct gs_node_findings *node; /* owned */
	bool reported_failed;
};

/* "change.min_change=5%, leak.skipped=1m": what is between commas. */
static void split_settings(char *text, struct gs_findings_options *ret)
{
	char *save = NULL;

	for (char *word = strtok_r(text, ", ", &save);
	     word && ret->n_settings < GS_FINDINGS_SETTINGS_MAX; word = strtok_r(NULL, ", ", &save))
		if (strchr(word, '='))
			ret->settings[ret->n_settings++] = word;
}

int agent_findings_start(const char *settings, struct agent_findings **ret, struct gs_err *err)
{
	struct gs_findings_options options = {.n_settings = 0};
	struct agent_findings *f = calloc(1, sizeof(*f));
	GS_FREE char *text = strdup(settings);
	struct gs_err why = {{0}};
	int r;

	if (!f || !text) {
		free(f);
		return gs_err_set(err, -ENOMEM, "no memory");
	}
	split_settings(text, &options);
	r = gs_findings_node_new(&options, &f->node, &why);
	if (r == -EINVAL)
		gs_err_set(err, r, "findings.settings: %s", gs_err_text(&why, r));
	else if (r < 0)
		gs_err_set(err, r, "%s", gs_err_text(&why, r));
	if (r < 0)
		agent_findings_stop(&f);
	*ret = f;
	return r;
}

void agent_findings_stop(struct agent_findings **findings)
{
	if (!*findings)
		return;
	gs_findings_node_free(&(*findings)->node);
	gs_free_p(findings);
}

void agent_findings_take(struct agent_findings *f, const struct gs_gpu_snapshot *gpu)
{
	int r = f ? gs_findings_node_take(f->node, gpu) : 0;

	if (r < 0 && !f->reported_failed)
		gs_cli_print_message("agent: cannot check a sample for findings: %s", strerror(-r));
	if (r < 0)
		f->reported_failed = true;
}

/* --- who asks --- */

static int put_one(const struct agent_findings *f, const struct gs_kept_finding *k, bool as_text,
		   struct gs_buf *out)
{
	const struct gs_findings *run = gs_findings_node_run(f->node);
	GS_FREE char *text = NULL;
	size_t bytes = 0;
	FILE *stream = open_memstream(&text, &bytes);
	int r = 0;

	if (!stream)
		return -ENOMEM;
	if (as_text)
		gs_findings_put_text(run, &k->finding, stream);
	else
		r = gs_findings_put_line(run, &k->finding, k->number, stream);
	if (fclose(stream) != 0)
		return -ENOMEM;
	return r == 0 ? gs_buf_put(out, text, bytes) : r;
}

void agent_findings_put_lines(struct agent_findings *f, uint64_t since, const char *job,
			      bool as_text, struct gs_buf *out)
{
	const struct gs_kept_finding *k;

	if (!f) {
		(void)gs_buf_puts(out, "error: findings are off: findings.enabled\n");
		return;
	}
	gs_findings_node_lock(f->node);
	for (uint64_t n = since; (k = gs_findings_node_next(f->node, n)); n = k->number)
		if ((!job || strcmp(k->finding.job, job) == 0) &&
		    put_one(f, k, as_text, out) == 0 && !as_text)
			(void)gs_buf_puts(out, "\n");
	(void)gs_buf_printf(out, "ok: %llu\n", (unsigned long long)gs_findings_node_last(f->node));
	gs_findings_node_unlock(f->node);
}

void agent_findings_put_document(struct agent_findings *f, struct gs_buf *out)
{
	const struct gs_kept_finding *k;
	bool is_first = true;

	(void)gs_buf_printf(out, "{\"enabled\":%s,\"findings\":[", f ? "true" : "false");
	if (f)
		gs_findings_node_lock(f->node);
	for (uint64_t n = 0; f && (k = gs_findings_node_next(f->node, n)); n = k->number) {
		size_t before = out->bytes;

		if (!is_first)
			(void)gs_buf_puts(out, ",");
		if (put_one(f, k, false, out) < 0)
			out->bytes = before; /* without memory it is missing, and nothing is torn */
		else
			is_first = false;
	}
	if (f)
		gs_findings_node_unlock(f->node);
	(void)gs_buf_puts(out, "]}\n");
}

void agent_findings_metrics(struct agent_findings *f, struct gs_metrics *p)
{
	const struct gs_kept_finding *k;

	if (!f)
		return;
	gs_findings_node_lock(f->node);
	gs_metrics_family(p, "gpuscope_finding", GS_METRICS_GAUGE, "",
			  "Active findings: 1 for each, by detector and subject.");
	for (uint64_t n = 0; (k = gs_findings_node_next(f->node, n)); n = k->number) {
		struct gs_metrics_label l[] = {
			{"detector", k->finding.begun.detector},
			{"subject", gs_explain_subject_name(k->finding.subject)},
			{"name", k->finding.name},
			{"job", k->finding.job}};

		if (!k->finding.ended_ns)
			gs_metrics_line(p, "", l, GS_ARRAY_LEN(l), 1, 0);
	}
	gs_metrics_family(p, "gpuscope_agent_findings", GS_METRICS_COUNTER, "",
			  "Findings since the agent started, by detector.");
	for (size_t i = 0; gs_detectors[i]; i++) {
		struct gs_metrics_label l = {"detector", gs_detectors[i]->name};

		gs_metrics_line(p, "", &l, 1, (double)gs_findings_node_begun(f->node, i), 0);
	}
	gs_findings_node_unlock(f->node);
}

static int put_log(const struct agent_findings *f, const struct gs_kept_finding *k,
		   struct push_message *out)
{
	const struct gs_findings *run = gs_findings_node_run(f->node);
	const struct gs_explain_finding *x = &k->finding;
	GS_CLEANUP(gs_buf_fini) struct gs_buf body = GS_BUF_INIT(64 << 10);
	GS_CLEANUP(gs_buf_fini) struct gs_buf details = GS_BUF_INIT(64 << 10);
	uint64_t at_ns = x->ended_ns ? x->ended_ns : x->begun.since_ns;
	int r = put_one(f, k, true, &body);

	if (r == 0)
		r = put_one(f, k, false, &details);
	while (body.bytes && body.data[body.bytes - 1] == '\n')
		body.bytes--;
	if (r == 0)
		r = gs_buf_put(&body, "", 1);
	if (r == 0)
		r = gs_buf_put(&details, "", 1);
	if (r < 0)
		return r;
	const struct gs_metrics_label attributes[] = {
		{"gpuscope.finding.detector", x->begun.detector},
		{"gpuscope.finding.subject", gs_explain_subject_name(x->subject)},
		{"gpuscope.finding.name", x->name},
		{"gpuscope.finding.state", x->ended_ns ? "ended" : "active"},
		{"gpuscope.finding.details", (const char *)details.data},
		{"gpuscope.job.id", x->job},
	};
	const struct gs_push_log log = {.wall_ns = gs_findings_wall_of(run, at_ns),
					.severity =
						x->ended_ns ? GS_PUSH_LOG_INFO : GS_PUSH_LOG_WARN,
					.event = "gpuscope.finding",
					.body = (const char *)body.data,
					.attribute = attributes,
					.n_attributes = GS_ARRAY_LEN(attributes)};

	return gs_push_log_put(out, &log);
}

int agent_findings_put_logs(struct agent_findings *f, uint64_t *since, struct push_message *out)
{
	const struct gs_kept_finding *k;
	int r = 0;

	if (!f)
		return 0;
	gs_findings_node_lock(f->node);
	while (r == 0 && (k = gs_findings_node_next(f->node, *since))) {
		r = put_log(f, k, out);
		*since = k->number;
	}
	gs_findings_node_unlock(f->node);
	return r;
}

double agent_findings_holding(struct agent_findings *f)
{
	const struct gs_kept_finding *k;
	double n_holding = 0;

	if (!f)
		return NAN;
	gs_findings_node_lock(f->node);
	for (uint64_t n = 0; (k = gs_findings_node_next(f->node, n)); n = k->number)
		n_holding += !k->finding.ended_ns;
	gs_findings_node_unlock(f->node);
	return n_holding;
}

uint64_t agent_findings_each_begun(struct agent_findings *f, uint64_t since,
				   void (*fn)(void *ctx, const char *job, int what), void *ctx)
{
	const struct gs_kept_finding *k;

	if (!f)
		return since;
	gs_findings_node_lock(f->node);
	for (; (k = gs_findings_node_next(f->node, since)); since = k->number)
		if (!k->finding.ended_ns)
			fn(ctx, k->finding.job, gs_explain_number(&k->finding));
	gs_findings_node_unlock(f->node);
	return since;
}
