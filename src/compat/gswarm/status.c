/* What is known, in the messages of gswarm-profiler. */
#include <jansson.h>
#include <string.h>

#include "core/base/clock.h"
#include "compat/gswarm/gswarm_int.h"
#include "server/head/reply.h"

#define MB 1048576.0

/* --- GetStatus --- */

static char *sessions_json(const struct gs_store_session *s, size_t n)
{
	json_t *list = json_array();
	char *text;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:s, s:f, s:f, s:b}", "name", s[i].name,
						"id", s[i].id, "start_time",
						(double)s[i].start_wall_ns / 1e9, "interval",
						(double)s[i].interval_ns / 1e9, "is_active", 1));
	text = json_dumps(list, JSON_COMPACT);
	json_decref(list);
	return text;
}

/* Owned by the caller; NULL: no memory. */
static char *label_of(const struct gs_registry_node *c)
{
	char label[GS_NODE_LABEL_BYTES];

	gs_node_label(c->hostname, c->instance, c->machine_id, c->name_is_shared, label,
		      sizeof(label));
	return strdup(label);
}

static bool is_node(const struct gs_registry_node *c, const char *name)
{
	GS_FREE char *label = label_of(c);

	return strcmp(c->hostname, name) == 0 || strcmp(c->machine_id, name) == 0 ||
	       (label && strcmp(label, name) == 0);
}

static size_t list_connected(struct gs_head *h, char ***ret_names)
{
	struct gs_registry_view *view = gs_registry_view(gs_head_cluster(h));
	size_t n = 0, all = gs_registry_view_count(view);
	char **names;

	names = calloc(all + 1, sizeof(*names));
	for (size_t i = 0; names && i < all; i++) {
		const struct gs_registry_node *c = gs_registry_view_at(view, i);

		if (c->n_connections && (names[n] = label_of(c)))
			n++;
	}
	gs_registry_view_unref(&view);
	*ret_names = names;
	return n;
}

void gswarm_export_of(const struct gs_store_session *session, char out[GSWARM_EXPORT_BYTES])
{
	snprintf(out, GSWARM_EXPORT_BYTES, "/api/v1/sessions/%s/export?format=gswarm", session->id);
}

void gswarm_file_of(struct gs_head *h, const struct gs_store_session *session, char *out,
		    size_t bytes)
{
	char url[GSWARM_EXPORT_BYTES];

	gswarm_export_of(session, url);
	if (!gs_session_export_files_path(gs_head_files(h), session, out, bytes))
		snprintf(out, bytes, "%s", url);
}

void gswarm_status(struct gs_head *h, struct gs_grpc_call *call)
{
	GswarmProfiler__StatusResponse m = GSWARM_PROFILER__STATUS_RESPONSE__INIT;
	struct gs_store_session *active = NULL;
	char file[GSWARM_PATH_BYTES] = "";
	GS_FREE char *json = NULL;
	struct gs_head_switches desired;
	size_t n = 0;

	gs_head_switches(h, &desired);
	(void)gs_head_active(h, &active, &n);
	/* Who asks has not said who it is: what any session wants is measured. */
	for (size_t i = 0; i < n; i++) {
		if (active[i].interval_ns && active[i].interval_ns < desired.interval_ns)
			desired.interval_ns = active[i].interval_ns;
		desired.bandwidth |= active[i].bandwidth;
		desired.nvlink |= active[i].nvlink;
	}
	m.freq = (int32_t)(desired.interval_ns / 1000000);
	m.enable_bandwidth_profiling = desired.bandwidth;
	m.enable_nvlink_profiling = desired.nvlink;
	m.is_profiling = n > 0;
	if (n) { /* the newest */
		int64_t age = (int64_t)gs_clock_wall_ns() - active[n - 1].start_wall_ns;

		gswarm_file_of(h, &active[n - 1], file, sizeof(file));
		if (age > 0 && active[n - 1].interval_ns)
			m.frame_id_counter = (int32_t)((uint64_t)age / active[n - 1].interval_ns);
	}
	json = sessions_json(active, n);
	m.output_filename = file;
	m.active_sessions_json = json ? json : "";
	m.n_connected_clients = list_connected(h, &m.connected_clients);
	gs_head_reply(call, &m.base);
	for (size_t i = 0; i < m.n_connected_clients; i++)
		free(m.connected_clients[i]);
	free(m.connected_clients);
	free(active);
}

/* --- nodes --- */

static double value_of(const struct gs_gpu_sample *s, enum gs_gpu_field f, double factor)
{
	return gs_gpu_has(s, f) ? s->value[f] * factor : -1;
}

