/* What Slurm's commands print, environments, lists, files of prologs and of the driver. The first
 * byte chooses which of them the rest is. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sources/identity/job_int.h"
#include "replay_main.h"

static void clean(const char *text, size_t bytes)
{
	assert(memchr(text, '\0', bytes));
	for (; *text; text++)
		assert((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check(const struct gs_job *j)
{
	clean(j->id, sizeof(j->id));
	clean(j->sluid, sizeof(j->sluid));
	clean(j->cluster, sizeof(j->cluster));
	clean(j->name, sizeof(j->name));
	clean(j->user, sizeof(j->user));
	clean(j->account, sizeof(j->account));
	clean(j->partition, sizeof(j->partition));
	clean(j->qos, sizeof(j->qos));
	clean(j->nodes, sizeof(j->nodes));
	assert(j->n_cpus >= -1 && j->mem_bytes >= -1 && j->start_s >= -1 && j->limit_s >= -1);
}

static void dropped(void *ctx, int64_t job_id, int64_t uid, uint64_t mask)
{
	assert(job_id > 0 && uid >= -1 && mask);
}

static bool visited(void *ctx, const char *name, size_t at)
{
	assert(strlen(name) < 256);
	return at < 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const struct gs_job_gpus known = {
		.n = 2,
		.gpu = {{.uuid = "GPU-a", .minor = 1, .index = 0}, {.minor = 0, .index = 1}},
	};
	struct gs_job_gpus gpus = known;
	struct gs_job_environ variables;
	struct gs_job_answer answer;
	struct gs_job_pid pid[16];
	struct gs_job_gpu gpu;
	uint64_t mask;
	char *text;

	if (!bytes)
		return 0;
	/* Of exactly that size, so that a step beyond it is seen. */
	text = malloc(bytes);
	if (!text)
		return 0;
	memcpy(text, data + 1, bytes - 1);
	switch (data[0]) {
	case 'j':
		if (gs_job_parse_json(text, bytes - 1, 1, "", "n1", &answer) == 0)
			check(&answer.job);
		if (gs_job_parse_json(text, bytes - 1, 4711, "", "g09", &answer) == 0)
			check(&answer.job);
		break;
	case 't':
		if (gs_job_parse_text(text, bytes - 1, 1, "n2", -1, &answer) == 0)
			check(&answer.job);
		if (gs_job_parse_text(text, bytes - 1, 6, "n1", 5, &answer) == 0)
			check(&answer.job);
		break;
	case 'e':
		gs_job_parse_environ(text, bytes - 1, &variables);
		check(&variables.job);
		clean(variables.task.step, sizeof(variables.task.step));
		break;
	case 'p':
		for (size_t n = gs_job_parse_pids(text, bytes - 1, pid, 16); n > 0; n--) {
			assert(pid[n - 1].pid > 0);
			clean(pid[n - 1].task.step, sizeof(pid[0].task.step));
		}
		break;
	case 'd':
		gs_job_parse_drop("1", text, bytes - 1, &gpus, dropped, NULL);
		gs_job_parse_drop("GPU-a", text, bytes - 1, &gpus, dropped, NULL);
		gs_job_parse_information(text, bytes - 1, &gpu);
		gs_job_parse_gres_conf(text, bytes - 1, "n1", &gpus);
		assert(gpus.n_minors <= GS_JOB_GPUS_MAX);
		gs_job_gpus_of_slurm(&gpus, UINT64_MAX);
		break;
	case 'l':
		gs_job_gres(text, bytes - 1, &mask);
		gs_job_indices(text, bytes - 1, &mask);
		text[bytes - 1] = '\0';
		gs_job_each_node(text, visited, NULL);
		break;
	default:
		break;
	}
	free(text);
	return 0;
}
