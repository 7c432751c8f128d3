/* Who may call what of a head: a file of roles and tokens. */
#ifndef GS_COMMANDS_HEAD_HEAD_TOKEN_H
#define GS_COMMANDS_HEAD_HEAD_TOKEN_H

#include "core/base/err.h"
#include "net/grpc/grpc.h"

struct head_tokens;

/* Lines of "ROLE TOKEN [NAME,...]": read, control or node, and of node which nodes. Blank lines and
 * those with # are passed over. The file must not be readable by everyone. A negative errno with
 * err. */
int head_tokens_read(const char *path, struct head_tokens **ret_tokens, struct gs_err *err);
void head_tokens_free(struct head_tokens **tokens);

/* The file is read again; on failure the old ones stay. Any thread. A negative errno with err. */
int head_tokens_reload(struct head_tokens *tokens, struct gs_err *err);

/* The hook of net/grpc/grpc.h; ctx is a struct head_tokens. */
enum gs_grpc_status head_tokens_authorize(void *ctx, const struct gs_grpc_call *call,
					  const struct gs_grpc_method *method, const char *token);

/* Whether the token of the call may deliver as this node. One that names no nodes may be any but
 * those that another line names. Otherwise why not. Any thread. */
bool head_tokens_may_be(struct head_tokens *tokens, const struct gs_grpc_call *call,
			const char *hostname, char *why, size_t bytes);

/* What the token of the call may: enum gs_head_role; GS_HEAD_ROLE_ANY: it shows none that is known.
 * Any thread. */
unsigned head_tokens_role(struct head_tokens *tokens, const struct gs_grpc_call *call);

/* Tokens of nodes on whose line no name stands, not even "*". */
size_t head_tokens_unbound(struct head_tokens *tokens);

/* One of the names, with commas, is that of the host: "gpu7", "gpu7.example", "gpu[0-9]*". A short
 * name is that of any domain. */
bool head_names_fit(const char *names, const char *hostname);

#endif
