/* The tables of the configuration, and rules made of what was read. */
#include "analysis/job_conf/job_conf.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

const char *const gs_job_filters[] = {"all", "syscall", "sched", "io", "net", "cuda", "mpi", NULL};

static const char *const formats[] = {"json", "csv", "yaml", "table", NULL};
static const char *const custom_columns[] = {"name",           "condition",        "classification",
					     "net_operations", "memory_threshold", NULL};
static const char *const advice_columns[] = {"name", "condition", "fact", "cause",
					     "next", "benefit",   NULL};

enum { NAME, CONDITION, CLASS, NET_OPERATIONS, MEMORY_THRESHOLD };

#define KEY(name_, kind_, field, preset_, comment_)                                                \
	.name = name_, .kind = kind_, .offset = offsetof(struct gs_job_conf, field),               \
	.preset = preset_, .comment = comment_

/* Other spellings of thresholds: of the README, and of the file that is shipped. */
static const struct {
	const char *section, *key, *threshold;
} aliases[] = {
	{"classification", "idle_threshold", "idle_heavy_threshold"},
	{"classification.thresholds", "cpu_bound", "cpu_bound_threshold"},
	{"classification.thresholds", "io_bound", "io_bound_threshold"},
	{"classification.thresholds", "idle_heavy", "idle_heavy_threshold"},
	{"classification.thresholds", "context_switch", "context_switch_threshold"},
};
_Static_assert(GS_ARRAY_LEN(aliases) == 5, "room in struct gs_job_conf");

static struct gs_conf_key class_keys[GS_JOB_THRESHOLDS_MAX + 4];
static struct gs_conf_key threshold_keys[4];
static char presets[GS_JOB_THRESHOLDS_MAX][24];
static size_t n_class_keys;

static const struct gs_conf_key ebpf_keys[] = {
	{KEY("enabled", GS_CONF_BOOL, ebpf, "true",
	     "Use probes in the kernel where permitted; false: only procfs.")},
	{KEY("filter", GS_CONF_CHOICE, filter, "all", "Metric groups, as with --filter."),
	 .choices = gs_job_filters},
	{KEY("poll_interval_ms", GS_CONF_NUMBER, poll_ms, "100",
	     "Milliseconds between two readings of processes, without probes."),
	 .min = 10, .max = 10000},
};

static const struct gs_conf_key probe_keys[] = {
	{KEY("syscalls", GS_CONF_BOOL, probes[0], "true", "System calls.")},
	{KEY("scheduler", GS_CONF_BOOL, probes[1], "true",
	     "Time by state, context switches, page faults.")},
	{KEY("io", GS_CONF_BOOL, probes[2], "true", "Bytes by kind of file and device.")},
	{KEY("network", GS_CONF_BOOL, probes[3], "true", "Bytes of sockets, connections.")},
	{KEY("cuda", GS_CONF_BOOL, probe_cuda, "true", "Kernel launches, time in NCCL.")},
	{KEY("mpi", GS_CONF_BOOL, probe_mpi, "true", "MPI calls: time, bytes, peers.")},
	/* As the README of ebpf-hpc-monitor calls three of them. */
	{KEY("scheduling", GS_CONF_BOOL, probes[1], "true", ""), .hidden = true},
	{KEY("io_events", GS_CONF_BOOL, probes[2], "true", ""), .hidden = true},
	{KEY("network_events", GS_CONF_BOOL, probes[3], "true", ""), .hidden = true},
};

static const struct gs_conf_key slurm_keys[] = {
	{KEY("cache_timeout", GS_CONF_NUMBER, slurm_cache_s, "30",
	     "Cache time of a process's job ID, in seconds."),
	 .min = 1, .max = 3600},
	{KEY("command_timeout", GS_CONF_NUMBER, slurm_timeout_s, "10",
	     "Time limit of Slurm commands, in seconds."),
	 .min = 1, .max = 600},
	{KEY("enable_fallback", GS_CONF_BOOL, slurm_fallback, "true",
	     "Without Slurm, report pods, containers, units and users as jobs.")},
	{KEY("max_fallback_jobs", GS_CONF_NUMBER, max_jobs, "50",
	     "Maximum number of these jobs; the report says if more were left out."),
	 .min = 1, .max = 250},
};

