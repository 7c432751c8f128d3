/* Reports of jobs: in, found again, and out when they are old. */
#include "server/store/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "server/store/store_int.h"

#define DAY_NS 86400000000000ll

/* Whose stream it is; a negative errno. */
static int64_t node_of(struct gs_store *s, int64_t stream)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(s, "SELECT node FROM stream WHERE id = ?1", &stmt);
	int rc;

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, stream);
	rc = sqlite3_step(stmt);
	return rc == SQLITE_ROW    ? sqlite3_column_int64(stmt, 0)
	       : rc == SQLITE_DONE ? -EINVAL
				   : store_error(s, rc);
}

static void bind_text(sqlite3_stmt *stmt, int i, const char *text)
{
	sqlite3_bind_text(stmt, i, text, -1, SQLITE_STATIC);
}

/* What was left behind by one who was killed. */
static int end_others(struct gs_store *s, int64_t node, const struct gs_store_report *r)
{
	STORE_STMT *stmt = NULL;
	int code = store_prepare(s,
				 "UPDATE job_report SET state = 3 WHERE job = ?1 AND node = ?2"
				 " AND kind = ?3 AND source = ?4 AND state = 1 AND report <> ?5",
				 &stmt);

	if (code < 0)
		return code;
	bind_text(stmt, 1, r->job);
	sqlite3_bind_int64(stmt, 2, node);
	bind_text(stmt, 3, r->kind);
	bind_text(stmt, 4, r->source);
	bind_text(stmt, 5, r->report);
	return store_run(s, stmt);
}

static int put_row(struct gs_store *s, int64_t node, const struct gs_store_batch *b,
		   const struct gs_store_report *report)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(
		s,
		"INSERT INTO job_report (node, report, state, source, kind, job, user, name, class,"
		" score, begin_wall_ns, end_wall_ns, received_wall_ns, codec, raw_bytes, data)"
		" VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)"
		" ON CONFLICT (node, report) DO UPDATE SET state = ?3, source = ?4, kind = ?5,"
		" job = ?6, user = ?7, name = ?8, class = ?9, score = ?10, begin_wall_ns = ?11,"
		" end_wall_ns = ?12, received_wall_ns = ?13, codec = ?14, raw_bytes = ?15,"
		" data = ?16",
		&stmt);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, node);
	bind_text(stmt, 2, report->report);
	sqlite3_bind_int64(stmt, 3, report->state);
	bind_text(stmt, 4, report->source);
	bind_text(stmt, 5, report->kind);
	bind_text(stmt, 6, report->job);
	bind_text(stmt, 7, report->user);
	bind_text(stmt, 8, report->name);
	bind_text(stmt, 9, report->job_class);
	if (isfinite(report->score)) /* else NULL */
		sqlite3_bind_double(stmt, 10, report->score);
	sqlite3_bind_int64(stmt, 11, report->begin_wall_ns + b->clock_offset_ns);
	sqlite3_bind_int64(stmt, 12, report->end_wall_ns + b->clock_offset_ns);
	sqlite3_bind_int64(stmt, 13, (int64_t)gs_clock_wall_ns());
	sqlite3_bind_int64(stmt, 14, b->codec);
	sqlite3_bind_int64(stmt, 15, b->raw_bytes);
	sqlite3_bind_blob64(stmt, 16, b->data, b->bytes, SQLITE_STATIC);
	return store_run(s, stmt);
}

int gs_store_report_put(struct gs_store *store, int64_t stream, const struct gs_store_batch *batch,
			const struct gs_store_report *report)
{
	int64_t node;
	int r;

	if (batch->raw_bytes > GS_STORE_REPORT_MAX || !report->report[0] || !report->job[0] ||
	    report->state < GS_STORE_REPORT_RUNNING || report->state > GS_STORE_REPORT_PARTIAL ||
	    report->begin_wall_ns <= 0 || report->end_wall_ns < report->begin_wall_ns)
		return -EINVAL;
	r = store_take_number(store, stream, batch);
	if (r < 0)
		return r;
	node = node_of(store, stream);
	if (node < 0)
		return (int)node;
	r = end_others(store, node, report);
	return r < 0 ? r : put_row(store, node, batch, report);
}

/* --- reading --- */

#define COLUMNS                                                                                    \
	"SELECT r.id, r.node, n.hostname, r.report, r.state, r.source, r.kind, r.job, r.user,"     \
	" r.name, r.class, r.score, r.begin_wall_ns, r.end_wall_ns, r.received_wall_ns"
