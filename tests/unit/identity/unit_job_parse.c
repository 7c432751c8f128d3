/* What Slurm's commands print, environments, lists and files of GPUs. Usage: FOLDER of samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "sources/identity/job_int.h"

static const char *folder;

static char *sample(const char *name, size_t *ret_bytes)
{
	char path[512];
	GS_FCLOSE FILE *f = NULL;
	char *text = malloc(1 << 20);

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "r");
	assert_non_null(f);
	*ret_bytes = fread(text, 1, 1 << 20, f);
	assert_true(*ret_bytes > 0);
	return text;
}

/* --- JSON --- */

/* The same three jobs in each shape. */
static void json_shapes(void **state)
{
	static const char *const names[] = {"scontrol_23.02.json", "scontrol_23.11.json",
					    "scontrol_24.05.json", "scontrol_25.05.json",
					    "scontrol_26.05.json"};

	for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
		size_t bytes;
		GS_FREE char *text = sample(names[i], &bytes);
		struct gs_job_answer a;
		const struct gs_job *j = &a.job;
		bool has_sluid = strstr(names[i], "26.05") != NULL;

		print_message("%s\n", names[i]);
		assert_int_equal(gs_job_parse_json(text, bytes, 4711, "", "g09", &a), 0);
		assert_int_equal(j->kind, GS_JOB_SLURM);
		assert_int_equal(j->source, GS_JOB_FROM_CONTROLLER);
		assert_string_equal(j->id, "4711");
		assert_int_equal(j->array_job_id, -1);
		assert_int_equal(j->het_job_id, -1);
		assert_string_equal(j->name, "a|b, c \"d\" é?漢字 UserId=root(0) GroupId=root(0)");
		assert_string_equal(j->user, "alice");
		assert_int_equal(j->uid, 1001);
		assert_string_equal(j->account, "phys,ics");
		assert_string_equal(j->partition, "gpu");
		assert_string_equal(j->qos, "normal");
		assert_string_equal(j->cluster, "alps");
		assert_string_equal(j->nodes, "g[08-09],h1");
		assert_int_equal(j->start_s, 1795258323);
		assert_int_equal(j->limit_s, 90 * 60);
		assert_int_equal(j->n_cpus, 8);
		assert_int_equal(j->mem_bytes, 32000ll << 20);
		assert_true(a.has_gpus);
		assert_int_equal(a.gpus, 1 << 1 | 1 << 3 | 1 << 5);
		assert_string_equal(j->sluid, has_sluid ? "s0A1B2C3D4E5F6" : "");

		assert_int_equal(gs_job_parse_json(text, bytes, 4713, "", "h1", &a), 0);
		assert_string_equal(j->id, "4712+1");
		assert_int_equal(j->limit_s, -1);
		assert_int_equal(j->n_cpus, 4); /* all of its processors are on its one node */
		assert_false(a.has_gpus);

		/* Waiting (requeued): no node, no start; task 0 of an array is one. */
		assert_int_equal(gs_job_parse_json(text, bytes, 4720, "", "h1", &a), 0);
		assert_string_equal(j->id, "4718_0");
		assert_int_equal(j->start_s, -1);
		assert_int_equal(j->n_cpus, -1);
		assert_string_equal(j->nodes, "");

		/* Another node, none of it, and one that is not known. */
		assert_int_equal(gs_job_parse_json(text, bytes, 4711, "", "h1", &a), 0);
		assert_int_equal(a.gpus, 1 << 7);
		assert_int_equal(gs_job_parse_json(text, bytes, 4711, "", "elsewhere", &a), 0);
		assert_false(a.has_gpus);
		assert_int_equal(j->n_cpus, -1);
		assert_int_equal(gs_job_parse_json(text, bytes, 4711, "", "", &a), 0);
		assert_false(a.has_gpus);
		assert_int_equal(gs_job_parse_json(text, bytes, 9, "", "h1", &a), -ENOENT);
		assert_int_equal(gs_job_parse_json(text, bytes, -1, "s0A1B2C3D4E5F6", "g08", &a),
				 has_sluid ? 0 : -ENOENT);
		if (has_sluid)
			assert_int_equal(a.gpus, 3);
		/* Cut anywhere it is refused, never half read. */
		for (size_t cut = 0; cut + 2 < bytes; cut += 97)
			assert_int_equal(gs_job_parse_json(text, cut, 4711, "", "h1", &a),
					 -EBADMSG);
	}
}