/* Of both directions; -1: neither is known. */
static double sum_of_both(const struct gs_gpu_sample *s, enum gs_gpu_field rx, enum gs_gpu_field tx)
{
	if (!gs_gpu_has(s, rx) && !gs_gpu_has(s, tx))
		return -1;
	return ((gs_gpu_has(s, rx) ? s->value[rx] : 0) + (gs_gpu_has(s, tx) ? s->value[tx] : 0)) /
	       1e9;
}

static void fill_gpu(GswarmProfiler__GPUStatus *m, const struct gs_gpu_info *info,
		     const struct gs_gpu_sample *s)
{
	gswarm_profiler__gpustatus__init(m);
	m->gpu_id = (int32_t)info->index;
	m->utilization = value_of(s, GS_GPU_UTIL, 100);
	m->memory_used = (int64_t)value_of(s, GS_GPU_MEM_USED, 1 / MB);
	m->memory_total = (int64_t)value_of(s, GS_GPU_MEM_TOTAL, 1 / MB);
	m->dram_bandwidth = sum_of_both(s, GS_GPU_PCIE_RX_BPS, GS_GPU_PCIE_TX_BPS);
	m->nvlink_bandwidth = sum_of_both(s, GS_GPU_NVLINK_RX_BPS, GS_GPU_NVLINK_TX_BPS);
	m->temperature = value_of(s, GS_GPU_TEMP_GPU, 1);
	m->power = value_of(s, GS_GPU_POWER, 1);
}

/* A copy, to be freed by node_free(); NULL: no memory. */
static GswarmProfiler__NodeStatus *node_new(const struct gs_registry_node *c)
{
	const struct gs_gpu_snapshot *g = c->latest ? c->latest->gpu : NULL;
	size_t n = g ? g->n_gpus : 0;
	GswarmProfiler__NodeStatus *m = calloc(1, sizeof(*m));
	GswarmProfiler__GPUStatus *gpu = calloc(n + 1, sizeof(*gpu));

	if (m)
		gswarm_profiler__node_status__init(m);
	if (m)
		m->gpus = calloc(n + 1, sizeof(*m->gpus));
	if (!m || !gpu || !m->gpus) {
		free(gpu);
		if (m)
			free(m->gpus);
		free(m);
		return NULL;
	}
	m->node_id = label_of(c);
	m->gpus[0] = gpu; /* also of a node without GPUs: it is freed by this */
	for (size_t i = 0; i < n; i++) {
		if (g->info[i].is_mig)
			continue;
		fill_gpu(&gpu[m->n_gpus], &g->info[i], &g->sample[i]);
		m->gpus[m->n_gpus] = &gpu[m->n_gpus];
		m->n_gpus++;
	}
	return m;
}

static void node_free(GswarmProfiler__NodeStatus *m)
{
	if (!m)
		return;
	free(m->gpus[0]);
	free(m->gpus);
	free(m->node_id);
	free(m);
}

void gswarm_cluster(struct gs_head *h, struct gs_grpc_call *call)
{
	GswarmProfiler__ClusterStatusResponse m = GSWARM_PROFILER__CLUSTER_STATUS_RESPONSE__INIT;
	struct gs_registry_view *view = gs_registry_view(gs_head_cluster(h));
	size_t all = gs_registry_view_count(view);

	m.nodes = calloc(all + 1, sizeof(*m.nodes));
	for (size_t i = 0; m.nodes && i < all; i++) {
		const struct gs_registry_node *c = gs_registry_view_at(view, i);

		if (c->n_connections && (m.nodes[m.n_nodes] = node_new(c)))
			m.n_nodes++;
	}
	gs_registry_view_unref(&view);
	m.success = true;
	m.message = "ok";
	m.cluster_id = (char *)gs_head_address(h, 0);
	gs_head_reply(call, &m.base);
	for (size_t i = 0; i < m.n_nodes; i++)
		node_free(m.nodes[i]);
	free(m.nodes);
}

void gswarm_node(struct gs_head *h, struct gs_grpc_call *call, const char *node_id)
{
	GswarmProfiler__NodeStatusResponse m = GSWARM_PROFILER__NODE_STATUS_RESPONSE__INIT;
	struct gs_registry_view *view = gs_registry_view(gs_head_cluster(h));

	for (size_t i = 0; !m.node_status && i < gs_registry_view_count(view); i++) {
		const struct gs_registry_node *c = gs_registry_view_at(view, i);

		if (is_node(c, node_id))
			m.node_status = node_new(c);
	}
	gs_registry_view_unref(&view);
	m.success = m.node_status != NULL;
	m.message = m.success ? "ok" : "there is no such node";
	gs_head_reply(call, &m.base);
	node_free(m.node_status);
}
