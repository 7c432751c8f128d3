/* Alerts of `gpuscope job --alerts`. */
#ifndef GS_COMMANDS_JOB_JOB_ALERT_H
#define GS_COMMANDS_JOB_JOB_ALERT_H

#include <stdint.h>

#include "core/base/err.h"
#include "analysis/job_report/report.h"

struct job_alert;

/* Reads the configuration. -EINVAL: it is wrong, err says where. *ret stays NULL when it has no
 * rule about jobs, which is reported. */
int job_alert_open(const char *path, struct job_alert **ret, struct gs_err *err);

/* When to look again, monotonic; UINT64_MAX without rules. That is twice a window at least. */
uint64_t job_alert_next(const struct job_alert *alert);

/* What the reports that are looked at are of: gs_accounting_measure_recent(). */
uint64_t job_alert_window_ns(const struct job_alert *alert);

/* Judges the report where it is time to (now_ns: monotonic), and sends what is due. */
void job_alert_poll(struct job_alert *alert, const struct gs_job_report_session *session,
		    uint64_t now_ns);

/* Waits some seconds for messages that are still on their way; reports what did not arrive. */
void job_alert_close(struct job_alert **alert);

#endif