#define N_COLUMNS  15
#define FROM_TABLE " FROM job_report r JOIN node n ON n.id = r.node "

static void read_row(sqlite3_stmt *stmt, struct gs_store_report *out)
{
	*out = (struct gs_store_report){
		.id = sqlite3_column_int64(stmt, 0),
		.node = sqlite3_column_int64(stmt, 1),
		.state = (uint32_t)sqlite3_column_int(stmt, 4),
		.score = sqlite3_column_type(stmt, 11) == SQLITE_NULL
				 ? NAN
				 : sqlite3_column_double(stmt, 11),
		.begin_wall_ns = sqlite3_column_int64(stmt, 12),
		.end_wall_ns = sqlite3_column_int64(stmt, 13),
		.received_wall_ns = sqlite3_column_int64(stmt, 14),
	};
	store_text(stmt, 2, out->hostname, sizeof(out->hostname));
	store_text(stmt, 3, out->report, sizeof(out->report));
	store_text(stmt, 5, out->source, sizeof(out->source));
	store_text(stmt, 6, out->kind, sizeof(out->kind));
	store_text(stmt, 7, out->job, sizeof(out->job));
	store_text(stmt, 8, out->user, sizeof(out->user));
	store_text(stmt, 9, out->name, sizeof(out->name));
	store_text(stmt, 10, out->job_class, sizeof(out->job_class));
}

/* codec, raw_bytes and data stand after the columns of a row. */
static int read_text(sqlite3_stmt *stmt, struct gs_buf *out)
{
	return gs_store_unpack((uint32_t)sqlite3_column_int64(stmt, N_COLUMNS),
			       sqlite3_column_blob(stmt, N_COLUMNS + 2),
			       (size_t)sqlite3_column_bytes(stmt, N_COLUMNS + 2),
			       (uint32_t)sqlite3_column_int64(stmt, N_COLUMNS + 1), out);
}

/* Only what is asked for, so that an index of it can be used. The texts are parameters. */
static int choose_reports(struct gs_buf *sql, const struct gs_store_report_query *q)
{
	size_t star = q->name ? strlen(q->name) : 0;
	int r = gs_buf_puts(sql, "WHERE 1");

	if (r == 0 && q->user && q->user[0])
		r = gs_buf_puts(sql, " AND r.user = ?1");
	if (r == 0 && q->job && q->job[0])
		r = gs_buf_puts(sql, " AND r.job = ?2");
	if (r == 0 && q->kind && q->kind[0])
		r = gs_buf_puts(sql, " AND r.kind = ?3");
	if (r == 0 && q->hostname && q->hostname[0])
		r = gs_buf_puts(sql, " AND n.hostname = ?4");
	if (r == 0 && star && strcmp(q->name, "*") != 0)
		r = gs_buf_puts(sql, q->name[star - 1] == '*'
					     ? " AND substr(r.name, 1, length(?5)) = ?5"
					     : " AND r.name = ?5");
	if (r == 0 && q->state)
		r = gs_buf_printf(sql, " AND r.state = %u", q->state);
	if (r == 0 && q->not_running)
		r = gs_buf_puts(sql, " AND r.state <> 1");
	if (r == 0 && q->from_wall_ns)
		r = gs_buf_printf(sql, " AND r.end_wall_ns >= %lld", (long long)q->from_wall_ns);
	if (r == 0 && q->to_wall_ns)
		r = gs_buf_printf(sql, " AND r.begin_wall_ns < %lld", (long long)q->to_wall_ns);
	if (r == 0 && q->after_id)
		r = gs_buf_printf(sql, " AND (r.begin_wall_ns, r.id) < (%lld, %lld)",
				  (long long)q->after_begin_wall_ns, (long long)q->after_id);
	return r == 0 ? gs_buf_printf(sql, " ORDER BY r.begin_wall_ns DESC, r.id DESC") : r;
}

static void bind_texts(sqlite3_stmt *stmt, const struct gs_store_report_query *q)
{
	const char *texts[] = {q->user, q->job, q->kind, q->hostname, q->name};

	for (int i = 0; i < (int)GS_ARRAY_LEN(texts); i++) {
		size_t n = texts[i] ? strlen(texts[i]) : 0;

		if (i == 4 && n && texts[i][n - 1] == '*')
			n--;
		if (n) /* one that is not in the text is refused, which does not matter */
			sqlite3_bind_text(stmt, i + 1, texts[i], (int)n, SQLITE_STATIC);
	}
}

