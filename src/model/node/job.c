#include "model/node/job.h"

#include <string.h>

const struct gs_job gs_job_unknown = {
	.job_id = -1,
	.array_job_id = -1,
	.array_task_id = -1,
	.het_job_id = -1,
	.het_offset = -1,
	.uid = -1,
	.n_cpus = -1,
	.mem_bytes = -1,
	.start_s = -1,
	.limit_s = -1,
};

bool gs_job_is_same(const struct gs_job *a, const struct gs_job *b)
{
	if (a->kind != b->kind || a->is_claimed != b->is_claimed)
		return false;
	if (a->kind == GS_JOB_SLURM && a->job_id > 0 && b->job_id > 0)
		return a->job_id == b->job_id && (!a->is_claimed || a->uid == b->uid);
	return strcmp(a->id, b->id) == 0;
}

const char *gs_job_proof_name(const struct gs_job *job)
{
	if (job->kind != GS_JOB_SLURM && job->kind != GS_JOB_POD)
		return "";
	return job->is_claimed ? "claimed" : "proven";
}
