/*
 * What requests and answers look like, in the short form of server/openapi/openapi.h. A test holds
 * the answers of a real head against all of it, and misses what has no row: an answer and its row
 * change together.
 */
#include "server/api/api_int.h"

#include <string.h>

#include "server/openapi/openapi.h"

#define GET    GS_HTTP_GET
#define POST   GS_HTTP_POST
#define PUT    GS_HTTP_PUT
#define DELETE GS_HTTP_DELETE

#define SUMS                                                                                       \
	"gpus:int, states:States, power_watts:number?, utilization_ratio:number?, "                \
	"memory_used_bytes:number?, memory_total_bytes:number?"
#define NODE                                                                                       \
	"id:int, name:text, hostname:text, machine_id:text, address:text, version:text, "          \
	"healthy:bool, connected:bool, last_sample:time?, samples:int, lost_samples:int, "         \
	"missed_samples:int, clock_offset_seconds:number?, clock_uncertain_seconds:number?, " SUMS \
	", gpu_state?:text, gpu_state_text?:text, cpu_ratio?:number?, "                            \
	"host_memory_used_bytes?:number?, host_memory_total_bytes?:number?"
#define GPU                                                                                        \
	"node:int, node_name:text, gpu:int, index:int, uuid:text, name:text, state:State, "        \
	"reason?:text, condition?:text, severity?:text, since?:time, advice?:text, "               \
	"utilization_ratio:number?, memory_used_ratio:number?, "                                   \
	"memory_used_bytes:number?, memory_total_bytes:number?, power_watts:number?, "             \
	"power_limit_watts:number?, temperature_celsius:number?, sm_clock_hertz:number?, "         \
	"throttle_reasons_mask:number?"
#define PROCESS                                                                                    \
	"name:text, user:text, job:text, container:text, command:text, sm_ratio:number?, "         \
	"cpu_ratio:number?, host_memory_bytes:number?"
#define JOB_REPORT                                                                                 \
	"id:int, node:int, node_name:text, report:text, state:'running'|'finished'|'partial', "    \
	"stale:bool, source:text, kind:text, job:text, user:text, name:text, class:text, "         \
	"score:number?, start_time:time?, end_time:time?, duration_seconds:number?, received:time?"
#define SESSION_ANSWER "{session:Session}"
#define SWITCHES       "{interval_seconds:number, bandwidth:bool, nvlink:bool}"

static const struct gs_openapi_name types[] = {
	{"Error", "{error:{code:text, message:text}}"},
	{"State", "'ok'|'idle'|'degraded'|'throttled'|'unreachable'|'failing'"},
	{"States", "{ok:int, idle:int, degraded:int, throttled:int, unreachable:int, failing:int}"},
	{"Node", "{" NODE "}"},
	{"Gpu", "{" GPU "}"},
	{"GpuWhole", "{" GPU ", pci_bus_id:text, driver_version:text, cuda_version:text, "
		     "architecture:text, values:{*:number?}, missing:{*:text}}"},
	{"Process",
	 "{node:int, node_name:text, gpu:int, pid:int, memory_used_bytes:number?, " PROCESS "}"},
	{"Stretches", "{min:[number?], mean:[number?], max:[number?]}"},
	{"GpuPlace", "{node:int, node_name:text, gpu:int}"},
	{"Session",
	 "{number:int, id:text, name:text, state:'active'|'stopped'|'recoverable', start_time:time?, "
	 "end_time:time?, interval_seconds:number?, bandwidth:bool, nvlink:bool, metrics:[text], "
	 "nodes:[text], report_metrics:[text], annotations:int}"},
	{"JobReport", "{" JOB_REPORT "}"},
	{"Annotation", "{time:time?, kind:text, name:text, values:{*:number}}"},
};

