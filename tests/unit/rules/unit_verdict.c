/* Classes, scores and advice of figures, as jobs of each kind have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "core/base/mem.h"
#include "analysis/rules/verdict.h"

struct figure {
	enum gs_figure id;
	double v;
};

#define JOB(...)                                                                                   \
	make((struct figure[]){__VA_ARGS__},                                                       \
	     sizeof((struct figure[]){__VA_ARGS__}) / sizeof(struct figure))

static struct gs_figures make(const struct figure *list, size_t n)
{
	struct gs_figures f;

	gs_figures_clear(&f);
	for (size_t i = 0; i < n; i++)
		f.v[list[i].id] = list[i].v;
	return f;
}

static struct gs_verdict judge(struct gs_figures f)
{
	struct gs_rules *rules = gs_rules_new();
	struct gs_verdict v;

	assert_non_null(rules);
	gs_verdict_of(rules, &f, &v);
	gs_rules_free(&rules);
	return v;
}

#define CPU(x)                                                                                     \
	{                                                                                          \
		GS_FIGURE_CPU, x                                                                   \
	}
#define COMPUTE(x)                                                                                 \
	{GS_FIGURE_COMPUTE, x},                                                                    \
	{                                                                                          \
		GS_FIGURE_ALONE, x                                                                 \
	}
#define IO(x)                                                                                      \
	{                                                                                          \
		GS_FIGURE_IO, x                                                                    \
	}
#define WAIT(x)                                                                                    \
	{                                                                                          \
		GS_FIGURE_WAIT, x                                                                  \
	}
#define IDLE(x)                                                                                    \
	{                                                                                          \
		GS_FIGURE_IDLE, x                                                                  \
	}
#define SWITCHES(x)                                                                                \
	{                                                                                          \
		GS_FIGURE_SWITCHES, x                                                              \
	}
#define GPUS(x)                                                                                    \
	{GS_FIGURE_N_GPUS, x},                                                                     \
	{                                                                                          \
		GS_FIGURE_GPUS_IDLE, 0                                                             \
	}
#define GPU(x)                                                                                     \
	{                                                                                          \
		GS_FIGURE_GPU, x                                                                   \
	}
#define SM(x)                                                                                      \
	{                                                                                          \
		GS_FIGURE_SM, x                                                                    \
	}

static void classes(void **state)
{
	const struct {
		struct gs_figures f;
		const char *want;
	} cases[] = {
		{JOB(GPUS(0)), "Unknown"},
		{JOB(CPU(95), IO(1), WAIT(5), SWITCHES(10)), "CPU-bound"},
		{JOB(CPU(75), IO(20), WAIT(5), SWITCHES(10)), "CPU-IO-mixed"},
		{JOB(CPU(75)), "CPU-bound"}, /* nothing known of disks */
		{JOB(CPU(20), IO(60), WAIT(20), SWITCHES(10)), "IO-bound"},
		{JOB(CPU(20), IO(60), WAIT(20), SWITCHES(5000)), "IO-bound-intensive"},
		{JOB(CPU(1), IO(0), WAIT(99), IDLE(99), SWITCHES(1)), "Idle-heavy"},
		{JOB(CPU(10), IO(0), WAIT(80), IDLE(80), SWITCHES(4000)), "Idle-heavy-switching"},
		/* Half of two processors, all of one: serial. */
		{JOB(CPU(50), IO(0), WAIT(50), IDLE(0), COMPUTE(100)), "CPU-bound"},
		{JOB(CPU(2), WAIT(98), IDLE(0), COMPUTE(100)), "CPU-bound"},
		{JOB(CPU(25), {GS_FIGURE_CPU_DEMAND, 100}, {GS_FIGURE_TAKEN, 75}, COMPUTE(100)),
		 "CPU-starved"},
		/* A quarter of two processors, which others have; and a third of the time at rest. */
		{JOB(CPU(25), {GS_FIGURE_CPU_DEMAND, 72}, {GS_FIGURE_TAKEN, 65},
		     {GS_FIGURE_COMPUTE, 72}, {GS_FIGURE_ALONE, 42}),
		 "Balanced"},
		{JOB(CPU(30), {GS_FIGURE_CPU_DEMAND, 85}, {GS_FIGURE_TAKEN, 65},
		     {GS_FIGURE_COMPUTE, 85}, {GS_FIGURE_ALONE, 60}),
		 "CPU-starved"},
		{JOB(CPU(95), {GS_FIGURE_THROTTLED, 90}, COMPUTE(100)), "CPU-throttled"},
		{JOB(CPU(20), IO(35), COMPUTE(65)), "CPU-IO-mixed"},
		/* A lock decides, however busy the processors are; memory before all. */
		{JOB(CPU(95), COMPUTE(30), {GS_FIGURE_LOCK, 65}), "Lock-bound"},
		{JOB(CPU(95), {GS_FIGURE_OOM_KILLS, 1}), "Memory-bound"},
		{JOB(CPU(10), IO(80), {GS_FIGURE_MEMORY_HELD, 99}), "IO-bound"},
		{JOB(CPU(10), IO(80), {GS_FIGURE_MEMORY_HELD, 99}, {GS_FIGURE_FAULTS_MAJOR, 900}),
		 "Memory-bound"},
		{JOB(CPU(60), IO(0), WAIT(40), SWITCHES(4000)), "Mixed-intensive"},
		{JOB(CPU(60), IO(10), WAIT(40), SWITCHES(10)), "Balanced"},
		{JOB(CPU(60), {GS_FIGURE_MEMORY, 95}), "Balanced"}, /* it fits */
		{JOB(CPU(10), WAIT(60), {GS_FIGURE_NET, 60}), "Network-bound"},
		{JOB(CPU(10), WAIT(60), {GS_FIGURE_LOCK, 60}), "Lock-bound"},
		/* Its workers wait for something, or compute. */
		{JOB(CPU(5), IDLE(80), {GS_FIGURE_INPUT, 80}, COMPUTE(20)), "Input-bound"},
		{JOB(CPU(60), IDLE(5), {GS_FIGURE_INPUT, 80}, COMPUTE(95)), "CPU-bound"},
		{JOB(CPU(5), IDLE(80), {GS_FIGURE_INPUT, 10}, COMPUTE(20)), "Idle-heavy"},
		{JOB(CPU(99), GPUS(2), GPU(1)), "GPU-idle"},
		{JOB(CPU(10), GPUS(2), GPU(99), SM(90), {GS_FIGURE_TENSOR, 40}),
		 "GPU-compute-bound"},
		{JOB(GPUS(1), GPU(99), SM(30), {GS_FIGURE_TENSOR, 2}, {GS_FIGURE_DRAM, 80}),
		 "GPU-memory-bound"},
		{JOB(GPUS(1), GPU(95), SM(20), {GS_FIGURE_TENSOR, 2}, {GS_FIGURE_DRAM, 10},
		     {GS_FIGURE_LAUNCHES, 40000}),
		 "GPU-launch-bound"},
		{JOB(CPU(20), IO(50), GPUS(1), GPU(20), SM(10)), "GPU-input-bound"},
		{JOB(CPU(95), IO(0), GPUS(1), GPU(20), SM(10)), "GPU-input-bound"},
		/* One processor of many that never rests: kernels are there, and small; or are not.
		 */
		{JOB(CPU(6), IO(0), {GS_FIGURE_CPUS, 0.98}, GPUS(1), GPU(60), SM(9)),
		 "GPU-launch-bound"},
		{JOB(CPU(6), IO(0), {GS_FIGURE_CPUS, 0.98}, GPUS(1), GPU(12), SM(3)),
		 "GPU-input-bound"},
		{JOB(CPU(6), IO(0), {GS_FIGURE_CPUS, 0.98}, GPUS(1), GPU(99), SM(95)),
		 "GPU-compute-bound"},
		{JOB(CPU(20), GPUS(4), GPU(80), {GS_FIGURE_NCCL, 50}), "GPU-communication-bound"},
		{JOB(CPU(20), GPUS(4), GPU(90)), "GPU-compute-bound"}, /* no GPM */
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		struct gs_verdict v = judge(cases[i].f);

		assert_string_equal(v.job_class, cases[i].want);
		assert_true(v.n_evidence > 0);
		assert_true(v.confidence >= 0 && v.confidence <= 1);
	}
}

