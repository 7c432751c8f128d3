/*
 * Talking to a head of gswarm-profiler: Connect, then a stream of MetricsUpdate. Its units:
 * gpu_util and mem_util are shares, the *_gbps fields KiB/s for PCIe as its own clients send them,
 * system values percent. It answers nothing while the stream runs, so what went out counts as
 * delivered.
 */
#include "compat/gswarm/gswarm_int.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "core/base/clock.h"
#include "net/uplink/uplink_line.h"

#define SERVICE "/gswarm_profiler.ProfilerService/"

typedef GswarmProfiler__GPUMetric Metric;

/* The newest snapshot that waits, to say which GPUs there are; NULL: none. The caller frees it. */
static struct gs_node_snapshot *decode_newest(const struct gs_queue_batch *b)
{
	GS_FREE uint8_t *raw = malloc((size_t)b->raw_bytes + 8);
	struct gs_node_decoder *d = gs_node_decoder_new();
	struct gs_node_snapshot *node = NULL, *last = NULL;
	struct gs_batch batch = {.data = raw, .bytes = b->raw_bytes};

	if (raw && d) {
		if (b->codec == 0)
			memcpy(raw, b->data, b->raw_bytes == b->bytes ? b->bytes : 0);
		if (b->codec == 0 ||
		    ZSTD_decompress(raw, b->raw_bytes, b->data, b->bytes) == b->raw_bytes)
			gs_records_for_each (&batch, r)
				if (gs_node_decode(d, r, &node) == GS_NODE_WHOLE) {
					gs_node_snapshot_free(&last);
					last = gs_take(node);
				}
	}
	gs_node_decoder_free(&d);
	return last;
}

static double value_of(const struct gs_gpu_sample *s, enum gs_gpu_field f)
{
	return gs_gpu_has(s, f) ? s->value[f] : 0;
}

static void fill_metric(Metric *m, const struct gs_gpu_info *info, const struct gs_gpu_sample *s)
{
	double memory = gs_gpu_memory_ratio(s);

	m->physical_idx = (int32_t)info->index;
	m->name = (char *)info->name;
	m->gpu_util = value_of(s, GS_GPU_UTIL);
	m->mem_util = isnan(memory) ? 0 : memory;
	m->dram_bw_gbps_rx = value_of(s, GS_GPU_PCIE_RX_BPS) / 1024;
	m->dram_bw_gbps_tx = value_of(s, GS_GPU_PCIE_TX_BPS) / 1024;
	m->nvlink_bw_gbps_rx = value_of(s, GS_GPU_NVLINK_RX_BPS) / 1024;
	m->nvlink_bw_gbps_tx = value_of(s, GS_GPU_NVLINK_TX_BPS) / 1024;
}

/* One message of a snapshot; 0 or a negative errno. */
static int send_update(struct gs_uplink_line *l, const struct gs_node_snapshot *node)
{
	GswarmProfiler__MetricsUpdate m = GSWARM_PROFILER__METRICS_UPDATE__INIT;
	GswarmProfiler__SystemMetrics system = GSWARM_PROFILER__SYSTEM_METRICS__INIT;
	const struct gs_host_sample *h = &node->host->sample;
	const struct gs_gpu_snapshot *g = node->gpu;
	GS_FREE Metric *metrics = calloc(g->n_gpus + 1, sizeof(*metrics));
	GS_FREE Metric **pointers = calloc(g->n_gpus + 1, sizeof(*pointers));
	size_t bytes;
	int r;

	if (!metrics || !pointers)
		return -ENOMEM;
	for (uint32_t i = 0; i < g->n_gpus; i++) {
		if (g->info[i].is_mig)
			continue;
		gswarm_profiler__gpumetric__init(&metrics[i]);
		fill_metric(&metrics[i], &g->info[i], &g->sample[i]);
		pointers[m.n_gpus_metrics++] = &metrics[i];
	}
	m.hostname = l->hostname;
	m.gpus_metrics = pointers;
	m.timestamp = (double)node->wall_ns / 1e9;
	if (h->mem_total_bytes > 0 && h->mem_used_bytes >= 0)
		system.dram_util = 100.0 * (double)h->mem_used_bytes / (double)h->mem_total_bytes;
	if (h->root_used_ratio >= 0)
		system.disk_util = 100.0 * h->root_used_ratio;
	m.system_metrics = &system;
	bytes = gswarm_profiler__metrics_update__get_packed_size(&m);
	gs_buf_reset(&l->out);
	r = gs_buf_reserve(&l->out, bytes);
	if (r < 0)
		return r;
	gswarm_profiler__metrics_update__pack(&m, l->out.data);
	return gs_grpc_request_send(l->request, l->out.data, bytes);
}

