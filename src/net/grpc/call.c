/* The functions on calls, from any thread: they change what the lock protects and leave the rest to
 * the server's thread. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "net/grpc/server_int.h"

struct gs_grpc_call *gs_grpc_call_new(struct gs_grpc_core *core, struct gs_grpc_peer *peer)
{
	struct gs_grpc_call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->refs = 1;
	call->core = core;
	call->peer = peer;
	atomic_fetch_add(&core->refs, 1);
	atomic_fetch_add(&peer->refs, 1);
	call->deadline_ns = UINT64_MAX;
	call->metadata.max_bytes = core->o.max_metadata_bytes;
	call->headers.max_bytes = call->trailers.max_bytes = GS_GRPC_OWN_METADATA_BYTES;
	return call;
}

struct gs_grpc_call *gs_grpc_call_ref(struct gs_grpc_call *call)
{
	atomic_fetch_add(&call->refs, 1);
	return call;
}

void gs_grpc_call_unref(struct gs_grpc_call **ref)
{
	struct gs_grpc_call *call = *ref;

	*ref = NULL;
	if (!call || atomic_fetch_sub(&call->refs, 1) != 1)
		return;
	gs_grpc_table_fini(&call->metadata);
	gs_grpc_table_fini(&call->headers);
	gs_grpc_table_fini(&call->trailers);
	gs_grpc_outbox_fini(&call->out);
	free(call->text);
	gs_grpc_peer_unref(&call->peer);
	gs_grpc_core_unref(&call->core);
	free(call);
}

void gs_grpc_call_mark_dirty(struct gs_grpc_call *call)
{
	struct gs_grpc_core *c = call->core;

	if (call->dirty || call->over)
		return;
	call->dirty = true;
	call->next_dirty = NULL;
	gs_grpc_call_ref(call);
	*c->dirty_end = call;
	c->dirty_end = &call->next_dirty;
	gs_grpc_core_wake(c);
}

int gs_grpc_call_send(struct gs_grpc_call *call, const void *data, size_t bytes)
{
	struct gs_grpc_core *c = call->core;
	int r = -EPIPE;

	pthread_mutex_lock(&c->lock);
	if (!call->over && !call->finished) {
		size_t before = call->out.bytes;

		r = gs_grpc_outbox_put(&call->out, data, bytes, c->o.max_queue_bytes);
		call->wants_writable |= r == -ENOBUFS;
		if (r == 0) {
			call->queued_any = true;
			gs_grpc_count(&c->counters.queued_bytes_now, call->out.bytes - before);
			gs_grpc_call_mark_dirty(call);
		}
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

/* A text for the trailer; NULL: none, or no memory for it. */
static char *encode_text(const char *text)
{
	char *out = text && text[0] ? malloc(GS_GRPC_TEXT_MAX * 3) : NULL;
	char cut[GS_GRPC_TEXT_MAX];

	if (!out)
		return NULL;
	snprintf(cut, sizeof(cut), "%s", text);
	gs_grpc_percent_encode(cut, out, GS_GRPC_TEXT_MAX * 3);
	return out;
}

int gs_grpc_call_finish(struct gs_grpc_call *call, enum gs_grpc_status status, const char *text)
{
	GS_FREE char *encoded = encode_text(text);
	int r = -EPIPE;

	pthread_mutex_lock(&call->core->lock);
	if (!call->over && !call->finished) {
		call->finished = true;
		call->status = status < GS_GRPC_STATUS_COUNT ? status : GS_GRPC_UNKNOWN;
		call->text = gs_take(encoded);
		gs_grpc_call_mark_dirty(call);
		r = 0;
	}
	pthread_mutex_unlock(&call->core->lock);
	return r;
}

