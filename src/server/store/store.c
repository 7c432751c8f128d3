/* The file: opening, transactions, nodes and streams. */
#include "server/store/store_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define FILE_NAME "head.db"

static const char *const kept_sql[STORE_SQL_COUNT] = {
	[STORE_NODE_PUT] = "INSERT INTO node (machine_id, instance, hostname) VALUES (?1, ?2, ?3)"
			   " ON CONFLICT (machine_id, instance) DO UPDATE SET hostname = ?3"
			   " WHERE hostname <> ?3",
	[STORE_NODE_ID] = "SELECT id FROM node WHERE machine_id = ?1 AND instance = ?2",
	[STORE_STREAM_PUT] =
		"INSERT INTO stream (node, stream, kind, title) VALUES (?1, ?2, ?3, ?4)"
		" ON CONFLICT (node, stream) DO NOTHING",
	[STORE_STREAM_GET] = "SELECT id, node, stream, kind, title, last_seq, n_samples, "
			     "lost_batches, lost_samples,"
			     " missed_samples, first_wall_ns, last_wall_ns, ended,"
			     " coalesce(clock_low_ns, 0), coalesce(clock_high_ns, 0)"
			     " FROM stream"
			     " WHERE node = ?1 AND stream = ?2",
	[STORE_APPEND] = "INSERT INTO batch (stream, seq, first_wall_ns, last_wall_ns,"
			 " clock_offset_ns, n_samples, codec, raw_bytes, data)"
			 " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
	/* Before the stream is moved on, and under the same condition. */
	[STORE_LOSS_ADD] =
		"INSERT INTO loss (stream, begin_wall_ns, end_wall_ns, lost_samples, "
		"missed_samples)"
		" SELECT id, CASE WHEN last_wall_ns = 0 THEN ?3 ELSE min(last_wall_ns, ?4) END + "
		"?5,"
		" ?4 + ?5, max(?6 - lost_samples, 0), ?7 FROM stream"
		" WHERE id = ?1 AND last_seq < ?2 AND (?6 > lost_samples OR ?7 > 0)",
	/* Which batches are stored is said here alone: a number that is not above is refused. */
	[STORE_STREAM_MOVE] =
		"UPDATE stream SET last_seq = ?2, n_samples = n_samples + ?3,"
		" lost_batches = max(lost_batches, ?4), lost_samples = max(lost_samples, ?5),"
		" clock_low_ns = CASE WHEN ?9 = 0 THEN clock_low_ns ELSE"
		" min(coalesce(clock_low_ns, ?9), ?9) END,"
		" clock_high_ns = CASE WHEN ?9 = 0 THEN clock_high_ns ELSE"
		" max(coalesce(clock_high_ns, ?9), ?9) END,"
		" missed_samples = missed_samples + ?6, last_wall_ns = max(last_wall_ns, ?8),"
		" first_wall_ns = CASE WHEN first_wall_ns = 0 THEN ?7 ELSE min(first_wall_ns, ?7) "
		"END"
		" WHERE id = ?1 AND last_seq < ?2",
	[STORE_NODE_MOVE] = "UPDATE node SET last_wall_ns = max(last_wall_ns, ?3),"
			    " first_wall_ns = CASE WHEN first_wall_ns = 0 THEN ?2 ELSE "
			    "min(first_wall_ns, ?2) END"
			    " WHERE id = (SELECT node FROM stream WHERE id = ?1)",
};

/* --- statements --- */

int store_error(struct gs_store *s, int rc)
{
	snprintf(s->trouble, sizeof(s->trouble), "%s", sqlite3_errmsg(s->db));
	switch (rc & 0xff) {
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_READONLY:
	case SQLITE_PERM:
		return -EACCES;
	case SQLITE_CANTOPEN:
		return -ENOENT;
	case SQLITE_CONSTRAINT:
		return -EEXIST;
	case SQLITE_TOOBIG:
		return -EMSGSIZE;
	case SQLITE_IOERR:
		/* The system's own word, where it says "full" another way (quota, file size limit).
		 */
		return sqlite3_system_errno(s->db) == EDQUOT || sqlite3_system_errno(s->db) == EFBIG
			       ? -ENOSPC
			       : -EIO;
	default: /* not -EINVAL, which is about what the caller gave */
		return -EIO;
	}
}

