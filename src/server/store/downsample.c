/* Looking for what can be coarser, and replacing it. */
#include "server/store/downsample.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "core/base/map.h"
#include "core/base/mem.h"
#include "core/base/vec.h"
#include "model/node/record.h"
#include "server/store/rollup.h"
#include "server/store/store_int.h"

#define CELLS         8          /* intervals in a stretch */
#define PART_BYTES    (2u << 20) /* of records, unpacked: then a batch is enough */
#define OFFSET_SPREAD 10000000ll /* ns: clocks of one batch are known to be off by the same */
#define SESSIONS_MAX  100000

struct row { /* a batch of the stretch */
	int64_t id, stream;
	uint32_t order; /* by time */
};

struct cover { /* a session's time, by the head's clock */
	int64_t from, to;
};

struct lane { /* of a stream in a stretch */
	int64_t last_cell;
	bool wanted, seen;
};

struct gs_store_scan {
	struct gs_store *store; /* lent */
	struct gs_store_scan_options o;
	int64_t width_ns, next_ns; /* of a stretch; begin of the next one */
	uint64_t n_damaged;
	struct cover *cover;
	size_t n_cover;
	struct row *row; /* of streams that are wanted, stream by stream */
	size_t n_rows, max_rows, at;
	struct gs_map lanes; /* of streams to lane */
	struct lane *lane;
	size_t n_lanes, max_lanes;
	struct gs_map kinds; /* of streams to 1 (samples) or 0 */
	struct gs_node_decoder *decoder;
};

static int64_t cell_of(const struct gs_store_scan *s, int64_t wall_ns)
{
	int64_t interval = (int64_t)s->o.interval_ns;

	return wall_ns >= 0 ? wall_ns / interval : -((-wall_ns + interval - 1) / interval);
}

/* --- life --- */

void gs_store_piece_free(struct gs_store_piece **piece)
{
	struct gs_store_piece *p = *piece;

	if (!p)
		return;
	free(p->ids);
	free(p->batch);
	gs_buf_fini(&p->data);
	gs_free_p(piece);
}

int gs_store_scan_new(struct gs_store *reader, const struct gs_store_scan_options *options,
		      struct gs_store_scan **ret_scan)
{
	struct gs_store_scan *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->store = reader;
	s->o = *options;
	s->width_ns = (int64_t)options->interval_ns * CELLS;
	s->next_ns = options->from_wall_ns;
	s->lanes = GS_MAP_INIT(1u << 24);
	s->kinds = GS_MAP_INIT(1u << 24);
	s->decoder = gs_node_decoder_new();
	if (!s->decoder) {
		gs_store_scan_free(&s);
		return -ENOMEM;
	}
	*ret_scan = s;
	return 0;
}

void gs_store_scan_free(struct gs_store_scan **scan)
{
	struct gs_store_scan *s = *scan;

	if (!s)
		return;
	gs_node_decoder_free(&s->decoder);
	gs_map_fini(&s->lanes);
	gs_map_fini(&s->kinds);
	free(s->cover);
	free(s->row);
	free(s->lane);
	gs_free_p(scan);
}

uint64_t gs_store_scan_damaged(const struct gs_store_scan *scan)
{
	return scan->n_damaged;
}

/* --- what is in a stretch --- */

static void *grow_rows(void *rows, size_t n, size_t *room, size_t bytes)
{
	if (n >= *room && !gs_vec_grow(&rows, bytes, room, n + 1, SIZE_MAX))
		return NULL;
	return rows;
}

/* Sessions that reach into the stretch, wherever clocks are: a session is covered by the head's
 * clock, so each batch is compared by its own offset. */
