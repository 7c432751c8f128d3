/* Calls between our own two ends, over loopback. */
#include "grpc_pair.h"

#include <netinet/in.h>
#include <sys/socket.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gs_grpc_call *kept[4096];
static atomic_uint n_kept, n_closed, n_writable;
static atomic_int closed_status;

static void on_echo(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	(void)ctx;
	assert_int_equal(gs_grpc_call_reply(call, data, bytes), 0);
	assert_int_equal(gs_grpc_call_send(call, data, bytes), -EPIPE);
	assert_int_equal(gs_grpc_call_finish(call, GS_GRPC_OK, NULL), -EPIPE);
}

static void on_keep(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	(void)ctx, (void)data, (void)bytes;
	pthread_mutex_lock(&lock);
	kept[n_kept] = gs_grpc_call_ref(call);
	n_kept++;
	pthread_mutex_unlock(&lock);
}

static void on_closed(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status)
{
	(void)ctx;
	assert_true(gs_grpc_call_over(call));
	closed_status = (int)status;
	n_closed++;
}

static void on_pour(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	static const char piece[10000];

	(void)ctx, (void)data, (void)bytes;
	while (gs_grpc_call_send(call, piece, sizeof(piece)) == 0)
		;
}

static void on_writable(void *ctx, struct gs_grpc_call *call)
{
	struct gs_grpc_flow flow;

	gs_grpc_call_flow(call, &flow);
	assert_true(flow.queued_bytes <= 50000);
	n_writable++;
	on_pour(ctx, call, NULL, 0);
}

static atomic_uint n_paused_messages;

static void start_paused(void *ctx, struct gs_grpc_call *call)
{
	(void)ctx;
	gs_grpc_call_pause(call);
	on_keep(ctx, call, NULL, 0);
}

static void on_paused(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	(void)ctx, (void)call, (void)data, (void)bytes;
	n_paused_messages++;
}

static void finish_ok(void *ctx, struct gs_grpc_call *call)
{
	(void)ctx;
	gs_grpc_call_finish(call, GS_GRPC_OK, "all");
}

static const struct gs_grpc_method methods[] = {
	{.path = "/t/Echo", .kind = GS_GRPC_UNARY, .message = on_echo, .closed = on_closed},
	{.path = "/t/Keep", .kind = GS_GRPC_STREAM, .message = on_keep, .closed = on_closed},
	{.path = "/t/Pour",
	 .kind = GS_GRPC_UNARY,
	 .message = on_pour,
	 .writable = on_writable,
	 .closed = on_closed},
	{.path = "/t/Paused",
	 .kind = GS_GRPC_STREAM,
	 .start = start_paused,
	 .message = on_paused,
	 .half_closed = finish_ok,
	 .closed = on_closed},
};

static struct gs_grpc_server_options server_options(void)
{
	n_kept = n_closed = n_writable = n_paused_messages = 0;
	return (struct gs_grpc_server_options){.methods = methods,
					       .n_methods = GS_ARRAY_LEN(methods)};
}

static void drop_kept(void)
{
	for (unsigned i = 0; i < n_kept; i++)
		gs_grpc_call_unref(&kept[i]);
	n_kept = 0;
}

/* A server that wants TLS where the client has none, or the reverse, has a status of its own. */
static void tls_differs(void **state)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 40}; /* RFC 8446, 5.1 and 6 */
	struct gs_grpc_server_options so = server_options();
	struct gs_grpc_server *s = start(&so);
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(at);
	struct link plain = {0}, coded = {0};
	struct gs_grpc_client_options o;
	struct gs_grpc_client *c = NULL;
	const char *address = gs_grpc_server_address(s, 0);
	char text[32];
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

	(void)state;
	o = client_options(&address, &plain);
	o.tls = true;
	assert_int_equal(gs_grpc_client_new(&o, &c, NULL), 0);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	work_until(c, plain.n_disconnected);
	assert_int_equal(plain.status, GS_GRPC_FAILED_PRECONDITION);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
	assert_int_equal(bind(listening, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listening, 1), 0);
	assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &bytes), 0);
	snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(at.sin_port));
	address = text;
	o = client_options(&address, &coded);
	assert_int_equal(gs_grpc_client_new(&o, &c, NULL), 0);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	gs_grpc_client_wait(c, 5 * MS);
	fd = accept(listening, NULL, NULL);
	assert_int_equal(send(fd, alert, sizeof(alert), MSG_NOSIGNAL), sizeof(alert));
	work_until(c, coded.n_disconnected);
	assert_int_equal(coded.status, GS_GRPC_FAILED_PRECONDITION);
	close(fd);
	/* One that is not there is another matter. */
	close(listening);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	work_until(c, coded.n_disconnected == 2);
	assert_int_equal(coded.status, GS_GRPC_UNAVAILABLE);
	gs_grpc_client_free(&c);
}

