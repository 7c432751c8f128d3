/*
 * When samples were lost or missed. A batch says how many since the batch before it, so they fall
 * into the time from the end of that one to its own end: the rows of loss, by the head's clock. A
 * session has of each row the part that its time has. Batches that lack nothing have no row.
 */
#include "server/store/store_int.h"

#include <math.h>

int store_loss_add(struct gs_store *s, int64_t stream, const struct gs_store_batch *b)
{
	int r;
	sqlite3_stmt *stmt = store_kept(s, STORE_LOSS_ADD, &r);

	if (!stmt)
		return r;
	sqlite3_bind_int64(stmt, 1, stream);
	sqlite3_bind_int64(stmt, 2, (int64_t)b->seq);
	sqlite3_bind_int64(stmt, 3, b->first_wall_ns);
	sqlite3_bind_int64(stmt, 4, b->last_wall_ns);
	sqlite3_bind_int64(stmt, 5, b->clock_offset_ns);
	sqlite3_bind_int64(stmt, 6, (int64_t)b->lost_samples);
	sqlite3_bind_int64(stmt, 7, (int64_t)b->missed_samples);
	return store_run(s, stmt);
}

/* How much of the time from begin to end lies in [from, to). */
static double share_of(int64_t begin, int64_t end, int64_t from, int64_t to)
{
	int64_t first = begin > from ? begin : from, last = end < to ? end : to;

	if (end <= begin)
		return begin >= from && begin < to ? 1 : 0;
	return last > first ? ((double)last - (double)first) / ((double)end - (double)begin) : 0;
}

int gs_store_losses(struct gs_store *store, int64_t from_wall_ns, int64_t to_wall_ns,
		    int (*fn)(void *ctx, const struct gs_store_loss *loss), void *ctx)
{
	STORE_STMT *stmt = NULL;
	int r, rc = SQLITE_DONE;

	/* A reader's file may be of a layout before. */
	if (store->layout < 3)
		return 0;
	r = store_prepare(store,
			  "SELECT stream, begin_wall_ns, end_wall_ns, lost_samples, missed_samples"
			  " FROM loss WHERE end_wall_ns >= ?1 AND begin_wall_ns < ?2",
			  &stmt);
	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, from_wall_ns);
	sqlite3_bind_int64(stmt, 2, to_wall_ns);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		double share = share_of(sqlite3_column_int64(stmt, 1),
					sqlite3_column_int64(stmt, 2), from_wall_ns, to_wall_ns);
		struct gs_store_loss loss = {
			.stream = sqlite3_column_int64(stmt, 0),
			.lost_samples = llround(share * sqlite3_column_double(stmt, 3)),
			.missed_samples = llround(share * sqlite3_column_double(stmt, 4)),
		};

		if (loss.lost_samples || loss.missed_samples)
			r = fn(ctx, &loss);
	}
	return r != 0 || rc == SQLITE_DONE ? r : store_error(store, rc);
}

int store_loss_expire(struct gs_store *s, unsigned max)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(s,
			      "DELETE FROM loss WHERE id IN (SELECT id FROM loss"
			      " WHERE end_wall_ns < (SELECT min(first_wall_ns) FROM batch)"
			      " ORDER BY end_wall_ns LIMIT ?1)",
			      &stmt);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, max);
	return store_run(s, stmt);
}
