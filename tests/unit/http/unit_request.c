#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ctype.h>
#include <unistd.h>

#include "net/http/http_int.h"

static struct gs_http_request q;
static char text[70000];

static ssize_t parse(const char *head)
{
	strcpy(text, head);
	return gs_http_parse(text, strlen(head), &q);
}

static void a_request_is_taken_apart(void **state)
{
	const char *head =
		"GET /a%20b?x=%31 HTTP/1.1\r\nHost: h\r\nAccept:  a/b \t\r\nX-Y:\r\n\r\n";

	assert_int_equal(parse(head), strlen(head));
	assert_int_equal(q.method, GS_HTTP_GET);
	assert_false(q.head);
	assert_string_equal(q.path, "/a b");
	assert_string_equal(q.query, "x=%31");
	assert_string_equal(gs_http_header(&q, "ACCEPT"), "a/b");
	assert_string_equal(gs_http_header(&q, "x-y"), "");
	assert_null(gs_http_header(&q, "x"));
	assert_true(q.keep_alive);
	assert_int_equal(q.content_bytes, 0);
}

static void it_is_whole_only_with_its_last_byte(void **state)
{
	const char *head = "\r\nPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n";

	for (size_t n = 0; n < strlen(head); n++) {
		memcpy(text, head, strlen(head));
		assert_int_equal(gs_http_parse(text, n, &q), 0);
		assert_memory_equal(text, head, n); /* so that it can be read again */
	}
	assert_int_equal(parse(head), strlen(head));
	assert_int_equal(q.content_bytes, 12);
	/* What follows is not its business. */
	assert_int_equal(parse("GET / HTTP/1.0\n\nGET"), 16);
	assert_true(q.http_1_0);
	assert_false(q.keep_alive);
}

