/* Findings of the jobs that are measured: of their GPUs and processes on them (commands/common/node_findings.h). */
#ifndef GS_COMMANDS_JOB_JOB_FINDINGS_H
#define GS_COMMANDS_JOB_JOB_FINDINGS_H

#include "analysis/job_report/report.h"
#include "core/text/doc.h"

/* The list "findings" of a job, of struct gs_job_report_style. ctx: a struct gs_node_findings. */
void job_findings_put(void *ctx, struct gs_doc *doc, const struct gs_job_report *job);

#endif
