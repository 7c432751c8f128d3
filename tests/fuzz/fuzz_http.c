/* What clients send: the head of a request and its headers that are read further. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/http/http_int.h"
#include "replay_main.h"

static void handler(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	assert(q->param[0][0] && !strchr(q->param[0], '/'));
}

static void open_handler(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	assert(strcmp(q->path, "/open") == 0 || strcmp(q->path, "/harmless") == 0);
}

/* Changes nothing for who may not, and nothing for a page of another site. */
static void control(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	const char *site = gs_http_header(q, "sec-fetch-site");

	assert(q->may_control && (q->method & (GS_HTTP_GET | GS_HTTP_POST)));
	assert(!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0);
	handler(ctx, q, reply);
}

/* What is taken for a name has nothing of the syntax around it. */
static void check_host(const char *host)
{
	char name[GS_HTTP_HOST_MAX];

	if (!host || gs_http_host_parse(host, name) == GS_HTTP_HOST_INVALID)
		return;
	assert(name[0] && memchr(name, '\0', sizeof(name)));
	assert(!strpbrk(name, "@/[] \t\"\\"));
}

/* Patterns, and what is refused before a handler is called: for who asks with one of two secrets,
 * from elsewhere, and on this machine without any. */
static void serve(struct gs_http_request *q, const struct gs_http_auth *auth)
{
	static const struct gs_http_route routes[] = {
		{.path = "/a/{}/b/{}", .methods = GS_HTTP_GET, .serve = handler},
		{.path = "/a/{}",
		 .methods = GS_HTTP_GET | GS_HTTP_POST,
		 .control = true,
		 .serve = control},
		{.path = "/open", .methods = GS_HTTP_GET, .open = true, .serve = open_handler},
		{.path = "/harmless",
		 .methods = GS_HTTP_GET,
		 .harmless = true,
		 .serve = open_handler},
	};
	static const struct gs_http_auth everybody;
	static struct gs_http_hosts hosts;
	const struct gs_http_site sites[] = {
		{.auth = &everybody},
		{.auth = &everybody, .guarded = true},
		{.auth = auth, .guarded = true},
	};

	if (!hosts.bytes)
		gs_http_hosts_load(&hosts, "*:1", "a");
	for (size_t i = 0; i < 2 * GS_ARRAY_LEN(sites); i++) {
		struct gs_http_reply reply = {.body = GS_BUF_INIT(4096), .json_errors = i % 2};
		struct gs_http_site site = sites[i / 2];
		char more[256] = "";

		site.routes = routes;
		site.n_routes = GS_ARRAY_LEN(routes);
		site.hosts = &hosts;
		q->local = i % 2;
		q->is_cross_origin = i == 3;
		gs_http_serve(&site, q, &reply, more, sizeof(more));
		assert(memchr(more, '\0', sizeof(more)));
		gs_http_reply_fini(&reply);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct gs_http_request q;
	static struct gs_http_auth auth = {
		.tokens = true, .basic = true, .token = {.n = 1}, .user = {.n = 1}};
	char *copy = malloc(bytes ? bytes : 1);
	ssize_t n;

	strcpy(auth.token.secret[0], "token");
	strcpy(auth.user.secret[0], "user:password");
	if (!copy)
		return 0;
	if (bytes)
		memcpy(copy, data, bytes);
	n = gs_http_parse(copy, bytes, &q);
	assert(n <= (ssize_t)bytes);
	assert(n >= 0 || n == -400 || n == -431 || n == -501 || n == -505);
	if (n > 0) {
		char value[32];

		(void)gs_http_query(&q, "a", value, sizeof(value));
		assert(memchr(value, '\0', sizeof(value)));
		(void)gs_http_etag_known(gs_http_header(&q, "if-none-match"), "\"a\"");
		check_host(gs_http_header(&q, "host"));
		serve(&q, &auth);
		assert(q.path[0] == '/' && memchr(q.path, '\0', sizeof(q.path)));
		for (size_t i = 0; i < q.n_headers; i++)
			assert(q.headers[i].name >= copy &&
			       q.headers[i].value + strlen(q.headers[i].value) < copy + bytes);
		(void)gs_http_auth_role(&auth, gs_http_header(&q, "authorization"));
		(void)gs_http_accepts_gzip(gs_http_header(&q, "accept-encoding"));
	}
	free(copy);
	return 0;
}
