/* The figures of jobs, as reports have them, looked at by the rules of an alert configuration. */
#include "commands/job/job_alert.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "analysis/alert/alert.h"
#include "analysis/alert/conf.h"
#include "core/base/clock.h"
#include "commands/common/cli.h"
#include "output/notify/notify.h"

#define CLOSE_NS  10000000000ull
#define WINDOW_NS 60000000000ull

struct job_alert {
	struct gs_alerts *alerts;
	struct gs_notify *notify;
	char host[65];
	uint64_t interval_ns, next_ns;
	uint64_t window_ns, look_ns; /* its marks are made when the reports are looked at */
};

static void pass_on(void *ctx, const struct gs_alert_message *m)
{
	struct job_alert *a = ctx;

	gs_notify_push(a->notify, m);
}

static int open_parts(struct job_alert *a, const struct gs_alert_conf *c, const char *path,
		      struct gs_err *err)
{
	int r = gs_alert_conf_open(c, a->host, pass_on, a, &a->alerts);

	if (r == 0 &&
	    (gs_alerts_wants(a->alerts, GS_ALERT_GPU) || gs_alerts_wants(a->alerts, GS_ALERT_NODE)))
		gs_cli_print_message(
			"%s: only rules about jobs are evaluated here; the agent evaluates those about GPUs and the node",
			path);
	return r == 0 ? gs_notify_open(c, a->host, &a->notify, err) : r;
}

int job_alert_open(const char *path, struct job_alert **ret, struct gs_err *err)
{
	GS_FREE struct gs_alert_conf *conf = calloc(1, sizeof(*conf));
	struct job_alert *a = calloc(1, sizeof(*a));
	char foreign[512];
	int r = conf && a ? gs_conf_load(gs_alert_conf_schema(), path, conf, gs_cli_print_text, err)
			  : -ENOMEM;

	*ret = NULL;
	if (r == 0) {
		gs_alert_conf_resolve(conf);
		gs_alert_conf_foreign(conf, foreign, sizeof(foreign));
		if (foreign[0])
			gs_cli_print_message("%s: ignoring keys unrelated to alerts: %s", path,
					     foreign);
		(void)gethostname(a->host, sizeof(a->host) - 1);
		a->interval_ns = conf->interval_ns;
		a->window_ns = conf->window_ns ? conf->window_ns : WINDOW_NS;
		r = open_parts(a, conf, path, err);
	}
	if (r == 0 && (!conf->enabled || !gs_alerts_wants(a->alerts, GS_ALERT_JOB))) {
		gs_cli_print_message("%s: %s: no alerts will be sent", path,
				     conf->enabled ? "no rule about jobs"
						   : "alerts.enabled is false");
		job_alert_close(&a);
	}
	if (r < 0)
		job_alert_close(&a);
	*ret = a;
	return r;
}

uint64_t job_alert_next(const struct job_alert *a)
{
	return a ? a->look_ns : UINT64_MAX;
}

uint64_t job_alert_window_ns(const struct job_alert *a)
{
	return a->window_ns;
}

void job_alert_poll(struct job_alert *a, const struct gs_job_report_session *s, uint64_t now_ns)
{
	int64_t wall_ns = (int64_t)gs_clock_wall_ns();

	a->look_ns =
		now_ns + (a->interval_ns < a->window_ns / 2 ? a->interval_ns : a->window_ns / 2);
	if (now_ns < a->next_ns)
		return;
	a->next_ns = now_ns + a->interval_ns;
	for (size_t i = 0; i < s->n_jobs; i++) {
		struct gs_alert_subject subject;

		/* What has ended is swept below: nothing can be done about it any more. */
		if (s->jobs[i].ended)
			continue;
		gs_alert_of_job(&subject, &s->jobs[i].job, &s->jobs[i].figures,
				s->jobs[i].verdict.score);
		gs_alert_subject_label(&subject, "node", a->host);
		gs_alerts_push(a->alerts, &subject, now_ns, wall_ns);
	}
	gs_alerts_sweep(a->alerts, GS_ALERT_JOB, now_ns, now_ns, wall_ns);
}

static void report_losses(struct job_alert *a)
{
	struct gs_notify_stats r[GS_NOTIFY_RECEIVERS_MAX];
	size_t n = gs_notify_stats(a->notify, r);

	for (size_t i = 0; i < n; i++) {
		uint64_t lost = r[i].dropped_full + r[i].dropped_given_up + r[i].dropped_refused +
				r[i].waiting;

		if (lost)
			gs_cli_print_message(
				"alerts: %llu of %llu messages did not reach the %s: %s",
				(unsigned long long)lost, (unsigned long long)(lost + r[i].sent),
				r[i].name, r[i].last_error[0] ? r[i].last_error : "too slow");
	}
}

void job_alert_close(struct job_alert **ref)
{
	struct job_alert *a = *ref;

	if (!a)
		return;
	if (a->notify) {
		gs_notify_drain(a->notify, CLOSE_NS);
		report_losses(a);
	}
	gs_notify_close(&a->notify, 0);
	gs_alerts_free(&a->alerts);
	free(a);
	*ref = NULL;
}
