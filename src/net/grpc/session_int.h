/* Between session.c, headers.c and flood.c. */
#ifndef GS_NET_GRPC_SESSION_INT_H
#define GS_NET_GRPC_SESSION_INT_H

#include "net/grpc/server_int.h"

/* One field of a request. */
void gs_grpc_header_take(struct gs_grpc_call *call, const char *name, size_t name_bytes,
			 const char *value, size_t value_bytes);

/* All fields are there: GS_GRPC_OK with method and deadline set, or what the client gets (and the
 * refusal counted). May set the HTTP status. */
enum gs_grpc_status gs_grpc_header_check(struct gs_grpc_call *call, const char **ret_text);

/* --- flood.c --- */

#define GS_GRPC_CONTROL_BURST 2000 /* control frames at once */
#define GS_GRPC_HPACK_BYTES   4096 /* of what a client's fields may refer to, per connection */

/* Of a bucket that is full at the burst. False: it is empty. */
bool gs_grpc_flood_take_token(double *tokens, uint64_t *filled_ns, double burst, double per_second);

/* Count a frame that came; true: there were too many such, and GOAWAY is on its way. */
bool gs_grpc_flood_frame(struct gs_grpc_session *session, const nghttp2_frame *frame);

/* Count a field of a block of headers, whatever becomes of it: what nghttp2's callback returns. */
int gs_grpc_flood_header(struct gs_grpc_session *session, size_t name_bytes, size_t value_bytes);

/* End the call with this status, whatever was queued. */
void gs_grpc_session_end_call(struct gs_grpc_call *call, enum gs_grpc_status status,
			      const char *text);

#endif
