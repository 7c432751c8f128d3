/* The table of jobs, on proc and cgroup folders made by hand, with a scontrol made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "fake_proc.h"
#include "sources/identity/job.h"

#define SECOND_NS 1000000000ull

static uint64_t later_ns; /* added to the clock */

static uint64_t now_ns(void)
{
	return gs_clock_boot_ns() + later_ns;
}

struct table {
	struct fake *fake;
	struct gs_jobs *jobs;
	char cgroups[128], bin[128], drops[128];
};

/* limit_ns: how long one command may take. */
static int setup_limit(void **state, uint64_t limit_ns)
{
	struct table *t = calloc(1, sizeof(*t));
	struct gs_jobs_options o = {.size = sizeof(o), .now_ns = now_ns};
	struct gs_err err;
	void *fake = NULL;

	if (fake_setup(&fake) != 0)
		return -1;
	t->fake = fake;
	later_ns = 3600 * SECOND_NS;
	snprintf(t->cgroups, sizeof(t->cgroups), "%s/cgroup", t->fake->root);
	snprintf(t->bin, sizeof(t->bin), "%s/bin", t->fake->root);
	snprintf(t->drops, sizeof(t->drops), "%s/drops", t->fake->root);
	mkdir(t->cgroups, 0755);
	mkdir(t->bin, 0755);
	mkdir(t->drops, 0755);
	o.proc_root = t->fake->root;
	o.cgroup_root = t->cgroups;
	o.command_path = t->bin;
	o.drop_folders = t->drops;
	o.gres_conf = "/nonexistent";
	o.node = "n1";
	o.command_ns = limit_ns;
	o.trusted_uid = getuid();
	*state = t;
	return gs_jobs_new(&o, &t->jobs, &err);
}

/* Commands that answer have as long as they need, however slow the machine is. */
static int setup(void **state)
{
	return setup_limit(state, 600 * SECOND_NS);
}

static int setup_hang(void **state)
{
	return setup_limit(state, SECOND_NS);
}

static int teardown(void **state)
{
	struct table *t = *state;
	void *fake = t->fake;

	gs_jobs_free(&t->jobs);
	free(t);
	return fake_teardown(&fake);
}

/* The folder of a group of Slurm's or a pod's, owned by who runs the tests: as if by root. */
static void make_group(struct table *t, const char *line)
{
	const char *controllers = strchr(line, ':') + 1, *below = strchr(controllers, ':') + 1;
	char path[512];
	int n;

	if (!strstr(below, "slurm") && !strstr(below, "kubepods"))
		return;
	n = snprintf(path, sizeof(path), "%s/%.*s%.*s", t->cgroups, (int)(below - controllers - 1),
		     controllers, (int)strcspn(below, "\n"), below);
	for (char *p = path + strlen(t->cgroups) + 1; n > 0 && (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0755);
		*p = '/';
	}
	mkdir(path, 0755);
}

/* A process whose group, if it has one, is nowhere below /sys/fs/cgroup. */
static void process_only(struct table *t, unsigned pid, unsigned long long ticks,
			 const char *cgroup, const char *env, size_t env_bytes)
{
	fake_put_stat(t->fake, pid, "x", 1, ticks);
	fake_put(t->fake, pid, "cgroup", cgroup, strlen(cgroup));
	fake_put(t->fake, pid, "environ", env, env_bytes);
}

static void process(struct table *t, unsigned pid, unsigned long long ticks, const char *cgroup,
		    const char *env, size_t env_bytes)
{
	make_group(t, cgroup);
	process_only(t, pid, ticks, cgroup, env, env_bytes);
}

static void group(struct table *t, const char *path)
{
	char command[512];

	snprintf(command, sizeof(command), "mkdir -p %s/%s", t->cgroups, path);
	assert_int_equal(system(command), 0);
}

static void program(struct table *t, const char *script)
{
	char path[256];
	GS_FCLOSE FILE *f = NULL;

	snprintf(path, sizeof(path), "%s/scontrol", t->bin);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "#!/bin/sh\necho \"$@\" >>%s/asked\n%s\n", t->bin, script);
	chmod(path, 0755);
}

/* How often scontrol was called with these words. */
static int asked(struct table *t, const char *words)
{
	char path[256], line[256];
	GS_FCLOSE FILE *f = NULL;
	int n = 0;

	snprintf(path, sizeof(path), "%s/asked", t->bin);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		n += strstr(line, words) != NULL;
	return n;
}

