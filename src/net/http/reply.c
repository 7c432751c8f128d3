/* From a reply to the bytes that are sent. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "core/text/json.h"
#include "net/http/http_int.h"

#define WORTH_BYTES 1024 /* less is not made smaller in packets by compression */

const char *gs_http_status_text(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 204:
		return "No Content";
	case 202:
		return "Accepted";
	case 304:
		return "Not Modified";
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 408:
		return "Request Timeout";
	case 409:
		return "Conflict";
	case 413:
		return "Content Too Large";
	case 415:
		return "Unsupported Media Type";
	case 421:
		return "Misdirected Request";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	case 503:
		return "Service Unavailable";
	case 507:
		return "Insufficient Storage";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Unknown";
	}
}

bool gs_http_gzip(const struct gs_buf *body, struct gs_buf *out)
{
	z_stream z = {0};
	bool done = false;

	if (body->bytes < WORTH_BYTES || body->bytes > 1U << 30)
		return false;
	/* 15 bits of window, +16: gzip. Level 1: metrics repeat themselves, more effort gains
	 * little. */
	if (deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return false;
	*out = GS_BUF_INIT(body->bytes + 64);
	if (gs_buf_reserve(out, body->bytes / 4 + 64) == 0) {
		z.next_in = body->data;
		z.avail_in = (uInt)body->bytes;
		for (;;) {
			int r;

			z.next_out = out->data + out->bytes;
			z.avail_out = (uInt)(out->capacity_bytes - out->bytes);
			r = deflate(&z, Z_FINISH);
			out->bytes = out->capacity_bytes - z.avail_out;
			done = r == Z_STREAM_END;
			/* Grown past the body: not worth it. */
			if (r != Z_OK ||
			    gs_buf_reserve(out, out->capacity_bytes - out->bytes + 1) < 0)
				break;
		}
	}
	deflateEnd(&z);
	if (!done)
		gs_buf_fini(out);
	return done;
}

/* Who looks at an answer as if it were a page finds one that may do nothing. */
#define NO_POLICY "default-src 'none'; frame-ancestors 'none'"

static int write_head(struct gs_buf *out, const struct gs_http_shape *shape,
		      const struct gs_http_reply *reply, const char *more,
		      enum gs_http_framing framing, size_t bytes, bool small)
{
	time_t now = time(NULL);
	char date[64], length[64] = "Transfer-Encoding: chunked\r\n";
	struct tm tm;
	int r;

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	if (framing == GS_HTTP_WHOLE)
		snprintf(length, sizeof(length), "Content-Length: %zu\r\n", bytes);
	else if (framing == GS_HTTP_TO_END)
		length[0] = '\0';
	r = gs_buf_printf(out,
			  "HTTP/1.1 %d %s\r\n"
			  "Date: %s\r\n"
			  "Content-Type: %s\r\n"
			  "%s%s%sCache-Control: %s\r\n"
			  "X-Content-Type-Options: nosniff\r\n"
			  "X-Frame-Options: DENY\r\n"
			  "Referrer-Policy: no-referrer\r\n"
			  "Cross-Origin-Resource-Policy: same-origin\r\n"
			  "Content-Security-Policy: %s\r\n"
			  "Vary: Accept, Accept-Encoding\r\n"
			  "Connection: %s\r\n",
			  reply->status, gs_http_status_text(reply->status), date, reply->type,
			  length, small ? "Content-Encoding: gzip\r\n" : "", more,
			  reply->etag ? "no-cache" : "no-store",
			  reply->policy ? reply->policy : NO_POLICY,
			  shape->keep_alive ? "keep-alive" : "close");
	if (r == 0 && shape->origin[0])
		r = gs_buf_printf(out,
				  "Access-Control-Allow-Origin: %s\r\n"
				  "Access-Control-Expose-Headers: Content-Disposition\r\n"
				  "Vary: Origin\r\n",
				  shape->origin);
	if (r == 0 && reply->etag)
		r = gs_buf_printf(out, "ETag: %s\r\n", reply->etag);
	if (r == 0 && reply->file_name[0])
		r = gs_buf_printf(out, "Content-Disposition: attachment; filename=\"%s\"\r\n",
				  reply->file_name);
	return r < 0 ? r : gs_buf_puts(out, "\r\n");
}

int gs_http_reply_write(struct gs_buf *out, const struct gs_http_shape *shape,
			struct gs_http_reply *reply, const char *more_headers,
			enum gs_http_framing framing)
{
	struct gs_buf small = GS_BUF_INIT(0);
	bool small_used = framing == GS_HTTP_WHOLE && shape->gzip && !reply->no_compression &&
			  !reply->is_gzip && gs_http_gzip(&reply->body, &small);
	const struct gs_buf *body = small_used ? &small : &reply->body;
	int r = write_head(out, shape, reply, more_headers, framing, body->bytes,
			   small_used || reply->is_gzip);

	if (r == 0 && framing == GS_HTTP_WHOLE && !shape->head)
		r = gs_buf_put(out, body->data, body->bytes);
	gs_buf_fini(&small);
	return r;
}

void gs_http_reply_check(struct gs_http_reply *reply)
{
	int r = reply->body.r;

	if (r == 0)
		return;
	reply->etag = NULL;
	reply->topics = 0;
	reply->file_name[0] = '\0';
	reply->is_gzip = reply->no_compression = false;
	if (r == -ENOBUFS)
		gs_http_error(reply, 500,
			      "the answer is larger than this server's limit: request less");
	else
		gs_http_error(reply, 503, "no memory for the answer");
}

bool gs_http_etag_known(const char *list, const char *etag)
{
	size_t n = etag ? strlen(etag) : 0;

	while (etag && list && *list) {
		list += strspn(list, " \t,");
		if (*list == '*')
			return true;
		if (strncmp(list, "W/", 2) == 0)
			list += 2;
		if (strncmp(list, etag, n) == 0 && (!list[n] || strchr(" \t,", list[n])))
			return true;
		list += strcspn(list, ",");
	}
	return false;
}

void gs_http_reply_fini(struct gs_http_reply *reply)
{
	gs_buf_fini(&reply->body);
	if (reply->has_source) {
		close(reply->source.fd);
		if (reply->source.free)
			reply->source.free(reply->source.ctx);
	}
	reply->has_source = false;
}

static const char *error_code(int status)
{
	switch (status) {
	case 400:
		return "INVALID_REQUEST";
	case 401:
		return "UNAUTHORIZED";
	case 403:
		return "FORBIDDEN";
	case 404:
		return "NOT_FOUND";
	case 405:
		return "METHOD_NOT_ALLOWED";
	case 408:
		return "TIMEOUT";
	case 409:
		return "CONFLICT";
	case 413:
		return "TOO_LARGE";
	case 415:
		return "UNSUPPORTED_MEDIA_TYPE";
	case 421:
		return "MISDIRECTED_REQUEST";
	case 431:
		return "HEADERS_TOO_LARGE";
	case 501:
		return "NOT_IMPLEMENTED";
	case 503:
		return "RESOURCE_UNAVAILABLE";
	case 507:
		return "INSUFFICIENT_STORAGE";
	default:
		return "INTERNAL_ERROR";
	}
}

void gs_http_error(struct gs_http_reply *reply, int status, const char *text)
{
	reply->status = status;
	gs_buf_reset(&reply->body);
	if (!reply->json_errors) {
		reply->type = "text/plain; charset=utf-8";
		(void)gs_buf_printf(&reply->body, "%d %s: %s\n", status,
				    gs_http_status_text(status), text);
		return;
	}
	reply->type = "application/json";
	gs_json_open(&reply->body, NULL, '{');
	gs_json_open(&reply->body, "error", '{');
	gs_json_text(&reply->body, "code", error_code(status));
	gs_json_text(&reply->body, "message", text);
	(void)gs_buf_puts(&reply->body, "}}\n");
}
