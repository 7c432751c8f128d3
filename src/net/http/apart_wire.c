/* The messages of apart_int.h as bytes. */
#include <errno.h>
#include <string.h>

#include "net/http/apart_int.h"

size_t http_apart_begin(struct gs_wire_out *out)
{
	const struct http_apart_head none = {0};
	size_t at = out->buf->bytes;

	gs_wire_put(out, &none, sizeof(none));
	return at;
}

void http_apart_end(struct gs_wire_out *out, size_t at, enum http_apart_kind kind)
{
	struct http_apart_head head = {.kind = kind};

	if (out->r < 0) { /* half a message is none */
		out->buf->bytes = at;
		return;
	}
	head.bytes = (uint32_t)(out->buf->bytes - at - sizeof(head));
	memcpy(out->buf->data + at, &head, sizeof(head));
}

int http_apart_next(const struct gs_buf *in, size_t at, size_t max, struct http_apart_head *ret)
{
	if (in->bytes - at < sizeof(*ret))
		return 0;
	memcpy(ret, in->data + at, sizeof(*ret));
	if (ret->bytes > max)
		return -EBADMSG;
	return in->bytes - at - sizeof(*ret) >= ret->bytes;
}

/* --- requests --- */

enum { FLAG_HEAD = 1, FLAG_CONTROL = 2, FLAG_GZIP = 4, FLAG_LOCAL = 8, FLAGS = 15 };

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool is_query(const char *text)
{
	size_t n = strspn(text, LETTERS "-._~%+&=,;:!$'()*/?@[]|");

	return n < HTTP_APART_QUERY_MAX && !text[n];
}

static bool is_accept(const char *text)
{
	size_t n = strspn(text, LETTERS "-._+*/;=, \t");

	return n < HTTP_APART_ACCEPT_MAX && !text[n];
}

static bool is_path(const char *text)
{
	size_t n = strnlen(text, GS_HTTP_PATH_MAX);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			return false;
	return text[0] == '/' && n < GS_HTTP_PATH_MAX;
}

bool http_apart_put_request(struct gs_wire_out *out, uint64_t id, uint32_t route,
			    const struct gs_http_request *q)
{
	const char *accept = gs_http_header(q, "accept");
	size_t at;

	if (!is_path(q->path) || !is_query(q->query))
		return false;
	at = http_apart_begin(out);
	gs_wire_put_u64(out, id);
	gs_wire_put_u32(out, route);
	gs_wire_put_u8(out, (uint8_t)q->method);
	gs_wire_put_u8(out,
		       (uint8_t)((q->head ? FLAG_HEAD : 0) | (q->may_control ? FLAG_CONTROL : 0) |
				 (q->gzip ? FLAG_GZIP : 0) | (q->local ? FLAG_LOCAL : 0)));
	gs_wire_put_u8(out, (uint8_t)q->see);
	gs_wire_put_text(out, q->path);
	gs_wire_put_text(out, q->query);
	/* One that cannot be passed on says nothing: that is allowed, and asks for the usual. */
	gs_wire_put_text(out, accept && is_accept(accept) ? accept : "");
	http_apart_end(out, at, HTTP_APART_REQUEST);
	return out->r == 0;
}

bool http_apart_take_request(struct gs_wire_in *in, const struct gs_http_route *routes,
			     size_t n_routes, uint64_t *ret_id, uint32_t *ret_route,
			     struct gs_http_request *ret)
{
	uint64_t id = gs_wire_u64(in);
	uint32_t route = gs_wire_u32(in);
	uint8_t method = gs_wire_u8(in), flags = gs_wire_u8(in), see = gs_wire_u8(in);
	const char *path = gs_wire_text(in), *query = gs_wire_text(in), *accept = gs_wire_text(in);

	if (!gs_wire_is_done(in) || !path || !query || !accept || route >= n_routes)
		return false;
	/* One method, which the route has. */
	if ((method & (method - 1)) || !(routes[route].methods & method) || (flags & ~FLAGS) ||
	    see > GS_HTTP_SEE_WHOLE || (routes[route].control && !(flags & FLAG_CONTROL)) ||
	    !is_path(path) || !is_query(query) || !is_accept(accept))
		return false;
	memset(ret, 0, offsetof(struct gs_http_request, params));
	ret->method = method;
	ret->head = flags & FLAG_HEAD;
	ret->may_control = flags & FLAG_CONTROL;
	ret->gzip = flags & FLAG_GZIP;
	ret->local = flags & FLAG_LOCAL;
	ret->see = see;
	strcpy(ret->path, path);
	ret->query = query;
	ret->headers[0].name = "accept";
	ret->headers[0].value = accept;
	ret->n_headers = accept[0] != '\0';
	*ret_id = id;
	*ret_route = route;
	return gs_http_matches(routes[route].path, ret);
}

/* --- counts --- */

