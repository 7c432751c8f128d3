/* Answers out of a snapshot, which are used again for a moment. */
#ifndef GS_SERVER_LIVE_ANSWER_H
#define GS_SERVER_LIVE_ANSWER_H

#include "server/live/snapshot.h"

typedef void (*gs_live_answer_fn)(void *ctx, const struct gs_live_snapshot *l,
				  const struct gs_http_request *q, struct gs_http_reply *reply);

/* The answer that fn makes out of a snapshot, or the same as a moment ago for who asks the same. For
 * the server's thread. */
void gs_live_answer(struct gs_live *live, const struct gs_http_request *q,
		    struct gs_http_reply *reply, gs_live_answer_fn fn, void *ctx);

#endif
