/* What the agent serves: /metrics, /healthz, /readyz, /api/v1/process-gpu. Handlers run on the HTTP server's thread. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "core/base/fmt.h"
#include "commands/common/cli.h"
#include "commands/agent/agent_alert.h"
#include "commands/agent/agent_conf.h"
#include "commands/agent_findings/agent_findings.h"
#include "commands/agent/agent_head.h"
#include "commands/agent/agent_jobs.h"
#include "commands/agent/agent_routes.h"
#include "commands/agent/agent_state.h"
#include "commands/agent/agent_control.h"
#include "commands/agent_gpu/agent_gpu.h"
#include "core/sender/sender.h"
#include "sources/host/taskstats.h"

/* Longest that the sampling loop may be silent beyond its own pace: a hung call and then some. */
static uint64_t patience_ns(const struct agent_state *s)
{
	uint64_t slowest = s->conf.sampling.interval_ns;

	for (int i = 0; i < AGENT_GROUPS; i++)
		if (s->conf.group[i].enabled && s->schedule.group[i].turns.interval_ns < slowest)
			slowest = s->schedule.group[i].turns.interval_ns;
	return 3 * slowest + 2 * s->conf.gpu.hang_ns;
}

static void write_metric_by(struct gs_metrics *p, const char *label, const char *label_value,
			    double value)
{
	struct gs_metrics_label l = {label, label_value};

	gs_metrics_line(p, "", &l, 1, value, 0);
}