/* --- the stream --- */

static void on_writable(void *ctx, struct gs_grpc_request *request)
{
	((struct gs_uplink_line *)ctx)->blocked = false;
}

static void on_ended(void *ctx, struct gs_grpc_request *request, enum gs_grpc_status status,
		     const char *text)
{
	struct gs_uplink_line *l = ctx;

	l->request = NULL;
	gs_uplink_failed(l, status, text,
			 status == GS_GRPC_UNIMPLEMENTED || status == GS_GRPC_UNAUTHENTICATED ||
				 status == GS_GRPC_PERMISSION_DENIED);
}

static void begin_stream(struct gs_uplink_line *l)
{
	struct gs_grpc_request_options o = {
		.size = sizeof(o),
		.path = SERVICE "StreamMetrics",
		.events = {.writable = on_writable, .ended = on_ended},
		.ctx = l,
	};
	int r = gs_grpc_client_call(l->client, &o, &l->request);

	if (r < 0) {
		gs_uplink_failed(l, GS_GRPC_UNAVAILABLE, strerror(-r), false);
		return;
	}
	l->welcomed = true;
	l->state.state = GS_UPLINK_CONNECTED;
	l->state.is_other = true;
	l->state.connects++;
	gs_uplink_log(l, "connected to the head of gswarm-profiler at %s", l->state.head);
}

/* --- Connect, and how it samples --- */

static void on_status(void *ctx, struct gs_grpc_request *request, const void *data, size_t bytes)
{
	struct gs_uplink_line *l = ctx;
	GswarmProfiler__StatusResponse *m =
		gswarm_profiler__status_response__unpack(NULL, bytes, data);
	struct gs_uplink_config desired = {.processes = false};

	if (!m)
		return;
	desired.interval_ns = m->freq > 0 ? (uint64_t)m->freq * 1000000 : 0;
	if (desired.interval_ns > UPLINK_INTERVAL_MAX_NS)
		desired.interval_ns = UPLINK_INTERVAL_MAX_NS;
	desired.bandwidth = m->enable_bandwidth_profiling;
	desired.nvlink = m->enable_nvlink_profiling;
	gs_uplink_report_config(l, &desired);
	gswarm_profiler__status_response__free_unpacked(m, NULL);
}

static void on_connect_reply(void *ctx, struct gs_grpc_request *request, const void *data,
			     size_t bytes)
{
	struct gs_uplink_line *l = ctx;
	GswarmProfiler__ConnectResponse *m =
		gswarm_profiler__connect_response__unpack(NULL, bytes, data);

	l->welcomed = m && m->success;
	if (m)
		gswarm_profiler__connect_response__free_unpacked(m, NULL);
}

static void on_connect_ended(void *ctx, struct gs_grpc_request *request, enum gs_grpc_status status,
			     const char *text)
{
	struct gs_uplink_line *l = ctx;
	GswarmProfiler__Empty empty = GSWARM_PROFILER__EMPTY__INIT;
	struct gs_grpc_request_options o = {.size = sizeof(o),
					    .path = SERVICE "GetStatus",
					    .events = {.message = on_status},
					    .ctx = l};

	l->request = NULL;
	if (status != GS_GRPC_OK || !l->welcomed) {
		on_ended(l, NULL, status == GS_GRPC_OK ? GS_GRPC_FAILED_PRECONDITION : status,
			 status == GS_GRPC_OK ? "the head does not take us" : text);
		return;
	}
	(void)gswarm_profiler__empty__get_packed_size(&empty); /* nothing: no bytes */
	(void)gs_grpc_client_unary(l->client, &o, "", 0, NULL);
	begin_stream(l);
}

