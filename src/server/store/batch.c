/* Batches: in, how much there is, and out when they are old. */
#include "server/store/store_int.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

static int move_stream(struct gs_store *s, int64_t stream, const struct gs_store_batch *b)
{
	int r;
	sqlite3_stmt *stmt = store_kept(s, STORE_STREAM_MOVE, &r);

	if (!stmt)
		return r;
	sqlite3_bind_int64(stmt, 1, stream);
	sqlite3_bind_int64(stmt, 2, (int64_t)b->seq);
	sqlite3_bind_int64(stmt, 3, b->n_samples);
	sqlite3_bind_int64(stmt, 4, (int64_t)b->lost_batches);
	sqlite3_bind_int64(stmt, 5, (int64_t)b->lost_samples);
	sqlite3_bind_int64(stmt, 6, (int64_t)b->missed_samples);
	sqlite3_bind_int64(stmt, 7, b->first_wall_ns);
	sqlite3_bind_int64(stmt, 8, b->last_wall_ns);
	sqlite3_bind_int64(stmt, 9, b->clock_offset_ns);
	r = store_run(s, stmt);
	if (r == 0 && sqlite3_changes(s->db) == 0)
		r = -EEXIST;
	return r;
}

static int move_node(struct gs_store *s, int64_t stream, const struct gs_store_batch *b)
{
	int r;
	sqlite3_stmt *stmt = store_kept(s, STORE_NODE_MOVE, &r);

	if (!stmt)
		return r;
	sqlite3_bind_int64(stmt, 1, stream);
	sqlite3_bind_int64(stmt, 2, b->first_wall_ns);
	sqlite3_bind_int64(stmt, 3, b->last_wall_ns);
	return store_run(s, stmt);
}

int store_take_number(struct gs_store *s, int64_t stream, const struct gs_store_batch *batch)
{
	int r;

	/* SQLite's numbers are signed: what does not fit was not made by counting. */
	if (sqlite3_get_autocommit(s->db) || batch->seq == 0 || batch->seq > INT64_MAX ||
	    batch->lost_samples > INT64_MAX || batch->lost_batches > INT64_MAX ||
	    batch->missed_samples > INT32_MAX || batch->raw_bytes > GS_STORE_BATCH_MAX ||
	    batch->bytes > GS_STORE_BATCH_MAX)
		return -EINVAL;
	r = batch->lost_samples || batch->missed_samples ? store_loss_add(s, stream, batch) : 0;
	if (r == 0)
		r = move_stream(s, stream, batch);
	return r < 0 ? r : move_node(s, stream, batch);
}

int gs_store_append(struct gs_store *store, int64_t stream, const struct gs_store_batch *batch)
{
	sqlite3_stmt *stmt;
	int r = store_take_number(store, stream, batch);

	if (r < 0)
		return r;
	stmt = store_kept(store, STORE_APPEND, &r);
	if (!stmt)
		return r;
	sqlite3_bind_int64(stmt, 1, stream);
	sqlite3_bind_int64(stmt, 2, (int64_t)batch->seq);
	sqlite3_bind_int64(stmt, 3, batch->first_wall_ns);
	sqlite3_bind_int64(stmt, 4, batch->last_wall_ns);
	sqlite3_bind_int64(stmt, 5, batch->clock_offset_ns);
	sqlite3_bind_int64(stmt, 6, batch->n_samples);
	sqlite3_bind_int64(stmt, 7, batch->codec);
	sqlite3_bind_int64(stmt, 8, batch->raw_bytes);
	sqlite3_bind_blob64(stmt, 9, batch->data, batch->bytes, SQLITE_STATIC);
	return store_run(store, stmt);
}

int gs_store_unpack(uint32_t codec, const void *data, size_t bytes, uint32_t raw_bytes,
		    struct gs_buf *buffer)
{
	size_t n;

	gs_buf_reset(buffer);
	if (raw_bytes > GS_STORE_BATCH_MAX || raw_bytes % 8)
		return -EBADMSG;
	if (codec == GS_STORE_PLAIN)
		return bytes != raw_bytes ? -EBADMSG : gs_buf_put(buffer, data, bytes);
	if (codec != GS_STORE_ZSTD)
		return -EBADMSG;
	if (gs_buf_reserve(buffer, raw_bytes + 1) < 0)
		return -ENOMEM;
	n = ZSTD_decompress(buffer->data, raw_bytes, data, bytes);
	if (ZSTD_isError(n) || n != raw_bytes)
		return -EBADMSG;
	buffer->bytes = n;
	return 0;
}

/* --- keeping --- */

