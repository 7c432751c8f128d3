/*
 * Downsampling: batches of samples that are old are replaced by coarser ones
 * (server/store/rollup.h). One connection looks for them and makes what shall take their place, a
 * piece at a time: of one stream and a stretch of eight intervals. Another one, which writes,
 * replaces a piece in a transaction: each snapshot is there in the old form or in the new one, never
 * in both and never in none, whenever the program is killed.
 *
 * Nothing is noted of what was done: a batch that is coarse already is found to be so by its times
 * and its number of samples, without being read. So what arrives late, from a node that was away
 * for a week, is found by the next scan as well.
 */
#ifndef GS_SERVER_STORE_DOWNSAMPLE_H
#define GS_SERVER_STORE_DOWNSAMPLE_H

#include "server/store/store.h"

struct gs_store_scan;

struct gs_store_scan_options {
	size_t size;                      /* of this struct */
	int64_t from_wall_ns, to_wall_ns; /* by the nodes' clocks; whole stretches before to */
	uint64_t interval_ns;
	bool sessions; /* also what sessions cover (but deleted ones) */
};

/* What was a stretch of a stream, and what shall be there. */
struct gs_store_piece {
	int64_t stream;
	int64_t *ids; /* of batches that go, n_ids */
	size_t n_ids;
	struct gs_store_batch *batch; /* that come, n_batches; their data lie in data */
	size_t n_batches;
	struct gs_buf data;                     /* packed records of batch, one after the other */
	uint64_t samples_before, samples_after; /* snapshots in them */
	uint64_t bytes_before, bytes_after;     /* of data, as packed */
};

void gs_store_piece_free(struct gs_store_piece **piece); /* NULL inside: nothing */

/* The reader is lent until the free. 0 or -ENOMEM. */
int gs_store_scan_new(struct gs_store *reader, const struct gs_store_scan_options *options,
		      struct gs_store_scan **ret_scan);
void gs_store_scan_free(struct gs_store_scan **scan);

/* The next piece, the caller's: 0; GS_STORE_END; or an error of the store. Nothing of the store is
 * held open between calls. */
int gs_store_scan_next(struct gs_store_scan *scan, struct gs_store_piece **ret_piece);

/* Batches that could not be read so far: they stay as they are. */
uint64_t gs_store_scan_damaged(const struct gs_store_scan *scan);

/* In a transaction of the writer. -ESTALE: some of what goes is not there any more, and the
 * transaction has to be given up: the next scan finds what is. */
int gs_store_replace(struct gs_store *writer, const struct gs_store_piece *piece);

#endif
