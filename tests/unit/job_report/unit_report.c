/* Figures of what a job used, and the shapes of its report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "analysis/job_report/report.h"

#define S 1000000000ull

static uint32_t all_but_syscalls(void)
{
	return ((1u << GS_JOB_KNOWS_COUNT) - 1) & ~(1u << GS_JOB_KNOWS_SYSCALLS);
}

/* Ten seconds on four processors: 20 s of 40 on CPU, 10 s waiting for one. */
static struct gs_job_usage example(void)
{
	struct gs_job_usage u = {
		.elapsed_ns = 10 * S,
		.cores = 4,
		.known = all_but_syscalls(),
		.memory_peak_bytes = 6 << 20,
		.memory_limit_bytes = 8 << 20,
		.machine_bytes = 100 << 20,
		.n_gpus = 0,
		.gpus_idle = NAN,
		.gpu_ratio = NAN,
		.gpu_memory_ratio = NAN,
		.sm_ratio = NAN,
		.tensor_ratio = NAN,
		.dram_ratio = NAN,
		.launches = NAN,
		.nccl_ratio = NAN,
		.imbalance_ratio = NAN,
		.run_s = 100,
		.limit_s = 400,
	};

	u.work.time_ns[GS_TIME_CPU] = 20 * S;
	u.work.time_ns[GS_TIME_RUNQUEUE] = 10 * S;
	u.work.time_ns[GS_TIME_DISK] = 6 * S;
	u.work.time_ns[GS_TIME_SLEEP] = 4 * S;
	u.work.time_ns[GS_TIME_PIPE] = 60 * S;
	u.work.switches_voluntary = 300;
	u.work.switches_forced = 100;
	u.work.io[GS_IO_FILE] = (struct gs_taskstats_io_count){.reads = 10, .read_bytes = 1000};
	u.work.io[GS_IO_TMPFS] = (struct gs_taskstats_io_count){.writes = 10, .write_bytes = 3000};
	u.work.io[GS_IO_PIPE] = (struct gs_taskstats_io_count){.reads = 99, .read_bytes = 99999};
	u.work.faults_major = 50;
	return u;
}

static void figures_are_normalised(void **state)
{
	struct gs_job_usage u = example();
	struct gs_figures f;

	(void)state;
	gs_job_report_figures_of(&u, &f);
	assert_true(f.v[GS_FIGURE_CPU] == 50);
	assert_true(f.v[GS_FIGURE_WAIT] == 25); /* neither on a processor nor waiting for one */
	assert_true(fabs(f.v[GS_FIGURE_RUNQUEUE] - 100.0 / 3) < 1e-9);
	/* 6 of 26 s: a waiting shell's 60 do not count, nor what others took. */
	assert_true(fabs(f.v[GS_FIGURE_IO] - 600.0 / 26) < 1e-6);
	assert_true(fabs(f.v[GS_FIGURE_COMPUTE] - 2000.0 / 26) < 1e-6);
	assert_true(f.v[GS_FIGURE_IDLE] == 0);
	assert_true(fabs(f.v[GS_FIGURE_TAKEN] - 100.0 / 3) < 1e-9);
	assert_true(f.v[GS_FIGURE_SLEEP] == 10);
	assert_true(f.v[GS_FIGURE_LOCK] == 0);
	assert_true(f.v[GS_FIGURE_CPU_DEMAND] == 75);
	/* A pool's threads that wait for work are no part of anything. */
	u.work.time_ns[GS_TIME_LOCK] = 110 * S;
	u.work.idle_ns = 100 * S;
	gs_job_report_figures_of(&u, &f);
	assert_true(fabs(f.v[GS_FIGURE_LOCK] - 1000.0 / 36) < 1e-6);
	assert_true(fabs(f.v[GS_FIGURE_IO] - 600.0 / 36) < 1e-6);
	assert_true(f.v[GS_FIGURE_SWITCHES] == 10);
	assert_true(f.v[GS_FIGURE_FORCED] == 2.5);
	assert_true(f.v[GS_FIGURE_READ_BPS] == 100);
	assert_true(f.v[GS_FIGURE_WRITE_BPS] == 300);
	assert_true(f.v[GS_FIGURE_IO_SIZE] == 200);
	assert_true(f.v[GS_FIGURE_MEMORY] == 75);
	assert_true(f.v[GS_FIGURE_FAULTS_MAJOR] == 5);
	assert_true(f.v[GS_FIGURE_TIME_LIMIT] == 25);
	assert_true(isnan(f.v[GS_FIGURE_SYSCALLS]));
	assert_true(isnan(f.v[GS_FIGURE_GPU]));
}