static void echo(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct gs_grpc_server *s = start(&so);
	struct link l = {0};
	struct gs_grpc_client *c = connect_to(gs_grpc_server_address(s, 0), &l);
	struct end e[50] = {0};

	(void)state;
	for (int i = 0; i < 50; i++) {
		struct gs_grpc_request_options o = options_of("/t/Echo", &e[i]);

		assert_int_equal(gs_grpc_client_unary(c, &o, "0123456789", (size_t)i % 11, NULL),
				 0);
	}
	for (int i = 0; i < 50; i++) {
		work_until(c, e[i].ended);
		assert_int_equal(e[i].status, GS_GRPC_OK);
		assert_int_equal(e[i].n_messages, 1);
		assert_int_equal(e[i].n_bytes, i % 11);
	}
	gs_grpc_client_disconnect(c, true);
	work_until(c, l.n_disconnected);
	assert_int_equal(l.status, GS_GRPC_OK);
	until(stats_of(s).connections_now == 0);
	assert_int_equal(stats_of(s).calls, 50);
	assert_int_equal(stats_of(s).calls_by_status[GS_GRPC_OK], 50);
	assert_int_equal(stats_of(s).messages_out, 50);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

static void *answer_all(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < n_kept; i++) {
		assert_int_equal(gs_grpc_call_send(kept[i], "here", 4), 0);
		assert_int_equal(gs_grpc_call_finish(kept[i], GS_GRPC_OK, NULL), 0);
	}
	return NULL;
}

/* 2,000 calls at once on one connection, answered by another thread. */
static void many_calls(void **state)
{
	struct gs_grpc_server_options so = server_options();
	enum { N = 2000 };
	struct end *e = calloc(N, sizeof(*e));
	struct gs_grpc_server *s;
	struct gs_grpc_client *c;
	struct link l = {0};
	pthread_t thread;

	(void)state;
	so.max_streams = N;
	s = start(&so);
	c = connect_to(gs_grpc_server_address(s, 0), &l);
	for (int i = 0; i < N; i++) {
		struct gs_grpc_request_options o = options_of("/t/Keep", &e[i]);

		assert_int_equal(gs_grpc_client_unary(c, &o, "x", 1, NULL), 0);
	}
	work_until(c, n_kept == N);
	assert_int_equal(stats_of(s).calls_now, N);
	assert_int_equal(pthread_create(&thread, NULL, answer_all, NULL), 0);
	for (int i = 0; i < N; i++) {
		work_until(c, e[i].ended);
		assert_int_equal(e[i].status, GS_GRPC_OK);
		assert_int_equal(e[i].n_bytes, 4);
	}
	pthread_join(thread, NULL);
	until(n_closed == N);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
	assert_int_equal(gs_grpc_call_send(kept[0], "x", 1), -EPIPE);
	drop_kept();
	free(e);
}

