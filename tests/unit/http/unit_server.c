/* A real server on a free port: roles, patterns, other sites, answers that come later, long bodies,
 * events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/http/http_int.h"

static struct gs_http *server;
static struct gs_http_deferred *_Atomic kept; /* the server's thread gives it, the test takes it */
static _Atomic bool whole, freed;
static int pipe_fd[2];
static _Atomic int source_fd; /* its end that the server reads */

static void serve_param(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	char x[16];
	int r = gs_http_query(q, "x", x, sizeof(x));

	(void)gs_buf_printf(&reply->body, "%s|%s|%d|%s", q->param[0],
			    q->param[1] ? q->param[1] : "", r, x);
}

static void serve_etag(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	reply->etag = "\"abc\"";
	(void)gs_buf_puts(&reply->body, "content");
}

static void serve_later(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	kept = gs_http_defer(reply);
}

static void serve_long(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	reply->etag = "\"abc\"";
	reply->body.max_bytes = 1000;
	for (int i = 0; i < 10; i++)
		(void)gs_buf_printf(&reply->body, "%0299d\n", i);
}

static bool is_whole(void *ctx)
{
	return whole;
}

static void set_freed(void *ctx)
{
	freed = true;
}

static void serve_source(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	reply->has_source = true;
	reply->source = (struct gs_http_source){source_fd, is_whole, set_freed, NULL};
}

static void serve_events(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	reply->type = "text/event-stream";
	reply->topics = 2;
	(void)gs_buf_puts(&reply->body, "data: hello\n\n");
}

static const struct gs_http_route routes[] = {
	{.path = "/open", .methods = GS_HTTP_GET, .open = true, .serve = serve_etag},
	{.path = "/a/{}", .methods = GS_HTTP_GET, .serve = serve_param},
	{.path = "/a/{}", .methods = GS_HTTP_DELETE, .control = true, .serve = serve_param},
	{.path = "/a/{}/b/{}",
	 .methods = GS_HTTP_GET | GS_HTTP_POST,
	 .control = true,
	 .serve = serve_param},
	{.path = "/later", .methods = GS_HTTP_GET, .serve = serve_later},
	{.path = "/long", .methods = GS_HTTP_GET, .open = true, .serve = serve_long},
	{.path = "/source", .methods = GS_HTTP_GET, .serve = serve_source},
	{.path = "/events", .methods = GS_HTTP_GET, .serve = serve_events},
};

static unsigned role_of(void *ctx, const char *token)
{
	return strcmp(token, "all") == 0 ? 2 : strcmp(token, "look") == 0;
}

static int start(void **state)
{
	struct gs_http_options o = {
		.size = sizeof(o),
		.listen = "127.0.0.1:0",
		.token_role = role_of,
		.json_errors = true,
		.max_body_bytes = 1000,
		.max_streams = 1,
		.routes = routes,
		.n_routes = GS_ARRAY_LEN(routes),
	};
	struct gs_err err = {{0}};

	return gs_http_start(&o, &server, &err);
}

static int stop(void **state)
{
	gs_http_stop(&server);
	return 0;
}

/* A handler that a first client meets at once looks for the server: the linker has this called. */
static bool was_known;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	was_known = server != NULL;
	return __real_pthread_create(thread, attr, run, arg);
}

static void the_server_is_known_before_it_serves(void **state)
{
	assert_true(was_known);
}

