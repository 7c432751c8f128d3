/* From a reply to the bytes that are sent. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "http/http_int.h"

#define WORTH_BYTES 1024 /* less is not made smaller in packets by compression */

const char *gs_http_status_text(int status)
{
	switch (status) {
	case 200:
		return "OK";
	case 204:
		return "No Content";
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
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	case 503:
		return "Service Unavailable";
	case 505:
		return "HTTP Version Not Supported";
	default:
		return "Unknown";
	}
}

/* The body as gzip in out; false: it stays as it is. */
static bool compress_body(const struct gs_buf *body, struct gs_buf *out)
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

int gs_http_reply_write(struct gs_buf *out, const struct gs_http_request *request,
			struct gs_http_reply *reply, const char *more_headers, bool gzip,
			bool keep_alive)
{
	struct gs_buf small = GS_BUF_INIT(0);
	bool small_used = gzip && !reply->no_compression && compress_body(&reply->body, &small);
	const struct gs_buf *body = small_used ? &small : &reply->body;
	time_t now = time(NULL);
	char date[64];
	struct tm tm;
	int r;

	gmtime_r(&now, &tm);
	strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	r = gs_buf_printf(out,
			  "HTTP/1.1 %d %s\r\n"
			  "Date: %s\r\n"
			  "Content-Type: %s\r\n"
			  "Content-Length: %zu\r\n"
			  "%s%s"
			  "Cache-Control: no-store\r\n"
			  "X-Content-Type-Options: nosniff\r\n"
			  "Vary: Accept, Accept-Encoding\r\n"
			  "Connection: %s\r\n\r\n",
			  reply->status, gs_http_status_text(reply->status), date, reply->type,
			  body->bytes, small_used ? "Content-Encoding: gzip\r\n" : "", more_headers,
			  keep_alive ? "keep-alive" : "close");
	if (r == 0 && !request->head)
		r = gs_buf_put(out, body->data, body->bytes);
	gs_buf_fini(&small);
	return r;
}
