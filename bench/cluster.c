/*
 * cluster: many nodes that deliver to one head over real connections, each with GPUs whose values
 * wander. Starts the head itself, and prints one JSON object: what was sent and stored, what the
 * head used, how long it took until a batch was durable.
 *
 *   cluster GPUSCOPE DATA NODES GPUS VALUES SECONDS [restart]
 *
 * restart: in the middle the head is killed (-9) and started anew, and all nodes come back at once.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "gpuscope.pb-c.h"
#include "model/gpu_record.h"
#include "rpc/rpc_client.h"

#define KEPT_MAX 64 /* batches of a node that wait for their acknowledgement */

struct node {
	struct gs_rpc_client *client;
	struct gs_rpc_request *request;
	struct gs_rpc_backoff backoff;
	uint64_t retry_ns;
	unsigned number;
	bool welcomed;
	uint64_t seq, acked; /* made; stored */
	uint64_t sent;       /* on this connection */
	struct {
		uint8_t *message; /* owned */
		size_t bytes;
		uint64_t made_ns;
	} kept[KEPT_MAX];
	double wander[64];
	uint64_t due_ns;
};

static struct {
	const char *gpuscope, *data;
	unsigned n_nodes, n_gpus, n_values;
	uint64_t seconds;
	struct node *node;
	pid_t head;
	struct gs_node_snapshot moment;
	struct gs_buf records;
	float *latency_ms; /* of each batch */
	size_t n_latency, n_latency_max;
	uint64_t bytes, raw_bytes, dropped, failures, ended_by[17];
	unsigned n_welcomed;
} b;

static void die(const char *what)
{
	fprintf(stderr, "cluster: %s: %s\n", what, strerror(errno));
	if (b.head > 0)
		kill(b.head, SIGKILL);
	exit(1);
}

/* Of the head: GS_BENCH_PORT, or one of this run alone, since another run on this machine would be
 * the same nodes. Its page, to look at while this runs, is on the next. */
static char head_address[32], http_port[8];

static void choose_port(void)
{
	const char *text = getenv("GS_BENCH_PORT");
	int port = text ? atoi(text) : 20000 + getpid() % 5000 * 2;

	snprintf(head_address, sizeof(head_address), "127.0.0.1:%d", port);
	snprintf(http_port, sizeof(http_port), "%d", port + 1);
}

static void start_head(void)
{
	b.head = fork();
	if (b.head < 0)
		die("fork");
	if (b.head == 0) {
		execl(b.gpuscope, b.gpuscope, "head", "--data", b.data, "--listen", head_address,
		      "--http-port", http_port, (char *)NULL);
		_exit(127);
	}
}

/* --- what a node measures --- */

static int make_moment(void)
{
	struct gs_gpu_snapshot *g = calloc(1, sizeof(*g));
	struct gs_host_snapshot *h = calloc(1, sizeof(*h));

	if (!g || !h)
		return -ENOMEM;
	g->n_gpus = b.n_gpus;
	g->info = calloc(b.n_gpus, sizeof(*g->info));
	g->sample = calloc(b.n_gpus, sizeof(*g->sample));
	if (!g->info || !g->sample)
		return -ENOMEM;
	for (unsigned i = 0; i < b.n_gpus; i++) {
		g->info[i].index = i;
		snprintf(g->info[i].name, sizeof(g->info[i].name), "NVIDIA H200");
		snprintf(g->info[i].pci_bus_id, sizeof(g->info[i].pci_bus_id), "00000000:%02X:00.0",
			 i + 16);
		memset(g->sample[i].why, GS_GPU_WHY_NOT_READ, sizeof(g->sample[i].why));
	}
	h->sample.n_cpus = 128;
	h->sample.mem_total_bytes = 2ll << 40;
	b.moment.gpu = g;
	b.moment.host = h;
	return 0;
}

static void measure(struct node *n, uint64_t wall_ns)
{
	struct gs_gpu_snapshot *g = b.moment.gpu;

	snprintf(b.moment.name, sizeof(b.moment.name), "node%05u", n->number);
	b.moment.wall_ns = (int64_t)wall_ns;
	b.moment.time_ns = gs_clock_boot_ns();
	b.moment.host->sample.cpu_ratio = 0.3 + 0.001 * (double)(n->seq % 100);
	for (unsigned i = 0; i < b.n_gpus; i++) {
		snprintf(g->info[i].uuid, sizeof(g->info[i].uuid), "GPU-%08x-0000-0000-0000-%012x",
			 n->number, i);
		g->sample[i].time_ns = b.moment.time_ns;
		for (unsigned k = 0; k < b.n_values; k++) {
			double *w = &n->wander[(i * 7 + k) % GS_ARRAY_LEN(n->wander)];

			*w += (double)(rand() % 2001 - 1000) / 1e5;
			*w = fmin(fmax(*w, 0), 1);
			/* As drivers tell them: whole percents, whole watts. */
			gs_gpu_set(&g->sample[i], (enum gs_gpu_field)k, round(*w * 1000) / 1000);
		}
	}
}

