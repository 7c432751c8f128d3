/* A server in a process of its own: what the holder of the values takes from it, and what becomes
 * of one that lies, dies or does not read. This program is also that process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "net/http/apart_int.h"

static char folder[] = "/tmp/gs-apart-XXXXXX";
static _Atomic unsigned n_served;
static _Atomic bool holds;

static void serve(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	n_served++;
	reply->etag = "\"e\"";
	(void)gs_buf_printf(&reply->body, "%s %s", q->param[0] ? q->param[0] : "-", q->query);
}

static void serve_long(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	reply->body.max_bytes = 1000;
	for (int i = 0; i < 10; i++)
		(void)gs_buf_printf(&reply->body, "%0299d\n", i);
}

static void serve_slowly(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	while (holds)
		usleep(10000);
}

static const struct gs_http_route routes[] = {
	{.path = "/a", .methods = GS_HTTP_GET, .serve = serve},
	{.path = "/b/{}", .methods = GS_HTTP_GET, .open = true, .vital = true, .serve = serve},
	{.path = "/slow", .methods = GS_HTTP_GET, .serve = serve_slowly},
	{.path = "/long", .methods = GS_HTTP_GET, .serve = serve_long},
	{.path = "/late", .methods = GS_HTTP_GET, .vital = true, .serve = serve_slowly},
};

/* --- the process: as the file "mode" says --- */

static void put_mode(const char *mode)
{
	FILE *f = fopen("mode", "w");

	assert_non_null(f);
	fputs(mode, f);
	fclose(f);
}

static void say(struct gs_buf *buf)
{
	for (size_t done = 0; done < buf->bytes;) {
		ssize_t n =
			send(HTTP_APART_SOCKET, buf->data + done, buf->bytes - done, MSG_NOSIGNAL);

		if (n <= 0)
			_exit(3);
		done += (size_t)n;
	}
}

static void put_hello(struct gs_wire_out *out)
{
	size_t at = http_apart_begin(out);

	gs_wire_put_u32(out, GS_SANDBOX_ALL);
	http_apart_end(out, at, HTTP_APART_HELLO);
}

static void put_request(struct gs_wire_out *out, uint32_t route, const char *path)
{
	struct gs_http_request *q = calloc(1, sizeof(*q));

	q->method = GS_HTTP_GET;
	q->query = "";
	strcpy(q->path, path);
	(void)http_apart_put_request(out, 1, route, q);
	free(q);
}

static int be_server(void)
{
	struct gs_buf buf = GS_BUF_INIT(1 << 20);
	struct gs_wire_out out = {&buf, 0};
	char mode[32] = "";
	FILE *f = fopen("mode", "r");

	if (!f || !fgets(mode, sizeof(mode), f))
		return 9;
	fclose(f);
	if (strcmp(mode, "real") == 0)
		return gs_http_apart_main();
	if (strcmp(mode, "garbage") == 0)
		for (unsigned i = 0; i < 60000; i++)
			gs_wire_put_u8(&out, (uint8_t)(i * 2654435761u >> 13));
	if (strcmp(mode, "huge") == 0)
		gs_wire_put(&out, &(struct http_apart_head){UINT32_MAX, HTTP_APART_REQUEST},
			    sizeof(struct http_apart_head));
	if (strcmp(mode, "early") == 0) /* before it says that it has no rights */
		put_request(&out, 0, "/a");
	if (strcmp(mode, "route") == 0) {
		put_hello(&out);
		put_request(&out, 99, "/a");
	}
	if (strcmp(mode, "rights") == 0)
		http_apart_end(&out, http_apart_begin(&out), HTTP_APART_HELLO);
	if (strcmp(mode, "flood") == 0) {
		put_hello(&out);
		say(&buf);
		gs_buf_reset(&buf);
		put_request(&out, 0, "/a");
		for (;;) /* and never reads */
			say(&buf);
	}
	say(&buf);
	if (strcmp(mode, "dies") == 0)
		return 7;
	pause();
	return 0;
}

/* --- tests --- */

static struct gs_http *start(const char *mode)
{
	static const struct gs_http_options o = {.size = sizeof(o),
						 .listen = "127.0.0.1:0",
						 .routes = routes,
						 .n_routes = GS_ARRAY_LEN(routes),
						 .apart = true};
	struct gs_http *http = NULL;
	struct gs_err err = {{0}};

	put_mode(mode);
	assert_int_equal(gs_http_start(&o, &http, &err), 0);
	return http;
}

static struct gs_http_stats stats_of(struct gs_http *http)
{
	struct gs_http_stats s;

	gs_http_stats(http, &s);
	return s;
}

#define WAIT_FOR(what)                                                                             \
	do {                                                                                       \
		for (int wait_i = 0; wait_i < 6000 && !(what); wait_i++)                           \
			usleep(10000);                                                             \
		assert_true(what);                                                                 \
	} while (0)

