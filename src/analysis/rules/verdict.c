/* Rules: thresholds, classes and advice, kept and applied. */
#include "analysis/rules/verdict.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "analysis/rules/rules_int.h"

/* The first four under the names and with the values of ebpf-hpc-monitor's configuration; its
 * limit of switches was a total whatever the duration, ours is by core and second. */
static const struct gs_threshold thresholds[GS_T_COUNT] = {
	[GS_T_CPU_BOUND] = {"cpu_bound_threshold", 70, 1, 100, "cpu_percent of CPU-bound"},
	[GS_T_CPU_PURE] = {"cpu_io_mixed_threshold", 10, 0, 100,
			   "io_percent from which CPU-bound is CPU-IO-mixed"},
	[GS_T_IO_BOUND] = {"io_bound_threshold", 30, 1, 100, "io_percent of IO-bound"},
	[GS_T_NET_BOUND] = {"network_bound_threshold", 30, 1, 100, "net_percent of Network-bound"},
	[GS_T_LOCK_BOUND] = {"lock_bound_threshold", 30, 1, 100, "lock_percent of Lock-bound"},
	[GS_T_INPUT_BOUND] = {"input_bound_threshold", 30, 1, 100,
			      "input_percent and idle_percent of Input-bound"},
	[GS_T_IDLE] = {"idle_heavy_threshold", 70, 1, 100, "idle_percent of Idle-heavy"},
	[GS_T_STARVED] = {"cpu_starved_threshold", 50, 1, 100,
			  "cpu_taken_percent from which CPU-bound is CPU-starved"},
	[GS_T_ALONE] = {"compute_alone_threshold", 50, 0, 100,
			"compute_alone_percent of CPU-bound and CPU-starved"},
	[GS_T_THROTTLED] = {"cpu_throttled_threshold", 20, 1, 100,
			    "cpu_throttled_percent of CPU-throttled"},
	[GS_T_MIXED] = {"mixed_compute_threshold", 60, 1, 100,
			"compute_percent from which IO-bound is CPU-IO-mixed"},
	[GS_T_PAGING] = {"paging_threshold", 100, 1, 1e7,
			 "major_faults_per_second of Memory-bound"},
	[GS_T_PRESSURE] = {"memory_pressure_threshold", 20, 1, 100,
			   "memory_pressure_percent of Memory-bound"},
	[GS_T_KILLS] = {"oom_kills_threshold", 1, 1, 1e7, "oom_kills of Memory-bound"},
	[GS_T_SWITCHES] = {"context_switch_threshold", 1000, 1, 1e7,
			   "context_switches_per_core_second of the -intensive and -switching"},
	[GS_T_MEMORY] = {"memory_bound_threshold", 90, 1, 100, "memory_usage of Memory-bound"},
	[GS_T_GPU_IDLE] = {"gpu_idle_threshold", 5, 0, 100, "gpu_percent below which GPU-idle"},
	[GS_T_GPU_SM] = {"gpu_sm_threshold", 50, 1, 100, "sm_percent of GPU-compute-bound"},
	[GS_T_GPU_TENSOR] = {"gpu_tensor_threshold", 15, 1, 100,
			     "tensor_percent of GPU-compute-bound"},
	[GS_T_GPU_DRAM] = {"gpu_dram_threshold", 50, 1, 100, "dram_percent of GPU-memory-bound"},
	[GS_T_GPU_COLLECTIVE] = {"gpu_collective_threshold", 30, 1, 100,
				 "collective_percent of GPU-communication-bound"},
	[GS_T_GPU_LAUNCHES] = {"gpu_launch_threshold", 10000, 1, 1e7,
			       "launches_per_second of GPU-launch-bound"},
	[GS_T_GPU_FEEDER] = {"gpu_feeder_threshold", 0.8, 0, 1024,
			     "cpus_busy from which the processors are what GPUs wait for"},
	[GS_T_GPU_FED] = {"gpu_fed_threshold", 30, 1, 100,
			  "gpu_percent from which small kernels, not their input, are too slow"},
	[GS_T_GPU_USED] = {"gpu_use_threshold", 1, 0, 1e7,
			   "launches_per_second from which an idle GPU waits for its input"},
	[GS_T_GPU_BUSY] = {"gpu_busy_threshold", 70, 1, 100,
			   "gpu_percent below which its input is looked at"},
};

const struct gs_threshold *gs_threshold_get(size_t i)
{
	return i < GS_T_COUNT ? &thresholds[i] : NULL;
}

struct gs_rules *gs_rules_new(void)
{
	struct gs_rules *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->classes = calloc(GS_RULES_MAX, sizeof(*r->classes));
	r->advice = calloc(GS_RULES_MAX, sizeof(*r->advice));
	for (size_t i = 0; i < GS_T_COUNT; i++)
		r->threshold[i] = thresholds[i].value;
	if (!r->classes || !r->advice || gs_rules_add_built_in_advice(r) < 0)
		gs_rules_free(&r);
	return r;
}

