/* The endpoints of gswarm-profiler, with its keys. Where it answered 200 for what it did not do,
 * the status says so here, and the keys are the same. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "compat/gswarm/gswarm_int.h"
#include "core/base/clock.h"
#include "server/api/endpoint.h"

#define GET  GS_HTTP_GET
#define POST GS_HTTP_POST

#define OTHERS_MAX 64

/* gswarm-profiler's head writes NAME.json when a session stops; so does this one into the folder
 * that it is given. Where there is no file, output_file is the URL from which it can be had. */
static void put_output(struct gs_buf *b, struct gs_head *head, const struct gs_store_session *s)
{
	char path[GSWARM_PATH_BYTES], url[GSWARM_EXPORT_BYTES];

	if (!s) {
		j_null(b, "output_file");
		j_null(b, "export");
		return;
	}
	gswarm_export_of(s, url);
	if (gs_session_export_files_path(gs_head_files(head), s, path, sizeof(path)) &&
	    (s->state == GS_STORE_SESSION_ACTIVE || access(path, F_OK) == 0))
		j_text(b, "output_file", path);
	else
		j_text(b, "output_file", url);
	j_text(b, "export", url);
}

/* {"error": ...} and the keys that gswarm's own clients look at; s: the one session that was started
 * or stopped, or NULL. */
static void answer_started(struct gs_http_reply *reply, struct gs_head *head, int r,
			   const struct gs_err *err, const char *message,
			   const struct gs_store_session *s)
{
	struct gs_buf *b = &reply->body;

	if (r < 0) {
		gs_live_fail(reply, r, err);
		message = err->text[0] ? err->text : strerror(-r);
		while (b->bytes && (b->data[b->bytes - 1] == '\n' || b->data[b->bytes - 1] == '}'))
			b->bytes--;
		(void)gs_buf_puts(b, "}");
	} else {
		j_open(gs_live_json(reply), NULL, '{');
	}
	j_bool(b, "success", r == 0);
	j_text(b, "message", message);
	put_output(b, head, s);
	j_close(b, '}');
}

/* --- status and clients --- */

static void put_gpus(struct gs_buf *b, const char *key, const struct gs_registry_node *n, bool more)
{
	const struct gs_gpu_snapshot *g = n->latest ? n->latest->gpu : NULL;
	char client[160], id[384], capability[32];

	gs_live_client_id(n, client, sizeof(client));
	j_open(b, key, '[');
	for (uint32_t i = 0; g && i < g->n_gpus; i++) {
		const struct gs_gpu_info *info = &g->info[i];

		/* As in gpu_id of files: two clients of one host have GPUs of the same numbers. */
		snprintf(id, sizeof(id), "%s:%u:%s", client, info->index, info->name);
		j_open(b, NULL, '{');
		j_text(b, "id", id);
		j_text(b, "name", info->name);
		j_u64(b, "physical_idx", info->index);
		j_text(b, "hostname", n->hostname);
		if (more) {
			j_text(b, "uuid", info->uuid);
			j_double(b, "memory_total",
				 gs_gpu_has(&g->sample[i], GS_GPU_MEM_TOTAL)
					 ? g->sample[i].value[GS_GPU_MEM_TOTAL]
					 : NAN);
			snprintf(capability, sizeof(capability), "%d.%d", info->compute_major,
				 info->compute_minor);
			if (info->compute_major >= 0)
				j_text(b, "compute_capability", capability);
			else
				j_null(b, "compute_capability");
		}
		j_close(b, '}');
	}
	j_close(b, ']');
}

static void put_clients(struct gs_buf *b, const struct gs_live_snapshot *l)
{
	char id[160];
	size_t n_gpus = 0;

	j_open(b, "connected_clients", '[');
	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_registry_node *n = gs_registry_view_at(l->view, i);

		if (!n->n_connections)
			continue;
		gs_live_client_id(n, id, sizeof(id));
		j_text(b, NULL, id);
		n_gpus += n->latest ? n->latest->gpu->n_gpus : 0;
	}
	j_close(b, ']');
	j_u64(b, "total_gpus", n_gpus);
	j_open(b, "gpu_info", '{');
	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_registry_node *n = gs_registry_view_at(l->view, i);

		if (!n->n_connections)
			continue;
		gs_live_client_id(n, id, sizeof(id));
		put_gpus(b, id, n, false);
	}
	j_close(b, '}');
}

