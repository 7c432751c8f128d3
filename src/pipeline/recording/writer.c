/*
 * The writing side of a journal. Records gather in one buffer; when it holds frame_bytes it is
 * compressed, on the calling thread, after the room for its header, and header and payload leave
 * in one write. Nothing written is ever touched again and nothing needs seeking, so a pipe will do.
 *
 *    push ──► raw: whole records ──zstd──► out: header + payload ──write──► file
 *      └────► defs: what a snapshot repeats ──zstd──┘
 *
 * Invariants:
 * - file_bytes is the end of the last whole frame; a write that fails cuts the file back to it.
 * - The first error stays: every later call returns it, and nothing more is written.
 * - A snapshot (all definitions so far, in frames marked so) comes every 64 frames or 16 MiB of
 *   records, but not before four times its own size was written: it costs a quarter at most. A
 *   last one comes at closing, so that a loss anywhere leaves the names known.
 */
#include "pipeline/recording/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/output.h"
#include "pipeline/recording/recording_int.h"

#define FRAME_BYTES_DEFAULT   (256u << 10)
#define SNAPSHOT_EVERY_FRAMES 64
#define SNAPSHOT_EVERY_BYTES  (16u << 20)
#define SNAPSHOT_MIN_RATIO    4

/* Near max_bytes frames are closed early, as their size is known only then; not below this. */
#define LIMIT_STEP_BYTES (16u << 10)

struct gs_recording {
	struct gs_output file; /* owned */
	bool is_regular;       /* can be cut back and synced */
	char *path;            /* owned */
	struct gs_sink sink;
	struct gs_recording_options options; /* defaults filled in */
	ZSTD_CCtx *cctx;                     /* owned */

	uint8_t *raw; /* owned; raw_bytes of raw_capacity_bytes are in use */
	size_t raw_bytes, raw_capacity_bytes;
	uint32_t n_records;
	uint64_t first_ns, last_ns; /* of the CALL records in raw */

	uint8_t *out; /* owned; room for a frame of raw_capacity_bytes */
	size_t out_capacity_bytes;

	struct gs_recording_defs defs;
	uint64_t frames_since_snapshot, bytes_since_snapshot;

	uint64_t file_id, sequence, file_bytes;
	uint64_t last_sync_ns; /* mono */
	bool is_limited;       /* max_bytes was reached */
	uint64_t n_left_out;
	int error; /* the first one */
};