/* More calls than the server takes at once wait for others to end. */
static void calls_wait(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct gs_grpc_server *s;
	struct end e[20] = {0};
	struct gs_grpc_client *c;
	struct link l = {0};

	(void)state;
	so.max_streams = 3;
	s = start(&so);
	c = connect_to(gs_grpc_server_address(s, 0), &l);
	for (int i = 0; i < 20; i++) {
		struct gs_grpc_request_options o = options_of("/t/Echo", &e[i]);

		assert_int_equal(gs_grpc_client_unary(c, &o, "x", 1, NULL), 0);
	}
	for (int i = 0; i < 20; i++) {
		work_until(c, e[i].ended);
		assert_int_equal(e[i].status, GS_GRPC_OK);
	}
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

/* A client that does not read: the queue stays within its limit, and nothing is lost. */
static void slow_reader(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct end e = {0};
	struct gs_grpc_request_options o = options_of("/t/Pour", &e);
	struct gs_grpc_request *r = NULL;
	struct gs_grpc_server *s;
	struct gs_grpc_client *c;
	struct link l = {0};
	unsigned before;

	(void)state;
	so.max_queue_bytes = 100000;
	s = start(&so);
	c = connect_to(gs_grpc_server_address(s, 0), &l);
	assert_int_equal(gs_grpc_client_unary(c, &o, "x", 1, &r), 0);
	gs_grpc_request_pause(r);
	/* The window (1 MiB) fills; then the queue. */
	work_until(c, stats_of(s).messages_out >= 100);
	assert_int_equal(e.n_messages, 0);
	assert_true(stats_of(s).queued_bytes_now <= 100000 + 5 * 10);
	before = n_writable;
	gs_grpc_request_resume(r);
	work_until(c, e.n_messages >= 500);
	assert_true(n_writable > before);
	assert_int_equal(e.n_bytes, e.n_messages * 10000UL);
	gs_grpc_request_cancel(&r);
	assert_null(r);
	work_until(c, n_closed == 1);
	assert_int_equal(closed_status, GS_GRPC_CANCELLED);
	assert_false(e.ended);
	until(stats_of(s).queued_bytes_now == 0);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

/* A server that does not read: the client's queue fills and is told when there is room. */
static void slow_server(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct end e = {0};
	struct gs_grpc_request_options o = options_of("/t/Paused", &e);
	struct gs_grpc_request *r = NULL;
	struct gs_grpc_server *s = start(&so);
	static const char piece[50000];
	struct gs_grpc_client *c;
	struct gs_grpc_flow flow;
	struct link l = {0};
	unsigned n = 0;

	(void)state;
	c = connect_to(gs_grpc_server_address(s, 0), &l);
	assert_int_equal(gs_grpc_client_call(c, &o, &r), 0);
	work_until(c, n_kept == 1);
	for (int i = 0; i < 200; i++) {
		while (gs_grpc_request_send(r, piece, sizeof(piece)) == 0)
			n++;
		gs_grpc_client_wait(c, MS);
	}
	gs_grpc_request_flow(r, &flow);
	assert_true(flow.queued_bytes <= 4U << 20);
	assert_int_equal(n_paused_messages, 0);
	assert_true(n < 200);
	gs_grpc_call_resume(kept[0]);
	work_until(c, e.n_writable > 0);
	gs_grpc_request_end(r);
	assert_int_equal(gs_grpc_request_send(r, piece, 1), -EPIPE);
	work_until(c, e.ended);
	assert_int_equal(e.status, GS_GRPC_OK);
	assert_string_equal(e.text, "all");
	assert_int_equal(n_paused_messages, n);
	assert_int_equal(stats_of(s).held_bytes_now, 0);
	drop_kept();
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

static void limits(void **state)
{
	struct gs_grpc_server_options so = server_options();
	static char giant[300000];
	struct gs_grpc_metadata much[] = {{"x-much", giant}};
	struct end e[4] = {0};
	struct gs_grpc_request_options o[4];
	struct gs_grpc_server *s;
	struct gs_grpc_client *c;
	struct link l = {0};

	(void)state;
	so.max_message_bytes = 100000;
	so.max_held_bytes = 40000;
	s = start(&so);
	c = connect_to(gs_grpc_server_address(s, 0), &l);
	for (int i = 0; i < 4; i++)
		o[i] = options_of(i == 3 ? "/t/No" : "/t/Echo", &e[i]);
	assert_int_equal(gs_grpc_client_unary(c, &o[0], giant, sizeof(giant), NULL), 0);
	assert_int_equal(gs_grpc_client_unary(c, &o[1], giant, 90000, NULL), 0);
	memset(giant, 'v', 20000);
	giant[20000] = '\0';
	o[2].metadata = much;
	o[2].n_metadata = 1;
	assert_int_equal(gs_grpc_client_unary(c, &o[2], "x", 1, NULL), 0);
	assert_int_equal(gs_grpc_client_unary(c, &o[3], "x", 1, NULL), 0);
	for (int i = 0; i < 4; i++)
		work_until(c, e[i].ended);
	assert_int_equal(e[0].status, GS_GRPC_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(e[0].text, "300000 bytes"));
	assert_int_equal(e[1].status, GS_GRPC_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(e[1].text, "no memory"));
	assert_int_equal(e[2].status, GS_GRPC_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(e[2].text, "metadata"));
	assert_int_equal(e[3].status, GS_GRPC_UNIMPLEMENTED);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_MESSAGE], 1);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_MEMORY], 1);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_METADATA], 1);
	assert_int_equal(stats_of(s).refused[GS_GRPC_REFUSED_METHOD], 1);
	until(stats_of(s).held_bytes_now == 0);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