/* Frames are a grid of the session's interval. */
static uint64_t frames_of(const struct gs_store_session *s, uint64_t head_interval_ns)
{
	int64_t end = s->end_wall_ns ? s->end_wall_ns : (int64_t)gs_clock_wall_ns();
	uint64_t interval = s->interval_ns ? s->interval_ns : head_interval_ns;

	return end > s->start_wall_ns && interval ? (uint64_t)(end - s->start_wall_ns) / interval
						  : 0;
}

GS_API_LOOK(answer_status)
{
	struct gs_head *head = gs_api_head(ctx);
	struct gs_buf *b = gs_live_json(reply);
	struct gs_store_session *active = NULL;
	struct gs_head_switches s;
	char file[GSWARM_PATH_BYTES] = "";
	size_t n_active = 0;

	gs_head_switches(head, &s);
	if (gs_head_active(head, &active, &n_active) < 0) {
		gs_http_error(reply, 503, "no memory");
		return;
	}
	if (n_active)
		gswarm_file_of(head, &active[n_active - 1], file, sizeof(file));
	j_open(b, NULL, '{');
	j_u64(b, "freq", s.interval_ns / 1000000);
	j_bool(b, "enable_bandwidth_profiling", s.bandwidth);
	j_bool(b, "enable_nvlink_profiling", s.nvlink);
	j_bool(b, "is_profiling", n_active > 0);
	j_text(b, "output_filename", file);
	j_u64(b, "frame_id_counter",
	      n_active ? frames_of(&active[n_active - 1], s.interval_ns) : 0);
	j_u64(b, "active_sessions", n_active);
	put_clients(b, l);
	j_close(b, '}');
	free(active);
}

GS_API_LOOK(answer_clients)
{
	struct gs_buf *b = gs_live_json(reply);
	char id[160];

	j_open(b, NULL, '{');
	j_u64(b, "total_clients", l->n_nodes);
	j_open(b, "clients", '[');
	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_registry_node *n = gs_registry_view_at(l->view, i);

		gs_live_client_id(n, id, sizeof(id));
		j_open(b, NULL, '{');
		j_text(b, "client_id", id);
		j_text(b, "hostname", n->hostname);
		j_u64(b, "gpu_count", n->latest ? n->latest->gpu->n_gpus : 0);
		put_gpus(b, "gpus", n, true);
		j_time(b, "last_update", n->last_wall_ns);
		j_text(b, "status",
		       n->healthy         ? "healthy"
		       : n->n_connections ? "unhealthy"
					  : "disconnected");
		j_close(b, '}');
	}
	j_close(b, ']');
	j_close(b, '}');
}

static double value_of(const struct gs_gpu_sample *s, enum gs_gpu_field f, double scale)
{
	return gs_gpu_has(s, f) ? s->value[f] * scale : NAN;
}

