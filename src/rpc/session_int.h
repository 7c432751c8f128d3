/* Between session.c and headers.c. */
#ifndef GS_RPC_SESSION_INT_H
#define GS_RPC_SESSION_INT_H

#include "rpc/server_int.h"

/* One field of a request. */
void gs_rpc_header_take(struct gs_rpc_call *call, const char *name, size_t name_bytes,
			const char *value, size_t value_bytes);

/* All fields are there: GS_RPC_OK with method and deadline set, or what the client is told (and the
 * refusal counted). May set the HTTP status. */
enum gs_rpc_status gs_rpc_header_check(struct gs_rpc_call *call, const char **ret_text);

/* End the call with this status, whatever was queued. */
void gs_rpc_session_end_call(struct gs_rpc_call *call, enum gs_rpc_status status, const char *text);

#endif
