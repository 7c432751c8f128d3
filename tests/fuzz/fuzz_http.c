/* What clients send: the head of a request and its headers that are read further. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/http_int.h"
#include "replay_main.h"

static void handler(void *ctx, const struct gs_http_request *q, struct gs_http_reply *reply)
{
	assert(q->param[0][0] && !strchr(q->param[0], '/'));
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

/* Patterns, and what is refused before a handler is called. */
static void serve(struct gs_http_request *q)
{
	static const struct gs_http_route routes[] = {
		{.path = "/a/{}/b/{}", .methods = GS_HTTP_GET, .serve = handler},
		{.path = "/a/{}",
		 .methods = GS_HTTP_GET | GS_HTTP_POST,
		 .control = true,
		 .serve = handler},
	};
	static const struct gs_http_auth everybody;
	static struct gs_http_hosts hosts;
	struct gs_http_reply reply = {.body = GS_BUF_INIT(4096), .json_errors = true};
	char more[256] = "";

	q->content_bytes = 0; /* no body is there */
	q->local = true;
	if (!hosts.bytes)
		gs_http_hosts_load(&hosts, "*:1", "a");
	gs_http_serve(
		&(struct gs_http_site){
			.routes = routes, .n_routes = 2, .auth = &everybody, .hosts = &hosts},
		q, &reply, more, sizeof(more));
	gs_http_reply_fini(&reply);
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
		serve(&q);
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
