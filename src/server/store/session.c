/* Sessions and their marks. */
#include "server/store/store_int.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/clock.h"
#include "core/base/map.h"

const char *gs_store_session_state_name(unsigned state)
{
	switch (state) {
	case GS_STORE_SESSION_ACTIVE:
		return "active";
	case GS_STORE_SESSION_STOPPED:
		return "stopped";
	case GS_STORE_SESSION_RECOVERABLE:
		return "recoverable";
	}
	return "unknown";
}

/* Bytes of the right UTF-8 sequence at p (RFC 3629, table of section 4); 0: it is not one. */
static size_t utf8_bytes(const unsigned char *p)
{
	size_t n = p[0] >= 0xc2 && p[0] <= 0xdf   ? 2
		   : (p[0] & 0xf0) == 0xe0        ? 3
		   : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
						  : 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f) ||
	    (p[0] == 0xc2 && p[1] < 0xa0)) /* control characters of Latin 1 */
		return 0;
	return n;
}

/* Whether these n bytes are a mark that changes the direction of text (as core/text/text.c knows
 * them): a name would be shown as another. */
static bool turns_text(const unsigned char *p, size_t n)
{
	if (n == 2)
		return p[0] == 0xd8 && p[1] == 0x9c; /* U+061C */
	if (n != 3 || p[0] != 0xe2)
		return false;
	return p[1] == 0x80 ? p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xaa && p[2] <= 0xae)
			    : p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9;
}

bool gs_store_session_name_valid(const char *name)
{
	const unsigned char *p = (const unsigned char *)name;
	size_t bytes = strlen(name);

	if (bytes == 0 || bytes >= GS_STORE_SESSION_NAME_BYTES || *p == '.' || *p == '-' ||
	    *p == ' ')
		return false;
	while (*p) {
		size_t n = *p < 0x80 ? 1 : utf8_bytes(p);

		if (n == 0 || (n == 1 && !((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
					   (*p >= '0' && *p <= '9') || strchr("._- :+@", *p))))
			return false;
		if (turns_text(p, n))
			return false;
		p += n;
	}
	return true;
}

#define SESSION_COLUMNS                                                                            \
	"SELECT number, id, name, state, start_wall_ns, end_wall_ns, interval_ns, bandwidth,"      \
	" nvlink, metrics, nodes, report_metrics,"                                                 \
	" (SELECT count(*) FROM mark WHERE mark.session = session.number) FROM session "

static void read_session(sqlite3_stmt *stmt, struct gs_store_session *ret_session)
{
	*ret_session = (struct gs_store_session){
		.number = sqlite3_column_int64(stmt, 0),
		.state = (uint32_t)sqlite3_column_int(stmt, 3),
		.start_wall_ns = sqlite3_column_int64(stmt, 4),
		.end_wall_ns = sqlite3_column_int64(stmt, 5),
		.interval_ns = (uint64_t)sqlite3_column_int64(stmt, 6),
		.bandwidth = sqlite3_column_int(stmt, 7),
		.nvlink = sqlite3_column_int(stmt, 8),
		.n_annotations = (uint64_t)sqlite3_column_int64(stmt, 12),
	};
	store_text(stmt, 1, ret_session->id, sizeof(ret_session->id));
	store_text(stmt, 2, ret_session->name, sizeof(ret_session->name));
	store_text(stmt, 9, ret_session->metrics, sizeof(ret_session->metrics));
	store_text(stmt, 10, ret_session->nodes, sizeof(ret_session->nodes));
	store_text(stmt, 11, ret_session->report_metrics, sizeof(ret_session->report_metrics));
}

int gs_store_session_start(struct gs_store *store, struct gs_store_session *session)
{
	STORE_STMT *stmt = NULL;
	unsigned char random[16];
	int r;

	if (!gs_store_session_name_valid(session->name))
		return -EINVAL;
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -errno;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(session->id + 2 * i, 3, "%02x", random[i]);
	session->state = GS_STORE_SESSION_ACTIVE;
	session->start_wall_ns = (int64_t)gs_clock_wall_ns();
	session->end_wall_ns = 0;
	session->n_annotations = 0;
	r = store_prepare(store,
			  "INSERT INTO session (id, name, state, start_wall_ns, end_wall_ns,"
			  " interval_ns, bandwidth, nvlink, metrics, nodes, report_metrics)"
			  " VALUES (?1, ?2, 1, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9)",
			  &stmt);
	if (r < 0)
		return r;
	sqlite3_bind_text(stmt, 1, session->id, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, session->name, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 3, session->start_wall_ns);
	sqlite3_bind_int64(stmt, 4, (int64_t)session->interval_ns);
	sqlite3_bind_int(stmt, 5, session->bandwidth);
	sqlite3_bind_int(stmt, 6, session->nvlink);
	sqlite3_bind_text(stmt, 7, session->metrics, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 8, session->nodes, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 9, session->report_metrics, -1, SQLITE_STATIC);
	r = store_run(store, stmt);
	if (r == 0)
		session->number = sqlite3_last_insert_rowid(store->db);
	return r;
}

int gs_store_session_get(struct gs_store *store, const char *id_or_name,
			 struct gs_store_session *ret_session)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      SESSION_COLUMNS "WHERE id = ?1 OR name = ?1"
					      " ORDER BY id = ?1 DESC, number DESC LIMIT 1",
			      &stmt);
	int rc;

	if (r < 0)
		return r;
	sqlite3_bind_text(stmt, 1, id_or_name, -1, SQLITE_STATIC);
	rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return rc == SQLITE_DONE ? -ENOENT : store_error(store, rc);
	read_session(stmt, ret_session);
	return 0;
}

