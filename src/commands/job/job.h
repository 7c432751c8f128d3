/* What the files of `gpuscope job` share. */
#ifndef GS_COMMANDS_JOB_JOB_H
#define GS_COMMANDS_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "commands/head/to_head.h"
#include "analysis/job_report/conf.h"
#include "analysis/job_report/report.h"

#define JOB_SELECT_MAX  64
#define JOB_OUTPUTS_MAX 4

enum job_selection { JOB_OF_ALL, JOB_OF_IDS, JOB_OF_USER, JOB_OF_CGROUP, JOB_OF_PIDS };

struct job_options {
	enum job_selection by;
	char *ids[JOB_SELECT_MAX]; /* of -j; borrowed from argv */
	uint32_t pids[JOB_SELECT_MAX];
	size_t n_select;
	const char *user, *cgroup;
	uint32_t uid;
	uint64_t duration_ns; /* 0: until the jobs end or a signal */
	bool live, verbose, print_config, check_config, format_given, filter_given;
	const char *output[JOB_OUTPUTS_MAX]; /* of -o; none: standard output */
	enum gs_job_report_format output_format[JOB_OUTPUTS_MAX];
	size_t n_outputs;
	struct to_head_options head;
	const char *config, *alerts, *nvml;
	const char *detach, *stop; /* files of recorders in the background */
	uint32_t launcher;         /* 0 none */
	uint64_t linger_ns;        /* of a recorder: how long it waits for processes */
	enum gs_job_report_format format;
	char filter[32];   /* as it was given; the two below are what it means */
	uint32_t families; /* enum gs_taskstats_family, ored */
	bool cuda;
	struct gs_job_report_conf conf;
};

/* --- job_filter.c --- */

/* Sets filter, families and cuda. -EINVAL: a word that is none, or nothing. */
int job_filter_parse(struct job_options *options, const char *text);

/* Families whose probes the configuration turned off are not measured. */
void job_filter_configure(struct job_options *options);

/* --- job_measure.c: who belongs to which job, and what the jobs do --- */

struct job_measure;

int job_measure_open(const struct job_options *options, struct job_measure **ret_measure,
		     struct gs_err *err);
void job_measure_close(struct job_measure **measure);

/* Look now; call it every conf.poll_ms. */
void job_measure_poll(struct job_measure *measure);

/* How long to wait until the next look, so that looking stays cheap. */
uint64_t job_measure_pause_ns(const struct job_measure *measure);

/* Which of the ids and pids that were asked for had processes: a bit each. */
uint64_t job_measure_found(const struct job_measure *measure);

size_t job_measure_alive(const struct job_measure *measure); /* processes */
size_t job_measure_jobs(const struct job_measure *measure);

/* The measurement is over: what was asked of Slurm may still come, for a moment. */
void job_measure_settle(struct job_measure *measure);

/* What was learned so far, judged by the rules. The session is the caller's. */
int job_measure_report(struct job_measure *measure, const struct gs_rules *rules,
		       struct gs_job_report_session *ret_session);

#endif
