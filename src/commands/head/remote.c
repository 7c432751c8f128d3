#include "commands/head/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/net.h"
#include "core/base/secret.h"
#include "commands/common/cli.h"
#include "commands/head/head_local.h"

#define CONNECT_NS  10000000000ull
#define TIMEOUT_NS  120000000000ull /* of a call: a look at a long session takes its time */
#define MESSAGE_MAX (64u << 20)

struct remote {
	struct gs_grpc_client *client;
	const char *head; /* lent */
	bool lost, tls;
	char why[256];
	enum gs_grpc_status why_status;
};

struct call {
	const ProtobufCMessageDescriptor *out;
	int (*fn)(void *ctx, const void *message);
	void *ctx;
	int r;
	bool ended;
	enum gs_grpc_status status;
	char text[GS_GRPC_TEXT_MAX];
};

int remote_head_from_environment(const char **head, struct gs_err *err)
{
	const char *value = getenv(GS_CLI_ENV_HEAD);

	if (*head || !value || !*value)
		return 0;
	*head = value;
	if (remote_check_address(value, err) == 0)
		return 0;
	return gs_err_set(err, -EINVAL, GS_CLI_ENV_HEAD " takes " REMOTE_ADDRESS ", not \"%.100s\"",
			  value);
}

/* --- connection --- */

static void on_disconnected(void *ctx, enum gs_grpc_status status, const char *why)
{
	struct remote *r = ctx;

	r->lost = true;
	r->why_status = status;
	snprintf(r->why, sizeof(r->why), "%s", why);
}

static int connect_now(struct remote *r, struct gs_err *err)
{
	uint64_t until = gs_clock_mono_ns() + CONNECT_NS;
	int code = gs_grpc_client_connect(r->client);

	while (code == 0 && !r->lost && !gs_grpc_client_connected(r->client) &&
	       gs_clock_mono_ns() < until)
		gs_grpc_client_wait(r->client, 100000000ull);
	if (code == 0 && gs_grpc_client_connected(r->client))
		return 0;
	if (r->why_status == GS_GRPC_FAILED_PRECONDITION) /* it answered, and what to do is said */
		return gs_err_set(err, -ECONNREFUSED, "%s", r->why);
	return gs_err_set(
		err, code < 0 ? code : -ECONNREFUSED,
		"no head answers at %s%s%s: does it run (`gpuscope head`), %sis --head its address%s?",
		r->head, r->why[0] ? ": " : "", r->why, r->tls ? "and " : "",
		r->tls ? "" : ", and does it need --tls");
}

int remote_open(const struct remote_options *options, struct remote **ret_remote,
		struct gs_err *err)
{
	struct remote *r = calloc(1, sizeof(*r));
	char token[512] = "", local[128];
	/* On the head's own machine it knows who we are without a token. */
	bool is_local = !options->connection.tls &&
			!gs_cli_connection_has_token(&options->connection) &&
			head_local_find(options->head, local, sizeof(local));
	const char *addresses[] = {is_local ? local : options->head};
	struct gs_grpc_client_options o = {
		.size = sizeof(o),
		.addresses = addresses,
		.n_addresses = 1,
		.tls = options->connection.tls,
		.tls_ca = options->connection.ca,
		.tls_cert = options->connection.cert,
		.tls_key = options->connection.key,
		.server_name = options->connection.server_name,
		.events = {.disconnected = on_disconnected},
		.ctx = r,
		.max_message_bytes = MESSAGE_MAX,
	};
	int code = r ? 0 : gs_err_set(err, -ENOMEM, "no memory");

	if (code == 0 && gs_cli_connection_has_token(&options->connection)) {
		code = gs_cli_connection_token(&options->connection, token, sizeof(token), err);
		o.token = token;
	}
	if (code == 0) {
		r->head = options->head;
		r->tls = options->connection.tls;
		code = gs_grpc_client_new(&o, &r->client, err);
	}
	explicit_bzero(token, sizeof(token));
	if (code == 0)
		code = connect_now(r, err);
	if (code < 0) {
		remote_close(&r);
		return code;
	}
	*ret_remote = r;
	return 0;
}

void remote_close(struct remote **remote)
{
	if (!*remote)
		return;
	if ((*remote)->client)
		gs_grpc_client_free(&(*remote)->client);
	gs_free_p(remote);
}

/* --- calls --- */

static void on_message(void *ctx, struct gs_grpc_request *request, const void *data, size_t bytes)
{
	struct call *c = ctx;
	ProtobufCMessage *m = protobuf_c_message_unpack(c->out, NULL, bytes, data);

	if (c->r == 0)
		c->r = m ? c->fn(c->ctx, m) : -EBADMSG;
	if (m)
		protobuf_c_message_free_unpacked(m, NULL);
}

static void on_ended(void *ctx, struct gs_grpc_request *request, enum gs_grpc_status status,
		     const char *text)
{
	struct call *c = ctx;

	c->ended = true;
	c->status = status;
	snprintf(c->text, sizeof(c->text), "%s", text);
}