static int make_batch(struct node *n, uint64_t wall_ns)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Batch batch = GPUSCOPE__V1__BATCH__INIT;
	static uint8_t packed[1 << 20];
	unsigned slot;
	size_t bytes;

	measure(n, wall_ns);
	gs_buf_reset(&b.records);
	if (gs_node_encode(&b.records, &b.moment) < 0)
		return -ENOMEM;
	n->seq++;
	slot = n->seq % KEPT_MAX;
	if (n->seq - n->acked > KEPT_MAX) { /* a real node has its spool for this */
		n->acked++;
		b.dropped++;
	}
	batch.seq = n->seq;
	batch.first_wall_ns = batch.last_wall_ns = (int64_t)wall_ns;
	batch.sample_count = 1;
	batch.codec = GPUSCOPE__V1__CODEC__CODEC_ZSTD;
	batch.raw_bytes = (uint32_t)b.records.bytes;
	batch.records.data = packed;
	batch.records.len =
		ZSTD_compress(packed, sizeof(packed), b.records.data, b.records.bytes, 1);
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_BATCH;
	m.batch = &batch;
	bytes = gpuscope__v1__to_head__get_packed_size(&m);
	free(n->kept[slot].message);
	n->kept[slot].message = malloc(bytes);
	if (!n->kept[slot].message)
		return -ENOMEM;
	n->kept[slot].bytes = gpuscope__v1__to_head__pack(&m, n->kept[slot].message);
	n->kept[slot].made_ns = gs_clock_mono_ns();
	b.bytes += bytes;
	b.raw_bytes += b.records.bytes;
	return 0;
}

static void pump(struct node *n)
{
	while (n->welcomed && n->sent < n->seq) {
		unsigned slot = (unsigned)((n->sent + 1) % KEPT_MAX);

		if (n->sent + 1 + KEPT_MAX <= n->seq) {
			n->sent++; /* dropped */
			continue;
		}
		if (gs_rpc_request_send(n->request, n->kept[slot].message, n->kept[slot].bytes) < 0)
			return;
		n->sent++;
	}
}

/* --- its end of the line --- */

static void on_ack(struct node *n, uint64_t seq)
{
	uint64_t now = gs_clock_mono_ns();

	for (; n->acked < seq && n->acked < n->seq; n->acked++)
		if (b.n_latency < b.n_latency_max)
			b.latency_ms[b.n_latency++] =
				(float)(now - n->kept[(n->acked + 1) % KEPT_MAX].made_ns) / 1e6f;
}

static void on_message(void *ctx, struct gs_rpc_request *request, const void *data, size_t bytes)
{
	Gpuscope__V1__ToNode *m = gpuscope__v1__to_node__unpack(NULL, bytes, data);
	struct node *n = ctx;

	if (!m)
		die("a message of the head");
	if (m->body_case == GPUSCOPE__V1__TO_NODE__BODY_WELCOME) {
		on_ack(n, m->welcome->last_seq);
		n->sent = m->welcome->last_seq;
		n->welcomed = true;
		b.n_welcomed++;
	} else if (m->body_case == GPUSCOPE__V1__TO_NODE__BODY_ACK) {
		on_ack(n, m->ack->seq);
	}
	gpuscope__v1__to_node__free_unpacked(m, NULL);
	pump(n);
}

static void on_ended(void *ctx, struct gs_rpc_request *request, enum gs_rpc_status status,
		     const char *text)
{
	struct node *n = ctx;

	n->request = NULL;
	n->welcomed = false;
	if (status < GS_ARRAY_LEN(b.ended_by))
		b.ended_by[status]++;
	/* As a node does: again, over another connection. */
	gs_rpc_client_disconnect(n->client, false);
}

