/*
 * The side of gs_keep that writes a file: definitions as they were before the oldest chunk, then of each chunk what is
 * of the time asked for. Processes and communicators that began before that time are as they are when tracing begins in
 * the middle of a program: nothing says that they were followed from their begin, and collectives of these communicators
 * have no number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"
#include "model/trace/record_account.h"
#include "model/trace/record_hang.h"
#include "pipeline/recording/keep_int.h"
#include "pipeline/recording/recording.h"

struct keep_writing {
	struct gs_keep *keep;
	struct gs_recording *file; /* owned */
	struct gs_buf out;         /* records that are still to be pushed */
	struct gs_keep_file *what;
	uint64_t from_ns, to_ns;
	uint64_t clock_ns;       /* the newest time of a record so far */
	bool is_cut;             /* the stream began before from_ns */
	bool has_reported;       /* the LOSS record is written */
	bool sample_passes;      /* the snapshot whose records come is of the time */
	uint64_t n_reported;     /* calls in the LOSS record */
	struct gs_map accounts;  /* key of an account -> offset in base, and 1 */
	struct gs_buf base;      /* ACCOUNT records that later ones are counted from */
	uint32_t reason_str;     /* of the END record; 0 none */
	uint32_t whole_from_str; /* of the LOSS record */
};

static int push_out(struct keep_writing *w)
{
	const struct gs_sink *sink = gs_recording_sink(w->file);
	struct gs_batch batch = {w->out.data, w->out.bytes};
	int r = w->out.bytes ? sink->push(sink->ctx, &batch) : 0;

	gs_buf_reset(&w->out);
	return r;
}

static int put_record(struct keep_writing *w, const struct gs_record *r)
{
	int e = gs_buf_put(&w->out, r, r->bytes);

	return e == 0 && w->out.bytes >= KEEP_CHUNK_BYTES ? push_out(w) : e;
}

/* --- what does not pass as it is --- */

/* Its program began before the file does. */
static int put_late_process(struct keep_writing *w, const struct gs_record *r)
{
	struct gs_rec_process p;

	memcpy(&p, r, sizeof(p));
	p.head.bytes = sizeof(p);
	p.head.flags &= ~(uint32_t)GS_PROCESS_BEGUN;
	return put_record(w, &p.head);
}

static int put_hang(struct keep_writing *w, const struct gs_record *r)
{
	const struct gs_rec_hang *h = (const void *)r;

	return h->ended_ns && h->ended_ns < w->from_ns ? 0 : put_record(w, r);
}

static int put_definition(struct keep_writing *w, const struct gs_record *r)
{
	switch (r->kind) {
	case GS_REC_SESSION:
		return 0;
	case GS_REC_PROCESS:
		return w->is_cut && w->clock_ns < w->from_ns ? put_late_process(w, r)
							     : put_record(w, r);
	case GS_REC_HANG:
		return put_hang(w, r);
	default:
		return put_record(w, r);
	}
}

/* Remember it as what a later one of the thread counts from. */
static int put_base(struct keep_writing *w, const struct gs_record *r, uint64_t key)
{
	size_t at = w->base.bytes;
	int e = gs_buf_put(&w->base, r, r->bytes);

	return e < 0 ? e : gs_map_put(&w->accounts, key, at + 1);
}

/* Running totals from before the time become those since then; the first one of a thread that is older is only
 * counted from. */
static int put_account(struct keep_writing *w, const struct gs_record *r, bool passes)
{
	const struct gs_rec_account *now = (const void *)r, *base;
	struct gs_rec_account *out;
	size_t n = (size_t)now->n_states * now->n_insides;
	uint64_t key, at;

	if (now->born_ns >= w->from_ns || !w->is_cut)
		return passes || !w->is_cut ? put_record(w, r) : 0;
	if (!keep_more_place(&w->keep->more, r, &key))
		return 0;
	if (!passes || !gs_map_get(&w->accounts, key, &at))
		return put_base(w, r, key);
	base = (const void *)(w->base.data + at - 1);
	out = gs_buf_extend(&w->out, r->bytes);
	if (!out)
		return -ENOMEM;
	memcpy(out, r, r->bytes);
	if (base->n_states != now->n_states || base->n_insides != now->n_insides)
		return 0;
	out->born_ns = base->time_ns;
	for (size_t i = 0; i < n; i++)
		out->ns[i] = now->ns[i] - (base->ns[i] < now->ns[i] ? base->ns[i] : now->ns[i]);
	return 0;
}

