/*
 * Which class a job is of: the user's rules first, the latest added before the others; then the
 * GPUs, when it has any, since what they wait for is what the job is short of; then the processors.
 * The first row that matches names the class. Confidence grows with the distance of the figures
 * that decided from their thresholds.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "analysis/rules/rules_int.h"

/* One figure against one threshold. */
struct test {
	enum gs_figure figure;
	bool above; /* at or above; false: below */
	enum gs_threshold_id threshold;
};

#define TESTS_MAX 4

struct row {
	const char *name;
	size_t n;
	struct test test[TESTS_MAX];
};

#define AT_LEAST(figure, threshold)                                                                \
	{                                                                                          \
		GS_FIGURE_##figure, true, GS_T_##threshold                                         \
	}
#define BELOW(figure, threshold)                                                                   \
	{                                                                                          \
		GS_FIGURE_##figure, false, GS_T_##threshold                                        \
	}

static const struct row gpu_rows[] = {
	/* It does launch, little and again and again, and a processor never rests meanwhile. */
	{"GPU-input-bound",
	 3,
	 {BELOW(GPU, GPU_IDLE), AT_LEAST(CPUS, GPU_FEEDER), AT_LEAST(LAUNCHES, GPU_USED)}},
	{"GPU-idle", 1, {BELOW(GPU, GPU_IDLE)}},
	{"GPU-communication-bound", 1, {AT_LEAST(NCCL, GPU_COLLECTIVE)}},
	{"GPU-memory-bound", 2, {AT_LEAST(DRAM, GPU_DRAM), BELOW(TENSOR, GPU_TENSOR)}},
	{"GPU-compute-bound", 1, {AT_LEAST(TENSOR, GPU_TENSOR)}},
	{"GPU-compute-bound", 1, {AT_LEAST(SM, GPU_SM)}},
	{"GPU-input-bound", 2, {BELOW(GPU, GPU_BUSY), AT_LEAST(IO, IO_BOUND)}},
	{"GPU-launch-bound", 2, {AT_LEAST(LAUNCHES, GPU_LAUNCHES), BELOW(SM, GPU_SM)}},
	/* Launches are not counted: a processor that never rests, and kernels that are there most
	 * of the time and fill few SMs. */
	{"GPU-launch-bound",
	 3,
	 {AT_LEAST(CPUS, GPU_FEEDER), BELOW(SM, GPU_SM), AT_LEAST(GPU, GPU_FED)}},
	{"GPU-input-bound", 2, {BELOW(GPU, GPU_BUSY), AT_LEAST(CPUS, GPU_FEEDER)}},
	{"GPU-input-bound", 2, {BELOW(GPU, GPU_BUSY), AT_LEAST(CPU, CPU_BOUND)}},
	{"GPU-compute-bound", 1, {AT_LEAST(GPU, GPU_BUSY)}},
};

/* What went wrong first; then what it waits for, since a processor that a lock or a disk leaves
 * idle is no want of processors; then processors: stopped by a quota, held by others, used. */
static const struct row cpu_rows[] = {
	{"Memory-bound", 1, {AT_LEAST(OOM_KILLS, KILLS)}},
	{"Memory-bound", 2, {AT_LEAST(MEMORY_HELD, MEMORY), AT_LEAST(FAULTS_MAJOR, PAGING)}},
	{"Memory-bound", 1, {AT_LEAST(MEMORY_PRESSURE, PRESSURE)}},
	{"Lock-bound", 1, {AT_LEAST(LOCK, LOCK_BOUND)}},
	{"CPU-throttled", 2, {AT_LEAST(THROTTLED, THROTTLED), AT_LEAST(COMPUTE, MIXED)}},
	{"CPU-IO-mixed", 2, {AT_LEAST(COMPUTE, MIXED), AT_LEAST(IO, CPU_PURE)}},
	{"CPU-IO-mixed", 2, {AT_LEAST(CPU, CPU_BOUND), AT_LEAST(IO, CPU_PURE)}},
	{"IO-bound-intensive", 2, {AT_LEAST(IO, IO_BOUND), AT_LEAST(SWITCHES, SWITCHES)}},
	{"IO-bound", 1, {AT_LEAST(IO, IO_BOUND)}},
	{"Network-bound", 1, {AT_LEAST(NET, NET_BOUND)}},
	/* It waits for data on which no worker computes: they wait for something outside. */
	{"Input-bound", 2, {AT_LEAST(INPUT, INPUT_BOUND), AT_LEAST(IDLE, INPUT_BOUND)}},
	/* Waiting for a processor is not enough: without that wait it would compute for long, too. */
	{"CPU-starved",
	 3,
	 {AT_LEAST(COMPUTE, CPU_BOUND), AT_LEAST(ALONE, ALONE), AT_LEAST(TAKEN, STARVED)}},
	{"CPU-bound", 2, {AT_LEAST(COMPUTE, CPU_BOUND), AT_LEAST(ALONE, ALONE)}},
	/* Without probes it is not known what threads wait for. */
	{"CPU-bound", 1, {AT_LEAST(CPU, CPU_BOUND)}},
	{"Idle-heavy-switching", 2, {AT_LEAST(IDLE, IDLE), AT_LEAST(SWITCHES, SWITCHES)}},
	{"Idle-heavy", 1, {AT_LEAST(IDLE, IDLE)}},
	/* Many threads that each compute a little fill its processors, too. */
	{"CPU-bound", 2, {AT_LEAST(CPU_DEMAND, CPU_BOUND), AT_LEAST(ALONE, ALONE)}},
	{"Mixed-intensive", 1, {AT_LEAST(SWITCHES, SWITCHES)}},
};