/* A process that was followed for ten seconds. */
static void one_process(struct gs_job_pace *pace, enum gs_taskstats_time what, double share,
			uint64_t threads)
{
	struct gs_taskstats w = {0};

	w.time_ns[what] = (uint64_t)(share * 10 * S);
	w.time_ns[GS_TIME_SLEEP] = threads * 10 * S - w.time_ns[what];
	gs_job_pace_add(pace, &(struct gs_job_pace_process){
				      .work = &w, .elapsed_ns = 10 * S, .knows_net = true});
}

static void helpers_decide_nothing(void **state)
{
	struct gs_job_usage u = example();
	struct gs_figures f;

	(void)state;
	/* Two readers; a parent that naps, a shell, a pool of seven that has nothing to do. */
	one_process(&u.pace, GS_TIME_DISK, 0.9, 1);
	one_process(&u.pace, GS_TIME_DISK, 0.9, 8);
	one_process(&u.pace, GS_TIME_CPU, 0.05, 2);
	one_process(&u.pace, GS_TIME_SLEEP, 1, 1);
	gs_job_report_figures_of(&u, &f);
	assert_int_equal(u.pace.n, 2);
	assert_true(fabs(f.v[GS_FIGURE_IO] - 90) < 1e-6);
	assert_true(fabs(f.v[GS_FIGURE_IDLE] - 10) < 1e-6);
	/* Sockets by which nothing comes are no network. */
	u.pace = (struct gs_job_pace){0};
	one_process(&u.pace, GS_TIME_NETWORK, 1, 1);
	gs_job_report_figures_of(&u, &f);
	assert_true(f.v[GS_FIGURE_NET] == 0 && f.v[GS_FIGURE_IDLE] == 100);
	/* Without probes: hardly ever awake, while others take its processor away, and a hundred times a second. */
	for (int often = 0; often <= 1; often++) {
		struct gs_taskstats w = {.time_ns[GS_TIME_NETWORK] = 10 * S,
					 .switches_voluntary = often ? 1000 : 20,
					 .switches_forced = often ? 0 : 1000};

		u.pace = (struct gs_job_pace){0};
		gs_job_pace_add(&u.pace,
				&(struct gs_job_pace_process){.work = &w, .elapsed_ns = 10 * S});
		gs_job_report_figures_of(&u, &f);
		assert_true(f.v[GS_FIGURE_NET] == 100 * often);
		assert_true(f.v[GS_FIGURE_IDLE] == 100 - 100 * often);
	}
	/* Half of each of two ranks is half. */
	u.pace = (struct gs_job_pace){0};
	one_process(&u.pace, GS_TIME_CPU, 0.5, 1);
	one_process(&u.pace, GS_TIME_CPU, 0.5, 1);
	gs_job_report_figures_of(&u, &f);
	assert_true(fabs(f.v[GS_FIGURE_COMPUTE] - 50) < 1e-6);
}

/* Seconds of ten: of all threads, and of the one that sets the pace. */
struct paced {
	double cpu, queue, lock, network, pipe, sleep;
	double lead_cpu, lead_queue, lead_lock, lead_network;
	double others; /* the rest of the job was at work */
	double workers;
	uint64_t pipe_reads, socket_reads;
	bool has_workers, is_worker, naps;
};