static void ask_all(struct table *t)
{
	while (gs_jobs_ask(t->jobs, SECOND_NS))
		;
}

/* How a claim of who runs the tests is called. */
static const char *claim_id(int64_t job_id)
{
	static char id[64];
	char user[32] = "";

	gs_jobs_name_user(getuid(), user, sizeof(user));
	snprintf(id, sizeof(id), "%lld (claimed by %s)", (long long)job_id, user);
	return id;
}

#define ENV(text) text, sizeof(text)
#define V2        "0::/system.slice/slurmstepd.scope/"

static void by_cgroup_and_environment(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;
	const struct gs_job *j;

	process(t, 100, 5, V2 "job_7/step_0/user/task_1\n",
		ENV("SLURM_JOB_ID=7\0SLURM_PROCID=9\0SLURM_JOB_USER=bob\0SLURM_JOB_GPUS=1,3"));
	j = gs_jobs_lookup(t->jobs, 100, &task);
	assert_non_null(j);
	assert_int_equal(j->kind, GS_JOB_SLURM);
	assert_string_equal(j->id, "7");
	assert_string_not_equal(j->user, "bob"); /* which only the environment says */
	assert_int_equal(j->uid, getuid());
	assert_false(j->is_claimed);
	assert_int_equal(j->source, GS_JOB_FROM_CGROUP | GS_JOB_FROM_ENVIRON);
	assert_int_equal(j->gpu_mask, 0xa);
	assert_string_equal(task.step, "0");
	assert_int_equal(task.task_id, 1);
	assert_int_equal(task.rank, 9);
	/* An environment of another job does not count, but for the group's. */
	process(t, 101, 5, V2 "job_8/step_batch/user/task_0\n",
		ENV("SLURM_JOB_ID=7\0SLURM_JOB_USER=bob"));
	j = gs_jobs_lookup(t->jobs, 101, &task);
	assert_string_equal(j->id, "8");
	/* Nor does its rank: before its exec a task has the environment of the daemon. */
	process(t, 104, 5, "4:freezer:/slurm_n1/uid_0/job_8/step_0\n",
		ENV("SLURM_JOB_ID=7\0SLURM_STEP_ID=1\0SLURM_PROCID=3"));
	j = gs_jobs_lookup(t->jobs, 104, &task);
	assert_string_equal(j->id, "8");
	assert_string_equal(task.step, "0");
	assert_int_equal(task.rank, -1);
	/* Without a group of Slurm's the environment is a claim of the process's own user. */
	process(t, 102, 5, "0::/\n",
		ENV("SLURM_JOB_ID=9\0SLURM_JOB_USER=eve\0SLURM_JOB_UID=7\0SLURM_JOB_ACCOUNT=x\0"
		    "SLURM_JOB_GPUS=0"));
	j = gs_jobs_lookup(t->jobs, 102, &task);
	assert_true(j->is_claimed);
	assert_string_equal(j->id, claim_id(9));
	assert_int_equal(j->uid, getuid());
	assert_string_not_equal(j->user, "eve");
	assert_string_equal(j->account, "");
	assert_int_equal(j->gpu_mask, 0);
	assert_null(gs_jobs_by_id(t->jobs, "9"));
	assert_int_equal(j->source, GS_JOB_FROM_ENVIRON);
	/* The daemon of a step has no rank. */
	process(t, 103, 5, V2 "job_7/step_0/slurm\n", ENV("SLURM_JOB_ID=7\0SLURM_PROCID=3"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 103, &task)->id, "7");
	assert_int_equal(task.rank, -1);
	/* Who wants the job alone. */
	assert_string_equal(gs_jobs_lookup(t->jobs, 103, NULL)->id, "7");
	assert_null(gs_jobs_lookup(t->jobs, 555, NULL));
}

