/* Texts of gRPC's headers: statuses, messages, time-outs, binary values (gRPC's own
 * doc/PROTOCOL-HTTP2.md says how each is written). */
#include <errno.h>
#include <string.h>

#include "net/grpc/grpc_int.h"

const char *gs_grpc_status_name(unsigned status)
{
	static const char *const names[] = {
		[GS_GRPC_OK] = "OK",
		[GS_GRPC_CANCELLED] = "CANCELLED",
		[GS_GRPC_UNKNOWN] = "UNKNOWN",
		[GS_GRPC_INVALID_ARGUMENT] = "INVALID_ARGUMENT",
		[GS_GRPC_DEADLINE_EXCEEDED] = "DEADLINE_EXCEEDED",
		[GS_GRPC_NOT_FOUND] = "NOT_FOUND",
		[GS_GRPC_ALREADY_EXISTS] = "ALREADY_EXISTS",
		[GS_GRPC_PERMISSION_DENIED] = "PERMISSION_DENIED",
		[GS_GRPC_RESOURCE_EXHAUSTED] = "RESOURCE_EXHAUSTED",
		[GS_GRPC_FAILED_PRECONDITION] = "FAILED_PRECONDITION",
		[GS_GRPC_ABORTED] = "ABORTED",
		[GS_GRPC_OUT_OF_RANGE] = "OUT_OF_RANGE",
		[GS_GRPC_UNIMPLEMENTED] = "UNIMPLEMENTED",
		[GS_GRPC_INTERNAL] = "INTERNAL",
		[GS_GRPC_UNAVAILABLE] = "UNAVAILABLE",
		[GS_GRPC_DATA_LOSS] = "DATA_LOSS",
		[GS_GRPC_UNAUTHENTICATED] = "UNAUTHENTICATED",
	};

	return status < GS_GRPC_STATUS_COUNT ? names[status] : "UNKNOWN";
}

const char *gs_grpc_refusal_name(enum gs_grpc_refusal refusal)
{
	static const char *const names[] = {
		[GS_GRPC_REFUSED_CONNECTIONS] = "too many connections",
		[GS_GRPC_REFUSED_ADDRESS] = "too many connections of one address",
		[GS_GRPC_REFUSED_EVICTED] = "closed for a new connection",
		[GS_GRPC_REFUSED_NO_FD] = "no file descriptors",
		[GS_GRPC_REFUSED_HANDSHAKE] = "handshake failed",
		[GS_GRPC_REFUSED_SLOW] = "handshake too slow",
		[GS_GRPC_REFUSED_SILENT] = "keepalive unanswered",
		[GS_GRPC_REFUSED_PROTOCOL] = "protocol error",
		[GS_GRPC_REFUSED_FLOOD] = "flood of control frames or headers",
		[GS_GRPC_REFUSED_STREAMS] = "too many calls at once",
		[GS_GRPC_REFUSED_METADATA] = "metadata too large",
		[GS_GRPC_REFUSED_REQUEST] = "not a gRPC request",
		[GS_GRPC_REFUSED_METHOD] = "unknown method",
		[GS_GRPC_REFUSED_ENCODING] = "compressed messages",
		[GS_GRPC_REFUSED_TOKEN] = "not allowed",
		[GS_GRPC_REFUSED_MESSAGE] = "message too large",
		[GS_GRPC_REFUSED_FRAMING] = "messages miscounted",
		[GS_GRPC_REFUSED_MEMORY] = "out of memory for messages",
		[GS_GRPC_REFUSED_RATE] = "too many messages a second",
	};

	return refusal > 0 && refusal < GS_GRPC_REFUSAL_COUNT ? names[refusal] : "unknown";
}

/* --- grpc-message --- */

static const char hex[] = "0123456789ABCDEF";

void gs_grpc_percent_encode(const char *text, char *out, size_t bytes)
{
	size_t n = 0, whole = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
		bool plain = *p >= 0x20 && *p <= 0x7e && *p != '%';

		if ((*p & 0xc0) != 0x80)
			whole = n; /* a character begins */
		if (n + (plain ? 1 : 3) >= bytes) {
			n = whole;
			break;
		}
		if (plain) {
			out[n++] = (char)*p;
		} else {
			out[n++] = '%';
			out[n++] = hex[*p >> 4];
			out[n++] = hex[*p & 15];
		}
	}
	out[n] = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void gs_grpc_percent_decode(const char *text, size_t text_bytes, char *out, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < text_bytes && n + 1 < bytes; i++) {
		int a = -1, b = -1;

		if (text[i] == '%' && i + 2 < text_bytes) {
			a = hex_digit(text[i + 1]);
			b = hex_digit(text[i + 2]);
		}
		if (a >= 0 && b >= 0 && (a | b)) { /* a zero would cut the text */
			out[n++] = (char)(a << 4 | b);
			i += 2;
		} else {
			out[n++] = text[i];
		}
	}
	out[n] = '\0';
}

/* --- grpc-timeout: at most eight digits and a unit --- */