void gs_rules_free(struct gs_rules **ref)
{
	struct gs_rules *r = *ref;

	if (!r)
		return;
	for (size_t i = 0; i < r->n_classes; i++)
		gs_expr_free(&r->classes[i].condition);
	for (size_t i = 0; i < r->n_advice; i++)
		gs_expr_free(&r->advice[i].condition);
	free(r->classes);
	free(r->advice);
	free(r);
	*ref = NULL;
}

int gs_rules_set(struct gs_rules *r, const char *key, double value, struct gs_err *err)
{
	for (size_t i = 0; i < GS_T_COUNT; i++) {
		const struct gs_threshold *t = &thresholds[i];

		if (strcmp(t->key, key) != 0)
			continue;
		if (!(value >= t->min && value <= t->max))
			return gs_err_set(err, -ERANGE, "%s is %g: %g to %g is possible", key,
					  value, t->min, t->max);
		r->threshold[i] = value;
		return 0;
	}
	return gs_err_set(err, -ENOENT, "no threshold is called \"%.80s\"", key);
}

int gs_rules_add_class(struct gs_rules *r, const char *name, const char *condition,
		       struct gs_err *err)
{
	struct gs_class_rule *c = &r->classes[r->n_classes];
	int e;

	if (!*name || strlen(name) >= sizeof(c->name))
		return gs_err_set(err, -EINVAL,
				  "the name of a class has 1 to %zu characters, not \"%.80s\"",
				  sizeof(c->name) - 1, name);
	if (r->n_classes == GS_RULES_MAX)
		return gs_err_set(err, -ENOSPC, "more than %d rules", GS_RULES_MAX);
	e = gs_expr_parse(condition, &c->condition, err);
	if (e == 0)
		e = gs_expr_want_condition(&c->condition, condition, err);
	if (e < 0)
		return e;
	snprintf(c->name, sizeof(c->name), "%s", name);
	snprintf(c->text, sizeof(c->text), "%s", condition);
	r->n_classes++;
	return 0;
}

static struct gs_advice_rule *find_advice(struct gs_rules *r, const char *name)
{
	for (size_t i = 0; i < r->n_advice; i++)
		if (strcmp(r->advice[i].name, name) == 0)
			return &r->advice[i];
	return NULL;
}

int gs_rules_add_advice(struct gs_rules *r, const char *name, const char *condition,
			const char *fact, const char *cause, const char *next, const char *benefit,
			struct gs_err *err)
{
	const char *const texts[] = {fact, cause, next, benefit};
	struct gs_advice_rule *a = find_advice(r, name);
	struct gs_expr *expr = NULL;
	char ignored[8];
	int e;

	if (!*name || strlen(name) >= sizeof(a->name))
		return gs_err_set(err, -EINVAL,
				  "the name of a rule has 1 to %zu characters, not \"%.80s\"",
				  sizeof(a->name) - 1, name);
	for (size_t i = 0; i < GS_ARRAY_LEN(texts); i++) {
		if (strlen(texts[i]) >= (i == 3 ? sizeof(a->benefit) : sizeof(a->fact)))
			return gs_err_set(err, -EINVAL, "rule %s: a text is too long", name);
		e = gs_rules_fill_template(texts[i], NULL, ignored, sizeof(ignored), err);
		if (e < 0)
			return e;
	}
	if (!a && r->n_advice == GS_RULES_MAX)
		return gs_err_set(err, -ENOSPC, "more than %d rules", GS_RULES_MAX);
	e = gs_expr_parse(condition, &expr, err);
	if (e == 0)
		e = gs_expr_want_condition(&expr, condition, err);
	if (e < 0)
		return e;
	if (!a)
		a = &r->advice[r->n_advice++];
	gs_expr_free(&a->condition);
	*a = (struct gs_advice_rule){.condition = expr};
	snprintf(a->name, sizeof(a->name), "%s", name);
	snprintf(a->fact, sizeof(a->fact), "%s", fact);
	snprintf(a->cause, sizeof(a->cause), "%s", cause);
	snprintf(a->next, sizeof(a->next), "%s", next);
	snprintf(a->benefit, sizeof(a->benefit), "%s", benefit);
	return 0;
}

void gs_verdict_of(const struct gs_rules *rules, const struct gs_figures *figures,
		   struct gs_verdict *v)
{
	memset(v, 0, sizeof(*v));
	gs_rules_classify(rules, figures, v);
	gs_rules_score(rules, figures, v);
	gs_rules_advise(rules, figures, v);
	gs_verdict_describe(figures, v);
}
