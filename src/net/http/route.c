/* From a request that was understood to its reply: authorization, the table of routes, refusals. */
#include <string.h>
#include <strings.h>

#include "net/http/http_int.h"

/* "/a/{}": what stands for {} goes to params. */
bool gs_http_matches(const char *pattern, struct gs_http_request *q)
{
	char *at = q->params;
	const char *path = q->path;
	size_t n = 0;

	while (*pattern) {
		size_t part;

		if (strncmp(pattern, "{}", 2) != 0) {
			if (*pattern++ != *path++)
				return false;
			continue;
		}
		part = strcspn(path, "/");
		if (!part || n == GS_HTTP_PARAMS_MAX)
			return false;
		/* Never longer than the path, of which each part was followed by a '/'. */
		memcpy(at, path, part);
		at[part] = '\0';
		q->param[n++] = at;
		at += part + 1;
		path += part;
		pattern += 2;
	}
	return !*path;
}

/* The route of path and method; with methods of all that have the path. */
static const struct gs_http_route *find_route(const struct gs_http_site *site,
					      struct gs_http_request *q, unsigned *ret_methods,
					      bool *ret_open)
{
	*ret_methods = 0;
	*ret_open = false;
	for (size_t i = 0; i < site->n_routes; i++) {
		if (!gs_http_matches(site->routes[i].path, q))
			continue;
		*ret_methods |= site->routes[i].methods;
		*ret_open |= site->routes[i].open;
		if (site->routes[i].methods & q->method)
			return &site->routes[i];
	}
	return NULL;
}

static void answer_not_found(const struct gs_http_site *site, struct gs_http_reply *reply)
{
	struct gs_buf text = GS_BUF_INIT(4096);

	/* The path that was asked for is not repeated: it is the client's text. */
	(void)gs_buf_puts(&text, "not found; this server has");
	for (size_t i = 0; i < site->n_routes; i++)
		(void)gs_buf_printf(&text, " %s", site->routes[i].path);
	(void)gs_buf_put(&text, "", 1);
	gs_http_error(reply, 404,
		      text.data && !text.data[text.bytes - 1] && !reply->json_errors
			      ? (const char *)text.data
			      : "not found");
	gs_buf_fini(&text);
}

static void allow_header(unsigned methods, char *out, size_t bytes)
{
	static const char *const names[] = {"GET, HEAD", "POST", "PUT", "DELETE"};
	size_t n = (size_t)snprintf(out, bytes, "Allow:");
	const char *separator = " ";

	for (unsigned i = 0; i < GS_ARRAY_LEN(names); i++)
		if (methods & (1U << i)) {
			n += (size_t)snprintf(out + n, bytes - n, "%s%s", separator, names[i]);
			separator = ", ";
		}
	snprintf(out + n, bytes - n, "\r\n");
}

/* Why a request that changes something is refused: another site's page may have sent it. NULL: it
 * is not. Browsers always say so, other clients need not. */
