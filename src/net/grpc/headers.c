/* What a client sends before its messages: who it is, what it wants, how long it waits. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "core/base/clock.h"
#include "net/grpc/session_int.h"

static bool is(const char *name, size_t bytes, const char *wanted)
{
	return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

static void blame(struct gs_rpc_call *call, enum gs_rpc_refusal why, enum gs_rpc_status status,
		  const char *text)
{
	if (call->refused != GS_RPC_OK)
		return;
	call->refused = status;
	call->refused_text = text;
	gs_rpc_core_refuse(call->core, why);
}

static void take_path(struct gs_rpc_call *call, const char *value, size_t bytes)
{
	char path[512];

	if (bytes < sizeof(path) && !memchr(value, '\0', bytes)) {
		memcpy(path, value, bytes);
		path[bytes] = '\0';
		call->method = gs_rpc_core_method(call->core, path);
	}
}

static void take_timeout(struct gs_rpc_call *call, const char *value, size_t bytes)
{
	char text[16] = "";
	uint64_t ns, now = gs_clock_mono_ns();

	if (bytes < sizeof(text))
		memcpy(text, value, bytes);
	if (!gs_rpc_timeout_parse(text, &ns)) {
		blame(call, GS_RPC_REFUSED_REQUEST, GS_RPC_INTERNAL, "grpc-timeout is not valid");
		return;
	}
	call->deadline_ns = ns > UINT64_MAX - 1 - now ? UINT64_MAX : now + ns;
}

/* "application/grpc", "application/grpc+proto", "application/grpc; ..."; not "...-web". */
static bool is_grpc(const char *value, size_t bytes)
{
	static const char type[] = "application/grpc";
	size_t n = sizeof(type) - 1;

	return bytes >= n && strncasecmp(value, type, n) == 0 &&
	       (bytes == n || value[n] == '+' || value[n] == ';');
}

void gs_rpc_header_take(struct gs_rpc_call *call, const char *name, size_t n, const char *value,
			size_t value_bytes)
{
	call->header_bytes += n + value_bytes + 32;
	if (call->header_bytes > call->core->o.max_metadata_bytes) {
		blame(call, GS_RPC_REFUSED_METADATA, GS_RPC_RESOURCE_EXHAUSTED,
		      "the metadata are larger than this server takes");
		return;
	}
	if (is(name, n, ":method")) {
		call->post = is(value, value_bytes, "POST");
	} else if (is(name, n, ":path")) {
		take_path(call, value, value_bytes);
	} else if (is(name, n, "content-type")) {
		call->grpc = is_grpc(value, value_bytes);
	} else if (is(name, n, "grpc-timeout")) {
		take_timeout(call, value, value_bytes);
	} else if (is(name, n, "grpc-encoding")) {
		if (!is(value, value_bytes, "identity"))
			blame(call, GS_RPC_REFUSED_ENCODING, GS_RPC_UNIMPLEMENTED,
			      "messages are taken uncompressed (grpc-encoding: identity)");
	} else if (name[0] != ':' && !is(name, n, "te") && !is(name, n, "grpc-accept-encoding")) {
		/* nghttp2 lets no zero through, neither in names nor in values. */
		if (gs_rpc_table_add(&call->metadata, name, n, value, value_bytes) < 0)
			blame(call, GS_RPC_REFUSED_MEMORY, GS_RPC_RESOURCE_EXHAUSTED, "no memory");
	}
}

/* What stands behind "Bearer "; NULL: nothing, or more than one header. */
static const char *token(const struct gs_rpc_call *call)
{
	const char *found = NULL;
	struct gs_rpc_metadata m;

	for (size_t i = 0; gs_rpc_table_at(&call->metadata, i, &m); i++) {
		if (strcmp(m.name, "authorization") != 0)
			continue;
		if (found)
			return NULL;
		found = m.value;
	}
	if (!found || strncasecmp(found, "bearer ", 7) != 0)
		return NULL;
	found += 7 + strspn(found + 7, " ");
	return found[0] ? found : NULL;
}

static void ask_for_token(struct gs_rpc_call *call)
{
	const struct gs_rpc_server_options *o = &call->core->o;
	enum gs_rpc_status status;

	if (!o->authorize || call->method->open)
		return;
	status = o->authorize(o->ctx, call, call->method, token(call));
	if (status == GS_RPC_OK)
		return;
	blame(call, GS_RPC_REFUSED_TOKEN, status < GS_RPC_STATUS_COUNT ? status : GS_RPC_UNKNOWN,
	      status == GS_RPC_UNAUTHENTICATED ? "a valid token is needed: \"authorization: Bearer "
						 "TOKEN\""
	      : o->denied                      ? o->denied
					       : "not allowed for this token");
}

enum gs_rpc_status gs_rpc_header_check(struct gs_rpc_call *call, const char **ret_text)
{
	if (!call->post) {
		call->http_status = 405;
		blame(call, GS_RPC_REFUSED_REQUEST, GS_RPC_INTERNAL, "gRPC calls are POST");
	} else if (!call->grpc) {
		call->http_status = 415;
		blame(call, GS_RPC_REFUSED_REQUEST, GS_RPC_INTERNAL,
		      "this port speaks gRPC: content-type is application/grpc");
	} else if (call->refused == GS_RPC_OK && call->session->leaving) {
		call->refused = GS_RPC_UNAVAILABLE;
		call->refused_text = "the server goes away";
	} else if (!call->method) {
		blame(call, GS_RPC_REFUSED_METHOD, GS_RPC_UNIMPLEMENTED, "there is no such method");
	} else if (call->refused == GS_RPC_OK) {
		ask_for_token(call);
	}
	*ret_text = call->refused_text;
	return call->refused;
}