static const struct gs_conf_key output_keys[] = {
	{KEY("default_format", GS_CONF_CHOICE, format, "json",
	     "Format of -o FILE without a known suffix."),
	 .choices = formats},
	{KEY("include_syscall_breakdown", GS_CONF_BOOL, syscalls, "true",
	     "Include counts by system call.")},
	{KEY("include_recommendations", GS_CONF_BOOL, advise, "true", "Include advice.")},
	{KEY("float_precision", GS_CONF_NUMBER, precision, "2", "Decimal places; -1: all."),
	 .min = -1, .max = 9},
};

static const struct gs_conf_key dashboard_keys[] = {
	{KEY("refresh_rate", GS_CONF_NUMBER, refresh_s, "1",
	     "Seconds between two tables of --real-time."),
	 .min = 1, .max = 3600},
	{KEY("max_jobs_displayed", GS_CONF_NUMBER, jobs_displayed, "20",
	     "Maximum number of lines of the table."),
	 .min = 1, .max = 1000},
};

/* Of the file that is shipped and of the README: what no part of this command reads. */
static const struct {
	const char *section, *key;
} foreign[] = {
	{"", "alerts"},
	{"", "logging"},
	{"", "performance"},
	{"", "integrations"},
	{"", "external_systems"},
	{"", "security"},
	{"", "experimental"},
	{"ebpf", "perf_buffer_size"},
	{"ebpf", "buffer_size"},
	{"ebpf", "poll_timeout"},
	{"ebpf", "monitored_syscalls"},
	{"ebpf", "excluded_pids"},
	{"ebpf", "excluded_processes"},
	{"slurm", "accounting"},
	{"classification", "efficiency_weights"},
	{"output", "timestamp_format"},
	{"output.dashboard", "show_graphs"},
	{"output.dashboard", "color_scheme"},
};
_Static_assert(GS_ARRAY_LEN(foreign) <= GS_JOB_FOREIGN_MAX, "room in struct gs_job_conf");

static const struct gs_conf_key custom_key = {
	KEY("custom_rules", GS_CONF_ROWS, custom, "",
	    "Custom classes, tried before the built-in ones; the first that holds wins:\n"
	    "  - name: \"memory_intensive\"\n    condition: \"memory_usage > 80\"\n"
	    "Figures, units and operators: gpuscope-job(1)."),
	.choices = custom_columns};
static const struct gs_conf_key advice_key = {
	KEY("advice", GS_CONF_ROWS, advice, "",
	    "Custom advice; one with a built-in name replaces that:\n"
	    "  - {name: \"serial\", condition: \"false\"}"),
	.choices = advice_columns};

/* One section's keys: those of the table, those of others after them. */
struct whole_section {
	struct gs_conf_key keys[GS_JOB_THRESHOLDS_MAX + GS_JOB_FOREIGN_MAX];
};

static struct whole_section wholes[8];
static struct gs_conf_section sections[8];
static size_t n_sections;

static void add_section(const char *name, const char *comment, const struct gs_conf_key *keys,
			size_t n)
{
	struct whole_section *w = &wholes[n_sections];

	for (size_t i = 0; i < n; i++)
		w->keys[i] = keys[i];
	for (size_t i = 0; i < GS_ARRAY_LEN(foreign); i++)
		if (strcmp(foreign[i].section, name) == 0)
			w->keys[n++] = (struct gs_conf_key){
				.name = foreign[i].key,
				.kind = GS_CONF_FOREIGN,
				.offset = offsetof(struct gs_job_conf, foreign) +
					  i * sizeof(uint32_t),
				.preset = "",
				.comment = ""};
	sections[n_sections++] = (struct gs_conf_section){
		.name = name, .comment = comment, .keys = w->keys, .n_keys = n};
}