int store_prepare(struct gs_store *s, const char *sql, sqlite3_stmt **ret_stmt)
{
	int rc = sqlite3_prepare_v2(s->db, sql, -1, ret_stmt, NULL);

	return rc == SQLITE_OK ? 0 : store_error(s, rc);
}

sqlite3_stmt *store_kept(struct gs_store *s, enum store_sql which, int *ret_r)
{
	*ret_r = 0;
	if (!s->kept[which]) {
		int rc = sqlite3_prepare_v3(s->db, kept_sql[which], -1, SQLITE_PREPARE_PERSISTENT,
					    &s->kept[which], NULL);

		if (rc != SQLITE_OK) {
			*ret_r = store_error(s, rc);
			return NULL;
		}
	}
	sqlite3_reset(s->kept[which]);
	sqlite3_clear_bindings(s->kept[which]);
	return s->kept[which];
}

int store_run(struct gs_store *s, sqlite3_stmt *stmt)
{
	int rc, r;

	while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
		;
	r = rc == SQLITE_DONE ? 0 : store_error(s, rc);
	sqlite3_reset(stmt);
	return r;
}

int store_exec(struct gs_store *s, const char *sql)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : store_error(s, rc);
}

void store_text(sqlite3_stmt *stmt, int column, char *out, size_t bytes)
{
	const unsigned char *text = sqlite3_column_text(stmt, column);

	snprintf(out, bytes, "%s", text ? (const char *)text : "");
}

static int read_number(struct gs_store *s, const char *sql, int64_t *ret_number)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(s, sql, &stmt);
	int rc;

	if (r < 0)
		return r;
	rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? -ENOENT : store_error(s, rc);
	*ret_number = sqlite3_column_int64(stmt, 0);
	return 0;
}

/* --- opening --- */

static int lock_dir(struct gs_store *s, const char *dir, struct gs_err *err)
{
	char path[4096];

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "cannot make the folder %s: %s", dir,
				  strerror(errno));
	snprintf(path, sizeof(path), "%s/lock", dir);
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return gs_err_set(err, -errno, "cannot write into %s: %s", dir, strerror(errno));
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return gs_err_set(err, -EBUSY,
				  "%s is used by another head: end that one or give another --data",
				  dir);
	return 0;
}

/* What is there is ours and of a layout that we know; who writes brings it to the newest. */
static int check_file(struct gs_store *s, enum gs_store_mode mode, const char *path,
		      struct gs_err *err)
{
	int64_t version = 0, application = 0, tables = 0;
	int r = read_number(s, "PRAGMA user_version", &version);

	if (r == 0)
		r = read_number(s, "PRAGMA application_id", &application);
	if (r == 0)
		r = read_number(s, "SELECT count(*) FROM sqlite_schema", &tables);
	if (r < 0)
		return gs_err_set(err, r, "cannot read %s: %s", path, s->trouble);
	if (application != STORE_APPLICATION && (tables != 0 || mode != GS_STORE_WRITE))
		return gs_err_set(err, -EUCLEAN, "%s is not the data of a head", path);
	if (version > store_layout_newest())
		return gs_err_set(err, -EUCLEAN,
				  "%s was written by a newer gpuscope (layout %lld, known %d)",
				  path, (long long)version, store_layout_newest());
	s->layout = tables == 0 ? 0 : (int)version;
	if (mode != GS_STORE_WRITE)
		return 0;
	r = store_layout_bring(s);
	return r < 0 ? gs_err_set(err, r, "cannot %s %s: %s",
				  tables == 0 ? "begin" : "bring up to date", path, s->trouble)
		     : 0;
}

int gs_store_open(const char *dir, enum gs_store_mode mode, struct gs_store **ret_store,
		  struct gs_err *err)
{
	struct gs_store *s = calloc(1, sizeof(*s));
	char path[4096];
	int rc, r = 0;