static int dial(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_port = htons((uint16_t)atoi(strrchr(gs_http_address(server), ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static char answer[1 << 20];

/* Until the end, or until this was read. */
static int read_answer(int fd, const char *until)
{
	size_t n = 0;
	ssize_t r;

	do {
		r = read(fd, answer + n, sizeof(answer) - 1 - n);
		n += r > 0 ? (size_t)r : 0;
		answer[n] = '\0';
	} while (r > 0 && !(until && strstr(answer, until)));
	return atoi(answer + 9);
}

static int send_request(const char *line, const char *more)
{
	char text[2048];
	int n = snprintf(text, sizeof(text),
			 "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", line,
			 more);
	int fd = dial();

	assert_int_equal(write(fd, text, (size_t)n), n);
	return fd;
}

static int ask(const char *line, const char *more)
{
	int fd = send_request(line, more), status = read_answer(fd, NULL);

	close(fd);
	return status;
}

#define ALL  "Authorization: Bearer all\r\n"
#define LOOK "Authorization: Bearer look\r\n"

static void parts_of_a_path_are_parameters(void **state)
{
	assert_int_equal(ask("GET /a/x%20y?y=1&x=%41+b", ALL), 200);
	assert_non_null(strstr(answer, "x y||1|A b"));
	assert_int_equal(ask("GET /a/1/b/2?x", ALL), 200);
	assert_non_null(strstr(answer, "1|2|1|"));
	assert_int_equal(ask("GET /a/1?x=%0a", ALL), 200);
	assert_non_null(strstr(answer, "1||-22|"));
	assert_int_equal(ask("GET /a/1?x=12345678901234567", ALL), 200);
	assert_non_null(strstr(answer, "1||-22|"));
	assert_int_equal(ask("GET /a/", ALL), 404);
	assert_int_equal(ask("GET /a/..%2Fb", ALL), 404);
	assert_int_equal(ask("GET /a/1/b/2/c", ALL), 404);
	assert_non_null(strstr(answer, "{\"error\":{\"code\":\"NOT_FOUND\""));
	assert_int_equal(ask("POST /a/1", ALL), 405);
	assert_non_null(strstr(answer, "Allow: GET, HEAD, DELETE\r\n"));
}

static void roles_are_kept_apart(void **state)
{
	assert_int_equal(ask("GET /a/1", ""), 401);
	assert_int_equal(ask("GET /nothing", ""), 401);
	assert_int_equal(ask("GET /open", ""), 200);
	assert_int_equal(ask("GET /a/1", LOOK), 200);
	assert_int_equal(ask("DELETE /a/1", LOOK), 403);
	assert_non_null(strstr(answer, "may only read"));
	assert_int_equal(ask("DELETE /a/1", ALL), 200);
	assert_int_equal(ask("DELETE /a/1", "Authorization: Bearer lookall\r\n"), 401);
}

static void other_sites_change_nothing(void **state)
{
	assert_int_equal(ask("DELETE /a/1", ALL "Origin: http://localhost\r\n"), 200);
	assert_int_equal(ask("DELETE /a/1", ALL "Origin: http://localhost.evil\r\n"), 403);
	assert_int_equal(ask("DELETE /a/1", ALL "Origin: null\r\n"), 403);
	assert_int_equal(ask("DELETE /a/1", ALL "Sec-Fetch-Site: cross-site\r\n"), 403);
	assert_int_equal(ask("DELETE /a/1", ALL "Sec-Fetch-Site: same-site\r\n"), 403);
	assert_int_equal(ask("DELETE /a/1", ALL "Sec-Fetch-Site: same-origin\r\n"), 200);
	assert_int_equal(ask("POST /a/1/b/2", ALL "Content-Length: 2\r\n\r\n{}"), 415);
	assert_int_equal(ask("POST /a/1/b/2", ALL "Content-Type: text/plain\r\n"
						  "Content-Length: 2\r\n\r\n{}"),
			 415);
	assert_int_equal(ask("POST /a/1/b/2", ALL "Content-Type: application/json; charset=utf-8"
						  "\r\nContent-Length: 2\r\n\r\n{}"),
			 200);
}

static void what_is_known_is_not_sent_again(void **state)
{
	assert_int_equal(ask("GET /open", ""), 200);
	assert_non_null(strstr(answer, "ETag: \"abc\"\r\n"));
	assert_non_null(strstr(answer, "frame-ancestors 'none'"));
	assert_int_equal(ask("GET /open", "If-None-Match: \"x\", W/\"abc\"\r\n"), 304);
	assert_null(strstr(answer, "content\n"));
	assert_non_null(strstr(answer, "Content-Length: 0\r\n"));
	assert_int_equal(ask("GET /open", "If-None-Match: \"abcd\"\r\n"), 200);
}

static void an_answer_that_was_cut_is_an_error(void **state)
{
	assert_int_equal(ask("GET /long", ""), 500);
	assert_non_null(strstr(answer, "larger than this server's limit"));
	assert_null(strstr(answer, "0000"));
	assert_null(strstr(answer, "ETag"));
}

/* Handlers run on another thread: what they set is waited for. */
static void wait_for_later(void)
{
	for (int i = 0; i < 1000000 && !kept; i++)
		usleep(100);
	assert_non_null(kept);
}

static void answer_kept(struct gs_http_reply *reply)
{
	struct gs_http_deferred *later = kept;

	kept = NULL;
	gs_http_answer(&later, reply);
	assert_null(later);
}

static void answers_may_come_later(void **state)
{
	int fd = send_request("GET /later", LOOK);
	struct gs_http_reply reply;

	wait_for_later();
	assert_int_equal(ask("GET /a/1", ALL), 200); /* nobody waits for it */
	reply = gs_http_reply_new(kept);
	(void)gs_buf_puts(&reply.body, "late");
	answer_kept(&reply);
	assert_int_equal(read_answer(fd, NULL), 200);
	assert_non_null(strstr(answer, "late"));
	close(fd);
	/* The client goes first. */
	fd = send_request("GET /later", LOOK);
	wait_for_later();
	close(fd);
	reply = gs_http_reply_new(kept);
	gs_http_error(&reply, 409, "\"no\"");
	assert_memory_equal(reply.body.data,
			    "{\"error\":{\"code\":\"CONFLICT\",\"message\":\"\\\"no\\\"\"}}", 48);
	answer_kept(&reply);
	assert_int_equal(ask("GET /a/1", ALL), 200);
}

static void a_body_comes_out_of_a_pipe(void **state)
{
	struct gs_http_stats stats;

	for (int i = 0; i < 2; i++) {
		int fd;

		assert_int_equal(pipe(pipe_fd), 0);
		source_fd = pipe_fd[0];
		whole = i == 0;
		freed = false;
		fd = send_request("GET /source", LOOK);
		assert_int_equal(write(pipe_fd[1], "hello", 5), 5);
		assert_int_equal(read_answer(fd, "hello"), 200);
		assert_int_equal(write(pipe_fd[1], " world", 6), 6);
		close(pipe_fd[1]);
		(void)read_answer(fd, NULL);
		/* Cut off: the last chunk is missing. */
		assert_int_equal(!!strstr(answer, "\r\n0\r\n\r\n"), whole);
		close(fd);
		gs_http_stats(server, &stats);
		assert_int_equal(stats.cut, i);
	}
	assert_int_equal(ask("GET /a/1", ALL), 200);
	assert_true(freed);
}

static void events_reach_who_asked_for_them(void **state)
{
	int fd = send_request("GET /events", LOOK);
	struct gs_http_stats stats;
	GS_FREE char *large = malloc(1 << 19);

	assert_non_null(large);
	memset(large, 'x', 1 << 19);
	assert_int_equal(read_answer(fd, "hello\n\n"), 200);
	assert_non_null(strstr(answer, "text/event-stream"));
	assert_int_equal(ask("GET /events", LOOK), 503); /* one only */
	assert_int_equal(gs_http_publish(server, 1, "data: not\n\n", 11), 0);
	assert_int_equal(gs_http_publish(server, 3, "data: this\n\n", 12), 0);
	(void)read_answer(fd, "this\n\n");
	assert_null(strstr(answer, "data: not"));
	/* Who does not read is closed, and the server takes no harm. */
	for (int i = 0; i < 100000; i++) {
		if (i < 1000)
			(void)gs_http_publish(server, 2, large, 1 << 19);
		usleep(1000);
		gs_http_stats(server, &stats);
		if (stats.slow && !stats.streams) /* counted first, then closed */
			break;
	}
	assert_int_equal(stats.slow, 1);
	assert_int_equal(stats.streams, 0);
	close(fd);
	assert_int_equal(ask("GET /a/1", ALL), 200);
}

static void the_server_may_stop_before_the_answer(void **state)
{
	struct gs_http_reply reply;
	int fd = send_request("GET /later", LOOK);

	wait_for_later();
	reply = gs_http_reply_new(kept);
	gs_http_stop(&server);
	answer_kept(&reply);
	close(fd);
}

/* With eight places, of which one address may have four. */
static int start_small(void **state)
{
	struct gs_http_options o = {
		.size = sizeof(o),
		.listen = "127.0.0.1:0",
		.max_connections = 8,
		.timeout_ns = 3600000000000ULL, /* no time limit helps */
		.idle_ns = 3600000000000ULL,
		.routes = routes,
		.n_routes = GS_ARRAY_LEN(routes),
	};
	struct gs_err err = {{0}};

	return gs_http_start(&o, &server, &err);
}

static struct gs_http_stats stats_now(void)
{
	struct gs_http_stats stats;

	gs_http_stats(server, &stats);
	return stats;
}

/* Slow requests, silent connections, such that are kept, replies that are not taken: whoever asks
 * beside ninety of them gets an answer, and who was in the way is told so. */
static void slow_clients_make_room(void **state)
{
	static const char *const begun[] = {
		"GET /open HTTP/1.1\r\nHost: loc",
		"",
		"GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n",
	};
	int fd[90];

	for (size_t i = 0; i < GS_ARRAY_LEN(fd); i++) {
		const char *text = begun[i % GS_ARRAY_LEN(begun)];

		fd[i] = dial();
		assert_int_equal(write(fd[i], text, strlen(text)), strlen(text));
		if (i % 5 == 0)
			assert_int_equal(ask("GET /open", ""), 200);
	}
	assert_int_equal(ask("GET /open", ""), 200);
	assert_int_equal(stats_now().refused, 0);
	assert_true(stats_now().evicted >= 80);
	assert_true(stats_now().open <= 4 + 32);
	/* The first one was slow. */
	assert_int_equal(read_answer(fd[0], NULL), 503);
	assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
	for (size_t i = 0; i < GS_ARRAY_LEN(fd); i++)
		close(fd[i]);
}

/* What happens between two connections that are accepted in one turn: the linker has this called. */
static void (*_Atomic before_accept)(void);

int __real_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
	if (before_accept)
		before_accept();
	return __real_accept4(fd, address, bytes, flags);
}

static _Atomic int early_fd;
static int silent_fd[8], accepts; /* the server's thread sets them, until before_accept is NULL */

/* Before the second one: others are there already, and the first one sends its request. */
static void come_together(void)
{
	static const char text[] =
		"GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

	if (++accepts != 2)
		return;
	while (early_fd < 0)
		usleep(100);
	for (size_t i = 0; i < GS_ARRAY_LEN(silent_fd); i++)
		silent_fd[i] = dial();
	assert_int_equal(write(early_fd, text, sizeof(text) - 1), sizeof(text) - 1);
	before_accept = NULL;
}

/* One whose request came while others were accepted is not closed without a word. */
static void who_asks_among_silent_ones_is_heard(void **state)
{
	early_fd = -1;
	before_accept = come_together;
	early_fd = dial();
	assert_int_equal(read_answer(early_fd, NULL), 503);
	assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
	assert_true(stats_now().evicted > 0);
	assert_null(before_accept);
	close(early_fd);
	for (size_t i = 0; i < GS_ARRAY_LEN(silent_fd); i++)
		close(silent_fd[i]);
}

/* An address whose connections are all at work gets no more, and hears why. */
static void an_address_has_its_share(void **state)
{
	struct gs_http_reply reply;
	int fd[4], n = 0;

	for (; n < 2; n++) {
		fd[n] = send_request("GET /events", "");
		assert_int_equal(read_answer(fd[n], "hello\n\n"), 200);
	}
	assert_int_equal(ask("GET /events", ""), 503); /* half of the streams */
	fd[n++] = send_request("GET /later", "");
	wait_for_later();
	assert_int_equal(ask("GET /open", ""), 200);
	assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
	source_fd = pipe_fd[0];
	fd[n++] = send_request("GET /source", "");
	assert_int_equal(read_answer(fd[3], "\r\n\r\n"), 200);
	assert_int_equal(stats_now().refused, 0);
	assert_int_equal(ask("GET /open", ""), 503);
	assert_non_null(strstr(answer, "Retry-After: 1\r\n"));
	assert_int_equal(stats_now().refused, 1);
	reply = gs_http_reply_new(kept);
	answer_kept(&reply);
	assert_int_equal(read_answer(fd[2], NULL), 200);
	assert_int_equal(ask("GET /open", ""), 200);
	whole = true;
	close(pipe_fd[1]);
	while (n)
		close(fd[--n]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_server_is_known_before_it_serves),
		cmocka_unit_test(parts_of_a_path_are_parameters),
		cmocka_unit_test(roles_are_kept_apart),
		cmocka_unit_test(other_sites_change_nothing),
		cmocka_unit_test(what_is_known_is_not_sent_again),
		cmocka_unit_test(an_answer_that_was_cut_is_an_error),
		cmocka_unit_test(answers_may_come_later),
		cmocka_unit_test(a_body_comes_out_of_a_pipe),
		cmocka_unit_test(events_reach_who_asked_for_them),
		cmocka_unit_test(the_server_may_stop_before_the_answer),
	};

	const struct CMUnitTest small[] = {
		cmocka_unit_test_setup_teardown(slow_clients_make_room, start_small, stop),
		cmocka_unit_test_setup_teardown(who_asks_among_silent_ones_is_heard, start_small,
						stop),
		cmocka_unit_test_setup_teardown(an_address_has_its_share, start_small, stop),
	};

	return cmocka_run_group_tests(tests, start, stop) |
	       cmocka_run_group_tests(small, NULL, NULL);
}