static void on_connected(void *ctx, const char *address)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Hello hello = GPUSCOPE__V1__HELLO__INIT;
	struct node *n = ctx;
	struct gs_rpc_request_options o = {.size = sizeof(o),
					   .path = "/gpuscope.v1.Node/Link",
					   .events = {.message = on_message, .ended = on_ended},
					   .ctx = n};
	char name[32];
	uint8_t out[256];

	snprintf(name, sizeof(name), "node%05u", n->number);
	hello.protocol = 1;
	hello.machine_id = hello.hostname = name;
	hello.stream = 1;
	hello.kind = GPUSCOPE__V1__STREAM_KIND__STREAM_KIND_SAMPLES;
	hello.version = (char *)"bench";
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_HELLO;
	m.hello = &hello;
	if (gs_rpc_client_call(n->client, &o, &n->request) < 0 ||
	    gs_rpc_request_send(n->request, out, gpuscope__v1__to_head__pack(&m, out)) < 0)
		b.failures++;
}

static void on_disconnected(void *ctx, enum gs_rpc_status status, const char *why)
{
	struct node *n = ctx;

	n->request = NULL;
	n->welcomed = false;
	n->retry_ns =
		gs_clock_mono_ns() +
		gs_rpc_backoff_next_ns(&n->backoff, (uint64_t)rand() << 33 | (uint64_t)rand());
}

static void open_node(struct node *n, unsigned number, int epoll_fd)
{
	const char *const addresses[] = {head_address};
	struct gs_rpc_client_options o = {
		.size = sizeof(o),
		.addresses = addresses,
		.n_addresses = 1,
		.events = {.connected = on_connected, .disconnected = on_disconnected},
		.ctx = n,
	};
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = n};
	struct gs_err err;

	n->number = number;
	for (size_t i = 0; i < GS_ARRAY_LEN(n->wander); i++)
		n->wander[i] = (double)(rand() % 1000) / 1000;
	if (gs_rpc_client_new(&o, &n->client, &err) < 0) {
		fprintf(stderr, "cluster: %s\n", err.text);
		exit(1);
	}
	n->retry_ns = 0;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, gs_rpc_client_fd(n->client), &e) < 0)
		die("epoll_ctl");
}

/* --- the run --- */

