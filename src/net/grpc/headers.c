/* What a client sends before its messages: who it is, what it wants, how long it waits. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "core/base/clock.h"
#include "net/grpc/session_int.h"

static bool text_is(const char *name, size_t bytes, const char *wanted)
{
	return bytes == strlen(wanted) && memcmp(name, wanted, bytes) == 0;
}

static void refuse_call(struct gs_grpc_call *call, enum gs_grpc_refusal why,
			enum gs_grpc_status status, const char *text)
{
	if (call->refused != GS_GRPC_OK)
		return;
	call->refused = status;
	call->refused_text = text;
	gs_grpc_core_refuse(call->core, why);
}

static void take_path(struct gs_grpc_call *call, const char *value, size_t bytes)
{
	char path[512];

	if (bytes < sizeof(path) && !memchr(value, '\0', bytes)) {
		memcpy(path, value, bytes);
		path[bytes] = '\0';
		call->method = gs_grpc_core_method(call->core, path);
	}
}

static void take_timeout(struct gs_grpc_call *call, const char *value, size_t bytes)
{
	char text[16] = "";
	uint64_t ns, now = gs_clock_mono_ns();

	if (bytes < sizeof(text))
		memcpy(text, value, bytes);
	if (!gs_grpc_timeout_parse(text, &ns)) {
		refuse_call(call, GS_GRPC_REFUSED_REQUEST, GS_GRPC_INTERNAL,
			    "grpc-timeout is not valid");
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

void gs_grpc_header_take(struct gs_grpc_call *call, const char *name, size_t n, const char *value,
			 size_t value_bytes)
{
	call->header_bytes += n + value_bytes + 32;
	if (call->header_bytes > call->core->o.max_metadata_bytes) {
		refuse_call(call, GS_GRPC_REFUSED_METADATA, GS_GRPC_RESOURCE_EXHAUSTED,
			    "the metadata are larger than this server accepts");
		return;
	}
	if (text_is(name, n, ":method")) {
		call->post = text_is(value, value_bytes, "POST");
	} else if (text_is(name, n, ":path")) {
		take_path(call, value, value_bytes);
	} else if (text_is(name, n, "content-type")) {
		call->grpc = is_grpc(value, value_bytes);
	} else if (text_is(name, n, "grpc-timeout")) {
		take_timeout(call, value, value_bytes);
	} else if (text_is(name, n, "grpc-encoding")) {
		if (!text_is(value, value_bytes, "identity"))
			refuse_call(
				call, GS_GRPC_REFUSED_ENCODING, GS_GRPC_UNIMPLEMENTED,
				"only uncompressed messages are accepted (grpc-encoding: identity)");
	} else if (name[0] != ':' && !text_is(name, n, "te") &&
		   !text_is(name, n, "grpc-accept-encoding")) {
		/* nghttp2 lets no zero through, neither in names nor in values. */
		if (gs_grpc_table_add(&call->metadata, name, n, value, value_bytes) < 0)
			refuse_call(call, GS_GRPC_REFUSED_MEMORY, GS_GRPC_RESOURCE_EXHAUSTED,
				    "no memory");
	}
}

/* What stands after "Bearer "; NULL: nothing, or more than one header. */
static const char *bearer_token(const struct gs_grpc_call *call)
{
	const char *found = NULL;
	struct gs_grpc_metadata m;

	for (size_t i = 0; gs_grpc_table_at(&call->metadata, i, &m); i++) {
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

static void ask_for_token(struct gs_grpc_call *call)
{
	const struct gs_grpc_server_options *o = &call->core->o;
	enum gs_grpc_status status;

	if (!o->authorize || call->method->open)
		return;
	status = o->authorize(o->ctx, call, call->method, bearer_token(call));
	if (status == GS_GRPC_OK)
		return;
	refuse_call(call, GS_GRPC_REFUSED_TOKEN,
		    status < GS_GRPC_STATUS_COUNT ? status : GS_GRPC_UNKNOWN,
		    status == GS_GRPC_UNAUTHENTICATED
			    ? "a valid token is needed: \"authorization: Bearer TOKEN\""
		    : o->denied ? o->denied
				: "not allowed for this token");
}

enum gs_grpc_status gs_grpc_header_check(struct gs_grpc_call *call, const char **ret_text)
{
	if (!call->post) {
		call->http_status = 405;
		refuse_call(call, GS_GRPC_REFUSED_REQUEST, GS_GRPC_INTERNAL, "gRPC calls are POST");
	} else if (!call->grpc) {
		call->http_status = 415;
		refuse_call(call, GS_GRPC_REFUSED_REQUEST, GS_GRPC_INTERNAL,
			    "this port speaks gRPC: content-type is application/grpc");
	} else if (call->refused == GS_GRPC_OK && call->session->leaving) {
		call->refused = GS_GRPC_UNAVAILABLE;
		call->refused_text = "the server is shutting down";
	} else if (!call->method) {
		refuse_call(call, GS_GRPC_REFUSED_METHOD, GS_GRPC_UNIMPLEMENTED,
			    "there is no such method");
	} else if (call->refused == GS_GRPC_OK) {
		ask_for_token(call);
	}
	*ret_text = call->refused_text;
	return call->refused;
}
