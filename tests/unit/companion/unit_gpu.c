/* The door to GPU activity, loaded into a program (tests/fake/app_cupti.c) as the driver loads it: what the program
 * did is what arrives, by each version of CUPTI, and the program's own profiler gets all of its own. */
#include "run.h"

#include <sys/wait.h>
#include <time.h>

#include "model/companion/gpu.h"

static const char *app, *door; /* paths */

struct seen {
	struct run run;
	uint64_t n_kernels, kernel_ns, n_named, n_launched, n_other[GS_WORK_KINDS], n_misplaced;
	char names[GS_COMPANION_GPU_NAMES][64];
	uint32_t n_names, n_states[8], version;
	uint64_t n_dropped, n_discarded, n_bad;
	struct gs_gpu_work copy, graph;
	uint64_t window[64], n_windows; /* kernels by window */
	char text[256];
	uint64_t start_ns;
	/* As the program says. */
	unsigned long said_kernels, said_ns, said_profiled, said_in_profile, said_foreign;
	int status;
};

static uint64_t mono_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void see_kernel(struct seen *s, const struct gs_companion_gpu_work *r)
{
	const struct gs_gpu_work *w = &r->work;

	s->n_kernels++;
	s->kernel_ns += w->end_ns - w->start_ns;
	s->n_named += r->name && r->name <= s->n_names && s->names[r->name - 1][0];
	s->n_launched += w->tid && w->launch_ns;
	/* By the clock of all else: its times are said ahead, by a second at most. */
	s->n_misplaced += w->start_ns < s->start_ns || w->start_ns > mono_now() + 1000000000 ||
			  w->grid[0] != 7 || w->block[0] != 128 || w->shared_bytes != 1536 ||
			  w->registers != 32 || (w->stream != 7 && w->stream != 8) || w->graph ||
			  w->device;
	if (s->n_windows)
		s->window[s->n_windows - 1]++;
}

static void see_record(void *ctx, const struct gs_companion_thread *from,
		       const struct gs_companion_record *record)
{
	const struct gs_companion_gpu_state *state = (const void *)record;
	const struct gs_companion_gpu_name *name = (const void *)record;
	const struct gs_companion_gpu_work *w = (const void *)record;
	struct seen *s = ctx;

	switch (record->kind) {
	case GS_COMPANION_GPU_NAME:
		assert_int_equal(name->id, s->n_names + 1);
		snprintf(s->names[s->n_names++], sizeof(s->names[0]), "%s", name->text);
		break;
	case GS_COMPANION_GPU_WORK:
		s->n_other[w->work.what]++;
		if (w->work.what == GS_WORK_KERNEL)
			see_kernel(s, w);
		if (w->work.what == GS_WORK_COPY)
			s->copy = w->work;
		if (w->work.what == GS_WORK_GRAPH)
			s->graph = w->work;
		break;
	case GS_COMPANION_GPU_STATE:
		s->n_states[state->what]++;
		s->n_windows += state->what == GS_COMPANION_GPU_OPENED && s->n_windows < 64;
		s->version = state->version;
		s->n_dropped = state->n_dropped;
		s->n_discarded = state->n_discarded;
		s->n_bad = state->n_bad;
		snprintf(s->text, sizeof(s->text), "%s", state->text);
		break;
	}
}

/* The program with these arguments (one text, by spaces) and settings ("NAME=VALUE ..."). */
static void run_app(struct seen *s, const char *arguments, const char *settings)
{
	char words[256], values[256], line[256] = "", *argv[32] = {(char *)app};
	int n = 1, out[2];
	pid_t child;

	*s = (struct seen){.start_ns = mono_now()};
	run_new(&s->run, NULL);
	s->run.handler.record = see_record;
	s->run.handler.ctx = s;
	snprintf(words, sizeof(words), "%s", arguments);
	snprintf(values, sizeof(values), "%s", settings);
	for (char *w = strtok(words, " "); w && n < 31; w = strtok(NULL, " "))
		argv[n++] = w;
	assert_int_equal(pipe(out), 0);
	child = fork();
	if (child == 0) {
		dup2(out[1], 1);
		for (char *v = strtok(values, " "); v; v = strtok(NULL, " "))
			putenv(v);
		setenv("LD_PRELOAD", door, 1);
		setenv("CUDA_INJECTION64_PATH", door, 1);
		setenv(GS_COMPANION_FOLDER_ENV, gs_companion_files_folder(s->run.files), 1);
		execv(app, argv);
		_exit(127);
	}
	close(out[1]);
	while (waitpid(child, &s->status, WNOHANG) == 0) {
		run_poll(&s->run, false);
		usleep(1000);
	}
	run_poll(&s->run, true);
	assert_true(read(out[0], line, sizeof(line) - 1) > 0);
	close(out[0]);
	assert_int_equal(sscanf(line, "kernels %lu ns %lu profiled %lu of %lu foreign %lu",
				&s->said_kernels, &s->said_ns, &s->said_profiled,
				&s->said_in_profile, &s->said_foreign),
			 5);
	assert_int_equal(s->status, 0);
	assert_int_equal(s->run.damaged, 0);
	assert_int_equal(s->n_bad, 0);
	gs_companion_files_free(&s->run.files);
}