static void sluid_and_job_number(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;
	const struct gs_job *j;

	process(t, 100, 5, V2 "s0A1B2C3D4E5F6/step_0/user/task_0\n",
		ENV("SLURM_JOB_ID=70\0SLURM_JOB_SLUID=s0A1B2C3D4E5F6"));
	j = gs_jobs_lookup(t->jobs, 100, &task);
	assert_string_equal(j->id, "70");
	assert_string_equal(j->sluid, "s0A1B2C3D4E5F6");
	/* Requeued: another sluid, the same number. */
	process(t, 101, 9, V2 "s0A1B2C3D4E5F7/step_0/user/task_0\n", ENV("SLURM_JOB_ID=70"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 101, &task)->sluid, "s0A1B2C3D4E5F7");
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->sluid, "s0A1B2C3D4E5F6");
	assert_string_equal(gs_jobs_by_id(t->jobs, "s0A1B2C3D4E5F7") ? "known" : "not", "not");
	assert_non_null(gs_jobs_by_id(t->jobs, "70"));
}

static void requeue_by_folder(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;
	struct gs_jobs_list list;
	char command[256];

	group(t, "system.slice/slurmstepd.scope/job_7/step_0");
	process(t, 100, 5, V2 "job_7/step_0/user/task_0\n",
		ENV("SLURM_JOB_ID=7\0SLURM_JOB_NAME=first"));
	process(t, 101, 5, V2 "job_7/step_0/user/task_1\n", ENV("SLURM_JOB_ID=7"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->name, "first");
	assert_ptr_equal(gs_jobs_lookup(t->jobs, 101, &task), gs_jobs_lookup(t->jobs, 100, &task));
	/* The other run's folder is another one; a file keeps the old inode from being reused. */
	snprintf(command, sizeof(command),
		 "cd %s/system.slice/slurmstepd.scope && mv job_7 old && mkdir job_7", t->cgroups);
	assert_int_equal(system(command), 0);
	process(t, 200, 900, V2 "job_7/step_0/user/task_0\n",
		ENV("SLURM_JOB_ID=7\0SLURM_RESTART_COUNT=1\0SLURM_JOB_NAME=second"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 200, &task)->name, "second");
	assert_string_equal(gs_jobs_by_id(t->jobs, "7")->name, "second");
	/* What is left of the old run stays its. */
	later_ns += 100 * SECOND_NS;
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->name, "first");
	assert_int_equal(gs_jobs_list(t->jobs, 1u << GS_JOB_SLURM, &list), 0);
	assert_int_equal(list.n_jobs, 2);
	assert_int_equal(list.n_processes, 3);
	gs_jobs_list_fini(&list);
	/* And all of it ends. */
	fake_drop(t->fake, 100);
	fake_drop(t->fake, 101);
	assert_int_equal(gs_jobs_list(t->jobs, 1u << GS_JOB_SLURM, &list), 0);
	assert_int_equal(list.n_jobs, 1);
	assert_string_equal(list.job[0].name, "second");
	gs_jobs_list_fini(&list);
}