static int read_sessions(struct gs_store_scan *s)
{
	STORE_STMT *stmt = NULL;
	size_t room = 0;
	int rc = SQLITE_DONE, r;

	free(s->cover);
	s->cover = NULL;
	s->n_cover = 0;
	r = store_prepare(s->store, "SELECT start_wall_ns, end_wall_ns FROM session", &stmt);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
		struct cover *more = grow_rows(s->cover, s->n_cover, &room, sizeof(*more));

		if (!more || s->n_cover == SESSIONS_MAX)
			return more ? -ENOBUFS : -ENOMEM;
		s->cover = more;
		more[s->n_cover].from = sqlite3_column_int64(stmt, 0);
		more[s->n_cover].to = sqlite3_column_int64(stmt, 1);
		if (!more[s->n_cover].to) /* it has no end yet */
			more[s->n_cover].to = INT64_MAX;
		s->n_cover++;
	}
	return r < 0 || rc == SQLITE_DONE ? r : store_error(s->store, rc);
}

static bool is_covered(const struct gs_store_scan *s, int64_t first_ns, int64_t last_ns)
{
	for (size_t i = 0; i < s->n_cover; i++)
		if (last_ns >= s->cover[i].from && first_ns < s->cover[i].to)
			return true;
	return false;
}

/* Whether a session begins or ends between two snapshots: they are not made one, so that each session
 * has what is its own. By the head's clock. */
static bool is_cut(const struct gs_store_scan *s, int64_t before_ns, int64_t wall_ns)
{
	for (size_t i = 0; i < s->n_cover; i++)
		if ((s->cover[i].from > before_ns && s->cover[i].from <= wall_ns) ||
		    (s->cover[i].to > before_ns && s->cover[i].to <= wall_ns))
			return true;
	return false;
}

static int lane_of(struct gs_store_scan *s, int64_t stream, struct lane **ret_lane)
{
	uint64_t at;
	struct lane *more;
	int r;

	if (gs_map_get(&s->lanes, (uint64_t)stream, &at)) {
		*ret_lane = &s->lane[at];
		return 0;
	}
	more = grow_rows(s->lane, s->n_lanes, &s->max_lanes, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->lane = more;
	r = gs_map_put(&s->lanes, (uint64_t)stream, s->n_lanes);
	if (r < 0)
		return r;
	s->lane[s->n_lanes] = (struct lane){0};
	*ret_lane = &s->lane[s->n_lanes++];
	return 0;
}

static int is_samples(struct gs_store_scan *s, int64_t stream, bool *ret_is)
{
	STORE_STMT *stmt = NULL;
	uint64_t known;
	int r;

	if (!gs_map_get(&s->kinds, (uint64_t)stream, &known)) {
		r = store_prepare(s->store, "SELECT kind FROM stream WHERE id = ?1", &stmt);
		if (r < 0)
			return r;
		sqlite3_bind_int64(stmt, 1, stream);
		known = sqlite3_step(stmt) == SQLITE_ROW &&
			sqlite3_column_int64(stmt, 0) == GS_STORE_SAMPLES;
		r = gs_map_put(&s->kinds, (uint64_t)stream, known);
		if (r < 0)
			return r;
	}
	*ret_is = known;
	return 0;
}

static int by_stream(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->stream != y->stream)
		return x->stream < y->stream ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* A row of the index. A stream is wanted when two of its samples are in one cell: several in a
 * batch that is too short for them, or of two batches that share one. */
static int take_row(struct gs_store_scan *s, sqlite3_stmt *stmt)
{
	int64_t stream = sqlite3_column_int64(stmt, 1);
	int64_t first = sqlite3_column_int64(stmt, 2), last = sqlite3_column_int64(stmt, 3);
	int64_t offset = sqlite3_column_int64(stmt, 4), n = sqlite3_column_int64(stmt, 5);
	int64_t from = cell_of(s, first), to = cell_of(s, last);
	struct lane *lane;
	struct row *more;
	bool samples;
	int r = is_samples(s, stream, &samples);

	if (r < 0 || !samples || (!s->o.sessions && is_covered(s, first + offset, last + offset)))
		return r;
	r = lane_of(s, stream, &lane);
	if (r < 0)
		return r;
	lane->wanted |= n > to - from + 1 || (lane->seen && from <= lane->last_cell);
	lane->last_cell = !lane->seen || to > lane->last_cell ? to : lane->last_cell;
	lane->seen = true;
	more = grow_rows(s->row, s->n_rows, &s->max_rows, sizeof(*more));
	if (!more)
		return -ENOMEM;
	s->row = more;
	s->row[s->n_rows] =
		(struct row){sqlite3_column_int64(stmt, 0), stream, (uint32_t)s->n_rows};
	s->n_rows++;
	return 0;
}

static int read_interval(struct gs_store_scan *s, int64_t from_ns)
{
	STORE_STMT *stmt = NULL;
	size_t kept = 0;
	int rc = SQLITE_DONE, r;

	s->n_rows = s->n_lanes = s->at = 0;
	gs_map_fini(&s->lanes);
	r = read_sessions(s);
	if (r == 0)
		r = store_prepare(s->store,
				  "SELECT id, stream, first_wall_ns, last_wall_ns, clock_offset_ns,"
				  " n_samples FROM batch INDEXED BY batch_time"
				  " WHERE first_wall_ns >= ?1 AND first_wall_ns < ?2"
				  " ORDER BY first_wall_ns, stream",
				  &stmt);
	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, from_ns);
	sqlite3_bind_int64(stmt, 2, from_ns + s->width_ns);
	while (r == 0 && (rc = sqlite3_step(stmt)) == SQLITE_ROW)
		r = take_row(s, stmt);
	if (r == 0 && rc != SQLITE_DONE)
		r = store_error(s->store, rc);
	for (size_t i = 0; r == 0 && i < s->n_rows; i++) {
		struct lane *lane;

		r = lane_of(s, s->row[i].stream, &lane);
		if (r == 0 && lane->wanted)
			s->row[kept++] = s->row[i];
	}
	s->n_rows = r == 0 ? kept : 0;
	if (s->n_rows)
		qsort(s->row, s->n_rows, sizeof(*s->row), by_stream);
	return r;
}