static void paced_process(struct gs_job_pace *pace, const struct paced *p)
{
	const struct gs_taskstats w = {.time_ns = {[GS_TIME_CPU] = (uint64_t)(p->cpu * S),
						   [GS_TIME_RUNQUEUE] = (uint64_t)(p->queue * S),
						   [GS_TIME_LOCK] = (uint64_t)(p->lock * S),
						   [GS_TIME_NETWORK] = (uint64_t)(p->network * S),
						   [GS_TIME_PIPE] = (uint64_t)(p->pipe * S),
						   [GS_TIME_SLEEP] = (uint64_t)(p->sleep * S)},
				       .switches_voluntary = 10000,
				       .io = {[GS_IO_PIPE] = {.reads = p->pipe_reads},
					      [GS_IO_SOCKET] = {.reads = p->socket_reads}}};
	const struct gs_taskstats_lead lead = {
		.busy_ns = (uint64_t)((p->lead_cpu + p->lead_queue) * S),
		.lock_ns = (uint64_t)(p->lead_lock * S),
		.wire_ns = (uint64_t)(p->lead_network * S),
		.wall_ns = 10 * S,
		.lived_ns = 10 * S};

	gs_job_pace_add(pace,
			&(struct gs_job_pace_process){.work = &w,
						      .lead = &lead,
						      .elapsed_ns = 10 * S,
						      .knows_net = true,
						      .knows_related = true,
						      .has_workers = p->has_workers,
						      .is_worker = p->is_worker,
						      .naps = p->naps,
						      .workers_ns = (uint64_t)(p->workers * S),
						      .others_ns = (uint64_t)(p->others * S)});
}

static struct gs_figures paced_figures(const struct paced *p, size_t n)
{
	struct gs_job_usage u = example();
	struct gs_figures f;

	u.pace = (struct gs_job_pace){0};
	for (size_t i = 0; i < n; i++)
		paced_process(&u.pace, &p[i]);
	gs_job_report_figures_of(&u, &f);
	return f;
}

static bool is_near(double value, double wanted)
{
	return fabs(value - wanted) < 1;
}

static void threads_that_set_the_pace_decide(void **state)
{
	/* Eight that share a lock: each waits as the one that runs most. */
	const struct paced fight = {.cpu = 10, .lock = 70, .lead_cpu = 1.4, .lead_lock = 8.6};
	/* The same, and whoever has the lock sleeps. */
	const struct paced naps = {.cpu = 0.02,
				   .lock = 70,
				   .sleep = 9.98,
				   .lead_cpu = 0.003,
				   .lead_lock = 8.75,
				   .naps = true};
	/* A pool of seven that has little to do beside one that computes. */
	const struct paced pool = {.cpu = 10.5, .lock = 69.5, .lead_cpu = 9.9, .lead_lock = 0.1};
	/* One that takes work out of a queue that another, which sleeps, puts it into. */
	const struct paced queue = {
		.cpu = 2.2, .lock = 8, .sleep = 9.8, .lead_cpu = 2, .lead_lock = 8};
	/* The same beside others: it waits for a processor three times as long as it works. */
	const struct paced late = {.cpu = 1.6,
				   .queue = 3.4,
				   .lock = 6,
				   .sleep = 9,
				   .lead_cpu = 1.5,
				   .lead_queue = 2.8,
				   .lead_lock = 5.7};
	/* One that does not keep up: it has no time to wait. */
	const struct paced behind = {
		.cpu = 3, .queue = 7.5, .sleep = 9.5, .lead_cpu = 2.9, .lead_queue = 7.1};
	/* Threads of a server without clients, each on its condition, woken by timers; some sleep for good. */
	const struct paced unused = {
		.cpu = 0.001, .lock = 60, .sleep = 20, .lead_cpu = 0.0008, .lead_lock = 9.5};
	/* A lock that is hardly held, but its holder is at work. */
	const struct paced held = {.cpu = 0.15, .lock = 60, .lead_cpu = 0.019, .lead_lock = 8.7};
	/* Processes that share a lock between them. */
	const struct paced shared = {
		.cpu = 2.5, .lock = 7.5, .lead_cpu = 2.5, .lead_lock = 7.5, .others = 7.5};
	struct gs_figures f;

	(void)state;
	f = paced_figures(&fight, 1);
	assert_true(f.v[GS_FIGURE_LOCK] > 80 && f.v[GS_FIGURE_IDLE] < 1);
	f = paced_figures(&naps, 1);
	assert_true(f.v[GS_FIGURE_LOCK] > 80);
	f = paced_figures(&pool, 1);
	assert_true(f.v[GS_FIGURE_LOCK] < 2 && f.v[GS_FIGURE_COMPUTE] > 97);
	f = paced_figures(&queue, 1);
	assert_true(f.v[GS_FIGURE_LOCK] < 5 && f.v[GS_FIGURE_IDLE] > 70);
	f = paced_figures(&late, 1);
	assert_true(f.v[GS_FIGURE_IDLE] > 70);
	f = paced_figures(&behind, 1);
	assert_true(f.v[GS_FIGURE_IDLE] < 1 && f.v[GS_FIGURE_COMPUTE] > 95);
	f = paced_figures(&shared, 1);
	assert_true(is_near(f.v[GS_FIGURE_LOCK], 75));
	f = paced_figures(&unused, 1);
	assert_true(f.v[GS_FIGURE_LOCK] == 0 && f.v[GS_FIGURE_IDLE] > 99);
	f = paced_figures(&held, 1);
	assert_true(f.v[GS_FIGURE_LOCK] > 80);
}