static void confidence_grows_with_distance(void **state)
{
	double near = judge(JOB(CPU(71), IO(0))).confidence;
	double far = judge(JOB(CPU(99), IO(0))).confidence;

	assert_true(near >= 0.5 && near < 0.6);
	assert_true(far > 0.9);
}

static double score(struct gs_figures f)
{
	struct gs_verdict v = judge(f);
	double sum = 0;

	for (size_t i = 0; i < v.n_parts; i++) {
		assert_true(fabs(v.part[i].points) <= fabs(v.part[i].max_points) + 1e-9);
		assert_true(v.part[i].because[0]);
		sum += v.part[i].points;
	}
	if (!isnan(v.score))
		assert_true(fabs(fmin(100, fmax(0, sum)) - v.score) < 1e-9);
	return v.score;
}

static void the_score_has_both_ends(void **state)
{
	assert_true(score(JOB(CPU(100), IO(0), {GS_FIGURE_FORCED, 0})) == 100);
	assert_true(score(JOB(CPU(0), IO(0), WAIT(100))) == 0);
	assert_true(score(JOB(CPU(100), GPUS(1), GPU(100), SM(100))) == 100);
	assert_true(score(JOB(CPU(0), GPUS(1), GPU(0), SM(0))) == 0);
	assert_true(isnan(score(JOB(GPUS(0)))));
	/* Each wait and waste takes some away. */
	assert_true(score(JOB(CPU(80), IO(0), {GS_FIGURE_FORCED, 1000})) == 76);
	assert_true(score(JOB(CPU(80), {GS_FIGURE_LOCK, 50})) == 68);
	/* Waiting for a disk is less than computing and more than sleep, whatever was wasted. */
	assert_true(score(JOB(CPU(80), IO(50))) == 82.5);
	assert_true(score(JOB(CPU(0), IO(100))) == 25);
	assert_true(score(JOB(CPU(1), IO(90), {GS_FIGURE_FORCED, 1e6}, {GS_FIGURE_LOCK, 100})) >
		    10);
	assert_true(score(JOB(CPU(80), {GS_FIGURE_MEMORY, 25},
			      {GS_FIGURE_MEMORY_ALLOCATED, 100})) == 76);
	/* Of the machine's memory, of which nothing was asked for. */
	assert_true(score(JOB(CPU(80), {GS_FIGURE_MEMORY, 25})) == 80);
	assert_true(score(JOB(CPU(80), {GS_FIGURE_MEMORY, 60})) == 80);
	assert_true(score(JOB(CPU(50), {GS_FIGURE_N_GPUS, 2}, {GS_FIGURE_GPUS_IDLE, 1}, GPU(50))) ==
		    (37.5 + 25) * 0.85);
	/* Bandwidth used to the full is as good as SMs. */
	assert_true(score(JOB(CPU(50), GPUS(1), GPU(99), SM(20), {GS_FIGURE_DRAM, 80})) == 100);
}