/* Say who we are, with the GPUs of the oldest snapshot that waits: there is one before we connect, or
 * the head learns of GPUs from the stream. */
static void begin_line(struct gs_uplink_line *l)
{
	struct gs_grpc_request_options o = {
		.size = sizeof(o),
		.path = SERVICE "Connect",
		.events = {.message = on_connect_reply, .ended = on_connect_ended},
		.ctx = l,
		.timeout_ns = 10000000000ull,
	};
	GswarmProfiler__InitialInfo m = GSWARM_PROFILER__INITIAL_INFO__INIT;
	struct gs_node_snapshot *node = NULL;
	GswarmProfiler__GPUInfo *info = NULL, **pointers = NULL;
	struct gs_uplink_reply got;
	size_t n = 0, bytes;
	int r = -ENOMEM;

	l->state.is_other = false; /* not before the stream stands */
	if (gs_uplink_ask(l, LINK_GET, 0, &got) == 0)
		node = decode_newest(&got.batch);
	n = node ? node->gpu->n_gpus : 0;
	info = calloc(n + 1, sizeof(*info));
	pointers = calloc(n + 1, sizeof(*pointers));
	m.hostname = l->hostname;
	for (size_t i = 0; info && pointers && i < n; i++) {
		gswarm_profiler__gpuinfo__init(&info[i]);
		info[i].physical_idx = (int32_t)node->gpu->info[i].index;
		info[i].name = node->gpu->info[i].name;
		if (!node->gpu->info[i].is_mig)
			pointers[m.n_gpus++] = &info[i];
	}
	m.gpus = pointers;
	gs_buf_reset(&l->out);
	bytes = gswarm_profiler__initial_info__get_packed_size(&m);
	if (info && pointers && gs_buf_reserve(&l->out, bytes) == 0) {
		gswarm_profiler__initial_info__pack(&m, l->out.data);
		r = gs_grpc_client_unary(l->client, &o, l->out.data, bytes, &l->request);
	}
	free(info);
	free(pointers);
	gs_node_snapshot_free(&node);
	if (r < 0)
		gs_uplink_failed(l, GS_GRPC_UNAVAILABLE, strerror(-r), false);
}

static void pump_line(struct gs_uplink_line *l)
{
	struct gs_uplink_reply got, acked;
	int r = 0;

	/* A head of gswarm takes snapshots alone. */
	if (!l->welcomed || l->kind != GS_UPLINK_SAMPLES || !l->state.is_other)
		return;
	while ((r = gs_uplink_ask(l, LINK_GET, l->next_send, &got)) != GS_QUEUE_END) {
		struct gs_node_snapshot *node;
		uint64_t seq = got.batch.seq, bytes = got.batch.bytes;

		if (r == -EBADMSG || r == -EIO)
			continue;
		if (r < 0)
			break;
		node = decode_newest(&got.batch);
		r = node ? send_update(l, node) : 0;
		gs_node_snapshot_free(&node);
		if (r < 0)
			break;
		l->next_send = seq + 1;
		l->state.sent_batches++;
		l->state.sent_bytes += bytes;
		(void)gs_uplink_ask(l, LINK_SENT, seq, &acked);
		(void)gs_uplink_ask(l, LINK_ACK, seq, &acked);
		l->state.acked_batches++;
	}
	l->blocked = r == -ENOBUFS;
}

static void end_line(struct gs_uplink_line *l)
{
	gs_grpc_request_end(l->request);
}

const struct gs_uplink_protocol gswarm_uplink = {
	.begin = begin_line, .pump = pump_line, .end = end_line};