/* As squeue of Debian 12 wrote it. */
static void json_2205(void **state)
{
	size_t bytes;
	GS_FREE char *text = sample("squeue_22.05.json", &bytes);
	struct gs_job_answer a;

	assert_int_equal(gs_job_parse_json(text, bytes, 1, "", "n2", &a), 0);
	assert_string_equal(a.job.name, "we, ird|näme");
	assert_string_equal(a.job.account, "phys");
	assert_string_equal(a.job.user, "root");
	assert_int_equal(a.job.uid, 0);
	assert_string_equal(a.job.nodes, "n[1-2]");
	assert_int_equal(a.job.n_cpus, 1);
	assert_int_equal(a.job.mem_bytes, -1);
	assert_int_equal(a.job.limit_s, 3600);
	assert_int_equal(a.job.start_s, 1795258323);
	assert_true(a.has_gpus);
	assert_int_equal(a.gpus, 3);
	assert_int_equal(gs_job_parse_json(text, bytes, 5, "", "n1", &a), 0);
	assert_string_equal(a.job.id, "2_3");
	assert_int_equal(a.job.limit_s, -1);
	assert_int_equal(gs_job_parse_json(text, bytes, 4, "", "n1", &a), 0);
	assert_string_equal(a.job.id, "3+1");
}

static void json_odd(void **state)
{
	static const char latin[] =
		"{\"jobs\":[{\"job_id\":1,\"name\":\"caf\xe9 \xf0\x9f\x98\x80 \xed\xa0\x80\"}]}";
	static const char large[] =
		"{\"jobs\":[null,7,{\"job_id\":2},{\"job_id\":1,\"x\":18446744073709551614,"
		"\"user_id\":-5,\"cpus\":1e300,\"gres_detail\":{},\"job_resources\":[],"
		"\"time_limit\":\"90\",\"name\":null}]}";
	static const char *const bad[] = {
		"", "{", "[]", "{\"jobs\":{}}", "null", "{\"jobs\":[]} x", "slurm_load_jobs error"};
	struct gs_job_answer a;

	assert_int_equal(gs_job_parse_json(latin, sizeof(latin) - 1, 1, "", "", &a), 0);
	assert_string_equal(a.job.name, "caf? \xf0\x9f\x98\x80 ???");
	assert_int_equal(gs_job_parse_json(large, sizeof(large) - 1, 1, "", "", &a), 0);
	assert_int_equal(a.job.uid, -1);
	assert_int_equal(a.job.limit_s, -1);
	assert_string_equal(a.job.name, "");
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		assert_int_equal(gs_job_parse_json(bad[i], strlen(bad[i]), 1, "", "", &a),
				 -EBADMSG);
}

/* --- text --- */

