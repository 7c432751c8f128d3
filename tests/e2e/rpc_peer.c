/*
 * The room rpc as a program, for tests against other implementations of gRPC:
 *
 * rpc_peer serve [--listen A]... [--cert F --key F [--ca F]] [--rate N] [--max-message N]
 *     [--max-queue N]
 *
 *   prints "listening ADDRESS" for each address; lines on stdin: "stats", "reload", "stop MS";
 *   "ended STATUS" for each call of Hang that is over
 *
 * rpc_peer call ADDRESS [--tls --ca F [--cert F --key F] [--name N]] [--token T] [--timeout MS]
 *     [--meta NAME VALUE]... PATH COUNT BYTES|=TEXT
 *
 *   sends COUNT messages and prints "message BYTES SUM" for each that comes, then "ended STATUS
 *   TEXT" and what it knows of metadata
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "net/grpc/grpc_client.h"

static uint32_t sum(const uint8_t *data, size_t bytes)
{
	uint32_t n = 1;

	for (size_t i = 0; i < bytes; i++)
		n = n * 31 + data[i];
	return n;
}

static void say(const char *fmt, ...) GS_PRINTF(1, 2);
static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	fflush(stdout);
}

/* --- the server --- */

static void on_echo(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	(void)ctx;
	(void)gs_grpc_call_reply(call, data, bytes);
}

static void *answer_later(void *arg)
{
	struct gs_grpc_call *call = arg;

	(void)gs_grpc_call_reply(call, "later", 5);
	gs_grpc_call_unref(&call);
	return NULL;
}

static void on_later(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	pthread_t thread;

	(void)ctx, (void)data, (void)bytes;
	if (pthread_create(&thread, NULL, answer_later, gs_grpc_call_ref(call)) == 0)
		pthread_detach(thread);
}

struct tally {
	uint64_t messages, bytes;
};

static void start_sum(void *ctx, struct gs_grpc_call *call)
{
	(void)ctx;
	gs_grpc_call_set_user(call, calloc(1, sizeof(struct tally)));
}

static void on_sum(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	struct tally *t = gs_grpc_call_user(call);

	(void)ctx, (void)data;
	t->messages++;
	t->bytes += bytes;
}

static void end_sum(void *ctx, struct gs_grpc_call *call)
{
	struct tally *t = gs_grpc_call_user(call);
	char text[80];

	(void)ctx;
	snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)t->messages,
		 (unsigned long long)t->bytes);
	(void)gs_grpc_call_reply(call, text, strlen(text));
}

static void free_user(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status)
{
	(void)ctx, (void)status;
	free(gs_grpc_call_user(call));
}

/* Each message back; when it does not fit the client is read no further. */
static void on_talk(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	(void)ctx;
	if (gs_grpc_call_send(call, data, bytes) == -ENOBUFS)
		(void)gs_grpc_call_finish(call, GS_GRPC_RESOURCE_EXHAUSTED, "you do not read");
}

static void end_talk(void *ctx, struct gs_grpc_call *call)
{
	(void)ctx;
	(void)gs_grpc_call_finish(call, GS_GRPC_OK, NULL);
}

/* "COUNT BYTES": as many messages as wanted, as fast as they are read. */
struct many {
	uint64_t left;
	size_t bytes;
	uint8_t *data;
};

static void more_many(void *ctx, struct gs_grpc_call *call)
{
	struct many *m = gs_grpc_call_user(call);

	(void)ctx;
	while (m && m->left && gs_grpc_call_send(call, m->data, m->bytes) == 0)
		m->left--;
	if (m && !m->left)
		(void)gs_grpc_call_finish(call, GS_GRPC_OK, NULL);
}

static void on_many(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	struct many *m = calloc(1, sizeof(*m));
	char text[64] = "";

	memcpy(text, data, bytes < sizeof(text) - 1 ? bytes : sizeof(text) - 1);
	if (!m || sscanf(text, "%lu %zu", &m->left, &m->bytes) != 2 ||
	    !(m->data = calloc(1, m->bytes + 1))) {
		free(m);
		(void)gs_grpc_call_finish(call, GS_GRPC_INVALID_ARGUMENT, "COUNT BYTES");
		return;
	}
	gs_grpc_call_set_user(call, m);
	more_many(ctx, call);
}

