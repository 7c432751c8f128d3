/*
 * What streams that ended left on this machine (net/uplink/outbox.h), delivered by who is connected
 * to the head anyway: now and then, on a thread of its own, while a link stays.
 */
#ifndef GS_LINK_LEFT_H
#define GS_LINK_LEFT_H

#include "net/uplink/link.h"

struct gs_left;

struct gs_left_options {
	size_t size;                        /* of this struct */
	const struct gs_link_options *like; /* head, TLS, token, machine; texts lent until the stop,
					       but for the token, which is copied */
	struct gs_link *link;               /* lent until the stop */
	const char *
		base; /* folders are below it: "traces" (GS_LINK_TRACE), "reports" (GS_LINK_JOBS) */
	void (*say)(void *ctx, const char *text); /* one line; on the thread */
	void *ctx;
};

/* *ret_left stays NULL when there is no memory for it. */
void gs_left_start(const struct gs_left_options *options, struct gs_left **ret_left);
void gs_left_stop(struct gs_left **left);

#endif