static const struct {
	char name;
	uint64_t ns;
} units[] = {{'n', 1},          {'u', 1000},           {'m', 1000000},
	     {'S', 1000000000}, {'M', 60000000000ULL}, {'H', 3600000000000ULL}};

bool gs_grpc_timeout_parse(const char *text, uint64_t *ret_ns)
{
	size_t digits = strspn(text, "0123456789");
	uint64_t n = 0;

	if (digits == 0 || digits > 8 || !text[digits] || text[digits + 1])
		return false;
	for (size_t i = 0; i < digits; i++)
		n = n * 10 + (uint64_t)(text[i] - '0');
	for (size_t i = 0; i < GS_ARRAY_LEN(units); i++) {
		if (units[i].name != text[digits])
			continue;
		if (__builtin_mul_overflow(n, units[i].ns, ret_ns))
			*ret_ns = UINT64_MAX;
		return true;
	}
	return false;
}

void gs_grpc_timeout_format(uint64_t ns, char out[GS_GRPC_TIMEOUT_MAX])
{
	/* Rounded up: the server shall not give up before the client does. */
	for (size_t i = 0; i < GS_ARRAY_LEN(units); i++) {
		uint64_t n = ns / units[i].ns + (ns % units[i].ns != 0);

		if (n <= 99999999) {
			snprintf(out, GS_GRPC_TIMEOUT_MAX, "%u%c", (unsigned)n, units[i].name);
			return;
		}
	}
	snprintf(out, GS_GRPC_TIMEOUT_MAX, "99999999H");
}

/* --- "-bin" values: base64, padding optional (RFC 4648) --- */

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t gs_grpc_bin_encode(const void *data, size_t bytes, char *out)
{
	const uint8_t *p = data;
	uint32_t bits = 0;
	unsigned n_bits = 0;
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++) {
		bits = bits << 8 | p[i];
		for (n_bits += 8; n_bits >= 6; n_bits -= 6)
			out[n++] = digits64[bits >> (n_bits - 6) & 63];
	}
	if (n_bits)
		out[n++] = digits64[bits << (6 - n_bits) & 63];
	out[n] = '\0';
	return n;
}

ssize_t gs_grpc_bin_decode(const char *text, void *ret_data, size_t max_bytes)
{
	uint8_t *out = ret_data;
	uint32_t bits = 0;
	unsigned n_bits = 0;
	size_t n = 0, i;

	for (i = 0; text[i] && text[i] != '='; i++) {
		const char *digit = strchr(digits64, text[i]);

		if (!digit)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)(digit - digits64);
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			if (n == max_bytes)
				return -ENOBUFS;
			out[n++] = (uint8_t)(bits >> n_bits);
		}
	}
	if (i % 4 == 1 || text[i + strspn(text + i, "=")])
		return -EINVAL;
	return (ssize_t)n;
}

/* --- metadata --- */

bool gs_grpc_name_valid(const char *name)
{
	size_t n = strlen(name);

	return n > 0 && n <= 128 && strspn(name, "0123456789abcdefghijklmnopqrstuvwxyz_.-") == n &&
	       strncmp(name, "grpc-", 5) != 0 && strcmp(name, "te") != 0 &&
	       strcmp(name, "content-type") != 0 && strcmp(name, "connection") != 0 &&
	       strcmp(name, "host") != 0 && strcmp(name, "transfer-encoding") != 0 &&
	       strcmp(name, "upgrade") != 0 && strcmp(name, "keep-alive") != 0 &&
	       strcmp(name, "content-length") != 0 && strcmp(name, "proxy-connection") != 0;
}

bool gs_grpc_value_valid(const char *value, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (value[i] < 0x20 || value[i] > 0x7e)
			return false;
	/* HTTP/2 allows no spaces around it (RFC 9113, 8.2.1). */
	return !bytes || (value[0] != ' ' && value[bytes - 1] != ' ');
}

/* --- statuses that others send --- */

/* gRPC's doc/http-grpc-status-mapping.md. */
enum gs_grpc_status gs_grpc_status_of_http(int http_status)
{
	switch (http_status) {
	case 400:
		return GS_GRPC_INTERNAL;
	case 401:
		return GS_GRPC_UNAUTHENTICATED;
	case 403:
		return GS_GRPC_PERMISSION_DENIED;
	case 404:
		return GS_GRPC_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return GS_GRPC_UNAVAILABLE;
	}
	return GS_GRPC_UNKNOWN;
}

/* gRPC's doc/PROTOCOL-HTTP2.md, "Errors". */
enum gs_grpc_status gs_grpc_status_of_h2(uint32_t error_code)
{
	switch (error_code) {
	case NGHTTP2_REFUSED_STREAM:
		return GS_GRPC_UNAVAILABLE;
	case NGHTTP2_CANCEL:
		return GS_GRPC_CANCELLED;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return GS_GRPC_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return GS_GRPC_PERMISSION_DENIED;
	}
	return GS_GRPC_INTERNAL;
}
