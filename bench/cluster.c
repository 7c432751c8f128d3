/*
 * cluster: many nodes that deliver to one head over real connections, each with GPUs whose values
 * wander once a second. What they deliver is made before it is due, so that the load costs little
 * more than sending it. bench/cluster.py starts heads and several of these.
 *
 *   cluster HEAD:PORT FIRST NODES GPUS VALUES SECONDS [now]
 *
 * VALUES 0: each GPU is a rank of one job over all nodes instead, whose sums are delivered (RANK records),
 * and of which number 3 is late by a tenth of a second.
 *
 * FIRST: number of the first node, so that several of these are different nodes. It says one JSON
 * object a line: {"event": "ready"} when all nodes are connected and everything is made; then it
 * waits for a line on standard input (unless: now) and delivers; {"event": "back"} each time all
 * nodes are connected again after a loss; at the end, when all of it is acknowledged or 30 s have
 * passed, what was delivered and how long each batch took until it was durable.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zstd.h>

#include "core/base/clock.h"
#include "core/base/map.h"
#include "core/base/mem.h"
#include "gpuscope.pb-c.h"
#include "model/nccl/rank.h"
#include "model/node/record.h"
#include "net/grpc/grpc_client.h"

#define SECOND_NS    1000000000ull
#define LATENCIES_MS 60000

struct batch {
	uint8_t *message; /* owned until it is acknowledged */
	size_t bytes;
	uint64_t made_ns;
};

struct node {
	struct gs_grpc_client *client;
	struct gs_grpc_request *request;
	struct gs_grpc_backoff backoff;
	uint64_t retry_ns;
	unsigned number;
	bool welcomed;
	uint64_t seq, acked;   /* made; stored */
	uint64_t sent;         /* on this connection */
	struct batch *batches; /* of number i: at i - 1 */
	double wander[64];
};

static struct {
	const char *head_address;
	unsigned first, n_nodes, n_gpus, n_values;
	uint64_t seconds;
	struct node *node;
	struct gs_node_snapshot moment;
	struct gs_buf records;
	uint32_t latency_ms[LATENCIES_MS + 1], lag_ms[LATENCIES_MS + 1]; /* how often */
	uint64_t n_due; /* in turn: node n_due % n_nodes */
	uint64_t began_ns, look_ns;
	uint64_t bytes, raw_bytes, failures, ended_by[17];
	unsigned n_welcomed;
	bool were_all;
} b;

static void die(const char *what)
{
	fprintf(stderr, "cluster: %s: %s\n", what, strerror(errno));
	exit(1);
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
		memset(g->sample[i].why, GS_GPU_REASON_NOT_READ, sizeof(g->sample[i].why));
	}
	h->sample.n_cpus = 128;
	h->sample.mem_total_bytes = 2ll << 40;
	b.moment.gpu = g;
	b.moment.host = h;
	return 0;
}

static void measure(struct node *n, uint64_t seq, int64_t wall_ns)
{
	struct gs_gpu_snapshot *g = b.moment.gpu;

	snprintf(b.moment.name, sizeof(b.moment.name), "node%05u", n->number);
	b.moment.wall_ns = wall_ns;
	b.moment.time_ns = gs_clock_boot_ns();
	b.moment.host->sample.cpu_ratio = 0.3 + 0.001 * (double)(seq % 100);
	for (unsigned i = 0; i < b.n_gpus; i++) {
		snprintf(g->info[i].uuid, sizeof(g->info[i].uuid), "GPU-%08x-0000-0000-0000-%012x",
			 n->number, i);
		g->sample[i].time_ns = b.moment.time_ns;
		for (unsigned k = 0; k < b.n_values; k++) {
			double *w = &n->wander[(i * 7 + k) % GS_ARRAY_LEN(n->wander)];

			*w += (double)(rand() % 2001 - 1000) / 1e5;
			*w = fmin(fmax(*w, 0), 1);
			/* As drivers report them: whole percents, whole watts. */
			gs_gpu_set(&g->sample[i], (enum gs_gpu_field)k, round(*w * 1000) / 1000);
		}
	}
}