/* The begin of the next stretch with anything in it. GS_STORE_END: there is none before to. */
static int next_interval(struct gs_store_scan *s, int64_t *ret_from_ns)
{
	STORE_STMT *stmt = NULL;
	int64_t first;
	int r = store_prepare(s->store,
			      "SELECT min(first_wall_ns) FROM batch INDEXED BY batch_time"
			      " WHERE first_wall_ns >= ?1",
			      &stmt);
	int rc;

	if (r < 0)
		return r;
	sqlite3_bind_int64(stmt, 1, s->next_ns);
	rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return store_error(s->store, rc);
	if (sqlite3_column_type(stmt, 0) == SQLITE_NULL)
		return GS_STORE_END;
	first = sqlite3_column_int64(stmt, 0);
	first = cell_of(s, first) / CELLS * CELLS * (int64_t)s->o.interval_ns;
	/* Of a stretch whose end is too young, nothing is touched. */
	if (first + s->width_ns > s->o.to_wall_ns)
		return GS_STORE_END;
	*ret_from_ns = first;
	s->next_ns = first + s->width_ns;
	return 0;
}

/* --- a piece --- */

struct work { /* of one piece */
	struct gs_store_scan *s;
	struct gs_store_piece *p;
	struct gs_rollup *coarse;
	struct gs_buf records; /* of the batch that is being made */
	struct gs_store_batch batch;
	int64_t cell;
	int64_t offset_ns; /* of the snapshots that gather */
	int64_t before_ns; /* of the last of them, by the head's clock */
	uint64_t seq;      /* of the last of them */
	size_t max_ids, max_batches;
};

/* The batch is whole: packed into the piece. */
static int end_batch(struct work *w)
{
	struct gs_store_piece *p = w->p;
	struct gs_store_batch *more;
	size_t bound, n;
	int r;

	if (!w->records.bytes)
		return 0;
	more = grow_rows(p->batch, p->n_batches, &w->max_batches, sizeof(*more));
	if (!more)
		return -ENOMEM;
	p->batch = more;
	bound = ZSTD_compressBound(w->records.bytes);
	r = gs_buf_reserve(&p->data, bound);
	if (r < 0)
		return r;
	n = ZSTD_compress(p->data.data + p->data.bytes, bound, w->records.data, w->records.bytes,
			  ZSTD_CLEVEL_DEFAULT);
	if (ZSTD_isError(n))
		return -EIO;
	w->batch.codec = GS_STORE_ZSTD;
	w->batch.raw_bytes = (uint32_t)w->records.bytes;
	w->batch.bytes = n;
	p->batch[p->n_batches++] = w->batch;
	p->data.bytes += n;
	p->bytes_after += n;
	p->samples_after += w->batch.n_samples;
	gs_buf_reset(&w->records);
	w->batch = (struct gs_store_batch){0};
	return 0;
}

