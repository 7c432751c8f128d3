/* Calls to a head, one after the other: what `gpuscope session` and gsprof do. */
#ifndef GS_COMMANDS_HEAD_REMOTE_H
#define GS_COMMANDS_HEAD_REMOTE_H

#include <argp.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "core/base/err.h"
#include "net/grpc/grpc_client.h"

struct remote_options {
	const char *head; /* "host:port" */
	bool tls;
	const char *ca, *cert, *key, *server_name, *token_file;
};

/* The options of it, as a child of a command's own: --head, --tls, --ca, --cert, --key,
 * --server-name, --token-file. Its input is a struct remote_options. */
extern const struct argp remote_argp;

/* The text; where it is no HOST:PORT, wrong usage, which does not return. */
const char *remote_address(struct argp_state *state, const char *text);

struct remote;

int remote_open(const struct remote_options *options, struct remote **ret_remote,
		struct gs_err *err);
void remote_close(struct remote **remote);

/* One unary call; the answer is freed with protobuf_c_message_free_unpacked(). */
int remote_call(struct remote *remote, const char *path, const ProtobufCMessage *in,
		const ProtobufCMessageDescriptor *out, void *ret_message, struct gs_err *err);

/* A call that is answered by any number of messages; fn returns 0, or a negative errno to end it.
 */
int remote_each(struct remote *remote, const char *path, const ProtobufCMessage *in,
		const ProtobufCMessageDescriptor *out, int (*fn)(void *ctx, const void *message),
		void *ctx, struct gs_err *err);

#endif