static void closed_many(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status)
{
	struct many *m = gs_grpc_call_user(call);

	(void)ctx, (void)status;
	if (m)
		free(m->data);
	free(m);
}

static void on_fail(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	char text[512] = "", *end;
	unsigned long status;

	(void)ctx;
	memcpy(text, data, bytes < sizeof(text) - 1 ? bytes : sizeof(text) - 1);
	status = strtoul(text, &end, 10);
	(void)gs_grpc_call_finish(call, (enum gs_grpc_status)status, *end == ' ' ? end + 1 : end);
}

static void on_meta(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	static const uint8_t binary[] = {0, 255, 1, 254};
	struct gs_grpc_metadata m;
	char text[4096] = "";
	size_t n = 0;

	(void)ctx, (void)data, (void)bytes;
	for (size_t i = 0; gs_grpc_call_metadata_at(call, i, &m) && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s=%s\n", m.name, m.value);
	n += (size_t)snprintf(text + n, sizeof(text) - n, "peer=%s\nidentity=%s\n",
			      gs_grpc_call_peer(call),
			      gs_grpc_call_identity(call) ? gs_grpc_call_identity(call) : "");
	(void)gs_grpc_call_header(call, "x-header", "first", 5);
	(void)gs_grpc_call_trailer(call, "x-trailer", "last", 4);
	(void)gs_grpc_call_trailer(call, "x-some-bin", binary, sizeof(binary));
	(void)gs_grpc_call_reply(call, text, strlen(text));
}

static void on_hang(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	(void)ctx, (void)data, (void)bytes;
	say("hanging %s\n", gs_grpc_call_deadline_ns(call) == UINT64_MAX ? "for ever" : "a while");
}

static void closed_hang(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status)
{
	(void)ctx, (void)call;
	say("ended %s\n", gs_grpc_status_name(status));
}

static enum gs_grpc_status check_token(void *ctx, const struct gs_grpc_call *call,
				       const struct gs_grpc_method *method, const char *token)
{
	(void)ctx, (void)call;
	if (method->role == 0)
		return GS_GRPC_OK;
	if (!token)
		return GS_GRPC_UNAUTHENTICATED;
	return strcmp(token, "secret") == 0 ? GS_GRPC_OK : GS_GRPC_PERMISSION_DENIED;
}

static const struct gs_grpc_method methods[] = {
	{.path = "/t.T/Echo", .kind = GS_GRPC_UNARY, .message = on_echo},
	{.path = "/t.T/Later", .kind = GS_GRPC_UNARY, .message = on_later},
	{.path = "/t.T/Fail", .kind = GS_GRPC_UNARY, .message = on_fail},
	{.path = "/t.T/Meta", .kind = GS_GRPC_UNARY, .message = on_meta},
	{.path = "/t.T/Secret", .kind = GS_GRPC_UNARY, .role = 1, .message = on_echo},
	{.path = "/t.T/Hang", .kind = GS_GRPC_STREAM, .message = on_hang, .closed = closed_hang},
	{.path = "/t.T/Sum",
	 .kind = GS_GRPC_STREAM,
	 .start = start_sum,
	 .message = on_sum,
	 .half_closed = end_sum,
	 .closed = free_user},
	{.path = "/t.T/Talk", .kind = GS_GRPC_STREAM, .message = on_talk, .half_closed = end_talk},
	{.path = "/t.T/Many",
	 .kind = GS_GRPC_UNARY,
	 .message = on_many,
	 .writable = more_many,
	 .closed = closed_many},
};

static void say_stats(const struct gs_grpc_server *server)
{
	struct gs_grpc_stats s;

	gs_grpc_server_stats(server, &s);
	say("{\"connections\": %lu, \"connections_now\": %lu, \"calls\": %lu, \"calls_now\": %lu, "
	    "\"messages_in\": %lu, \"messages_out\": %lu, \"message_bytes_in\": %lu, "
	    "\"message_bytes_out\": %lu, \"queued_bytes_now\": %lu, \"held_bytes_now\": %lu, "
	    "\"throttled\": %lu",
	    s.connections, s.connections_now, s.calls, s.calls_now, s.messages_in, s.messages_out,
	    s.message_bytes_in, s.message_bytes_out, s.queued_bytes_now, s.held_bytes_now,
	    s.throttled);
	for (int i = 1; i < GS_GRPC_REFUSAL_COUNT; i++)
		say(", \"%s\": %lu", gs_grpc_refusal_name(i), s.refused[i]);
	say("}\n");
}

static int fail(const struct gs_err *err, int r)
{
	fprintf(stderr, "rpc_peer: %s\n", gs_err_text(err, r));
	return 1;
}

static int serve(int argc, char **argv)
{
	const char *listen[GS_GRPC_LISTEN_MAX] = {"127.0.0.1:0"};
	struct gs_grpc_server_options o = {.size = sizeof(o),
					   .listen = listen,
					   .methods = methods,
					   .n_methods = GS_ARRAY_LEN(methods),
					   .authorize = check_token};
	struct gs_grpc_server *server = NULL;
	struct gs_err err = {0};
	char line[64];
	int r;

	for (int i = 0; i + 1 < argc; i += 2) {
		const char *k = argv[i], *v = argv[i + 1];

		if (strcmp(k, "--listen") == 0)
			listen[o.n_listen++] = v;
		else if (strcmp(k, "--cert") == 0)
			o.tls_cert = v;
		else if (strcmp(k, "--key") == 0)
			o.tls_key = v;
		else if (strcmp(k, "--ca") == 0)
			o.tls_client_ca = v;
		else if (strcmp(k, "--rate") == 0)
			o.messages_per_second = atof(v);
		else if (strcmp(k, "--max-message") == 0)
			o.max_message_bytes = (size_t)atol(v);
		else if (strcmp(k, "--max-queue") == 0)
			o.max_queue_bytes = (size_t)atol(v);
	}
	o.n_listen = o.n_listen ? o.n_listen : 1;
	r = gs_grpc_server_start(&o, &server, &err);
	if (r < 0)
		return fail(&err, r);
	for (size_t i = 0; gs_grpc_server_address(server, i); i++)
		say("listening %s\n", gs_grpc_server_address(server, i));
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "stats", 5) == 0) {
			say_stats(server);
		} else if (strncmp(line, "reload", 6) == 0) {
			r = gs_grpc_server_reload_tls(server, &err);
			say("reloaded %s\n", r < 0 ? err.text : "");
		} else if (strncmp(line, "stop", 4) == 0) {
			gs_grpc_server_stop(&server, strtoull(line + 4, NULL, 10) * 1000000);
			say("stopped\n");
			return 0;
		}
	}
	gs_grpc_server_stop(&server, 0);
	return 0;
}

