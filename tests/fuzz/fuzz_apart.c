/* What a server's process says to the holder of rights and values, should somebody have broken into
 * it: messages one after another. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/http/apart_int.h"
#include "replay_main.h"

static void take(struct gs_wire_in *in, uint32_t kind, struct gs_http_stats *counts)
{
	static const struct gs_http_route routes[] = {
		{.path = "/metrics", .methods = GS_HTTP_GET},
		{.path = "/a/{}/{}", .methods = GS_HTTP_GET | GS_HTTP_POST},
		{.path = "/c", .methods = GS_HTTP_POST, .control = true},
	};
	static struct gs_http_request q;
	struct gs_http_stats before = *counts;
	char value[64];
	uint64_t id;
	uint32_t route;

	if (kind == HTTP_APART_COUNTS && http_apart_take_counts(in, &before, counts))
		assert(counts->connections >= before.connections);
	if (kind != HTTP_APART_REQUEST ||
	    !http_apart_take_request(in, routes, GS_ARRAY_LEN(routes), &id, &route, &q))
		return;
	assert(route < GS_ARRAY_LEN(routes) && (q.method & routes[route].methods));
	assert(!routes[route].control || q.may_control);
	assert(q.path[0] == '/' && memchr(q.path, '\0', sizeof(q.path)));
	assert(route != 1 || (q.param[0][0] && q.param[1][0]));
	(void)gs_http_query(&q, "a", value, sizeof(value));
	assert(memchr(value, '\0', sizeof(value)));
	(void)gs_http_header(&q, "accept");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct gs_buf in = GS_BUF_INIT(SIZE_MAX);
	struct gs_http_stats counts = {0};
	struct http_apart_head head;
	size_t at = 0;

	if (gs_buf_put(&in, data, bytes) < 0)
		return 0;
	while (http_apart_next(&in, at, HTTP_APART_MESSAGE_MAX, &head) == 1) {
		struct gs_wire_in message = GS_WIRE_IN(in.data + at + sizeof(head), head.bytes);

		take(&message, head.kind, &counts);
		at += sizeof(head) + head.bytes;
		assert(at <= in.bytes);
	}
	gs_buf_fini(&in);
	return 0;
}
