/* The table of endpoints, the server's life, and what live shows of the head. */
#include "server/api/api_int.h"

#include <errno.h>
#include <string.h>

#include "server/store/finding.h"

#define GET    GS_HTTP_GET
#define POST   GS_HTTP_POST
#define PUT    GS_HTTP_PUT
#define DELETE GS_HTTP_DELETE

const struct gs_live_endpoint api_endpoints[] = {
	{"/api/v1/process-series", GET, false, false, "node,pid,started,from,to,points",
	 "CPU, memory and GPU share of a process over time", api_process_series},
	{"/api/v1/job-reports", GET, false, false,
	 "limit,after,user,name,job,kind,state,node,from,to", "Reports of jobs, newest first",
	 api_job_reports},
	{"/api/v1/job-reports/compare", GET, false, false,
	 "ids,last,user,name,job,kind,state,node,from,to",
	 "Comparison of several reports: statistics, outliers, trends", api_job_reports_compare},
	{"/api/v1/job-reports/{}", GET, false, false, "id", "A complete report of a job",
	 api_job_report},
	{"/api/v1/findings", GET, false, false, "limit,after,job,kind,holding,from,to",
	 "Late ranks, hangs, mismatches and slowdowns of jobs over nodes, newest first",
	 api_findings},
	{"/api/v1/steps", GET, false, false, "limit,job",
	 "Steps of the ranks of jobs over nodes, side by side", api_steps},
	{"/api/v1/nodes/{}/recorder", GET, false, false, "id",
	 "Jobs and files of the node's flight recorder", api_recorder},
	{"/api/v1/nodes/{}/recorder/{}", GET, false, false, "id,name",
	 "A file of the node's flight recorder", api_recorder_file},
	{"/api/v1/nodes/{}/recorder/{}", POST, false, true, "id,name",
	 "Have the node write a file now: job:ID, or all", api_recorder_save},
	{"/api/v1/sessions", GET, false, false, "limit,after,state", "Sessions, newest first",
	 api_sessions},
	{"/api/v1/sessions", POST, false, true, "", "Start a session", api_session_start},
	{"/api/v1/sessions/{}", GET, false, false, "id", "A session, by id or name", api_session},
	{"/api/v1/sessions/{}", DELETE, false, true, "id", "Delete a session", api_session_delete},
	{"/api/v1/sessions/{}/stop", POST, false, true, "id", "Stop it", api_session_stop},
	{"/api/v1/sessions/{}/resume", POST, false, true, "id", "Resume a session",
	 api_session_resume},
	{"/api/v1/sessions/{}/export", GET, false, false, "id,format",
	 "Samples of a session as a file: json, gswarm, csv, gst", api_session_export},
	{"/api/v1/sessions/{}/summary", GET, false, false, "id",
	 "Means and percentiles of each GPU over a session", api_session_summary},
	{"/api/v1/sessions/{}/plot", GET, false, false, "id,format,panels,node",
	 "Plots of a session: svg, png, pdf", api_session_plot},
	{"/api/v1/sessions/{}/annotations", GET, false, false, "id", "Annotations of a session",
	 api_session_annotations},
	{"/api/v1/sessions/{}/annotations", POST, false, true, "id", "Add an annotation",
	 api_annotate},
	{"/api/v1/switches", GET, false, false, "", "What nodes measure", api_switches},
	{"/api/v1/switches", PUT, false, true, "", "Change it", api_switches_set},
	{"/api/v1/metrics", GET, false, false, "", "The head's own metrics for Prometheus",
	 api_metrics},
	{"/metrics", GET, false, false, "", "The same", api_metrics},
	{"/api/v1/openapi.json", GET, true, false, "", "This description", api_openapi},
};
const size_t api_n_endpoints = GS_ARRAY_LEN(api_endpoints);

struct gs_head *gs_api_head(struct gs_api *api)
{
	return api->o.head;
}

void gs_api_answer(struct gs_api *api, const struct gs_http_request *q, struct gs_http_reply *reply,
		   gs_live_answer_fn fn)
{
	gs_live_answer(api->live, q, reply, fn, api);
}

/* --- what live shows of the head (server/live/live.h) --- */

static void fill_settings(void *ctx, struct gs_live_settings *ret)
{
	const struct gs_api *a = ctx;
	struct gs_store_session *active = NULL;
	struct gs_head_switches s;

	gs_head_switches(a->o.head, &s);
	*ret = (struct gs_live_settings){
		.interval_ns = s.interval_ns,
		.switches = s.bandwidth * 2u + s.nvlink,
	};
	(void)gs_head_active(a->o.head, &active, &ret->n_sessions);
	for (size_t i = 0; i < ret->n_sessions; i++)
		ret->sessions = ret->sessions * 31 + (uint64_t)active[i].number;
	free(active);
}

static size_t fill_facts(void *ctx, struct gs_live_fact *ret)
{
	struct gs_api *a = ctx;
	struct gs_head_stats st;
	size_t n = 0;

	gs_head_stats(a->o.head, &st);
	memcpy(a->trouble, st.trouble, sizeof(a->trouble));
	ret[n++] = (struct gs_live_fact){.key = "batches", .number = (double)st.batches};
	ret[n++] = (struct gs_live_fact){.key = "samples", .number = (double)st.samples};
	ret[n++] = (struct gs_live_fact){.key = "waiting_batches",
					 .number = (double)st.waiting_batches};
	ret[n++] = (struct gs_live_fact){.key = "latency_seconds",
					 .number = (double)st.latency_ns / 1e9};
	ret[n++] = (struct gs_live_fact){.key = "trouble", .text = a->trouble};
	return n;
}

struct alert_list {
	struct gs_live_alert *alerts; /* GS_LIVE_ALERTS_MAX of them, borrowed */
	size_t n;
};