static int write_all(int fd, const uint8_t *data, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(fd, data, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		data += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int fail_writing(struct gs_recording *j, int error)
{
	j->error = error;
	/* What was written of the last frame goes. When even that fails it stays as a torn tail,
	 * which readers leave alone. */
	if (j->is_regular && ftruncate(j->file.fd, (off_t)j->file_bytes) < 0)
		gs_log(GS_LOG_INFO, GS_LOG_RECORDING, "journal: cannot cut %s back: %s", j->path,
		       strerror(errno));
	return error;
}

static int put_out(struct gs_recording *j, size_t bytes)
{
	int r = write_all(j->file.fd, j->out, bytes);

	if (r < 0)
		return fail_writing(j, r);
	j->file_bytes += bytes;
	return 0;
}

/* Fill the rest of the header, compress data after it and write both. */
static int write_frame(struct gs_recording *j, struct gs_frame_header *h, const void *data,
		       size_t bytes)
{
	size_t n = ZSTD_compress2(j->cctx, j->out + sizeof(*h), j->out_capacity_bytes - sizeof(*h),
				  data, bytes);

	if (ZSTD_isError(n))
		return fail_writing(
			j, ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation ? -ENOMEM : -EIO);
	h->magic = GS_FRAME_MAGIC;
	h->version = GS_RECORDING_MAJOR;
	h->file_id = j->file_id;
	h->sequence = j->sequence;
	h->payload_bytes = (uint32_t)n;
	h->raw_bytes = (uint32_t)bytes;
	h->payload_crc = gs_recording_crc32(j->out + sizeof(*h), n);
	h->header_crc = gs_recording_crc32(h, offsetof(struct gs_frame_header, header_crc));
	memcpy(j->out, h, sizeof(*h));
	j->sequence++;
	return put_out(j, sizeof(*h) + n);
}

/* How many whole records from data on fit into a frame; *ret_bytes is their size. */
static uint32_t count_records(const struct gs_recording *j, const uint8_t *data, size_t bytes,
			      size_t *ret_bytes)
{
	struct gs_batch batch = {data, bytes};
	size_t offset = 0, end = 0;
	uint32_t n = 0;

	while (gs_record_next(&batch, &offset) && offset <= j->raw_capacity_bytes) {
		end = offset;
		n++;
	}
	*ret_bytes = end;
	return n;
}

static int write_snapshot(struct gs_recording *j)
{
	size_t left_bytes = gs_recording_defs_bytes(&j->defs);
	uint16_t first = GS_FRAME_SNAPSHOT_FIRST;

	for (size_t i = 0; i < GS_RECORDING_DEFS_N_ARRAYS; i++) {
		const struct gs_buf *a = &j->defs.arrays[i];
		size_t bytes;

		for (size_t at = 0; at < a->bytes; at += bytes) {
			struct gs_frame_header h = {.flags = GS_FRAME_SNAPSHOT | first};
			int r;

			h.n_records = count_records(j, a->data + at, a->bytes - at, &bytes);
			left_bytes -= bytes;
			if (left_bytes == 0)
				h.flags |= GS_FRAME_SNAPSHOT_LAST;
			r = write_frame(j, &h, a->data + at, bytes);
			if (r < 0)
				return r;
			first = 0;
		}
	}
	j->frames_since_snapshot = 0;
	j->bytes_since_snapshot = 0;
	return 0;
}

static bool is_snapshot_due(const struct gs_recording *j)
{
	if (j->frames_since_snapshot < SNAPSHOT_EVERY_FRAMES &&
	    j->bytes_since_snapshot < SNAPSHOT_EVERY_BYTES)
		return false;
	return j->bytes_since_snapshot >= SNAPSHOT_MIN_RATIO * gs_recording_defs_bytes(&j->defs);
}

/* The records gathered so far become a frame. */
static int write_pending(struct gs_recording *j)
{
	struct gs_frame_header h = {
		.n_records = j->n_records,
		.first_ns = j->first_ns,
		.last_ns = j->last_ns,
	};
	int r;

	if (j->raw_bytes == 0)
		return 0;
	r = write_frame(j, &h, j->raw, j->raw_bytes);
	if (r < 0)
		return r;
	j->frames_since_snapshot++;
	j->bytes_since_snapshot += j->raw_bytes;
	j->raw_bytes = 0;
	j->n_records = 0;
	j->first_ns = 0;
	j->last_ns = 0;
	return is_snapshot_due(j) ? write_snapshot(j) : 0;
}

static bool fits_limit(const struct gs_recording *j, size_t bytes)
{
	return j->file_bytes + sizeof(struct gs_frame_header) +
		       ZSTD_compressBound(j->raw_bytes + bytes) <=
	       j->options.max_bytes;
}

/* May a record that max_bytes applies to be taken? Sets is_limited when not, for good. */
static int check_limit(struct gs_recording *j, size_t bytes)
{
	int r;

	if (j->options.max_bytes == 0 || j->is_limited || fits_limit(j, bytes))
		return 0;
	if (j->raw_bytes >= LIMIT_STEP_BYTES) {
		r = write_pending(j);
		if (r < 0)
			return r;
	}
	j->is_limited = !fits_limit(j, bytes);
	return 0;
}

static void note_call(struct gs_recording *j, const struct gs_rec_call *c)
{
	uint64_t end_ns = c->start_ns + c->dur_ns;

	if (j->first_ns == 0 || c->start_ns < j->first_ns)
		j->first_ns = c->start_ns;
	if (end_ns > j->last_ns)
		j->last_ns = end_ns;
}

static int add_record(struct gs_recording *j, const struct gs_record *r);

/* Who reads the file adds up what is in it: the rest must be recorded there. */
static int report_left_out(struct gs_recording *j)
{
	const struct gs_rec_loss l = {.head = {.bytes = sizeof(l), .kind = GS_REC_LOSS},
				      .cause = GS_LOSS_FULL,
				      .count = j->n_left_out};

	return j->n_left_out ? add_record(j, &l.head) : 0;
}

static int add_record(struct gs_recording *j, const struct gs_record *r)
{
	int e = r->kind == GS_REC_END ? report_left_out(j) : 0;

	if (e < 0)
		return e;

	if (r->kind == GS_REC_CALL || r->kind == GS_REC_COUNTER) {
		e = check_limit(j, r->bytes);
		if (e < 0)
			return e;
		if (j->is_limited) {
			j->n_left_out++;
			return 0;
		}
	} else {
		gs_recording_defs_keep(&j->defs, r);
	}
	if (j->raw_bytes + r->bytes > j->raw_capacity_bytes) {
		e = write_pending(j);
		if (e < 0)
			return e;
	}
	memcpy(j->raw + j->raw_bytes, r, r->bytes);
	j->raw_bytes += r->bytes;
	j->n_records++;
	if (r->kind == GS_REC_CALL)
		note_call(j, (const void *)r);
	return j->raw_bytes >= j->options.frame_bytes ? write_pending(j) : 0;
}

static int sync_file(struct gs_recording *j)
{
	if (j->is_regular && fdatasync(j->file.fd) < 0)
		return fail_writing(j, -errno);
	return 0;
}

static int sync_when_due(struct gs_recording *j)
{
	uint64_t now_ns;
	int r;

	if (j->options.sync_every_ms == 0)
		return 0;
	now_ns = gs_clock_mono_ns();
	if (now_ns - j->last_sync_ns < j->options.sync_every_ms * 1000000ull)
		return 0;
	j->last_sync_ns = now_ns;
	r = write_pending(j);
	return r < 0 ? r : sync_file(j);
}

static int push_batch(void *ctx, const struct gs_batch *batch)
{
	struct gs_recording *j = ctx;
	const struct gs_record *r;
	size_t offset = 0;
	int e;

	if (j->error)
		return j->error;
	while ((r = gs_record_next(batch, &offset)) != NULL) {
		e = add_record(j, r);
		if (e < 0)
			return e;
	}
	if (offset != batch->bytes)
		return -EINVAL;
	return sync_when_due(j);
}

static int flush_file(void *ctx)
{
	struct gs_recording *j = ctx;
	int r = j->error;

	if (r == 0)
		r = write_pending(j);
	return r < 0 ? r : sync_when_due(j);
}

static void journal_free(struct gs_recording **journal)
{
	struct gs_recording *j = *journal;

	if (!j)
		return;
	(void)gs_output_close(&j->file, -ECANCELED, NULL);
	ZSTD_freeCCtx(j->cctx);
	gs_recording_defs_fini(&j->defs);
	free(j->raw);
	free(j->out);
	free(j->path);
	free(j);
	*journal = NULL;
}

static int take_options(const struct gs_recording_options *given, struct gs_recording_options *o,
			struct gs_err *err)
{
	ZSTD_bounds levels = ZSTD_cParam_getBounds(ZSTD_c_compressionLevel);

	*o = (struct gs_recording_options){.size = sizeof(*o)};
	if (given)
		memcpy(o, given, given->size < sizeof(*o) ? given->size : sizeof(*o));
	if (o->frame_bytes == 0)
		o->frame_bytes = FRAME_BYTES_DEFAULT;
	if (o->compression_level == 0)
		o->compression_level = 1;
	if (o->frame_bytes > GS_FRAME_RAW_MAX_BYTES)
		return gs_err_set(err, -EINVAL, "journal frames of %u bytes: at most %u",
				  o->frame_bytes, GS_FRAME_RAW_MAX_BYTES);
	if (o->compression_level < levels.lowerBound || o->compression_level > levels.upperBound)
		return gs_err_set(err, -EINVAL, "compression level %d: zstd has %d to %d",
				  o->compression_level, levels.lowerBound, levels.upperBound);
	return 0;
}

/* All memory that writing needs, but for the definitions. */
static int allocate_memory(struct gs_recording *j, const char *path)
{
	/* A frame is closed by the record that reaches frame_bytes, so it may pass them by one. */
	j->raw_capacity_bytes = j->options.frame_bytes + (size_t)GS_RECORD_MAX_BYTES;
	if (j->raw_capacity_bytes > GS_FRAME_RAW_MAX_BYTES)
		j->raw_capacity_bytes = GS_FRAME_RAW_MAX_BYTES;
	j->out_capacity_bytes =
		sizeof(struct gs_frame_header) + ZSTD_compressBound(j->raw_capacity_bytes);
	j->path = strdup(path);
	j->raw = malloc(j->raw_capacity_bytes);
	j->out = malloc(j->out_capacity_bytes);
	j->cctx = ZSTD_createCCtx();
	if (!j->path || !j->raw || !j->out || !j->cctx)
		return -ENOMEM;
	ZSTD_CCtx_setParameter(j->cctx, ZSTD_c_compressionLevel, j->options.compression_level);
	ZSTD_CCtx_setParameter(j->cctx, ZSTD_c_checksumFlag, 1);
	return 0;
}

static int write_header(struct gs_recording *j)
{
	struct gs_recording_header h = {
		.major = GS_RECORDING_MAJOR,
		.minor = GS_RECORDING_MINOR,
		.header_bytes = sizeof(h),
		.record_version = GS_RECORD_VERSION,
		.file_id = j->file_id,
	};

	memcpy(h.magic, GS_RECORDING_MAGIC, GS_RECORDING_MAGIC_BYTES);
	h.header_crc = gs_recording_crc32(&h, offsetof(struct gs_recording_header, header_crc));
	memcpy(j->out, &h, sizeof(h));
	return put_out(j, sizeof(h));
}

int gs_recording_create(const char *path, const struct gs_recording_options *options,
			struct gs_recording **ret_journal, struct gs_err *err)
{
	GS_CLEANUP(journal_free) struct gs_recording *j = calloc(1, sizeof(*j));
	struct stat st;
	int r;

	if (!j)
		return gs_err_set(err, -ENOMEM, "cannot write %s: no memory", path);
	j->file = (struct gs_output)GS_OUTPUT_INIT;
	gs_recording_defs_init(&j->defs);
	r = take_options(options, &j->options, err);
	if (r < 0)
		return r;
	r = allocate_memory(j, path);
	if (r < 0)
		return gs_err_set(err, r, "cannot write %s: no memory", path);
	r = gs_output_open(path, GS_OUTPUT_GROWS | (j->options.is_private ? GS_OUTPUT_PRIVATE : 0),
			   &j->file, err);
	if (r < 0)
		return r;
	if (fstat(j->file.fd, &st) < 0)
		return gs_err_set(err, -errno, "cannot write %s: %s", path, strerror(errno));
	j->is_regular = S_ISREG(st.st_mode);
	if (getrandom(&j->file_id, sizeof(j->file_id), 0) != sizeof(j->file_id))
		j->file_id = gs_clock_wall_ns();
	r = write_header(j);
	if (r < 0)
		return gs_err_set(err, r, "cannot write %s: %s", path, strerror(-r));
	j->last_sync_ns = gs_clock_mono_ns();
	j->sink = (struct gs_sink){.push = push_batch, .flush = flush_file, .ctx = j};
	*ret_journal = gs_take(j);
	return 0;
}

const struct gs_sink *gs_recording_sink(struct gs_recording *journal)
{
	return &journal->sink;
}

uint64_t gs_recording_left_out(const struct gs_recording *journal)
{
	return journal->n_left_out;
}

int gs_recording_close(struct gs_recording **journal, struct gs_err *err)
{
	GS_CLEANUP(journal_free) struct gs_recording *j = gs_take(*journal);
	int r;

	if (!j)
		return 0;
	r = j->error;
	/* The snapshot first, so that what was pushed last stays last. A file whose every record
	 * is in the frame to come needs none. */
	if (r == 0 && j->frames_since_snapshot)
		r = write_snapshot(j);
	if (r == 0)
		r = write_pending(j);
	if (r == 0)
		r = sync_file(j);
	if (r == 0)
		return gs_output_close(&j->file, 0, err);
	return gs_err_set(err, r, "cannot write %s: %s", j->path, strerror(-r));
}