static void put_latest(struct gs_buf *b, const struct gs_node_snapshot *m)
{
	const struct gs_gpu_snapshot *g = m->gpu;
	const struct gs_host_sample *h = &m->host->sample;

	j_open(b, "gpus_metrics", '[');
	for (uint32_t i = 0; i < g->n_gpus; i++) {
		const struct gs_gpu_sample *s = &g->sample[i];

		j_open(b, NULL, '{');
		j_u64(b, "physical_idx", g->info[i].index);
		j_text(b, "name", g->info[i].name);
		j_double(b, "gpu_util", value_of(s, GS_GPU_UTIL, 100));
		j_double(b, "mem_util", 100 * gs_gpu_memory_ratio(s));
		/* gswarm called PCIe's counters so; real activity of memory is dram_active. */
		j_double(b, "dram_bw_gbps_rx", value_of(s, GS_GPU_PCIE_RX_BPS, 1e-9));
		j_double(b, "dram_bw_gbps_tx", value_of(s, GS_GPU_PCIE_TX_BPS, 1e-9));
		j_double(b, "nvlink_bw_gbps_rx", value_of(s, GS_GPU_NVLINK_RX_BPS, 1e-9));
		j_double(b, "nvlink_bw_gbps_tx", value_of(s, GS_GPU_NVLINK_TX_BPS, 1e-9));
		j_double(b, "dram_active", value_of(s, GS_GPU_DRAM_ACTIVE, 100));
		j_double(b, "temperature", value_of(s, GS_GPU_TEMP_GPU, 1));
		j_double(b, "power", value_of(s, GS_GPU_POWER, 1));
		j_close(b, '}');
	}
	j_close(b, ']');
	j_open(b, "p2p_links", '[');
	for (uint32_t i = 0; i < g->n_gpus; i++)
		for (uint32_t l = 0; l < g->sample[i].n_links && l < GS_GPU_LINK_MAX; l++) {
			const struct gs_gpu_link *link = &g->sample[i].link[l];

			for (uint32_t o = 0; link->up && o < g->n_gpus; o++) {
				if (strcmp(g->info[o].pci_bus_id, link->remote_bus_id) != 0)
					continue;
				j_open(b, NULL, '{');
				j_u64(b, "local_gpu_physical_id", g->info[i].index);
				j_text(b, "local_gpu_name", g->info[i].name);
				j_u64(b, "remote_gpu_physical_id", g->info[o].index);
				j_text(b, "remote_gpu_name", g->info[o].name);
				j_text(b, "type", "NVLink");
				j_u64(b, "link", l);
				j_close(b, '}');
			}
		}
	j_close(b, ']');
	j_open(b, "system_metrics", '{');
	j_double(b, "dram_util",
		 h->mem_total_bytes > 0 && h->mem_used_bytes >= 0
			 ? 100.0 * (double)h->mem_used_bytes / (double)h->mem_total_bytes
		 : h->mem_used_ratio >= 0 ? 100 * h->mem_used_ratio
					  : NAN);
	j_double(b, "disk_util", h->root_used_ratio > 0 ? 100 * h->root_used_ratio : NAN);
	j_close(b, '}');
}

GS_API_LOOK(answer_latest_metrics)
{
	struct gs_buf *b = gs_live_json(reply);
	char id[160];

	j_open(b, NULL, '{');
	j_time(b, "timestamp", (int64_t)gs_clock_wall_ns());
	j_open(b, "client_data", '{');
	for (size_t i = 0; i < l->n_nodes; i++) {
		const struct gs_registry_node *n = gs_registry_view_at(l->view, i);

		if (!n->latest || !n->n_connections)
			continue;
		gs_live_client_id(n, id, sizeof(id));
		j_open(b, id, '{');
		put_latest(b, n->latest);
		j_time(b, "timestamp", n->last_wall_ns);
		j_bool(b, "healthy", n->healthy);
		j_close(b, '}');
	}
	j_close(b, '}');
	j_close(b, '}');
}

/* --- sessions --- */

struct change {
	struct gs_head *head;
	struct gs_http_deferred *later;
	struct gs_store_session session;
	char name[GS_STORE_SESSION_NAME_BYTES];
	size_t n; /* stopped */
	int r;    /* of stopping; err says why */
	struct gs_err err;
	/* of a record */
	char app[256];
	char *keys[OTHERS_MAX + 2]; /* owned */
	double values[OTHERS_MAX + 2];
	size_t n_values;
};

static void change_free(struct change *c)
{
	for (size_t i = 0; i < c->n_values; i++)
		free(c->keys[i]);
	free(c);
}

/* c is handed to fn, on the store's thread, or freed. */
static void hand_over(struct change *c, struct gs_http_reply *reply, gs_head_job_fn fn)
{
	struct gs_http_reply failed;

	c->later = gs_http_defer(reply);
	if (!c->later) {
		gs_http_error(reply, 503, "no memory");
		change_free(c);
		return;
	}
	if (gs_head_write(c->head, fn, c) == 0)
		return;
	failed = gs_http_reply_new(c->later);
	gs_http_error(&failed, 503, "no memory");
	gs_http_answer(&c->later, &failed);
	change_free(c);
}