/* On processors that others use, too. */
static void who_waits_for_a_processor_holds_up_the_rest(void **state)
{
	/* Two that wait for each other at barriers: alone, they would hardly wait. */
	const struct paced barrier = {.cpu = 0.9,
				      .queue = 18.4,
				      .lock = 0.7,
				      .lead_cpu = 0.5,
				      .lead_queue = 9.1,
				      .lead_lock = 0.4};
	/* Two that share a lock, alone and not: half of their time, either way. */
	const struct paced alone = {.cpu = 10, .lock = 10, .lead_cpu = 5, .lead_lock = 5};
	const struct paced beside = {.cpu = 5,
				     .queue = 5,
				     .lock = 10,
				     .lead_cpu = 2.5,
				     .lead_queue = 2.5,
				     .lead_lock = 5};
	/* Eight that do. */
	const struct paced fight = {.cpu = 2,
				    .queue = 8,
				    .lock = 70,
				    .lead_cpu = 0.3,
				    .lead_queue = 1,
				    .lead_lock = 8.7};
	/* One thread alone, and a pool without work. */
	const struct paced pool = {.cpu = 2.5,
				   .queue = 2.5,
				   .lock = 75,
				   .lead_cpu = 2.5,
				   .lead_queue = 2.5,
				   .lead_lock = 5,
				   .others = 5};
	/* One that spins for messages, and four helpers of its MPI in poll: alone, it would compute always. */
	const struct paced spins = {
		.cpu = 1.8, .queue = 8.2, .sleep = 40, .lead_cpu = 1.8, .lead_queue = 8.2};
	struct gs_figures f;

	(void)state;
	f = paced_figures(&spins, 1);
	assert_true(f.v[GS_FIGURE_ALONE] > 99);
	f = paced_figures(&barrier, 1);
	assert_true(f.v[GS_FIGURE_LOCK] < 1 && f.v[GS_FIGURE_COMPUTE] > 99);
	f = paced_figures(&alone, 1);
	assert_true(is_near(f.v[GS_FIGURE_LOCK], 50));
	f = paced_figures(&beside, 1);
	assert_true(is_near(f.v[GS_FIGURE_LOCK], 50));
	f = paced_figures(&fight, 1);
	assert_true(f.v[GS_FIGURE_LOCK] > 80);
	/* Nothing of its own process holds it up. */
	f = paced_figures(&pool, 1);
	assert_true(is_near(f.v[GS_FIGURE_LOCK], 67));
}

/* Seconds of ten of one thread: its requests were at the disk for disk_s. */
static struct gs_figures queued_figures(double cpu, double queue, double disk, double disk_s)
{
	struct gs_job_usage u = example();
	const struct gs_taskstats w = {
		.time_ns = {[GS_TIME_CPU] = (uint64_t)(cpu * S),
			    [GS_TIME_RUNQUEUE] = (uint64_t)(queue * S),
			    [GS_TIME_DISK] = (uint64_t)(disk * S),
			    [GS_TIME_SLEEP] = (uint64_t)((10 - cpu - queue - disk) * S)},
		.disk_ns = (uint64_t)(disk_s * S)};
	struct gs_figures f;

	u.pace = (struct gs_job_pace){0};
	gs_job_pace_add(&u.pace, &(struct gs_job_pace_process){
					 .work = &w, .elapsed_ns = 10 * S, .knows_net = true});
	gs_job_report_figures_of(&u, &f);
	return f;
}

