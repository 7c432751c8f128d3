/*
 * The table of jobs is one screen by default: at most 45 lines of 100 columns, whatever a job did, and
 * however many jobs, ranks, devices, peers, calls and pieces of advice there are; -v has all of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "analysis/job_report/report.h"
#include "core/base/mem.h"
#include "core/text/fit.h"
#include "core/text/text.h"
#include "unit/rounds.h"

#define S      1000000000ull
#define MANY   70
#define ROUNDS TEST_ROUNDS(300)
#define TEXT                                                                                       \
	"a long text that says at length what was seen, when, where and why that may have been so"

/* The same numbers in each run. */
static unsigned draw(uint32_t *state, unsigned below)
{
	*state = *state * 1664525 + 1013904223;
	return (*state >> 8) % below;
}

static unsigned draw_count(uint32_t *state)
{
	static const unsigned counts[] = {0, 1, 2, 8, 9, MANY};

	return counts[draw(state, GS_ARRAY_LEN(counts))];
}

static void fill_verdict(struct gs_verdict *v, uint32_t *state)
{
	*v = (struct gs_verdict){.job_class = "IO-bound",
				 .confidence = 0.7,
				 .score = draw(state, 100),
				 .class_name = "io_bound",
				 .title = "I/O-bound",
				 .why = TEXT " " TEXT,
				 .next = TEXT " " TEXT,
				 .command = "gpuscope job -p PID -v",
				 .share = 0.9};
	v->n_evidence = draw(state, GS_VERDICT_EVIDENCE_MAX + 1);
	for (size_t i = 0; i < v->n_evidence; i++)
		snprintf(v->evidence[i], sizeof(v->evidence[i]), TEXT);
	v->n_parts = draw(state, GS_ARRAY_LEN(v->part) + 1);
	for (size_t i = 0; i < v->n_parts; i++) {
		v->part[i].name = "locks";
		snprintf(v->part[i].because, sizeof(v->part[i].because), TEXT);
	}
	v->n_advice = draw(state, GS_VERDICT_ADVICE_MAX + 1);
	for (size_t i = 0; i < v->n_advice; i++) {
		snprintf(v->advice[i].fact, sizeof(v->advice[i].fact), TEXT);
		snprintf(v->advice[i].next, sizeof(v->advice[i].next), TEXT);
	}
}

static void fill_lists(struct gs_job_report *job, uint32_t *state)
{
	static struct gs_job_report_rank ranks[MANY];
	static struct gs_job_mpi_rank mpi[MANY];
	static struct gs_job_report_call calls[MANY];
	static struct gs_taskstats_disk_row disks[MANY];
	static struct gs_taskstats_mount_row mounts[MANY];
	static struct gs_taskstats_peer_row peers[MANY];

	for (unsigned i = 0; i < MANY; i++) {
		ranks[i] =
			(struct gs_job_report_rank){.rank = (int)i, .cpu_s = i, .gpu_ratio = NAN};
		mpi[i] = (struct gs_job_mpi_rank){.pid = i, .rank = (int)i, .span_ns = S};
		calls[i] = (struct gs_job_report_call){.name = "clock_nanosleep", .calls = i + 1};
		disks[i] = (struct gs_taskstats_disk_row){.name = "nvme12n1", .major = i};
		mounts[i] = (struct gs_taskstats_mount_row){.path = "/" TEXT, .type = "ext4"};
		peers[i] = (struct gs_taskstats_peer_row){.family = AF_INET6, .port = 65535};
	}
	job->ranks = ranks;
	job->n_ranks = draw_count(state);
	job->mpi = (struct gs_job_mpi){mpi, draw_count(state)};
	job->calls = calls;
	job->n_calls = draw_count(state);
	job->tables = (struct gs_taskstats_tables){
		disks, draw_count(state), mounts, draw_count(state), peers, draw_count(state)};
}

static void fill_job(struct gs_job_report *job, uint32_t *state)
{
	struct gs_job_usage *u = &job->usage;

	*job = (struct gs_job_report){.n_processes_seen = draw(state, 1000)};
	snprintf(job->job.id, sizeof(job->job.id), "%u", draw(state, 1000000));
	snprintf(job->job.name, sizeof(job->job.name), "%.60s", TEXT);
	for (size_t i = 0; draw(state, 2) && i + sizeof(TEXT) < sizeof(job->command);
	     i += sizeof(TEXT))
		snprintf(job->command + i, sizeof(job->command) - i, TEXT " ");
	*u = (struct gs_job_usage){.elapsed_ns = 10 * S,
				   .cores = 4,
				   .known = (1u << GS_JOB_KNOWS_COUNT) - 1,
				   .n_gpus = 2,
				   .sched_rows = true,
				   .io_rows = true};
	for (unsigned i = 0; i < GS_TIME_COUNT; i++)
		u->work.time_ns[i] = (i + 1) * S;
	u->work.queue_waits = u->work.net_retransmits = u->work.oom_kills = 7;
	u->work.queue_hist[12] = 7;
	gs_job_report_figures_of(u, &job->figures);
	fill_lists(job, state);
	fill_verdict(&job->verdict, state);
	snprintf(job->imbalance.evidence, sizeof(job->imbalance.evidence), TEXT);
	job->imbalance.ratio = 1.5;
}

