/*
 * The head's metrics, and the newest values of all its nodes and GPUs, pushed to an engine of
 * others (output/metrics_push). A node's values carry the time at which they were read, set right by its
 * clock's offset, and are sent once; those of a node that is silent are not sent again.
 */
#ifndef GS_SERVER_HEAD_HEAD_PUSH_H
#define GS_SERVER_HEAD_HEAD_PUSH_H

#include "server/head/head.h"
#include "output/metrics_push/set.h"

/* From now on to these receivers, instead of others before. hostname: the label instance of what is
 * the head's own. With nothing configured nothing is pushed. The thread that started the head. A
 * negative errno with err. */
int gs_head_push(struct gs_head *head, const struct gs_push_conf conf[GS_PUSH_PROTOCOLS],
		 const char *hostname, struct gs_err *err);

/* No more; for some seconds what waits is sent. */
void gs_head_push_end(struct gs_head *head);

/* Families of the head itself: its cluster in numbers, its store, sessions, and what is pushed. Any
 * thread. */
void gs_head_metrics(struct gs_head *head, struct gs_metrics *p);

/* --- for tests --- */

struct gs_head_pusher; /* of one receiver: what it has got */

struct gs_head_pusher *gs_head_pusher_new(void);          /* NULL: no memory */
void gs_head_pusher_free(struct gs_head_pusher **pusher); /* NULL inside: nothing */

/* One part of the families, as gs_push asks for it. All parts show one view of the cluster.
 * GS_PUSH_MORE, 0: it was the last, or -ENOMEM. */
int gs_head_push_render(struct gs_head_pusher *pusher, struct gs_registry *cluster, unsigned part,
			struct gs_metrics *out);

#endif