static void waits_for_a_processor_hide_others(void **state)
{
	struct gs_figures f;

	(void)state;
	/* Sixteen requests at a time go on while it waits for a processor. */
	f = queued_figures(4.6, 2.6, 2.8, 76);
	assert_true(is_near(f.v[GS_FIGURE_IO], 54) && is_near(f.v[GS_FIGURE_COMPUTE], 46));
	/* One at a time: it was waited for. */
	f = queued_figures(4.6, 2.6, 2.8, 2.9);
	assert_true(is_near(f.v[GS_FIGURE_IO], 38));
	/* Read ahead while it computes: it would be without others, too. */
	f = queued_figures(2, 7.9, 0.1, 2);
	assert_true(is_near(f.v[GS_FIGURE_IO], 5) && is_near(f.v[GS_FIGURE_ALONE], 95));
	/* Much at a time, and it hardly waits. */
	f = queued_figures(2, 7.9, 0.1, 30);
	assert_true(f.v[GS_FIGURE_IO] < 10);
	/* Sleeps as long as if it had a processor; how long it computes is not known. */
	f = queued_figures(2, 5, 0, 0);
	assert_true(is_near(f.v[GS_FIGURE_COMPUTE], 70) && is_near(f.v[GS_FIGURE_ALONE], 40));
	f = queued_figures(7, 0, 0, 0);
	assert_true(is_near(f.v[GS_FIGURE_COMPUTE], 70) && is_near(f.v[GS_FIGURE_ALONE], 70));
}

static void a_starved_process_makes_no_lock_longer(void **state)
{
	/* It takes items of a worker in which one thread waits for the next: that alone is no lock, however
	 * often the rest of the worker works. */
	struct paced p[] = {{.cpu = 1.6,
			     .pipe = 8.3,
			     .lead_cpu = 1.6,
			     .others = 0.2,
			     .has_workers = true,
			     .workers = 0.8,
			     .pipe_reads = 900},
			    {.cpu = 0.8,
			     .lock = 9.8,
			     .sleep = 9.2,
			     .lead_cpu = 0.1,
			     .lead_lock = 9.8,
			     .others = 1.6,
			     .is_worker = true}};
	struct gs_figures f = paced_figures(p, 2);

	(void)state;
	assert_true(f.v[GS_FIGURE_LOCK] < 20 && f.v[GS_FIGURE_IDLE] > 50);
	assert_true(f.v[GS_FIGURE_INPUT] > 70);
}

static void who_waits_for_its_workers_waits_for_input(void **state)
{
	/* A loop with a thread that feeds a queue, and a worker that sleeps or computes. */
	struct paced p[] = {{.cpu = 2,
			     .lock = 9.9,
			     .pipe = 8,
			     .lead_cpu = 2,
			     .has_workers = true,
			     .pipe_reads = 100},
			    {.cpu = 0.3,
			     .network = 9.9,
			     .sleep = 9.7,
			     .lead_cpu = 0.3,
			     .is_worker = true,
			     .socket_reads = 1000}};
	struct gs_figures f;

	(void)state;
	f = paced_figures(p, 2);
	assert_true(is_near(f.v[GS_FIGURE_INPUT], 80) && is_near(f.v[GS_FIGURE_IDLE], 80));
	assert_true(f.v[GS_FIGURE_LOCK] < 1 && f.v[GS_FIGURE_NET] == 0);
	/* What the worker works on is no idle time of the loop. */
	p[0].workers = 9.7;
	p[1].cpu = p[1].lead_cpu = 9.7;
	p[1].sleep = 0.3;
	f = paced_figures(p, 2);
	assert_true(is_near(f.v[GS_FIGURE_INPUT], 80) && f.v[GS_FIGURE_IDLE] < 5);
	assert_true(f.v[GS_FIGURE_COMPUTE] > 95);
	/* A shell that waits for commands has no data of them. */
	p[0] = (struct paced){.cpu = 1, .pipe = 9, .lead_cpu = 1, .has_workers = true};
	f = paced_figures(p, 1);
	assert_true(f.v[GS_FIGURE_INPUT] == 0);
}