/* Ranks that stand still are worse than ranks that are slow. */
static void add_finding(void *ctx, const struct gs_store_finding *f)
{
	struct alert_list *l = ctx;
	struct gs_live_alert *to;

	if (l->n == GS_LIVE_ALERTS_MAX)
		return;
	to = &l->alerts[l->n++];
	*to = (struct gs_live_alert){.critical = strcmp(f->kind, "late_rank") != 0 &&
						 strcmp(f->kind, "slowdown") != 0,
				     .of_server = true,
				     .gpu = -1,
				     .since_wall_ns = f->begin_wall_ns};
	snprintf(to->text, sizeof(to->text), "%s%.48s%s%.250s", f->job[0] ? "job " : "", f->job,
		 f->job[0] ? ": " : "", f->text);
}

static size_t fill_alerts(void *ctx, struct gs_live_alert *ret)
{
	const struct gs_api *a = ctx;
	struct alert_list l = {.alerts = ret};
	struct gs_head_stats st;

	gs_head_stats(a->o.head, &st);
	if (st.trouble[0]) {
		*ret = (struct gs_live_alert){.critical = true, .of_server = true, .gpu = -1};
		snprintf(ret->text, sizeof(ret->text), "%s", st.trouble);
		l.n = 1;
	}
	gs_head_holding(a->o.head, add_finding, &l);
	return l.n;
}

static struct gs_live *live_new(struct gs_api *a)
{
	const struct gs_live_options o = {
		.size = sizeof(o),
		.cluster = gs_head_cluster(a->o.head),
		.role = "head",
		.grpc_address = a->o.grpc_address,
		.has_control = true,
		.keeps_answers = true,
		.ctx = a,
		.settings = fill_settings,
		.facts = fill_facts,
		.alerts = fill_alerts,
		.past_process = api_past_process,
		.past_series = api_past_series,
		.jobs = api_jobs,
	};

	return gs_live_new(&o);
}

/* --- the server --- */

static struct gs_http_options http_options(struct gs_api *a)
{
	const struct gs_api_options *options = &a->o;

	return (struct gs_http_options){
		.size = sizeof(struct gs_http_options),
		.listen = options->listen,
		.tls_cert = options->tls_cert,
		.tls_key = options->tls_key,
		.token_role = options->token_role,
		.token_ctx = options->token_ctx,
		.json_errors = true,
		.max_connections = 512,
		.max_streams = 256,
		.max_body_bytes = 65536,
		.hosts = a->o.hosts,
		.origins = a->o.origins,
		.anonymous = a->o.anonymous,
		.guarded = a->o.guarded,
		.routes = a->route,
		.n_routes = a->n_routes,
		.ctx = a,
	};
}

static void add_routes(struct gs_api *a, const struct gs_live_endpoint *endpoints, size_t n)
{
	for (size_t i = 0; i < n; i++)
		a->route[a->n_routes++] = (struct gs_http_route){
			.path = endpoints[i].path,
			.methods = endpoints[i].method,
			.open = endpoints[i].open,
			.harmless = endpoints[i].serve == api_metrics,
			.control = endpoints[i].control,
			.serve = endpoints[i].serve,
		};
}

/* False: no memory. */
static bool make_routes(struct gs_api *a)
{
	const struct gs_api_addition *more = a->o.more;
	size_t n = GS_LIVE_ENDPOINTS + api_n_endpoints + (more ? more->n_endpoints : 0);

	a->route = calloc(n, sizeof(*a->route));
	if (!a->route)
		return false;
	gs_live_routes(a->live, a->route);
	a->n_routes = GS_LIVE_ENDPOINTS;
	add_routes(a, api_endpoints, api_n_endpoints);
	if (more)
		add_routes(a, more->endpoints, more->n_endpoints);
	return true;
}

static void api_free(struct gs_api **api)
{
	struct gs_api *a = *api;

	gs_live_free(&a->live);
	free(a->route);
	pthread_cond_destroy(&a->ended);
	pthread_mutex_destroy(&a->lock);
	gs_free_p(api);
}

int gs_api_start(const struct gs_api_options *options, struct gs_api **ret_api, struct gs_err *err)
{
	struct gs_api *a = calloc(1, sizeof(*a));
	struct gs_http_options o;
	int r;

	if (!a)
		return gs_err_set(err, -ENOMEM, "no memory");
	a->o = *options;
	snprintf(a->listen, sizeof(a->listen), "%s", options->listen);
	a->o.listen = a->listen;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->ended, NULL);
	a->live = live_new(a);
	if (!a->live || !make_routes(a)) {
		api_free(&a);
		return gs_err_set(err, -ENOMEM, "no memory");
	}
	o = http_options(a);
	r = api_keep_start(a, err);
	if (r == 0)
		r = gs_http_start(&o, &a->http, err);
	if (r < 0) {
		api_keep_stop(a);
		api_free(&a);
		return r;
	}
	*ret_api = a;
	return 0;
}

int gs_api_reload(struct gs_api *api, struct gs_err *err)
{
	const struct gs_http_options o = http_options(api);

	return gs_http_reload(api->http, &o, err);
}

void gs_api_stop(struct gs_api **api)
{
	struct gs_api *a = *api;

	if (!a)
		return;
	/* The thread that writes an export finds that it is no longer read. */
	gs_http_stop(&a->http);
	api_tasks_wait(a);
	api_keep_stop(a);
	api_free(api);
}

void gs_api_tick(struct gs_api *api)
{
	gs_live_tick(api->live, api->http);
}

bool gs_api_answers(struct gs_api *api)
{
	return gs_http_answers(api->http);
}

const char *gs_api_address(const struct gs_api *api)
{
	return gs_http_address(api->http);
}
