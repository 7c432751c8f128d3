/*
 * The head of a request (RFC 9112), strictly: what two servers might read differently is refused
 * rather than guessed, because a proxy in front may have guessed the other way.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "net/http/http_int.h"

static bool is_token(const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!isalnum((unsigned char)text[i]) &&
		    (!text[i] || !strchr("!#$%&'*+-.^_`|~", text[i])))
			return false;
	return bytes > 0;
}

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "/a%20b?q" into path and query. */
static int parse_target(char *target, struct gs_http_request *r)
{
	char *query = strchr(target, '?');
	size_t n = 0;

	if (query)
		*query++ = '\0';
	r->query = query ? query : target + strlen(target);
	/* "GET http://host/path": proxies send it, and servers must take it. */
	if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
		target = strchr(strchr(target, ':') + 3, '/');
		if (!target)
			target = "/";
	}
	if (target[0] != '/')
		return -400;
	for (; *target; target++) {
		int c = (unsigned char)*target;

		if (c == '%') {
			int high = hex_of(target[1]), low = high < 0 ? -1 : hex_of(target[2]);

			if (low < 0)
				return -400;
			c = high * 16 + low;
			target += 2;
		}
		if (c == 0 || c < 0x20 || c == 0x7f)
			return -400;
		if (n + 1 >= sizeof(r->path))
			return -431;
		r->path[n++] = (char)c;
	}
	r->path[n] = '\0';
	return 0;
}

static int parse_request_line(char *line, struct gs_http_request *r)
{
	static const struct {
		const char *name;
		unsigned method;
	} methods[] = {{"GET", GS_HTTP_GET},  {"OPTIONS", GS_HTTP_OPTIONS},
		       {"HEAD", GS_HTTP_GET}, {"POST", GS_HTTP_POST},
		       {"PUT", GS_HTTP_PUT},  {"DELETE", GS_HTTP_DELETE}};
	char *target = strchr(line, ' ');
	char *version = target ? strchr(target + 1, ' ') : NULL;

	if (!version || !is_token(line, (size_t)(target - line)))
		return -400;
	*target++ = '\0';
	*version++ = '\0';
	for (size_t i = 0; i < GS_ARRAY_LEN(methods); i++)
		if (strcmp(line, methods[i].name) == 0)
			r->method = methods[i].method;
	r->head = strcmp(line, "HEAD") == 0;
	if (strncmp(version, "HTTP/", 5) != 0)
		return -400;
	r->http_1_0 = strcmp(version, "HTTP/1.0") == 0;
	if (!r->http_1_0 && strcmp(version, "HTTP/1.1") != 0)
		return -505;
	return parse_target(target, r);
}

static int parse_header(char *line, struct gs_http_request *r)
{
	char *colon = strchr(line, ':'), *end;

	if (!colon || !is_token(line, (size_t)(colon - line)))
		return -400; /* also a line that continues the one before: it starts with a space */
	if (r->n_headers == GS_HTTP_HEADERS_MAX)
		return -431;
	*colon++ = '\0';
	colon += strspn(colon, " \t");
	end = colon + strlen(colon);
	while (end > colon && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	for (const char *c = colon; *c; c++)
		if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
			return -400;
	r->headers[r->n_headers].name = line;
	r->headers[r->n_headers++].value = colon;
	return 0;
}

const char *gs_http_header(const struct gs_http_request *r, const char *name)
{
	for (size_t i = 0; i < r->n_headers; i++)
		if (strcasecmp(r->headers[i].name, name) == 0)
			return r->headers[i].value;
	return NULL;
}

static size_t count_of(const struct gs_http_request *r, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_headers; i++)
		n += strcasecmp(r->headers[i].name, name) == 0;
	return n;
}