/* A batch has one clock offset. Would the one of the snapshots that gathered carry a snapshot of the
 * batch over the begin or end of a session? */
static bool offset_moves_out(const struct work *w)
{
	int64_t old = w->batch.clock_offset_ns, now = w->offset_ns;
	int64_t low = old < now ? old : now, high = old < now ? now : old;

	return low != high &&
	       is_cut(w->s, w->batch.first_wall_ns + low - 1, w->batch.last_wall_ns + high);
}

/* The snapshots that gathered are one. */
static int end_cell(struct work *w)
{
	int64_t wall_ns, apart = w->offset_ns - w->batch.clock_offset_ns;
	int r = 0;

	if (!gs_rollup_count(w->coarse))
		return 0;
	if (w->records.bytes >= PART_BYTES ||
	    (w->batch.n_samples &&
	     (apart > OFFSET_SPREAD || apart < -OFFSET_SPREAD ||
	      !w->offset_ns != !w->batch.clock_offset_ns || offset_moves_out(w))))
		r = end_batch(w);
	if (r == 0)
		r = gs_rollup_put(w->coarse, &w->records, &wall_ns);
	if (r < 0)
		return r;
	if (!w->batch.n_samples || wall_ns < w->batch.first_wall_ns)
		w->batch.first_wall_ns = wall_ns;
	if (!w->batch.n_samples || wall_ns > w->batch.last_wall_ns)
		w->batch.last_wall_ns = wall_ns;
	w->batch.n_samples++;
	w->batch.seq = w->seq;
	w->batch.clock_offset_ns = w->offset_ns;
	return 0;
}

static int add_snapshot(struct work *w, struct gs_node_snapshot **m,
			const struct gs_rollup_mark *mark, const struct gs_store_batch *b)
{
	int64_t cell = cell_of(w->s, (*m)->wall_ns), apart = b->clock_offset_ns - w->offset_ns;
	int64_t wall_ns = (*m)->wall_ns + b->clock_offset_ns;
	int r = 0;

	if (gs_rollup_count(w->coarse) &&
	    (cell != w->cell || !gs_rollup_fits(w->coarse, *m) || apart > OFFSET_SPREAD ||
	     apart < -OFFSET_SPREAD || !b->clock_offset_ns != !w->offset_ns ||
	     is_cut(w->s, w->before_ns, wall_ns)))
		r = end_cell(w);
	w->before_ns = wall_ns;
	w->cell = cell;
	w->offset_ns = b->clock_offset_ns;
	w->seq = b->seq;
	if (r == 0)
		r = gs_rollup_add(w->coarse, m, mark);
	return r;
}

struct snapshots {                          /* of a batch */
	struct gs_node_snapshot **snapshot; /* n, owned */
	struct gs_rollup_mark *mark;
	size_t n, room, mark_room;
};

static void snapshots_free(struct snapshots *l)
{
	for (size_t i = 0; i < l->n; i++)
		gs_node_snapshot_free(&l->snapshot[i]);
	free(l->snapshot);
	free(l->mark);
}

