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

unsigned gs_job_unanswered(const struct gs_job *job)
{
	const bool known[GS_JOB_ASKED_COUNT] = {[GS_JOB_ASKED_NAME] = job->name[0] != 0,
						[GS_JOB_ASKED_USER] = job->user[0] != 0,
						[GS_JOB_ASKED_CPUS] = job->n_cpus > 0,
						[GS_JOB_ASKED_LIMIT] = job->limit_s > 0};
	unsigned set = 0;

	if (job->kind != GS_JOB_SLURM || job->source & GS_JOB_FROM_CONTROLLER)
		return 0;
	for (unsigned i = 0; i < GS_JOB_ASKED_COUNT; i++)
		set |= known[i] ? 0 : 1u << i;
	return set;
}

const char *gs_job_asked_name(enum gs_job_asked answer)
{
	static const char *const names[GS_JOB_ASKED_COUNT] = {[GS_JOB_ASKED_NAME] = "name",
							      [GS_JOB_ASKED_USER] = "user",
							      [GS_JOB_ASKED_CPUS] = "cpus",
							      [GS_JOB_ASKED_LIMIT] = "time_limit"};

	return answer < GS_JOB_ASKED_COUNT ? names[answer] : "";
}
