/* Totals of jobs, out of a proc folder and groups made by hand: without probes. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/job_accounting/accounting_int.h"
#include "unit/identity/fake_proc.h"

#define GROUP "system.slice/slurmstepd.scope/job_12"
#define MS    1000000ull
/*
 * Above the largest number that the kernel gives (PID_MAX_LIMIT, 2^22, in include/linux/threads.h):
 * probes see the processes of the machine, and none of them may be taken for one of these.
 */
#define NO_PID 5000000u

static void growth_never_steps_back(void **state)
{
	struct gs_taskstats sum = {0}, last = {0}, now = {.syscalls = 10, .faults_minor = 3};

	accounting_add_growth(&sum, &last, &now);
	assert_int_equal(sum.syscalls, 10);
	/* A torn reading. */
	now.syscalls = 4;
	now.faults_minor = 5;
	accounting_add_growth(&sum, &last, &now);
	assert_int_equal(sum.syscalls, 10);
	assert_int_equal(sum.faults_minor, 5);
	/* What was read too low is not added twice when it is right again. */
	now.syscalls = 12;
	accounting_add_growth(&sum, &last, &now);
	assert_int_equal(sum.syscalls, 12);
	/* Another process of the same job: its own last reading. */
	last = (struct gs_taskstats){0};
	accounting_add_growth(&sum, &last, &now);
	assert_int_equal(sum.syscalls, 24);
}