static const char *cross_site(const struct gs_http_request *q, bool tls)
{
	const char *site = gs_http_header(q, "sec-fetch-site");
	const char *origin = gs_http_header(q, "origin"), *host = gs_http_header(q, "host");

	if (q->is_cross_origin)
		return NULL;
	if (site && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return "refused: the request comes from a page of another site";
	if (origin) {
		const char *name = strstr(origin, "://");

		if (!name || !host || strcasecmp(name + 3, host) != 0 ||
		    (tls && strncasecmp(origin, "https:", 6) != 0))
			return "refused: the request comes from a page of another site";
	}
	return NULL;
}

static bool is_json(const char *type)
{
	return type && strncasecmp(type, "application/json", 16) == 0 &&
	       (!type[16] || strchr("; \t", type[16]));
}

/* Whether it may; otherwise the reply says why not. */
static bool may_control(const struct gs_http_site *site, const struct gs_http_request *q,
			struct gs_http_reply *reply)
{
	const char *why = cross_site(q, site->tls);

	if (!why && !q->may_control)
		why = gs_http_header(q, "authorization") || !site->guarded
			      ? "this token may only read"
			      : "without tokens, changes are possible only on this machine, by commands: set a token_file (or, for a head, nodes.anonymous_control)";
	if (why) {
		gs_http_error(reply, 403, why);
		return false;
	}
	if (q->content_bytes && !is_json(gs_http_header(q, "content-type"))) {
		gs_http_error(reply, 415, "a body must be JSON: Content-Type: application/json");
		return false;
	}
	return true;
}

/* Whether the request is for this server, by its name; otherwise the reply says why not. */
static bool host_is_known(const struct gs_http_site *site, const struct gs_http_request *q,
			  struct gs_http_reply *reply)
{
	const char *host = gs_http_header(q, "host");
	char name[GS_HTTP_HOST_MAX], text[GS_HTTP_HOST_MAX + 160];

	if (!host) /* HTTP/1.0, which no browser sends */
		return true;
	switch (gs_http_host_parse(host, name)) {
	case GS_HTTP_HOST_ADDRESS:
		return true;
	case GS_HTTP_HOST_NAME:
		if (gs_http_host_known(site->hosts, name) ||
		    (site->tls && gs_http_tls_has_name(site->tls, name)))
			return true;
		snprintf(
			text, sizeof(text),
			"this server is not known as %s: ask by address, localhost or the host's own name, or add the name to http.hosts",
			name);
		gs_http_error(reply, 421, text);
		return false;
	case GS_HTTP_HOST_INVALID:
		break;
	}
	gs_http_error(reply, 400, "the header Host is neither a host name nor an address");
	return false;
}

/* A browser asks whether a page of another origin may ask (fetch.spec.whatwg.org, "CORS-preflight
 * fetch"): it shows no secret yet. */
static void answer_preflight(struct gs_http_reply *reply, char *more, size_t more_bytes)
{
	reply->status = 204;
	snprintf(more, more_bytes,
		 "Access-Control-Allow-Methods: GET, POST, PUT, DELETE\r\n"
		 "Access-Control-Allow-Headers: Authorization, Content-Type\r\n"
		 "Access-Control-Max-Age: 600\r\n");
}

static enum gs_http_see may_see(enum gs_http_role role, bool identified)
{
	if (!identified || role == GS_HTTP_ROLE_NONE)
		return GS_HTTP_SEE_NAMES;
	return role == GS_HTTP_ROLE_CONTROL ? GS_HTTP_SEE_WHOLE : GS_HTTP_SEE_SCRUBBED;
}

/* Answers a request that was understood. more: room for headers of the answer. */
void gs_http_serve(const struct gs_http_site *site, struct gs_http_request *q,
		   struct gs_http_reply *reply, char *more, size_t more_bytes)
{
	const struct gs_http_auth *auth = site->auth;
	enum gs_http_role role = gs_http_auth_role(auth, gs_http_header(q, "authorization"));
	unsigned methods;
	bool open;
	const struct gs_http_route *route = find_route(site, q, &methods, &open);
	bool identified = auth->tokens || auth->basic || site->client_ca;

	if (!host_is_known(site, q, reply))
		return;
	if (q->method == GS_HTTP_OPTIONS && q->is_cross_origin) {
		answer_preflight(reply, more, more_bytes);
		return;
	}
	q->see = may_see(role, identified);
	q->may_control = role == GS_HTTP_ROLE_CONTROL && (identified || !site->guarded);
	/* Who may not ask does not learn what there is. */
	if (!(route ? route->open : open) && role == GS_HTTP_ROLE_NONE) {
		snprintf(
			more, more_bytes, "%s%s",
			auth->basic
				? "WWW-Authenticate: Basic realm=\"gpuscope\", charset=\"UTF-8\"\r\n"
				: "",
			auth->tokens ? "WWW-Authenticate: Bearer realm=\"gpuscope\"\r\n" : "");
		gs_http_error(reply, 401, "this needs a valid token or user and password");
		return;
	}
	if (!identified && !site->anonymous && !q->local &&
	    !(route ? route->open || route->harmless : open)) {
		gs_http_error(
			reply, 403,
			"without tokens, other machines get metrics and health only: set a token_file, or http.anonymous");
		return;
	}
	if (!methods) {
		answer_not_found(site, reply);
		return;
	}
	if (!route) {
		allow_header(methods, more, more_bytes);
		gs_http_error(reply, 405, "method not allowed");
		return;
	}
	if (!route->control || may_control(site, q, reply))
		route->serve(route->ctx ? route->ctx : site->ctx, q, reply);
}

const char *gs_http_refusal_reason(int status)
{
	switch (status) {
	case 431:
		return "the headers of the request are larger than this server accepts";
	case 501:
		return "requests with a Transfer-Encoding are not accepted; send Content-Length";
	case 505:
		return "this server speaks HTTP/1.1 and HTTP/1.0";
	default:
		return "malformed HTTP request";
	}
}