static void deadline(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct gs_grpc_server *s = start(&so);
	struct end e = {0};
	struct gs_grpc_request_options o = options_of("/t/Keep", &e);
	struct gs_grpc_client *c;
	struct link l = {0};

	(void)state;
	c = connect_to(gs_grpc_server_address(s, 0), &l);
	o.timeout_ns = 50 * MS;
	assert_int_equal(gs_grpc_client_unary(c, &o, "x", 1, NULL), 0);
	work_until(c, e.ended);
	assert_int_equal(e.status, GS_GRPC_DEADLINE_EXCEEDED);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
	/* On a busy machine the deadline may pass before the call has gone out. */
	assert_int_equal(n_closed, n_kept);
	if (n_closed)
		assert_true(closed_status == GS_GRPC_DEADLINE_EXCEEDED ||
			    closed_status == GS_GRPC_CANCELLED);
	drop_kept();
}

/* A stop with calls that run: told, and ended with UNAVAILABLE when the grace is over. */
static void stop(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct gs_grpc_server *s = start(&so);
	struct end e = {0}, late = {0};
	struct gs_grpc_request_options o = options_of("/t/Keep", &e);
	struct gs_grpc_client *c;
	struct link l = {0};

	(void)state;
	c = connect_to(gs_grpc_server_address(s, 0), &l);
	assert_int_equal(gs_grpc_client_unary(c, &o, "x", 1, NULL), 0);
	work_until(c, n_kept == 1);
	gs_grpc_server_stop(&s, 20 * MS);
	assert_null(s);
	assert_int_equal(n_closed, 1);
	assert_int_equal(closed_status, GS_GRPC_UNAVAILABLE);
	assert_int_equal(gs_grpc_call_send(kept[0], "x", 1), -EPIPE);
	work_until(c, l.n_disconnected);
	assert_int_equal(l.n_going_away, 1);
	assert_int_equal(e.status, GS_GRPC_UNAVAILABLE);
	assert_string_equal(e.text, "the server is shutting down");
	o.ctx = &late;
	assert_int_equal(gs_grpc_client_unary(c, &o, "x", 1, NULL), -ENOTCONN);
	drop_kept();
	gs_grpc_client_free(&c);
}

static atomic_uint n_posted;

static void posted(void *arg)
{
	n_posted += (unsigned)(uintptr_t)arg;
}

static void post(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct gs_grpc_server *s = start(&so);

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(gs_grpc_server_post(s, posted, (void *)1), 0);
	gs_grpc_server_stop(&s, 0);
	assert_int_equal(n_posted, 1000);
}