static const struct gs_api_schema schemas[] = {
	{"/", GET, NULL, "{message:text, version:text}"},
	{"/api/v1/overview", GET, NULL,
	 "{time:time, version:text, role:'head'|'agent', grpc_address:text, may_control:bool, "
	 "nodes:int, healthy_nodes:int, " SUMS ", active_sessions:int, agent?:{*:any}, "
	 "head?:{batches:int, samples:int, waiting_batches:int, latency_seconds:number, "
	 "trouble:text}}"},
	{"/api/v1/nodes", GET, NULL, "{total:int, nodes:[Node], next:int?}"},
	{"/api/v1/nodes/{}", GET, NULL, "{" NODE ", gpu_list:[GpuWhole]}"},
	{"/api/v1/gpus", GET, NULL, "{gpus:[Gpu], total:int, next:int?}"},
	{"/api/v1/processes", GET, NULL, "{processes:[Process], total:int, next:int?}"},
	{"/api/v1/processes/{}/{}", GET, NULL,
	 "{node:int, node_name:text, pid:int, running:bool, last_seen:time?, "
	 "start_time:time?, " PROCESS
	 ", state:text, threads:int?, parent_pid:int?, cpu_seconds:number?, "
	 "gpu_memory_used_bytes:number?, thread_seconds:{*:number}, gpus:[{gpu:int, uuid:text, "
	 "name:text, "
	 "memory_used_bytes:number?, memory_total_bytes:number?, sm_ratio:number?, "
	 "memory_activity_ratio:number?, utilization_ratio:number?}]}"},
	{"/api/v1/process-series", GET, NULL,
	 "{node:int, pid:int, source:text, complete:bool, step_seconds:number, time:[number], "
	 "downsampled_seconds?:number, values:{*:Stretches}}"},
	{"/api/v1/jobs", GET, NULL,
	 "{jobs:[{job:text, user:text, gpus:int, utilization_min_ratio:number?, "
	 "utilization_median_ratio:number?, utilization_max_ratio:number?, straggler:GpuPlace?, "
	 "straggler_minute_ratio:number?, straggler_reason:text, idle:bool, "
	 "utilization_minute_ratio:number?, report:JobReport?}], "
	 "total:int}"},
	{"/api/v1/job-reports", GET, NULL, "{reports:[JobReport], next:text?}"},
	{"/api/v1/job-reports/compare", GET, NULL, "{*:any}"},
	{"/api/v1/job-reports/{}", GET, NULL, "{" JOB_REPORT ", document:{*:any}}"},
	{"/api/v1/findings", GET, NULL,
	 "{findings:[{id:int, kind:'late_rank'|'hang'|'mismatch'|'slowdown', job:text, node:text, rank:int, ranks:int, "
	 "communicator:text, start_time:time?, found:time?, end_time:time?, text:text, details:{*:any}}], "
	 "next:int?}"},
	{"/api/v1/steps", GET, NULL,
	 "{steps:[{job:text, communicator:text, ranks:int, ranks_seen:int, ranks_with_steps:int, since:time?, "
	 "compared_steps:int, known_steps:int, unlike_steps:int, least_median_seconds:number, most_median_seconds:number, "
	 "spread_median_seconds:number?, spread_p95_seconds:number?, clock_error_seconds:number?, "
	 "slowest:[{collective:int, collectives:int, start_time:time?, median_seconds:number, spread_seconds:number, "
	 "slowest:'rank'|'none'|'unknown', rank:int?, node:text, late_seconds:number?, clock_error_seconds:number?}], "
	 "listed:[{rank:int, node:text, pid:int, steps:int, odd_steps:int, median_seconds:number, p95_seconds:number, "
	 "compared_steps:int, slowest_steps:int, late_seconds:number?, inside_ratio:number?}]}]}"},
	{"/api/v1/alerts", GET, NULL,
	 "{alerts:[{severity:'critical'|'warning'|'info', node:int?, node_name:text, gpu:int?, "
	 "gpus:int, text:text, advice:text, since:time?, jobs:[text]}], total:int}"},
	{"/api/v1/heatmap", GET, NULL,
	 "{value:text, full:number, end_time:time, step_seconds:number, points:int, cursor:text, "
	 "fresh:int?, "
	 "rows:[{node?:int, node_name?:text, gpu?:int, state:State, v:[int]}], total:int, "
	 "next:int?}"},
	{"/api/v1/series", GET, NULL,
	 "{node:int, gpu:text, source:'memory'|'store', complete:bool, step_seconds:number, "
	 "time:[number], downsampled_seconds?:number, "
	 "xids:[{time:time, xid:int, count:int, text:text}], values:{*:Stretches}}"},
	{"/api/v1/nodes/{}/recorder", GET, NULL,
	 "{enabled:bool, connected:bool, jobs:[{id:text, processes:int}], files:[{name:text, job:text, reason:text, bytes:int, time:time}]}"},
	{"/api/v1/nodes/{}/recorder/{}", GET, NULL, "@application/octet-stream"},
	{"/api/v1/nodes/{}/recorder/{}", POST, NULL, "{asked:bool}"},
	{"/api/v1/sessions", GET, NULL, "{sessions:[Session], next:int?}"},
	{"/api/v1/sessions", POST,
	 "{name?:text?, nodes?:[text]?, metrics?:[text]?, report_metrics?:[text]?, "
	 "interval_seconds?:number?, bandwidth?:bool, nvlink?:bool}",
	 SESSION_ANSWER},
	{"/api/v1/sessions/{}", GET, NULL,
	 "{session:Session, samples:int, nodes:int, lost_samples:int, missed_samples:int}"},
	{"/api/v1/sessions/{}", DELETE, NULL, SESSION_ANSWER},
	{"/api/v1/sessions/{}/stop", POST, NULL, SESSION_ANSWER},
	{"/api/v1/sessions/{}/resume", POST, NULL, SESSION_ANSWER},
	{"/api/v1/sessions/{}/export", GET, NULL,
	 "@application/json,text/csv,application/octet-stream"},
	{"/api/v1/sessions/{}/summary", GET, NULL,
	 "{session:Session, complete:bool, gpus:[{node:int, node_name:text, index:int, uuid:text, "
	 "name:text, samples:int, utilization_mean_ratio:number?, utilization_p50_ratio:number?, "
	 "utilization_p95_ratio:number?, memory_mean_ratio:number?, memory_max_ratio:number?, "
	 "power_mean_watts:number?, power_max_watts:number?, temperature_max_celsius:number?, "
	 "energy_joules:number?}]}"},
	{"/api/v1/sessions/{}/plot", GET, NULL, "@image/svg+xml,image/png,application/pdf"},
	{"/api/v1/sessions/{}/annotations", GET, NULL, "{annotations:[Annotation]}"},
	{"/api/v1/sessions/{}/annotations", POST, "{name?:text?, kind?:text?, values?:{*:number}}",
	 SESSION_ANSWER},
	{"/api/v1/switches", GET, NULL, SWITCHES},
	{"/api/v1/switches", PUT, "{interval_seconds?:number?, bandwidth?:bool, nvlink?:bool}",
	 SWITCHES},
	{"/api/v1/events", GET, NULL, "@text/event-stream"},
	{"/api/v1/metrics", GET, NULL, "@text/plain,application/openmetrics-text"},
	{"/metrics", GET, NULL, "@text/plain,application/openmetrics-text"},
	{"/api/v1/openapi.json", GET, NULL, "{*:any}"},
	{"/web/{}", GET, NULL, "@text/html,text/css,text/javascript,image/svg+xml,text/plain"},
};

