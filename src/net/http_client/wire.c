/* Requests and results as bytes. Files of authorities go as descriptors, not by name. */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "net/http_client/http_client_int.h"

enum { BODY_THERE = 1, BODY_GRPC = 2 };

static void put_body(struct gs_wire_out *out, const void *body, size_t bytes, bool grpc)
{
	gs_wire_put_u8(out, (uint8_t)((body ? BODY_THERE : 0) | (grpc ? BODY_GRPC : 0)));
	gs_wire_put_u32(out, body ? (uint32_t)bytes : 0);
	if (body)
		gs_wire_put(out, body, bytes);
}

static const void *take_body(struct gs_wire_in *in, size_t *ret_bytes, bool *ret_grpc)
{
	unsigned flags = gs_wire_u8(in);
	const void *body;

	*ret_bytes = gs_wire_u32(in);
	body = gs_wire_bytes(in, *ret_bytes);
	*ret_grpc = flags & BODY_GRPC;
	return flags & BODY_THERE ? body : NULL;
}

void http_client_put_http(struct gs_wire_out *out, const struct gs_http_client_http *q,
			  uint64_t answer_max)
{
	gs_wire_put_text(out, q->url);
	gs_wire_put_text(out, q->token);
	gs_wire_put_text(out, q->type);
	for (unsigned i = 0; i < GS_HTTP_CLIENT_HEADERS_MAX; i++)
		gs_wire_put_text(out, q->header[i]);
	gs_wire_put_u64(out, q->timeout_ns);
	gs_wire_put_u64(out, answer_max);
	put_body(out, q->body, q->bytes, q->grpc);
}

bool http_client_take_http(struct gs_wire_in *in, struct gs_http_client_http *ret,
			   uint64_t *ret_answer_max)
{
	*ret = (struct gs_http_client_http){.url = gs_wire_text(in)};
	ret->token = gs_wire_text(in);
	ret->type = gs_wire_text(in);
	for (unsigned i = 0; i < GS_HTTP_CLIENT_HEADERS_MAX; i++)
		ret->header[i] = gs_wire_text(in);
	ret->timeout_ns = gs_wire_u64(in);
	*ret_answer_max = gs_wire_u64(in);
	ret->body = take_body(in, &ret->bytes, &ret->grpc);
	return gs_wire_is_done(in) && ret->url;
}

void http_client_put_mail(struct gs_wire_out *out, const struct gs_http_client_mail *m)
{
	gs_wire_put_text(out, m->url);
	gs_wire_put_u32(out, (uint32_t)m->use_ssl);
	gs_wire_put_text(out, m->username);
	gs_wire_put_text(out, m->password);
	gs_wire_put_text(out, m->from);
	gs_wire_put_text(out, m->recipients);
	gs_wire_put_u64(out, m->timeout_ns);
	put_body(out, m->body, m->bytes, false);
}

bool http_client_take_mail(struct gs_wire_in *in, struct gs_http_client_mail *ret)
{
	bool grpc;

	*ret = (struct gs_http_client_mail){.url = gs_wire_text(in)};
	ret->use_ssl = (int)gs_wire_u32(in);
	ret->username = gs_wire_text(in);
	ret->password = gs_wire_text(in);
	ret->from = gs_wire_text(in);
	ret->recipients = gs_wire_text(in);
	ret->timeout_ns = gs_wire_u64(in);
	ret->body = take_body(in, &ret->bytes, &grpc);
	return gs_wire_is_done(in) && ret->url && ret->username && ret->password && ret->from &&
	       ret->recipients && ret->body;
}

void http_client_put_result(struct gs_wire_out *out, const struct http_client_result *result)
{
	gs_wire_put_u32(out, (uint32_t)-result->r);
	gs_wire_put_u32(out, (uint32_t)result->status);
	gs_wire_put_u64(out, result->retry_after_ns);
	gs_wire_put_text(out, result->err.text);
}

bool http_client_take_result(struct gs_wire_in *in, struct http_client_result *ret)
{
	uint32_t code = gs_wire_u32(in), status = gs_wire_u32(in);
	const char *text;

	*ret = (struct http_client_result){.retry_after_ns = gs_wire_u64(in)};
	text = gs_wire_line(in);
	if (!gs_wire_is_done(in) || !text || code >= 4096 || status >= 1000 ||
	    ret->retry_after_ns > 86400ull * 1000000000)
		return false;
	ret->r = -(int)code;
	ret->status = (long)status;
	snprintf(ret->err.text, sizeof(ret->err.text), "%s", text);
	return true;
}