static void start_job(void *arg, struct gs_store *store)
{
	struct change *c = arg;
	struct gs_http_reply reply = gs_http_reply_new(c->later);
	struct gs_err err = {{0}};
	char message[GS_STORE_SESSION_NAME_BYTES + 32];
	int r = store ? gs_head_session_start(c->head, store, &c->session, &err) : -ESHUTDOWN;

	snprintf(message, sizeof(message), "Profiling started: %s", c->session.name);
	answer_started(&reply, c->head, r, &err, message, r == 0 ? &c->session : NULL);
	gs_http_answer(&c->later, &reply);
	change_free(c);
}

static GS_API_HANDLER(start_profiling)
{
	static const char *const keys[] = {"name", "report_metrics", "metrics", NULL};
	json_t *body = gs_api_body(q, keys, reply);
	struct change *c = body ? calloc(1, sizeof(*c)) : NULL;
	struct gs_head_switches own;

	if (!c) {
		json_decref(body);
		return;
	}
	c->head = gs_api_head(ctx);
	gs_head_switches(c->head, &own);
	c->session.bandwidth = own.bandwidth;
	c->session.nvlink = own.nvlink;
	if (gs_api_text(body, "name", c->session.name, sizeof(c->session.name), reply) &&
	    gs_api_list(body, "report_metrics", c->session.report_metrics,
			sizeof(c->session.report_metrics), reply))
		hand_over(c, reply, start_job);
	else
		change_free(c);
	json_decref(body);
}

static void note_stopped(void *arg, const struct gs_store_session *s)
{
	struct change *c = arg;

	c->session = *s;
	c->n++;
}

static void answer_stopped(void *arg)
{
	struct change *c = arg;
	struct gs_http_reply reply = gs_http_reply_new(c->later);
	char message[GS_STORE_SESSION_NAME_BYTES + 48];

	if (c->n == 1)
		snprintf(message, sizeof(message), "Profiling stopped: %s", c->session.name);
	else
		snprintf(message, sizeof(message), "Profiling stopped: %zu sessions", c->n);
	answer_started(&reply, c->head, c->r, &c->err, message, c->n == 1 ? &c->session : NULL);
	gs_http_answer(&c->later, &reply);
	change_free(c);
}

static void stop_job(void *arg, struct gs_store *store)
{
	struct change *c = arg;
	int r = store ? gs_head_session_stop(c->head, store, c->name, note_stopped, c, &c->err)
		      : -ESHUTDOWN;

	if (r >= 0 && !c->n)
		r = gs_err_set(&c->err, -EALREADY, "no session is active");
	c->r = r < 0 ? r : 0;
	if (store)
		gs_session_export_files_then(gs_head_files(c->head), answer_stopped, c);
	else
		answer_stopped(c);
}

static GS_API_HANDLER(stop_profiling)
{
	static const char *const keys[] = {"name", NULL};
	json_t *body = gs_api_body(q, keys, reply);
	struct change *c = body ? calloc(1, sizeof(*c)) : NULL;

	if (!c) {
		json_decref(body);
		return;
	}
	c->head = gs_api_head(ctx);
	if (gs_api_text(body, "name", c->name, sizeof(c->name), reply))
		hand_over(c, reply, stop_job);
	else
		change_free(c);
	json_decref(body);
}

/* --- records --- */

static bool add_value(struct change *c, const char *key, json_t *v)
{
	double number = json_is_number(v) ? json_number_value(v) : NAN;
	char *end;

	if (json_is_string(v) && json_string_value(v)[0]) { /* gswarm's own take texts too */
		number = strtod(json_string_value(v), &end);
		if (*end)
			number = NAN;
	}
	if (!isfinite(number) || number < 0 || !key[0] || strlen(key) > 100 ||
	    c->n_values == GS_ARRAY_LEN(c->keys))
		return false;
	c->keys[c->n_values] = strdup(key);
	if (!c->keys[c->n_values])
		return false;
	c->values[c->n_values++] = number;
	return true;
}