#define GROWING(X)                                                                                 \
	X(requests[0])                                                                             \
	X(requests[1])                                                                             \
	X(requests[2])                                                                             \
	X(requests[3])                                                                             \
	X(requests[4])                                                                             \
	X(connections)                                                                             \
	X(refused)                                                                                 \
	X(evicted)                                                                                 \
	X(timed_out)                                                                               \
	X(tls_failures)                                                                            \
	X(slow)                                                                                    \
	X(unpublished)                                                                             \
	X(cut)

void http_apart_put_counts(struct gs_wire_out *out, const struct gs_http_stats *s)
{
	size_t at = http_apart_begin(out);

#define PUT(field) gs_wire_put_u64(out, s->field);
	GROWING(PUT)
#undef PUT
	gs_wire_put_u64(out, s->open);
	gs_wire_put_u64(out, s->streams);
	http_apart_end(out, at, HTTP_APART_COUNTS);
}

bool http_apart_take_counts(struct gs_wire_in *in, const struct gs_http_stats *before,
			    struct gs_http_stats *ret)
{
	struct gs_http_stats s = {0};
	bool grows = true;

#define TAKE(field)                                                                                \
	s.field = gs_wire_u64(in);                                                                 \
	grows &= s.field >= before->field && s.field < UINT64_MAX / 2;
	GROWING(TAKE)
#undef TAKE
	s.open = gs_wire_u64(in);
	s.streams = gs_wire_u64(in);
	if (!gs_wire_is_done(in) || !grows || s.open > UINT32_MAX || s.streams > UINT32_MAX)
		return false;
	*ret = s;
	return true;
}

void http_apart_add_counts(struct gs_http_stats *to, const struct gs_http_stats *more)
{
#define ADD(field) to->field += more->field;
	GROWING(ADD)
#undef ADD
}

/* --- what the holder says --- */

static void put_bytes(struct gs_wire_out *out, const struct gs_buf *b)
{
	gs_wire_put_u32(out, (uint32_t)b->bytes);
	gs_wire_put(out, b->data, b->bytes);
}

static void take_bytes(struct gs_wire_in *in, struct gs_buf *b)
{
	uint32_t n = gs_wire_u32(in);
	const void *data = gs_wire_bytes(in, n);

	*b = GS_BUF_INIT(UINT32_MAX);
	if (data && gs_buf_put(b, data, n) < 0)
		in->bad = true;
}

/* Both processes run the same program, so plain values are the same bytes in both. */
void http_apart_put_settings(struct gs_wire_out *out, const struct settings *s)
{
	struct settings *plain = malloc(sizeof(*plain));

	if (!plain) {
		out->r = -ENOMEM;
		return;
	}
	*plain = *s;
	plain->listen_fd = -1;
	plain->tls = NULL;
	plain->pem.cert = plain->pem.key = plain->pem.client_ca = GS_BUF_INIT(0);
	plain->auth.token_role = NULL;
	plain->auth.token_ctx = NULL;
	gs_wire_put(out, plain, sizeof(*plain));
	put_bytes(out, &s->pem.cert);
	put_bytes(out, &s->pem.key);
	put_bytes(out, &s->pem.client_ca);
	explicit_bzero(plain, sizeof(*plain));
	free(plain);
}

struct settings *http_apart_take_settings(struct gs_wire_in *in)
{
	const void *plain = gs_wire_bytes(in, sizeof(struct settings));
	GS_CLEANUP(http_settings_free) struct settings *s = malloc(sizeof(*s));

	if (!s)
		return NULL;
	if (!plain) {
		free(gs_take(s));
		return NULL;
	}
	memcpy(s, plain, sizeof(*s));
	take_bytes(in, &s->pem.cert);
	take_bytes(in, &s->pem.key);
	take_bytes(in, &s->pem.client_ca);
	if (in->bad || (s->pem.cert.bytes && gs_http_tls_open(&s->pem, &s->tls, NULL) < 0))
		return NULL;
	gs_http_pem_forget(&s->pem);
	return gs_take(s);
}

void http_apart_put_routes(struct gs_wire_out *out, const struct gs_http_route *r, size_t n)
{
	gs_wire_put_u32(out, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		gs_wire_put_text(out, r[i].path);
		gs_wire_put_u32(out, r[i].methods);
		gs_wire_put_u8(out, r[i].open);
		gs_wire_put_u8(out, r[i].harmless);
		gs_wire_put_u8(out, r[i].control);
		gs_wire_put_u8(out, r[i].vital);
	}
}

void http_apart_put_answer(struct gs_wire_out *out, uint64_t id, const struct gs_http_reply *reply)
{
	size_t at = http_apart_begin(out);

	gs_wire_put_u64(out, id);
	gs_wire_put_u32(out, (uint32_t)reply->status);
	gs_wire_put_u32(out, reply->topics);
	gs_wire_put_u8(out, reply->no_compression);
	gs_wire_put_u8(out, reply->is_gzip);
	gs_wire_put_text(out, reply->type);
	gs_wire_put_text(out, reply->etag);
	gs_wire_put_text(out, reply->policy);
	gs_wire_put_text(out, reply->file_name);
	put_bytes(out, &reply->body);
	http_apart_end(out, at, HTTP_APART_ANSWER);
}