static void requeue_by_environment(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;

	process(t, 100, 5, "0::/\n", ENV("SLURM_JOB_ID=7\0SLURM_JOB_NAME=first"));
	process(t, 101, 5, "0::/\n",
		ENV("SLURM_JOB_ID=7\0SLURM_RESTART_COUNT=1\0SLURM_JOB_NAME=second"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->name, "first");
	assert_string_equal(gs_jobs_lookup(t->jobs, 101, &task)->name, "second");
}

static void reused_pid(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;

	process(t, 100, 5, V2 "job_7/step_0/user/task_0\n", ENV("SLURM_JOB_ID=7"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "7");
	/* It ended: what is known stays until another has the pid. */
	fake_drop(t->fake, 100);
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "7");
	process(t, 100, 6, V2 "job_8/step_0/user/task_0\n", ENV("SLURM_JOB_ID=8"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "8");
	assert_null(gs_jobs_lookup(t->jobs, 555, &task));
	assert_int_equal(task.rank, -1);
}

static void moved_process(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;

	process(t, 100, 5, "0::/system.slice/sshd.service\n", ENV("A=b"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "sshd.service");
	process(t, 100, 5, V2 "job_7/step_extern/user/task_special\n", ENV("A=b"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "sshd.service");
	gs_jobs_forget(t->jobs, 100);
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "7");
	assert_string_equal(task.step, "extern");
	process(t, 100, 5, "0::/system.slice/sshd.service\n", ENV("A=b"));
	later_ns += 31 * SECOND_NS; /* or with time */
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "sshd.service");
}

static void without_slurm(void **state)
{
	static const struct {
		const char *cgroup;
		uint32_t kind;
		const char *id;
	} cases[] = {
		{"0::/kubepods/pod0a1b2c3d-1111-2222-3333-444455556666/"
		 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n",
		 GS_JOB_POD, "0a1b2c3d-1111-2222-3333-444455556666"},
		{"0::/system.slice/docker-"
		 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope\n",
		 GS_JOB_CONTAINER, "0123456789ab"},
		{"0::/system.slice/nginx.service\n", GS_JOB_UNIT, "nginx.service"},
		{"0::/mine\n", GS_JOB_CGROUP, "/mine"},
	};
	struct table *t = *state;
	struct gs_job_task task;
	const struct gs_job *j;

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		process(t, 100 + (unsigned)i, 5, cases[i].cgroup, ENV("A=b"));
		j = gs_jobs_lookup(t->jobs, 100 + (unsigned)i, &task);
		assert_int_equal(j->kind, cases[i].kind);
		assert_string_equal(j->id, cases[i].id);
		assert_int_equal(j->uid, getuid());
		assert_true(j->user[0]);
	}
	/* In no group: a user's, or the tree of root's process. */
	process(t, 200, 5, "0::/\n", ENV("A=b"));
	j = gs_jobs_lookup(t->jobs, 200, &task);
	if (getuid() == 0) {
		assert_int_equal(j->kind, GS_JOB_TREE);
		assert_string_equal(j->id, "tree of 200");
		fake_put_stat(t->fake, 201, "x", 200, 6);
		fake_put(t->fake, 201, "cgroup", "0::/\n", 5);
		assert_string_equal(gs_jobs_lookup(t->jobs, 201, &task)->id, "tree of 200");
		/* A thread of the kernel is of none. */
		fake_put_stat_flags(t->fake, 300, "kworker", 2, 6, 0x00208040);
		fake_put(t->fake, 300, "cgroup", "0::/\n", 5);
		assert_null(gs_jobs_lookup(t->jobs, 300, &task));
		/* As a container's first program's child may be called. */
		fake_put_stat(t->fake, 2, "train", 1, 6);
		fake_put(t->fake, 2, "cgroup", "0::/\n", 5);
		assert_string_equal(gs_jobs_lookup(t->jobs, 2, &task)->id, "tree of 2");
	} else {
		assert_int_equal(j->kind, GS_JOB_USER);
	}
	process(t, 202, 5, "0::/user.slice/user-0.slice/session-3.scope\n", ENV("A=b"));
	assert_int_equal(gs_jobs_lookup(t->jobs, 202, &task)->kind, GS_JOB_USER);
}

#define TEXT                                                                                       \
	"JobId=7 JobName=we, i|rd UserId=amy(501) GroupId=g(5) MCS_label=N/A Account=phys "        \
	"QOS=high JobState=RUNNING TimeLimit=00:10:00 StartTime=1000 Partition=gpu "               \
	"NodeList=n[1-2]   Nodes=n1 CPU_IDs=0-3 Mem=100 GRES=gpu:2(IDX:0,2) MinCPUsNode=1"

static void the_controller_is_asked_once(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;
	const struct gs_job *j;

	program(t, "case $1 in --json) exit 1;; *) echo '" TEXT "';; esac");
	process(t, 100, 5, "4:cpuset:/slurm/uid_501/job_7/step_0\n", ENV("SLURM_JOB_ID=7"));
	process(t, 101, 5, "4:cpuset:/slurm/uid_501/job_7/step_0\n", ENV("SLURM_JOB_ID=7"));
	gs_jobs_lookup(t->jobs, 100, &task);
	gs_jobs_lookup(t->jobs, 101, &task);
	ask_all(t);
	for (int i = 0; i < 5; i++) {
		later_ns += 100 * SECOND_NS;
		j = gs_jobs_lookup(t->jobs, 100, &task);
		ask_all(t);
	}
	assert_string_equal(j->name, "we, i|rd");
	assert_string_equal(j->user, "amy");
	assert_string_equal(j->qos, "high");
	assert_int_equal(j->n_cpus, 4);
	assert_int_equal(j->gpu_mask, 5);
	assert_true(j->source & GS_JOB_FROM_CONTROLLER);
	assert_int_equal(asked(t, "--json -d show job 7"), 1);
	assert_int_equal(asked(t, "-o -d show job 7"), 1);
	/* JSON is not there: it is not tried again. */
	process(t, 102, 5, "4:cpuset:/slurm/uid_501/job_8/step_0\n", ENV("SLURM_JOB_ID=8"));
	gs_jobs_lookup(t->jobs, 102, &task);
	ask_all(t);
	assert_int_equal(asked(t, "--json"), 1);
	assert_int_equal(asked(t, "-o -d show job 8"), 1);
}

static void json_answers(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;

	program(t, "echo '{\"jobs\":[{\"job_id\":7,\"name\":\"'$SLURM_TIME_FORMAT$HOME'x\"}]}'");
	process(t, 100, 5, V2 "job_7/step_0/user/task_0\n", ENV("SLURM_JOB_ID=7"));
	gs_jobs_lookup(t->jobs, 100, &task);
	ask_all(t);
	/* Nothing of our environment is there. */
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->name, "%sx");
	assert_int_equal(asked(t, "-o"), 0);
}

