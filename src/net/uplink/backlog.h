/*
 * What streams that ended left on this machine (net/uplink/outbox.h), delivered by who is connected
 * to the head anyway: now and then, on a thread of its own, while a link stays.
 */
#ifndef GS_NET_UPLINK_BACKLOG_H
#define GS_NET_UPLINK_BACKLOG_H

#include "net/uplink/uplink.h"

struct gs_backlog;

struct gs_backlog_options {
	size_t size; /* of this struct */
	/* Head, TLS, token, machine; texts lent until the stop, but the token, which is copied. */
	const struct gs_uplink_options *like;
	struct gs_uplink *link; /* lent until the stop */
	/* Folders are below it: "traces" (GS_UPLINK_TRACE), "reports" (GS_UPLINK_JOBS). */
	const char *base;
	void (*on_message)(void *ctx, const char *text); /* one line; on the thread */
	void *ctx;                                       /* of on_message; borrowed */
};

/* *ret_left stays NULL when there is no memory for it. */
void gs_backlog_start(const struct gs_backlog_options *options, struct gs_backlog **ret_left);
void gs_backlog_stop(struct gs_backlog **left);

#endif
