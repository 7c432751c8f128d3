/*
 * Findings of measured jobs: a sample a second of the GPUs, which are read anyway, and of the processes on
 * them goes to the detectors; what they find is kept until the report. Which job a finding is of follows from
 * its processes and GPUs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common/findings.h"
#include "commands/job/job_findings.h"
#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/sampler/sampler.h"

#define SPACING_NS 900000000ull
#define N_KEPT     64 /* the first ones */

struct job_findings {
	struct gs_findings *findings;
	struct gs_sampler *sampler;
	uint64_t taken_ns;
	struct gs_explain_finding kept[N_KEPT];
	size_t n_kept;
};

int job_findings_new(const struct gs_findings_options *options, struct job_findings **ret,
		     struct gs_err *err)
{
	struct job_findings *f = calloc(1, sizeof(*f));
	int r = f ? gs_findings_new(NULL, &f->findings) : -ENOMEM;

	if (r == 0)
		r = gs_findings_set(f->findings, options, err);
	if (r == 0)
		r = gs_sampler_new(&f->sampler, err);
	if (r < 0)
		job_findings_free(&f);
	*ret = f;
	return r;
}

void job_findings_free(struct job_findings **findings)
{
	struct job_findings *f = *findings;

	if (!f)
		return;
	gs_findings_free(&f->findings);
	gs_sampler_free(&f->sampler);
	gs_free_p(findings);
}

/* Its end takes the place of its begin. */
static void keep_finding(void *ctx, const struct gs_explain_finding *finding)
{
	struct job_findings *f = ctx;
	size_t at = 0;

	while (at < f->n_kept && (f->kept[at].begun.since_ns != finding->begun.since_ns ||
				  f->kept[at].begun.detector != finding->begun.detector ||
				  strcmp(f->kept[at].name, finding->name) != 0))
		at++;
	if (at == N_KEPT)
		return;
	f->kept[at] = *finding;
	f->n_kept += at == f->n_kept;
}

void job_findings_take(struct job_findings *f, const struct gs_gpu_snapshot *gpus)
{
	uint64_t now = gs_clock_mono_ns();
	struct gs_node_snapshot *node;

	if (!gpus || now - f->taken_ns < SPACING_NS)
		return;
	f->taken_ns = now;
	node = calloc(1, sizeof(*node));
	if (node)
		node->gpu = gs_gpu_snapshot_copy(gpus);
	/* A sample that cannot be had is missing, no more. */
	if (node && node->gpu && gs_sampler_fill(f->sampler, false, true, node) == 0)
		(void)gs_findings_take_node(f->findings, node);
	gs_node_snapshot_free(&node);
	gs_findings_report(f->findings, keep_finding, f);
}

static bool is_of_job(const struct gs_explain_finding *finding, const struct gs_job_report *job)
{
	if (finding->gpu)
		return finding->gpu <= 64 && job->usage.gpu_mask >> (finding->gpu - 1) & 1;
	for (size_t i = 0; i < job->n_pids; i++)
		if (finding->pid && job->pids[i] == finding->pid)
			return true;
	return false;
}

void job_findings_put(void *ctx, struct gs_doc *doc, const struct gs_job_report *job)
{
	const struct job_findings *f = ctx;
	size_t n = 0;

	for (size_t i = 0; i < f->n_kept; i++)
		n += is_of_job(&f->kept[i], job);
	gs_doc_begin_list(doc, "findings", n);
	for (size_t i = 0; i < f->n_kept; i++)
		if (is_of_job(&f->kept[i], job))
			gs_findings_put_one(doc, f->findings, &f->kept[i]);
	gs_doc_end(doc);
}