static void a_controller_that_hangs(void **state)
{
	struct table *t = *state;
	struct gs_jobs_stats s;
	struct gs_job_task task;

	program(t, "/bin/sleep 100");
	for (unsigned i = 1; i <= 5; i++) {
		char cgroup[64];

		snprintf(cgroup, sizeof(cgroup), V2 "job_%u/step_0/user/task_0\n", i);
		process(t, 100 + i, 5, cgroup, ENV("A=b"));
		gs_jobs_lookup(t->jobs, 100 + i, &task);
	}
	ask_all(t);
	gs_jobs_stats(t->jobs, &s);
	/* The first that takes too long ends it for a while: the others wait. */
	assert_int_equal(s.n_commands, 1);
	assert_int_equal(s.n_commands_late, 1);
	assert_int_equal(gs_jobs_ask(t->jobs, 0), 0);
	/* They are asked again, in this second or, on a slow machine, after one more pause. */
	program(t, "exit 1");
	while (s.n_commands <= 5) {
		later_ns += 61 * SECOND_NS;
		ask_all(t);
		gs_jobs_stats(t->jobs, &s);
	}
}

static void odd_answers(void **state)
{
	struct table *t = *state;
	struct gs_jobs_stats s;
	struct gs_job_task task;

	program(t, "/usr/bin/head -c 20000000 /dev/zero");
	process(t, 100, 5, V2 "job_7/step_0/user/task_0\n", ENV("A=b"));
	process(t, 101, 5, V2 "job_8/step_0/user/task_0\n", ENV("A=b"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "7");
	ask_all(t);
	gs_jobs_stats(t->jobs, &s);
	assert_int_equal(s.n_answers_long, 1);
	program(t, "echo nonsense");
	gs_jobs_lookup(t->jobs, 101, &task);
	ask_all(t);
	gs_jobs_stats(t->jobs, &s);
	assert_int_equal(s.n_answers_bad, 1); /* the JSON; in the text there is no such job */
	assert_string_equal(gs_jobs_lookup(t->jobs, 101, &task)->id, "8");
}

static void drop(struct table *t, const char *name, const char *text)
{
	char path[256];
	GS_FCLOSE FILE *f = NULL;

	snprintf(path, sizeof(path), "%s/%s", t->drops, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
}

static void files_of_a_prolog(void **state)
{
	struct table *t = *state;
	struct gs_jobs_stats s;
	struct gs_jobs_list list;
	char path[300];

	drop(t, "0", "7 501\n");
	drop(t, "3", "7 501\n");
	drop(t, "1", "");
	drop(t, "2", "what\n");
	process(t, 100, 5, V2 "job_7/step_0/user/task_0\n", ENV("SLURM_JOB_ID=7"));
	/* One whose processes are not here (yet): its GPUs are allocated all the same. */
	drop(t, "5", "9 502\n");
	assert_int_equal(gs_jobs_list(t->jobs, 1u << GS_JOB_SLURM, &list), 0);
	assert_int_equal(list.n_jobs, 2);
	assert_string_equal(list.job[0].id, "7");
	assert_int_equal(list.job[0].gpu_mask, 9);
	assert_int_equal(list.job[1].gpu_mask, 1 << 5);
	assert_int_equal(list.job[1].uid, 502);
	assert_int_equal(list.n_processes, 1);
	gs_jobs_list_fini(&list);
	gs_jobs_stats(t->jobs, &s);
	assert_int_equal(s.n_drops_bad, 1);
	/* The job's end takes the file away. */
	snprintf(path, sizeof(path), "%s/5", t->drops);
	unlink(path);
	later_ns += 31 * SECOND_NS;
	assert_int_equal(gs_jobs_list(t->jobs, 1u << GS_JOB_SLURM, &list), 0);
	assert_int_equal(list.n_jobs, 1);
	gs_jobs_list_fini(&list);
}

static void open_device_files(void **state)
{
	struct table *t = *state;
	struct gs_jobs_list list;
	char path[300];

	process(t, 100, 5, V2 "job_7/step_0/user/task_0\n", ENV("SLURM_JOB_ID=7"));
	snprintf(path, sizeof(path), "%s/100/fd", t->fake->root);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/100/fd/3", t->fake->root);
	assert_int_equal(symlink("/dev/nvidia2", path), 0);
	snprintf(path, sizeof(path), "%s/100/fd/4", t->fake->root);
	assert_int_equal(symlink("/dev/nvidiactl", path), 0);
	/* The driver says which of them it is. */
	for (int i = 0; i < 3; i++) {
		static const int minor[] = {1, 2, 0};
		GS_FCLOSE FILE *f = NULL;
		char command[300];

		snprintf(command, sizeof(command), "mkdir -p %s/driver/nvidia/gpus/0000:0%d:00.0",
			 t->fake->root, i + 1);
		assert_int_equal(system(command), 0);
		snprintf(command, sizeof(command),
			 "%s/driver/nvidia/gpus/0000:0%d:00.0/information", t->fake->root, i + 1);
		f = fopen(command, "w");
		fprintf(f, "Bus Location: \t 0000:0%d:00.0\nDevice Minor: \t %d\n", i + 1,
			minor[i]);
	}
	assert_int_equal(gs_jobs_list(t->jobs, 0, &list), 0);
	assert_int_equal(list.n_jobs, 1);
	assert_int_equal(list.job[0].gpu_mask, 1 << 1);
	gs_jobs_list_fini(&list);
}

static void many_jobs(void **state)
{
	struct table *t = *state;
	struct gs_jobs_stats s;
	struct gs_job_task task;
	char cgroup[64];

	/* More jobs than are kept go by: those that ended make room. */
	for (unsigned i = 1; i <= 4300; i++) {
		snprintf(cgroup, sizeof(cgroup), V2 "job_%u/step_0/user/task_0\n", i);
		process(t, 100, i, cgroup, ENV("A=b"));
		assert_int_equal(gs_jobs_lookup(t->jobs, 100, &task)->job_id, i);
	}
	gs_jobs_stats(t->jobs, &s);
	assert_int_equal(s.n_jobs_full, 0);
	assert_null(gs_jobs_by_id(t->jobs, "1"));
	assert_non_null(gs_jobs_by_id(t->jobs, "4299"));
}

#define OWNER "JobId=7 JobName=x UserId=u(%u) GroupId=g(5) Account=phys JobState=RUNNING"

/* A controller that says whose job 7 is. */
static void owner_of_job_7(struct table *t, unsigned uid)
{
	char script[256];

	snprintf(script, sizeof(script), "case $1 in -o) echo '" OWNER "';; *) exit 1;; esac", uid);
	program(t, script);
}

static void a_claim_is_proven_by_the_controller(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;
	struct gs_job seen;
	const struct gs_job *j;

	owner_of_job_7(t, getuid());
	process(t, 100, 5, "0::/\n", ENV("SLURM_JOB_ID=7"));
	seen = *gs_jobs_lookup(t->jobs, 100, &task);
	assert_true(seen.is_claimed);
	ask_all(t);
	j = gs_jobs_now(t->jobs, &seen);
	assert_non_null(j);
	assert_false(j->is_claimed);
	assert_string_equal(j->id, "7");
	assert_string_equal(j->account, "phys");
	/* The same for what comes later, and when it is read again. */
	process(t, 101, 5, "0::/\n", ENV("SLURM_JOB_ID=7"));
	assert_ptr_equal(gs_jobs_lookup(t->jobs, 101, &task), j);
	later_ns += 31 * SECOND_NS;
	assert_ptr_equal(gs_jobs_lookup(t->jobs, 100, &task), j);
	assert_ptr_equal(gs_jobs_by_id(t->jobs, "7"), j);
}

static void a_claim_to_anothers_job_stays_one(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;
	const struct gs_job *real, *claim;

	owner_of_job_7(t, getuid() + 1);
	process(t, 100, 5, "0::/\n", ENV("SLURM_JOB_ID=7"));
	gs_jobs_lookup(t->jobs, 100, &task);
	ask_all(t);
	/* At once, and when the process is read again. */
	assert_true(gs_jobs_lookup(t->jobs, 100, &task)->is_claimed);
	assert_null(gs_jobs_by_id(t->jobs, "7"));
	later_ns += 31 * SECOND_NS;
	claim = gs_jobs_lookup(t->jobs, 100, &task);
	assert_true(claim->is_claimed);
	assert_string_equal(claim->id, claim_id(7));
	assert_string_equal(claim->account, "");
	/* The real one beside it, whose user is in its path. */
	process(t, 101, 5, "4:cpuset:/slurm/uid_4242/job_7/step_0\n", ENV("SLURM_JOB_ID=7"));
	real = gs_jobs_lookup(t->jobs, 101, &task);
	assert_false(real->is_claimed);
	assert_int_equal(real->uid, 4242);
	assert_string_equal(real->id, "7");
	assert_ptr_not_equal(real, claim);
	assert_ptr_equal(gs_jobs_by_id(t->jobs, "7"), real);
}

static void a_users_own_group_is_a_claim(void **state)
{
	static const char own[] = "0::/user.slice/slurmstepd.scope/job_8/step_0/user/task_0\n";
	struct table *t = *state;
	struct gs_job_task task;
	char path[256];

	/* Not to be seen, or, as root's test, of another user: a folder above it is enough. */
	process_only(t, 100, 5, V2 "job_8/step_0/user/task_0\n", ENV("A=b"));
	assert_true(gs_jobs_lookup(t->jobs, 100, &task)->is_claimed);
	process(t, 101, 5, own, ENV("A=b"));
	assert_false(gs_jobs_lookup(t->jobs, 101, &task)->is_claimed);
	snprintf(path, sizeof(path), "%s/user.slice", t->cgroups);
	assert_int_equal(chmod(path, 0777), 0); /* anybody may make folders there */
	process(t, 102, 5, "0::/user.slice/slurmstepd.scope/job_18/step_0\n", ENV("A=b"));
	assert_true(gs_jobs_lookup(t->jobs, 102, &task)->is_claimed);
	if (getuid() != 0)
		return;
	assert_int_equal(chmod(path, 0755) + chown(path, 65534, 65534), 0);
	process(t, 103, 5, "0::/user.slice/slurmstepd.scope/job_28/step_0\n", ENV("A=b"));
	assert_true(gs_jobs_lookup(t->jobs, 103, &task)->is_claimed);
	assert_string_equal(task.step, "0");
	/* A real group in another hierarchy comes first, though it says less. */
	process(t, 104, 5, "4:cpuset:/slurm/uid_4242/job_9\n", ENV("A=b"));
	process_only(t, 104, 5,
		     "1:name=systemd:/user.slice/slurmstepd.scope/job_8/step_0/user/task_0\n"
		     "4:cpuset:/slurm/uid_4242/job_9\n",
		     ENV("A=b"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 104, &task)->id, "9");
}

static void claims_have_little_room(void **state)
{
	struct table *t = *state;
	struct gs_jobs_stats s;
	struct gs_job_task task;
	unsigned n_claimed = 0;

	for (unsigned i = 0; i < 400; i++) {
		char env[32];
		int n = snprintf(env, sizeof(env), "SLURM_JOB_ID=%u", 5000 + i);

		process(t, 1000 + i, 5, "0::/\n", env, (size_t)n + 1);
		n_claimed += gs_jobs_lookup(t->jobs, 1000 + i, &task)->is_claimed;
	}
	assert_in_range(n_claimed, 1, 16);
	gs_jobs_stats(t->jobs, &s);
	assert_int_equal(s.n_claims_left_out, 400 - n_claimed);
	process(t, 100, 5, V2 "job_7/step_0/user/task_0\n", ENV("A=b"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "7");
	/* Those that ended make room for new ones. */
	for (unsigned i = 0; i < 400; i++)
		fake_drop(t->fake, 1000 + i);
	later_ns += 2 * SECOND_NS;
	process(t, 2000, 5, "0::/\n", ENV("SLURM_JOB_ID=9000"));
	assert_true(gs_jobs_lookup(t->jobs, 2000, &task)->is_claimed);
}

/* Its folder in /proc is root's: the kernel's own words on it count. */
static void a_process_that_cannot_be_dumped(void **state)
{
	static const char status[] = "Name:\tx\nUid:\t4242\t4242\t4242\t4242\n";
	struct table *t = *state;
	struct gs_job_task task;

	process(t, 100, 5, "0::/\n", ENV("SLURM_JOB_ID=7"));
	fake_put(t->fake, 100, "status", status, sizeof(status) - 1);
	assert_int_equal(gs_jobs_lookup(t->jobs, 100, &task)->uid, 4242);
}

/* slurmstepd's own children are root's, and often the first to be read. */
static void the_user_of_a_job_with_processes_of_root(void **state)
{
	static const char root[] = "Uid:\t0\t0\t0\t0\n", user[] = "Uid:\t4242\t0\t0\t0\n";
	struct table *t = *state;
	struct gs_job_task task;

	process(t, 100, 5, V2 "job_7/step_extern/user/task_special\n", ENV("SLURM_JOB_UID=9"));
	fake_put(t->fake, 100, "status", root, sizeof(root) - 1);
	assert_int_equal(gs_jobs_lookup(t->jobs, 100, &task)->uid, 0);
	process(t, 101, 5, V2 "job_7/step_0/user/task_0\n", ENV("SLURM_JOB_UID=9"));
	fake_put(t->fake, 101, "status", user, sizeof(user) - 1);
	assert_int_equal(gs_jobs_lookup(t->jobs, 101, &task)->uid, 4242);
	assert_string_equal(gs_jobs_lookup(t->jobs, 101, &task)->user, "4242");
	later_ns += 31 * SECOND_NS;
	assert_int_equal(gs_jobs_lookup(t->jobs, 100, &task)->uid, 4242);
}

static void an_array_of_others(void **state)
{
	struct table *t = *state;
	struct gs_job_task task;
	const struct gs_job *j;

	/* Without a controller an array is known by the environment, but no id is there twice. */
	process(t, 100, 5, V2 "job_71/step_0/user/task_0\n",
		ENV("SLURM_JOB_ID=71\0SLURM_ARRAY_JOB_ID=70\0SLURM_ARRAY_TASK_ID=3"));
	process(t, 101, 5, V2 "job_99/step_0/user/task_0\n",
		ENV("SLURM_JOB_ID=99\0SLURM_ARRAY_JOB_ID=70\0SLURM_ARRAY_TASK_ID=3"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 100, &task)->id, "70_3");
	assert_string_equal(gs_jobs_lookup(t->jobs, 101, &task)->id, "99");
	/* The controller says that it is of none. */
	owner_of_job_7(t, getuid());
	process(t, 102, 5, V2 "job_7/step_0/user/task_0\n",
		ENV("SLURM_JOB_ID=7\0SLURM_ARRAY_JOB_ID=4\0SLURM_ARRAY_TASK_ID=1"));
	assert_string_equal(gs_jobs_lookup(t->jobs, 102, &task)->id, "4_1");
	ask_all(t);
	later_ns += 31 * SECOND_NS;
	j = gs_jobs_lookup(t->jobs, 102, &task);
	assert_string_equal(j->id, "7");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(by_cgroup_and_environment),
		CASE(sluid_and_job_number),
		CASE(requeue_by_folder),
		CASE(requeue_by_environment),
		CASE(reused_pid),
		CASE(moved_process),
		CASE(without_slurm),
		CASE(the_controller_is_asked_once),
		CASE(json_answers),
		cmocka_unit_test_setup_teardown(a_controller_that_hangs, setup_hang, teardown),
		CASE(odd_answers),
		CASE(files_of_a_prolog),
		CASE(open_device_files),
		CASE(many_jobs),
		CASE(a_claim_is_proven_by_the_controller),
		CASE(a_claim_to_anothers_job_stays_one),
		CASE(a_users_own_group_is_a_claim),
		CASE(claims_have_little_room),
		CASE(a_process_that_cannot_be_dumped),
		CASE(the_user_of_a_job_with_processes_of_root),
		CASE(an_array_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
