/*
 * What the environment of a process says of its job. A process can write what it likes there: the
 * caller believes its group first, and takes this for a claim. Whose job it is, user and account,
 * is never read here: that would book one user's time on another.
 *
 * srun numbers its tasks; a launcher that was started below it numbers its own, and that is then
 * the rank: torchrun, then Open MPI, PMIx, PMI, then srun.
 */
#include <string.h>

#include "core/base/mem.h"
#include "sources/identity/job_int.h"
#include "sources/identity/identity_int.h"

/* Numbers of steps (slurm.h: SLURM_BATCH_SCRIPT, SLURM_EXTERN_CONT, SLURM_INTERACTIVE_STEP). */
#define STEP_INTERACTIVE 4294967290
#define STEP_BATCH       4294967291
#define STEP_EXTERN      4294967292
#define HET_GROUPS       16

enum value {
	V_JOB_ID,
	V_STEP,
	V_PROCID,
	V_LOCALID,
	V_ARRAY_JOB,
	V_ARRAY_TASK,
	V_HET_JOB,
	V_HET_OFFSET,
	V_HET_SIZE,
	V_START,
	V_END,
	V_RESTART,
	V_OMPI_RANK,
	V_OMPI_LOCAL,
	V_PMIX_RANK,
	V_PMI_RANK,
	V_MPI_LOCAL,
	V_RANK,
	V_LOCAL_RANK,
	V_WORLD_SIZE,
	V_COUNT,
};

static const struct {
	const char *name;
	enum value value;
} numbers[] = {
	{"SLURM_JOB_ID", V_JOB_ID},
	{"SLURM_JOBID", V_JOB_ID},
	{"SLURM_STEP_ID", V_STEP},
	{"SLURM_STEPID", V_STEP},
	{"SLURM_PROCID", V_PROCID},
	{"SLURM_LOCALID", V_LOCALID},
	{"SLURM_ARRAY_JOB_ID", V_ARRAY_JOB},
	{"SLURM_ARRAY_TASK_ID", V_ARRAY_TASK},
	{"SLURM_HET_JOB_ID", V_HET_JOB},
	{"SLURM_HET_JOB_OFFSET", V_HET_OFFSET},
	{"SLURM_HET_SIZE", V_HET_SIZE},
	{"SLURM_JOB_START_TIME", V_START},
	{"SLURM_JOB_END_TIME", V_END},
	{"SLURM_RESTART_COUNT", V_RESTART},
	{"OMPI_COMM_WORLD_RANK", V_OMPI_RANK},
	{"OMPI_COMM_WORLD_LOCAL_RANK", V_OMPI_LOCAL},
	{"PMIX_RANK", V_PMIX_RANK},
	{"PMI_RANK", V_PMI_RANK},
	{"MPI_LOCALRANKID", V_MPI_LOCAL},
	{"RANK", V_RANK},
	{"LOCAL_RANK", V_LOCAL_RANK},
	{"WORLD_SIZE", V_WORLD_SIZE},
};

#define TEXT(name, field)                                                                          \
	{                                                                                          \
		name, offsetof(struct gs_job, field), sizeof(((struct gs_job *)0)->field)          \
	}

static const struct {
	const char *name;
	size_t offset, bytes;
} texts[] = {
	TEXT("SLURM_CLUSTER_NAME", cluster),    TEXT("SLURM_JOB_NAME", name),
	TEXT("SLURM_JOB_PARTITION", partition), TEXT("SLURM_JOB_QOS", qos),
	TEXT("SLURM_JOB_NODELIST", nodes),      TEXT("SLURM_JOB_SLUID", sluid),
};

struct reading {
	int64_t v[V_COUNT];
	int64_t het[HET_GROUPS]; /* the job of each component */
	uint64_t job_gpus, step_gpus;
	bool has_job_gpus, has_step_gpus;
	bool is_script; /* of the node's prolog or epilog */
};

static void take_variable(struct reading *r, struct gs_job_environ *e, const char *name,
			  size_t name_bytes, const char *value, size_t bytes)
{
	static const char het[] = "SLURM_JOB_ID_HET_GROUP_";
	static const char prolog[] = "prolog_slurm", epilog[] = "epilog_slurm";
	int64_t n, group;

#define IS(word) (name_bytes == strlen(word) && memcmp(name, word, name_bytes) == 0)
	for (size_t i = 0; i < GS_ARRAY_LEN(numbers); i++)
		if (IS(numbers[i].name)) {
			if (gs_job_number(value, bytes, &n) && n >= 0)
				r->v[numbers[i].value] = n;
			return;
		}
	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++)
		if (IS(texts[i].name)) {
			gs_identity_copy_clean((char *)&e->job + texts[i].offset, texts[i].bytes,
					       value, bytes);
			return;
		}
	if (IS("SLURMD_NODENAME"))
		gs_identity_copy_clean(e->node, sizeof(e->node), value, bytes);
	else if (IS("SLURM_SCRIPT_CONTEXT"))
		r->is_script = bytes >= sizeof(prolog) - 1 &&
			       (memcmp(value, prolog, sizeof(prolog) - 1) == 0 ||
				memcmp(value, epilog, sizeof(epilog) - 1) == 0);
	else if (IS("SLURM_JOB_GPUS"))
		r->has_job_gpus = gs_job_indices(value, bytes, &r->job_gpus);
	else if (IS("SLURM_STEP_GPUS"))
		r->has_step_gpus = gs_job_indices(value, bytes, &r->step_gpus);
	else if (name_bytes > sizeof(het) - 1 && memcmp(name, het, sizeof(het) - 1) == 0 &&
		 gs_job_number(name + sizeof(het) - 1, name_bytes - (sizeof(het) - 1), &group) &&
		 group >= 0 && group < HET_GROUPS && gs_job_number(value, bytes, &n))
		r->het[group] = n;