static const char *read_record(struct change *c, json_t *body)
{
	json_t *others = json_object_get(body, "other_time"), *v;
	const char *app = json_string_value(json_object_get(body, "app_name")), *key;

	if (!app || !app[0] || strlen(app) >= sizeof(c->app))
		return "app_name is a text that is not empty, of less than 256 bytes";
	strcpy(c->app, app);
	if (!add_value(c, "queue_time", json_object_get(body, "queue_time")))
		return "queue_time is a number of seconds, not negative";
	if (!add_value(c, "processing_time", json_object_get(body, "processing_time")))
		return "processing_time is a number of seconds, not negative";
	if (others && !json_is_object(others) && !json_is_null(others))
		return "other_time is an object of numbers";
	json_object_foreach(others, key, v) if (
		!add_value(
			c, key,
			v)) return "other_time is an object of at most 64 numbers, none of them negative";
	return NULL;
}

static void record_job(void *arg, struct gs_store *store)
{
	struct change *c = arg;
	struct gs_http_reply reply = gs_http_reply_new(c->later);
	struct gs_err err = {{0}};
	struct gs_head_annotation annotation = {
		.session = "",
		.kind = "request",
		.name = c->app,
		.keys = (const char *const *)c->keys,
		.values = c->values,
		.n_values = c->n_values,
	};
	int r = store ? gs_head_annotate(c->head, store, &annotation, NULL, &err) : -ESHUTDOWN;

	if (r < 0) {
		gs_live_fail(&reply, r, &err);
	} else {
		j_open(gs_live_json(&reply), NULL, '{');
		j_bool(&reply.body, "success", true);
		j_text(&reply.body, "message", "recorded");
		j_i64(&reply.body, "sessions", r);
		j_close(&reply.body, '}');
	}
	gs_http_answer(&c->later, &reply);
	change_free(c);
}

static GS_API_HANDLER(record_request)
{
	json_t *body = gs_api_body(q, NULL, reply);
	struct change *c = body ? calloc(1, sizeof(*c)) : NULL;
	const char *why;

	if (!c) {
		json_decref(body);
		return;
	}
	c->head = gs_api_head(ctx);
	why = read_record(c, body);
	json_decref(body);
	if (!why) {
		hand_over(c, reply, record_job);
		return;
	}
	gs_http_error(reply, 400, why);
	change_free(c);
}

/* --- list --- */

struct listing {
	struct gs_buf *b;
	struct gs_head *head;
	uint64_t interval_ns;
	uint64_t n, n_active;
};

static int put_session(void *arg, const struct gs_store_session *s)
{
	struct listing *l = arg;

	l->n++;
	l->n_active += s->state == GS_STORE_SESSION_ACTIVE;
	j_open(l->b, NULL, '{');
	j_text(l->b, "name", s->name);
	j_bool(l->b, "is_active", s->state == GS_STORE_SESSION_ACTIVE);
	/* What gswarm-profiler 0.4.3 reads in their place. */
	j_bool(l->b, "active", s->state == GS_STORE_SESSION_ACTIVE);
	j_u64(l->b, "frames", frames_of(s, l->interval_ns));
	j_time(l->b, "start_time", s->start_wall_ns);
	j_u64(l->b, "frame_count", frames_of(s, l->interval_ns));
	put_output(l->b, l->head, s);
	j_text(l->b, "id", s->id);
	j_close(l->b, '}');
	return 0;
}

static void list_job(void *arg, struct gs_store *store)
{
	struct change *c = arg;
	struct gs_http_reply reply = gs_http_reply_new(c->later);
	struct gs_head_switches switches;
	struct listing l = {.b = gs_live_json(&reply), .head = c->head};
	int r;

	gs_head_switches(c->head, &switches);
	l.interval_ns = switches.interval_ns;
	j_open(l.b, NULL, '{');
	j_open(l.b, "sessions", '[');
	r = store ? gs_store_sessions(store, 0, 0, put_session, &l) : -ESHUTDOWN;
	j_close(l.b, ']');
	j_u64(l.b, "total_sessions", l.n);
	j_u64(l.b, "active_sessions", l.n_active);
	j_close(l.b, '}');
	if (r < 0)
		gs_live_fail(&reply, r, NULL);
	gs_http_answer(&c->later, &reply);
	change_free(c);
}