/* --- the client --- */

struct caller {
	struct gs_grpc_client *client;
	struct gs_grpc_request_options call;
	struct gs_grpc_request *request;
	uint64_t left;
	uint8_t *data;
	size_t bytes;
	bool done;
	int rc;
};

static void send_more(void *ctx, struct gs_grpc_request *request)
{
	struct caller *c = ctx;

	while (c->left && gs_grpc_request_send(request, c->data, c->bytes) == 0)
		c->left--;
	if (!c->left)
		gs_grpc_request_end(request);
}

static void on_message(void *ctx, struct gs_grpc_request *request, const void *data, size_t bytes)
{
	(void)ctx, (void)request;
	say("message %zu %u", bytes, sum(data, bytes));
	if (bytes < 100)
		say(" %.*s", (int)bytes, (const char *)data);
	say("\n");
}

static void on_ended(void *ctx, struct gs_grpc_request *request, enum gs_grpc_status status,
		     const char *text)
{
	struct caller *c = ctx;
	const char *trailer = gs_grpc_request_metadata(request, "x-trailer");

	say("ended %s %s\n", gs_grpc_status_name(status), text);
	if (trailer)
		say("trailer %s\n", trailer);
	c->rc = (int)status;
	c->request = NULL;
	gs_grpc_client_disconnect(c->client, true);
}

