/* The configuration of `gpuscope job`: what is read, and what each mistake is told as. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "analysis/job_conf/job_conf.h"

static const struct {
	const char *text, *message;
} bad[] = {
	{"classification:\n  cpu_bound_threshold: high\n",
	 "f.yaml:2:24: cpu_bound_threshold takes a number from 1 to 100, not \"high\""},
	{"classification:\n  cpu_bound_threshold: 170\n",
	 "f.yaml:2:24: cpu_bound_threshold takes a number from 1 to 100, not \"170\""},
	{"classification:\n  cpu_bound_treshold: 70\n",
	 "f.yaml:2:3: unknown key \"cpu_bound_treshold\" in classification; did you mean "
	 "\"cpu_bound_threshold\"?"},
	{"classification:\n  thresholds:\n    cpu_bound: 60\n  cpu_bound_threshold: 80\n",
	 "f.yaml:3:5: cpu_bound is 60, but cpu_bound_threshold is 80: they are one"},
	{"classification:\n  custom_rules:\n    - name: \"x\"\n      condition: \"memory_usage "
	 ">\"\n",
	 "f.yaml:4:18: rule \"x\": \"memory_usage >\", column 15: it ends where a figure or a "
	 "number is expected"},
	{"classification:\n  custom_rules:\n    - name: \"x\"\n      condition: \"memory_use > "
	 "80\"\n",
	 "f.yaml:4:18: rule \"x\": \"memory_use > 80\", column 1: no figure has this name"},
	{"classification:\n  custom_rules:\n    - condition: \"memory_usage > 80\"\n",
	 "f.yaml:3:7: an entry of custom_rules without name"},
	{"classification:\n  custom_rules:\n    - name: \"x\"\n",
	 "f.yaml:3:13: rule \"x\" has no condition, such as condition: \"memory_usage > 80\""},
	{"classification:\n  custom_rules:\n    - name: \"x\"\n      conditon: \"memory_usage > "
	 "80\"\n",
	 "f.yaml:4:7: unknown key \"conditon\": custom_rules takes a list of entries with name, "
	 "condition, classification, net_operations, memory_threshold"},
	{"classification:\n  custom_rules: 7\n",
	 "f.yaml:2:17: custom_rules takes a list of entries with name, condition, classification, "
	 "net_operations, memory_threshold, not a single value"},
	{"classification:\n  custom_rules:\n    - \"memory_usage > 80\"\n",
	 "f.yaml:3:7: custom_rules takes a list of entries with name, condition, classification, "
	 "net_operations, memory_threshold"},
	{"classification:\n  advice:\n    - {name: a, condition: \"cpu_percent < 5\", fact: "
	 "\"{cpu}\"}\n",
	 "f.yaml:3:28: advice \"a\": \"cpu\", column 1: no figure has this name"},
	{"classification:\n  advice:\n    - {name: a, fact: \"x\"}\n",
	 "f.yaml:3:14: advice \"a\" has no condition"},
	{"ebpf:\n  filter: cpu\n",
	 "f.yaml:2:11: filter takes one of all, syscall, sched, io, net, cuda, mpi, not \"cpu\""},
	{"ebpf:\n  poll_interval_ms: 1\n",
	 "f.yaml:2:21: poll_interval_ms takes a whole number from 10 to 10000, not \"1\""},
	{"ebpf:\n  probes: all\n",
	 "f.yaml:2:11: ebpf.probes takes keys and values, not a single value"},
	{"output:\n  default_format: xml\n",
	 "f.yaml:2:19: default_format takes one of json, csv, yaml, table, not \"xml\""},
	{"output:\n  float_precision: 2.5\n",
	 "f.yaml:2:20: float_precision takes a whole number from -1 to 9, not \"2.5\""},
	{"classification: 70\n",
	 "f.yaml:1:17: classification takes keys and values, not a single value"},
	{"classification:\n  cpu_bound_threshold: 70\n  cpu_bound_threshold: 71\n",
	 "f.yaml:3:3: classification.cpu_bound_threshold is given twice, first on line 2"},
	{"slurm:\n  enable_fallback: maybe\n",
	 "f.yaml:2:20: enable_fallback takes true or false, not \"maybe\""},
	{"classification:\n\tcpu_bound_threshold: 70\n",
	 "f.yaml:2:1: not YAML: found character that cannot start any token while scanning for the "
	 "next token"},
	{"classification:\n  custom_rules:\n    - {name: a, name: b, condition: \"cores > 1\"}\n",
	 "f.yaml:3:17: name is given twice in one entry"},
	{"classification:\n  custom_rules:\n    memory_intensive:\n      memory_limit: 0.8\n",
	 "f.yaml:4:7: unknown key \"memory_limit\": custom_rules takes a list of entries with "
	 "name, condition, classification, net_operations, memory_threshold"},
	{"- 1\n", "f.yaml:1:1: a configuration takes keys and values, not a list"},
};

static int parse(const char *text, struct gs_job_conf *conf, struct gs_err *err)
{
	return gs_conf_parse(gs_job_conf_schema(), "f.yaml", text, strlen(text), conf, NULL, err);
}

static void mistakes_are_told_where_they_stand(void **state)
{
	struct gs_job_conf *conf = calloc(1, sizeof(*conf));

	(void)state;
	assert_non_null(conf);
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++) {
		struct gs_err err = {{0}};

		assert_int_equal(parse(bad[i].text, conf, &err), -EINVAL);
		assert_string_equal(err.text, bad[i].message);
	}
	free(conf);
}

/* The class that the rules of a configuration give to a job with these figures. */
static void class_of(const char *text, double cpu, double memory, double net_operations,
		     char out[48])
{
	struct gs_job_conf *conf = calloc(1, sizeof(*conf));
	struct gs_verdict verdict;
	struct gs_figures f;
	struct gs_rules *rules;
	struct gs_err err = {{0}};

	assert_non_null(conf);
	if (parse(text, conf, &err) < 0)
		fail_msg("%s", err.text);
	rules = gs_job_conf_rules(conf);
	assert_non_null(rules);
	gs_figures_clear(&f);
	f.v[GS_FIGURE_CPU] = cpu;
	f.v[GS_FIGURE_IO] = 0;
	f.v[GS_FIGURE_MEMORY] = memory;
	f.v[GS_FIGURE_NET_OPS] = net_operations;
	gs_verdict_of(rules, &f, &verdict);
	memcpy(out, verdict.job_class, 48);
	gs_rules_free(&rules);
	free(conf);
}

