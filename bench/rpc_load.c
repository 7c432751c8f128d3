/*
 * Load for a gRPC server (bench/rpc.py): CONNECTIONS clients of the room rpc in one thread, each
 * with a stream of messages (Sum) or with eight calls at once (Echo), for some seconds.
 *
 *   rpc_load ADDRESS stream|unary CONNECTIONS BYTES SECONDS
 *     prints "MESSAGES SECONDS": those that the server has answered for
 */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "core/base/clock.h"
#include "net/grpc/grpc_client.h"

#define UNARY_AT_ONCE 8

struct load {
	struct gs_grpc_client *client;
	struct gs_grpc_request *stream;
	bool connected, over;
};

static struct load *loads;
static unsigned n_loads, n_connected, n_over;
static bool unary, ending;
static uint8_t *data;
static size_t bytes;
static uint64_t n_answered;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "rpc_load: %s: %s\n", what, why);
	exit(1);
}

static void send_more(void *ctx, struct gs_grpc_request *r)
{
	(void)ctx;
	while (!ending && gs_grpc_request_send(r, data, bytes) == 0)
		;
	if (ending)
		gs_grpc_request_end(r);
}

static void on_sum(void *ctx, struct gs_grpc_request *r, const void *answer, size_t n)
{
	char text[64] = "";

	(void)ctx, (void)r;
	memcpy(text, answer, n < sizeof(text) - 1 ? n : sizeof(text) - 1);
	n_answered += strtoull(text, NULL, 10);
}

static void begin_unary(struct load *l);

static void on_ended(void *ctx, struct gs_grpc_request *r, enum gs_grpc_status status,
		     const char *text)
{
	struct load *l = ctx;

	(void)r;
	if (status != GS_GRPC_OK)
		die(gs_grpc_status_name(status), text);
	if (!unary) {
		l->stream = NULL;
		n_over++;
		return;
	}
	n_answered++;
	if (!ending)
		begin_unary(l);
}

static void begin_unary(struct load *l)
{
	const struct gs_grpc_request_options o = {
		.size = sizeof(o), .path = "/t.T/Echo", .events.ended = on_ended, .ctx = l};

	if (gs_grpc_client_unary(l->client, &o, data, bytes, NULL) < 0)
		die("call", "refused");
}

static void on_connected(void *ctx, const char *address)
{
	(void)ctx, (void)address;
	n_connected++;
}

static void on_disconnected(void *ctx, enum gs_grpc_status status, const char *why)
{
	(void)ctx, (void)status;
	die("disconnected", why);
}

static void begin(struct load *l)
{
	const struct gs_grpc_request_options o = {.size = sizeof(o),
						  .path = "/t.T/Sum",
						  .events = {on_sum, send_more, on_ended},
						  .ctx = l};

	for (int i = 0; unary && i < UNARY_AT_ONCE; i++)
		begin_unary(l);
	if (unary)
		return;
	if (gs_grpc_client_call(l->client, &o, &l->stream) < 0)
		die("call", "refused");
	send_more(l, l->stream);
}

static void work(int epoll_fd)
{
	struct epoll_event events[256];
	int n = epoll_wait(epoll_fd, events, 256, 10);

	for (int i = 0; i < n; i++)
		gs_grpc_client_work(((struct load *)events[i].data.ptr)->client);
}

static void open_all(const char *address, int epoll_fd)
{
	for (unsigned i = 0; i < n_loads; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.ptr = &loads[i]};
		struct gs_grpc_client_options o = {.size = sizeof(o),
						   .addresses = &address,
						   .n_addresses = 1,
						   .events = {on_connected, NULL, on_disconnected},
						   .max_queue_bytes = 65536,
						   .connect_ns = 60000000000ULL};

		if (gs_grpc_client_new(&o, &loads[i].client, NULL) < 0 ||
		    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, gs_grpc_client_fd(loads[i].client), &e) < 0)
			die("client", "cannot be made");
		(void)gs_grpc_client_connect(loads[i].client);
		gs_grpc_client_work(loads[i].client);
	}
	while (n_connected < n_loads)
		work(epoll_fd);
}

int main(int argc, char **argv)
{
	struct rlimit files = {1 << 20, 1 << 20};
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	uint64_t start, end;

	if (argc != 6)
		die("usage", "rpc_load ADDRESS stream|unary CONNECTIONS BYTES SECONDS");
	(void)setrlimit(RLIMIT_NOFILE, &files);
	unary = strcmp(argv[2], "unary") == 0;
	n_loads = (unsigned)atoi(argv[3]);
	bytes = strtoull(argv[4], NULL, 10);
	loads = calloc(n_loads, sizeof(*loads));
	data = calloc(1, bytes + 1);
	if (!loads || !data)
		die("memory", "none");
	open_all(argv[1], epoll_fd);
	start = gs_clock_mono_ns();
	end = start + (uint64_t)(atof(argv[5]) * 1e9);
	for (unsigned i = 0; i < n_loads; i++) {
		begin(&loads[i]);
		gs_grpc_client_work(loads[i].client);
	}
	while (gs_clock_mono_ns() < end)
		work(epoll_fd);
	if (unary) {
		printf("%lu %.6f\n", n_answered, (double)(gs_clock_mono_ns() - start) / 1e9);
		return 0;
	}
	ending = true;
	for (unsigned i = 0; i < n_loads; i++)
		if (loads[i].stream)
			gs_grpc_request_end(loads[i].stream);
	for (unsigned i = 0; i < n_loads; i++)
		gs_grpc_client_work(loads[i].client);
	while (n_over < n_loads)
		work(epoll_fd);
	printf("%lu %.6f\n", n_answered, (double)(gs_clock_mono_ns() - start) / 1e9);
	return 0;
}
