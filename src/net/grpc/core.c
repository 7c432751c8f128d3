/* What the server's thread and everybody who answers calls share: limits, counters, lists of work.
 */
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "net/grpc/server_int.h"

static int by_path(const void *a, const void *b)
{
	return strcmp((*(const struct gs_grpc_method *const *)a)->path,
		      (*(const struct gs_grpc_method *const *)b)->path);
}

static int sort_methods(struct gs_grpc_core *c, struct gs_err *err)
{
	c->methods = calloc(c->o.n_methods + 1, sizeof(*c->methods));
	if (!c->methods)
		return -ENOMEM;
	for (size_t i = 0; i < c->o.n_methods; i++) {
		const struct gs_grpc_method *m = &c->o.methods[i];

		if (!m->path || m->path[0] != '/' || !m->message ||
		    (m->kind != GS_GRPC_UNARY && m->kind != GS_GRPC_STREAM))
			return gs_err_set(err, -EINVAL, "method %s: path, kind or handler missing",
					  m->path ? m->path : "?");
		c->methods[i] = m;
	}
	qsort(c->methods, c->o.n_methods, sizeof(*c->methods), by_path);
	for (size_t i = 1; i < c->o.n_methods; i++)
		if (strcmp(c->methods[i - 1]->path, c->methods[i]->path) == 0)
			return gs_err_set(err, -EINVAL, "two methods have the path %s",
					  c->methods[i]->path);
	return 0;
}

const struct gs_grpc_method *gs_grpc_core_method(const struct gs_grpc_core *c, const char *path)
{
	const struct gs_grpc_method wanted = {.path = path}, *key = &wanted, **found;

	found = bsearch(&key, c->methods, c->o.n_methods, sizeof(*c->methods), by_path);
	return found ? *found : NULL;
}

#define DEFAULT(field, value) (o->field = o->field ? o->field : (value))

static void fill_in(struct gs_grpc_server_options *o)
{
	DEFAULT(max_connections, 16384);
	DEFAULT(max_streams, 256);
	DEFAULT(max_message_bytes, 4U << 20);
	DEFAULT(max_metadata_bytes, 16384);
	DEFAULT(max_queue_bytes, 4U << 20);
	DEFAULT(max_held_bytes, 256U << 20);
	DEFAULT(window_bytes, 1U << 20);
	DEFAULT(handshake_ns, 10000000000ULL);
	DEFAULT(idle_ns, 600000000000ULL);
	DEFAULT(keepalive_ns, 20000000000ULL);
	DEFAULT(keepalive_timeout_ns, 10000000000ULL);
	DEFAULT(min_ping_ns, 1000000000ULL);
	if (o->window_bytes > NGHTTP2_MAX_WINDOW_SIZE)
		o->window_bytes = NGHTTP2_MAX_WINDOW_SIZE;
	if (o->messages_per_second > 0 && !o->message_burst)
		o->message_burst =
			o->messages_per_second < 1 ? 1 : (unsigned)o->messages_per_second;
}

int gs_grpc_core_new(const struct gs_grpc_server_options *options, struct gs_grpc_core **ret_core,
		     struct gs_err *err)
{
	GS_CLEANUP(gs_grpc_core_unref) struct gs_grpc_core *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	c->refs = 1;
	c->thread = pthread_self();
	pthread_mutex_init(&c->lock, NULL);
	c->wake_fd = -1;
	c->dirty_end = &c->dirty;
	c->posts_end = &c->posts;
	memcpy(&c->o, options, options->size < sizeof(c->o) ? options->size : sizeof(c->o));
	fill_in(&c->o);
	c->held.max_bytes = c->o.max_held_bytes;
	r = sort_methods(c, err);
	if (r < 0)
		return r;
	*ret_core = gs_take(c);
	return 0;
}

void gs_grpc_core_unref(struct gs_grpc_core **ref)
{
	struct gs_grpc_core *c = *ref;

	*ref = NULL;
	if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	gs_close_p(&c->wake_fd);
	pthread_mutex_destroy(&c->lock);
	free(c->timers.heap);
	free(c->methods);
	free(c);
}

void gs_grpc_core_refuse(struct gs_grpc_core *c, enum gs_grpc_refusal why)
{
	gs_grpc_count(&c->counters.refused[why], 1);
}

void gs_grpc_core_wake(struct gs_grpc_core *c)
{
	uint64_t one = 1;

	/* The thread itself looks at the lists before it sleeps. */
	if (c->woken || c->wake_fd < 0 || pthread_equal(c->thread, pthread_self()))
		return;
	c->woken = true;
	(void)!write(c->wake_fd, &one, sizeof(one));
}

int gs_grpc_core_post(struct gs_grpc_core *c, void (*fn)(void *arg), void *arg)
{
	struct gs_grpc_post *p = malloc(sizeof(*p));

	if (!p)
		return -ENOMEM;
	*p = (struct gs_grpc_post){.fn = fn, .arg = arg};
	pthread_mutex_lock(&c->lock);
	*c->posts_end = p;
	c->posts_end = &p->next;
	gs_grpc_core_wake(c);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

bool gs_grpc_core_pending(struct gs_grpc_core *c)
{
	bool pending;

	pthread_mutex_lock(&c->lock);
	pending = c->dirty || c->posts;
	pthread_mutex_unlock(&c->lock);
	return pending;
}

static struct gs_grpc_post *take_post(struct gs_grpc_core *c)
{
	struct gs_grpc_post *p;

	pthread_mutex_lock(&c->lock);
	p = c->posts;
	if (p && !(c->posts = p->next))
		c->posts_end = &c->posts;
	pthread_mutex_unlock(&c->lock);
	return p;
}

static struct gs_grpc_call *take_dirty(struct gs_grpc_core *c)
{
	struct gs_grpc_call *call;

	pthread_mutex_lock(&c->lock);
	call = c->dirty;
	if (call) {
		call->dirty = false;
		if (!(c->dirty = call->next_dirty))
			c->dirty_end = &c->dirty;
	}
	pthread_mutex_unlock(&c->lock);
	return call;
}

bool gs_grpc_core_run(struct gs_grpc_core *c)
{
	struct gs_grpc_call *call;
	struct gs_grpc_post *post;
	bool any = false;

	for (; (call = take_dirty(c)); any = true) {
		gs_grpc_session_update(call);
		gs_grpc_call_unref(&call);
	}
	for (; (post = take_post(c)); any = true) {
		post->fn(post->arg);
		free(post);
	}
	return any;
}

void gs_grpc_core_stats(const struct gs_grpc_core *c, struct gs_grpc_stats *s)
{
	const struct gs_grpc_counters *n = &c->counters;

	*s = (struct gs_grpc_stats){
		.connections = n->connections,
		.connections_now = n->connections_now,
		.calls = n->calls,
		.calls_now = n->calls_now,
		.messages_in = n->messages_in,
		.messages_out = n->messages_out,
		.message_bytes_in = n->message_bytes_in,
		.message_bytes_out = n->message_bytes_out,
		.wire_bytes_in = n->wire_bytes_in,
		.wire_bytes_out = n->wire_bytes_out,
		.queued_bytes_now = n->queued_bytes_now,
		.held_bytes_now = c->held.bytes,
		.throttled = n->throttled,
		.idle_closed = n->idle_closed,
	};
	for (int i = 0; i < GS_GRPC_STATUS_COUNT; i++)
		s->calls_by_status[i] = n->calls_by_status[i];
	for (int i = 0; i < GS_GRPC_REFUSAL_COUNT; i++)
		s->refused[i] = n->refused[i];
}
