/*
 * Prints what src/place knows of the jobs of this machine, as JSON: {"jobs": [...]}. After
 * everything was asked, or 20 s.
 *
 * usage: show_jobs [--proc=F] [--commands=F:F] [--drops=F] [--conf=F] [--no-controller] [--no-node]
 *                  [watch]
 * watch: one list for each line of standard input, of the same table.
 */
#include <jansson.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "sources/identity/job.h"

#define LIMIT_NS 20000000000ull
#define STEP_NS  100000000ull

static json_t *of_job(const struct gs_job *j)
{
	return json_pack(
		"{s:i s:s s:I s:I s:I s:I s:I s:s s:s s:s s:s s:I s:s s:s s:s s:s s:s s:i s:I "
		"s:I s:I s:I s:i}",
		"kind", (int)j->kind, "id", j->id, "job_id", (json_int_t)j->job_id, "array_job_id",
		(json_int_t)j->array_job_id, "array_task_id", (json_int_t)j->array_task_id,
		"het_job_id", (json_int_t)j->het_job_id, "het_offset", (json_int_t)j->het_offset,
		"sluid", j->sluid, "cluster", j->cluster, "name", j->name, "user", j->user, "uid",
		(json_int_t)j->uid, "account", j->account, "partition", j->partition, "qos", j->qos,
		"nodes", j->nodes, "pod", j->pod, "n_cpus", (int)j->n_cpus, "mem_bytes",
		(json_int_t)j->mem_bytes, "gpu_mask", (json_int_t)j->gpu_mask, "start_s",
		(json_int_t)j->start_s, "limit_s", (json_int_t)j->limit_s, "source",
		(int)j->source);
}

static json_t *of_process(const struct gs_jobs_process *p)
{
	return json_pack("{s:I s:s s:i s:i s:i}", "pid", (json_int_t)p->pid, "step", p->task.step,
			 "task_id", (int)p->task.task_id, "rank", (int)p->task.rank, "local_rank",
			 (int)p->task.local_rank);
}

static int show(struct gs_jobs *jobs)
{
	uint64_t end = gs_clock_boot_ns() + LIMIT_NS;
	struct gs_jobs_stats stats;
	struct gs_jobs_list list;
	json_t *all, *root;

	/* Read what is there, so that there is something to ask; then read again. */
	if (gs_jobs_list(jobs, 0, &list) < 0)
		return 1;
	gs_jobs_list_fini(&list);
	while (gs_jobs_ask(jobs, STEP_NS) && gs_clock_boot_ns() < end)
		;
	if (gs_jobs_list(jobs, 0, &list) < 0)
		return 1;
	all = json_array();
	for (size_t i = 0; i < list.n_jobs; i++) {
		json_t *job = of_job(&list.job[i]), *processes = json_array();

		for (size_t k = 0; k < list.n_processes; k++)
			if (list.process[k].job == i)
				json_array_append_new(processes, of_process(&list.process[k]));
		json_object_set_new(job, "processes", processes);
		json_array_append_new(all, job);
	}
	gs_jobs_stats(jobs, &stats);
	root = json_pack("{s:o s:I s:I s:I s:I}", "jobs", all, "commands",
			 (json_int_t)stats.n_commands, "failed",
			 (json_int_t)stats.n_commands_failed, "late",
			 (json_int_t)stats.n_commands_late, "bad", (json_int_t)stats.n_answers_bad);
	json_dumpf(root, stdout, JSON_COMPACT);
	putchar('\n');
	fflush(stdout);
	json_decref(root);
	gs_jobs_list_fini(&list);
	return 0;
}

int main(int argc, char **argv)
{
	struct gs_jobs_options o = {.size = sizeof(o), .cache_ns = 1000000000ull};
	struct gs_jobs *jobs;
	struct gs_err err = {""};
	char line[64];
	bool watch = false;
	int r = 0;

	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *value = strchr(a, '=');

		value = value ? value + 1 : "";
		if (strncmp(a, "--proc=", 7) == 0)
			o.proc_root = value;
		else if (strncmp(a, "--commands=", 11) == 0)
			o.command_path = value;
		else if (strncmp(a, "--drops=", 8) == 0)
			o.drop_folders = value;
		else if (strncmp(a, "--conf=", 7) == 0)
			o.slurm_conf = value;
		else if (strcmp(a, "--no-controller") == 0)
			o.no_controller = true;
		else if (strcmp(a, "--no-node") == 0)
			o.no_node = true;
		else if (strcmp(a, "watch") == 0)
			watch = true;
		else
			return 2;
	}
	if (gs_jobs_new(&o, &jobs, &err) < 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	if (!watch)
		r = show(jobs);
	while (watch && r == 0 && fgets(line, sizeof(line), stdin))
		r = show(jobs);
	gs_jobs_free(&jobs);
	return r;
}