static GS_API_HANDLER(list_sessions)
{
	struct change *c = calloc(1, sizeof(*c));

	if (!c || !(c->later = gs_http_defer(reply))) {
		free(c);
		gs_http_error(reply, 503, "no memory");
		return;
	}
	c->head = gs_api_head(ctx);
	if (gs_head_read(c->head, list_job, c) < 0) {
		struct gs_http_reply failed = gs_http_reply_new(c->later);

		gs_http_error(&failed, 503, "no memory");
		gs_http_answer(&c->later, &failed);
		change_free(c);
	}
}

/* --- the endpoints --- */

static const struct gs_live_endpoint endpoints[] = {
	{"/status", GET, false, false, "", "What the head does now (gswarm)", answer_status},
	{"/clients", GET, false, false, "", "Nodes and their GPUs (gswarm)", answer_clients},
	{"/metrics/latest", GET, false, false, "", "Newest values (gswarm)", answer_latest_metrics},
	{"/profiling/start", POST, false, true, "", "Start a session (gswarm)", start_profiling},
	{"/profiling/stop", POST, false, true, "", "Stop one session or all (gswarm)",
	 stop_profiling},
	{"/profiling/record", POST, false, true, "", "Times of an application's request (gswarm)",
	 record_request},
	{"/profiling/sessions", GET, false, false, "", "All sessions (gswarm)", list_sessions},
};

#define OUTPUT  "output_file:text?, export:text?"
#define STARTED "{success:bool, message:text, " OUTPUT "}"
#define GPU     "id:text, name:text, physical_idx:int, hostname:text"

static const struct gs_api_schema schemas[] = {
	{"/status", GET, NULL,
	 "{freq:int, enable_bandwidth_profiling:bool, enable_nvlink_profiling:bool, "
	 "is_profiling:bool, output_filename:text, frame_id_counter:int, active_sessions:int, "
	 "connected_clients:[text], total_gpus:int, gpu_info:{*:[{" GPU "}]}}"},
	{"/clients", GET, NULL,
	 "{total_clients:int, clients:[{client_id:text, hostname:text, gpu_count:int, "
	 "gpus:[{" GPU ", uuid:text, memory_total:number?, compute_capability:text?}], "
	 "last_update:time?, status:'healthy'|'unhealthy'|'disconnected'}]}"},
	{"/metrics/latest", GET, NULL,
	 "{timestamp:time, client_data:{*:{gpus_metrics:[{physical_idx:int, name:text, "
	 "gpu_util:number?, mem_util:number?, dram_bw_gbps_rx:number?, dram_bw_gbps_tx:number?, "
	 "nvlink_bw_gbps_rx:number?, nvlink_bw_gbps_tx:number?, dram_active:number?, "
	 "temperature:number?, power:number?}], p2p_links:[{local_gpu_physical_id:int, "
	 "local_gpu_name:text, remote_gpu_physical_id:int, remote_gpu_name:text, type:text, "
	 "link:int}], system_metrics:{dram_util:number?, disk_util:number?}, timestamp:time?, "
	 "healthy:bool}}}"},
	{"/profiling/start", POST, "{name?:text?, report_metrics?:[text]?}", STARTED},
	{"/profiling/stop", POST, "{name?:text?}", STARTED},
	{"/profiling/record", POST,
	 "{app_name:text, queue_time:any, processing_time:any, other_time?:{*:any}?}",
	 "{success:bool, message:text, sessions:int}"},
	{"/profiling/sessions", GET, NULL,
	 "{total_sessions:int, active_sessions:int, sessions:[{name:text, is_active:bool, "
	 "active:bool, frames:int, "
	 "start_time:time?, frame_count:int, " OUTPUT ", id:text}]}"},
};

const struct gs_api_addition gswarm_http = {
	.endpoints = endpoints,
	.n_endpoints = GS_ARRAY_LEN(endpoints),
	.schemas = schemas,
	.n_schemas = GS_ARRAY_LEN(schemas),
};