static void text_2205(void **state)
{
	size_t bytes;
	GS_FREE char *text = sample("scontrol_22.05.txt", &bytes);
	struct gs_job_answer a;
	const struct gs_job *j = &a.job;

	assert_int_equal(gs_job_parse_text(text, bytes, 1, "n2", -1, &a), 0);
	assert_string_equal(j->id, "1");
	assert_string_equal(j->name, "we, ird|näme");
	assert_string_equal(j->user, "root");
	assert_string_equal(j->account, "phys");
	assert_string_equal(j->partition, "debug");
	assert_string_equal(j->qos, "");
	assert_string_equal(j->nodes, "n[1-2]");
	assert_int_equal(j->limit_s, 3600);
	assert_int_equal(j->start_s, 1795258323);
	assert_int_equal(j->n_cpus, 1);
	assert_true(a.has_gpus);
	assert_int_equal(a.gpus, 3);
	/* An array's number is that of one of its tasks, too. */
	assert_int_equal(gs_job_parse_text(text, bytes, 2, "n1", 0, &a), 0);
	assert_string_equal(j->id, "2_5");
	assert_int_equal(j->limit_s, -1);
	assert_int_equal(gs_job_parse_text(text, bytes, 5, "n1", 0, &a), 0);
	assert_string_equal(j->id, "2_3");
	assert_int_equal(gs_job_parse_text(text, bytes, 4, "n2", 0, &a), 0);
	assert_string_equal(j->id, "3+1");
	assert_string_equal(j->name, "h2");
	/* A name that looks like a record: the user that is known ends it. */
	assert_int_equal(gs_job_parse_text(text, bytes, 6, "n1", 5, &a), 0);
	assert_string_equal(j->user, "games");
	assert_int_equal(j->uid, 5);
	assert_string_equal(j->name,
			    "x UserId=root(0) GroupId=root(0) MCS_label=N/A?JobId=6 JobName=y|é");
	assert_int_equal(j->limit_s, 86400 + 2 * 3600 + 4 * 60);
	assert_int_equal(j->mem_bytes, -1); /* not counted there */
	assert_int_equal(a.gpus, 4);
	assert_int_equal(gs_job_parse_text(text, bytes, 7, "n1", -1, &a), -ENOENT);
	assert_int_equal(gs_job_parse_text("JobId=7 JobName=x", 17, 7, "", -1, &a), -EBADMSG);
	assert_int_equal(gs_job_parse_text("", 0, 7, "", -1, &a), -ENOENT);
}

static void pids(void **state)
{
	size_t bytes;
	GS_FREE char *text = sample("listpids_22.05.txt", &bytes);
	static const char odd[] = "PID JOBID STEPID LOCALID GLOBALID\n-1 5 0 - -\n0 5 0 0 0\n"
				  "12 x 0 0 0\n13 7 1+0 2 9\n14 7";
	struct gs_job_pid p[64];
	size_t n = gs_job_parse_pids(text, bytes, p, GS_ARRAY_LEN(p)), tasks = 0;

	assert_true(n > 10);
	for (size_t i = 0; i < n; i++)
		tasks += p[i].task.rank >= 0;
	assert_true(tasks >= 6 && tasks < n);
	assert_int_equal(gs_job_parse_pids(text, bytes, p, 2), 2);
	assert_int_equal(gs_job_parse_pids(odd, sizeof(odd) - 1, p, 64), 1);
	assert_int_equal(p[0].pid, 13);
	assert_int_equal(p[0].job_id, 7);
	assert_string_equal(p[0].task.step, "1+0");
	assert_int_equal(p[0].task.rank, 9);
	assert_int_equal(p[0].task.local_rank, 2);
}

/* --- environment --- */

static void environment(void **state)
{
	static const char text[] =
		"HOME=/root\0SLURM_JOB_ID=12\0SLURM_ARRAY_JOB_ID=10\0SLURM_ARRAY_TASK_ID=2\0"
		"SLURM_PROCID=5\0SLURM_LOCALID=1\0SLURM_STEP_ID=3\0SLURM_JOB_USER=bob\0"
		"SLURM_JOB_UID=1002\0SLURM_JOB_ACCOUNT=a,b|c d\0SLURM_JOB_PARTITION=p\0"
		"SLURM_JOB_QOS=q\0SLURM_CLUSTER_NAME=c\0SLURM_JOB_NAME=x\ny\0"
		"SLURM_JOB_START_TIME=100\0SLURM_JOB_END_TIME=3700\0SLURM_JOB_GPUS=0,2-3\0"
		"SLURM_STEP_GPUS=0\0SLURMD_NODENAME=n7\0SLURM_RESTART_COUNT=2";
	struct gs_job_environ e;

	gs_job_parse_environ(text, sizeof(text), &e);
	assert_int_equal(e.job.kind, GS_JOB_SLURM);
	assert_string_equal(e.job.id, "10_2");
	assert_int_equal(e.job.job_id, 12);
	/* Whose job it is must not be read here: a process can write any user there. */
	assert_string_equal(e.job.user, "");
	assert_int_equal(e.job.uid, -1);
	assert_string_equal(e.job.account, "");
	assert_string_equal(e.job.partition, "p");
	assert_string_equal(e.job.qos, "q");
	assert_string_equal(e.job.cluster, "c");
	assert_string_equal(e.job.name, "x?y");
	assert_int_equal(e.job.start_s, 100);
	assert_int_equal(e.job.limit_s, 3600);
	assert_int_equal(e.task.rank, 5);
	assert_int_equal(e.task.local_rank, 1);
	assert_string_equal(e.task.step, "3");
	assert_string_equal(e.node, "n7");
	assert_int_equal(e.restart, 2);
	assert_true(e.has_gpus);
	assert_int_equal(e.gpus, 0xd); /* the job's, not the step's */
}