static void make_class_keys(void)
{
	size_t n_alias = 0;

	for (size_t i = 0; gs_threshold_get(i) && i < GS_JOB_THRESHOLDS_MAX; i++) {
		const struct gs_threshold *t = gs_threshold_get(i);

		snprintf(presets[i], sizeof(presets[i]), "%g", t->value);
		class_keys[n_class_keys++] = (struct gs_conf_key){
			.name = t->key,
			.kind = GS_CONF_REAL,
			.offset = offsetof(struct gs_job_conf, threshold) + i * sizeof(double),
			.preset = presets[i],
			.comment = t->help,
			.min = (int64_t)t->min,
			.max = (int64_t)t->max};
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(aliases); i++) {
		struct gs_conf_key *key = strcmp(aliases[i].section, "classification") == 0
						  ? &class_keys[n_class_keys++]
						  : &threshold_keys[n_alias++];

		*key = (struct gs_conf_key){
			.name = aliases[i].key,
			.kind = GS_CONF_REAL,
			.offset = offsetof(struct gs_job_conf, alias) + i * sizeof(double),
			.preset = "",
			.comment = "",
			.min = 1,
			.max = strcmp(aliases[i].key, "context_switch") == 0 ? 10000000 : 100};
	}
	class_keys[n_class_keys++] = custom_key;
	class_keys[n_class_keys++] = advice_key;
}

/* The condition of a rule; of the shipped file's form, made of its limits. */
static const char *condition_of(const struct gs_conf_cell *row, char *text, size_t bytes)
{
	double memory = strtod(row[MEMORY_THRESHOLD].text, NULL);
	int n = 0;

	if (row[CONDITION].line)
		return row[CONDITION].text;
	text[0] = '\0';
	if (row[NET_OPERATIONS].line)
		n = snprintf(text, bytes, "net_operations > %.32s", row[NET_OPERATIONS].text);
	if (row[MEMORY_THRESHOLD].line)
		snprintf(text + n, bytes - (size_t)n, "%smemory_usage > %g", n ? " && " : "",
			 memory <= 1 ? 100 * memory : memory);
	return text;
}

static int add_rules(const struct gs_job_conf *c, const struct gs_conf_where *where,
		     struct gs_rules *rules, struct gs_err *err)
{
	struct gs_err why = {{0}};

	/* The first of a file comes first: later ones of the rules come before earlier ones. */
	for (size_t i = c->custom.n; i > 0; i--) {
		const struct gs_conf_cell *row = c->custom.cell[i - 1];
		const struct gs_conf_cell *at = row[CONDITION].line ? &row[CONDITION] : &row[NAME];
		char text[256];
		const char *condition = condition_of(row, text, sizeof(text));

		if (!*condition)
			return where ? gs_conf_refuse_at(
					       where, at->line, at->column, err,
					       "rule \"%.48s\" has no condition, such as condition: \"memory_usage > 80\"",
					       row[NAME].text)
				     : -EINVAL;
		if (gs_rules_add_class(rules, row[CLASS].line ? row[CLASS].text : row[NAME].text,
				       condition, &why) < 0)
			return where ? gs_conf_refuse_at(where, at->line, at->column, err,
							 "rule \"%.48s\": %s", row[NAME].text,
							 why.text)
				     : -EINVAL;
	}
	for (size_t i = 0; i < c->advice.n; i++) {
		const struct gs_conf_cell *row = c->advice.cell[i];

		if (!row[CONDITION].text[0])
			return where ? gs_conf_refuse_at(where, row[NAME].line, row[NAME].column,
							 err, "advice \"%.48s\" has no condition",
							 row[NAME].text)
				     : -EINVAL;
		if (gs_rules_add_advice(rules, row[NAME].text, row[CONDITION].text, row[2].text,
					row[3].text, row[4].text, row[5].text, &why) < 0)
			return where ? gs_conf_refuse_at(where, row[CONDITION].line,
							 row[CONDITION].column, err,
							 "advice \"%.48s\": %s", row[NAME].text,
							 why.text)
				     : -EINVAL;
	}
	return 0;
}