/* Of the query and the path, wherever they appear; others are texts. */
static const struct gs_openapi_name parameters[] = {
	{"limit", "int", "maximum number of entries, 1 to 2000"},
	{"after", "any", "`next` of the previous answer"},
	{"node", "int", "number of a node"},
	{"pid", "int", "process id"},
	{"gpu", "text", "its number at the node, or its UUID"},
	{"points", "int", "number of points or columns of the answer"},
	{"from", "number", "seconds since 1970; not positive: before now"},
	{"to", "number", "seconds since 1970; not positive: before now"},
	{"sort", "'worst'", "worst first, of the same state the least used"},
	{"holding", "int", "1: only findings that have not ended"},
	{"since", "text", "`cursor` of a previous answer: only changes since then"},
	{"format", "text", "of the file"},
	{"values", "text", "keys of values, with commas"},
	{"value", "text", "key of a value"},
	{"q", "text", "a part of a node's name"},
};

/* Of the n of them, that of the endpoint; NULL: none. */
static const struct gs_api_schema *find_schema(const struct gs_api_schema *of, size_t n,
					       const struct gs_live_endpoint *e)
{
	for (size_t i = 0; i < n; i++)
		if (of[i].method == e->method && strcmp(of[i].path, e->path) == 0)
			return &of[i];
	return NULL;
}

static void describe_endpoint(const struct gs_live_endpoint *e, const struct gs_api_schema *schema,
			      struct gs_openapi_endpoint *d)
{
	static const char *const methods[] = {"get", "post", "put", "delete"};

	*d = (struct gs_openapi_endpoint){
		.path = e->path,
		.method = methods[__builtin_ctz(e->method)],
		.params = e->params,
		.summary = e->summary,
		.open = e->open,
		.role = e->control ? "control" : NULL,
		.body = schema ? schema->body : NULL,
		.answer = schema ? schema->answer : NULL,
	};
}

GS_API_HANDLER(api_openapi)
{
	const struct gs_api_addition none = {.n_endpoints = 0};
	const struct gs_api *a = ctx;
	const struct gs_api_addition *more = a->o.more ? a->o.more : &none;
	GS_FREE struct gs_openapi_endpoint *endpoints =
		calloc(GS_LIVE_ENDPOINTS + api_n_endpoints + more->n_endpoints, sizeof(*endpoints));
	struct gs_openapi d = {
		.title = "gpuscope head",
		.version = GS_VERSION,
		.error = "Error",
		.endpoints = endpoints,
		.types = types,
		.n_types = GS_ARRAY_LEN(types),
		.parameters = parameters,
		.n_parameters = GS_ARRAY_LEN(parameters),
	};
	const struct gs_live_endpoint *e;

	if (!endpoints) {
		gs_http_error(reply, 503, "no memory");
		return;
	}
	for (size_t i = 0; i < GS_LIVE_ENDPOINTS + api_n_endpoints; i++) {
		e = i < GS_LIVE_ENDPOINTS ? &gs_live_endpoints[i]
					  : &api_endpoints[i - GS_LIVE_ENDPOINTS];
		describe_endpoint(e, find_schema(schemas, GS_ARRAY_LEN(schemas), e),
				  &endpoints[d.n_endpoints++]);
	}
	for (size_t i = 0; i < more->n_endpoints; i++) {
		e = &more->endpoints[i];
		describe_endpoint(e, find_schema(more->schemas, more->n_schemas, e),
				  &endpoints[d.n_endpoints++]);
	}
	gs_openapi_write(gs_live_json(reply), &d);
}
