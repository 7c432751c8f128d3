/*
 * The wall-clock account of a job: where the time of its threads went, as parts that add up to all
 * of it. Parts that mean the same as in the account of a traced thread (model/trace/account.h) have
 * its words; "gpu" is time asleep in the GPU's driver, not that in calls which wait for the GPU, and
 * "idle" is what threads waited in locks for a second and more.
 */
#include "analysis/job_report/report_int.h"

static enum gs_job_family family_of(unsigned part)
{
	if (part == GS_TIME_CPU)
		return GS_JOB_KNOWS_TIME;
	return part == GS_TIME_RUNQUEUE ? GS_JOB_KNOWS_RUNQUEUE : GS_JOB_KNOWS_CAUSES;
}

uint64_t gs_job_report_account(const struct gs_job_report_session *s,
			       const struct gs_job_report *job,
			       struct gs_job_report_part ret_parts[GS_JOB_PARTS])
{
	uint64_t part_ns[GS_TASKSTATS_PARTS], all_ns;

	if (!gs_job_report_knows(job, GS_JOB_KNOWS_TIME))
		return 0;
	all_ns = gs_taskstats_parts(&job->usage.work, part_ns);
	for (unsigned i = 0; i < GS_JOB_PARTS; i++)
		ret_parts[i] = (struct gs_job_report_part){
			.name = i == GS_TASKSTATS_PART_IDLE ? "idle" : gs_taskstats_time_name(i),
			.title = gs_taskstats_part_title(i),
			.source = s->source[family_of(i)],
			.ns = part_ns[i]};
	for (unsigned i = 0; i < GS_JOB_PARTS && all_ns; i++)
		ret_parts[i].share_pct = 100 * (double)ret_parts[i].ns / (double)all_ns;
	return all_ns;
}