/* Several addresses: the one that answers is found; then none is left. */
static void addresses(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct gs_grpc_server *s = start(&so);
	const char *list[] = {"127.0.0.1:1", "localhost:1", gs_grpc_server_address(s, 0)};
	struct link l = {0};
	struct gs_grpc_client_options o = client_options(list, &l);
	struct gs_grpc_client *c = NULL;
	struct gs_grpc_client_stats stats;
	struct gs_err err;

	(void)state;
	o.n_addresses = 3;
	assert_int_equal(gs_grpc_client_new(&o, &c, NULL), 0);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	assert_int_equal(gs_grpc_client_connect(c), -EALREADY);
	work_until(c, l.n_connected);
	assert_true(gs_grpc_client_connected(c));
	gs_grpc_client_stats(c, &stats);
	assert_true(stats.connect_failures >= 2);
	gs_grpc_server_stop(&s, 0);
	work_until(c, l.n_disconnected);
	assert_int_equal(l.status, GS_GRPC_UNAVAILABLE);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	work_until(c, l.n_disconnected == 2);
	assert_non_null(strstr(l.why, "Connection refused"));
	assert_int_equal(gs_grpc_client_next_ns(c), UINT64_MAX);
	gs_grpc_client_free(&c);
	list[0] = "nowhere";
	assert_int_equal(gs_grpc_client_new(&o, &c, &err), -EINVAL);
	assert_non_null(strstr(err.text, "nowhere"));
}

static struct gs_grpc_request *to_cancel;

static void cancel_within(void *ctx, struct gs_grpc_request *r, const void *data, size_t bytes)
{
	end_message(ctx, r, data, bytes);
	gs_grpc_request_cancel(&to_cancel);
}

/* Cancelled within its own message, the call says no more. */
static void cancel(void **state)
{
	struct gs_grpc_server_options so = server_options();
	struct gs_grpc_server *s = start(&so);
	struct end e = {0};
	struct gs_grpc_request_options o = options_of("/t/Pour", &e);
	struct gs_grpc_client *c;
	struct link l = {0};

	(void)state;
	c = connect_to(gs_grpc_server_address(s, 0), &l);
	o.events.message = cancel_within;
	assert_int_equal(gs_grpc_client_unary(c, &o, "x", 1, &to_cancel), 0);
	work_until(c, n_closed == 1);
	assert_int_equal(e.n_messages, 1);
	assert_false(e.ended);
	assert_int_equal(closed_status, GS_GRPC_CANCELLED);
	gs_grpc_client_free(&c);
	gs_grpc_server_stop(&s, 0);
}

static void bad_options(void **state)
{
	struct gs_grpc_method twice[] = {methods[0], methods[0]};
	struct gs_grpc_server_options o = {.size = sizeof(o),
					   .listen = any_port,
					   .n_listen = 1,
					   .methods = twice,
					   .n_methods = 2};
	struct gs_grpc_server *s = NULL;
	struct gs_err err = {0};

	(void)state;
	assert_int_equal(gs_grpc_server_start(&o, &s, &err), -EINVAL);
	assert_non_null(strstr(err.text, "/t/Echo"));
	o.n_methods = 1;
	o.tls_cert = "/nonexistent/cert.pem";
	assert_int_equal(gs_grpc_server_start(&o, &s, &err), -EINVAL);
	assert_non_null(strstr(err.text, "a certificate and its key are needed"));
	o.tls_key = "/nonexistent/key.pem";
	assert_int_equal(gs_grpc_server_start(&o, &s, &err), -ENOENT);
	assert_non_null(strstr(err.text, "/nonexistent/cert.pem"));
	o.tls_cert = o.tls_key = NULL;
	o.n_listen = 0;
	assert_int_equal(gs_grpc_server_start(&o, &s, &err), -EINVAL);
	o.n_listen = 1;
	o.listen = (const char *const[]){"no port"};
	assert_int_equal(gs_grpc_server_start(&o, &s, &err), -EINVAL);
	assert_null(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(echo),        cmocka_unit_test(tls_differs),
		cmocka_unit_test(many_calls),  cmocka_unit_test(calls_wait),
		cmocka_unit_test(slow_reader), cmocka_unit_test(slow_server),
		cmocka_unit_test(limits),      cmocka_unit_test(deadline),
		cmocka_unit_test(stop),        cmocka_unit_test(post),
		cmocka_unit_test(addresses),   cmocka_unit_test(cancel),
		cmocka_unit_test(bad_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