static void what_is_not_known_is_no_figure(void **state)
{
	struct gs_job_usage u = example();
	struct gs_figures f;

	(void)state;
	u.known &= ~(1u << GS_JOB_KNOWS_CAUSES | 1u << GS_JOB_KNOWS_MEMORY | 1u << GS_JOB_KNOWS_IO |
		     1u << GS_JOB_KNOWS_SWITCHES);
	gs_job_report_figures_of(&u, &f);
	assert_true(f.v[GS_FIGURE_CPU] == 50);
	assert_true(isnan(f.v[GS_FIGURE_IO]));
	assert_true(isnan(f.v[GS_FIGURE_MEMORY]));
	assert_true(isnan(f.v[GS_FIGURE_READ_BPS]));
	assert_true(isnan(f.v[GS_FIGURE_SWITCHES]));
	u.known = 0;
	gs_job_report_figures_of(&u, &f);
	assert_true(isnan(f.v[GS_FIGURE_CPU]));
	/* No interval: no rates, and no division by nothing. */
	u = example();
	u.elapsed_ns = 0;
	gs_job_report_figures_of(&u, &f);
	assert_true(isnan(f.v[GS_FIGURE_CPU]));
	assert_true(isnan(f.v[GS_FIGURE_SWITCHES]));
}

static void without_a_limit_memory_is_of_the_machine(void **state)
{
	struct gs_job_usage u = example();
	struct gs_figures f;

	(void)state;
	u.memory_limit_bytes = -1;
	gs_job_report_figures_of(&u, &f);
	assert_true(f.v[GS_FIGURE_MEMORY] == 6);
	assert_true(isnan(f.v[GS_FIGURE_MEMORY_ALLOCATED]));
}

static char *written(enum gs_job_report_format format, struct gs_job_report *job)
{
	struct gs_job_report_session s = {.start_wall_ns = 1705314600 * (int64_t)S,
					  .end_wall_ns = 1705314610 * (int64_t)S,
					  .elapsed_ns = 10 * S,
					  .host = "node7",
					  .kernel = "6.1.0",
					  .n_cpus = 8,
					  .memory_bytes = 1ll << 30,
					  .filter = "all",
					  .jobs = job,
					  .n_jobs = 1};
	struct gs_job_report_style style = {
		.format = format, .syscalls = true, .advice = true, .precision = 2};
	struct gs_rules *rules = gs_rules_new();
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	assert_non_null(rules);
	snprintf(s.source[GS_JOB_KNOWS_TIME], sizeof(s.source[0]), "a test");
	gs_job_report_figures_of(&job->usage, &job->figures);
	gs_verdict_of(rules, &job->figures, &job->verdict);
	assert_int_equal(gs_job_report_write(out, &s, &style), 0);
	fclose(out);
	gs_rules_free(&rules);
	return text;
}

static struct gs_job_report job_example(uint32_t pids[3], struct gs_job_report_call calls[2])
{
	struct gs_job_report job = {.usage = example(),
				    .pids = pids,
				    .n_pids = 3,
				    .n_processes_seen = 3,
				    .calls = calls,
				    .n_calls = 2};

	pids[0] = 1234;
	pids[1] = 5678;
	pids[2] = 9012;
	calls[0] = (struct gs_job_report_call){"read", 1250, 3, 5000, 400, 200, .hist[5] = 1250};
	calls[1] = (struct gs_job_report_call){"sendto", 45, 0, 900, 50};
	job.usage.known |= 1u << GS_JOB_KNOWS_SYSCALLS;
	job.usage.work.syscalls = 1295;
	job.usage.work.syscall_ns = 5900;
	snprintf(job.job.id, sizeof(job.job.id), "12345");
	snprintf(job.job.user, sizeof(job.job.user), "researcher1");
	snprintf(job.job.name, sizeof(job.job.name), "a \"name\", with comma");
	snprintf(job.job.partition, sizeof(job.job.partition), "compute");
	snprintf(job.job.nodes, sizeof(job.job.nodes), "node[01-02,05],gpu7");
	return job;
}

static const json_t *at(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	if (!v)
		fail_msg("no key %s", key);
	return v;
}