static void expect_all(const struct seen *s, unsigned long n)
{
	assert_int_equal(s->said_kernels, n);
	assert_int_equal(s->n_kernels, n);
	assert_int_equal(s->kernel_ns, s->said_ns);
	assert_int_equal(s->n_named, n);
	assert_int_equal(s->n_misplaced, 0);
	assert_int_equal(s->n_names, 3);
	assert_string_equal(s->names[0], "_Z6kernelPfi");
}

static void all_that_a_program_does(void **state)
{
	static struct seen s;

	run_app(&s, "driver kernels 30000 others", "GPUSCOPE_COMPANION_GPU=60000/120000,calls");
	expect_all(&s, 30000);
	assert_int_equal(s.n_launched, 30000);
	assert_int_equal(s.n_other[GS_WORK_COPY], 1);
	assert_int_equal(s.n_other[GS_WORK_FILL], 1);
	assert_int_equal(s.n_other[GS_WORK_GRAPH], 0); /* its kernels, one by one */
	assert_int_equal(s.n_other[GS_WORK_SYNC], 0);  /* costs the most, and calls have it */
	assert_int_equal(s.copy.bytes, 4096);
	assert_int_equal(s.copy.detail, GS_WORK_HOST_TO_DEVICE);
	assert_int_equal(s.copy.end_ns - s.copy.start_ns, 500);
	assert_int_equal(s.version, 130001);
	assert_int_equal(s.n_states[GS_COMPANION_GPU_OPENED], 1);
	assert_int_equal(s.n_states[GS_COMPANION_GPU_CLOSED], 1);
	assert_int_equal(s.n_dropped, 0);
}

static void each_version(void **state)
{
	static const char *const versions[] = {"13", "14", "15", "17",     "18",     "19",
					       "21", "26", "28", "130001", "130401", "130500"};
	static struct seen s;

	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		char settings[128];

		snprintf(settings, sizeof(settings),
			 "GPUSCOPE_COMPANION_GPU=calls FAKE_CUPTI_VERSION=%s", versions[i]);
		run_app(&s, "driver kernels 500 others", settings);
		expect_all(&s, 500);
		/* Single calls can be chosen from 12.5 on. */
		assert_int_equal(s.n_launched, atoi(versions[i]) >= 23 ? 500 : 0);
	}
}

/* Never closed, graphs are recorded as a whole. */
static void always_open(void **state)
{
	static struct seen s;

	run_app(&s, "driver kernels 500 others",
		"GPUSCOPE_COMPANION_GPU=0/0,calls FAKE_CUPTI_VERSION=130401");
	expect_all(&s, 500);
	assert_int_equal(s.n_launched, 500);
	assert_int_equal(s.n_other[GS_WORK_GRAPH], 1);
	assert_int_equal(s.graph.graph, 3);
}

static void expect_refusal(const char *settings, const char *words)
{
	static struct seen s;

	run_app(&s, "driver kernels 100 wait 100", settings);
	assert_int_equal(s.said_kernels, 100);
	assert_int_equal(s.n_kernels, 0);
	assert_int_equal(s.n_states[GS_COMPANION_GPU_REFUSED], 1);
	assert_non_null(strstr(s.text, words));
}

static void what_cannot_be_is_said(void **state)
{
	expect_refusal("FAKE_CUPTI_VERSION=12", "older than that of CUDA 11.0");
	expect_refusal("FAKE_CUPTI_VERSION=130000", "CUDA 13.0.1 mends");
	expect_refusal("FAKE_CUPTI_RESULT=39", "another profiler");
	expect_refusal("FAKE_CUPTI_RESULT=35", "administrators");
	expect_refusal("FAKE_CUPTI_RESULT=15", "newer than the driver");
}