/* As the README of ebpf-hpc-monitor shows it. */
static const char readme[] = "classification:\n"
			     "  cpu_bound_threshold: 70.0\n"
			     "  io_bound_threshold: 40.0\n"
			     "  idle_threshold: 60.0\n"
			     "  custom_rules:\n"
			     "    - name: \"memory_intensive\"\n"
			     "      condition: \"memory_usage > 80\"\n";

/* As the file that it ships has it. */
static const char shipped[] = "classification:\n"
			      "  thresholds:\n"
			      "    cpu_bound: 75.0\n"
			      "    context_switch: 1000\n"
			      "  efficiency_weights:\n"
			      "    cpu_utilization: 0.4\n"
			      "  custom_rules:\n"
			      "    network_intensive:\n"
			      "      net_operations: 1000\n"
			      "      classification: 'Network-bound'\n"
			      "    memory_intensive:\n"
			      "      memory_threshold: 0.8\n"
			      "      classification: 'Memory-bound'\n"
			      "logging:\n"
			      "  level: 'INFO'\n"
			      "performance: {sampling_rate: 1.0}\n";

static void both_documented_forms_are_read(void **state)
{
	struct gs_job_conf *conf = calloc(1, sizeof(*conf));
	char name[48], foreign[256];

	(void)state;
	class_of(readme, 72, 50, 0, name);
	assert_string_equal(name, "CPU-bound");
	class_of(readme, 72, 81, 0, name);
	assert_string_equal(name, "memory_intensive");
	class_of(shipped, 72, 50, 0, name);
	assert_string_equal(name, "Balanced");
	class_of(shipped, 76, 50, 0, name);
	assert_string_equal(name, "CPU-bound");
	class_of(shipped, 76, 81, 0, name);
	assert_string_equal(name, "Memory-bound");
	/* The first rule of the file comes first. */
	class_of(shipped, 76, 81, 1001, name);
	assert_string_equal(name, "Network-bound");
	assert_non_null(conf);
	assert_int_equal(parse(shipped, conf, NULL), 0);
	gs_job_conf_foreign(conf, foreign, sizeof(foreign));
	assert_string_equal(foreign, "logging (line 15), performance (line 16), "
				     "classification.efficiency_weights (line 6)");
	free(conf);
}

static void the_printed_file_is_the_default(void **state)
{
	struct gs_job_conf *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
	struct gs_buf out = GS_BUF_INIT(1u << 20);
	struct gs_err err = {{0}};

	(void)state;
	assert_non_null(a);
	assert_non_null(b);
	gs_conf_defaults(gs_job_conf_schema(), a);
	assert_int_equal(gs_conf_print(gs_job_conf_schema(), &out), 0);
	if (gs_conf_parse(gs_job_conf_schema(), "f", out.data, out.bytes, b, NULL, &err) < 0)
		fail_msg("%s", err.text);
	for (size_t i = 0; gs_threshold_get(i); i++)
		assert_true(a->threshold[i] == b->threshold[i] &&
			    b->threshold[i] == gs_threshold_get(i)->value);
	assert_int_equal(b->custom.n, 0);
	assert_int_equal(b->precision, a->precision);
	assert_int_equal(b->max_jobs, 50);
	gs_buf_fini(&out);
	free(a);
	free(b);
}

static void advice_is_replaced_by_name(void **state)
{
	static const char text[] = "classification:\n  advice:\n"
				   "    - {name: serial, condition: \"cpu_percent < 60\", fact: "
				   "\"{cpu_percent:round} %\", "
				   "next: \"fewer\"}\n";
	struct gs_job_conf *conf = calloc(1, sizeof(*conf));
	struct gs_verdict v;
	struct gs_figures f;
	struct gs_rules *rules;
	struct gs_err err = {{0}};

	(void)state;
	assert_non_null(conf);
	if (parse(text, conf, &err) < 0)
		fail_msg("%s", err.text);
	rules = gs_job_conf_rules(conf);
	assert_non_null(rules);
	gs_figures_clear(&f);
	f.v[GS_FIGURE_CPU] = 51;
	gs_verdict_of(rules, &f, &v);
	assert_int_equal(v.n_advice, 1);
	assert_string_equal(v.advice[0].fact, "51 %");
	assert_string_equal(v.advice[0].next, "fewer");
	gs_rules_free(&rules);
	free(conf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mistakes_are_told_where_they_stand),
		cmocka_unit_test(both_documented_forms_are_read),
		cmocka_unit_test(the_printed_file_is_the_default),
		cmocka_unit_test(advice_is_replaced_by_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