/* Every key of the README's example, with the type that it has there. */
static void the_documented_shape(void **state)
{
	uint32_t pids[3];
	struct gs_job_report_call calls[2];
	struct gs_job_report job = job_example(pids, calls);
	char *text = written(GS_JOB_JSON, &job);
	json_error_t why;
	json_t *root = json_loads(text, 0, &why);
	const json_t *s, *j, *m, *c;

	(void)state;
	if (!root)
		fail_msg("%d: %s", why.line, why.text);
	s = at(root, "monitoring_session");
	assert_string_equal(json_string_value(at(s, "start_time")), "2024-01-15T10:30:00Z");
	assert_string_equal(json_string_value(at(s, "end_time")), "2024-01-15T10:30:10Z");
	assert_true(json_number_value(at(s, "duration_seconds")) == 10);
	assert_int_equal(json_array_size(at(s, "monitored_pids")), 3);
	j = json_array_get(at(root, "jobs"), 0);
	assert_string_equal(json_string_value(at(j, "job_id")), "12345");
	assert_string_equal(json_string_value(at(j, "job_name")), "a \"name\", with comma");
	assert_int_equal(json_array_size(at(j, "nodes")), 2);
	assert_string_equal(json_string_value(json_array_get(at(j, "nodes"), 0)), "node[01-02,05]");
	m = at(j, "metrics");
	assert_true(json_number_value(at(m, "cpu_percent")) == 50);
	assert_int_equal(json_integer_value(at(m, "total_syscalls")), 1295);
	assert_int_equal(json_integer_value(at(m, "io_syscalls")), 1250);
	assert_int_equal(json_integer_value(at(m, "net_syscalls")), 45);
	assert_int_equal(json_integer_value(at(m, "context_switches")), 400);
	assert_int_equal(json_integer_value(at(m, "total_io_bytes")), 4000);
	assert_int_equal(json_integer_value(at(m, "network_bytes_sent")), 0);
	assert_int_equal(json_integer_value(at(m, "max_syscall_duration")), 400);
	c = at(j, "classification");
	/* 20 s on its processors, 6 s blocked on disks. */
	assert_string_equal(json_string_value(at(c, "type")), "CPU-IO-mixed");
	assert_string_equal(json_string_value(at(at(j, "verdict"), "class")), "mixed");
	assert_string_equal(json_string_value(at(at(j, "verdict"), "title")),
			    "computes and waits for disks");
	assert_true(json_is_number(at(c, "efficiency_score")));
	assert_true(json_is_array(at(c, "recommendations")));
	assert_int_equal(json_integer_value(at(at(j, "syscall_breakdown"), "read")), 1250);
	assert_true(json_is_number(at(at(j, "performance_analysis"), "overall_efficiency")));
	assert_int_equal(json_integer_value(at(at(root, "summary"), "total_jobs_monitored")), 1);
	assert_string_equal(json_string_value(at(at(root, "summary"), "most_common_type")),
			    "CPU-IO-mixed");
	assert_int_equal(json_integer_value(at(at(root, "system_info"), "cpu_cores")), 8);
	json_decref(root);
	free(text);
}

static void unknown_is_null_and_an_empty_cell(void **state)
{
	uint32_t pids[3];
	struct gs_job_report_call calls[2];
	struct gs_job_report job = job_example(pids, calls);
	char *text, *line;
	json_t *root;
	const json_t *j;

	(void)state;
	job.usage.known &= ~(1u << GS_JOB_KNOWS_SYSCALLS | 1u << GS_JOB_KNOWS_NET);
	text = written(GS_JOB_JSON, &job);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	j = json_array_get(at(root, "jobs"), 0);
	assert_true(json_is_null(at(at(j, "metrics"), "total_syscalls")));
	assert_true(json_is_null(at(at(j, "metrics"), "send_bytes")));
	assert_true(json_is_null(at(j, "syscall_breakdown")));
	json_decref(root);
	free(text);
	text = written(GS_JOB_CSV, &job);
	line = strstr(text, "\r\n");
	assert_non_null(line);
	assert_memory_equal(line + 2,
			    "12345,researcher1,\"a \"\"name\"\", with comma\",compute,10,",
			    strlen("12345,researcher1,\"a \"\"name\"\", with comma\",compute,10,"));
	assert_non_null(strstr(line, ",,"));
	free(text);
}

static struct gs_job_report ranks_of(struct gs_job_report_rank *ranks, size_t n)
{
	struct gs_job_report job = {.ranks = ranks, .n_ranks = n};

