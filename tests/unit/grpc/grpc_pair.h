/* A server and a client in one process, for the tests of both. */
#ifndef TESTS_UNIT_RPC_PAIR_H
#define TESTS_UNIT_RPC_PAIR_H

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/base/clock.h"
#include "net/grpc/grpc_client.h"

#define MS 1000000ULL

/* Wait for a condition; the test's own time limit ends it when it never comes. */
#define until(condition)                                                                           \
	do {                                                                                       \
	} while (!(condition) && (usleep(1000), true))
#define work_until(client, condition)                                                              \
	while (!(condition))                                                                       \
	gs_grpc_client_wait((client), 5 * MS)

struct end { /* of a call, as the client sees it */
	bool ended;
	enum gs_grpc_status status;
	char text[GS_GRPC_TEXT_MAX];
	unsigned n_messages, n_writable;
	size_t n_bytes;
};

static inline void end_message(void *ctx, struct gs_grpc_request *r, const void *data, size_t bytes)
{
	struct end *e = ctx;

	(void)r, (void)data;
	e->n_messages++;
	e->n_bytes += bytes;
}

static inline void end_writable(void *ctx, struct gs_grpc_request *r)
{
	(void)r;
	((struct end *)ctx)->n_writable++;
}

static inline void end_ended(void *ctx, struct gs_grpc_request *r, enum gs_grpc_status status,
			     const char *text)
{
	struct end *e = ctx;

	(void)r;
	assert_false(e->ended);
	e->ended = true;
	e->status = status;
	snprintf(e->text, sizeof(e->text), "%s", text);
}

static inline struct gs_grpc_request_options options_of(const char *path, struct end *e)
{
	return (struct gs_grpc_request_options){
		.size = sizeof(struct gs_grpc_request_options),
		.path = path,
		.events = {end_message, end_writable, end_ended},
		.ctx = e,
	};
}

struct link { /* of a client */
	unsigned n_connected, n_going_away, n_disconnected;
	enum gs_grpc_status status;
	char why[512];
};

static inline void link_connected(void *ctx, const char *address)
{
	assert_non_null(strchr(address, ':'));
	((struct link *)ctx)->n_connected++;
}

static inline void link_going_away(void *ctx, const char *why)
{
	(void)why;
	((struct link *)ctx)->n_going_away++;
}

static inline void link_disconnected(void *ctx, enum gs_grpc_status status, const char *why)
{
	struct link *l = ctx;

	l->n_disconnected++;
	l->status = status;
	snprintf(l->why, sizeof(l->why), "%s", why);
}

static inline struct gs_grpc_client_options client_options(const char *const *address,
							   struct link *l)
{
	return (struct gs_grpc_client_options){
		.size = sizeof(struct gs_grpc_client_options),
		.addresses = address,
		.n_addresses = 1,
		.events = {link_connected, link_going_away, link_disconnected},
		.ctx = l,
	};
}

static inline struct gs_grpc_client *connect_to(const char *address, struct link *l)
{
	struct gs_grpc_client_options o = client_options(&address, l);
	struct gs_grpc_client *c = NULL;

	o.max_calls = 5000;
	assert_int_equal(gs_grpc_client_new(&o, &c, NULL), 0);
	assert_int_equal(gs_grpc_client_connect(c), 0);
	work_until(c, l->n_connected || l->n_disconnected);
	return c;
}

static const char *const any_port[] = {"127.0.0.1:0"};

static inline struct gs_grpc_server *start(struct gs_grpc_server_options *o)
{
	struct gs_grpc_server *s = NULL;
	struct gs_err err = {0};

	o->size = sizeof(*o);
	o->listen = any_port;
	o->n_listen = 1;
	if (gs_grpc_server_start(o, &s, &err) < 0)
		fail_msg("%s", err.text);
	return s;
}

static inline struct gs_grpc_stats stats_of(const struct gs_grpc_server *s)
{
	struct gs_grpc_stats stats;

	gs_grpc_server_stats(s, &stats);
	return stats;
}

#endif