/* Whether a list like "close, TE" holds a word. */
static bool list_has(const char *list, const char *word)
{
	size_t n = strlen(word);

	while (list && *list) {
		list += strspn(list, " \t,");
		if (strncasecmp(list, word, n) == 0 && (!list[n] || strchr(" \t,;", list[n])))
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

/* What the headers say about the rest of the connection. */
static int parse_framing(struct gs_http_request *r)
{
	const char *length = gs_http_header(r, "content-length");
	const char *connection = gs_http_header(r, "connection");

	if (count_of(r, "transfer-encoding"))
		return -501;
	if (count_of(r, "content-length") > 1 || count_of(r, "host") > 1 ||
	    (!r->http_1_0 && !count_of(r, "host")))
		return -400;
	if (length) {
		if (!*length || strspn(length, "0123456789") != strlen(length) ||
		    strlen(length) > 18)
			return -400;
		r->content_bytes = strtoull(length, NULL, 10);
	}
	r->keep_alive =
		r->http_1_0 ? list_has(connection, "keep-alive") : !list_has(connection, "close");
	return 0;
}

/* The length of the head with its empty line; 0 when that has not come yet. */
static size_t head_bytes(const char *data, size_t bytes)
{
	for (size_t i = 0; i + 1 < bytes; i++)
		if (data[i] == '\n' &&
		    (data[i + 1] == '\n' ||
		     (i + 2 < bytes && data[i + 1] == '\r' && data[i + 2] == '\n')))
			return data[i + 1] == '\n' ? i + 2 : i + 3;
	return 0;
}

ssize_t gs_http_parse(char *data, size_t bytes, struct gs_http_request *r)
{
	size_t skip = 0, n;
	char *line;
	int error = 0;
	bool first = true;

	memset(r, 0, sizeof(*r));
	r->query = "";
	/* An empty line before a request is allowed (RFC 9112, 2.2). */
	while (skip < bytes && skip < 8 && (data[skip] == '\r' || data[skip] == '\n'))
		skip++;
	n = head_bytes(data + skip, bytes - skip);
	if (n == 0)
		return 0;
	line = data + skip;
	if (memchr(line, '\0', n))
		return -400;
	for (char *end = line + n; error == 0 && line < end;) {
		char *stop = memchr(line, '\n', (size_t)(end - line)), *next = stop + 1;

		if (stop > line && stop[-1] == '\r')
			stop--;
		*stop = '\0';
		if (stop == line)
			break;
		error = first ? parse_request_line(line, r) : parse_header(line, r);
		first = false;
		line = next;
	}
	if (error == 0)
		error = parse_framing(r);
	return error ? error : (ssize_t)(skip + n);
}

bool gs_http_accepts_gzip(const char *list)
{
	while (list && *list) {
		size_t n;

		list += strspn(list, " \t,");
		n = strcspn(list, ",");
		if (strncasecmp(list, "gzip", 4) == 0 && (n == 4 || strchr(" \t;", list[4]))) {
			const char *q = memchr(list, '=', n);

			return !q || strtod(q + 1, NULL) > 0;
		}
		list += n;
	}
	return false;
}

/* One part of the query, decoded as forms encode it. */
static int decode_part(const char *from, size_t n, char *out, size_t bytes)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		int c = (unsigned char)from[i];

		if (c == '+') {
			c = ' ';
		} else if (c == '%') {
			int high = i + 2 < n ? hex_of(from[i + 1]) : -1;
			int low = high < 0 ? -1 : hex_of(from[i + 2]);

			if (low < 0)
				return -EINVAL;
			c = high * 16 + low;
			i += 2;
		}
		if (c < 0x20 || c == 0x7f || at + 1 >= bytes)
			return -EINVAL;
		out[at++] = (char)c;
	}
	out[at] = '\0';
	return 0;
}

int gs_http_query(const struct gs_http_request *r, const char *name, char *out, size_t bytes)
{
	size_t name_bytes = strlen(name);

	out[0] = '\0';
	for (const char *p = r->query; *p; p += strcspn(p, "&"), p += *p == '&') {
		size_t n = strcspn(p, "&");
		int e;

		if (n < name_bytes || strncmp(p, name, name_bytes) != 0 ||
		    (n > name_bytes && p[name_bytes] != '='))
			continue;
		if (n == name_bytes)
			return 1;
		e = decode_part(p + name_bytes + 1, n - name_bytes - 1, out, bytes);
		if (e < 0)
			out[0] = '\0';
		return e < 0 ? e : 1;
	}
	return 0;
}