int gs_store_sessions(struct gs_store *store, int64_t after, unsigned state,
		      int (*fn)(void *ctx, const struct gs_store_session *session), void *ctx)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      SESSION_COLUMNS "WHERE (?1 = 0 OR number < ?1) AND ?2 IN (0, state)"
					      " ORDER BY number DESC",
			      &stmt);
	int rc = SQLITE_DONE;

	if (r == 0) {
		sqlite3_bind_int64(stmt, 1, after);
		sqlite3_bind_int64(stmt, 2, state);
	}
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct gs_store_session s;

		read_session(stmt, &s);
		r = fn(ctx, &s);
	}
	return r != 0 || rc == SQLITE_DONE ? r : store_error(store, rc);
}

/* Why an update of a session changed nothing. */
static int not_changed(struct gs_store *s, int64_t number)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(s, "SELECT 1 FROM session WHERE number = ?1", &stmt);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, number);
	return sqlite3_step(stmt) == SQLITE_ROW ? -EALREADY : -ENOENT;
}

static int change_session(struct gs_store *s, const char *sql, int64_t number, int64_t value)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(s, sql, &stmt);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, number);
	if (sqlite3_bind_parameter_count(stmt) > 1)
		sqlite3_bind_int64(stmt, 2, value);
	r = store_run(s, stmt);
	return r == 0 && sqlite3_changes(s->db) == 0 ? not_changed(s, number) : r;
}

int gs_store_session_resume(struct gs_store *store, int64_t number)
{
	return change_session(store,
			      "UPDATE session SET state = 1, end_wall_ns = 0"
			      " WHERE number = ?1 AND state <> 1",
			      number, 0);
}

int gs_store_session_stop(struct gs_store *store, int64_t number, int64_t end_wall_ns)
{
	return change_session(store,
			      "UPDATE session SET state = 2, end_wall_ns = max(?2, start_wall_ns)"
			      " WHERE number = ?1 AND state <> 2",
			      number, end_wall_ns);
}

int gs_store_session_delete(struct gs_store *store, int64_t number)
{
	int r = change_session(store, "DELETE FROM session WHERE number = ?1 AND state <> 1",
			       number, 0);

	return r == -EALREADY ? -EBUSY : r;
}

int gs_store_sessions_interrupted(struct gs_store *store)
{
	int r = store_exec(store, "UPDATE session SET state = 3 WHERE state = 1");

	return r < 0 ? r : sqlite3_changes(store->db);
}

/* --- what is in one --- */

static bool fits_pattern(const char *pattern, size_t bytes, const char *name)
{
	const char *end = pattern + bytes, *star = NULL, *again = NULL;

	while (*name) {
		if (pattern < end && *pattern == '*') {
			star = ++pattern;
			again = name;
		} else if (pattern < end && (*pattern == '?' || *pattern == *name)) {
			pattern++;
			name++;
		} else if (star) { /* the last star takes one more */
			pattern = star;
			name = ++again;
		} else {
			return false;
		}
	}
	while (pattern < end && *pattern == '*')
		pattern++;
	return pattern == end;
}

bool gs_store_session_has(const struct gs_store_session *session, const char *hostname)
{
	const char *p = session->nodes;

	if (!*p)
		return true;
	for (;;) {
		size_t bytes = strcspn(p, ",");

		if (fits_pattern(p, bytes, hostname))
			return true;
		if (!p[bytes])
			return false;
		p += bytes + 1;
	}
}

struct tally {
	const struct gs_store_session *session;
	struct gs_map nodes;   /* that belong to it */
	struct gs_map streams; /* likewise; to the node */
	int64_t clock_low_ns, clock_high_ns;
	int64_t end_wall_ns;
	struct gs_store_tally out;
};

static int tally_node(void *ctx, const struct gs_store_node *node)
{
	struct tally *t = ctx;

	return gs_store_session_has(t->session, node->hostname)
		       ? gs_map_put(&t->nodes, (uint64_t)node->id, 0)
		       : 0;
}