/* Closed between windows, whole within: 300 ms of each 900. */
static void windows(void **state)
{
	static struct seen s;

	run_app(&s,
		"driver wait 200 kernels 100 wait 500 kernels 1000 wait 500 kernels 10 wait 500",
		"GPUSCOPE_COMPANION_GPU=300/900");
	assert_int_equal(s.said_kernels, 1110);
	assert_true(s.n_windows >= 2);
	assert_int_equal(s.window[0], 100);
	assert_true(s.n_kernels <= 110);
	assert_int_equal(s.n_states[GS_COMPANION_GPU_OPENED], s.n_states[GS_COMPANION_GPU_CLOSED]);
}

/* Not asked for, calls are not recorded: they cost the program more than work does. */
static void calls_are_for_who_asks(void **state)
{
	static struct seen s;

	run_app(&s, "driver kernels 500 others", "GPUSCOPE_COMPANION_GPU=60000/120000");
	expect_all(&s, 500);
	assert_int_equal(s.n_launched, 0);
}

/* What can break programs with real versions is not done between windows. */
static void windows_do_no_harm(void **state)
{
	static struct seen s;

	run_app(&s, "driver kernels 100 others wait 500 kernels 10 wait 600 kernels 40 wait 500",
		"GPUSCOPE_COMPANION_GPU=300/900 FAKE_CUPTI_UNHURT=1");
	assert_int_equal(s.window[0], 100);
	assert_int_equal(s.n_kernels, 140);
	assert_int_equal(s.n_other[GS_WORK_GRAPH], 0);
}

/* Its trace is complete; ours goes on some seconds later. */
static void the_programs_own_profiler(void **state)
{
	static struct seen s;

	run_app(&s, "driver kernels 400 profile 5000 wait 2600 kernels 300",
		"GPUSCOPE_COMPANION_GPU=60000/120000");
	assert_int_equal(s.said_profiled, 5000);
	assert_int_equal(s.said_in_profile, 5000);
	assert_int_equal(s.said_foreign, 0);
	assert_int_equal(s.n_kernels, 700);
	assert_int_equal(s.n_states[GS_COMPANION_GPU_YIELDED], 1);
	assert_int_equal(s.n_states[GS_COMPANION_GPU_OPENED], 2);
	assert_int_equal(s.window[0], 400);
	assert_int_equal(s.window[1], 300);
	/* One that began before the driver. */
	run_app(&s, "profile 50 subscribe driver kernels 100 profile 300",
		"GPUSCOPE_COMPANION_GPU=60000/120000");
	assert_int_equal(s.said_profiled, 350);
	assert_int_equal(s.n_kernels, 100);
}

/* A child has no GPU; one that ends without a word leaves what was taken so far. */
static void ends(void **state)
{
	static struct seen s;

	run_app(&s, "driver kernels 50 fork 20 kernels 50", "GPUSCOPE_COMPANION_GPU=60000/120000");
	expect_all(&s, 100);
	run_app(&s, "driver kernels 200 wait 1500 quit", "GPUSCOPE_COMPANION_GPU=60000/120000");
	expect_all(&s, 200);
}

/* Without a folder to report in, the program goes on as if alone. */
static void nobody_asks(void **state)
{
	char command[1024];

	snprintf(command, sizeof(command),
		 "LD_PRELOAD=%s CUDA_INJECTION64_PATH=%s %s driver kernels 10 profile 40 | "
		 "grep -q 'profiled 40 of 40 foreign 0'",
		 door, door, app);
	assert_int_equal(system(command), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_a_program_does),
		cmocka_unit_test(each_version),
		cmocka_unit_test(always_open),
		cmocka_unit_test(what_cannot_be_is_said),
		cmocka_unit_test(windows),
		cmocka_unit_test(calls_are_for_who_asks),
		cmocka_unit_test(windows_do_no_harm),
		cmocka_unit_test(the_programs_own_profiler),
		cmocka_unit_test(ends),
		cmocka_unit_test(nobody_asks),
	};

	(void)run_join; /* another writes */
	(void)run_write;
	if (argc != 3)
		return 2;
	app = argv[1];
	door = argv[2];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
