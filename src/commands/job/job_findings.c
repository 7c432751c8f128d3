/*
 * Findings of measured jobs: those of the node (commands/common/node_findings.h), kept until the report. Which
 * job a finding is of follows from its processes and GPUs.
 */
#include "commands/job/job_findings.h"

#include "commands/common/node_findings.h"

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
	struct gs_node_findings *findings = ctx;
	const struct gs_kept_finding *k;
	size_t n = 0;

	gs_findings_node_lock(findings);
	for (uint64_t at = 0; (k = gs_findings_node_next(findings, at)); at = k->number)
		n += is_of_job(&k->finding, job);
	gs_doc_begin_list(doc, "findings", n);
	for (uint64_t at = 0; (k = gs_findings_node_next(findings, at)); at = k->number)
		if (is_of_job(&k->finding, job))
			gs_findings_put_one(doc, gs_findings_node_run(findings), &k->finding);
	gs_doc_end(doc);
	gs_findings_node_unlock(findings);
}
