/*
 * What clients send to a gRPC server: HTTP/2 frames, headers, messages, in pieces of any size,
 * through a session without a socket. The first byte chooses the pieces and whether a good preface
 * stands before the input, so that the fuzzer need not find it.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replay_main.h"
#include "net/grpc/server_int.h"

static unsigned n_open;

static void on_start(void *ctx, struct gs_grpc_call *call)
{
	struct gs_grpc_metadata m;

	(void)ctx;
	n_open++;
	for (size_t i = 0; gs_grpc_call_metadata_at(call, i, &m); i++) {
		assert(m.name[0] && strlen(m.value) < 16384);
		/* What came goes back, where it may: with the first message, and with the end. */
		(void)gs_grpc_call_header(call, m.name, m.value, strlen(m.value));
		(void)gs_grpc_call_trailer(call, m.name, m.value, strlen(m.value));
	}
	assert(gs_grpc_call_method(call) && gs_grpc_call_peer(call)[0]);
}

static void on_message(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	(void)ctx;
	assert(bytes <= 1000);
	if (bytes == 3)
		gs_grpc_call_pause(call);
	if (bytes == 4)
		(void)gs_grpc_call_finishf(call, GS_GRPC_ABORTED, "%s", "four");
	if (bytes == 5) {
		struct gs_grpc_flow flow;

		gs_grpc_call_flow(call, &flow);
		assert(flow.window_bytes < 1U << 31);
		(void)gs_grpc_call_reply(call, data, bytes);
	}
	/* Which also reads all of it. */
	(void)gs_grpc_call_send(call, data, bytes);
}

static void on_half_closed(void *ctx, struct gs_grpc_call *call)
{
	(void)ctx;
	(void)gs_grpc_call_finish(call, GS_GRPC_OK, NULL);
}

static void on_closed(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status)
{
	(void)ctx;
	assert(n_open > 0 && gs_grpc_call_over(call) && status < GS_GRPC_STATUS_COUNT);
	n_open--;
}

static enum gs_grpc_status check_token(void *ctx, const struct gs_grpc_call *call,
				       const struct gs_grpc_method *method, const char *token)
{
	(void)ctx, (void)call, (void)method;
	return token && strcmp(token, "no") == 0 ? GS_GRPC_PERMISSION_DENIED : GS_GRPC_OK;
}

static const struct gs_grpc_method methods[] = {
	{"/a/U", GS_GRPC_UNARY, 0, false, 0, on_start, on_message, on_half_closed, NULL, on_closed},
	{"/a/S", GS_GRPC_STREAM, 0, false, 0, on_start, on_message, on_half_closed, NULL,
	 on_closed},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const uint8_t hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
	const struct gs_grpc_server_options o = {.size = sizeof(o),
						 .methods = methods,
						 .n_methods = 2,
						 .authorize = check_token,
						 .max_message_bytes = 1000,
						 .max_held_bytes = 5000,
						 .max_queue_bytes = 5000,
						 .max_streams = 10};
	struct gs_buf out = GS_BUF_INIT(16U << 20);
	struct gs_grpc_session *s = NULL;
	struct gs_grpc_core *core = NULL;
	size_t piece;
	int r;

	if (bytes == 0 || gs_grpc_core_new(&o, &core, NULL) < 0)
		return 0;
	piece = data[0] & 1 ? 1 + (size_t)(data[0] >> 2) : bytes;
	r = gs_grpc_session_new(core, gs_grpc_peer_new("fuzz"), NULL, &s);
	assert(r == 0);
	if (data[0] & 2)
		r = gs_grpc_session_input(s, hello, sizeof(hello) - 1);
	data++;
	bytes--;
	while (r == 0 && bytes && !gs_grpc_session_done(s)) {
		size_t n = piece < bytes ? piece : bytes;

		r = gs_grpc_session_input(s, data, n);
		data += n;
		bytes -= n;
		gs_grpc_core_run(core);
		gs_timers_run(&core->timers, UINT64_MAX - 1);
		gs_buf_reset(&out);
		if (r == 0)
			r = gs_grpc_session_output(s, &out, 1U << 20);
		/* Work per byte: no block of headers is looked at far above its limit, whatever its
		 * bytes stand for (a name and a value of nghttp2's longest on top). */
		assert(s->block_bytes <= 4 * core->o.max_metadata_bytes + 4 * 65536);
	}
	gs_grpc_session_free(&s);
	gs_grpc_core_run(core);
	assert(n_open == 0);
	assert(core->held.bytes == 0 && core->counters.queued_bytes_now == 0 && !core->ready &&
	       !core->timers.n);
	gs_grpc_core_unref(&core);
	gs_buf_fini(&out);
	return 0;
}