#define ENV(text) text, sizeof(text) - 1

/* A prolog and an epilog of the node are told of a job and are none of it; those of tasks are. */
static void scripts(void **state)
{
	static const struct {
		const char *context;
		bool is_job;
	} cases[] = {{"prolog_slurmd", false},
		     {"epilog_slurmd", false},
		     {"prolog_slurmctld", false},
		     {"epilog_slurmctld", false},
		     {"prolog_task", true},
		     {"epilog_task", true},
		     {"", true},
		     {"prolog", true}};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_job_environ e;
		char text[128];
		int n = snprintf(text, sizeof(text), "SLURM_JOB_ID=4711%cSLURM_SCRIPT_CONTEXT=%s",
				 0, cases[i].context);

		gs_job_parse_environ(text, (size_t)n + 1, &e);
		assert_int_equal(e.job.kind, cases[i].is_job ? GS_JOB_SLURM : GS_JOB_NONE);
		assert_int_equal(e.job.job_id, cases[i].is_job ? 4711 : -1);
	}
	(void)state;
}

static void ranks(void **state)
{
	static const struct {
		const char *text;
		size_t bytes;
		int32_t rank, local_rank;
		const char *step;
	} cases[] = {
		{ENV("SLURM_JOB_ID=1\0SLURM_PROCID=3\0SLURM_LOCALID=0\0SLURM_STEP_ID=0"), 3, 0,
		 "0"},
		{ENV("SLURM_JOB_ID=1\0SLURM_PROCID=0\0SLURM_LOCALID=0"), 0, 0, "batch"},
		{ENV("SLURM_JOB_ID=1\0SLURM_PROCID=0\0OMPI_COMM_WORLD_RANK=6\0"
		     "OMPI_COMM_WORLD_LOCAL_RANK=2"),
		 6, 2, "batch"},
		{ENV("SLURM_JOB_ID=1\0SLURM_PROCID=1\0SLURM_LOCALID=0\0SLURM_STEP_ID=0\0RANK=11\0"
		     "LOCAL_RANK=3\0WORLD_SIZE=16"),
		 11, 3, "0"},
		/* somebody's own RANK is none of torchrun's */
		{ENV("SLURM_JOB_ID=1\0SLURM_PROCID=1\0SLURM_LOCALID=0\0SLURM_STEP_ID=0\0RANK=11"),
		 1, 0, "0"},
		{ENV("PMI_RANK=4\0MPI_LOCALRANKID=1"), 4, 1, ""},
		{ENV("PMIX_RANK=9"), 9, -1, ""},
		{ENV("SLURM_JOB_ID=1\0SLURM_STEP_ID=4294967292"), -1, -1, "extern"},
		{ENV("SLURM_JOB_ID=1\0SLURM_STEP_ID=4294967290\0SLURM_PROCID=0"), 0, -1,
		 "interactive"},
		{ENV("SLURM_JOB_ID=1\0SLURM_PROCID=-1\0SLURM_STEP_ID=x"), -1, -1, ""},
		{ENV("SLURM_PROCID=99999999999999999999\0=\0\0A"), -1, -1, ""},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_job_environ e;

		gs_job_parse_environ(cases[i].text, cases[i].bytes, &e);
		assert_int_equal(e.task.rank, cases[i].rank);
		assert_int_equal(e.task.local_rank, cases[i].local_rank);
		assert_string_equal(e.task.step, cases[i].step);
	}
}

