/* The table of endpoints, the server's life, and what all endpoints share. */
#include "api/api_look.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "text/text.h"

#define GET    GS_HTTP_GET
#define POST   GS_HTTP_POST
#define PUT    GS_HTTP_PUT
#define DELETE GS_HTTP_DELETE

const struct api_endpoint api_endpoints[] = {
	{"/", GET, true, false, "", "The page for browsers; name and version for others", api_root,
	 true},
	{"/status", GET, false, false, "", "What the head does now (gswarm)", api_status},
	{"/clients", GET, false, false, "", "Nodes and their GPUs (gswarm)", api_clients},
	{"/metrics/latest", GET, false, false, "", "Newest values (gswarm)", api_metrics_latest},
	{"/profiling/start", POST, false, true, "", "Start a session (gswarm)",
	 api_profiling_start},
	{"/profiling/stop", POST, false, true, "", "Stop one session or all (gswarm)",
	 api_profiling_stop},
	{"/profiling/record", POST, false, true, "", "Times of an application's request (gswarm)",
	 api_profiling_record},
	{"/profiling/sessions", GET, false, false, "", "All sessions (gswarm)",
	 api_profiling_sessions},
	{"/api/v1/overview", GET, false, false, "", "Counts and sums of the cluster", api_overview,
	 true},
	{"/api/v1/nodes", GET, false, false, "limit,after", "Nodes", api_nodes, true},
	{"/api/v1/nodes/{}", GET, false, false, "id", "A node and its GPUs with all values",
	 api_node, true},
	{"/api/v1/gpus", GET, false, false, "limit,after,sort,state,q", "GPUs, also worst first",
	 api_gpus, true},
	{"/api/v1/processes", GET, false, false, "limit,after,node,job", "Processes on GPUs",
	 api_processes, true},
	{"/api/v1/processes/{}/{}", GET, false, false, "node,pid",
	 "A process now, or as it was last seen", api_process, true},
	{"/api/v1/process-series", GET, false, false, "node,pid,started,from,to,points",
	 "CPU, memory and GPU share of a process over time", api_process_series},
	{"/api/v1/jobs", GET, false, false, "limit",
	 "Jobs on GPUs, with their slowest GPU and what their newest report says", api_jobs, true},
	{"/api/v1/job-reports", GET, false, false,
	 "limit,after,user,name,job,kind,state,node,from,to", "Reports of jobs, newest first",
	 api_job_reports},
	{"/api/v1/job-reports/compare", GET, false, false,
	 "ids,last,user,name,job,kind,state,node,from,to",
	 "Several reports side by side: statistics, outliers, trends", api_job_reports_compare},
	{"/api/v1/job-reports/{}", GET, false, false, "id", "A report of a job, whole",
	 api_job_report},
	{"/api/v1/alerts", GET, false, false, "limit", "What is wrong, worst first", api_alerts,
	 true},
	{"/api/v1/heatmap", GET, false, false, "value,points,limit,after,since",
	 "One value of each GPU over the last minutes", api_heatmap, true},
	{"/api/v1/series", GET, false, false, "node,gpu,values,from,to,points",
	 "Values of a GPU over time, by stretches: least, mean, most", api_series, true},
	{"/api/v1/sessions", GET, false, false, "limit,after,state", "Sessions, newest first",
	 api_sessions},
	{"/api/v1/sessions", POST, false, true, "", "Start a session", api_session_start},
	{"/api/v1/sessions/{}", GET, false, false, "id", "A session, by id or name", api_session},
	{"/api/v1/sessions/{}", DELETE, false, true, "id", "Forget a session", api_session_delete},
	{"/api/v1/sessions/{}/stop", POST, false, true, "id", "Stop it", api_session_stop},
	{"/api/v1/sessions/{}/resume", POST, false, true, "id", "Go on with it",
	 api_session_resume},
	{"/api/v1/sessions/{}/export", GET, false, false, "id,format",
	 "Its samples as a file: json, gswarm, csv, gst", api_session_export},
	{"/api/v1/sessions/{}/summary", GET, false, false, "id",
	 "Means and percentiles of each GPU in its time", api_session_summary},
	{"/api/v1/sessions/{}/plot", GET, false, false, "id,format,panels,node",
	 "Figures of it: svg, png, pdf", api_session_plot},
	{"/api/v1/sessions/{}/marks", GET, false, false, "id", "Marks of a session",
	 api_session_marks},
	{"/api/v1/sessions/{}/marks", POST, false, true, "id", "Add a mark", api_mark},
	{"/api/v1/switches", GET, false, false, "", "What nodes measure", api_switches},
	{"/api/v1/switches", PUT, false, true, "", "Change it", api_switches_set},
	{"/api/v1/events", GET, false, false, "", "Changes as server-sent events", api_events,
	 true},
	{"/api/v1/metrics", GET, false, false, "", "The head's own metrics for Prometheus",
	 api_metrics},
	{"/metrics", GET, false, false, "", "The same", api_metrics},
	{"/api/v1/openapi.json", GET, true, false, "", "This description", api_openapi},
	{"/web/{}", GET, true, false, "file", "Parts of the page", api_page, true},
};
const size_t api_n_endpoints = GS_ARRAY_LEN(api_endpoints);