/* As of its seq-th second, in each of which it made one collective. */
static int put_ranks(const struct node *n, uint64_t seq, int64_t wall_ns)
{
	const uint64_t boot_ns = 1000 * SECOND_NS;
	const uint32_t all_reduce_hash = (uint32_t)gs_hash_bytes("ncclAllReduce", 13);
	static int64_t first_wall_ns;

	/* One clock, though nodes deliver at different times of a second. */
	if (!first_wall_ns)
		first_wall_ns = wall_ns;
	for (unsigned i = 0; i < b.n_gpus; i++) {
		struct gs_rec_rank *r =
			gs_record_put(&b.records, GS_REC_RANK, sizeof(*r), sizeof(r->listed[0]));
		unsigned rank = (n->number - b.first) * b.n_gpus + i;
		uint64_t late_ns = rank == 3 ? SECOND_NS / 10 : 0;

		if (!r)
			return -ENOMEM;
		r->id_hash = 1;
		r->rank = (int32_t)rank;
		r->n_ranks = (int32_t)(b.n_nodes * b.n_gpus);
		r->pid = 1000 + i;
		r->time_ns = boot_ns + (seq + 1) * SECOND_NS;
		r->wall_minus_boot_ns = first_wall_ns - (int64_t)boot_ns;
		r->calls = r->mark = seq;
		r->n_listed = 1;
		r->listed[0] = (struct gs_rank_call){
			.count = 1024, .aux = 7 | 0xffffu << 16, .function_hash = all_reduce_hash};
		r->last_ns = r->mark_ns = boot_ns + seq * SECOND_NS + late_ns;
		r->arrivals_ns = seq * (boot_ns + late_ns) + seq * (seq + 1) / 2 * SECOND_NS;
		snprintf(r->last_name, sizeof(r->last_name), "ncclAllReduce");
		snprintf(r->job, sizeof(r->job), "4711");
	}
	return 0;
}

static int put_records(struct node *n, uint64_t seq, int64_t wall_ns)
{
	gs_buf_reset(&b.records);
	if (!b.n_values)
		return put_ranks(n, seq, wall_ns);
	measure(n, seq, wall_ns);
	return gs_node_encode(&b.records, &b.moment);
}

static int make_batch(struct node *n, uint64_t seq, int64_t wall_ns)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Batch batch = GPUSCOPE__V1__BATCH__INIT;
	struct batch *made = &n->batches[seq - 1];
	static uint8_t packed[1 << 20];

	if (put_records(n, seq, wall_ns) < 0)
		return -ENOMEM;
	batch.seq = seq;
	batch.first_wall_ns = batch.last_wall_ns = wall_ns;
	batch.sample_count = 1;
	batch.codec = GPUSCOPE__V1__CODEC__CODEC_ZSTD;
	batch.raw_bytes = (uint32_t)b.records.bytes;
	batch.records.data = packed;
	batch.records.len =
		ZSTD_compress(packed, sizeof(packed), b.records.data, b.records.bytes, 1);
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_BATCH;
	m.batch = &batch;
	made->message = malloc(gpuscope__v1__to_head__get_packed_size(&m));
	if (!made->message)
		return -ENOMEM;
	made->bytes = gpuscope__v1__to_head__pack(&m, made->message);
	b.bytes += made->bytes;
	b.raw_bytes += b.records.bytes;
	return 0;
}

static void pump(struct node *n)
{
	while (n->welcomed && n->sent < n->seq) {
		const struct batch *next = &n->batches[n->sent];

		if (gs_grpc_request_send(n->request, next->message, next->bytes) < 0)
			return;
		n->sent++;
	}
}

static void count_ms(uint32_t *counts, uint64_t ns)
{
	uint64_t ms = ns / 1000000;

	counts[ms < LATENCIES_MS ? ms : LATENCIES_MS]++;
}

