/* From a request that was understood to its reply: authorization, the table of routes, refusals. */
#include <string.h>

#include "http/http_int.h"

static const struct gs_http_route *find_route(const struct gs_http_site *site, const char *path)
{
	for (size_t i = 0; i < site->n_routes; i++)
		if (strcmp(site->routes[i].path, path) == 0)
			return &site->routes[i];
	return NULL;
}

void gs_http_say(struct gs_http_reply *reply, int status, const char *text)
{
	reply->status = status;
	reply->type = "text/plain; charset=utf-8";
	gs_buf_reset(&reply->body);
	(void)gs_buf_printf(&reply->body, "%d %s: %s\n", status, gs_http_status_text(status), text);
}

static void say_not_found(const struct gs_http_site *site, struct gs_http_reply *reply)
{
	struct gs_buf text = GS_BUF_INIT(4096);

	/* The path that was asked for is not repeated: it is the client's text. */
	(void)gs_buf_puts(&text, "nothing is here; this server has");
	for (size_t i = 0; i < site->n_routes; i++)
		(void)gs_buf_printf(&text, " %s", site->routes[i].path);
	(void)gs_buf_put(&text, "", 1);
	gs_http_say(reply, 404, text.data ? (const char *)text.data : "nothing is here");
	gs_buf_fini(&text);
}

static void allow_header(const struct gs_http_route *route, char *out, size_t bytes)
{
	static const char *const names[] = {"GET, HEAD", "POST", "PUT", "DELETE"};
	size_t n = (size_t)snprintf(out, bytes, "Allow:");
	const char *separator = " ";

	for (unsigned i = 0; i < GS_ARRAY_LEN(names); i++)
		if (route->methods & (1U << i)) {
			n += (size_t)snprintf(out + n, bytes - n, "%s%s", separator, names[i]);
			separator = ", ";
		}
	snprintf(out + n, bytes - n, "\r\n");
}

/* Answers a request that was understood. more: room for headers of the answer. */
void gs_http_serve(const struct gs_http_site *site, const struct gs_http_request *q,
		   struct gs_http_reply *reply, char *more, size_t more_bytes)
{
	const struct gs_http_auth *auth = site->auth;
	const struct gs_http_route *route = find_route(site, q->path);

	/* Who may not ask does not learn what there is. */
	if (!(route && route->open) &&
	    !gs_http_auth_allows(auth, gs_http_header(q, "authorization"))) {
		snprintf(more, more_bytes, "%s%s",
			 auth->basic ? "WWW-Authenticate: Basic realm=\"gpuscope\", "
				       "charset=\"UTF-8\"\r\n"
				     : "",
			 auth->tokens ? "WWW-Authenticate: Bearer realm=\"gpuscope\"\r\n" : "");
		gs_http_say(reply, 401, "this needs a valid token or user and password");
		return;
	}
	if (!route) {
		say_not_found(site, reply);
		return;
	}
	if (!(route->methods & q->method)) {
		allow_header(route, more, more_bytes);
		gs_http_say(reply, 405, "not with this method");
		return;
	}
	route->serve(site->ctx, q, reply);
}

const char *gs_http_why_refused(int status)
{
	switch (status) {
	case 431:
		return "the head of the request is larger than this server takes";
	case 501:
		return "requests with a Transfer-Encoding are not taken; send Content-Length";
	case 505:
		return "HTTP/1.1 and HTTP/1.0 are spoken here";
	default:
		return "this is no request that can be understood";
	}
}