static void fill_session(struct gs_job_report_session *s, struct gs_job_report *jobs,
			 uint32_t *state)
{
	unsigned n = draw(state, 3) ? 1 : draw_count(state);

	*s = (struct gs_job_report_session){.host = "node17", .jobs = jobs, .n_jobs = n};
	for (unsigned i = 0; i < n; i++)
		fill_job(&jobs[i], state);
	for (unsigned i = 0; i < GS_JOB_KNOWS_COUNT; i++)
		snprintf(s->source[i], sizeof(s->source[i]),
			 draw(state, 2) ? "counted in the kernel (eBPF)" : TEXT " %u", i);
	for (size_t i = 0; draw(state, 2) && i + sizeof(TEXT) < sizeof(s->loss); i += sizeof(TEXT))
		snprintf(s->loss + i, sizeof(s->loss) - i, TEXT " ");
	s->open_bytes = s->failed_reads = 5;
	s->unfinished = draw(state, 2);
}

static char *render(const struct gs_job_report_session *s, bool verbose)
{
	const struct gs_job_report_style style = {
		.width = 100, .verbose = verbose, .syscalls = true, .advice = true};
	char *text = NULL;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);

	assert_non_null(f);
	assert_int_equal(gs_job_report_write(f, s, &style), 0);
	assert_int_equal(fclose(f), 0);
	return text;
}

static unsigned check_lines(const char *text)
{
	unsigned n = 0;

	for (const char *p = text, *end; *p; p = end + 1, n++) {
		char line[4096];

		end = strchr(p, '\n');
		assert_non_null(end);
		snprintf(line, sizeof(line), "%.*s", (int)(end - p), p);
		if (gs_text_columns(line) > 100)
			fail_msg("%zu columns: %s", gs_text_columns(line), line);
	}
	return n;
}

static void a_job_is_one_screen(void **state)
{
	struct gs_job_report *jobs GS_FREE = calloc(MANY, sizeof(*jobs));
	uint32_t seed = 1;
	unsigned n_cut = 0;

	(void)state;
	assert_non_null(jobs);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct gs_job_report_session s;
		char *text GS_FREE = NULL, *all GS_FREE = NULL;

		fill_session(&s, jobs, &seed);
		text = render(&s, false);
		if (check_lines(text) > GS_FIT_SCREEN_LINES)
			fail_msg("%u lines:\n%s", check_lines(text), text);
		if (s.n_jobs == 1) {
			assert_true(strncmp(text, "Verdict: I/O-bound", 18) == 0);
			assert_non_null(strstr(text, "  more  gpuscope job -p PID -v\n"));
		} else if (s.n_jobs) {
			assert_non_null(strstr(text, "I/O-bound (90 %)\n"));
			assert_non_null(strstr(text, "gpuscope job -v shows each job"));
		}
		n_cut += strstr(text, "... the rest: -v") != NULL;
		all = render(&s, true);
		assert_null(strstr(all, "... the rest"));
	}
	assert_true(n_cut > ROUNDS / 10);
}

/* Of many jobs those in most need come first. */
static void the_worst_job_is_first(void **state)
{
	struct gs_job_report *jobs GS_FREE = calloc(3, sizeof(*jobs));
	static const double scores[] = {50, NAN, 10};
	struct gs_job_report_session s = {.jobs = jobs, .n_jobs = 3};
	char *text GS_FREE = NULL;
	uint32_t seed = 1;

	(void)state;
	assert_non_null(jobs);
	for (unsigned i = 0; i < 3; i++) {
		fill_job(&jobs[i], &seed);
		jobs[i].verdict.score = scores[i];
		snprintf(jobs[i].job.id, sizeof(jobs[i].job.id), "job%u", i);
	}
	text = render(&s, false);
	assert_true(strstr(text, "job2") < strstr(text, "job0"));
	assert_true(strstr(text, "job0") < strstr(text, "job1"));
}

/* The command that shows more can be copied. */
static void the_process_is_named(void **state)
{
	struct gs_job_report *job GS_FREE = calloc(1, sizeof(*job));
	struct gs_job_report_session s = {.jobs = job, .n_jobs = 1};
	uint32_t seed = 1, pids[] = {4711, 4720};

	(void)state;
	assert_non_null(job);
	for (unsigned is_tree = 0; is_tree < 2; is_tree++) {
		char *text GS_FREE = NULL;

		fill_job(job, &seed);
		snprintf(job->command, sizeof(job->command), "%s", is_tree ? "./app" : "");
		job->pids = pids;
		job->n_pids = 2;
		text = render(&s, false);
		assert_int_equal(is_tree, strstr(text, "more  gpuscope job -p 4711 -v\n") != NULL);
		assert_int_equal(!is_tree, strstr(text, "more  gpuscope job -p PID -v\n") != NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_is_one_screen),
		cmocka_unit_test(the_worst_job_is_first),
		cmocka_unit_test(the_process_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