static bool test_holds(const struct gs_rules *rules, const struct gs_figures *f,
		       const struct test *t)
{
	double v = f->v[t->figure], limit = rules->threshold[t->threshold];

	return t->above ? v >= limit : v < limit; /* both false for NAN */
}

static bool row_matches(const struct gs_rules *rules, const struct gs_figures *f,
			const struct row *row)
{
	for (size_t i = 0; i < row->n; i++)
		if (!test_holds(rules, f, &row->test[i]))
			return false;
	return true;
}

static void add_evidence(struct gs_verdict *v, const char *text)
{
	if (v->n_evidence < GS_VERDICT_EVIDENCE_MAX)
		snprintf(v->evidence[v->n_evidence++], sizeof(v->evidence[0]), "%s", text);
}

/* 0.5 at the threshold, 1 as far from it as it can be: the end of the scale, or twice a threshold
 * of what has no end. */
static double sureness_of(const struct test *t, double value, double limit)
{
	double room = t->above ? (limit < 100 ? 100 - limit : limit) : limit;
	double distance = fabs(value - limit);

	return room > 0 ? 0.5 + 0.5 * fmin(1, distance / room) : 1;
}

static void take_row(const struct gs_rules *rules, const struct gs_figures *f,
		     const struct row *row, struct gs_verdict *v)
{
	char text[160];

	snprintf(v->job_class, sizeof(v->job_class), "%s", row->name);
	v->confidence = 1;
	for (size_t i = 0; i < row->n; i++) {
		const struct test *t = &row->test[i];
		double value = f->v[t->figure], limit = rules->threshold[t->threshold];

		snprintf(text, sizeof(text), "%s is %.1f, %s %s of %g", gs_figure_key(t->figure),
			 value, t->above ? "at or above" : "below",
			 gs_threshold_get(t->threshold)->key, limit);
		add_evidence(v, text);
		v->confidence = fmin(v->confidence, sureness_of(t, value, limit));
	}
}

/* The user's class that matches, the latest first; NULL none. */
static const struct gs_class_rule *find_custom_class(const struct gs_rules *rules,
						     const struct gs_figures *f)
{
	for (size_t i = rules->n_classes; i > 0; i--)
		if (gs_expr_value(rules->classes[i - 1].condition, f) == 1)
			return &rules->classes[i - 1];
	return NULL;
}

static void take_custom(const struct gs_class_rule *rule, const struct gs_figures *f,
			struct gs_verdict *v)
{
	uint64_t figures = gs_expr_figures(rule->condition);
	char text[160];

	snprintf(v->job_class, sizeof(v->job_class), "%s", rule->name);
	v->is_custom = true;
	v->confidence = 1;
	snprintf(text, sizeof(text), "rule: %.140s", rule->text);
	add_evidence(v, text);
	for (unsigned i = 0; i < GS_FIGURE_COUNT; i++) {
		if (!(figures >> i & 1) || isnan(f->v[i]))
			continue;
		snprintf(text, sizeof(text), "%s is %.1f", gs_figure_key(i), f->v[i]);
		add_evidence(v, text);
	}
}

void gs_rules_classify(const struct gs_rules *rules, const struct gs_figures *f,
		       struct gs_verdict *v)
{
	const struct gs_class_rule *rule = find_custom_class(rules, f);

	if (rule) {
		take_custom(rule, f, v);
		return;
	}
	if (f->v[GS_FIGURE_N_GPUS] > 0)
		for (size_t i = 0; i < GS_ARRAY_LEN(gpu_rows); i++)
			if (row_matches(rules, f, &gpu_rows[i])) {
				take_row(rules, f, &gpu_rows[i], v);
				return;
			}
	for (size_t i = 0; i < GS_ARRAY_LEN(cpu_rows); i++)
		if (row_matches(rules, f, &cpu_rows[i])) {
			take_row(rules, f, &cpu_rows[i], v);
			return;
		}
	if (isnan(f->v[GS_FIGURE_CPU])) {
		snprintf(v->job_class, sizeof(v->job_class), "Unknown");
		add_evidence(v, "its use of processors is not known");
		return;
	}
	snprintf(v->job_class, sizeof(v->job_class), "Balanced");
	v->confidence = 0.5;
	add_evidence(v, "no share exceeds its threshold");
}