static void het_environment(void **state)
{
	static const char text[] = "SLURM_JOB_ID=21\0SLURM_HET_SIZE=2\0"
				   "SLURM_JOB_ID_HET_GROUP_0=20\0SLURM_JOB_ID_HET_GROUP_1=21";
	static const char none[] = "SLURM_JOB_ID=0\0SLURM_JOB_USER=eve\0SLURM_JOB_GPUS=a";
	struct gs_job_environ e;

	gs_job_parse_environ(text, sizeof(text), &e);
	assert_string_equal(e.job.id, "20+1");
	gs_job_parse_environ(none, sizeof(none), &e);
	assert_int_equal(e.job.kind, GS_JOB_NONE);
	assert_string_equal(e.job.user, "");
	assert_false(e.has_gpus);
}

/* --- lists --- */

static void lists(void **state)
{
	uint64_t m;

	assert_int_equal(gs_job_node_position("n1", "n1"), 0);
	assert_int_equal(gs_job_node_position("a,n[01-02,05],b", "n05"), 3);
	assert_int_equal(gs_job_node_position("a,n[01-02,05],b", "b"), 4);
	assert_int_equal(gs_job_node_position("a,n[01-02,05],b", "n5"), -1);
	assert_int_equal(gs_job_node_position("r[0-1]n[8-10]x,z", "r1n9x"), 4);
	assert_int_equal(gs_job_node_position("n[098-101]", "n100"), 2);
	assert_int_equal(gs_job_node_position("n[1-", "n1"), -1);
	assert_int_equal(gs_job_node_position("n[x]", "nx"), -1);
	assert_int_equal(gs_job_node_position("n[1-999999999999],m", "m"), -1);
	assert_int_equal(gs_job_node_position("", ""), -1);

	assert_true(gs_job_gres("gpu:a100:2(IDX:0-1)", 19, &m));
	assert_int_equal(m, 3);
	assert_true(gs_job_gres("nic:1(IDX:5),gpu(IDX:2,4)", 25, &m));
	assert_int_equal(m, 0x14);
	assert_true(gs_job_gres("gpu:a:1(IDX:0),gpu:b:1(IDX:3)", 29, &m));
	assert_int_equal(m, 9);
	assert_false(gs_job_gres("gpu:2", 5, &m));
	assert_false(gs_job_gres("gpu:2(IDX:N/A)", 14, &m));
	assert_false(gs_job_gres("gpux:2(IDX:1)", 13, &m));
	assert_false(gs_job_gres("", 0, &m));
	assert_true(gs_job_gres("gpu:1(IDX:70)", 13, &m)); /* beyond the mask: left out */
	assert_int_equal(m, 0);
}

/* --- GPUs --- */

static const struct gs_job_gpus crossed = {
	.n = 3,
	.gpu = {{.uuid = "GPU-a", .bus_id = "0000:01", .minor = 2, .index = 0},
		{.uuid = "GPU-b", .bus_id = "0000:02", .minor = 0, .index = 1},
		{.uuid = "GPU-c", .bus_id = "0000:03", .minor = 1, .index = 2}},
};

static void information(void **state)
{
	static const char text[] = "Model: \t\t NVIDIA H200\nIRQ:   \t\t 66\n"
				   "GPU UUID: \t GPU-1b2c\nVideo BIOS: \t 96\n"
				   "Bus Type: \t PCIe\nBus Location: \t 0000:0f:00.0\n"
				   "Device Minor: \t 3\nGPU Excluded:\t No\n";
	struct gs_job_gpu g;

	assert_true(gs_job_parse_information(text, sizeof(text) - 1, &g));
	assert_string_equal(g.uuid, "GPU-1b2c");
	assert_string_equal(g.bus_id, "0000:0f:00.0");
	assert_int_equal(g.minor, 3);
	assert_false(gs_job_parse_information("Model: x\n", 9, &g));
}