static uint64_t file_bytes(struct gs_store *s, const char *suffix)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s%s", sqlite3_db_filename(s->db, "main"), suffix);
	return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int gs_store_usage(struct gs_store *store, struct gs_store_usage *ret_usage)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      "SELECT (SELECT page_size * freelist_count FROM pragma_page_size,"
			      " pragma_freelist_count), (SELECT count(*) FROM batch),"
			      " (SELECT min(first_wall_ns) FROM batch),"
			      " (SELECT max(first_wall_ns) FROM batch)",
			      &stmt);
	int rc;

	if (r < 0)
		return r;
	rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return store_error(store, rc);
	*ret_usage = (struct gs_store_usage){
		.file_bytes = file_bytes(store, "") + file_bytes(store, "-wal"),
		.free_bytes = (uint64_t)sqlite3_column_int64(stmt, 0),
		.n_batches = (uint64_t)sqlite3_column_int64(stmt, 1),
		.first_wall_ns = sqlite3_column_int64(stmt, 2),
		.last_wall_ns = sqlite3_column_int64(stmt, 3),
	};
	return 0;
}

static int64_t read_pragma(struct gs_store *s, const char *sql)
{
	STORE_STMT *stmt = NULL;

	if (store_prepare(s, sql, &stmt) < 0 || sqlite3_step(stmt) != SQLITE_ROW)
		return 0;
	return sqlite3_column_int64(stmt, 0);
}

uint64_t gs_store_used_bytes(struct gs_store *store)
{
	int64_t pages = read_pragma(store, "PRAGMA page_count") -
			read_pragma(store, "PRAGMA freelist_count");

	return pages > 0 ? (uint64_t)(pages * read_pragma(store, "PRAGMA page_size")) : 0;
}

int gs_store_oldest(struct gs_store *store, int64_t *ret_wall_ns)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store, "SELECT min(first_wall_ns) FROM batch", &stmt);
	int rc;

	if (r < 0)
		return r;
	rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return store_error(store, rc);
	*ret_wall_ns = sqlite3_column_int64(stmt, 0);
	return 0;
}

/* By how much clocks of nodes are off, at most. */
static int64_t clock_spread(struct gs_store *s)
{
	return read_pragma(s, "SELECT max(max(abs(coalesce(clock_low_ns, 0))),"
			      " max(abs(coalesce(clock_high_ns, 0)))) FROM stream");
}

/* At most max batches of [from, to) that are older than before and that no session covers. */
static int expire_gap(struct gs_store *s, int64_t from, int64_t to, int64_t before, unsigned max)
{
	STORE_STMT *stmt = NULL;
	/* Sessions are by the head's clock, batches by their node's. A session that has no end yet
	 * covers everything after its start. */
	int r = store_prepare(
		s,
		"DELETE FROM batch WHERE id IN (SELECT b.id FROM batch b WHERE b.first_wall_ns >= "
		"?1"
		" AND b.first_wall_ns < ?2 AND b.first_wall_ns < ?3 AND b.last_wall_ns < ?3"
		" AND NOT EXISTS (SELECT 1 FROM session s WHERE"
		" b.last_wall_ns + b.clock_offset_ns >= s.start_wall_ns AND (s.end_wall_ns = 0 OR"
		" b.first_wall_ns + b.clock_offset_ns < s.end_wall_ns))"
		" ORDER BY b.first_wall_ns LIMIT ?4)",
		&stmt);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, from);
	sqlite3_bind_int64(stmt, 2, to);
	sqlite3_bind_int64(stmt, 3, before);
	sqlite3_bind_int64(stmt, 4, max);
	r = store_run(s, stmt);
	return r < 0 ? r : sqlite3_changes(s->db);
}

/* Only the times between sessions are looked at: what a long session covers is not gone through
 * again and again. */
int gs_store_expire(struct gs_store *store, int64_t before_wall_ns, unsigned max)
{
	STORE_STMT *stmt = NULL;
	int64_t spread = clock_spread(store), from = INT64_MIN;
	unsigned n = 0;
	int r = store_loss_expire(store, max);

	if (r < 0)
		return r;
	r = store_prepare(store,
			  "SELECT start_wall_ns, end_wall_ns FROM session ORDER BY start_wall_ns",
			  &stmt);

	while (r >= 0 && n < max) {
		int rc = sqlite3_step(stmt);
		bool last = rc != SQLITE_ROW;
		int64_t start = last ? INT64_MAX : sqlite3_column_int64(stmt, 0);
		int64_t end = last ? INT64_MAX : sqlite3_column_int64(stmt, 1);

		if (last && rc != SQLITE_DONE)
			return store_error(store, rc);
		if (start > from || last) {
			r = expire_gap(store, from, last ? start : start + spread, before_wall_ns,
				       max - n);
			n += r > 0 ? (unsigned)r : 0;
		}
		if (last || end == 0 || start > before_wall_ns)
			break;
		if (end - spread > from)
			from = end - spread;
	}
	return r < 0 ? r : (int)n;
}
