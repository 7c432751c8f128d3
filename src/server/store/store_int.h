/* Private to the room: the connection and its statements. */
#ifndef GS_SERVER_STORE_STORE_INT_H
#define GS_SERVER_STORE_STORE_INT_H

#include <sqlite3.h>

#include "server/store/store.h"

/* Statements that are kept prepared: store.c has their texts. */
enum store_sql {
	STORE_NODE_PUT,
	STORE_NODE_ID,
	STORE_STREAM_PUT,
	STORE_STREAM_GET,
	STORE_APPEND,
	STORE_LOSS_ADD,
	STORE_STREAM_MOVE,
	STORE_NODE_MOVE,
	STORE_SQL_COUNT
};

struct gs_store {
	sqlite3 *db;
	sqlite3_stmt *kept[STORE_SQL_COUNT];
	char trouble[256];
	int lock_fd; /* held by the writer */
	int layout;  /* of the file; a reader's may be older than the newest */
};

#define STORE_APPLICATION 0x67736864 /* application_id of the file: "gshd" */

/* --- layout.c --- */

int store_layout_newest(void);

/* From s->layout (0: an empty file) to the newest, step by step. 0 or a negative errno; the file
 * then has the layout of the last step that was done. */
int store_layout_bring(struct gs_store *s);

/* A negative errno of what SQLite says; its words are kept. */
int store_error(struct gs_store *s, int rc);

/* The kept statement, reset and without values; NULL and *ret_r set on failure. */
sqlite3_stmt *store_kept(struct gs_store *s, enum store_sql which, int *ret_r);

/* A statement for once; to be finalized. */
int store_prepare(struct gs_store *s, const char *sql, sqlite3_stmt **ret_stmt);

/* Run to its end; rows are not looked at. 0 or a negative errno. */
int store_run(struct gs_store *s, sqlite3_stmt *stmt);

int store_exec(struct gs_store *s, const char *sql);

/* Of a batch that is about to be stored, in whatever table: its number is taken, and what it says
 * of stream and node noted. -EEXIST: that number or a higher one was taken before; -EINVAL: it was
 * not made by counting. batch.c */
int store_take_number(struct gs_store *s, int64_t stream, const struct gs_store_batch *batch);

/* --- loss.c --- */

/* What a batch that is about to be stored says was lost and missed since the one before it: to be
 * called before that is noted at the stream. Nothing for a number that was taken before. */
int store_loss_add(struct gs_store *s, int64_t stream, const struct gs_store_batch *batch);

/* Removes at most max rows that are older than every batch. */
int store_loss_expire(struct gs_store *s, unsigned max);

/* A column's text into a field, cut to its size; "" for NULL. */
void store_text(sqlite3_stmt *stmt, int column, char *out, size_t bytes);

static inline void store_finalize_p(sqlite3_stmt **stmt)
{
	sqlite3_finalize(*stmt);
	*stmt = NULL;
}
#define STORE_STMT GS_CLEANUP(store_finalize_p) sqlite3_stmt

#endif