static void masks(void **state)
{
	static const char files[] = "# comment Name=gpu File=/dev/nvidia9\n"
				    "NodeName=n[1-2] Name=gpu Type=a100 File=/dev/nvidia[2,0]\n"
				    "NodeName=n3 Name=gpu File=/dev/nvidia1\nName=nic File=/dev/x\n"
				    "name=GPU file=/dev/nvidia1 # last\n";
	static const char nvml[] = "AutoDetect=nvml\nName=gpu Type=a100\n";
	struct gs_job_gpus g = crossed;

	assert_int_equal(gs_job_gpus_of_slurm(&g, 1 << 0), 1 << 1); /* minor 0 */
	assert_int_equal(gs_job_gpus_of_slurm(&g, 7), 7);
	assert_int_equal(gs_job_gpus_of_slurm(&g, 8), 0);
	gs_job_parse_gres_conf(files, sizeof(files) - 1, "n2", &g);
	assert_int_equal(g.n_minors, 3);
	assert_int_equal(gs_job_gpus_of_slurm(&g, 1 << 0), 1 << 0); /* minor 2 */
	assert_int_equal(gs_job_gpus_of_slurm(&g, 1 << 1), 1 << 1); /* minor 0 */
	assert_int_equal(gs_job_gpus_of_slurm(&g, 1 << 2), 1 << 2); /* minor 1 */
	gs_job_parse_gres_conf(nvml, sizeof(nvml) - 1, "n2", &g);
	assert_true(g.by_nvml);
	assert_int_equal(gs_job_gpus_of_slurm(&g, 1 << 0), 1 << 0);
	/* A machine of which nothing is known. */
	g = (struct gs_job_gpus){0};
	assert_int_equal(gs_job_gpus_of_slurm(&g, 5), 5);
}

struct seen {
	int64_t job[4], uid[4];
	uint64_t mask[4];
	size_t n;
};

static void note(void *ctx, int64_t job, int64_t uid, uint64_t mask)
{
	struct seen *s = ctx;

	s->job[s->n] = job;
	s->uid[s->n] = uid;
	s->mask[s->n++] = mask;
}

static bool drop(const char *name, const char *text, struct seen *s)
{
	*s = (struct seen){.n = 0};
	return gs_job_parse_drop(name, text, strlen(text), &crossed, note, s);
}

static void drops(void **state)
{
	struct seen s;

	assert_true(drop("0", "4711 1001\n", &s)); /* jobstats: as Slurm counts */
	assert_int_equal(s.job[0], 4711);
	assert_int_equal(s.uid[0], 1001);
	assert_int_equal(s.mask[0], 1 << 1);
	assert_true(drop("GPU-c", "4711 1001", &s));
	assert_int_equal(s.mask[0], 1 << 2);
	assert_true(drop("0", "12\n13\n", &s)); /* dcgm: as NVML counts, several jobs */
	assert_int_equal(s.n, 2);
	assert_int_equal(s.job[1], 13);
	assert_int_equal(s.uid[1], -1);
	assert_int_equal(s.mask[1], 1 << 0);
	assert_true(drop("2.1", "14", &s));
	assert_int_equal(s.mask[0], 1 << 2);
	assert_true(drop("1", "{\"SLURM_JOB_ID\": \"99\", \"SLURM_JOB_USER\": \"x\"}", &s));
	assert_int_equal(s.job[0], 99);
	assert_int_equal(s.mask[0], 1 << 1);
	assert_false(drop("1", "{\"SLURM_JOB_ID\"", &s));
	assert_false(drop("1", "none\n", &s));
	assert_false(drop("GPU-x", "1 2", &s));
	assert_false(drop("1.x", "1", &s));
	assert_false(drop("readme", "1", &s));
	assert_false(drop("64", "1", &s));
	assert_int_equal(s.n, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_shapes),
		cmocka_unit_test(json_2205),
		cmocka_unit_test(json_odd),
		cmocka_unit_test(text_2205),
		cmocka_unit_test(pids),
		cmocka_unit_test(environment),
		cmocka_unit_test(scripts),
		cmocka_unit_test(ranks),
		cmocka_unit_test(het_environment),
		cmocka_unit_test(lists),
		cmocka_unit_test(information),
		cmocka_unit_test(masks),
		cmocka_unit_test(drops),
	};

	folder = argc > 1 ? argv[1] : ".";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