static int say_to(struct gs_http *http, const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_port = htons((uint16_t)atoi(strrchr(gs_http_address(http), ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
	return fd;
}

static void ask(struct gs_http *http, const char *target, const char *more, const char *expected)
{
	char text[4096];
	size_t n = 0;
	ssize_t got;
	int fd;

	snprintf(text, sizeof(text), "GET %s HTTP/1.0\r\nHost: 127.0.0.1\r\n%s\r\n", target, more);
	fd = say_to(http, text);
	while (n + 1 < sizeof(text) && (got = recv(fd, text + n, sizeof(text) - 1 - n, 0)) > 0)
		n += (size_t)got;
	text[n] = '\0';
	close(fd);
	if (!strstr(text, expected))
		fail_msg("no \"%s\" in \"%s\"", expected, text);
}

/* Each is ended and counted, and the next one is started: then one that is what it should be. */
static void a_server_that_lies(void **state)
{
	static const char *const modes[] = {"garbage", "huge", "early", "route", "rights"};

	for (size_t i = 0; i < GS_ARRAY_LEN(modes); i++) {
		struct gs_http *http = start(modes[i]);

		n_served = 0;
		WAIT_FOR(stats_of(http).lied >= 2);
		assert_int_equal(n_served, 0);
		put_mode("real");
		ask(http, "/b/x?y=1", "", "x y=1");
		gs_http_stop(&http);
	}
}

static void a_server_that_dies(void **state)
{
	struct gs_http *http = start("dies");
	int pid;

	WAIT_FOR(stats_of(http).restarts >= 2);
	put_mode("real");
	ask(http, "/a", "", "\r\n\r\n- ");
	pid = stats_of(http).pid;
	assert_true(pid > 0);
	kill(pid, SIGKILL);
	ask(http, "/a", "", "\r\n\r\n- "); /* the socket is kept: nobody is refused */
	assert_true(stats_of(http).pid != pid);
	assert_int_equal(stats_of(http).lied, 0);
	gs_http_stop(&http);
}

/* The holder goes on, and holds no more than some answers for it. */
static void a_server_that_does_not_read(void **state)
{
	struct gs_http *http = start("flood");
	bool answers = false;
	unsigned before;

	WAIT_FOR(n_served > 100);
	do {
		before = n_served;
		usleep(300000);
	} while (n_served != before); /* until what it does not take is in its way */
	(void)gs_http_answers(http);
	for (int i = 0; i < 6000 && !answers; i++) {
		usleep(10000);
		answers = gs_http_answers(http);
	}
	assert_true(answers);
	gs_http_stop(&http);
}

static void what_is_passed_on(void **state)
{
	struct gs_http *http = start("real");

	ask(http, "/b/x%20y?a=%20&b", "", "x y a=%20&b");
	ask(http, "/b/x?a=\"", "", "400 Bad Request");
	ask(http, "/a", "If-None-Match: \"e\"\r\n", "304 Not Modified");
	ask(http, "/c", "", "404 Not Found");
	ask(http, "/long", "", "500 Internal Server Error");
	gs_http_stop(&http);
}

/* Whether we are well is known to somebody who asks, also when the holder does not say it. */
static void a_holder_that_is_late(void **state)
{
	struct gs_http *http = start("real");

	holds = true;
	ask(http, "/late", "", "503 Service Unavailable");
	holds = false;
	gs_http_stop(&http);
}

/* All places of an address are at work: one more is turned away, but for the vital question. */
static void a_place_for_the_vital_question(void **state)
{
	const struct timeval patience = {.tv_sec = 1};
	struct gs_http *http = start("real");
	char text[1024] = "";
	int busy[60];
	size_t n = 0;

	holds = true;
	while (n < 32)
		busy[n++] = say_to(http, "GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
	/* One whose request was not read yet makes room for the next, which then waits itself. */
	while (n < GS_ARRAY_LEN(busy) && !strstr(text, "503 Service Unavailable")) {
		busy[n] = say_to(http, "GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
		setsockopt(busy[n], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		(void)!recv(busy[n++], text, sizeof(text) - 1, 0);
	}
	assert_non_null(strstr(text, "no place for one more"));
	ask(http, "/b/x", "", "did not answer in time"); /* so it was asked */
	holds = false;
	while (n > 0)
		close(busy[--n]);
	gs_http_stop(&http);
}

/* Cut off anywhere, with anything behind it, or with a byte changed. */
static void requests_that_were_changed(void **state)
{
	struct gs_buf buf = GS_BUF_INIT(1 << 16);
	struct gs_wire_out out = {&buf, 0};
	struct gs_http_request *q = calloc(1, sizeof(*q));
	const size_t head = sizeof(struct http_apart_head);
	uint8_t copy[256];
	uint64_t id;
	uint32_t route;

	put_request(&out, 1, "/b/x");
	assert_true(buf.bytes < sizeof(copy));
	for (size_t n = 0; n <= buf.bytes - head + 1; n++) {
		struct gs_wire_in in;

		memset(copy, 0, sizeof(copy));
		memcpy(copy, buf.data + head, n < buf.bytes - head ? n : buf.bytes - head);
		in = GS_WIRE_IN(copy, n);
		assert_int_equal(http_apart_take_request(&in, routes, 2, &id, &route, q),
				 n == buf.bytes - head);
	}
	for (size_t i = 0; i < (buf.bytes - head) * 256; i++) {
		struct gs_wire_in in = GS_WIRE_IN(copy, buf.bytes - head);

		memcpy(copy, buf.data + head, buf.bytes - head);
		copy[i / 256] = (uint8_t)i;
		if (!http_apart_take_request(&in, routes, 2, &id, &route, q))
			continue;
		assert_int_equal(route, 1);
		assert_int_equal(q->method, GS_HTTP_GET);
		assert_true(strncmp(q->path, "/b/", 3) == 0 && q->param[0][0]);
	}
	free(q);
	gs_buf_fini(&buf);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_that_were_changed),
		cmocka_unit_test(what_is_passed_on),
		cmocka_unit_test(a_server_that_lies),
		cmocka_unit_test(a_server_that_dies),
		cmocka_unit_test(a_server_that_does_not_read),
		cmocka_unit_test(a_holder_that_is_late),
		cmocka_unit_test(a_place_for_the_vital_question),
	};
	int r;

	if (gs_http_apart_is_called(argc, argv))
		return be_server();
	signal(SIGPIPE, SIG_IGN);
	if (!mkdtemp(folder) || chdir(folder) < 0)
		return 1;
	r = cmocka_run_group_tests(tests, NULL, NULL);
	(void)unlink("mode");
	(void)rmdir(folder);
	return r;
}