/* --- its end of the line --- */

static void on_ack(struct node *n, uint64_t seq)
{
	uint64_t now = gs_clock_mono_ns();

	for (; n->acked < seq && n->acked < n->seq; n->acked++) {
		count_ms(b.latency_ms, now - n->batches[n->acked].made_ns);
		gs_free_p(&n->batches[n->acked].message);
	}
}

static void answer_clock(struct node *n, uint64_t id)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__ClockReply reply = GPUSCOPE__V1__CLOCK_REPLY__INIT;
	uint8_t out[64];

	reply.id = id;
	reply.receive_wall_ns = reply.send_wall_ns = (int64_t)gs_clock_wall_ns();
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_CLOCK;
	m.clock = &reply;
	if (gs_grpc_request_send(n->request, out, gpuscope__v1__to_head__pack(&m, out)) < 0)
		b.failures++;
}

static void on_message(void *ctx, struct gs_grpc_request *request, const void *data, size_t bytes)
{
	Gpuscope__V1__ToNode *m = gpuscope__v1__to_node__unpack(NULL, bytes, data);
	struct node *n = ctx;

	if (!m)
		die("a message of the head");
	if (m->body_case == GPUSCOPE__V1__TO_NODE__BODY_WELCOME) {
		on_ack(n, m->welcome->last_seq);
		n->sent = n->acked;
		b.n_welcomed += !n->welcomed;
		n->welcomed = true;
	} else if (m->body_case == GPUSCOPE__V1__TO_NODE__BODY_ACK) {
		on_ack(n, m->ack->seq);
	} else if (m->body_case == GPUSCOPE__V1__TO_NODE__BODY_CLOCK && !b.n_values) {
		answer_clock(n, m->clock->id);
	}
	gpuscope__v1__to_node__free_unpacked(m, NULL);
	pump(n);
}

static void not_welcome(struct node *n)
{
	n->request = NULL;
	b.n_welcomed -= n->welcomed;
	n->welcomed = false;
}

static void on_ended(void *ctx, struct gs_grpc_request *request, enum gs_grpc_status status,
		     const char *text)
{
	struct node *n = ctx;

	not_welcome(n);
	if (status < GS_ARRAY_LEN(b.ended_by))
		b.ended_by[status]++;
	/* As a node does: again, over another connection. */
	gs_grpc_client_disconnect(n->client, false);
}

static void on_connected(void *ctx, const char *address)
{
	Gpuscope__V1__ToHead m = GPUSCOPE__V1__TO_HEAD__INIT;
	Gpuscope__V1__Hello hello = GPUSCOPE__V1__HELLO__INIT;
	struct node *n = ctx;
	struct gs_grpc_request_options o = {.size = sizeof(o),
					    .path = "/gpuscope.v1.Node/Link",
					    .events = {.message = on_message, .ended = on_ended},
					    .ctx = n};
	char name[32];
	uint8_t out[256];

	snprintf(name, sizeof(name), "node%05u", n->number);
	hello.protocol = 1;
	hello.machine_id = hello.hostname = name;
	hello.stream = 1;
	hello.kind = b.n_values ? GPUSCOPE__V1__STREAM_KIND__STREAM_KIND_SAMPLES
				: GPUSCOPE__V1__STREAM_KIND__STREAM_KIND_TRACE;
	hello.version = (char *)"bench";
	m.body_case = GPUSCOPE__V1__TO_HEAD__BODY_HELLO;
	m.hello = &hello;
	if (gs_grpc_client_call(n->client, &o, &n->request) < 0 ||
	    gs_grpc_request_send(n->request, out, gpuscope__v1__to_head__pack(&m, out)) < 0)
		b.failures++;
}

static void on_disconnected(void *ctx, enum gs_grpc_status status, const char *why)
{
	struct node *n = ctx;

	not_welcome(n);
	n->retry_ns =
		gs_clock_mono_ns() +
		gs_grpc_backoff_next_ns(&n->backoff, (uint64_t)rand() << 33 | (uint64_t)rand());
}