	gs_job_report_judge_ranks(&job);
	return job;
}

static void the_slow_rank_is_named(void **state)
{
	struct gs_job_report_rank r[4];
	struct gs_job_report job;

	for (int i = 0; i < 4; i++)
		r[i] = (struct gs_job_report_rank){.rank = i,
						   .cpu_s = i == 2 ? 4 : 1,
						   .wait_s = i == 2 ? 0 : 3,
						   .gpu_wait_s = 0,
						   .gpu_ratio = NAN,
						   .gpu_memory_bytes = -1};
	job = ranks_of(r, 4);
	assert_string_equal(job.imbalance.of, "cpu_seconds");
	assert_int_equal(job.imbalance.rank, 2);
	assert_true(fabs(job.imbalance.ratio - 4 / 1.75) < 1e-9);
	assert_true(fabs(job.usage.imbalance_ratio - (4 / 1.75 - 1)) < 1e-9);
	assert_true(job.usage.slowest_rank == 2);
	assert_string_equal(
		job.imbalance.evidence,
		"rank 2 was on processors for 4.00 s, the mean is 1.75 s (2.29 times); it "
		"waited 0 ns, the others 3.00 s each");
	/* GPUs decide where each rank's is known. */
	for (int i = 0; i < 4; i++)
		r[i].gpu_ratio = i == 1 ? 0.9 : 0.3;
	job = ranks_of(r, 4);
	assert_string_equal(job.imbalance.of, "gpu_ratio");
	assert_int_equal(job.imbalance.rank, 1);
	assert_true(fabs(job.imbalance.ratio - 2) < 1e-9);
	/* ... and not when they did nothing, or one is not known. */
	r[3].gpu_ratio = NAN;
	assert_int_equal(ranks_of(r, 4).imbalance.rank, 2);
	for (int i = 0; i < 4; i++)
		r[i].gpu_ratio = 0.001;
	assert_int_equal(ranks_of(r, 4).imbalance.rank, 2);
	/* One rank, or nothing done: there is nothing to compare. */
	assert_true(isnan(ranks_of(r, 1).imbalance.ratio));
	assert_true(isnan(ranks_of(r, 0).usage.imbalance_ratio));
	for (int i = 0; i < 4; i++)
		r[i].cpu_s = 0.001 * i;
	job = ranks_of(r, 4);
	assert_true(isnan(job.imbalance.ratio));
	assert_int_equal(job.imbalance.rank, -1);
}

static void formats_by_name_and_suffix(void **state)
{
	enum gs_job_report_format f;

	(void)state;
	assert_int_equal(gs_job_report_format_of_path("a.b/x.JSON", &f), 0);
	assert_int_equal(f, GS_JOB_JSON);
	assert_int_equal(gs_job_report_format_of_path("x.yml", &f), 0);
	assert_int_equal(f, GS_JOB_YAML);
	assert_int_equal(gs_job_report_format_of_path("x.txt", &f), 0);
	assert_int_equal(f, GS_JOB_TABLE);
	assert_int_equal(gs_job_report_format_of_path("x.json/y", &f), -EINVAL);
	assert_int_equal(gs_job_report_format_of_path("x.pdf", &f), -EINVAL);
	assert_int_equal(gs_job_report_format_parse("csv", &f), 0);
	assert_int_equal(f, GS_JOB_CSV);
	assert_int_equal(gs_job_report_format_parse("", &f), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_normalised),
		cmocka_unit_test(helpers_decide_nothing),
		cmocka_unit_test(threads_that_set_the_pace_decide),
		cmocka_unit_test(who_waits_for_a_processor_holds_up_the_rest),
		cmocka_unit_test(waits_for_a_processor_hide_others),
		cmocka_unit_test(a_starved_process_makes_no_lock_longer),
		cmocka_unit_test(who_waits_for_its_workers_waits_for_input),
		cmocka_unit_test(what_is_not_known_is_no_figure),
		cmocka_unit_test(without_a_limit_memory_is_of_the_machine),
		cmocka_unit_test(the_documented_shape),
		cmocka_unit_test(unknown_is_null_and_an_empty_cell),
		cmocka_unit_test(formats_by_name_and_suffix),
		cmocka_unit_test(the_slow_rank_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
