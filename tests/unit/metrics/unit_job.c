/* Families of jobs: what is not known has no line, names that mean harm stay inside their quotes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "output/metrics/job.h"

static char text[1 << 20];

static const char *render(const struct gs_job_accounts *a, enum gs_metrics_job_names names)
{
	struct gs_buf out = GS_BUF_INIT(sizeof(text) - 1);
	struct gs_metrics p;

	gs_metrics_init(&p, &out, false);
	gs_metrics_jobs(&p, a, NULL, names);
	assert_int_equal(gs_metrics_end(&p), 0);
	memcpy(text, out.data ? (char *)out.data : "", out.bytes);
	text[out.bytes] = '\0';
	gs_buf_fini(&out);
	return text;
}

static struct gs_job_account account(const char *id)
{
	struct gs_job_account a = {.job = {.kind = GS_JOB_SLURM,
					   .job_id = 7,
					   .array_job_id = -1,
					   .array_task_id = -1,
					   .het_job_id = -1,
					   .het_offset = -1,
					   .uid = 1000,
					   .start_s = -1,
					   .limit_s = -1},
				   .n_processes = 1,
				   .cores = NAN,
				   .memory_bytes = -1,
				   .memory_peak_bytes = -1,
				   .memory_limit_bytes = -1,
				   .n_gpus = -1,
				   .gpus_idle = -1,
				   .gpu_memory_bytes = -1,
				   .score = NAN,
				   .confidence = NAN,
				   .cpu_percent = NAN,
				   .io_percent = NAN,
				   .wait_percent = NAN,
				   .net_percent = NAN,
				   .memory_percent = NAN};

	snprintf(a.job.id, sizeof(a.job.id), "%s", id);
	memset(a.pressure_ns, 0xff, sizeof(a.pressure_ns));
	return a;
}

static void nothing_known(void **state)
{
	struct gs_job_account one = account("7");
	struct gs_job_accounts a = {.account = &one, .n_accounts = 1};

	assert_string_equal(render(NULL, GS_METRICS_JOBS_BOTH), "");
	snprintf(one.job.name, sizeof(one.job.name), "a\"} 5\nx{\\");
	assert_string_equal(
		render(&a, GS_METRICS_JOBS_NATIVE),
		"# HELP gpuscope_job_info Identity of the job; always 1.\n"
		"# TYPE gpuscope_job_info gauge\n"
		"gpuscope_job_info{jobid=\"7\",kind=\"slurm\",uid=\"1000\",name=\"a\\\"} "
		"5\\nx{\\\\\",proof=\"proven\"} 1\n"
		"# HELP gpuscope_job_processes Live processes of the job on this node; 0: it has "
		"ended and is still exported for a while.\n"
		"# TYPE gpuscope_job_processes gauge\n"
		"gpuscope_job_processes{jobid=\"7\"} 1\n");
}

static void has(const char *line)
{
	if (!strstr(text, line))
		fail_msg("no line %s in:\n%s", line, text);
}

static void all_known(void **state)
{
	struct gs_job_account two[2] = {account("7_1"), account("8")};
	struct gs_job_accounts a = {.account = two, .n_accounts = 2};
	struct gs_job_call_count call = {
		.name = "read", .calls = 5, .errors = 1, .total_ns = 250000};

	two[0].known = (1u << GS_JOB_KNOWS_COUNT) - 1;
	two[0].job.array_job_id = 7;
	two[0].job.array_task_id = 0;
	two[0].work.time_ns[GS_TIME_CPU] = 1500000000;
	two[0].work.io[GS_IO_TMPFS].write_bytes = 99;
	two[0].work.net_sent_bytes = 3;
	two[0].pressure_ns[GS_PRESSURE_MEMORY][1] = 2000000;
	two[0].calls = &call;
	two[0].n_calls = 1;
	two[0].n_gpus = 2;
	two[0].gpus_idle = 1;
	two[0].gpu_busy_ns = 500000000;
	two[0].energy_joules = 12.5;
	two[0].score = 40;
	snprintf(two[0].job_class, sizeof(two[0].job_class), "CPU-bound");
	/* What ended has totals and no gauges of now. */
	two[1].known = two[0].known;
	two[1].n_processes = 0;
	two[1].n_gpus = two[1].gpus_idle = 4;
	two[1].memory_bytes = 5;
	render(&a, GS_METRICS_JOBS_NATIVE);
	has("array_jobid=\"7\",array_taskid=\"0\"");
	has("gpuscope_job_thread_seconds_total{jobid=\"7_1\",state=\"cpu\"} 1.5\n");
	has("gpuscope_job_io_bytes_total{jobid=\"7_1\",kind=\"tmpfs\",direction=\"write\"} 99\n");
	has("gpuscope_job_network_bytes_total{jobid=\"7_1\",direction=\"sent\"} 3\n");
	has("gpuscope_job_pressure_seconds_total{jobid=\"7_1\",resource=\"memory\",scope=\"full\"} "
	    "0.002\n");
	has("gpuscope_job_calls_total{jobid=\"7_1\",call=\"read\"} 5\n");
	has("gpuscope_job_call_seconds_total{jobid=\"7_1\",call=\"read\"} 0.00025\n");
	has("gpuscope_job_gpus_idle{jobid=\"7_1\"} 1\n");
	has("gpuscope_job_gpu_busy_seconds_total{jobid=\"7_1\"} 0.5\n");
	has("gpuscope_job_gpu_energy_joules_total{jobid=\"7_1\"} 12.5\n");
	has("gpuscope_job_efficiency_ratio{jobid=\"7_1\"} 0.4\n");
	has("gpuscope_job_class{jobid=\"7_1\",class=\"CPU-bound\"} 1\n");
	has("gpuscope_job_syscalls_total{jobid=\"8\"} 0\n");
	assert_null(strstr(text, "gpuscope_job_gpus{jobid=\"8\"}"));
	assert_null(strstr(text, "gpuscope_job_memory_bytes{jobid=\"8\"}"));
	assert_null(strstr(text, "hpc_monitor"));
	render(&a, GS_METRICS_JOBS_HPC_MONITOR);
	has("# TYPE hpc_monitor_cpu_time_ns counter\nhpc_monitor_cpu_time_ns{job_id=\"7_1\"} "
	    "1500000000\n");
	has("hpc_monitor_write_bytes{job_id=\"7_1\"} 99\n");
	assert_null(strstr(text, "gpuscope_"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_known),
					   cmocka_unit_test(all_known)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