static void format_wall(const struct gs_keep *k, uint64_t boot_ns, char *out, size_t bytes)
{
	int64_t wall_ns = (int64_t)boot_ns + k->session.wall_minus_boot_ns;
	time_t s = (time_t)(wall_ns / 1000000000);
	char clock[32] = "";
	struct tm tm;

	if (gmtime_r(&s, &tm))
		strftime(clock, sizeof(clock), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(out, bytes, "%s.%03u UTC", clock, (unsigned)(wall_ns / 1000000 % 1000));
}

/* Who reads the file adds up what is in it, and matches no collectives of before it. */
static int report_before(struct keep_writing *w, uint64_t n)
{
	const struct gs_rec_loss l = {.head = {.bytes = sizeof(l), .kind = GS_REC_LOSS},
				      .cause = GS_LOSS_KEPT,
				      .detail_str = w->whole_from_str,
				      .count = n};

	w->has_reported = true;
	w->n_reported += n;
	return n ? put_record(w, &l.head) : 0;
}

/* --- a run of records --- */

/* Is a record without a definition's or an account's meaning of the time? next: after it; NULL none. */
static bool passes_filter(struct keep_writing *w, const struct gs_record *r,
			  const struct gs_record *next)
{
	uint64_t time_ns;

	if (keep_time_of(r, &time_ns)) {
		bool passes = time_ns >= w->from_ns && time_ns <= w->to_ns;

		if (r->kind == GS_REC_HOST_SAMPLE)
			w->sample_passes = passes;
		return passes;
	}
	switch (r->kind) {
	case GS_REC_VALUES:
		return next && keep_time_of(next, &time_ns) && time_ns >= w->from_ns &&
		       time_ns <= w->to_ns;
	case GS_REC_GPU_INFO:
	case GS_REC_GPU_SAMPLE:
	case GS_REC_GPU_PROCESS:
	case GS_REC_GPU_EVENT:
	case GS_REC_HOST_PROCESS:
	case GS_REC_HOST_JOB:
	case GS_REC_HOST_TIMES:
		return w->sample_passes;
	case GS_REC_ALLOCATOR:
	case GS_REC_LEAK:
	case GS_REC_MEMORY:
	case GS_REC_MEMORY_SITE:
		return !w->is_cut; /* sums of the whole run */
	default:
		return w->clock_ns >= w->from_ns;
	}
}

static int put_one(struct keep_writing *w, const struct gs_record *r, const struct gs_record *next)
{
	uint64_t time_ns = 0;
	bool passes;

	if (keep_is_definition(r))
		return put_definition(w, r);
	if (keep_time_of(r, &time_ns) && time_ns > w->clock_ns)
		w->clock_ns = time_ns;
	passes = passes_filter(w, r, next);
	if (r->kind == GS_REC_ACCOUNT)
		return put_account(w, r, passes);
	if (r->kind == GS_REC_CALL) {
		w->what->n_calls += passes;
		w->what->n_before += time_ns < w->from_ns;
	}
	if (!passes)
		return 0;
	if (w->is_cut && !w->has_reported) {
		int e = report_before(w, w->what->n_before);

		if (e < 0)
			return e;
	}
	return put_record(w, r);
}

static int put_batch(struct keep_writing *w, const void *data, size_t bytes)
{
	struct gs_batch batch = {data, bytes};
	int e = 0;

	for (const struct gs_record *r = gs_record_after(&batch, NULL), *next; r && e == 0;
	     r = next) {
		next = gs_record_after(&batch, r);
		e = put_one(w, r, next);
	}
	return e;
}

/* Of each definition the newest one alone. */
static int put_defs(struct keep_writing *w, const struct gs_recording_defs *defs, unsigned array)
{
	struct gs_batch batch = {defs->arrays[array].data, defs->arrays[array].bytes};
	int e = 0;

	for (const struct gs_record *r = gs_record_after(&batch, NULL); r && e == 0;
	     r = gs_record_after(&batch, r)) {
		uint64_t key, at;

		if (keep_more_place(&w->keep->more, r, &key) &&
		    gs_map_get(&w->keep->more.offset_of, key, &at) &&
		    (const uint8_t *)r != defs->arrays[array].data + at)
			continue;
		e = r->kind == GS_REC_ACCOUNT ? put_base(w, r, key) : put_definition(w, r);
	}
	return e;
}

static int put_all_defs(struct keep_writing *w)
{
	struct gs_keep *k = w->keep;
	int e = 0;

	for (unsigned i = 0; e == 0 && i < GS_RECORDING_DEFS_N_ARRAYS; i++)
		e = put_defs(w, &k->defs, i);
	for (unsigned i = 0; e == 0 && i < GS_RECORDING_DEFS_N_ARRAYS; i++)
		e = put_defs(w, &k->more, i);
	return e;
}

static int put_chunks(struct keep_writing *w)
{
	struct gs_keep *k = w->keep;
	GS_FREE uint8_t *raw = malloc(KEEP_CHUNK_MAX_BYTES);
	int e = raw ? 0 : -ENOMEM;

	for (size_t i = 0; e == 0 && i < k->n_chunks; i++) {
		const struct keep_chunk *c = k->chunks[i];
		size_t n = ZSTD_decompressDCtx(k->dctx, raw, KEEP_CHUNK_MAX_BYTES, c->payload,
					       c->payload_bytes);

		if (ZSTD_isError(n) || n != c->raw_bytes)
			return -EIO;
		if (c->first_ns > w->clock_ns)
			w->clock_ns = c->first_ns;
		e = put_batch(w, raw, n);
	}
	return e < 0 ? e : put_batch(w, k->raw, k->raw_bytes);
}

/* --- a file --- */

/* SESSION, and texts of our own: their ids are of no other text. */
static int put_begin(struct keep_writing *w, const char *reason)
{
	struct gs_keep *k = w->keep;
	struct gs_rec_session session = k->session;
	char from[80], text[128];
	int e;

	if (w->is_cut)
		session.start_ns = w->from_ns;
	e = put_record(w, &session.head);
	format_wall(k, w->from_ns, from, sizeof(from));
	snprintf(text, sizeof(text), "the file is whole from %s on%s", from,
		 w->what->is_short ? ", as the memory held no more" : "");
	w->whole_from_str = k->last_string + 1;
	if (e == 0)
		e = gs_record_put_string(&w->out, w->whole_from_str, text, strlen(text));
	if (e == 0 && reason) {
		w->reason_str = k->last_string + 2;
		e = gs_record_put_string(&w->out, w->reason_str, reason, strlen(reason));
	}
	return e;
}

static int put_end(struct keep_writing *w)
{
	const struct gs_keep *k = w->keep;
	struct gs_rec_end end = {.head = {.bytes = sizeof(end), .kind = GS_REC_END},
				 .end_ns = w->what->end_ns,
				 .exit_status = -1,
				 .reason_str = w->reason_str};
	int e = 0;

	if (w->is_cut && w->what->n_before > w->n_reported)
		e = report_before(w, w->what->n_before - w->n_reported);
	return e < 0 ? e : put_record(w, k->end.head.bytes ? &k->end.head : &end.head);
}

static int write_file(struct keep_writing *w, const char *reason)
{
	int e = put_begin(w, reason);

	if (e == 0)
		e = put_all_defs(w);
	if (e == 0)
		e = put_chunks(w);
	if (e == 0)
		e = put_end(w);
	return e == 0 ? push_out(w) : e;
}

int gs_keep_write(struct gs_keep *k, const char *path, uint64_t end_ns, const char *reason,
		  bool is_private, struct gs_keep_file *ret, struct gs_err *err)
{
	const struct gs_recording_options options = {.size = sizeof(options),
						     .is_private = is_private};
	struct keep_writing w = {.keep = k,
				 .what = ret,
				 .out = GS_BUF_INIT(2 * KEEP_CHUNK_MAX_BYTES),
				 .base = GS_BUF_INIT(2 * GS_RECORDING_DEFS_MAX_BYTES),
				 .accounts = GS_MAP_INIT(GS_RECORDING_DEFS_MAX_ENTRIES)};
	uint64_t kept_ns = k->options.keep_ns;
	int e, closed;

	if (!k->session.head.bytes)
		return gs_err_set(err, -ENODATA, "%s: nothing was recorded yet", path);
	w.to_ns = k->end.head.bytes ? UINT64_MAX : end_ns;
	if (k->end.head.bytes)
		end_ns = k->end.end_ns;
	w.from_ns = end_ns > kept_ns ? end_ns - kept_ns : 0;
	*ret = (struct gs_keep_file){
		.end_ns = end_ns, .n_before = k->n_gone, .is_short = k->whole_from_ns > w.from_ns};
	if (ret->is_short)
		w.from_ns = k->whole_from_ns;
	w.is_cut = w.from_ns > k->session.start_ns;
	if (!w.is_cut)
		w.from_ns = k->session.start_ns;
	ret->from_ns = w.from_ns;
	e = gs_recording_create(path, &options, &w.file, err);
	if (e < 0)
		return e;
	e = write_file(&w, reason);
	closed = gs_recording_close(&w.file, err);
	if (e < 0 && closed == 0)
		gs_err_set(err, e, "cannot write %s: %s", path, strerror(-e));
	gs_buf_fini(&w.out);
	gs_buf_fini(&w.base);
	gs_map_fini(&w.accounts);
	return e < 0 ? e : closed;
}