static void on_connected(void *ctx, const char *address)
{
	struct caller *c = ctx;
	int r = gs_grpc_client_call(c->client, &c->call, &c->request);

	say("connected %s\n", address);
	if (r < 0) {
		say("refused %s\n", strerror(-r));
		c->rc = 100;
		gs_grpc_client_disconnect(c->client, true);
		return;
	}
	send_more(c, c->request);
}

static void on_disconnected(void *ctx, enum gs_grpc_status status, const char *why)
{
	struct caller *c = ctx;

	say("disconnected %s %s\n", gs_grpc_status_name(status), why);
	if (status != GS_GRPC_OK && c->rc == 0)
		c->rc = 101;
	c->done = true;
}

static int call(int argc, char **argv)
{
	static struct gs_grpc_metadata metadata[16];
	const char *addresses[1] = {argv[0]};
	struct caller c = {.call = {.size = sizeof(c.call),
				    .events = {on_message, send_more, on_ended},
				    .ctx = &c,
				    .metadata = metadata}};
	struct gs_grpc_client_options o = {.size = sizeof(o),
					   .addresses = addresses,
					   .n_addresses = 1,
					   .events = {on_connected, NULL, on_disconnected},
					   .ctx = &c,
					   .max_message_bytes = 64U << 20};
	struct gs_err err = {0};
	int i = 1, r;

	for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		const char *k = argv[i];

		if (strcmp(k, "--tls") == 0)
			o.tls = true;
		else if (strcmp(k, "--ca") == 0)
			o.tls_ca = argv[++i];
		else if (strcmp(k, "--cert") == 0)
			o.tls_cert = argv[++i];
		else if (strcmp(k, "--key") == 0)
			o.tls_key = argv[++i];
		else if (strcmp(k, "--name") == 0)
			o.server_name = argv[++i];
		else if (strcmp(k, "--token") == 0)
			o.token = argv[++i];
		else if (strcmp(k, "--timeout") == 0)
			c.call.timeout_ns = strtoull(argv[++i], NULL, 10) * 1000000;
		else if (strcmp(k, "--meta") == 0 && i + 2 < argc) {
			metadata[c.call.n_metadata++] =
				(struct gs_grpc_metadata){argv[i + 1], argv[i + 2]};
			i += 2;
		}
	}
	if (i + 3 != argc)
		return 2;
	c.call.path = argv[i];
	c.left = strtoull(argv[i + 1], NULL, 10);
	c.bytes = argv[i + 2][0] == '=' ? strlen(argv[i + 2] + 1) : strtoull(argv[i + 2], NULL, 10);
	c.data = malloc(c.bytes + 1);
	if (!c.data)
		return 1;
	for (size_t n = 0; n < c.bytes; n++)
		c.data[n] = argv[i + 2][0] == '=' ? (uint8_t)argv[i + 2][n + 1] : (uint8_t)n;
	r = gs_grpc_client_new(&o, &c.client, &err);
	if (r < 0)
		return fail(&err, r);
	r = gs_grpc_client_connect(c.client);
	while (r == 0 && !c.done)
		gs_grpc_client_wait(c.client, 1000000000);
	gs_grpc_client_free(&c.client);
	free(c.data);
	return c.rc;
}

int main(int argc, char **argv)
{
	if (argc >= 2 && strcmp(argv[1], "serve") == 0)
		return serve(argc - 2, argv + 2);
	if (argc >= 3 && strcmp(argv[1], "call") == 0)
		return call(argc - 2, argv + 2);
	fprintf(stderr, "usage: rpc_peer serve ... | call ADDRESS ...\n");
	return 2;
}
