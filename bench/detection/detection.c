/*
 * How well detectors find faults of known strength, as one table: each detector and the rules of others
 * on the same series.
 *
 * usage: detection [-s SEEDS] [-c CLEAN_HOURS] [-d DETECTOR] [-o RAW.csv] [-l LABELS.jsonl]
 *
 *   -s  runs of an hour for each fault, load and severity (5)
 *   -c  hours of each of as many clean runs (10)
 *   -o  the runs: a line for each sample
 *   -l  their labels: a line of JSON for each fault
 *
 * Nothing here depends on the machine but the cost: same seeds, same table. The hash in the last line is
 * that of all runs.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "baselines.h"
#include "score.h"

#define MAX_CONTENDERS 12
#define MAX_SEVERITIES 6
#define MAX_RUNS       1024 /* of one severity */
#define MAX_SEEDS      (MAX_RUNS / SYNTHETIC_N_LOADS)

struct trial { /* a part of the table: one fault */
	enum synthetic_fault fault;
	const char *title, *unit;
	double severities[MAX_SEVERITIES];
	unsigned n_severities;
	struct score_contender contenders[MAX_CONTENDERS];
	unsigned n_contenders;
};

/* eACGM as published: each latency of low density is an anomaly. Its figure flags 6.72 %. */
static struct gs_detect_density_options published;

#define OWN(detector_, rises)                                                                      \
	{                                                                                          \
#detector_, &gs_detect_##detector_, .of_rises = (rises)                            \
	}
#define RULE(title, detector_, whose)                                                              \
	{                                                                                          \
		(title), &baseline_##detector_, .of_rises = true, .baseline = (whose)              \
	}
#define PUBLISHED                                                                                  \
	{                                                                                          \
		"each low density", &gs_detect_density, &published, true, "eACGM"                  \
	}

static const struct trial trials[] = {
	{SYNTHETIC_SLOW,
	 "Steps that take longer",
	 "duration of a step as a multiple of the usual one",
	 {1.02, 1.05, 1.1, 1.2, 1.5, 2},
	 6,
	 {OWN(change, true), OWN(density, true), PUBLISHED,
	  RULE("Bayesian change point", bayes, "Greyhound"),
	  RULE("3 deviations", three_sigma, "control charts"),
	  RULE("3 x median", three_medians, "Ingero"), RULE("average - 30 %", average, "Ingero"),
	  RULE("score < 0.7", reference, "nvidia-resiliency-ext")},
	 8},
	{SYNTHETIC_DRIFT,
	 "Steps that get longer over 15 min",
	 "duration of a step at the end, as a multiple of the usual one",
	 {1.02, 1.05, 1.1, 1.2, 1.5, 2},
	 6,
	 {OWN(drift, true), OWN(change, true), RULE("3 deviations", three_sigma, "control charts"),
	  RULE("score < 0.7", reference, "nvidia-resiliency-ext")},
	 4},
	{SYNTHETIC_STALL,
	 "A step that does not end for about 120 s",
	 "",
	 {1},
	 1,
	 {OWN(stall, false), RULE("300 s quiet", quiet, "xpu_timer")},
	 2},
	{SYNTHETIC_LEAK,
	 "Memory that leaks for 15 min",
	 "MB per step (0.5 s)",
	 {0.05, 0.2, 1, 5},
	 4,
	 {OWN(leak, true), RULE("begin + 10 %", growth, "alert rules")},
	 2},
	{SYNTHETIC_FRAGMENTS,
	 "Reserved memory that is never used",
	 "share of the reserved memory",
	 {0.2, 0.35, 0.5},
	 3,
	 {OWN(fragmentation, false)},
	 1},
	{SYNTHETIC_POWER,
	 "A GPU's power falls",
	 "lost share of its power",
	 {0.05, 0.1, 0.2, 0.5},
	 4,
	 {OWN(gpu_density, false)},
	 1},
	{SYNTHETIC_LAUNCHES,
	 "A thread that is busy launching",
	 "share of the thread's time",
	 {0.4, 0.55, 0.7, 0.9},
	 4,
	 {OWN(launches, false)},
	 1},
	{SYNTHETIC_TINY,
	 "Kernels that are too small for a GPU",
	 "share of launches",
	 {0.7, 0.85, 0.95},
	 3,
	 {OWN(tiny, false)},
	 1},
	{SYNTHETIC_PAGEABLE,
	 "Copies of pageable host memory",
	 "share of bytes",
	 {0.4, 0.6, 0.9},
	 3,
	 {OWN(pageable, false)},
	 1},
	{SYNTHETIC_THROTTLE,
	 "A busy GPU that is throttled",
	 "share of seconds",
	 {0.3, 0.6, 0.8, 1},
	 4,
	 {OWN(throttle, false)},
	 1},
	{SYNTHETIC_IDLE,
	 "A GPU that is held and idle for 15 min",
	 "share of seconds",
	 {0.9, 0.97, 1},
	 3,
	 {OWN(idle, false)},
	 1},
	{SYNTHETIC_OVERLAP,
	 "Communication without computation for 15 min",
	 "share of the communication time",
	 {0.7, 0.85, 0.95},
	 3,
	 {OWN(overlap, false)},
	 1},
	{SYNTHETIC_XID, "XIDs", "mean number of XIDs", {1, 5}, 2, {OWN(xid, false)}, 1},
	{SYNTHETIC_LINKS,
	 "Errors of a link for 15 min",
	 "errors per minute",
	 {5, 15, 60},
	 3,
	 {OWN(link_errors, false)},
	 1},
};