static void what_is_doubtful_is_refused(void **state)
{
	static const struct {
		const char *head;
		int status;
	} bad[] = {
		{"GET\r\n\r\n", 400},
		{"GET /\r\n\r\n", 400},
		{"G@T / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"GET /% HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"GET /%4 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"GET /%0a HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\x01\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999999999999999\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", 501},
		{"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
		{"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
	};

	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		if (parse(bad[i].head) != -bad[i].status)
			fail_msg("%s: not %d", bad[i].head, bad[i].status);
	memcpy(text, "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 30);
	assert_int_equal(gs_http_parse(text, 29, &q), -400);
}

static void much_is_refused(void **state)
{
	char head[70000];
	size_t n = (size_t)sprintf(head, "GET /");

	memset(head + n, 'a', GS_HTTP_PATH_MAX);
	strcpy(head + n + GS_HTTP_PATH_MAX, " HTTP/1.1\r\nHost: a\r\n\r\n");
	assert_int_equal(parse(head), -431);
	n = (size_t)sprintf(head, "GET / HTTP/1.1\r\nHost: a\r\n");
	for (int i = 0; i < GS_HTTP_HEADERS_MAX; i++)
		n += (size_t)sprintf(head + n, "x: y\r\n");
	strcpy(head + n, "\r\n");
	assert_int_equal(parse(head), -431);
}

static void connections_are_kept_as_asked(void **state)
{
	assert_true(parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, CLOSE\r\n\r\n") > 0);
	assert_false(q.keep_alive);
	assert_true(parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed\r\n\r\n") > 0);
	assert_true(q.keep_alive);
	assert_true(parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n") > 0);
	assert_true(q.keep_alive);
	assert_true(parse("HEAD http://a HTTP/1.1\r\nHost: a\r\n\r\n") > 0);
	assert_true(q.head);
	assert_string_equal(q.path, "/");
}

static void gzip_is_a_matter_of_taste(void **state)
{
	assert_false(gs_http_accepts_gzip(NULL));
	assert_true(gs_http_accepts_gzip("gzip"));
	assert_true(gs_http_accepts_gzip("br, gzip;q=0.5"));
	assert_false(gs_http_accepts_gzip("gzip;q=0, br"));
	assert_false(gs_http_accepts_gzip("gzipped"));
	assert_false(gs_http_accepts_gzip("identity"));
}

static void secrets_must_be_the_same(void **state)
{
	static struct gs_http_auth auth;
	char path[] = "/tmp/gs_unit_auth_XXXXXX", longest[400] = "Bearer ";
	struct gs_err err = {{0}};
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "# c\n\nu:p:w \r\nv:\xc3\xa4\n", 18), 18);
	close(fd);
	assert_int_equal(gs_http_auth_load(&auth, path, path, &err), 0);
	assert_int_equal(auth.token.n, 2);
	assert_false(gs_http_auth_role(&auth, NULL));
	assert_false(gs_http_auth_role(&auth, ""));
	assert_false(gs_http_auth_role(&auth, "Bearer "));
	assert_true(gs_http_auth_role(&auth, "bearer u:p:w"));
	assert_false(gs_http_auth_role(&auth, "Bearer u:p:"));
	assert_false(gs_http_auth_role(&auth, "Bearer u:p:w2"));
	assert_true(gs_http_auth_role(&auth, "Basic dTpwOnc="));  /* u:p:w */
	assert_true(gs_http_auth_role(&auth, "Basic dTpwOnc"));   /* the same, unpadded */
	assert_false(gs_http_auth_role(&auth, "Basic dTpwOncA")); /* u:p:w\0 */
	assert_false(gs_http_auth_role(&auth, "Basic !!!!"));
	assert_false(gs_http_auth_role(&auth, "Digest u:p:w"));
	memset(longest + 7, 'A', 380);
	assert_false(gs_http_auth_role(&auth, longest));
	memcpy(longest, "Basic  ", 7);
	assert_false(gs_http_auth_role(&auth, longest));
	/* Nothing asked for: everybody may. */
	assert_int_equal(gs_http_auth_load(&auth, NULL, "", &err), 0);
	assert_true(gs_http_auth_role(&auth, NULL));
	unlink(path);
}

static void hosts_are_names_or_addresses(void **state)
{
	static const struct {
		const char *text;
		enum gs_http_host kind;
		const char *name;
	} cases[] = {
		{"Node7.HPC.example:14780", GS_HTTP_HOST_NAME, "node7.hpc.example"},
		{"localhost.", GS_HTTP_HOST_NAME, "localhost"},
		{"127.0.0.1:1", GS_HTTP_HOST_ADDRESS, "127.0.0.1"},
		{"10.1.2.3", GS_HTTP_HOST_ADDRESS, "10.1.2.3"},
		{"[::1]:80", GS_HTTP_HOST_ADDRESS, "::1"},
		{"[fe80::1]", GS_HTTP_HOST_ADDRESS, "fe80::1"},
		{"127.0.0.1.evil.example", GS_HTTP_HOST_NAME, "127.0.0.1.evil.example"},
		{"1.2", GS_HTTP_HOST_NAME, "1.2"},
		{"", GS_HTTP_HOST_INVALID, NULL},
		{":80", GS_HTTP_HOST_INVALID, NULL},
		{"a:b", GS_HTTP_HOST_INVALID, NULL},
		{"a:80:81", GS_HTTP_HOST_INVALID, NULL},
		{"[::1", GS_HTTP_HOST_INVALID, NULL},
		{"[::1]x", GS_HTTP_HOST_INVALID, NULL},
		{"[evil]", GS_HTTP_HOST_INVALID, NULL},
		{"[]", GS_HTTP_HOST_INVALID, NULL},
		{"user@localhost", GS_HTTP_HOST_INVALID, NULL},
		{"local host", GS_HTTP_HOST_INVALID, NULL},
		{"localhost/", GS_HTTP_HOST_INVALID, NULL},
		{"l\xc3\xb6k", GS_HTTP_HOST_INVALID, NULL},
	};
	char name[GS_HTTP_HOST_MAX], longest[GS_HTTP_HOST_MAX + 1];

	for (size_t i = 0; i < GS_ARRAY_LEN(cases); i++) {
		assert_int_equal(gs_http_host_parse(cases[i].text, name), cases[i].kind);
		if (cases[i].name)
			assert_string_equal(name, cases[i].name);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[GS_HTTP_HOST_MAX] = '\0';
	assert_int_equal(gs_http_host_parse(longest, name), GS_HTTP_HOST_INVALID);
	assert_int_equal(gs_http_host_parse(longest + 1, name), GS_HTTP_HOST_NAME);
}

static void only_own_names_are_known(void **state)
{
	static struct gs_http_hosts hosts;
	char own[65] = "", other[128];

	gethostname(own, sizeof(own) - 1);
	gs_http_hosts_load(&hosts, "GPU.example:1", "Proxy.example, b");
	for (char *c = own; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	assert_true(gs_http_host_known(&hosts, own));
	assert_true(gs_http_host_known(&hosts, "localhost"));
	assert_true(gs_http_host_known(&hosts, "gpu.example"));
	assert_true(gs_http_host_known(&hosts, "proxy.example"));
	assert_true(gs_http_host_known(&hosts, "b"));
	snprintf(other, sizeof(other), "%s.evil.example", own);
	assert_false(gs_http_host_known(&hosts, other));
	assert_false(gs_http_host_known(&hosts, "localhost.evil.example"));
	assert_false(gs_http_host_known(&hosts, "roxy.example"));
	assert_false(gs_http_host_known(&hosts, "example"));
	assert_false(gs_http_host_known(&hosts, ""));
	gs_http_hosts_load(&hosts, "*:1", "*");
	assert_true(gs_http_host_known(&hosts, "evil.example"));
	assert_true(gs_http_hosts_valid("*"));
	assert_true(gs_http_hosts_valid("a.b"));
	assert_false(gs_http_hosts_valid("a.b:80"));
	assert_false(gs_http_hosts_valid("10.0.0.1"));
}

static void addresses_have_a_host_and_a_port(void **state)
{
	static const char *const good[] = {"127.0.0.1:0", "[::1]:80", "*:65535", "a-b.example:1"};
	static const char *const bad[] = {"",     ":80",  "80",    "a:",   "a:65536", "::1:80",
					  "a:-1", "[]:1", "a b:1", "a:1x", "[::1:80"};

	for (size_t i = 0; i < GS_ARRAY_LEN(good); i++)
		assert_true(gs_http_listen_valid(good[i]));
	for (size_t i = 0; i < GS_ARRAY_LEN(bad); i++)
		if (gs_http_listen_valid(bad[i]))
			fail_msg("%s", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_taken_apart),
		cmocka_unit_test(it_is_whole_only_with_its_last_byte),
		cmocka_unit_test(what_is_doubtful_is_refused),
		cmocka_unit_test(much_is_refused),
		cmocka_unit_test(connections_are_kept_as_asked),
		cmocka_unit_test(gzip_is_a_matter_of_taste),
		cmocka_unit_test(secrets_must_be_the_same),
		cmocka_unit_test(hosts_are_names_or_addresses),
		cmocka_unit_test(only_own_names_are_known),
		cmocka_unit_test(addresses_have_a_host_and_a_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
