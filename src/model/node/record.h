/* Snapshots of a machine to records (model/trace/record_node.h) and back. */
#ifndef GS_MODEL_NODE_RECORD_H
#define GS_MODEL_NODE_RECORD_H

#include "model/trace/record_node.h"
#include "model/node/host.h"

/* FNV-1a of 32 bits over the key's letters. No two keys share one (tested). */
uint32_t gs_gpu_key_hash(const char *key);

/* Append the records of one snapshot. 0, -ENOBUFS or -ENOMEM, and then nothing is appended. */
int gs_node_encode(struct gs_buf *buf, const struct gs_node_snapshot *node);

struct gs_node_decoder; /* makes snapshots of records */

struct gs_node_decoder *gs_node_decoder_new(void); /* NULL: no memory */
/* With a snapshot that is not whole yet; NULL inside: nothing. */
void gs_node_decoder_free(struct gs_node_decoder **decoder);

#define GS_NODE_WHOLE 1 /* outcome: that was the last record of a snapshot */

/* Take the next record of a stream; other kinds are passed over. GS_NODE_WHOLE and the snapshot,
 * which is the caller's; 0: not yet; -ENOMEM. */
int gs_node_decode(struct gs_node_decoder *decoder, const struct gs_record *record,
		   struct gs_node_snapshot **ret_node);

/* What was begun is given up without being counted: the next record is not the following one. */
void gs_node_decoder_reset(struct gs_node_decoder *decoder);

/* Snapshots that were given up so far because records of them were missing or malformed. */
uint64_t gs_node_decoder_torn(const struct gs_node_decoder *decoder);

#endif
