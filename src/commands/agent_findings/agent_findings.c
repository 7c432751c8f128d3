/*
 * Findings of this node (analysis/explain): a sample a second of GPUs, the machine and processes on GPUs goes
 * to the detectors. What they find is kept as a line of JSON with a number, so that who asks again gets what
 * is new. The main thread feeds; the server's thread and the control socket read under a lock.
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "commands/agent_findings/agent_findings.h"
#include "commands/common/cli.h"
#include "commands/common/findings.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/sampler/sampler.h"

#define SPACING_NS 900000000ull
#define N_KEPT     64 /* the newest, for who asks */

struct kept {
	uint64_t number; /* of its last change; 0: free */
	char *line;      /* owned; JSON */
	char *text;      /* owned; for people */
	char job[GS_EXPLAIN_JOB_BYTES], name[GS_EXPLAIN_NAME_BYTES];
	const char *detector, *subject; /* static */
	uint64_t since_ns;
	bool holds;
};

struct agent_findings {
	struct gs_sampler *sampler;
	struct gs_findings *findings;
	uint64_t taken_ns;
	bool reported_failed;
	pthread_mutex_t lock; /* of what follows */
	struct kept kept[N_KEPT];
	uint64_t n_changes;
	uint64_t n_found[GS_DETECT_N_DETECTORS]; /* so far, in the order of gs_detectors */
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
	pthread_mutex_init(&f->lock, NULL);
	split_settings(text, &options);
	r = gs_findings_new(NULL, &f->findings);
	if (r == 0 && gs_findings_set(f->findings, &options, &why) < 0)
		r = gs_err_set(err, -EINVAL, "findings.settings: %s", gs_err_text(&why, -EINVAL));
	if (r == 0)
		r = gs_sampler_new(&f->sampler, err);
	if (r < 0)
		agent_findings_stop(&f);
	*ret = f;
	return r;
}

static void forget_kept(struct kept *k)
{
	free(k->line);
	free(k->text);
	*k = (struct kept){.number = 0};
}

void agent_findings_stop(struct agent_findings **findings)
{
	struct agent_findings *f = *findings;

	if (!f)
		return;
	gs_findings_free(&f->findings);
	gs_sampler_free(&f->sampler);
	for (size_t i = 0; i < N_KEPT; i++)
		forget_kept(&f->kept[i]);
	pthread_mutex_destroy(&f->lock);
	gs_free_p(findings);
}

/* The place of a finding: its own, or that of the oldest, of those that are over first. */
static struct kept *place_of(struct agent_findings *f, const struct gs_explain_finding *finding)
{
	struct kept *oldest = &f->kept[0];

	for (size_t i = 0; i < N_KEPT; i++) {
		struct kept *k = &f->kept[i];

		if (k->number && k->since_ns == finding->begun.since_ns &&
		    k->detector == finding->begun.detector && strcmp(k->name, finding->name) == 0)
			return k;
		if (k->holds != oldest->holds ? !k->holds : k->number < oldest->number)
			oldest = k;
	}
	return oldest;
}

static int write_lines(const struct agent_findings *f, const struct gs_explain_finding *finding,
		       struct kept *ret)
{
	size_t bytes = 0;
	FILE *out = open_memstream(&ret->line, &bytes);
	int r = out ? gs_findings_put_line(f->findings, finding, f->n_changes + 1, out) : -ENOMEM;

	if (out && fclose(out) != 0)
		r = -ENOMEM;
	out = r == 0 ? open_memstream(&ret->text, &bytes) : NULL;
	if (!out)
		return -ENOMEM;
	gs_findings_put_text(f->findings, finding, out);
	return fclose(out) == 0 ? 0 : -ENOMEM;
}

static void keep_finding(void *ctx, const struct gs_explain_finding *finding)
{
	struct agent_findings *f = ctx;
	struct kept *k, fresh = {.detector = finding->begun.detector,
				 .subject = gs_explain_subject_name(finding->subject),
				 .since_ns = finding->begun.since_ns,
				 .holds = !finding->ended_ns};

	if (write_lines(f, finding, &fresh) < 0) {
		forget_kept(&fresh);
		return;
	}
	memcpy(fresh.job, finding->job, sizeof(fresh.job));
	memcpy(fresh.name, finding->name, sizeof(fresh.name));
	pthread_mutex_lock(&f->lock);
	k = place_of(f, finding);
	for (size_t i = 0; gs_detectors[i] && !finding->begun_reported; i++)
		f->n_found[i] += gs_detectors[i]->name == finding->begun.detector;
	forget_kept(k);
	*k = fresh;
	k->number = ++f->n_changes;
	pthread_mutex_unlock(&f->lock);
}