static size_t threshold_index(const char *key)
{
	size_t i = 0;

	while (gs_threshold_get(i) && strcmp(gs_threshold_get(i)->key, key) != 0)
		i++;
	return i;
}

static int check_conf(const void *whole, const struct gs_conf_where *where, struct gs_err *err)
{
	const struct gs_job_conf *c = whole;
	struct gs_rules *rules;
	char key[96];
	int r;

	for (size_t i = 0; i < GS_ARRAY_LEN(aliases); i++) {
		const struct gs_threshold *t =
			gs_threshold_get(threshold_index(aliases[i].threshold));
		double set = c->threshold[threshold_index(aliases[i].threshold)];

		/* Said twice, and not the same. */
		if (isnan(c->alias[i]) || set == t->value || set == c->alias[i])
			continue;
		snprintf(key, sizeof(key), "%s.%s", aliases[i].section, aliases[i].key);
		return gs_conf_refuse(where, key, err, "%s is %g, but %s is %g: they are one",
				      aliases[i].key, c->alias[i], t->key, set);
	}
	rules = gs_rules_new();
	if (!rules)
		return -ENOMEM;
	r = add_rules(c, where, rules, err);
	gs_rules_free(&rules);
	return r;
}

struct gs_rules *gs_job_conf_rules(const struct gs_job_conf *c)
{
	struct gs_rules *rules = gs_rules_new();
	int r = 0;

	for (size_t i = 0; rules && r == 0 && gs_threshold_get(i); i++)
		r = gs_rules_set(rules, gs_threshold_get(i)->key, c->threshold[i], NULL);
	for (size_t i = 0; rules && r == 0 && i < GS_ARRAY_LEN(aliases); i++)
		if (!isnan(c->alias[i]))
			r = gs_rules_set(rules, aliases[i].threshold, c->alias[i], NULL);
	if (rules && r == 0)
		r = add_rules(c, NULL, rules, NULL);
	if (r < 0)
		gs_rules_free(&rules);
	return rules;
}

void gs_job_conf_foreign(const struct gs_job_conf *c, char *out, size_t bytes)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(foreign) && n < bytes; i++)
		if (c->foreign[i])
			n += (size_t)snprintf(out + n, bytes - n, "%s%s%s%s (line %u)",
					      n ? ", " : "", foreign[i].section,
					      foreign[i].section[0] ? "." : "", foreign[i].key,
					      c->foreign[i]);
}

const struct gs_conf_schema *gs_job_conf_schema(void)
{
	static struct gs_conf_schema schema = {
		.comment =
			"gpuscope job: thresholds, rules and output. Every key is shown with its default, which\n"
			"holds where it is left out.",
		.bytes = sizeof(struct gs_job_conf),
		.check = check_conf,
	};

	if (schema.sections)
		return &schema;
	make_class_keys();
	add_section("", "", NULL, 0);
	add_section("ebpf", "Measurement.", ebpf_keys, GS_ARRAY_LEN(ebpf_keys));
	add_section("ebpf.probes", "Metric groups to measure.", probe_keys,
		    GS_ARRAY_LEN(probe_keys));
	add_section("slurm", "How the job of a process is found.", slurm_keys,
		    GS_ARRAY_LEN(slurm_keys));
	add_section("classification", "Classes. Percentages, or rates per core and second.",
		    class_keys, n_class_keys);
	add_section("classification.thresholds", "", threshold_keys, GS_ARRAY_LEN(threshold_keys));
	add_section("output", "Reports.", output_keys, GS_ARRAY_LEN(output_keys));
	add_section("output.dashboard", "The live table.", dashboard_keys,
		    GS_ARRAY_LEN(dashboard_keys));
	schema.n_sections = n_sections;
	schema.sections = sections;
	return &schema;
}