static void put_file(const struct fake *f, const char *name, const char *text)
{
	char path[512];
	GS_FCLOSE FILE *file = NULL;

	snprintf(path, sizeof(path), "%s/cgroup/" GROUP "/%s", f->root, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
}

static void put_process(const struct fake *f, unsigned pid)
{
	static const char group[] = "0::/" GROUP "/step_0/user/task_0\n";
	static const char variables[] =
		"SLURM_JOB_ID=12\0SLURM_JOB_USER=ann\0SLURM_JOB_ACCOUNT=phys\0"
		"SLURM_PROCID=0\0SLURM_CLUSTER_NAME=c";

	fake_put_stat(f, pid, "work", 1, 100);
	fake_put(f, pid, "cgroup", group, strlen(group));
	fake_put(f, pid, "environ", variables, sizeof(variables));
}

static struct gs_accounting *begin(const struct fake *f, const struct gs_accounting_options *more)
{
	struct gs_accounting_options o = *more;
	struct gs_accounting *a = NULL;
	struct gs_err err = {{0}};
	char cgroup[128];

	snprintf(cgroup, sizeof(cgroup), "%s/cgroup", f->root);
	assert_int_equal(fake_run("mkdir -p %s/cgroup/" GROUP, f->root), 0);
	o.size = sizeof(o);
	o.proc_root = f->root;
	o.cgroup_root = cgroup;
	o.trusted_uid = getuid();
	assert_int_equal(gs_accounting_new(&o, &a, &err), 0);
	return a;
}

static struct gs_job_accounts *read_all(struct gs_accounting *a, const struct gs_gpu_snapshot *gpus)
{
	struct gs_job_accounts *now = NULL;
	struct gs_err err = {{0}};

	assert_int_equal(gs_accounting_read(a, gpus, &now, &err), 0);
	return now;
}

/* Users who claim hundreds of jobs, with the table full of real ones but for one place. */
static void claims_take_no_place_of_a_job(void **state)
{
	const struct fake *f = *state;
	struct gs_accounting *a = begin(f, &(struct gs_accounting_options){.max_jobs = 1});
	struct gs_job_accounts *now;
	uint32_t n_claimed = 0;

	for (unsigned i = 0; i < 400; i++) {
		char variables[32], status[64];
		int n = snprintf(variables, sizeof(variables), "SLURM_JOB_ID=%u", 5000 + i);
		int m = snprintf(status, sizeof(status), "Uid:\t%u\t0\t0\t0\n", 7000 + i % 3);

		fake_put_stat(f, NO_PID + 1 + i, "sleep", 1, 100);
		fake_put(f, NO_PID + 1 + i, "cgroup", "0::/\n", 5);
		fake_put(f, NO_PID + 1 + i, "status", status, (size_t)m);
		fake_put(f, NO_PID + 1 + i, "environ", variables, (size_t)n + 1);
	}
	gs_job_accounts_free(&(struct gs_job_accounts *){read_all(a, NULL)});
	put_process(f, NO_PID);
	now = read_all(a, NULL);
	for (uint32_t i = 0; i < now->n_accounts; i++) {
		n_claimed += now->account[i].job.is_claimed;
		if (!now->account[i].job.is_claimed)
			assert_string_equal(now->account[i].job.id, "12");
	}
	assert_int_equal(now->n_accounts, n_claimed + 1);
	assert_int_equal(n_claimed, 3 * GS_JOB_CLAIMS_USER_MAX);
	assert_int_equal(now->trouble.jobs_left_out, 0);
	assert_int_equal(now->trouble.claims_left_out, 400 - n_claimed);
	gs_job_accounts_free(&now);
	gs_accounting_free(&a);
}

static void a_job_comes_and_goes(void **state)
{
	const struct fake *f = *state;
	struct gs_accounting *a = begin(f, &(struct gs_accounting_options){.linger_ns = 1});
	struct gs_job_accounts *now = read_all(a, NULL);
	const struct gs_job_account *j;

	assert_int_equal(now->n_accounts, 0);
	gs_job_accounts_free(&now);
	put_process(f, NO_PID);
	put_file(f, "memory.current", "1000\n");
	put_file(f, "memory.max", "5000\n");
	put_file(f, "cpu.pressure",
		 "some avg10=0.00 avg60=0.00 avg300=0.00 total=7000\nfull avg10=0 total=500\n");
	now = read_all(a, NULL);
	assert_int_equal(now->n_accounts, 1);
	j = &now->account[0];
	assert_string_equal(j->job.id, "12");
	assert_false(j->job.is_claimed);
	assert_int_equal(j->job.uid, getuid()); /* the environment names another user */
	assert_string_not_equal(j->job.user, "ann");
	assert_string_equal(j->job.account, "");
	assert_int_equal(j->n_processes, 1);
	assert_int_equal(j->memory_bytes, 1000);
	assert_int_equal(j->memory_limit_bytes, 5000);
	/* What was before is not the agent's to tell: it begins with the first reading. */
	assert_int_equal(j->pressure_ns[GS_PRESSURE_CPU][0], 0);
	assert_int_equal(j->pressure_ns[GS_PRESSURE_IO][0], -1);
	assert_int_equal(j->n_gpus, -1);
	assert_false(now->probes);
	gs_job_accounts_free(&now);

	put_file(f, "memory.current", "400\n");
	put_file(f, "cpu.pressure",
		 "some avg10=0.00 avg60=0.00 avg300=0.00 total=9000\nfull avg10=0 total=600\n");
	now = read_all(a, NULL);
	j = &now->account[0];
	assert_int_equal(j->memory_bytes, 400);
	assert_int_equal(j->memory_peak_bytes, 1000);
	assert_int_equal(j->pressure_ns[GS_PRESSURE_CPU][0], 2000000);
	assert_int_equal(j->pressure_ns[GS_PRESSURE_CPU][1], 100000);
	gs_job_accounts_free(&now);
	/* Its group was made anew, as for a requeued job: what was told stays. */
	put_file(f, "cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=10\n");
	now = read_all(a, NULL);
	assert_int_equal(now->account[0].pressure_ns[GS_PRESSURE_CPU][0], 2000000);
	assert_int_equal(now->account[0].pressure_ns[GS_PRESSURE_CPU][1], 100000);
	gs_job_accounts_free(&now);

	assert_int_equal(fake_run("rm -rf %s/5000000", f->root), 0);
	now = read_all(a, NULL);
	/* Told once more, or gone already when the clock went on between the two. */
	assert_true(now->n_accounts <= 1);
	assert_true(!now->n_accounts || now->account[0].n_processes == 0);
	gs_job_accounts_free(&now);
	now = read_all(a, NULL);
	assert_int_equal(now->n_accounts, 0);
	gs_job_accounts_free(&now);
	gs_accounting_free(&a);
	assert_null(a);
}

static void what_it_does_not_want_is_left_out(void **state)
{
	const struct fake *f = *state;
	struct gs_accounting *a =
		begin(f, &(struct gs_accounting_options){.kinds = 1u << GS_JOB_POD, .max_jobs = 1});
	struct gs_job_accounts *now;

	put_process(f, NO_PID);
	now = read_all(a, NULL);
	assert_int_equal(now->n_accounts, 0);
	assert_int_equal(now->trouble.jobs_left_out, 0);
	gs_job_accounts_free(&now);
	gs_accounting_free(&a);
}

static struct gs_gpu_snapshot *gpus(double util, double energy)
{
	struct gs_gpu_snapshot *g = calloc(1, sizeof(*g));

	g->n_gpus = 2;
	g->info = calloc(2, sizeof(*g->info));
	g->sample = calloc(2, sizeof(*g->sample));
	g->process = calloc(1, sizeof(*g->process));
	for (uint32_t i = 0; i < 2; i++) {
		g->info[i].index = i;
		g->info[i].minor = (int32_t)i;
		snprintf(g->info[i].uuid, sizeof(g->info[i].uuid), "GPU-%u", i);
		memset(g->sample[i].why, GS_GPU_REASON_NOT_READ, sizeof(g->sample[i].why));
	}
	gs_gpu_set(&g->sample[1], GS_GPU_UTIL, util);
	gs_gpu_set(&g->sample[1], GS_GPU_ENERGY, energy);
	g->n_processes = 1;
	g->process[0] = (struct gs_gpu_process){.gpu = 1, .pid = NO_PID, .used_bytes = 77};
	return g;
}

static void put_process_of(const struct fake *f, unsigned pid, unsigned job)
{
	char group[128], variables[64];
	int n = snprintf(group, sizeof(group),
			 "0::/system.slice/slurmstepd.scope/job_%u/step_0/user/task_0\n", job);
	int m = snprintf(variables, sizeof(variables), "SLURM_JOB_ID=%u", job);

	fake_put_stat(f, pid, "work", 1, 100);
	fake_put(f, pid, "cgroup", group, (size_t)n);
	fake_put(f, pid, "environ", variables, (size_t)m + 1);
}

#define OF_OLD 16

/* One place, whose job has ended; in one search it has processes again, and another job begins. What
 * comes first keeps the place, and no process of one job is counted to the other. */
static void a_place_has_one_job(void **state)
{
	const struct fake *f = *state;
	struct gs_accounting *a =
		begin(f, &(struct gs_accounting_options){.max_jobs = 1, .linger_ns = 3600000 * MS});
	struct gs_gpu_snapshot *g = gpus(0.5, 1000);
	struct gs_job_accounts *now;

	assert_int_equal(
		fake_run("mkdir -p %s/cgroup/system.slice/slurmstepd.scope/job_13", f->root), 0);
	put_process_of(f, NO_PID, 12);
	gs_job_accounts_free(&(struct gs_job_accounts *){read_all(a, NULL)});
	assert_int_equal(fake_run("rm -rf %s/5000000", f->root), 0);
	now = read_all(a, NULL);
	assert_int_equal(now->n_accounts, 1);
	assert_int_equal(now->account[0].n_processes, 0);
	gs_job_accounts_free(&now);

	for (unsigned i = 1; i <= OF_OLD; i++)
		put_process_of(f, NO_PID + i, 12);
	put_process_of(f, NO_PID + OF_OLD + 1, 13);
	free(g->process);
	g->process = calloc(OF_OLD, sizeof(*g->process));
	g->n_processes = OF_OLD;
	for (uint32_t i = 0; i < OF_OLD; i++)
		g->process[i] =
			(struct gs_gpu_process){.gpu = 1, .pid = NO_PID + 1 + i, .used_bytes = 77};
	now = read_all(a, g);
	assert_int_equal(now->n_accounts, 1);
	if (strcmp(now->account[0].job.id, "12") == 0) {
		assert_int_equal(now->account[0].gpu_memory_bytes, 77 * OF_OLD);
	} else {
		assert_string_equal(now->account[0].job.id, "13");
		assert_true(now->account[0].gpu_memory_bytes <= 0);
		assert_int_equal(now->account[0].n_processes, 1);
	}
	gs_job_accounts_free(&now);
	gs_gpu_snapshot_free(&g);
	gs_accounting_free(&a);
}

static void expect_one(struct gs_accounting *a, const char *job, uint32_t n_processes)
{
	struct gs_job_accounts *now = read_all(a, NULL);

	assert_int_equal(now->n_accounts, 1);
	assert_string_equal(now->account[0].job.id, job);
	assert_int_equal(now->account[0].n_processes, n_processes);
	gs_job_accounts_free(&now);
}

static void make_group(const struct fake *f, unsigned job)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/cgroup/system.slice/slurmstepd.scope/job_%u", f->root,
		 job);
	assert_int_equal(fake_run("mkdir -p %s", path), 0);
}