void agent_findings_take(struct agent_findings *f, const struct gs_gpu_snapshot *gpu)
{
	uint64_t now = gs_clock_mono_ns();
	struct gs_node_snapshot *node;
	int r = -ENOMEM;

	/* What has happened is reported once, in the reading that found it. */
	if (!f || (now - f->taken_ns < SPACING_NS && !gpu->n_events))
		return;
	f->taken_ns = now;
	node = calloc(1, sizeof(*node));
	if (node)
		node->gpu = gs_gpu_snapshot_copy(gpu);
	if (node && node->gpu)
		r = gs_sampler_fill(f->sampler, false, true, node);
	if (r == 0)
		r = gs_findings_take_node(f->findings, node);
	gs_node_snapshot_free(&node);
	if (r < 0 && !f->reported_failed)
		gs_cli_print_message("agent: cannot check a sample for findings: %s", strerror(-r));
	f->reported_failed |= r < 0;
	gs_findings_report(f->findings, keep_finding, f);
}

/* --- who asks --- */

/* The one that changed next after a number; NULL: none. */
static const struct kept *next_after(const struct agent_findings *f, uint64_t number)
{
	const struct kept *next = NULL;

	for (size_t i = 0; i < N_KEPT; i++)
		if (f->kept[i].number > number && (!next || f->kept[i].number < next->number))
			next = &f->kept[i];
	return next;
}

void agent_findings_put_lines(struct agent_findings *f, uint64_t since, const char *job,
			      bool as_text, struct gs_buf *out)
{
	const struct kept *k;

	if (!f) {
		(void)gs_buf_puts(out, "error: findings are off: findings.enabled\n");
		return;
	}
	pthread_mutex_lock(&f->lock);
	for (uint64_t n = since; (k = next_after(f, n)); n = k->number)
		if (!job || strcmp(k->job, job) == 0)
			(void)gs_buf_printf(out, "%s%s", as_text ? k->text : k->line,
					    as_text ? "" : "\n");
	(void)gs_buf_printf(out, "ok: %llu\n", (unsigned long long)f->n_changes);
	pthread_mutex_unlock(&f->lock);
}

void agent_findings_put_document(struct agent_findings *f, struct gs_buf *out)
{
	const char *separator = "";
	const struct kept *k;

	(void)gs_buf_printf(out, "{\"enabled\":%s,\"findings\":[", f ? "true" : "false");
	if (f)
		pthread_mutex_lock(&f->lock);
	for (uint64_t n = 0; f && (k = next_after(f, n)); n = k->number) {
		(void)gs_buf_printf(out, "%s%s", separator, k->line);
		separator = ",";
	}
	if (f)
		pthread_mutex_unlock(&f->lock);
	(void)gs_buf_puts(out, "]}\n");
}

void agent_findings_metrics(struct agent_findings *f, struct gs_metrics *p)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	gs_metrics_family(p, "gpuscope_finding", GS_METRICS_GAUGE, "",
			  "Active findings: 1 for each, by detector and subject.");
	for (size_t i = 0; i < N_KEPT; i++) {
		const struct kept *k = &f->kept[i];
		struct gs_metrics_label l[] = {{"detector", k->detector},
					       {"subject", k->subject},
					       {"name", k->name},
					       {"job", k->job}};

		if (k->number && k->holds)
			gs_metrics_line(p, "", l, GS_ARRAY_LEN(l), 1, 0);
	}
	gs_metrics_family(p, "gpuscope_agent_findings", GS_METRICS_COUNTER, "",
			  "Findings since the agent started, by detector.");
	for (size_t i = 0; gs_detectors[i]; i++) {
		struct gs_metrics_label l = {"detector", gs_detectors[i]->name};

		gs_metrics_line(p, "", &l, 1, (double)f->n_found[i], 0);
	}
	pthread_mutex_unlock(&f->lock);
}

double agent_findings_holding(struct agent_findings *f)
{
	double n = 0;

	if (!f)
		return NAN;
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < N_KEPT; i++)
		n += f->kept[i].number && f->kept[i].holds;
	pthread_mutex_unlock(&f->lock);
	return n;
}
