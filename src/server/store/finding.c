/* Findings of a head: in, found again, and out when they are old. */
#include "server/store/finding.h"

#include <errno.h>
#include <string.h>

#include "server/store/store_int.h"

static void bind_text(sqlite3_stmt *stmt, int i, const char *text)
{
	sqlite3_bind_text(stmt, i, text, -1, SQLITE_STATIC);
}

int gs_store_finding_put(struct gs_store *store, const struct gs_store_finding *f, const char *data)
{
	STORE_STMT *stmt = NULL;
	int r;

	if (!f->number || !f->kind[0] || strlen(data) > GS_STORE_FINDING_MAX)
		return -EINVAL;
	r = store_prepare(store,
			  "INSERT INTO finding (run, number, kind, job, node, communicator, rank,"
			  " n_ranks, begin_wall_ns, found_wall_ns, end_wall_ns, text, data)"
			  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
			  " ON CONFLICT (run, number) DO UPDATE SET job = ?4, node = ?5, rank = ?7,"
			  " found_wall_ns = ?10, end_wall_ns = ?11, text = ?12, data = ?13",
			  &stmt);
	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, (int64_t)f->run);
	sqlite3_bind_int64(stmt, 2, (int64_t)f->number);
	bind_text(stmt, 3, f->kind);
	bind_text(stmt, 4, f->job);
	bind_text(stmt, 5, f->node);
	sqlite3_bind_int64(stmt, 6, (int64_t)f->communicator);
	sqlite3_bind_int(stmt, 7, f->rank);
	sqlite3_bind_int(stmt, 8, f->n_ranks);
	sqlite3_bind_int64(stmt, 9, f->begin_wall_ns);
	sqlite3_bind_int64(stmt, 10, f->found_wall_ns);
	sqlite3_bind_int64(stmt, 11, f->end_wall_ns);
	bind_text(stmt, 12, f->text);
	bind_text(stmt, 13, data);
	return store_run(store, stmt);
}

int gs_store_findings_interrupted(struct gs_store *store)
{
	return store_exec(store,
			  "UPDATE finding SET end_wall_ns = found_wall_ns WHERE end_wall_ns = 0");
}

static void read_row(sqlite3_stmt *stmt, struct gs_store_finding *out)
{
	*out = (struct gs_store_finding){
		.id = sqlite3_column_int64(stmt, 0),
		.run = (uint64_t)sqlite3_column_int64(stmt, 1),
		.number = (uint64_t)sqlite3_column_int64(stmt, 2),
		.communicator = (uint64_t)sqlite3_column_int64(stmt, 6),
		.rank = sqlite3_column_int(stmt, 7),
		.n_ranks = sqlite3_column_int(stmt, 8),
		.begin_wall_ns = sqlite3_column_int64(stmt, 9),
		.found_wall_ns = sqlite3_column_int64(stmt, 10),
		.end_wall_ns = sqlite3_column_int64(stmt, 11),
	};
	store_text(stmt, 3, out->kind, sizeof(out->kind));
	store_text(stmt, 4, out->job, sizeof(out->job));
	store_text(stmt, 5, out->node, sizeof(out->node));
	store_text(stmt, 12, out->text, sizeof(out->text));
}

static int choose_findings(struct gs_buf *sql, const struct gs_store_finding_query *q)
{
	int r = gs_buf_puts(sql, "SELECT id, run, number, kind, job, node, communicator, rank,"
				 " n_ranks, begin_wall_ns, found_wall_ns, end_wall_ns, text, data"
				 " FROM finding WHERE 1");

	if (r == 0 && q->job && q->job[0])
		r = gs_buf_puts(sql, " AND job = ?1");
	if (r == 0 && q->kind && q->kind[0])
		r = gs_buf_puts(sql, " AND kind = ?2");
	if (r == 0 && q->holding)
		r = gs_buf_puts(sql, " AND end_wall_ns = 0");
	if (r == 0 && q->from_wall_ns)
		r = gs_buf_printf(sql, " AND (end_wall_ns = 0 OR end_wall_ns >= %lld)",
				  (long long)q->from_wall_ns);
	if (r == 0 && q->to_wall_ns)
		r = gs_buf_printf(sql, " AND begin_wall_ns < %lld", (long long)q->to_wall_ns);
	if (r == 0 && q->after_id)
		r = gs_buf_printf(sql, " AND id < %lld", (long long)q->after_id);
	return r == 0 ? gs_buf_puts(sql, " ORDER BY id DESC") : r;
}

int gs_store_findings(struct gs_store *store, const struct gs_store_finding_query *query,
		      int (*fn)(void *ctx, const struct gs_store_finding *finding,
				const char *data),
		      void *ctx)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf sql = GS_BUF_INIT(4096);
	STORE_STMT *stmt = NULL;
	int rc = SQLITE_DONE, r;

	/* A reader's file may be one of the layout before. */
	if (store->layout < 4)
		return 0;
	r = choose_findings(&sql, query);
	if (r == 0)
		r = gs_buf_put(&sql, "", 1);
	if (r == 0)
		r = store_prepare(store, (const char *)sql.data, &stmt);
	if (r < 0)
		return r;
	/* One that is not in the text is refused, which does not matter. */
	if (query->job)
		bind_text(stmt, 1, query->job);
	if (query->kind)
		bind_text(stmt, 2, query->kind);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		const char *data = (const char *)sqlite3_column_text(stmt, 13);
		struct gs_store_finding finding;

		read_row(stmt, &finding);
		r = fn(ctx, &finding, data ? data : "{}");
	}
	return r != 0 || rc == SQLITE_DONE ? r : store_error(store, rc);
}

int gs_store_finding_expire(struct gs_store *store, int64_t before_wall_ns, unsigned max)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      "DELETE FROM finding WHERE id IN (SELECT id FROM finding"
			      " WHERE end_wall_ns > 0 AND end_wall_ns < ?1 ORDER BY id LIMIT ?2)",
			      &stmt);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, before_wall_ns);
	sqlite3_bind_int64(stmt, 2, max);
	r = store_run(store, stmt);
	return r < 0 ? r : sqlite3_changes(store->db);
}
