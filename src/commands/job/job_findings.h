/* Findings of the jobs that are measured: of their GPUs and processes on them (commands/common/findings.h). */
#ifndef GS_COMMANDS_JOB_JOB_FINDINGS_H
#define GS_COMMANDS_JOB_JOB_FINDINGS_H

#include "analysis/job_report/report.h"
#include "commands/common/findings.h"
#include "core/base/err.h"
#include "core/text/doc.h"
#include "model/node/gpu.h"

struct job_findings;

/* 0 or a negative errno with err; -EINVAL: a wrong option. */
int job_findings_new(const struct gs_findings_options *options, struct job_findings **ret_findings,
		     struct gs_err *err);
void job_findings_free(struct job_findings **findings); /* NULL inside: nothing happens */

/* The GPUs as they are now, lent; NULL: there are none. Once a second is enough, more often does nothing. */
void job_findings_take(struct job_findings *findings, const struct gs_gpu_snapshot *gpus);

/* The list "findings" of a job, of struct gs_job_report_style. ctx: a struct job_findings. */
void job_findings_put(void *ctx, struct gs_doc *doc, const struct gs_job_report *job);

#endif