/* All of them, or it is not touched. -EBADMSG. */
static int decode_batches(struct gs_store_scan *s, const struct gs_batch *records,
			  uint32_t n_samples, struct snapshots *l)
{
	struct gs_rollup_mark mark = {0};
	int r = 0;

	gs_node_decoder_reset(s->decoder);
	gs_records_for_each (records, record) {
		struct gs_node_snapshot *m = NULL, **more;
		struct gs_rollup_mark *marks;

		(void)gs_rollup_read(record, &mark);
		r = gs_node_decode(s->decoder, record, &m);
		if (r < 0)
			break;
		if (r != GS_NODE_WHOLE)
			continue;
		more = grow_rows(l->snapshot, l->n, &l->room, sizeof(*more));
		l->snapshot = more ? more : l->snapshot;
		marks = grow_rows(l->mark, l->n, &l->mark_room, sizeof(*marks));
		l->mark = marks ? marks : l->mark;
		if (!more || !marks) {
			gs_node_snapshot_free(&m);
			r = -ENOMEM;
			break;
		}
		l->mark[l->n] = mark;
		l->snapshot[l->n++] = m;
		mark = (struct gs_rollup_mark){0};
	}
	gs_node_decoder_reset(s->decoder);
	return r < 0 ? r : l->n == n_samples ? 0 : -EBADMSG;
}

static int add_batch(struct work *w, int64_t id, const struct gs_store_batch *b,
		     const struct gs_batch *records)
{
	struct snapshots l = {0};
	int64_t *ids;
	int r = decode_batches(w->s, records, b->n_samples, &l);

	if (r == -EBADMSG) {
		w->s->n_damaged++;
		r = 0;
	} else if (r == 0) {
		ids = grow_rows(w->p->ids, w->p->n_ids, &w->max_ids, sizeof(*ids));
		r = ids ? 0 : -ENOMEM;
		if (ids) {
			w->p->ids = ids;
			ids[w->p->n_ids++] = id;
			w->p->samples_before += l.n;
			w->p->bytes_before += b->bytes;
		}
		for (size_t i = 0; r == 0 && i < l.n; i++)
			r = add_snapshot(w, &l.snapshot[i], &l.mark[i], b);
	}
	snapshots_free(&l);
	return r;
}

/* The batches of one stream in the stretch: rows from at on. */
static int read_batches(struct work *w, size_t end)
{
	STORE_STMT *stmt = NULL;
	struct gs_store_scan *s = w->s;
	struct gs_buf raw = GS_BUF_INIT(GS_STORE_BATCH_MAX + 64);
	struct gs_store_batch b = {0};
	int r = store_prepare(s->store,
			      "SELECT seq, first_wall_ns, last_wall_ns, clock_offset_ns, n_samples,"
			      " codec, raw_bytes, data FROM batch WHERE id = ?1",
			      &stmt);

	for (; r == 0 && s->at < end; s->at++) {
		struct gs_batch records;
		int rc;

		sqlite3_reset(stmt);
		sqlite3_bind_int64(stmt, 1, s->row[s->at].id);
		rc = sqlite3_step(stmt);
		if (rc == SQLITE_DONE)
			continue; /* removed meanwhile */
		if (rc != SQLITE_ROW) {
			r = store_error(s->store, rc);
			break;
		}
		b = (struct gs_store_batch){
			.seq = (uint64_t)sqlite3_column_int64(stmt, 0),
			.first_wall_ns = sqlite3_column_int64(stmt, 1),
			.last_wall_ns = sqlite3_column_int64(stmt, 2),
			.clock_offset_ns = sqlite3_column_int64(stmt, 3),
			.n_samples = (uint32_t)sqlite3_column_int64(stmt, 4),
			.codec = (uint32_t)sqlite3_column_int64(stmt, 5),
			.raw_bytes = (uint32_t)sqlite3_column_int64(stmt, 6),
			.data = sqlite3_column_blob(stmt, 7),
			.bytes = (size_t)sqlite3_column_bytes(stmt, 7),
		};
		r = gs_store_unpack(b.codec, b.data, b.bytes, b.raw_bytes, &raw);
		if (r == -EBADMSG) {
			s->n_damaged++;
			r = 0;
			continue;
		}
		records = (struct gs_batch){.data = raw.data, .bytes = raw.bytes};
		if (r == 0)
			r = add_batch(w, s->row[s->at].id, &b, &records);
	}
	if (r == 0)
		r = end_cell(w);
	if (r == 0)
		r = end_batch(w);
	gs_buf_fini(&raw);
	return r;
}