int gs_store_reports(struct gs_store *store, const struct gs_store_report_query *q,
		     int (*fn)(void *ctx, const struct gs_store_report *report, const char *text,
			       size_t bytes),
		     void *ctx)
{
	GS_CLEANUP(gs_buf_fini) struct gs_buf text = GS_BUF_INIT(GS_STORE_REPORT_MAX + 64);
	GS_CLEANUP(gs_buf_fini) struct gs_buf sql = GS_BUF_INIT(4096);
	STORE_STMT *stmt = NULL;
	int rc = SQLITE_DONE, r;

	/* A reader's file may be one of the layout before. */
	if (store->layout < 2)
		return 0;
	r = gs_buf_printf(&sql, COLUMNS "%s" FROM_TABLE,
			  q->whole ? ", r.codec, r.raw_bytes, r.data" : "");
	if (r == 0)
		r = choose_reports(&sql, q);
	if (r == 0)
		r = store_prepare(store, (const char *)sql.data, &stmt);
	if (r < 0)
		return r;
	bind_texts(stmt, q);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct gs_store_report report;
		bool has_text = q->whole && read_text(stmt, &text) == 0;

		read_row(stmt, &report);
		r = fn(ctx, &report, has_text ? (const char *)text.data : NULL,
		       has_text ? text.bytes : 0);
	}
	return r != 0 || rc == SQLITE_DONE ? r : store_error(store, rc);
}

void gs_store_report_newer(const struct gs_store_report *report,
			   char out[GS_STORE_REPORT_AFTER_BYTES])
{
	snprintf(out, GS_STORE_REPORT_AFTER_BYTES, "%lld-%lld", (long long)report->begin_wall_ns,
		 (long long)report->id);
}

int gs_store_report_older(struct gs_store_report_query *query, const char *after)
{
	char *end;

	query->after_begin_wall_ns = query->after_id = 0;
	if (!after[0])
		return 0;
	errno = 0;
	query->after_begin_wall_ns = strtoll(after, &end, 10);
	if (end == after || *end != '-' || errno)
		return -EINVAL;
	after = end + 1;
	query->after_id = strtoll(after, &end, 10);
	return end == after || *end || errno || query->after_id <= 0 ? -EINVAL : 0;
}

int gs_store_report_get(struct gs_store *store, int64_t id, struct gs_store_report *ret_report,
			struct gs_buf *ret_text)
{
	STORE_STMT *stmt = NULL;
	int rc, r;

	if (store->layout < 2)
		return -ENOENT;
	r = store_prepare(store,
			  COLUMNS ", r.codec, r.raw_bytes, r.data" FROM_TABLE "WHERE r.id = ?1",
			  &stmt);
	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, id);
	rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? -ENOENT : store_error(store, rc);
	read_row(stmt, ret_report);
	return read_text(stmt, ret_text);
}

/* --- keeping --- */

/* Each delivery of a report of its own was a stream of its own. A day later than their reports:
 * by then no batch of them is sent again. */
static int expire_streams(struct gs_store *s, int64_t before_wall_ns)
{
	STORE_STMT *stmt = NULL;
	/* They have no batches, which need not be gone through to find that out. */
	int r = store_exec(s, "PRAGMA foreign_keys = OFF");
	int back;

	if (r == 0)
		r = store_prepare(s,
				  "DELETE FROM stream WHERE kind = 3 AND ended = 1"
				  " AND last_wall_ns < ?1",
				  &stmt);
	if (r == 0) {
		sqlite3_bind_int64(stmt, 1, before_wall_ns);
		r = store_run(s, stmt);
	}
	back = store_exec(s, "PRAGMA foreign_keys = ON");
	return r < 0 ? r : back;
}

int gs_store_report_expire(struct gs_store *store, int64_t before_wall_ns, unsigned max)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      "DELETE FROM job_report WHERE id IN (SELECT id FROM job_report"
			      " WHERE end_wall_ns < ?1 ORDER BY end_wall_ns LIMIT ?2)",
			      &stmt);
	int n;

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, before_wall_ns);
	sqlite3_bind_int64(stmt, 2, max);
	r = store_run(store, stmt);
	if (r < 0)
		return r;
	n = sqlite3_changes(store->db);
	if (n > 0 && before_wall_ns < INT64_MAX)
		r = expire_streams(store, before_wall_ns - DAY_NS);
	return r < 0 ? r : n;
}
