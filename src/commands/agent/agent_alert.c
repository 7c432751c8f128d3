/*
 * Alerts of the agent: what was read last becomes subjects, the rules look at them, and what they
 * have to say goes to the receivers. All on the main thread but the figures for /metrics, which are
 * copied under the state's lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "commands/agent/agent_alert.h"
#include "commands/agent/agent_conf.h"
#include "commands/agent_findings/agent_findings.h"
#include "commands/agent/agent_jobs.h"
#include "commands/agent/agent_state.h"
#include "core/base/log.h"
#include "analysis/alert/alert.h"
#include "core/base/clock.h"
#include "core/base/map.h"
#include "core/base/vec.h"
#include "commands/common/cli.h"
#include "sources/host/host.h"
#include "output/notify/notify.h"

#define GONE_NS  30000000000ull /* and three looks: then a GPU that is not found has gone */
#define CLOSE_NS 5000000000ull  /* for messages that still wait when the agent ends */

struct agent_alert {
	struct gs_alerts *alerts;
	struct gs_notify *notify;
	struct gs_host *host; /* NULL: no rule is about the node, or procfs is not there */
	char node[256], state_file[256];
	uint64_t interval_ns, next_ns, looked_ns;
	uint64_t generation, state_errors;
	struct gs_alert_message *news; /* owned; of GPUs, of the look that goes on */
	size_t n_news, room_news;
	struct gs_map xids;             /* hash of a PCI bus id → XIDs so far */
	struct gs_alerts_stats figures; /* for other threads, under the state's lock */
};

static void pass_on(void *ctx, const struct gs_alert_message *m)
{
	struct agent_alert *a = ctx;

	gs_log(GS_LOG_INFO, GS_LOG_ALERTS, "%s %s: %s", m->rule,
	       m->event == GS_ALERT_START ? "firing"
	       : m->event == GS_ALERT_END ? "resolved"
					  : "still firing",
	       m->text);
	if (m->kind == GS_ALERT_GPU && gs_vec_reserve(&a->news, &a->room_news, a->n_news + 1))
		a->news[a->n_news++] = *m;
	else
		gs_notify_push(a->notify, m);
}

/* --- what outlives a restart --- */

static void restore_text(struct agent_alert *a, const void *text, size_t bytes, const char *name)
{
	struct gs_err err = {{0}};
	uint64_t ignored;
	int r = gs_alerts_restore(a->alerts, text, bytes, gs_clock_mono_ns(),
				  (int64_t)gs_clock_wall_ns(), &ignored, &err);

	if (r < 0)
		gs_cli_print_message("agent: %s: %s; alerts may be sent twice", name,
				     gs_err_text(&err, r));
}

