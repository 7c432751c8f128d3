/* Reading batches of an interval. */
#include "server/store/store_int.h"

#include <errno.h>
#include <string.h>

struct gs_store_cursor {
	struct gs_store *store; /* lent */
	sqlite3_stmt *stmt;     /* owned */
	struct gs_buf raw;
};

/* A batch lasts seconds at most as nodes make them; the index is by its first snapshot alone. */
#define LONGEST_BATCH_NS (3600ll * 1000000000)

int gs_store_cursor_open(struct gs_store *store, const struct gs_store_range *range,
			 struct gs_store_cursor **ret_cursor)
{
	struct gs_store_cursor *c = calloc(1, sizeof(*c));
	GS_CLEANUP(gs_buf_fini) struct gs_buf sql = GS_BUF_INIT(1 << 20);
	int64_t begin = range->from_wall_ns;
	int r;

	if (!c)
		return -ENOMEM;
	c->store = store;
	c->raw = GS_BUF_INIT(GS_STORE_BATCH_MAX + 64);
	r = gs_buf_puts(&sql, "SELECT b.stream, s.node, b.seq, b.first_wall_ns, b.last_wall_ns,"
			      " b.clock_offset_ns, b.n_samples, b.codec, b.raw_bytes, b.data"
			      " FROM batch b INDEXED BY batch_time JOIN stream s ON s.id = b.stream"
			      " WHERE b.first_wall_ns >= ?1 AND b.first_wall_ns < ?2"
			      " AND b.last_wall_ns >= ?3 AND ?4 IN (0, s.kind)"
			      " AND ?5 IN (0, b.stream)");
	for (size_t i = 0; r == 0 && i < range->n_nodes; i++)
		r = gs_buf_printf(&sql, "%s%lld", i ? "," : " AND s.node IN (",
				  (long long)range->nodes[i]);
	if (r == 0 && range->n_nodes)
		r = gs_buf_puts(&sql, ")");
	for (size_t i = 0; r == 0 && i < range->n_streams; i++)
		r = gs_buf_printf(&sql, "%s%lld", i ? "," : " AND b.stream IN (",
				  (long long)range->streams[i]);
	if (r == 0)
		r = gs_buf_printf(&sql, "%s ORDER BY b.first_wall_ns, b.stream",
				  range->n_streams ? ")" : "");
	if (r == 0)
		r = store_prepare(store, (const char *)sql.data, &c->stmt);
	if (r < 0) {
		gs_store_cursor_close(&c);
		return r;
	}
	begin = begin > INT64_MIN + LONGEST_BATCH_NS ? begin - LONGEST_BATCH_NS : INT64_MIN;
	if (range->begin_wall_ns > begin)
		begin = range->begin_wall_ns;
	sqlite3_bind_int64(c->stmt, 1, begin);
	sqlite3_bind_int64(c->stmt, 2, range->to_wall_ns);
	sqlite3_bind_int64(c->stmt, 3, range->from_wall_ns);
	sqlite3_bind_int64(c->stmt, 4, range->kind);
	sqlite3_bind_int64(c->stmt, 5, range->stream);
	*ret_cursor = c;
	return 0;
}

int gs_store_cursor_next(struct gs_store_cursor *cursor, struct gs_store_found *ret_found)
{
	sqlite3_stmt *stmt = cursor->stmt;
	struct gs_store_batch *b = &ret_found->batch;
	int rc = sqlite3_step(stmt), r;

	if (rc == SQLITE_DONE)
		return GS_STORE_END;
	if (rc != SQLITE_ROW)
		return store_error(cursor->store, rc);
	*ret_found = (struct gs_store_found){
		.stream = sqlite3_column_int64(stmt, 0),
		.node = sqlite3_column_int64(stmt, 1),
		.batch = {
			.seq = (uint64_t)sqlite3_column_int64(stmt, 2),
			.first_wall_ns = sqlite3_column_int64(stmt, 3),
			.last_wall_ns = sqlite3_column_int64(stmt, 4),
			.clock_offset_ns = sqlite3_column_int64(stmt, 5),
			.n_samples = (uint32_t)sqlite3_column_int64(stmt, 6),
			.codec = (uint32_t)sqlite3_column_int64(stmt, 7),
			.raw_bytes = (uint32_t)sqlite3_column_int64(stmt, 8),
			.data = sqlite3_column_blob(stmt, 9),
			.bytes = (size_t)sqlite3_column_bytes(stmt, 9),
		}};
	r = gs_store_unpack(b->codec, b->data, b->bytes, b->raw_bytes, &cursor->raw);
	if (r == 0)
		ret_found->records =
			(struct gs_batch){.data = cursor->raw.data, .bytes = cursor->raw.bytes};
	return r;
}

void gs_store_cursor_close(struct gs_store_cursor **cursor)
{
	struct gs_store_cursor *c = *cursor;

	if (!c)
		return;
	sqlite3_finalize(c->stmt);
	gs_buf_fini(&c->raw);
	gs_free_p(cursor);
}
