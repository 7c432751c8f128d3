/* Calls to a head, one after the other: what `gpuscope session` and gsprof do. */
#ifndef GS_COMMANDS_HEAD_REMOTE_H
#define GS_COMMANDS_HEAD_REMOTE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "commands/common/shared.h"
#include "core/base/err.h"
#include "net/grpc/grpc_client.h"

struct remote_options {
	const char *head;                    /* "host:port" */
	struct gs_cli_connection connection; /* how it is reached */
};

/* --head HOST:PORT of a command whose target has this struct remote_options; what else belongs to
 * it is GS_CLI_CONNECTION(). */
#define REMOTE_HEAD(type, member)                                                                  \
	{                                                                                          \
		"head", 0, "HOST:PORT", "the head to ask (127.0.0.1:8090)", GS_CLI_SET,            \
			GS_CLI_AT(type, member.head), .takes = REMOTE_ADDRESS,                     \
						      .set = remote_set_head                       \
	}
#define REMOTE_ADDRESS "the address of a head, HOST:PORT, [IPv6]:PORT or unix:/PATH"

/* For rows (gs_cli_option.set): an address, checked; the target has a const char *. */
int remote_set_head(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err);

/* The head that GPUSCOPE_HEAD names, for *head, which is left alone where it is set already. 0, or -EINVAL
 * with err: that is no address. */
int remote_head_from_environment(const char **head, struct gs_err *err);

/* Whether text is the address of a head: 0, or -EINVAL with err. */
int remote_check_address(const char *text, struct gs_err *err);

struct remote;

/* The options are borrowed for the call. A negative errno with err. */
int remote_open(const struct remote_options *options, struct remote **ret_remote,
		struct gs_err *err);
void remote_close(struct remote **remote);

/* One unary call; the answer is freed with protobuf_c_message_free_unpacked(). A negative errno
 * with err, also where the head refuses. */
int remote_call(struct remote *remote, const char *path, const ProtobufCMessage *in,
		const ProtobufCMessageDescriptor *out, void *ret_message, struct gs_err *err);

/* A call that is answered by any number of messages; fn returns 0, or a negative errno to end it.
 */
int remote_each(struct remote *remote, const char *path, const ProtobufCMessage *in,
		const ProtobufCMessageDescriptor *out, int (*fn)(void *ctx, const void *message),
		void *ctx, struct gs_err *err);

#endif