	if (!s)
		return gs_err_set(err, -ENOMEM, "no memory");
	s->lock_fd = -1;
	snprintf(path, sizeof(path), "%s/" FILE_NAME, dir);
	if (mode == GS_STORE_WRITE)
		r = lock_dir(s, dir, err);
	if (r == 0) {
		rc = sqlite3_open_v2(path, &s->db,
				     SQLITE_OPEN_NOMUTEX |
					     (mode == GS_STORE_WRITE
						      ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
						      : SQLITE_OPEN_READONLY),
				     NULL);
		if (rc != SQLITE_OK)
			r = gs_err_set(err, s->db ? store_error(s, rc) : -ENOMEM,
				       "cannot open %s: %s", path,
				       s->db ? sqlite3_errmsg(s->db) : "no memory");
	}
	if (r == 0) {
		sqlite3_busy_timeout(s->db, 10000);
		/* FULL: a commit is on the disk when it returns, also in WAL mode. */
		r = store_exec(s, "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;"
				  "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
				  "PRAGMA cache_size = -16384; PRAGMA mmap_size = 0;"
				  "PRAGMA journal_size_limit = 67108864;");
		if (r < 0)
			(void)gs_err_set(err, r, "cannot read %s: %s", path, s->trouble);
	}
	if (r == 0)
		r = check_file(s, mode, path, err);
	if (r < 0) {
		gs_store_close(&s);
		return r;
	}
	*ret_store = s;
	return 0;
}

void gs_store_close(struct gs_store **store)
{
	struct gs_store *s = *store;

	if (!s)
		return;
	for (int i = 0; i < STORE_SQL_COUNT; i++)
		sqlite3_finalize(s->kept[i]);
	sqlite3_close(s->db);
	gs_close_p(&s->lock_fd);
	gs_free_p(store);
}

const char *gs_store_trouble(const struct gs_store *store)
{
	return store->trouble;
}

int gs_store_begin(struct gs_store *store)
{
	return store_exec(store, "BEGIN IMMEDIATE");
}

int gs_store_commit(struct gs_store *store)
{
	int r = store_exec(store, "COMMIT");

	/* A commit that found no room leaves the transaction open. */
	if (r < 0)
		gs_store_rollback(store);
	return r;
}

void gs_store_rollback(struct gs_store *store)
{
	if (!sqlite3_get_autocommit(store->db))
		(void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
}

/* --- nodes and streams --- */

int gs_store_node(struct gs_store *store, const struct gs_store_node *node, int64_t *ret_id)
{
	int r;
	sqlite3_stmt *stmt = store_kept(store, STORE_NODE_PUT, &r);

	if (!stmt)
		return r;
	sqlite3_bind_text(stmt, 1, node->machine_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, node->instance, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 3, node->hostname, -1, SQLITE_STATIC);
	r = store_run(store, stmt);
	if (r < 0)
		return r;
	stmt = store_kept(store, STORE_NODE_ID, &r);
	if (!stmt)
		return r;
	sqlite3_bind_text(stmt, 1, node->machine_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, node->instance, -1, SQLITE_STATIC);
	r = sqlite3_step(stmt);
	r = r == SQLITE_ROW ? 0 : store_error(store, r);
	if (r == 0)
		*ret_id = sqlite3_column_int64(stmt, 0);
	sqlite3_reset(stmt);
	return r;
}

int gs_store_node_find(struct gs_store *store, const char *machine_id, const char *instance,
		       struct gs_store_node *ret)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      "SELECT id, hostname FROM node WHERE machine_id = ? AND instance = ?",
			      &stmt);

	if (r < 0)
		return r;
	sqlite3_bind_text(stmt, 1, machine_id, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, instance, -1, SQLITE_STATIC);
	r = sqlite3_step(stmt);
	if (r == SQLITE_DONE)
		return -ENOENT;
	if (r != SQLITE_ROW)
		return store_error(store, r);
	*ret = (struct gs_store_node){.id = sqlite3_column_int64(stmt, 0)};
	snprintf(ret->machine_id, sizeof(ret->machine_id), "%s", machine_id);
	snprintf(ret->instance, sizeof(ret->instance), "%s", instance);
	snprintf(ret->hostname, sizeof(ret->hostname), "%s",
		 (const char *)sqlite3_column_text(stmt, 1));
	return 0;
}