/* A head's words are shown as they are but for what steers a terminal. */
static void clean_text(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			*text = '?';
}

static int report_answer(const struct remote *r, struct call *c, struct gs_err *err)
{
	static const int codes[GS_GRPC_STATUS_COUNT] = {
		[GS_GRPC_NOT_FOUND] = -ESRCH,           [GS_GRPC_ALREADY_EXISTS] = -EEXIST,
		[GS_GRPC_PERMISSION_DENIED] = -EACCES,  [GS_GRPC_UNAUTHENTICATED] = -EACCES,
		[GS_GRPC_INVALID_ARGUMENT] = -EINVAL,   [GS_GRPC_UNIMPLEMENTED] = -ENOTSUP,
		[GS_GRPC_RESOURCE_EXHAUSTED] = -ENOSPC,
	};
	int code = (unsigned)c->status < GS_GRPC_STATUS_COUNT && codes[c->status] ? codes[c->status]
										  : -EIO;

	clean_text(c->text);
	if (c->status == GS_GRPC_UNIMPLEMENTED)
		return gs_err_set(err, code,
				  "the head at %s does not know this call: is it another program?",
				  r->head);
	if (c->status == GS_GRPC_UNAUTHENTICATED)
		return gs_err_set(err, code,
				  "the head at %s requires a token: give --token-file FILE%s%s",
				  r->head, c->text[0] ? ": " : "", c->text);
	return gs_err_set(err, code, "%s", c->text[0] ? c->text : gs_grpc_status_name(c->status));
}

int remote_each(struct remote *remote, const char *path, const ProtobufCMessage *in,
		const ProtobufCMessageDescriptor *out, int (*fn)(void *ctx, const void *message),
		void *ctx, struct gs_err *err)
{
	struct call c = {.out = out, .fn = fn, .ctx = ctx};
	struct gs_grpc_request_options o = {.size = sizeof(o),
					    .path = path,
					    .events = {.message = on_message, .ended = on_ended},
					    .ctx = &c,
					    .timeout_ns = fn ? TIMEOUT_NS : 0};
	size_t bytes = protobuf_c_message_get_packed_size(in);
	GS_FREE uint8_t *data = malloc(bytes + 1);
	struct gs_grpc_request *request = NULL;
	int r;

	if (!data)
		return gs_err_set(err, -ENOMEM, "no memory");
	protobuf_c_message_pack(in, data);
	r = gs_grpc_client_unary(remote->client, &o, data, bytes, &request);
	if (r < 0)
		return gs_err_set(err, r, "cannot call the head at %s: %s", remote->head,
				  strerror(-r));
	while (!c.ended && c.r == 0)
		gs_grpc_client_wait(remote->client, 1000000000ull);
	if (!c.ended)
		gs_grpc_request_cancel(&request);
	if (c.r < 0)
		return err && err->text[0]
			       ? c.r
			       : gs_err_set(err, c.r, "the head's answer: %s", strerror(-c.r));
	return c.status == GS_GRPC_OK ? 0 : report_answer(remote, &c, err);
}

struct kept {
	const ProtobufCMessageDescriptor *out;
	void *message;
};

/* Only its bytes outlive the callback: packed and unpacked once more. */
static int keep_message(void *ctx, const void *message)
{
	struct kept *k = ctx;
	size_t bytes = protobuf_c_message_get_packed_size(message);
	GS_FREE uint8_t *data = malloc(bytes + 1);

	if (!data || k->message)
		return data ? -EBADMSG : -ENOMEM;
	protobuf_c_message_pack(message, data);
	k->message = protobuf_c_message_unpack(k->out, NULL, bytes, data);
	return k->message ? 0 : -ENOMEM;
}

int remote_call(struct remote *remote, const char *path, const ProtobufCMessage *in,
		const ProtobufCMessageDescriptor *out, void *ret_message, struct gs_err *err)
{
	struct kept k = {.out = out};
	int r = remote_each(remote, path, in, out, keep_message, &k, err);

	if (r == 0 && !k.message)
		r = gs_err_set(err, -EBADMSG, "the head at %s answered nothing", remote->head);
	if (r < 0) {
		if (k.message)
			protobuf_c_message_free_unpacked(k.message, NULL);
		return r;
	}
	*(void **)ret_message = k.message;
	return 0;
}

/* --- options --- */

int remote_check_address(const char *text, struct gs_err *err)
{
	char host[256], port[8];

	if (strncmp(text, "unix:/", 6) == 0 ||
	    (gs_net_split(text, host, sizeof(host), port, sizeof(port)) && strcmp(host, "*") != 0))
		return 0;
	return gs_err_set(err, -EINVAL, "\"%s\" is not " REMOTE_ADDRESS, text);
}

int remote_set_head(void *target, const struct gs_cli_option *option, char *argument,
		    struct gs_err *err)
{
	memcpy((char *)target + option->offset, &argument, sizeof(argument));
	return remote_check_address(argument, NULL);
}
