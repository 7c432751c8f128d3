/* The programs in this kernel, with and without the tracepoint of sends (before Linux 6.3): a connection of loopback. */
#include "sources/traffic/traffic.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/base/mem.h"

struct both {
	int client, server, listener;
	uint16_t port;
};

static struct both connect_both(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	struct both b;

	b.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(b.listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(b.listener, 1), 0);
	assert_int_equal(getsockname(b.listener, (struct sockaddr *)&a, &n), 0);
	b.port = ntohs(a.sin_port);
	b.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(b.client, (struct sockaddr *)&a, sizeof(a)), 0);
	b.server = accept(b.listener, NULL, NULL);
	assert_true(b.server >= 0);
	return b;
}

static void pass(int from, int to, size_t bytes)
{
	static char data[4096];

	assert_int_equal(write(from, data, bytes), bytes);
	assert_int_equal(recv(to, data, bytes, MSG_WAITALL), bytes);
}

static struct gs_traffic_row row_at(struct gs_traffic *t, uint16_t port, bool accepted)
{
	struct gs_traffic_row found = {0};
	struct gs_traffic_found *f;
	size_t n;

	assert_int_equal(gs_traffic_read(t, &f, &n), 0);
	for (size_t i = 0; i < n; i++)
		if (f[i].key.port == port && f[i].key.accepted == accepted) {
			assert_int_equal(f[i].key.pid, getpid());
			found = f[i].row;
		}
	return found;
}

static void count_with(bool without_sends)
{
	const struct gs_traffic_options o = {
		.size = sizeof(o), .max_rows = 64, .without_sends = without_sends};
	struct gs_traffic_row server, client;
	struct gs_err err = {{0}};
	struct gs_traffic *t;
	struct both b;

	if (geteuid() != 0)
		skip(); /* the kernel takes programs of root */
	if (gs_traffic_open(&o, &t, &err) < 0) {
		print_message("SKIP: %s\n", err.text);
		skip();
	}
	assert_true(!without_sends || gs_traffic_missing(t));
	b = connect_both();
	for (int i = 0; i < 3; i++) {
		pass(b.client, b.server, 100);
		pass(b.server, b.client, 1000);
	}
	server = row_at(t, b.port, true);
	client = row_at(t, b.port, false);
	assert_int_equal(server.requests, 3);
	assert_int_equal(server.received_bytes, 300);
	assert_int_equal(client.received_bytes, 3000);
	assert_int_equal(client.sent_bytes, 300);
	/* What was sent last is seen when it is over, where sends are not. */
	assert_true(server.sent_bytes == 3000 ||
		    (gs_traffic_missing(t) && server.sent_bytes == 2000));
	assert_int_equal(server.open, 1);
	assert_int_equal(server.answers, gs_traffic_missing(t) ? 0 : 3);
	assert_int_equal(client.answers, gs_traffic_missing(t) ? 0 : 3);
	close(b.server);
	close(b.client);
	server = row_at(t, b.port, true);
	assert_int_equal(server.sent_bytes, 3000);
	assert_int_equal(server.connections, 1);
	assert_int_equal(server.open, 0);
	assert_int_equal(server.sends, gs_traffic_missing(t) ? 0 : 3);
	close(b.listener);
	gs_traffic_close(&t);
}

static void with_sends(void **state)
{
	count_with(false);
}

static void without_sends(void **state)
{
	count_with(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(with_sends),
					   cmocka_unit_test(without_sends)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