int gs_store_nodes(struct gs_store *store, int (*fn)(void *ctx, const struct gs_store_node *node),
		   void *ctx)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      "SELECT id, machine_id, instance, hostname, first_wall_ns,"
			      " last_wall_ns FROM node WHERE id NOT IN (SELECT node FROM stream"
			      " WHERE kind = 3) OR id IN (SELECT node FROM stream WHERE kind <> 3)"
			      " ORDER BY id",
			      &stmt);
	int rc = SQLITE_DONE;

	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct gs_store_node n = {
			.id = sqlite3_column_int64(stmt, 0),
			.first_wall_ns = sqlite3_column_int64(stmt, 4),
			.last_wall_ns = sqlite3_column_int64(stmt, 5),
		};

		store_text(stmt, 1, n.machine_id, sizeof(n.machine_id));
		store_text(stmt, 2, n.instance, sizeof(n.instance));
		store_text(stmt, 3, n.hostname, sizeof(n.hostname));
		r = fn(ctx, &n);
	}
	return r != 0 || rc == SQLITE_DONE ? r : store_error(store, rc);
}

static void read_stream(sqlite3_stmt *stmt, struct gs_store_stream *ret_stream)
{
	*ret_stream = (struct gs_store_stream){
		.id = sqlite3_column_int64(stmt, 0),
		.node = sqlite3_column_int64(stmt, 1),
		.stream = (uint64_t)sqlite3_column_int64(stmt, 2),
		.kind = (uint32_t)sqlite3_column_int64(stmt, 3),
		.last_seq = (uint64_t)sqlite3_column_int64(stmt, 5),
		.n_samples = (uint64_t)sqlite3_column_int64(stmt, 6),
		.lost_batches = (uint64_t)sqlite3_column_int64(stmt, 7),
		.lost_samples = (uint64_t)sqlite3_column_int64(stmt, 8),
		.missed_samples = (uint64_t)sqlite3_column_int64(stmt, 9),
		.first_wall_ns = sqlite3_column_int64(stmt, 10),
		.last_wall_ns = sqlite3_column_int64(stmt, 11),
		.ended = sqlite3_column_int(stmt, 12),
		.clock_low_ns = sqlite3_column_int64(stmt, 13),
		.clock_high_ns = sqlite3_column_int64(stmt, 14),
	};
	store_text(stmt, 4, ret_stream->title, sizeof(ret_stream->title));
}

int gs_store_stream(struct gs_store *store, const struct gs_store_stream *stream,
		    struct gs_store_stream *ret_stream)
{
	int r;
	sqlite3_stmt *stmt = store_kept(store, STORE_STREAM_PUT, &r);

	if (!stmt)
		return r;
	sqlite3_bind_int64(stmt, 1, stream->node);
	sqlite3_bind_int64(stmt, 2, (int64_t)stream->stream);
	sqlite3_bind_int64(stmt, 3, stream->kind);
	sqlite3_bind_text(stmt, 4, stream->title, -1, SQLITE_STATIC);
	r = store_run(store, stmt);
	if (r < 0)
		return r;
	stmt = store_kept(store, STORE_STREAM_GET, &r);
	if (!stmt)
		return r;
	sqlite3_bind_int64(stmt, 1, stream->node);
	sqlite3_bind_int64(stmt, 2, (int64_t)stream->stream);
	r = sqlite3_step(stmt);
	r = r == SQLITE_ROW ? 0 : store_error(store, r);
	if (r == 0)
		read_stream(stmt, ret_stream);
	sqlite3_reset(stmt);
	return r;
}

int gs_store_stream_end(struct gs_store *store, int64_t stream)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store, "UPDATE stream SET ended = 1 WHERE id = ?1", &stmt);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, stream);
	return store_run(store, stmt);
}

int gs_store_streams(struct gs_store *store, int64_t node,
		     int (*fn)(void *ctx, const struct gs_store_stream *stream), void *ctx)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(
		store,
		"SELECT id, node, stream, kind, title, last_seq, n_samples,"
		" lost_batches, lost_samples, missed_samples, first_wall_ns,"
		" last_wall_ns, ended, coalesce(clock_low_ns, 0),"
		" coalesce(clock_high_ns, 0) FROM stream WHERE ?1 IN (0, node) ORDER BY id",
		&stmt);
	int rc = SQLITE_DONE;

	if (r == 0)
		sqlite3_bind_int64(stmt, 1, node);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct gs_store_stream s;

		read_stream(stmt, &s);
		r = fn(ctx, &s);
	}
	return r != 0 || rc == SQLITE_DONE ? r : store_error(store, rc);
}
