/*
 * Snapshots of nodes that speak another protocol than ours. Who understands it (compat/gswarm) makes
 * snapshots of what comes; the head shows them, gives them numbers and stores them like those of its
 * own nodes. Such a node knows no answers: nothing is acknowledged.
 *
 *   open ► snapshot* ► end ► close
 *
 * All of it on the thread of the gRPC server, in handlers of the call.
 */
#ifndef GS_SERVER_HEAD_STREAM_H
#define GS_SERVER_HEAD_STREAM_H

#include "server/head/head.h"
#include "model/node/record.h"
#include "server/store/store.h"

struct gs_head_stream;

/* Of this node (machine_id, instance, hostname), as long as the call lives; version: of the node's
 * program. NULL: no memory. */
struct gs_head_stream *gs_head_stream_open(struct gs_head *head, struct gs_grpc_call *call,
					   const struct gs_store_node *node, const char *version);

/* Takes the snapshot over, also on failure. While the head cannot store what it has, the call is not
 * read. 0 or a negative errno. */
int gs_head_stream_sample(struct gs_head_stream *stream, struct gs_node_snapshot **snapshot);

/* The node has said that nothing more comes. */
void gs_head_stream_end(struct gs_head_stream *stream);

/* The call is over. */
void gs_head_stream_close(struct gs_head_stream **stream);

#endif