static void own_process(struct gs_metrics *p, const struct agent_state *s)
{
	struct gs_metrics_label version = {"version", GS_VERSION};
	double resident = (double)gs_host_rss_bytes("/proc", (uint32_t)getpid());
	struct rusage u;

	gs_metrics_family(p, "gpuscope_agent_build", GS_METRICS_INFO, "",
			  "Version of the agent; always 1.");
	gs_metrics_line(p, "", &version, 1, 1, 0);
	gs_metrics_one(p, "gpuscope_agent_start_time_seconds", GS_METRICS_GAUGE,
		       (double)(s->started_wall_ns / 1000000) / 1e3,
		       "When the agent started, in seconds since 1970.");
	if (getrusage(RUSAGE_SELF, &u) == 0)
		gs_metrics_one(p, "gpuscope_agent_cpu_seconds", GS_METRICS_COUNTER,
			       (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
				       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6,
			       "CPU time used by the agent.");
	if (resident >= 0)
		gs_metrics_one(p, "gpuscope_agent_resident_memory_bytes", GS_METRICS_GAUGE,
			       resident, "Resident memory of the agent.");
	gs_metrics_family(p, "gpuscope_agent_config_reloads", GS_METRICS_COUNTER, "",
			  "Reloads of the configuration, by result.");
	write_metric_by(p, "result", "ok", (double)s->reloads_ok);
	write_metric_by(p, "result", "failed", (double)s->reloads_failed);
	gs_metrics_one(p, "gpuscope_agent_config_last_reload_successful", GS_METRICS_GAUGE,
		       s->last_reload_ok,
		       "0 when the last reload failed and the previous configuration is in use.");
}

static void own_sampling(struct gs_metrics *p, const struct agent_state *s)
{
	gs_metrics_one(p, "gpuscope_agent_samples", GS_METRICS_COUNTER, (double)s->samples,
		       "Readings of GPUs.");
	gs_metrics_family(p, "gpuscope_agent_group_reads", GS_METRICS_COUNTER, "",
			  "Readings of GPUs, by group of values.");
	for (int i = 0; i < AGENT_GROUPS; i++)
		write_metric_by(p, "group", agent_group_name[i],
				(double)s->schedule.group[i].reads);
	gs_metrics_family(p, "gpuscope_agent_group_interval_seconds", GS_METRICS_GAUGE, "seconds",
			  "Current time between two readings of a group; absent when it is off.");
	for (int i = 0; i < AGENT_GROUPS; i++)
		if (s->conf.group[i].enabled)
			write_metric_by(p, "group", agent_group_name[i],
					(double)s->schedule.group[i].turns.interval_ns / 1e9);
	gs_metrics_family(p, "gpuscope_agent_group_read_timestamp_seconds", GS_METRICS_GAUGE,
			  "seconds",
			  "When a group of values was last read, in seconds since 1970.");
	for (int i = 0; i < AGENT_GROUPS; i++)
		if (s->schedule.group[i].read_ns)
			write_metric_by(
				p, "group", agent_group_name[i],
				((double)gs_clock_wall_ns() -
				 (double)(gs_clock_mono_ns() - s->schedule.group[i].read_ns)) /
					1e9);
	gs_metrics_family(
		p, "gpuscope_agent_samples_missed", GS_METRICS_COUNTER, "",
		"Readings of GPUs that were skipped, by cause: late, the agent or the machine was too slow; driver, a driver call hung.");
	write_metric_by(p, "cause", "late", (double)s->schedule.missed);
	write_metric_by(p, "cause", "driver", s->latest ? (double)s->latest->missed_samples : 0);
	gs_metrics_one(p, "gpuscope_agent_sample_lag_seconds", GS_METRICS_GAUGE,
		       (double)s->schedule.lag_ns / 1e9,
		       "How late the last reading of GPUs started.");
	if (s->sampled_ns)
		gs_metrics_one(p, "gpuscope_agent_sample_duration_seconds", GS_METRICS_GAUGE,
			       (double)s->sample_ns / 1e9,
			       "How long the last reading of GPUs took.");
	gs_metrics_family(
		p, "gpuscope_agent_errors", GS_METRICS_COUNTER, "",
		"Failures to read GPUs, by cause: driver_call, a driver call failed; no_gpu, a reading found no GPU.");
	write_metric_by(p, "cause", "driver_call", s->latest ? (double)s->latest->failed_calls : 0);
	write_metric_by(p, "cause", "no_gpu", (double)s->empty_samples);
	gs_metrics_family(p, "gpuscope_agent_events_lost", GS_METRICS_COUNTER, "",
			  "XID errors that could not be counted, by cause.");
	write_metric_by(p, "cause", "overrun", s->latest ? (double)s->latest->lost_events : 0);
	write_metric_by(p, "cause", "too_many_codes", (double)s->xids_dropped);
	write_metric_by(p, "cause", "log_full", (double)agent_findings_logs_lost(&s->logs));
}

/* What the driver's library costs, call by call and value by value. */
static void own_reading(struct gs_metrics *p, const struct agent_state *s)
{
	static const struct {
		const char *name, *unit, *help;
		size_t offset;
		bool by_call;
	} rows[] = {
		{"gpuscope_agent_driver_calls", "", "Calls to the driver's library.",
		 offsetof(struct gs_gpu_cost, n), true},
		{"gpuscope_agent_driver_call_seconds", "seconds",
		 "Time spent in calls to the driver's library.",
		 offsetof(struct gs_gpu_cost, wall_ns), true},
		{"gpuscope_agent_driver_call_cpu_seconds", "seconds",
		 "CPU time spent in calls to the driver's library.",
		 offsetof(struct gs_gpu_cost, cpu_ns), true},
		{"gpuscope_agent_values_reads", "",
		 "Readings of each set of values that is read together.",
		 offsetof(struct gs_gpu_cost, n), false},
		{"gpuscope_agent_values_cpu_seconds", "seconds",
		 "CPU time spent on reading each set of values.",
		 offsetof(struct gs_gpu_cost, cpu_ns), false},
	};

	for (size_t k = 0; k < GS_ARRAY_LEN(rows); k++) {
		const struct gs_gpu_cost *c = rows[k].by_call ? s->call_cost : s->part_cost;
		size_t n = rows[k].by_call ? s->n_call_costs : s->n_part_costs;

		gs_metrics_family(p, rows[k].name, GS_METRICS_COUNTER, rows[k].unit, rows[k].help);
		for (size_t i = 0; i < n; i++) {
			uint64_t value = *(const uint64_t *)((const char *)&c[i] + rows[k].offset);

			write_metric_by(p, rows[k].by_call ? "call" : "values", c[i].name,
					rows[k].unit[0] ? (double)value / 1e9 : (double)value);
		}
	}
	gs_metrics_family(
		p, "gpuscope_agent_values_interval_seconds", GS_METRICS_GAUGE, "seconds",
		"With a budget: current time between two readings of a set of values, of the GPU where it is longest, and the method of reading.");
	for (size_t i = 0; i < s->n_part_costs; i++) {
		const struct gs_gpu_cost *c = &s->part_cost[i];
		struct gs_metrics_label l[] = {{"values", c->name}, {"method", c->way}};

		if (c->interval_ns)
			gs_metrics_line(p, "", l, 2, (double)c->interval_ns / 1e9, 0);
	}
}

static void own_http(struct gs_metrics *p, const struct agent_state *s)
{
	static const char *const classes[GS_HTTP_CLASSES] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
	struct gs_http_stats h = {0};
	double resident;

	if (s->http)
		gs_http_stats(s->http, &h);
	resident = h.pid ? (double)gs_host_rss_bytes("/proc", (uint32_t)h.pid) : -1;
	gs_metrics_one(p, "gpuscope_agent_scrapes", GS_METRICS_COUNTER, (double)s->scrapes,
		       "Scrapes of the agent before this one.");
	if (s->scrapes)
		gs_metrics_one(p, "gpuscope_agent_scrape_duration_seconds", GS_METRICS_GAUGE,
			       (double)s->scrape_ns / 1e9,
			       "Time to write the answer to the previous scrape.");
	gs_metrics_one(p, "gpuscope_agent_processes_dropped", GS_METRICS_COUNTER,
		       (double)s->processes_dropped,
		       "Processes left out of scrapes because of metrics.max_processes.");
	gs_metrics_family(p, "gpuscope_agent_http_requests", GS_METRICS_COUNTER, "",
			  "HTTP responses of the agent, by status class.");
	for (int i = 1; i < GS_HTTP_CLASSES; i++)
		write_metric_by(p, "status", classes[i], (double)h.requests[i]);
	gs_metrics_one(p, "gpuscope_agent_http_open_connections", GS_METRICS_GAUGE, (double)h.open,
		       "Open HTTP connections to the agent.");
	gs_metrics_family(p, "gpuscope_agent_http_connections_ended", GS_METRICS_COUNTER, "",
			  "HTTP connections that the agent closed, by reason.");
	write_metric_by(p, "reason", "too_many", (double)h.refused);
	write_metric_by(p, "reason", "evicted", (double)h.evicted);
	write_metric_by(p, "reason", "too_slow", (double)h.timed_out);
	write_metric_by(p, "reason", "tls_handshake", (double)h.tls_failures);
	gs_metrics_family(p, "gpuscope_agent_http_server_restarts", GS_METRICS_COUNTER, "",
			  "Restarts of the process that serves HTTP, by reason.");
	write_metric_by(p, "reason", "ended", (double)h.restarts);
	write_metric_by(p, "reason", "hung", (double)h.hung);
	write_metric_by(p, "reason", "lied", (double)h.lied);
	if (resident >= 0)
		gs_metrics_one(p, "gpuscope_agent_http_server_resident_memory_bytes",
			       GS_METRICS_GAUGE, resident,
			       "Resident memory of the process that serves HTTP.");
}

static void own_senders(struct gs_metrics *p)
{
	uint64_t lost[GS_SENDER_N_LOSSES];

	gs_sender_losses(lost);
	gs_metrics_family(
		p, "gpuscope_agent_senders_lost", GS_METRICS_COUNTER, "",
		"Restarts of processes that send data (to heads, metrics backends, alert receivers), by reason.");
	for (int i = 0; i < GS_SENDER_N_LOSSES; i++)
		write_metric_by(p, "reason", gs_sender_loss_name((enum gs_sender_loss)i),
				(double)lost[i]);
}

/* The caller holds the lock; the link has one of its own below it. */
static void own_head(struct gs_metrics *p, const struct agent_state *s)
{
	struct agent_head_stats h;

	if (!s->head)
		return;
	agent_head_stats(s->head, &h);
	gs_metrics_one(p, "gpuscope_agent_head_connected", GS_METRICS_GAUGE, h.connected,
		       "1 while connected to a head.");
	gs_metrics_one(p, "gpuscope_agent_head_connections", GS_METRICS_COUNTER, (double)h.connects,
		       "Connections made to heads.");
	gs_metrics_one(p, "gpuscope_agent_head_samples", GS_METRICS_COUNTER, (double)h.samples,
		       "Samples queued for the head.");
	gs_metrics_one(p, "gpuscope_agent_head_samples_failed", GS_METRICS_COUNTER,
		       (double)h.failed, "Samples that could not be made or queued for the head.");
	gs_metrics_one(p, "gpuscope_agent_head_acknowledged_batches", GS_METRICS_COUNTER,
		       (double)h.acked_batches, "Batches acknowledged by the head.");
	gs_metrics_one(p, "gpuscope_agent_head_sent_bytes", GS_METRICS_COUNTER,
		       (double)h.sent_bytes,
		       "Bytes of batches sent to the head, retries included.");
	gs_metrics_one(p, "gpuscope_agent_head_waiting_samples", GS_METRICS_GAUGE,
		       (double)h.waiting_samples,
		       "Samples that the head has not acknowledged yet.");
	gs_metrics_one(
		p, "gpuscope_agent_head_waiting_bytes", GS_METRICS_GAUGE, (double)h.waiting_bytes,
		"Bytes of samples that the head has not acknowledged yet, on disk and in memory.");
	gs_metrics_one(p, "gpuscope_agent_head_lost_samples", GS_METRICS_COUNTER,
		       (double)h.lost_samples,
		       "Samples dropped: the spool was full, or the head refused them.");
	if (h.has_reports) {
		gs_metrics_one(p, "gpuscope_agent_head_job_reports", GS_METRICS_COUNTER,
			       (double)h.reports.reports, "Job reports queued for the head.");
		gs_metrics_one(p, "gpuscope_agent_head_job_reports_failed", GS_METRICS_COUNTER,
			       (double)h.reports.failed,
			       "Job reports that could not be made or queued for the head.");
		gs_metrics_one(p, "gpuscope_agent_head_waiting_job_reports", GS_METRICS_GAUGE,
			       (double)h.reports.waiting,
			       "Job reports that the head has not acknowledged yet.");
		gs_metrics_one(
			p, "gpuscope_agent_head_lost_job_reports", GS_METRICS_COUNTER,
			(double)h.reports.lost,
			"Job reports dropped: the spool was full, or the head refused them.");
	}
	gs_metrics_one(p, "gpuscope_agent_head_spool_failed", GS_METRICS_GAUGE, h.spool_failed,
		       "1 while the spool cannot be written and data are buffered in memory.");
}

void agent_put_metrics(struct agent_state *s, struct gs_metrics *p, unsigned more_names)
{
	uint64_t began = gs_clock_mono_ns();
	struct gs_metrics_gpu_options o = {.size = sizeof(o)};
	unsigned dropped = 0;

	pthread_mutex_lock(&s->lock);
	o.names = gs_metrics_names_parse(s->conf.metrics.compat) | more_names;
	o.hostname = s->conf.metrics.hostname;
	o.links = s->conf.metrics.links;
	o.processes = s->conf.metrics.processes;
	o.max_processes = (unsigned)s->conf.metrics.max_processes;
	o.timestamps = s->conf.metrics.timestamps;
	own_process(p, s);
	own_sampling(p, s);
	own_reading(p, s);
	own_http(p, s);
	own_head(p, s);
	own_senders(p);
	agent_alert_metrics(p, s->alert);
	gs_push_set_metrics(p, s->push, "gpuscope_agent");
	gs_mysql_put_metrics(p, s->mysql, "gpuscope_agent");
	gs_metrics_gpu(p, s->latest, s->xids, s->n_xids, &o, &dropped);
	if (s->devices)
		agent_devices_metrics(p, s->devices);
	if (s->jobs)
		agent_jobs_render(s->jobs, p, s->latest, s->conf.jobs.names);
	agent_gpu_metrics(p, s->process_gpu);
	agent_findings_metrics(s->findings, p);
	agent_recorder_metrics(s->recorder, p);
	agent_traffic_metrics(s->traffic, p);
	s->processes_dropped += dropped;
	s->scrapes++;
	s->scrape_ns = gs_clock_mono_ns() - began;
	pthread_mutex_unlock(&s->lock);
}

static void serve_metrics(void *ctx, const struct gs_http_request *request,
			  struct gs_http_reply *reply)
{
	bool open = gs_metrics_accepts_openmetrics(gs_http_header(request, "accept"));
	struct gs_metrics p;

	reply->type = open ? GS_METRICS_TYPE_OPENMETRICS : GS_METRICS_TYPE_TEXT;
	gs_metrics_init(&p, &reply->body, open);
	agent_put_metrics(ctx, &p, 0);
	if (gs_metrics_end(&p) < 0) {
		reply->status = 500;
		reply->type = "text/plain; charset=utf-8";
		gs_buf_reset(&reply->body);
		(void)gs_buf_puts(&reply->body, "no memory for the metrics\n");
	}
}

/* Whether the sampling loop goes round. The caller holds the lock. */
static bool is_alive(const struct agent_state *s, uint64_t now)
{
	uint64_t since = s->sampled_ns ? s->sampled_ns : now;

	return now - since <= patience_ns(s);
}

static void serve_health(void *ctx, const struct gs_http_request *request,
			 struct gs_http_reply *reply)
{
	struct agent_state *s = ctx;
	uint64_t now = gs_clock_mono_ns();

	pthread_mutex_lock(&s->lock);
	if (is_alive(s, now)) {
		(void)gs_buf_puts(&reply->body, "ok\n");
	} else {
		reply->status = 503;
		(void)gs_buf_printf(&reply->body, "no reading for %.1f s\n",
				    (double)(now - s->sampled_ns) / 1e9);
	}
	pthread_mutex_unlock(&s->lock);
}

static void serve_ready(void *ctx, const struct gs_http_request *request,
			struct gs_http_reply *reply)
{
	struct agent_state *s = ctx;
	uint64_t now = gs_clock_mono_ns();

	pthread_mutex_lock(&s->lock);
	if (!s->latest)
		(void)gs_buf_puts(&reply->body, "not ready: the GPUs were not read yet\n");
	else if (s->latest->state != GS_GPU_STATE_OK)
		(void)gs_buf_printf(&reply->body, "not ready: %s%s%s\n",
				    gs_gpu_state_name(s->latest->state),
				    s->latest->state_text[0] ? ": " : "", s->latest->state_text);
	else if (!is_alive(s, now))
		(void)gs_buf_printf(&reply->body, "not ready: no reading for %.1f s\n",
				    (double)(now - s->sampled_ns) / 1e9);
	else
		(void)gs_buf_printf(&reply->body, "ready: %u GPU%s, read %.1f s ago\n",
				    s->latest->n_gpus, s->latest->n_gpus == 1 ? "" : "s",
				    (double)(now - s->sampled_ns) / 1e9);
	reply->status = reply->body.bytes && reply->body.data[0] == 'r' ? 200 : 503;
	pthread_mutex_unlock(&s->lock);
}

/* GET: what is traced, and what was found. */
static void serve_process_gpu(void *ctx, const struct gs_http_request *request,
			      struct gs_http_reply *reply)
{
	struct agent_state *s = ctx;

	reply->type = "application/json; charset=utf-8";
	agent_gpu_document(s->process_gpu, &reply->body);
}

/* POST /api/v1/process-gpu/1234?for=60s, or job:ID; DELETE ends it. */
static void trace_process_gpu(void *ctx, const struct gs_http_request *request,
			      struct gs_http_reply *reply)
{
	uint64_t time_ns = AGENT_GPU_USUAL;
	char text[400];
	int r;

	if (request->method == GS_HTTP_DELETE) {
		time_ns = 0;
	} else if (request->query[0] &&
		   (strncmp(request->query, "for=", 4) != 0 ||
		    gs_parse_ns(request->query + 4, 1000000000, &time_ns) < 0 || !time_ns)) {
		gs_http_error(reply, 400, "for=TIME, as for=60s");
		return;
	}
	r = agent_control_trace_gpu(ctx, request->param[0], time_ns, text, sizeof(text));
	if (r < 0) {
		gs_http_error(reply,
			      r == -ENOENT  ? 404
			      : r == -EPERM ? 403
			      : r == -EBUSY ? 503
					    : 400,
			      strstr(text, ": ") + 2);
		return;
	}
	reply->type = "text/plain; charset=utf-8";
	(void)gs_buf_printf(&reply->body, "%s\n", text);
}

static void serve_findings(void *ctx, const struct gs_http_request *request,
			   struct gs_http_reply *reply)
{
	struct agent_state *s = ctx;

	reply->type = "application/json; charset=utf-8";
	agent_findings_put_document(s->findings, &reply->body);
}

static void serve_recorder(void *ctx, const struct gs_http_request *request,
			   struct gs_http_reply *reply)
{
	reply->type = "application/json; charset=utf-8";
	agent_recorder_document(((struct agent_state *)ctx)->recorder, &reply->body);
}

/* POST */
static void save_recorder(void *ctx, const struct gs_http_request *request,
			  struct gs_http_reply *reply)
{
	agent_recorder_serve_save(((struct agent_state *)ctx)->recorder, request, reply);
}

static void serve_traffic(void *ctx, const struct gs_http_request *request,
			  struct gs_http_reply *reply)
{
	reply->type = "application/json; charset=utf-8";
	agent_traffic_document(((struct agent_state *)ctx)->traffic, &reply->body);
}

const struct gs_http_route agent_routes[] = {
	{.path = "/metrics", .methods = GS_HTTP_GET, .harmless = true, .serve = serve_metrics},
	{.path = "/healthz",
	 .methods = GS_HTTP_GET,
	 .open = true,
	 .vital = true,
	 .serve = serve_health},
	{.path = "/api/v1/findings", .methods = GS_HTTP_GET, .serve = serve_findings},
	{.path = "/api/v1/process-gpu", .methods = GS_HTTP_GET, .serve = serve_process_gpu},
	{.path = "/api/v1/process-gpu/{}",
	 .methods = GS_HTTP_POST | GS_HTTP_DELETE,
	 .control = true,
	 .serve = trace_process_gpu},
	{.path = "/api/v1/recorder", .methods = GS_HTTP_GET, .serve = serve_recorder},
	{.path = "/api/v1/recorder/{}",
	 .methods = GS_HTTP_POST,
	 .control = true,
	 .serve = save_recorder},
	{.path = "/api/v1/traffic", .methods = GS_HTTP_GET, .serve = serve_traffic},
	{.path = "/readyz", .methods = GS_HTTP_GET, .open = true, .serve = serve_ready},
};
_Static_assert(GS_ARRAY_LEN(agent_routes) <= AGENT_ROUTES_MAX, "as agent_page.c has room for");
const size_t agent_n_routes = GS_ARRAY_LEN(agent_routes);

static void report_of_server(void *ctx, const char *text)
{
	gs_cli_print_message("agent: %s", text);
}

struct gs_http_options agent_http_options(const struct agent_conf *c, struct agent_state *state)
{
	return (struct gs_http_options){
		.size = sizeof(struct gs_http_options),
		.listen = c->http.listen,
		.tls_cert = c->http.tls_cert,
		.tls_key = c->http.tls_key,
		.tls_client_ca = c->http.tls_client_ca,
		.token_file = c->http.token_file,
		.basic_file = c->http.basic_auth_file,
		.hosts = c->http.hosts,
		.anonymous = c->http.anonymous,
		.max_connections = (unsigned)c->http.max_connections,
		.timeout_ns = c->http.timeout_ns,
		.routes = agent_routes,
		.n_routes = agent_n_routes,
		.ctx = state,
		.apart = true,
		.guarded = true,
		.report = report_of_server,
	};
}