#undef IS
}

static void name_step(int64_t step, bool is_task, char *out, size_t bytes)
{
	if (step == STEP_BATCH || (step < 0 && is_task))
		snprintf(out, bytes, "batch"); /* its script has a task, but no step */
	else if (step == STEP_EXTERN)
		snprintf(out, bytes, "extern");
	else if (step == STEP_INTERACTIVE)
		snprintf(out, bytes, "interactive");
	else if (step >= 0)
		snprintf(out, bytes, "%lld", (long long)step);
}

static int32_t small_number(int64_t n)
{
	return n >= 0 && n <= INT32_MAX ? (int32_t)n : -1;
}

static void read_rank(const struct reading *r, struct gs_job_task *task)
{
	const int64_t *v = r->v;

	if (v[V_RANK] >= 0 && v[V_LOCAL_RANK] >= 0 && v[V_WORLD_SIZE] > v[V_RANK]) {
		task->rank = small_number(v[V_RANK]);
		task->local_rank = small_number(v[V_LOCAL_RANK]);
		task->launched = true;
		return;
	}
	task->local_rank = small_number(v[V_LOCALID]);
	if (v[V_OMPI_RANK] >= 0) {
		task->rank = small_number(v[V_OMPI_RANK]);
		task->local_rank = small_number(v[V_OMPI_LOCAL]);
		task->launched = true;
	} else if (v[V_PMIX_RANK] >= 0 || v[V_PMI_RANK] >= 0) {
		task->rank = small_number(v[V_PMIX_RANK] >= 0 ? v[V_PMIX_RANK] : v[V_PMI_RANK]);
		task->launched = true;
		if (v[V_MPI_LOCAL] >= 0)
			task->local_rank = small_number(v[V_MPI_LOCAL]);
	} else {
		task->rank = small_number(v[V_PROCID]);
	}
}

void gs_job_parse_environ(const char *data, size_t bytes, struct gs_job_environ *e)
{
	struct reading r = {{0}};
	struct gs_job *j = &e->job;

	memset(e, 0, sizeof(*e));
	*j = gs_job_unknown;
	gs_job_task_clear(&e->task);
	memset(r.v, 0xff, sizeof(r.v));
	memset(r.het, 0xff, sizeof(r.het));
	while (bytes) {
		const char *end = memchr(data, '\0', bytes);
		size_t len = end ? (size_t)(end - data) : bytes;
		const char *equals = memchr(data, '=', len);

		if (equals)
			take_variable(&r, e, data, (size_t)(equals - data), equals + 1,
				      len - (size_t)(equals + 1 - data));
		len += end != NULL;
		data += len;
		bytes -= len;
	}
	read_rank(&r, &e->task);
	e->restart = r.v[V_RESTART];
	/* What slurmd and slurmctld run before and after a job has its variables, and is none of it.
	 * The user's own prologs of tasks ("prolog_task") are. (slurm, prep_script.c) */
	if (r.v[V_JOB_ID] <= 0 || r.is_script) {
		*j = gs_job_unknown;
		return;
	}
	j->kind = GS_JOB_SLURM;
	j->source = GS_JOB_FROM_ENVIRON;
	j->job_id = r.v[V_JOB_ID];
	if (r.v[V_ARRAY_JOB] > 0 && r.v[V_ARRAY_TASK] >= 0) {
		j->array_job_id = r.v[V_ARRAY_JOB];
		j->array_task_id = r.v[V_ARRAY_TASK];
	}
	if (r.v[V_HET_JOB] > 0 && r.v[V_HET_OFFSET] >= 0) {
		j->het_job_id = r.v[V_HET_JOB];
		j->het_offset = r.v[V_HET_OFFSET];
	} else if (r.v[V_HET_SIZE] > 0 && r.het[0] > 0) {
		for (int i = 0; i < HET_GROUPS; i++)
			if (r.het[i] == j->job_id) {
				j->het_job_id = r.het[0];
				j->het_offset = i;
			}
	}
	if (r.v[V_START] > 0)
		j->start_s = r.v[V_START];
	if (r.v[V_START] > 0 && r.v[V_END] > r.v[V_START])
		j->limit_s = r.v[V_END] - r.v[V_START];
	name_step(r.v[V_STEP], r.v[V_PROCID] >= 0, e->task.step, sizeof(e->task.step));
	e->task.task_id = small_number(r.v[V_LOCALID]);
	/* Both set: the step's were seen wrong (a step of part of the GPUs renumbers them). */
	e->has_gpus = r.has_job_gpus || r.has_step_gpus;
	e->gpus = r.has_job_gpus ? r.job_gpus : r.step_gpus;
	gs_job_name_id(j);
}