static struct gs_http_route routes[GS_ARRAY_LEN(api_endpoints)];

struct gs_buf *api_json(struct gs_http_reply *reply)
{
	reply->type = "application/json";
	return &reply->body;
}

int api_status_of(int r)
{
	switch (-r) {
	case EINVAL:
		return 400;
	case ENOENT:
		return 404;
	case EEXIST:
	case EALREADY:
	case EBUSY:
		return 409;
	case ENOSPC:
		return 507;
	case ENOMEM:
	case ESHUTDOWN:
		return 503;
	default:
		return 500;
	}
}

void api_fail(struct gs_http_reply *reply, int r, const struct gs_err *err)
{
	const char *text = err && err->text[0] ? err->text : strerror(-r);
	struct gs_buf clean = GS_BUF_INIT(4096);

	/* Names of others may be in it. */
	if (gs_text_utf8(&clean, text) == 0 && gs_buf_put(&clean, "", 1) == 0)
		text = (const char *)clean.data;
	gs_http_say(reply, api_status_of(r), text);
	gs_buf_fini(&clean);
}

int api_number(const struct gs_http_request *q, struct gs_http_reply *reply, const char *name,
	       double least, double most, double *ret_value)
{
	char text[40], why[160], *end;
	int r = gs_http_query(q, name, text, sizeof(text));
	double v;

	if (r == 0)
		return 0;
	v = r < 0 ? NAN : strtod(text, &end);
	if (r == 1 && text[0] && !*end && v >= least && v <= most) {
		*ret_value = v;
		return 1;
	}
	snprintf(why, sizeof(why), "%s is a number from %.15g to %.15g", name, least, most);
	gs_http_say(reply, 400, why);
	return -EINVAL;
}

size_t api_limit(const struct gs_http_request *q, struct gs_http_reply *reply)
{
	double v = API_LIMIT_DEFAULT;

	return api_number(q, reply, "limit", 1, API_LIMIT_MAX, &v) < 0 ? 0 : (size_t)v;
}

void api_client_id(const struct gs_cluster_node *n, char *out, size_t bytes)
{
	bool is_named = n->instance[0] && strcmp(n->instance, "default") != 0;
	size_t host = strlen(n->hostname), instance = is_named ? strlen(n->instance) + 1 : 0;

	if (host + instance >= bytes)
		host = bytes - 1, instance = 0;
	memcpy(out, n->hostname, host);
	if (instance) {
		out[host] = '/';
		memcpy(out + host + 1, n->instance, instance - 1);
	}
	out[host + instance] = '\0';
}

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
		.routes = routes,
		.n_routes = GS_ARRAY_LEN(routes),
		.ctx = a,
	};
}

int gs_api_start(const struct gs_api_options *options, struct gs_api **ret_api, struct gs_err *err)
{
	struct gs_api *a = calloc(1, sizeof(*a));
	struct gs_http_options o;
	int r;

	if (!a)
		return gs_err_set(err, -ENOMEM, "no memory");
	for (size_t i = 0; i < GS_ARRAY_LEN(routes); i++)
		routes[i] = (struct gs_http_route){
			.path = api_endpoints[i].path,
			.methods = api_endpoints[i].method,
			.open = api_endpoints[i].open,
			.control = api_endpoints[i].control,
			.serve = api_endpoints[i].serve,
		};
	a->o = *options;
	a->cluster = gs_head_cluster(options->head);
	snprintf(a->listen, sizeof(a->listen), "%s", options->listen);
	a->o.listen = a->listen;
	o = http_options(a);
	a->started_wall_ns = (int64_t)gs_clock_wall_ns();
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->ended, NULL);
	r = gs_http_start(&o, &a->http, err);
	if (r < 0) {
		free(a);
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
	/* Whoever writes an export finds that nobody reads any more. */
	gs_http_stop(&a->http);
	api_tasks_wait(a);
	api_answers_free(a);
	api_look_unref(&a->look);
	pthread_cond_destroy(&a->ended);
	pthread_mutex_destroy(&a->lock);
	free(a);
	*api = NULL;
}

void gs_api_tick(struct gs_api *api)
{
	api_publish(api);
	api_look_forget(api);
}

const char *gs_api_address(const struct gs_api *api)
{
	return gs_http_address(api->http);
}
