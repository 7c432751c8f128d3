/*
 * Streams of metrics. They say who they are by a host name alone, and a host may run several
 * clients, or one that comes back before its old stream has ended. So a client is its host name,
 * the address it comes from, and a number; a new stream gets the least number whose stream has
 * ended, or has been silent for so long that a client which samples would not have been.
 */
#include "compat/gswarm/gswarm_int.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "server/head/stream.h"

#define SILENT_SAMPLES  3
#define SILENT_LEAST_NS 3000000000ull
#define CLIENTS_MAX     64 /* of one host and address */

struct gswarm_client {
	struct gswarm_client *next, **prev;
	struct gs_grpc_call *call; /* lent: its end is the client's */
	struct gs_head_stream *stream;
	char hostname[64], host[48]; /* host: its address without the port */
	unsigned number;             /* 0: another one has taken it over */
	uint64_t received_ns;
	struct gswarm_seen seen;
};

bool gswarm_hostname_valid(const char *name)
{
	if (!name[0] || strlen(name) >= 64)
		return false;
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p <= 0x20 || *p == 0x7f)
			return false;
	return true;
}

/* The address without the port. */
static void host_of(const char *peer, char *out, size_t bytes)
{
	const char *colon = strrchr(peer, ':');

	snprintf(out, bytes, "%.*s", colon ? (int)(colon - peer) : 40, peer);
}

/* Silent for longer than a client at work would be. */
static bool is_silent(struct gs_gswarm *g, const struct gswarm_client *c)
{
	struct gs_head_switches own;
	uint64_t limit;

	gs_head_switches(g->head, &own);
	limit = SILENT_SAMPLES * own.interval_ns;
	if (limit < SILENT_LEAST_NS)
		limit = SILENT_LEAST_NS;
	return gs_clock_mono_ns() - c->received_ns > limit;
}

static struct gswarm_client *find_client(struct gs_gswarm *g, const char *hostname,
					 const char *host, unsigned number)
{
	struct gswarm_client *c = g->clients;

	while (c && (c->number != number || strcmp(c->hostname, hostname) != 0 ||
		     strcmp(c->host, host) != 0))
		c = c->next;
	return c;
}

/* Its number among those of its host and address; 0: there are too many. A client that is silent
 * and whose number is taken over is returned, to be ended. */
static unsigned number_of(struct gs_gswarm *g, const char *hostname, const char *host,
			  struct gswarm_client **ret_old)
{
	*ret_old = NULL;
	for (unsigned n = 1; n <= CLIENTS_MAX; n++) {
		struct gswarm_client *taken = find_client(g, hostname, host, n);

		if (!taken)
			return n;
		if (is_silent(g, taken)) {
			taken->number = 0;
			*ret_old = taken;
			return n;
		}
	}
	return 0;
}

/* NULL: there are too many of it, or there is no memory. */
static struct gswarm_client *begin_client(struct gs_gswarm *g, struct gs_grpc_call *call,
					  const char *hostname)
{
	struct gswarm_client *c = calloc(1, sizeof(*c)), *old;
	struct gs_store_node node = {.id = 0};

	if (!c)
		return NULL;
	c->call = call;
	c->received_ns = gs_clock_mono_ns();
	snprintf(c->hostname, sizeof(c->hostname), "%s", hostname);
	host_of(gs_grpc_call_peer(call), c->host, sizeof(c->host));
	c->number = number_of(g, hostname, c->host, &old);
	if (old)
		gs_grpc_call_finish(old->call, GS_GRPC_ABORTED,
				    "the client has come back on another call");
	snprintf(node.hostname, sizeof(node.hostname), "%s", hostname);
	snprintf(node.machine_id, sizeof(node.machine_id), "%s", hostname);
	snprintf(node.instance, sizeof(node.instance), "gswarm %s %u", c->host, c->number);
	if (c->number)
		c->stream = gs_head_stream_open(g->head, call, &node, "gswarm");
	if (!c->stream) {
		free(c);
		return NULL;
	}
	c->prev = &g->clients;
	c->next = g->clients;
	if (c->next)
		c->next->prev = &c->next;
	g->clients = c;
	gs_grpc_call_set_user(call, c);
	return c;
}

static int take_update(struct gswarm_client *c, const GswarmProfiler__MetricsUpdate *m)
{
	struct gs_node_snapshot *snapshot = gswarm_sample(m, (int64_t)gs_clock_wall_ns(), &c->seen);

	return snapshot ? gs_head_stream_sample(c->stream, &snapshot) : -ENOMEM;
}

void gswarm_on_update(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes)
{
	struct gs_gswarm *g = ctx;
	struct gswarm_client *c = gs_grpc_call_user(call);
	GswarmProfiler__MetricsUpdate *m = gswarm_update(data, bytes);

	if (!m || !gswarm_hostname_valid(m->hostname)) {
		gswarm_refuse(call, m ? GSWARM_NO_HOSTNAME : "no MetricsUpdate");
	} else if (c && strcmp(c->hostname, m->hostname) != 0) {
		gswarm_refuse(call, "a stream is of one host");
	} else {
		if (!c)
			c = begin_client(g, call, m->hostname);
		if (c)
			c->received_ns = gs_clock_mono_ns();
		if (!c || take_update(c, m) < 0)
			gs_grpc_call_finish(call, GS_GRPC_RESOURCE_EXHAUSTED,
					    "too many clients of this host, or no memory");
	}
	if (m)
		gswarm_profiler__metrics_update__free_unpacked(m, NULL);
}

void gswarm_on_updates_end(void *ctx, struct gs_grpc_call *call)
{
	struct gswarm_client *c = gs_grpc_call_user(call);

	if (c)
		gs_head_stream_end(c->stream);
	gs_grpc_call_reply(call, "", 0); /* Empty has no bytes */
}

void gswarm_on_closed(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status)
{
	struct gswarm_client *c = gs_grpc_call_user(call);

	if (!c)
		return;
	*c->prev = c->next;
	if (c->next)
		c->next->prev = c->prev;
	gs_head_stream_close(&c->stream);
	free(c);
}