static double cpu_s(pid_t pid)
{
	char path[64], line[1024];
	GS_FCLOSE FILE *f = NULL;
	unsigned long user = 0, kernel = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f))
		sscanf(strrchr(line, ')') + 2,
		       "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
	return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

static uint64_t peak_rss_bytes(pid_t pid)
{
	char path[64], line[256];
	GS_FCLOSE FILE *f = NULL;
	unsigned long long kib = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %llu", &kib) == 1)
			break;
	return kib * 1024;
}

static int by_value(const void *x, const void *y)
{
	float a = *(const float *)x, c = *(const float *)y;

	return (a > c) - (a < c);
}

static bool all_stored(void)
{
	for (unsigned i = 0; i < b.n_nodes; i++)
		if (b.node[i].acked < b.node[i].seq)
			return false;
	return true;
}

static void serve(int epoll_fd, uint64_t until_ns, bool make)
{
	struct epoll_event events[256];

	for (;;) {
		uint64_t now = gs_clock_mono_ns();
		int n_events;

		if (now >= until_ns || (!make && all_stored()))
			return;
		for (unsigned i = 0; i < b.n_nodes; i++) {
			struct node *n = &b.node[i];

			if (n->retry_ns <= now && !gs_rpc_client_connected(n->client)) {
				n->retry_ns = UINT64_MAX;
				if (gs_rpc_client_connect(n->client) < 0)
					b.failures++;
			}
			if (make && n->due_ns <= now) {
				n->due_ns += 1000000000ull;
				if (make_batch(n, gs_clock_wall_ns()) < 0)
					die("a batch");
				pump(n);
			}
			if (gs_rpc_client_next_ns(n->client) <= now)
				gs_rpc_client_work(n->client);
		}
		n_events = epoll_wait(epoll_fd, events, 256, 5);
		for (int i = 0; i < n_events; i++)
			gs_rpc_client_work(((struct node *)events[i].data.ptr)->client);
	}
}

int main(int argc, char **argv)
{
	struct rlimit files;
	uint64_t began, now, made = 0, stored = 0, back_ns = 0;
	double cpu_before, cpu = 0;
	uint64_t rss = 0;
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	if (argc < 7) {
		fprintf(stderr,
			"usage: cluster GPUSCOPE DATA NODES GPUS VALUES SECONDS [restart]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	choose_port();
	b.gpuscope = argv[1];
	b.data = argv[2];
	b.n_nodes = (unsigned)atoi(argv[3]);
	b.n_gpus = (unsigned)atoi(argv[4]);
	b.n_values = (unsigned)atoi(argv[5]);
	b.seconds = (uint64_t)atoi(argv[6]);
	if (!b.n_nodes || b.n_values > GS_GPU_FIELD_COUNT || epoll_fd < 0)
		return 2;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		die("getrlimit");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		die("setrlimit");
	b.records = GS_BUF_INIT(4 << 20);
	b.node = calloc(b.n_nodes, sizeof(*b.node));
	b.n_latency_max = b.n_nodes * (b.seconds + 10);
	b.latency_ms = malloc(b.n_latency_max * sizeof(*b.latency_ms));
	if (!b.node || !b.latency_ms || make_moment() < 0)
		die("memory");
	start_head();
	usleep(500000);
	if (waitpid(b.head, NULL, WNOHANG) > 0) {
		fprintf(stderr, "cluster: the head does not run\n");
		return 1;
	}
	began = gs_clock_mono_ns();
	for (unsigned i = 0; i < b.n_nodes; i++) {
		open_node(&b.node[i], i, epoll_fd);
		b.node[i].due_ns = UINT64_MAX;
	}
	while (b.n_welcomed < b.n_nodes && gs_clock_mono_ns() < began + 60000000000ull)
		serve(epoll_fd, gs_clock_mono_ns() + 50000000ull, true);
	cpu_before = cpu_s(b.head);
	began = gs_clock_mono_ns();
	for (unsigned i = 0; i < b.n_nodes; i++) /* clocks of nodes are not in step */
		b.node[i].due_ns = began + i * 1000000000ull / b.n_nodes;
	if (argc > 7) {
		serve(epoll_fd, began + b.seconds * 500000000ull, true);
		kill(b.head, SIGKILL);
		waitpid(b.head, NULL, 0);
		serve(epoll_fd, gs_clock_mono_ns() + 2000000000ull, true);
		b.n_welcomed = 0;
		start_head();
		now = gs_clock_mono_ns();
		while (b.n_welcomed < b.n_nodes && gs_clock_mono_ns() < now + 120000000000ull)
			serve(epoll_fd, gs_clock_mono_ns() + 50000000ull, true);
		back_ns = gs_clock_mono_ns() - now;
		cpu_before = 0;
		serve(epoll_fd, gs_clock_mono_ns() + b.seconds * 500000000ull, true);
	} else {
		serve(epoll_fd, began + b.seconds * 1000000000ull, true);
	}
	now = gs_clock_mono_ns();
	cpu = (cpu_s(b.head) - cpu_before) / ((double)(now - began) / 1e9);
	serve(epoll_fd, now + 30000000000ull, false); /* what is on its way */
	rss = peak_rss_bytes(b.head);
	for (unsigned i = 0; i < b.n_nodes; i++) {
		made += b.node[i].seq;
		stored += b.node[i].acked;
	}
	qsort(b.latency_ms, b.n_latency, sizeof(*b.latency_ms), by_value);
	printf("{\"nodes\": %u, \"gpus\": %u, \"values\": %u, \"seconds\": %llu, \"made\": %llu, "
	       "\"acknowledged\": %llu, \"dropped\": %llu, \"raw_bytes_each\": %.0f, "
	       "\"bytes_each\": %.0f, \"head_cpu_cores\": %.3f, \"head_rss_bytes\": %llu, "
	       "\"durable_p50_ms\": %.0f, \"durable_p99_ms\": %.0f, \"all_back_s\": %.1f}\n",
	       b.n_nodes, b.n_nodes * b.n_gpus, b.n_values, (unsigned long long)b.seconds,
	       (unsigned long long)made, (unsigned long long)(stored - b.dropped),
	       (unsigned long long)b.dropped, (double)b.raw_bytes / (double)made,
	       (double)b.bytes / (double)made, cpu, (unsigned long long)rss,
	       b.n_latency ? (double)b.latency_ms[b.n_latency / 2] : NAN,
	       b.n_latency ? (double)b.latency_ms[b.n_latency * 99 / 100] : NAN,
	       (double)back_ns / 1e9);
	for (unsigned i = 0; i < GS_ARRAY_LEN(b.ended_by); i++)
		if (b.ended_by[i])
			fprintf(stderr, "%llu streams ended: %s\n",
				(unsigned long long)b.ended_by[i],
				gs_rpc_status_name((enum gs_rpc_status)i));
	for (unsigned i = 0; i < b.n_nodes; i++)
		gs_rpc_client_free(&b.node[i].client);
	kill(b.head, SIGTERM);
	waitpid(b.head, NULL, 0);
	return stored - b.dropped == made - b.dropped ? 0 : 1;
}
