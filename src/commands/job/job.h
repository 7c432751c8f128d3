/* What the files of `gpuscope job` share. */
#ifndef GS_COMMANDS_JOB_JOB_H
#define GS_COMMANDS_JOB_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/job_accounting/measure.h"
#include "output/findings/findings.h"
#include "commands/head/to_head.h"
#include "analysis/job_report/report.h"

#define JOB_OUTPUTS_MAX 4

struct job_options {
	struct gs_accounting_measure_options measure; /* which jobs, and what of them */
	uint64_t duration_ns;                         /* 0: until the jobs end or a signal */
	/* --verbose, --print-config, --check-config; --format, --filter given */
	bool verbose, print_config, check_config, format_given, filter_given;
	const char *output[JOB_OUTPUTS_MAX];                      /* of -o; none: standard output */
	enum gs_job_report_format output_format[JOB_OUTPUTS_MAX]; /* of each */
	size_t n_outputs;
	struct to_head_options head;
	const char *config, *alerts;          /* files; NULL: not given */
	const char *detach, *stop;            /* files of recorders in the background */
	uint64_t linger_ns;                   /* of a recorder: how long it waits for processes */
	enum gs_job_report_format format;     /* of standard output */
	struct gs_findings_options detectors; /* of findings */
	struct gs_node_findings *findings;    /* lent while jobs are measured */
};

/* --- job_filter.c --- */

/* Sets filter, families and cuda of the measurement. -EINVAL: a word that is none, or nothing. */
int job_filter_parse(struct job_options *options, const char *text);

/* Families whose probes the configuration turned off are not measured. */
void job_filter_configure(struct job_options *options);

#endif