static int make_piece(struct gs_store_scan *s, struct gs_store_piece **ret_piece)
{
	struct work w = {.s = s, .records = GS_BUF_INIT(GS_STORE_BATCH_MAX)};
	size_t end = s->at, offset = 0;
	int r = 0;

	while (end < s->n_rows && s->row[end].stream == s->row[s->at].stream)
		end++;
	w.p = calloc(1, sizeof(*w.p));
	w.coarse = gs_rollup_new(s->o.interval_ns);
	if (w.p && w.coarse) {
		w.p->data = GS_BUF_INIT(1u << 30);
		w.p->stream = s->row[s->at].stream;
		r = read_batches(&w, end);
	} else {
		r = -ENOMEM;
	}
	s->at = end;
	gs_rollup_free(&w.coarse);
	gs_buf_fini(&w.records);
	if (r < 0) {
		gs_store_piece_free(&w.p);
		return r;
	}
	for (size_t i = 0; i < w.p->n_batches; i++) {
		w.p->batch[i].data = w.p->data.data + offset;
		offset += w.p->batch[i].bytes;
	}
	*ret_piece = w.p;
	return 0;
}

int gs_store_scan_next(struct gs_store_scan *scan, struct gs_store_piece **ret_piece)
{
	for (;;) {
		struct gs_store_piece *p = NULL;
		int64_t from_ns = 0;
		int r;

		if (scan->at < scan->n_rows) {
			r = make_piece(scan, &p);
			/* What cannot be one snapshot (GPUs that come and go) is as coarse as it
			 * gets.
			 */
			if (r == 0 && p->samples_after < p->samples_before) {
				*ret_piece = p;
				return 0;
			}
			gs_store_piece_free(&p);
			/* A snapshot that is too large for a batch as a mean stays as it is. */
			if (r < 0 && r != -ENOBUFS)
				return r;
			scan->n_damaged += r == -ENOBUFS;
			continue;
		}
		r = next_interval(scan, &from_ns);
		if (r == 0)
			r = read_interval(scan, from_ns);
		if (r != 0)
			return r;
	}
}

/* --- replacing --- */

static int put_batch(struct gs_store *store, int64_t stream, const struct gs_store_batch *b)
{
	int r;
	sqlite3_stmt *stmt = store_kept(store, STORE_APPEND, &r);

	if (!stmt)
		return r;
	sqlite3_bind_int64(stmt, 1, stream);
	sqlite3_bind_int64(stmt, 2, (int64_t)b->seq);
	sqlite3_bind_int64(stmt, 3, b->first_wall_ns);
	sqlite3_bind_int64(stmt, 4, b->last_wall_ns);
	sqlite3_bind_int64(stmt, 5, b->clock_offset_ns);
	sqlite3_bind_int64(stmt, 6, b->n_samples);
	sqlite3_bind_int64(stmt, 7, b->codec);
	sqlite3_bind_int64(stmt, 8, b->raw_bytes);
	sqlite3_bind_blob64(stmt, 9, b->data, b->bytes, SQLITE_STATIC);
	return store_run(store, stmt);
}

int gs_store_replace(struct gs_store *writer, const struct gs_store_piece *piece)
{
	STORE_STMT *stmt = NULL;
	int r;

	if (sqlite3_get_autocommit(writer->db))
		return -EINVAL;
	r = store_prepare(writer, "DELETE FROM batch WHERE id = ?1 AND stream = ?2", &stmt);
	for (size_t i = 0; r == 0 && i < piece->n_ids; i++) {
		sqlite3_bind_int64(stmt, 1, piece->ids[i]);
		sqlite3_bind_int64(stmt, 2, piece->stream);
		r = store_run(writer, stmt);
		if (r == 0 && sqlite3_changes(writer->db) != 1)
			r = -ESTALE;
	}
	for (size_t i = 0; r == 0 && i < piece->n_batches; i++)
		r = put_batch(writer, piece->stream, &piece->batch[i]);
	return r;
}