/* One place. Its job is there, and one reading counted none of its processes; those of another job
 * are found before them and after. */
static void a_job_that_is_there_keeps_its_place(void **state)
{
	const struct fake *f = *state;
	struct gs_accounting *a =
		begin(f, &(struct gs_accounting_options){.max_jobs = 1, .linger_ns = 1});

	make_group(f, 13);
	put_process_of(f, NO_PID + 2, 12);
	expect_one(a, "12", 1);
	put_process_of(f, NO_PID + 1, 13);
	put_process_of(f, NO_PID + 3, 13);
	a->job[0].account.n_processes = 0;
	expect_one(a, "12", 1);
	assert_int_equal(a->trouble.jobs_left_out, 1);
	/* It has ended, and nobody has asked how. */
	fake_put(f, NO_PID + 2, "stat", "5000002 (work) Z 1 1 1 0 -1 4 1 0 0 0 1 2 3 4 20 0 1 0 9",
		 53);
	while (!a->job[0].used || strcmp(a->job[0].account.job.id, "13") != 0)
		gs_job_accounts_free(&(struct gs_job_accounts *){read_all(a, NULL)});
	assert_int_equal(a->trouble.jobs_left_out, 1);
	gs_accounting_free(&a);
}

/* What starts its processes comes first, and may be alone for longer than a job that has ended is
 * reported. */