struct table {
	const struct trial *trial;
	unsigned n_seeds;
	double clean_s;
	const char *only;   /* detector's name; NULL: all */
	FILE *raw, *labels; /* NULL: none */
	uint64_t hash;      /* FNV-1a of all runs */
	/* of one severity */
	struct score scores[MAX_CONTENDERS], of_load[MAX_CONTENDERS][SYNTHETIC_N_LOADS];
	struct score_counts runs[MAX_CONTENDERS][MAX_RUNS];
	unsigned n_runs;
};

static void hash_bytes(struct table *t, const void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		t->hash = (t->hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3ull;
}

static void keep_run(struct table *t, const struct synthetic_run *run)
{
	const struct synthetic_options *o = &run->options;

	for (size_t i = 0; i < run->n_samples; i++)
		hash_bytes(t, &run->samples[i].time_ns, sizeof(run->samples[i].time_ns));
	for (size_t i = 0; t->labels && i < run->n_labels; i++)
		fprintf(t->labels,
			"{\"fault\": \"%s\", \"load\": \"%s\", \"severity\": %g, \"seed\": %llu, "
			"\"start_ns\": %llu, \"end_ns\": %llu}\n",
			synthetic_fault_names[o->fault], synthetic_load_names[o->load], o->severity,
			(unsigned long long)o->seed, (unsigned long long)run->labels[i].start_ns,
			(unsigned long long)run->labels[i].end_ns);
	for (size_t i = 0; t->raw && i < run->n_samples; i++)
		fprintf(t->raw, "%s,%s,%g,%llu,%llu,%.9g,%.9g,%.9g\n",
			synthetic_fault_names[o->fault], synthetic_load_names[o->load], o->severity,
			(unsigned long long)o->seed, (unsigned long long)run->samples[i].time_ns,
			run->samples[i].values[0], run->samples[i].values[1],
			run->samples[i].values[2]);
}

static bool is_wanted(const struct table *t, unsigned contender)
{
	return !t->only || strcmp(t->only, t->trial->contenders[contender].name) == 0;
}

static int try_run(struct table *t, const struct synthetic_options *options)
{
	struct synthetic_run run;
	int r = synthetic_make_run(options, &run);

	if (r < 0)
		return r;
	keep_run(t, &run);
	for (unsigned c = 0; c < t->trial->n_contenders && r == 0; c++)
		if (is_wanted(t, c))
			r = score_add_run(&t->of_load[c][options->load], &t->trial->contenders[c],
					  &run, &t->runs[c][t->n_runs]);
	t->n_runs++;
	synthetic_free_run(&run);
	return r;
}

static void forget_scores(struct table *t)
{
	for (unsigned c = 0; c < MAX_CONTENDERS; c++) {
		score_fini(&t->scores[c]);
		for (unsigned load = 0; load < SYNTHETIC_N_LOADS; load++)
			score_fini(&t->of_load[c][load]);
	}
	t->n_runs = 0;
}

/* All runs of one severity; 0: the clean ones. */
static int try_severity(struct table *t, double severity)
{
	struct synthetic_options o = {.fault = t->trial->fault, .severity = severity};
	int r = 0;

	forget_scores(t);
	o.seconds = severity > 0 ? 3600 : t->clean_s;
	for (unsigned load = 0; load < SYNTHETIC_N_LOADS; load++) {
		o.load = (enum synthetic_load)load;
		for (o.seed = 1; o.seed <= t->n_seeds && r == 0; o.seed++)
			r = try_run(t, &o);
		for (unsigned c = 0; c < t->trial->n_contenders && r == 0; c++)
			r = score_merge(&t->scores[c], &t->of_load[c][load]);
	}
	return r;
}

/* "0.5 / 3.2": the median and the 95th percentile. */
static void print_delays(struct score *s)
{
	if (s->n_delays)
		printf("%.1f / %.1f", score_delay(s, 0.5), score_delay(s, 0.95));
	else
		printf("-");
}

static void print_severity(struct table *t, double severity)
{
	for (unsigned c = 0; c < t->trial->n_contenders; c++) {
		const struct score_contender *contender = &t->trial->contenders[c];
		struct score *s = &t->scores[c];
		double low, high;

		if (!is_wanted(t, c))
			continue;
		score_interval(t->runs[c], SYNTHETIC_N_LOADS, t->n_seeds, &low, &high);
		printf("| %g | %s%s%s%s | %u | %.3f | %.3f | %.3f (%.3f to %.3f) | ", severity,
		       contender->name, contender->baseline ? " (" : "",
		       contender->baseline ? contender->baseline : "",
		       contender->baseline ? ")" : "", s->counts.n_events,
		       score_precision(&s->counts), score_recall(&s->counts), score_f1(&s->counts),
		       low, high);
		print_delays(s);
		printf(" |");
		for (unsigned load = 0; load < SYNTHETIC_N_LOADS; load++) {
			printf(" %.3f; ", score_f1(&t->of_load[c][load].counts));
			print_delays(&t->of_load[c][load]);
			printf(" |");
		}
		printf("\n");
	}
}

static void print_clean(struct table *t)
{
	printf("\n| detector | false alarms a clean day (95 %%) | steady | pauses | lengths | ns a "
	       "sample | bytes |\n|---|---|---|---|---|---|---|\n");
	for (unsigned c = 0; c < t->trial->n_contenders; c++) {
		const struct score_contender *contender = &t->trial->contenders[c];
		const struct score *s = &t->scores[c];
		double low, high;

		if (!is_wanted(t, c))
			continue;
		score_rate_interval(s->counts.n_false, s->days, &low, &high);
		printf("| %s | %.2f (%.2f to %.2f) |", contender->name, s->counts.n_false / s->days,
		       low, high);
		for (unsigned load = 0; load < SYNTHETIC_N_LOADS; load++)
			printf(" %.2f |",
			       t->of_load[c][load].counts.n_false / t->of_load[c][load].days);
		printf(" %.0f | %zu |\n", s->cpu_ns / (double)s->n_samples,
		       gs_detect_bytes(contender->detector, contender->options));
	}
}

static int print_trial(struct table *t)
{
	int r;

	printf("\n## %s\n\n", t->trial->title);
	if (*t->trial->unit)
		printf("Severity: %s.\n\n", t->trial->unit);
	printf("| severity | detector | events | precision | recall | F1 (95 %%) | found after s, "
	       "p50 / p95 | "
	       "steady: F1; s | pauses | lengths |\n|---|---|---|---|---|---|---|---|---|---|\n");
	for (unsigned i = 0; i < t->trial->n_severities; i++) {
		r = try_severity(t, t->trial->severities[i]);
		if (r < 0)
			return r;
		print_severity(t, t->trial->severities[i]);
		fflush(stdout);
	}
	r = try_severity(t, 0);
	if (r == 0)
		print_clean(t);
	forget_scores(t);
	return r;
}

static int open_file(const char *path, FILE **ret)
{
	*ret = fopen(path, "we");
	return *ret ? 0 : -errno;
}

int main(int argc, char **argv)
{
	static struct table table = {.n_seeds = 5, .clean_s = 36000, .hash = 0xcbf29ce484222325ull};
	int option, r = 0;

	gs_detect_set_defaults(&gs_detect_density, &published);
	published.window_samples = 1;
	published.flagged_share = 1;
	published.density_quantile = 0.0672;
	while ((option = getopt(argc, argv, "s:c:d:o:l:")) != -1)
		if (option == 's')
			table.n_seeds = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'c')
			table.clean_s = strtod(optarg, NULL) * 3600;
		else if (option == 'd')
			table.only = optarg;
		else if (option == 'o')
			r = open_file(optarg, &table.raw);
		else if (option == 'l')
			r = open_file(optarg, &table.labels);
		else
			r = -EINVAL;
	if (r < 0 || table.n_seeds < 1 || table.n_seeds > MAX_SEEDS) {
		fprintf(stderr,
			"usage: detection [-s SEEDS] [-c CLEAN_HOURS] [-d DETECTOR] [-o RAW.csv] "
			"[-l LABELS.jsonl]\n");
		return 2;
	}
	for (size_t i = 0; i < GS_ARRAY_LEN(trials) && r == 0; i++) {
		table.trial = &trials[i];
		r = print_trial(&table);
	}
	printf("\nFNV-1a of the times of all samples: %016llx\n", (unsigned long long)table.hash);
	if ((table.raw && fclose(table.raw)) || (table.labels && fclose(table.labels)))
		r = -errno;
	if (r < 0)
		fprintf(stderr, "detection: %s\n", strerror(-r));
	return r < 0;
}