static void open_node(struct node *n, unsigned number, int epoll_fd)
{
	const char *const addresses[] = {b.head_address};
	struct gs_grpc_client_options o = {
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
	if (gs_grpc_client_new(&o, &n->client, &err) < 0) {
		fprintf(stderr, "cluster: %s\n", err.text);
		exit(1);
	}
	n->batches = calloc(b.seconds, sizeof(*n->batches));
	if (!n->batches)
		die("memory");
	n->retry_ns = 0;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, gs_grpc_client_fd(n->client), &e) < 0)
		die("epoll_ctl");
}

/* --- the run --- */

static bool all_stored(void)
{
	for (unsigned i = 0; i < b.n_nodes; i++)
		if (b.node[i].acked < b.node[i].seq)
			return false;
	return true;
}

/* Those whose time has come: one after the other, evenly over the second, as clocks of nodes are
 * not in step. */
static void deliver_due(uint64_t now)
{
	while (b.n_due < b.n_nodes * b.seconds) {
		uint64_t due = b.began_ns + b.n_due * SECOND_NS / b.n_nodes;
		struct node *n = &b.node[b.n_due % b.n_nodes];

		if (due > now)
			return;
		count_ms(b.lag_ms, now - due);
		n->batches[n->seq++].made_ns = now;
		b.n_due++;
		pump(n);
	}
}

/* What has no event: connecting again, timers of connections. */
static void look_at_all(uint64_t now)
{
	for (unsigned i = 0; i < b.n_nodes; i++) {
		struct node *n = &b.node[i];

		if (n->retry_ns <= now && !gs_grpc_client_connected(n->client)) {
			n->retry_ns = UINT64_MAX;
			if (gs_grpc_client_connect(n->client) < 0)
				b.failures++;
		}
		if (gs_grpc_client_next_ns(n->client) <= now)
			gs_grpc_client_work(n->client);
	}
	b.look_ns = now + SECOND_NS / 20;
}

static void serve(int epoll_fd, uint64_t now)
{
	struct epoll_event events[256];
	int n_events;

	if (b.began_ns)
		deliver_due(now);
	if (b.look_ns <= now)
		look_at_all(now);
	n_events = epoll_wait(epoll_fd, events, 256, 2);
	for (int i = 0; i < n_events; i++)
		gs_grpc_client_work(((struct node *)events[i].data.ptr)->client);
	if (b.began_ns && !b.were_all && b.n_welcomed == b.n_nodes) {
		printf("{\"event\": \"back\"}\n");
		fflush(stdout);
	}
	b.were_all = b.n_welcomed == b.n_nodes;
}

/* All that will be delivered, with the times that it will have then. */
static void make_all(int epoll_fd)
{
	uint64_t began = gs_clock_mono_ns(), total = b.seconds * b.n_nodes, made = 0;
	int64_t start = 0;

	for (uint64_t s = 0; s < b.seconds; s++)
		for (unsigned i = 0; i < b.n_nodes; i++, made++) {
			uint64_t now = gs_clock_mono_ns();

			/* Again when it is known how long it takes. */
			if (made == 0 || made == 100) {
				double left =
					made ? (double)(now - began) * (double)total / 100 : 0;

				start = (int64_t)gs_clock_wall_ns() + (int64_t)left;
			}
			if (make_batch(&b.node[i], s + 1,
				       start + (int64_t)(s * SECOND_NS +
							 i * SECOND_NS / b.n_nodes)) < 0)
				die("a batch");
			if (made % 64 == 0)
				serve(epoll_fd, now);
		}
}

static void say_counts(const char *key, const uint32_t *counts)
{
	const char *comma = "";

	printf("\"%s\": {", key);
	for (unsigned ms = 0; ms <= LATENCIES_MS; ms++)
		if (counts[ms]) {
			printf("%s\"%u\": %u", comma, ms, counts[ms]);
			comma = ", ";
		}
	printf("}");
}