static void restore_alerts(struct agent_alert *a)
{
	GS_CLOSE int fd = open(a->state_file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	GS_FREE char *text = malloc(GS_ALERT_KEEP_BYTES);
	size_t bytes = 0;
	ssize_t n = 1;

	if (fd < 0 && errno != ENOENT)
		gs_cli_print_message("agent: cannot read %s: %s; alerts may be sent twice",
				     a->state_file, strerror(errno));
	if (fd < 0 || !text)
		return;
	while (bytes < GS_ALERT_KEEP_BYTES && n > 0) {
		n = read(fd, text + bytes, GS_ALERT_KEEP_BYTES - bytes);
		bytes += n > 0 ? (size_t)n : 0;
	}
	restore_text(a, text, bytes, a->state_file);
}

static int write_file(const char *path, const struct gs_buf *text)
{
	char fresh[300];
	size_t done = 0;
	int r = 0;

	snprintf(fresh, sizeof(fresh), "%s.new", path);
	GS_CLOSE int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	while (r == 0 && done < text->bytes) {
		ssize_t n = write(fd, text->data + done, text->bytes - done);

		r = n < 0 ? -errno : 0;
		done += n > 0 ? (size_t)n : 0;
	}
	if (r == 0 && rename(fresh, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(fresh);
	return r;
}

static void save_alerts(struct agent_alert *a)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(GS_ALERT_KEEP_BYTES);
	int r;

	if (!a->state_file[0] || gs_alerts_generation(a->alerts) == a->generation)
		return;
	a->generation = gs_alerts_generation(a->alerts);
	r = gs_alerts_save(a->alerts, gs_clock_mono_ns(), (int64_t)gs_clock_wall_ns(), &text);
	if (r == 0)
		r = write_file(a->state_file, &text);
	if (r < 0 && !a->state_errors++)
		gs_cli_print_message(
			"agent: cannot save alerts in %s: %s; after a restart they may be sent twice",
			a->state_file, strerror(-r));
}

/* --- life --- */

static int open_parts(struct agent_alert *a, const struct gs_alert_conf *c, struct gs_err *err)
{
	int r = gs_alert_conf_open(c, a->node, pass_on, a, &a->alerts);

	if (r == 0)
		r = gs_notify_open(c, a->node, &a->notify, err);
	/* Without procfs the values of the node are unknown, so that nothing fires. */
	if (r == 0 && gs_alerts_wants(a->alerts, GS_ALERT_NODE))
		r = gs_host_open("/proc", &a->host, err);
	return r;
}

int agent_alert_open(const struct agent_conf *conf, const struct agent_alert *before,
		     struct agent_alert **ret, struct gs_err *err)
{
	const struct gs_alert_conf *c = &conf->alerts;
	struct agent_alert *a;
	int r;

	*ret = NULL;
	if (!gs_alert_conf_any(c))
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	snprintf(a->node, sizeof(a->node), "%s", conf->metrics.hostname);
	snprintf(a->state_file, sizeof(a->state_file), "%s", c->state_file);
	a->interval_ns = c->interval_ns;
	a->xids = GS_MAP_INIT(AGENT_XIDS_MAX);
	r = open_parts(a, c, err);
	if (r < 0) {
		agent_alert_close(&a);
		return gs_err_prefix(err, r, "alerts");
	}
	if (before) {
		GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(GS_ALERT_KEEP_BYTES);

		if (gs_alerts_save(before->alerts, gs_clock_mono_ns(), (int64_t)gs_clock_wall_ns(),
				   &text) == 0)
			restore_text(a, text.data, text.bytes, "reload");
	} else if (a->state_file[0]) {
		restore_alerts(a);
	}
	*ret = a;
	return 0;
}

void agent_alert_close(struct agent_alert **ref)
{
	struct agent_alert *a = *ref;

	if (!a)
		return;
	gs_notify_close(&a->notify, CLOSE_NS);
	gs_alerts_free(&a->alerts);
	gs_host_close(&a->host);
	gs_map_fini(&a->xids);
	free(a->news);
	free(a);
	*ref = NULL;
}

/* --- looking --- */

uint64_t agent_alert_next(const struct agent_alert *a)
{
	return a ? a->next_ns : UINT64_MAX;
}

/* XIDs of a GPU since the look before: those of one snapshot are not all, there are more snapshots
 * than looks. */
static double new_xids(struct agent_alert *a, const struct agent_state *s, const char *bus_id)
{
	uint64_t key = gs_hash_bytes(bus_id, strlen(bus_id)), now = 0, before = 0;

	for (size_t i = 0; i < s->n_xids; i++)
		if (strcmp(s->xids[i].pci_bus_id, bus_id) == 0)
			now += s->xids[i].count;
	(void)gs_map_get(&a->xids, key, &before);
	if (now != before)
		(void)gs_map_put(&a->xids, key, now);
	return (double)(now - before);
}

static void check_gpus(struct agent_alert *a, const struct agent_state *s, uint64_t now_ns,
		       int64_t wall_ns)
{
	const struct gs_gpu_snapshot *gpus = s->latest;
	uint64_t gone_ns = 3 * a->interval_ns > GONE_NS ? 3 * a->interval_ns : GONE_NS;

	for (uint32_t i = 0; gpus && i < gpus->n_gpus; i++) {
		struct gs_alert_subject subject;

		gs_alert_of_gpu(&subject, gpus, i);
		gs_alert_subject_set(&subject, "xids", new_xids(a, s, gpus->info[i].pci_bus_id));
		gs_alert_subject_label(&subject, "node", a->node);
		gs_alerts_push(a->alerts, &subject, now_ns, wall_ns);
	}
	if (now_ns > gone_ns)
		gs_alerts_sweep(a->alerts, GS_ALERT_GPU, now_ns - gone_ns, now_ns, wall_ns);
	gs_notify_push_all(a->notify, a->news, a->n_news);
	a->n_news = 0;
}

static void check_node(struct agent_alert *a, const struct agent_state *s, uint64_t now_ns,
		       int64_t wall_ns)
{
	struct gs_host_snapshot *host = NULL;
	struct gs_alert_subject subject;

	if (!a->host)
		return;
	(void)gs_host_read(a->host, NULL, 0, false, &host); /* else its values are unknown */
	gs_alert_of_node(&subject, a->node, host ? &host->sample : NULL, s->latest);
	gs_alert_subject_set(&subject, "findings", agent_findings_holding(s->findings));
	gs_alerts_push(a->alerts, &subject, now_ns, wall_ns);
	gs_host_snapshot_free(&host);
}

/* Of each job its last minutes, as metrics have them. */
static void check_jobs(struct agent_alert *a, struct agent_jobs *jobs, uint64_t now_ns,
		       int64_t wall_ns)
{
	struct gs_job_accounts *accounts;

	if (!jobs || !gs_alerts_wants(a->alerts, GS_ALERT_JOB))
		return;
	accounts = agent_jobs_copy(jobs);
	for (uint32_t i = 0; accounts && i < accounts->n_accounts; i++) {
		const struct gs_job_account *j = &accounts->account[i];
		struct gs_alert_subject subject;
		struct gs_figures figures;

		/* Before its first window is over nothing is known of it. */
		if (!j->n_processes || !j->job_class[0])
			continue;
		memcpy(figures.v, j->figure, sizeof(figures.v));
		gs_alert_of_job(&subject, &j->job, &figures, j->score);
		gs_alert_subject_label(&subject, "node", a->node);
		gs_alerts_push(a->alerts, &subject, now_ns, wall_ns);
	}
	if (accounts)
		gs_alerts_sweep(a->alerts, GS_ALERT_JOB, now_ns, now_ns, wall_ns);
	gs_job_accounts_free(&accounts);
}

void agent_alert_poll(struct agent_state *s, uint64_t now_ns)
{
	struct agent_alert *a = s->alert;
	int64_t wall_ns = (int64_t)gs_clock_wall_ns();

	if (!a || now_ns < a->next_ns)
		return;
	a->next_ns = now_ns + a->interval_ns;
	/* Only this thread changes what is read here, so it needs no lock. */
	check_gpus(a, s, now_ns, wall_ns);
	check_node(a, s, now_ns, wall_ns);
	check_jobs(a, s->jobs, now_ns, wall_ns);
	save_alerts(a);
	pthread_mutex_lock(&s->lock);
	gs_alerts_stats(a->alerts, &a->figures);
	pthread_mutex_unlock(&s->lock);
}

void agent_alert_firing(const struct agent_alert *a, gs_alert_sink_fn fn, void *ctx)
{
	if (a)
		gs_alerts_firing(a->alerts, fn, ctx);
}

/* --- metrics --- */

static void write_metric_by(struct gs_metrics *p, const char *label, const char *label_value,
			    double value)
{
	struct gs_metrics_label l = {label, label_value};

	gs_metrics_line(p, "", &l, 1, value, 0);
}

static void write_dropped(struct gs_metrics *p, const char *receiver, const char *cause,
			  double value)
{
	struct gs_metrics_label l[] = {{"receiver", receiver}, {"cause", cause}};

	gs_metrics_line(p, "", l, GS_ARRAY_LEN(l), value, 0);
}

void agent_alert_metrics(struct gs_metrics *p, const struct agent_alert *a)
{
	struct gs_notify_stats r[GS_NOTIFY_RECEIVERS_MAX];
	const struct gs_alerts_stats *f;
	size_t n;

	if (!a)
		return;
	f = &a->figures;
	gs_metrics_one(p, "gpuscope_agent_alerts_firing", GS_METRICS_GAUGE, (double)f->firing,
		       "Firing alerts.");
	gs_metrics_one(p, "gpuscope_agent_alerts_pending", GS_METRICS_GAUGE, (double)f->pending,
		       "Pending alerts: their conditions hold, but not for long enough yet.");
	gs_metrics_one(p, "gpuscope_agent_alerts_started", GS_METRICS_COUNTER, (double)f->started,
		       "Alerts that started firing.");
	gs_metrics_one(p, "gpuscope_agent_alerts_ended", GS_METRICS_COUNTER, (double)f->ended,
		       "Resolved alerts.");
	gs_metrics_family(
		p, "gpuscope_agent_alerts_held_back", GS_METRICS_COUNTER, "",
		"Alerts delayed by the cooldown of their rule or the limit of alerts a minute, or dropped because there were too many (no_room).");
	write_metric_by(p, "cause", "cooldown", (double)f->cooled);
	write_metric_by(p, "cause", "limit", (double)f->limited);
	write_metric_by(p, "cause", "no_room", (double)f->full);
	gs_metrics_one(p, "gpuscope_agent_alerts_state_errors", GS_METRICS_COUNTER,
		       (double)a->state_errors, "Failed writes of alerts.state_file.");
	n = gs_notify_stats(a->notify, r);
	gs_metrics_family(p, "gpuscope_agent_alert_messages_sent", GS_METRICS_COUNTER, "",
			  "Alert messages accepted by the receiver.");
	for (size_t i = 0; i < n; i++)
		write_metric_by(p, "receiver", r[i].name, (double)r[i].sent);
	gs_metrics_family(p, "gpuscope_agent_alert_failed_attempts", GS_METRICS_COUNTER, "",
			  "Failed attempts to send an alert message; they are retried.");
	for (size_t i = 0; i < n; i++)
		write_metric_by(p, "receiver", r[i].name, (double)r[i].failed_attempts);
	gs_metrics_family(
		p, "gpuscope_agent_alert_messages_dropped", GS_METRICS_COUNTER, "",
		"Alert messages dropped, by cause: queue_full, given_up after alerts.give_up, refused by the receiver.");
	for (size_t i = 0; i < n; i++) {
		write_dropped(p, r[i].name, "queue_full", (double)r[i].dropped_full);
		write_dropped(p, r[i].name, "given_up", (double)r[i].dropped_given_up);
		write_dropped(p, r[i].name, "refused", (double)r[i].dropped_refused);
	}
	gs_metrics_family(p, "gpuscope_agent_alert_messages_waiting", GS_METRICS_GAUGE, "",
			  "Alert messages in the receiver's queue.");
	for (size_t i = 0; i < n; i++)
		write_metric_by(p, "receiver", r[i].name, (double)r[i].waiting);
	gs_metrics_family(p, "gpuscope_agent_alert_receiver_ok", GS_METRICS_GAUGE, "",
			  "0 when the last attempt to send an alert message failed.");
	for (size_t i = 0; i < n; i++)
		write_metric_by(p, "receiver", r[i].name, !r[i].last_failed);
}
