/*
 * A report of one job on its way to a head, and what a head makes of it. It is the JSON document
 * that `gpuscope job -o FILE.json` writes, of one job, with one more map, "delivery", that says
 * which report it is: so that everything that reads reports reads this one, too. Blanks at its end
 * make its length a multiple of 8, as of everything that is delivered.
 */
#ifndef GS_ANALYSIS_JOB_REPORT_DELIVERY_H
#define GS_ANALYSIS_JOB_REPORT_DELIVERY_H

#include "core/base/buf.h"
#include "analysis/job_report/report.h"

#define GS_JOB_DELIVERY_MAX (1u << 20) /* bytes of a document */

/* Stored and sent. */
enum gs_job_report_delivery_state {
	GS_JOB_DELIVERY_RUNNING = 1,
	GS_JOB_DELIVERY_FINISHED = 2, /* the job has ended */
	GS_JOB_DELIVERY_PARTIAL = 3,  /* measuring ended before the job did */
};

struct gs_job_report_delivery {
	char report[65]; /* which one: letters, digits, '.', '_', '-'. One that comes again
			  * replaces what came before */
	uint32_t state;  /* enum gs_job_report_delivery_state */
	char source[16]; /* who measured: "job", "agent" */
	char kind[16];   /* of the job: gs_job_kind_name() */
	int64_t begin_wall_ns, end_wall_ns; /* of the measurement, by the node's clock */

	/* Out of the report itself, when it is read. */
	char job[64], user[64], name[128], job_class[64];
	double score; /* NAN: the report does not have it */
};

const char *gs_job_report_delivery_state_name(unsigned state); /* "running", ...; "unknown" */

/* A number that no other report has. 0 or a negative errno. */
int gs_job_report_delivery_name(char out[65]);

/* The document of one job of a session. The first members of delivery are given, the others are
 * not read. -EFBIG: there is too much to write even without its longest tables. */
int gs_job_report_delivery_write(struct gs_buf *out, const struct gs_job_report_session *session,
				 size_t job, const struct gs_job_report_delivery *delivery);

/* What a node sent. -EINVAL with why; nothing of it is used as it is: texts are cut to their
 * fields, and what steers a terminal is a question mark in them. */
int gs_job_report_delivery_read(struct gs_job_report_delivery *ret_delivery, const char *text,
				size_t bytes, struct gs_err *err);

#endif