/* Who needs help most has least; each has ten points less at least than what is well and like it. The
 * figures are those of the labelled jobs (tests/work/jobs), on their processors alone. */
static void who_needs_help_stands_below(void **state)
{
	const double busy =
		score(JOB(CPU(99.8), IO(0), {GS_FIGURE_RUNQUEUE, 1}, {GS_FIGURE_TAKEN, 1}));
	const double serial = score(JOB(CPU(49.9), IO(0), WAIT(50)));
	const double reads = score(JOB(CPU(8), IO(85)));
	const double trains = score(JOB(CPU(30), GPUS(1), GPU(97), SM(88)));
	const double asleep = score(JOB(CPU(0), IO(0), WAIT(100)));
	const double starved =
		score(JOB(CPU(33), IO(0), {GS_FIGURE_RUNQUEUE, 67}, {GS_FIGURE_TAKEN, 67}));
	const double crowded = score(JOB(CPU(99.5), IO(0), {GS_FIGURE_RUNQUEUE, 87},
					 {GS_FIGURE_TAKEN, 0.5}, {GS_FIGURE_FORCED, 400}));
	const double locks = score(JOB(CPU(50), IO(0), {GS_FIGURE_LOCK, 82}));
	const double stopped = score(JOB(CPU(99), IO(0), {GS_FIGURE_THROTTLED, 95}));
	const double killed = score(JOB(CPU(60), IO(0), {GS_FIGURE_OOM_KILLS, 40}));
	const double thrashes = score(
		JOB(CPU(4), IO(93), {GS_FIGURE_MEMORY_HELD, 99}, {GS_FIGURE_FAULTS_MAJOR, 5000}));
	const double presses = score(JOB(CPU(4), IO(93), {GS_FIGURE_MEMORY_PRESSURE, 90}));
	const double unfed = score(JOB(CPU(50), GPUS(1), GPU(20), SM(12)));
	const double hung = score(JOB(CPU(100), GPUS(1), GPU(0), SM(0)));
	const double spins = score(JOB(CPU(30), GPUS(1), GPU(100), SM(88), {GS_FIGURE_NCCL, 90}));

	(void)state;
	assert_true(asleep == 0 && hung == 0);
	assert_true(starved < busy - 10 && locks < serial - 10 && stopped < busy - 10);
	assert_true(crowded < busy - 5);
	assert_true(killed < 0.6 * busy && killed < locks);
	assert_true(thrashes < reads - 10 && presses < reads - 10 && thrashes > asleep);
	assert_true(unfed < trains - 10 && spins < trains - 10);
}