static double cpu_s(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void say_result(double cpu_before, uint64_t took_ns)
{
	uint64_t made = 0, stored = 0;

	for (unsigned i = 0; i < b.n_nodes; i++) {
		made += b.node[i].seq;
		stored += b.node[i].acked;
	}
	printf("{\"event\": \"end\", \"made\": %llu, \"acknowledged\": %llu, \"raw_bytes\": %llu, "
	       "\"bytes\": %llu, \"cpu_cores\": %.3f, \"failures\": %llu, \"ended\": {",
	       (unsigned long long)made, (unsigned long long)stored,
	       (unsigned long long)b.raw_bytes, (unsigned long long)b.bytes,
	       (cpu_s() - cpu_before) / ((double)took_ns / 1e9), (unsigned long long)b.failures);
	for (unsigned i = 0, n = 0; i < GS_ARRAY_LEN(b.ended_by); i++)
		if (b.ended_by[i])
			printf("%s\"%s\": %llu", n++ ? ", " : "",
			       gs_grpc_status_name((enum gs_grpc_status)i),
			       (unsigned long long)b.ended_by[i]);
	printf("}, ");
	say_counts("durable_ms", b.latency_ms);
	printf(", ");
	say_counts("lag_ms", b.lag_ms);
	printf("}\n");
	fflush(stdout);
}

static void start(int argc, char **argv)
{
	struct rlimit files;

	signal(SIGPIPE, SIG_IGN);
	b.head_address = argv[1];
	b.first = (unsigned)atoi(argv[2]);
	b.n_nodes = (unsigned)atoi(argv[3]);
	b.n_gpus = (unsigned)atoi(argv[4]);
	b.n_values = (unsigned)atoi(argv[5]);
	b.seconds = (uint64_t)atoi(argv[6]);
	if (!b.n_nodes || !b.seconds || b.n_values > GS_GPU_FIELD_COUNT) {
		fprintf(stderr, "cluster: NODES and SECONDS are at least 1, VALUES at most %u\n",
			GS_GPU_FIELD_COUNT);
		exit(2);
	}
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		die("getrlimit");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		die("setrlimit");
	srand(b.first + 1);
	b.records = GS_BUF_INIT(4 << 20);
	b.node = calloc(b.n_nodes, sizeof(*b.node));
	if (!b.node || make_moment() < 0)
		die("memory");
}

int main(int argc, char **argv)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct pollfd in = {STDIN_FILENO, POLLIN, 0};
	uint64_t now, end_ns = UINT64_MAX;
	double cpu_before;

	if (argc < 7 || epoll_fd < 0) {
		fprintf(stderr, "usage: cluster HEAD:PORT FIRST NODES GPUS VALUES SECONDS [now]\n");
		return 2;
	}
	start(argc, argv);
	for (unsigned i = 0; i < b.n_nodes; i++)
		open_node(&b.node[i], b.first + i, epoll_fd);
	make_all(epoll_fd);
	while (b.n_welcomed < b.n_nodes)
		serve(epoll_fd, gs_clock_mono_ns());
	printf("{\"event\": \"ready\"}\n");
	fflush(stdout);
	while (argc < 8 && poll(&in, 1, 0) == 0)
		serve(epoll_fd, gs_clock_mono_ns());
	cpu_before = cpu_s();
	b.began_ns = now = gs_clock_mono_ns();
	while (now < end_ns && !(b.n_due == b.n_nodes * b.seconds && all_stored())) {
		serve(epoll_fd, now);
		if (end_ns == UINT64_MAX && b.n_due == b.n_nodes * b.seconds)
			end_ns = now + 30 * SECOND_NS; /* for what is on its way */
		now = gs_clock_mono_ns();
	}
	say_result(cpu_before, now - b.began_ns);
	return all_stored() ? 0 : 1;
}
