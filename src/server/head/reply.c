/* Messages of protobuf as answers. */
#include "server/head/reply.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/mem.h"

void gs_head_reply(struct gs_grpc_call *call, const ProtobufCMessage *m)
{
	size_t bytes = protobuf_c_message_get_packed_size(m);
	GS_FREE uint8_t *out = malloc(bytes + 1);
	int r = -ENOMEM;

	if (out) {
		protobuf_c_message_pack(m, out);
		r = gs_grpc_call_reply(call, out, bytes);
	}
	if (r < 0)
		gs_grpc_call_finish(call, GS_GRPC_RESOURCE_EXHAUSTED, "the answer is too large");
}
