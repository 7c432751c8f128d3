/*
 * A unary call of gRPC over libcurl's HTTP/2 (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md): a POST
 * whose body is one message after five bytes, and whose status stands in trailers, or in the
 * headers of an answer without a body. For single requests to servers of others, which so have the
 * proxies, certificates and deadlines of requests by HTTP; streams to a head are net/grpc's.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/http_client/http_client_int.h"

/* grpc.github.io/grpc/core/md_doc_statuscodes.html */
enum grpc_status {
	GRPC_UNKNOWN = 2,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_UNIMPLEMENTED = 12,
	GRPC_INTERNAL = 13,
	GRPC_UNAVAILABLE = 14,
	GRPC_UNAUTHENTICATED = 16,
};

uint8_t *http_client_grpc_body(const struct gs_http_client_http *q, size_t *ret_bytes)
{
	uint8_t *framed = malloc(HTTP_CLIENT_GRPC_HEAD + q->bytes);

	if (!framed)
		return NULL;
	framed[0] = 0; /* not compressed */
	for (unsigned i = 0; i < 4; i++)
		framed[1 + i] = (uint8_t)(q->bytes >> (24 - 8 * i));
	if (q->bytes)
		memcpy(framed + HTTP_CLIENT_GRPC_HEAD, q->body, q->bytes);
	*ret_bytes = HTTP_CLIENT_GRPC_HEAD + q->bytes;
	return framed;
}

void http_client_grpc_strip(struct http_client_grpc *g, const char **data, size_t *bytes)
{
	size_t left = HTTP_CLIENT_GRPC_HEAD - g->head_bytes;
	size_t n = *bytes < left ? *bytes : left;

	g->head_bytes += n;
	*data += n;
	*bytes -= n;
}

static int hex_of(char c)
{
	return isdigit((unsigned char)c)    ? c - '0'
	       : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
					    : -1;
}

/* "%41" is "A"; what steers a terminal is a blank. */
static void decode_message(const char *text, size_t bytes, char *out, size_t out_bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes && n + 1 < out_bytes; i++) {
		char c = text[i];

		int high = c == '%' && i + 2 < bytes ? hex_of(text[i + 1]) : -1;
		int low = high >= 0 ? hex_of(text[i + 2]) : -1;

		if (low >= 0) {
			c = (char)(high * 16 + low);
			i += 2;
		}
		out[n++] = (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
	}
	out[n] = '\0';
}

/* The value of the header of this name ("grpc-status:"), without blanks around it. */
static const char *value_of(const char *name, const char *data, size_t bytes, size_t *ret_bytes)
{
	size_t n = strlen(name);

	if (bytes < n || strncasecmp(data, name, n) != 0)
		return NULL;
	data += n;
	bytes -= n;
	while (bytes && isspace((unsigned char)data[0]))
		data++, bytes--;
	while (bytes && isspace((unsigned char)data[bytes - 1]))
		bytes--;
	*ret_bytes = bytes;
	return data;
}

void http_client_grpc_header(struct http_client_grpc *g, const char *data, size_t bytes)
{
	size_t n = 0;
	const char *value = value_of("grpc-status:", data, bytes, &n);

	if (value && n && n <= 2) {
		g->status = 0;
		for (size_t i = 0; i < n; i++)
			g->status = isdigit((unsigned char)value[i])
					    ? g->status * 10 + value[i] - '0'
					    : GRPC_UNKNOWN;
	}
	value = value_of("grpc-message:", data, bytes, &n);
	if (value)
		decode_message(value, n, g->message, sizeof(g->message));
}

int http_client_grpc_status(const struct http_client_grpc *g, long http_status)
{
	if (g->status >= 0)
		return g->status;
	/* github.com/grpc/grpc, doc/http-grpc-status-mapping.md */
	switch (http_status) {
	case 400:
		return GRPC_INTERNAL;
	case 401:
		return GRPC_UNAUTHENTICATED;
	case 403:
		return GRPC_PERMISSION_DENIED;
	case 404:
		return GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GRPC_UNAVAILABLE;
	default:
		return GRPC_UNKNOWN;
	}
}