int gs_grpc_call_finishf(struct gs_grpc_call *call, enum gs_grpc_status status, const char *fmt,
			 ...)
{
	char text[GS_GRPC_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return gs_grpc_call_finish(call, status, text);
}

int gs_grpc_call_reply(struct gs_grpc_call *call, const void *data, size_t bytes)
{
	int r = gs_grpc_call_send(call, data, bytes);

	return r < 0 ? r : gs_grpc_call_finish(call, GS_GRPC_OK, NULL);
}

void gs_grpc_call_settle(struct gs_grpc_call *call, enum gs_grpc_status status, const char *text)
{
	GS_FREE char *encoded = encode_text(text);
	GS_FREE char *before = NULL;

	pthread_mutex_lock(&call->core->lock);
	gs_grpc_count(&call->core->counters.queued_bytes_now, -(uint64_t)call->out.bytes);
	gs_grpc_outbox_fini(&call->out);
	before = call->text;
	call->text = gs_take(encoded);
	call->status = status;
	call->finished = true;
	pthread_mutex_unlock(&call->core->lock);
}

static int add_to_table(struct gs_grpc_call *call, struct gs_grpc_table *table, const char *name,
			const void *value, size_t bytes)
{
	int r;

	pthread_mutex_lock(&call->core->lock);
	if (call->over || call->finished)
		r = -EPIPE;
	else if (table == &call->headers && call->queued_any)
		r = -EALREADY;
	else
		r = gs_grpc_table_add_own(table, name, value, bytes);
	pthread_mutex_unlock(&call->core->lock);
	return r;
}

int gs_grpc_call_header(struct gs_grpc_call *call, const char *name, const void *value,
			size_t bytes)
{
	return add_to_table(call, &call->headers, name, value, bytes);
}

int gs_grpc_call_trailer(struct gs_grpc_call *call, const char *name, const void *value,
			 size_t bytes)
{
	return add_to_table(call, &call->trailers, name, value, bytes);
}

void gs_grpc_call_pause(struct gs_grpc_call *call)
{
	call->paused++;
}

void gs_grpc_call_resume(struct gs_grpc_call *call)
{
	if (call->paused-- != 1)
		return;
	pthread_mutex_lock(&call->core->lock);
	gs_grpc_call_mark_dirty(call);
	pthread_mutex_unlock(&call->core->lock);
}

void gs_grpc_call_flow(struct gs_grpc_call *call, struct gs_grpc_flow *ret_flow)
{
	pthread_mutex_lock(&call->core->lock);
	*ret_flow = (struct gs_grpc_flow){.queued_bytes = call->out.bytes,
					  .queued_messages = call->out.messages,
					  .window_bytes = call->window_bytes};
	pthread_mutex_unlock(&call->core->lock);
}

bool gs_grpc_call_over(const struct gs_grpc_call *call)
{
	bool over;

	pthread_mutex_lock(&call->core->lock);
	over = call->over || call->finished;
	pthread_mutex_unlock(&call->core->lock);
	return over;
}

const struct gs_grpc_method *gs_grpc_call_method(const struct gs_grpc_call *call)
{
	return call->method;
}

const char *gs_grpc_call_peer(const struct gs_grpc_call *call)
{
	return call->peer->address;
}

const char *gs_grpc_call_names(const struct gs_grpc_call *call)
{
	return call->peer->names[0] ? call->peer->names : NULL;
}

bool gs_grpc_call_trusted(const struct gs_grpc_call *call)
{
	return call->peer->is_trusted;
}

const char *gs_grpc_call_identity(const struct gs_grpc_call *call)
{
	return call->peer->identity[0] ? call->peer->identity : NULL;
}

uint64_t gs_grpc_call_deadline_ns(const struct gs_grpc_call *call)
{
	return call->deadline_ns;
}

const char *gs_grpc_call_metadata(const struct gs_grpc_call *call, const char *name)
{
	return gs_grpc_table_get(&call->metadata, name);
}

bool gs_grpc_call_metadata_at(const struct gs_grpc_call *call, size_t i,
			      struct gs_grpc_metadata *ret_metadata)
{
	return gs_grpc_table_at(&call->metadata, i, ret_metadata);
}

void gs_grpc_call_set_user(struct gs_grpc_call *call, void *user)
{
	call->user = user;
}

void *gs_grpc_call_user(const struct gs_grpc_call *call)
{
	return call->user;
}
