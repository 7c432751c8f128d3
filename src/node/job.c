#include "node/job.h"

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
