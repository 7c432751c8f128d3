/* Who may call what of a head: a file of roles and tokens. */
#ifndef GS_HEADCMD_HEAD_TOKEN_H
#define GS_HEADCMD_HEAD_TOKEN_H

#include "base/err.h"
#include "rpc/rpc.h"

struct head_tokens;

/* Lines of "ROLE TOKEN": read, control or node. Blank lines and those with # are passed over. The
 * file must not be readable by everyone. */
int head_tokens_read(const char *path, struct head_tokens **ret_tokens, struct gs_err *err);
void head_tokens_free(struct head_tokens **tokens);

/* The file is read again; on failure the old ones stay. Any thread. */
int head_tokens_reload(struct head_tokens *tokens, struct gs_err *err);

/* The hook of rpc.h; ctx is a struct head_tokens. */
enum gs_rpc_status head_tokens_authorize(void *ctx, const struct gs_rpc_call *call,
					 const struct gs_rpc_method *method, const char *token);

#endif