static const struct gs_advice *advice(const struct gs_verdict *v, const char *rule)
{
	for (size_t i = 0; i < v->n_advice; i++)
		if (strcmp(v->advice[i].rule, rule) == 0)
			return &v->advice[i];
	return NULL;
}

#define SERIAL                                                                                     \
	CPU(12.5), {GS_FIGURE_LOCK, 0}, {GS_FIGURE_INPUT, 0}, {GS_FIGURE_CORES, 8},                \
		{GS_FIGURE_CPUS, 1}, {GS_FIGURE_CPU_DEMAND, 12.5}, COMPUTE(100)

static void advice_names_the_directive(void **state)
{
	struct gs_verdict v =
		judge(JOB(CPU(24), {GS_FIGURE_CORES, 8}, {GS_FIGURE_DURATION, 600},
			  {GS_FIGURE_CPUS, 1.92}, {GS_FIGURE_CPU_DEMAND, 24}, {GS_FIGURE_LOCK, 0},
			  {GS_FIGURE_NET, 0}, {GS_FIGURE_INPUT, 0}, {GS_FIGURE_MEMORY, 10},
			  {GS_FIGURE_MEMORY_USED, 6.4 * (1 << 30)},
			  {GS_FIGURE_MEMORY_ALLOCATED, 64.0 * (1 << 30)},
			  {GS_FIGURE_TIME_LIMIT, 25}, {GS_FIGURE_RUN_TIME, 3600}, IO(0)));

	assert_string_equal(advice(&v, "processors-unused")->fact,
			    "1.9 of 8 processors were used.");
	assert_string_equal(advice(&v, "processors-unused")->next, "--cpus-per-task=3");
	assert_string_equal(advice(&v, "memory-unused")->fact,
			    "6.40 GiB of 64.0 GiB of memory were used.");
	assert_string_equal(advice(&v, "memory-unused")->next, "--mem=8G");
	assert_string_equal(advice(&v, "time-limit")->next, "--time=01:15:00");
	assert_null(advice(&v, "serial"));
	assert_null(advice(&v, "gpu-low"));

	v = judge(JOB(SERIAL));
	assert_string_equal(advice(&v, "serial")->next, "--cpus-per-task=1");
	assert_null(advice(&v, "input"));
	/* One that its worker keeps waiting looks serial, and more workers help. */
	v = judge(JOB(SERIAL, {GS_FIGURE_INPUT, 80}));
	assert_non_null(advice(&v, "input"));
	assert_null(advice(&v, "serial"));
	/* Fewer threads help no loop whose queue of batches is empty, though that waits as locks do. */
	v = judge(JOB({GS_FIGURE_LOCK, 62}, {GS_FIGURE_INPUT, 68}));
	assert_non_null(advice(&v, "input"));
	assert_null(advice(&v, "locks"));
	v = judge(JOB({GS_FIGURE_LOCK, 62}, {GS_FIGURE_INPUT, 0}));
	assert_non_null(advice(&v, "locks"));
	/* Others have the processors: it is not known how many it could use. */
	v = judge(JOB(CPU(32), {GS_FIGURE_CORES, 2}, {GS_FIGURE_CPUS, 0.64}, {GS_FIGURE_TAKEN, 68},
		      {GS_FIGURE_CPU_DEMAND, 100}, COMPUTE(100)));
	assert_null(advice(&v, "serial"));
	assert_null(advice(&v, "processors-unused"));
	assert_non_null(advice(&v, "processors-taken"));
	v = judge(JOB({GS_FIGURE_N_GPUS, 4}, {GS_FIGURE_GPUS_IDLE, 3}, GPU(20),
		      {GS_FIGURE_DURATION, 600}));
	assert_string_equal(advice(&v, "gpus-never-used")->next, "--gres=gpu:1");
}

static void the_verdict_says_what_and_why(void **state)
{
	struct gs_verdict v = judge(JOB(SERIAL, {GS_FIGURE_DURATION, 9}));

	assert_string_equal(v.class_name, "cpu_bound");
	assert_string_equal(v.title, "CPU-bound and serial");
	assert_string_equal(v.why,
			    "one thread computes 100.0 % of the time; 8 processors are available");
	assert_true(v.share == 1 && !v.is_unknown && !v.is_custom);
	v = judge(JOB(CPU(5), IO(62.5), {GS_FIGURE_DURATION, 9}));
	assert_string_equal(v.class_name, "io_bound");
	assert_true(v.share == 0.625 && v.command[0] && v.next[0]);
	assert_null(strstr(v.why, "waiting for a processor"));
	v = judge(JOB(CPU(5), IO(62.5), {GS_FIGURE_RUNQUEUE, 70}, {GS_FIGURE_DURATION, 9}));
	assert_non_null(strstr(
		v.why,
		"62.5 % of its threads' time was blocked on disks and file systems; of its busy time 70 % was waiting for a processor"));
	v = judge(JOB(SERIAL, {GS_FIGURE_DURATION, 0.5}));
	assert_string_equal(v.class_name, "too_short");
	assert_true(v.is_unknown);
	v = judge(JOB(CPU(50), IO(10), {GS_FIGURE_DURATION, 9}));
	assert_true(v.is_unknown && isnan(v.share));
}