static void a_job_begins_with_what_starts_it(void **state)
{
	const struct fake *f = *state;
	struct gs_accounting *a =
		begin(f, &(struct gs_accounting_options){.max_jobs = 1, .linger_ns = 1});

	if (getuid() != 0)
		skip(); /* slurmstepd is root's */
	make_group(f, 13);
	put_process_of(f, NO_PID + 2, 12);
	fake_put_stat(f, NO_PID + 2, "slurmstepd", 1, 100);
	fake_put(f, NO_PID + 2, "comm", "slurmstepd\n", 11);
	expect_one(a, "12", 0);
	put_process_of(f, NO_PID + 1, 13);
	put_process_of(f, NO_PID + 3, 13);
	expect_one(a, "12", 0);
	assert_int_equal(a->trouble.jobs_left_out, 1);
	put_process_of(f, NO_PID + 4, 12);
	expect_one(a, "12", 1);
	gs_accounting_free(&a);
}

static void gpus_of_a_job(void **state)
{
	const struct fake *f = *state;
	struct gs_accounting *a = begin(f, &(struct gs_accounting_options){.gpu_idle_ns = 1});
	struct gs_gpu_snapshot *g = gpus(0.5, 1000);
	struct gs_job_accounts *now;
	const struct gs_job_account *j;

	put_process(f, NO_PID);
	now = read_all(a, g);
	j = &now->account[0];
	assert_int_equal(j->gpu_mask, 2);
	assert_int_equal(j->n_gpus, 1);
	assert_int_equal(j->gpu_memory_bytes, 77);
	/* It has it since now: no time, and none of the energy before. */
	assert_int_equal(j->gpu_ns, 0);
	assert_true(j->energy_joules == 0);
	gs_job_accounts_free(&now);
	gs_gpu_snapshot_free(&g);

	g = gpus(0.5, 1250);
	now = read_all(a, g);
	j = &now->account[0];
	assert_true(j->gpu_ns > 0);
	assert_true(fabs((double)j->gpu_busy_ns / (double)j->gpu_ns - 0.5) < 0.01);
	assert_true(fabs(j->gpu_ratio - 0.5) < 0.01);
	assert_int_equal(j->gpu_idle_ns, 0);
	assert_int_equal(j->gpus_idle, 0);
	assert_true(j->energy_joules == 250);
	gs_job_accounts_free(&now);
	gs_gpu_snapshot_free(&g);

	/* Idle, and the driver was loaded again. */
	g = gpus(0, 3);
	now = read_all(a, g);
	j = &now->account[0];
	assert_true(j->gpu_idle_ns > 0);
	assert_int_equal(j->gpus_idle, 1);
	assert_true(j->energy_joules == 250);
	gs_job_accounts_free(&now);
	gs_gpu_snapshot_free(&g);
	g = gpus(0, 13);
	now = read_all(a, g);
	assert_true(now->account[0].energy_joules == 260);
	gs_job_accounts_free(&now);
	gs_gpu_snapshot_free(&g);
	gs_accounting_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth_never_steps_back),
		cmocka_unit_test_setup_teardown(a_job_comes_and_goes, fake_setup, fake_teardown),
		cmocka_unit_test_setup_teardown(claims_take_no_place_of_a_job, fake_setup,
						fake_teardown),
		cmocka_unit_test_setup_teardown(what_it_does_not_want_is_left_out, fake_setup,
						fake_teardown),
		cmocka_unit_test_setup_teardown(gpus_of_a_job, fake_setup, fake_teardown),
		cmocka_unit_test_setup_teardown(a_place_has_one_job, fake_setup, fake_teardown),
		cmocka_unit_test_setup_teardown(a_job_that_is_there_keeps_its_place, fake_setup,
						fake_teardown),
		cmocka_unit_test_setup_teardown(a_job_begins_with_what_starts_it, fake_setup,
						fake_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