static int tally_stream(void *ctx, const struct gs_store_stream *s)
{
	struct tally *t = ctx;
	uint64_t zero;

	if (s->kind != GS_STORE_SAMPLES || !gs_map_get(&t->nodes, (uint64_t)s->node, &zero) ||
	    s->last_wall_ns + s->clock_high_ns < t->session->start_wall_ns ||
	    s->first_wall_ns + s->clock_low_ns >= t->end_wall_ns)
		return 0;
	if (s->clock_low_ns < t->clock_low_ns)
		t->clock_low_ns = s->clock_low_ns;
	if (s->clock_high_ns > t->clock_high_ns)
		t->clock_high_ns = s->clock_high_ns;
	return gs_map_put(&t->streams, (uint64_t)s->id, (uint64_t)s->node);
}

static int tally_loss(void *ctx, const struct gs_store_loss *loss)
{
	struct tally *t = ctx;
	uint64_t node;

	if (gs_map_get(&t->streams, (uint64_t)loss->stream, &node)) {
		t->out.lost_samples += loss->lost_samples;
		t->out.missed_samples += loss->missed_samples;
	}
	return 0;
}

static int tally_batches(struct gs_store *store, struct tally *t)
{
	STORE_STMT *stmt = NULL;
	int64_t start = t->session->start_wall_ns;
	int r = store_prepare(store,
			      "SELECT stream, sum(n_samples) FROM batch INDEXED BY batch_time"
			      " WHERE first_wall_ns >= ?1 AND first_wall_ns < ?2"
			      " AND last_wall_ns + clock_offset_ns >= ?3"
			      " AND first_wall_ns + clock_offset_ns < ?4 GROUP BY stream",
			      &stmt);
	int rc = SQLITE_DONE;

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, start - t->clock_high_ns - 3600ll * 1000000000);
	sqlite3_bind_int64(stmt, 2,
			   t->end_wall_ns == INT64_MAX ? INT64_MAX
						       : t->end_wall_ns - t->clock_low_ns);
	sqlite3_bind_int64(stmt, 3, start);
	sqlite3_bind_int64(stmt, 4, t->end_wall_ns);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		uint64_t node, seen;

		if (!gs_map_get(&t->streams, (uint64_t)sqlite3_column_int64(stmt, 0), &node))
			continue;
		t->out.n_samples += (uint64_t)sqlite3_column_int64(stmt, 1);
		if (gs_map_get(&t->nodes, node, &seen) && !seen) {
			t->out.n_nodes++;
			r = gs_map_put(&t->nodes, node, 1);
		}
	}
	return r != 0 || rc == SQLITE_DONE ? r : store_error(store, rc);
}

int gs_store_session_tally(struct gs_store *store, const struct gs_store_session *session,
			   struct gs_store_tally *ret_tally)
{
	struct tally t = {
		.session = session,
		.nodes = GS_MAP_INIT(1u << 24),
		.streams = GS_MAP_INIT(1u << 24),
		.end_wall_ns = session->end_wall_ns ? session->end_wall_ns : INT64_MAX,
	};
	int r = gs_store_nodes(store, tally_node, &t);

	if (r == 0)
		r = gs_store_streams(store, 0, tally_stream, &t);
	if (r == 0 && t.streams.n_used)
		r = tally_batches(store, &t);
	if (r == 0)
		r = gs_store_losses(store, session->start_wall_ns, t.end_wall_ns, tally_loss, &t);
	gs_map_fini(&t.nodes);
	gs_map_fini(&t.streams);
	if (r == 0)
		*ret_tally = t.out;
	return r;
}

/* --- marks --- */

int gs_store_annotation_add(struct gs_store *store, const struct gs_store_annotation *mark)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      "INSERT INTO mark (session, wall_ns, kind, name, vals)"
			      " VALUES (?1, ?2, ?3, ?4, ?5)",
			      &stmt);

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, mark->session);
	sqlite3_bind_int64(stmt, 2, mark->wall_ns);
	sqlite3_bind_text(stmt, 3, mark->kind, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 4, mark->name, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 5, mark->values, -1, SQLITE_STATIC);
	return store_run(store, stmt);
}

int gs_store_annotations(struct gs_store *store, int64_t session,
			 int (*fn)(void *ctx, const struct gs_store_annotation *mark), void *ctx)
{
	STORE_STMT *stmt = NULL;
	int r = store_prepare(store,
			      "SELECT wall_ns, kind, name, vals FROM mark WHERE session = ?1"
			      " ORDER BY wall_ns, rowid",
			      &stmt);
	int rc = SQLITE_DONE;

	if (r == 0)
		sqlite3_bind_int64(stmt, 1, session);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct gs_store_annotation m = {
			.session = session,
			.wall_ns = sqlite3_column_int64(stmt, 0),
			.values = (const char *)sqlite3_column_text(stmt, 3),
		};

		store_text(stmt, 1, m.kind, sizeof(m.kind));
		store_text(stmt, 2, m.name, sizeof(m.name));
		r = fn(ctx, &m);
	}
	return r != 0 || rc == SQLITE_DONE ? r : store_error(store, rc);
}