static void rules_of_the_user_come_first(void **state)
{
	struct gs_rules *rules = gs_rules_new();
	struct gs_figures f = JOB(CPU(95), IO(0), {GS_FIGURE_MEMORY, 85});
	struct gs_err err = {{0}};
	struct gs_verdict v;

	assert_int_equal(gs_rules_add_class(rules, "big", "memory_usage > 80", NULL), 0);
	gs_verdict_of(rules, &f, &v);
	assert_string_equal(v.job_class, "big");
	assert_string_equal(v.class_name, "custom");
	assert_string_equal(v.title, "big");
	assert_string_equal(v.evidence[0], "rule: memory_usage > 80");
	assert_string_equal(v.evidence[1], "memory_usage is 85.0");
	assert_int_equal(gs_rules_add_class(rules, "bigger", "memory_usage > 84", NULL), 0);
	gs_verdict_of(rules, &f, &v);
	assert_string_equal(v.job_class, "bigger");
	f.v[GS_FIGURE_MEMORY] = NAN;
	gs_verdict_of(rules, &f, &v);
	assert_string_equal(v.job_class, "CPU-bound");
	assert_int_equal(gs_rules_set(rules, "cpu_bound_threshold", 96, &err), 0);
	gs_verdict_of(rules, &f, &v);
	assert_string_equal(v.job_class, "Balanced");

	assert_int_equal(gs_rules_set(rules, "cpu_bound_threshold", 101, &err), -ERANGE);
	assert_string_equal(err.text, "cpu_bound_threshold is 101: 1 to 100 is possible");
	assert_int_equal(gs_rules_set(rules, "cpu_bound_threshold", NAN, &err), -ERANGE);
	assert_int_equal(gs_rules_set(rules, "cpu_limit", 1, &err), -ENOENT);
	assert_int_equal(gs_rules_add_class(rules, "", "1 > 0", &err), -EINVAL);
	assert_int_equal(gs_rules_add_class(rules, "x", "1 >", &err), -EINVAL);
	assert_int_equal(gs_rules_add_advice(rules, "a", "true", "{nothing}", "", "", "", &err),
			 -EINVAL);
	assert_int_equal(gs_rules_add_advice(rules, "a", "true", "{cores", "", "", "", &err),
			 -EINVAL);
	assert_string_equal(err.text, "\"cores\": a closing brace is missing");
	assert_int_equal(gs_rules_add_advice(rules, "a", "true", "{cores:x}", "", "", "", &err),
			 -EINVAL);
	/* The same name replaces: so a built-in rule can be turned off. */
	assert_int_equal(gs_rules_add_advice(rules, "serial", "false", "", "", "", "", &err), 0);
	f = JOB(SERIAL);
	gs_verdict_of(rules, &f, &v);
	assert_null(advice(&v, "serial"));
	gs_rules_free(&rules);
	assert_null(rules);
}

static void thresholds_are_listed(void **state)
{
	struct gs_rules *rules = gs_rules_new();
	size_t n = 0;

	for (const struct gs_threshold *t; (t = gs_threshold_get(n)); n++) {
		assert_true(t->value >= t->min && t->value <= t->max);
		assert_int_equal(gs_rules_set(rules, t->key, t->value, NULL), 0);
	}
	assert_true(n >= 15);
	for (unsigned i = 0; i < GS_FIGURE_COUNT; i++)
		assert_int_equal(gs_figure_by_key(gs_figure_key(i)), i);
	gs_rules_free(&rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes),
		cmocka_unit_test(confidence_grows_with_distance),
		cmocka_unit_test(the_score_has_both_ends),
		cmocka_unit_test(who_needs_help_stands_below),
		cmocka_unit_test(advice_names_the_directive),
		cmocka_unit_test(the_verdict_says_what_and_why),
		cmocka_unit_test(rules_of_the_user_come_first),
		cmocka_unit_test(thresholds_are_listed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
