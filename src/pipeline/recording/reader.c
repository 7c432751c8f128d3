/*
 * The reading side of a journal. A window of the file slides forward; a frame is taken when its
 * header's checksum, its payload's, zstd's own and the records inside all agree. Where they do not,
 * the search goes on one byte further for the next frame header, so damage costs the frames that it
 * touches. No length is believed before the checksum over it held, and then only within the bounds
 * of recording_int.h.
 *
 *    ...│header│payload│header│pay####│header│payload│head        # damaged
 *       └── handed out ┘      └skipped┘└─ handed out ┘└ cut (the end of the file came first)
 *
 * What a damaged or hostile file costs is in proportion to its length: holes are passed over,
 * frames that turn out to be none are searched from within only as long as that has not cost
 * several times what was read, and no stretch is searched for a snapshot twice.
 *
 * Sequence numbers show what is missing. Definitions in a missing frame would leave ids without a
 * name, so after a gap the next snapshot is wanted: in a regular file it is looked up by stepping
 * over frame headers and handed out first (a detour), in a pipe it comes when it comes. Without a
 * gap snapshots repeat what is known and are passed over.
 */
#include "pipeline/recording/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include "pipeline/recording/recording_int.h"

#define WINDOW_BYTES      (sizeof(struct gs_frame_header) + GS_FRAME_PAYLOAD_MAX_BYTES)
#define READ_BYTES        (256u << 10)
#define HEADER_MAX_BYTES  4096 /* of the file; a later minor version may use more than ours */
#define DETOUR_MAX_FRAMES 65536
#define VAIN_BYTES        (64ull << 20) /* of frames that are none, before they are passed over, */
#define VAIN_TIMES        4             /* and so many times what lies before them */

struct gs_recording_reader {
	int fd; /* owned */
	bool is_regular;
	ZSTD_DCtx *dctx; /* owned */

	uint8_t *window;     /* owned, WINDOW_BYTES; the bytes of the file from window_off on */
	size_t window_bytes; /* that are there */
	uint64_t window_off;
	uint8_t *raw; /* owned, GS_FRAME_RAW_MAX_BYTES; lent out as the batch */

	uint64_t file_id;
	uint64_t next_off;       /* after the last whole frame */
	uint64_t next_sequence;  /* that the frame there should have */
	bool has_gap;            /* definitions may be missing */
	bool has_snapshot_first; /* of the snapshot being read, and all of it since */

	bool is_detour; /* snapshots at detour_off are read before next_off */
	uint64_t detour_off, detour_sequence;
	uint64_t searched_off; /* no snapshot begins before it that is not known of */
	bool is_searched_all;  /* the search ended there by a snapshot or by damage */
	bool has_later;        /* the snapshot there was handed out, whole */

	struct gs_recording_stats stats;
};

/*
 * Bytes of the file from off on: at least bytes of them, unless it ends before. off is not before
 * an earlier one, bar rewind_to(). The pointer is good until the next call.
 */
static int peek_bytes(struct gs_recording_reader *r, uint64_t off, size_t bytes,
		      const uint8_t **ret_data, size_t *ret_bytes)
{
	size_t at = (size_t)(off - r->window_off);

	if (at + bytes > WINDOW_BYTES) {
		memmove(r->window, r->window + at, r->window_bytes - at);
		r->window_off = off;
		r->window_bytes -= at;
		at = 0;
	}
	while (r->window_bytes - at < bytes) {
		size_t want = at + bytes - r->window_bytes;
		size_t room = WINDOW_BYTES - r->window_bytes;
		ssize_t n;

		if (want < READ_BYTES)
			want = room < READ_BYTES ? room : READ_BYTES;
		n = read(r->fd, r->window + r->window_bytes, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		r->window_bytes += (size_t)n;
	}
	*ret_data = r->window + at;
	*ret_bytes = r->window_bytes - at;
	return 0;
}

/* The window starts again at off; in a regular file only. */
static int rewind_to(struct gs_recording_reader *r, uint64_t off)
{
	if (lseek(r->fd, (off_t)off, SEEK_SET) < 0)
		return -errno;
	r->window_off = off;
	r->window_bytes = 0;
	return 0;
}

static uint64_t frame_bytes(const struct gs_frame_header *h)
{
	return sizeof(*h) + h->payload_bytes;
}

/* A frame header of any .gst file. */
static bool take_header(const struct gs_recording_reader *r, const uint8_t *data,
			struct gs_frame_header *h)
{
	memcpy(h, data, sizeof(*h));
	return h->magic == GS_FRAME_MAGIC && h->version == GS_RECORDING_MAJOR &&
	       gs_recording_crc32(h, offsetof(struct gs_frame_header, header_crc)) ==
		       h->header_crc &&
	       h->payload_bytes > 0 && h->payload_bytes <= GS_FRAME_PAYLOAD_MAX_BYTES &&
	       h->raw_bytes > 0 && h->raw_bytes <= GS_FRAME_RAW_MAX_BYTES;
}

/* Is the frame whose header is at off whole? 1 yes, 0 no or not all there, negative errno.
 * ret_seen: so many bytes from off on were looked at as a frame, 0: there is no header. */
static int check_frame(struct gs_recording_reader *r, uint64_t off, struct gs_frame_header *h,
		       size_t *ret_seen)
{
	const uint8_t *p;
	size_t n;
	int e;

	*ret_seen = 0;
	e = peek_bytes(r, off, sizeof(*h), &p, &n);
	if (e < 0)
		return e;
	if (n < sizeof(*h) || !take_header(r, p, h) || h->file_id != r->file_id)
		return 0;
	e = peek_bytes(r, off, frame_bytes(h), &p, &n);
	if (e < 0)
		return e;
	*ret_seen = n < frame_bytes(h) ? n : (size_t)frame_bytes(h);
	return n >= frame_bytes(h) &&
	       gs_recording_crc32(p + sizeof(*h), h->payload_bytes) == h->payload_crc;
}

/* Where to look on when so many bytes from off on were looked at in vain. Within them, a frame may
 * begin that the damage has moved; but frames can be made so that each holds the next, or claims
 * the same bytes. */
static uint64_t skip_vain(struct gs_recording_reader *r, uint64_t off, uint64_t seen)
{
	r->stats.vain_bytes += seen;
	return r->stats.vain_bytes > VAIN_BYTES + VAIN_TIMES * off ? off + seen : off + 1;
}

/* Past a hole, of which a file can have any length. */
static int skip_hole(struct gs_recording_reader *r, uint64_t *off)
{
	struct stat st;
	off_t data;

	if (!r->is_regular)
		return 0;
	data = lseek(r->fd, (off_t)*off, SEEK_DATA);
	if (data < 0 && errno == ENXIO && fstat(r->fd, &st) == 0)
		data = st.st_size;
	if (data < 0 || (uint64_t)data <= r->window_off + r->window_bytes)
		return lseek(r->fd, (off_t)(r->window_off + r->window_bytes), SEEK_SET) < 0 ? -errno
											    : 0;
	*off = (uint64_t)data;
	return rewind_to(r, *off);
}

/* The next whole frame at or after *off; *off moves to it. 0, GS_RECORDING_EOF or negative errno. */
static int find_frame(struct gs_recording_reader *r, uint64_t *off, struct gs_frame_header *h)
{
	static const uint32_t magic = GS_FRAME_MAGIC;

	for (;;) {
		const uint8_t *p, *q;
		size_t n, seen;
		int e;

		e = check_frame(r, *off, h, &seen);
		if (e)
			return e < 0 ? e : 0;
		if (seen) {
			*off = skip_vain(r, *off, seen);
			continue;
		}
		e = peek_bytes(r, *off, sizeof(*h), &p, &n);
		if (e < 0)
			return e;
		if (n < sizeof(*h))
			return GS_RECORDING_EOF;
		q = memmem(p + 1, n - 1, &magic, sizeof(magic));
		*off += q ? (size_t)(q - p) : n - (sizeof(magic) - 1);
		e = q ? 0 : skip_hole(r, off);
		if (e < 0)
			return e;
	}
}

/* Unpack the frame at off, checked before, into raw. 1, 0 when it is not what its header says, or
 * negative errno. */
static int unpack_frame(struct gs_recording_reader *r, uint64_t off,
			const struct gs_frame_header *h)
{
	struct gs_batch batch = {r->raw, h->raw_bytes};
	size_t n, at = 0;
	uint32_t n_records = 0;
	const uint8_t *p;
	int e;

	e = peek_bytes(r, off, frame_bytes(h), &p, &n);
	if (e < 0)
		return e;
	if (ZSTD_decompressDCtx(r->dctx, r->raw, h->raw_bytes, p + sizeof(*h), h->payload_bytes) !=
	    h->raw_bytes)
		return 0;
	while (gs_record_next(&batch, &at))
		n_records++;
	return at == h->raw_bytes && n_records == h->n_records;
}

static void hand_out(struct gs_recording_reader *r, const struct gs_frame_header *h,
		     struct gs_batch *ret_batch)
{
	if (h->flags & GS_FRAME_SNAPSHOT_FIRST)
		r->has_snapshot_first = true;
	if (h->flags & GS_FRAME_SNAPSHOT_LAST && r->has_snapshot_first)
		r->has_gap = false;
	r->stats.n_frames++;
	r->stats.n_records += h->n_records;
	*ret_batch = (struct gs_batch){r->raw, h->raw_bytes};
}

/*
 * Step over whole headers from next_off on to the beginning of a snapshot, and turn to it. Damage
 * on the way ends the search: after it there is another gap, and another search. Payloads are not
 * looked at here.
 */
static int start_detour(struct gs_recording_reader *r)
{
	uint64_t off = r->next_off;
	uint8_t data[sizeof(struct gs_frame_header)];
	struct gs_frame_header h;

	if (!r->is_regular)
		return 0;
	if (off < r->searched_off) {
		/* What was found there, if anything, holds the definitions of this gap too. */
		if (r->is_searched_all) {
			r->has_gap = !r->has_later;
			return 0;
		}
		off = r->searched_off;
	}
	r->is_searched_all = r->has_later = false;
	for (int i = 0; i < DETOUR_MAX_FRAMES; i++, off += frame_bytes(&h)) {
		ssize_t n = pread(r->fd, data, sizeof(data), (off_t)off);

		if (n < 0 && errno != EINTR)
			return -errno;
		r->searched_off = off;
		if (n != sizeof(data) || !take_header(r, data, &h) || h.file_id != r->file_id) {
			r->is_searched_all = true;
			return 0;
		}
		if (!(h.flags & GS_FRAME_SNAPSHOT_FIRST))
			continue;
		r->is_searched_all = true;
		r->is_detour = true;
		r->detour_off = off;
		r->detour_sequence = h.sequence;
		return rewind_to(r, off);
	}
	return 0;
}

/* The next frame of the snapshot. 1 it was handed out, 0 the detour is over, or negative errno. */
static int next_of_detour(struct gs_recording_reader *r, struct gs_batch *ret_batch)
{
	struct gs_frame_header h;
	size_t seen;
	int e = 0;

	if (r->has_gap) /* the last frame of it was not there yet */
		e = check_frame(r, r->detour_off, &h, &seen);
	if (e > 0 && h.flags & GS_FRAME_SNAPSHOT && h.sequence == r->detour_sequence)
		e = unpack_frame(r, r->detour_off, &h);
	else if (e > 0)
		e = 0;
	if (e < 0)
		return e;
	if (e > 0) {
		r->detour_off += frame_bytes(&h);
		r->detour_sequence++;
		hand_out(r, &h, ret_batch);
		return 1;
	}
	r->is_detour = false;
	r->has_later = !r->has_gap;
	return rewind_to(r, r->next_off);
}

static int end_of_file(struct gs_recording_reader *r)
{
	r->stats.file_bytes = r->window_off + r->window_bytes;
	r->stats.cut_bytes = r->stats.file_bytes - r->next_off;
	/* The file may be growing: the next call looks at the same place again. */
	if (r->is_regular) {
		int e = rewind_to(r, r->next_off);

		if (e < 0)
			return e;
	}
	return GS_RECORDING_EOF;
}

/* What lies between next_off and off is no frame, and so many frames are missing. */
static void note_skipped(struct gs_recording_reader *r, uint64_t off, uint64_t n_missing)
{
	r->stats.skipped_bytes += off - r->next_off;
	r->stats.n_skipped_frames += n_missing;
	r->next_off = off;
	r->next_sequence += n_missing;
	if (n_missing) {
		r->has_gap = true;
		r->has_snapshot_first = false;
	}
}

int gs_recording_next(struct gs_recording_reader *r, struct gs_batch *ret_batch)
{
	uint64_t off = r->next_off, n_missing;
	struct gs_frame_header h;
	int e;

	for (;;) {
		if (r->is_detour) {
			e = next_of_detour(r, ret_batch);
			if (e)
				return e < 0 ? e : 0;
			off = r->next_off;
		}
		e = find_frame(r, &off, &h);
		if (e)
			return e < 0 ? e : end_of_file(r);
		n_missing = h.sequence - r->next_sequence;
		if (h.sequence < r->next_sequence) { /* was handed out already */
			off = skip_vain(r, off, frame_bytes(&h));
			continue;
		}
		if (!(h.flags & GS_FRAME_SNAPSHOT) || r->has_gap || n_missing) {
			e = unpack_frame(r, off, &h);
			if (e < 0)
				return e;
			if (e == 0) {
				off = skip_vain(r, off, frame_bytes(&h));
				continue;
			}
			note_skipped(r, off, n_missing);
			if (n_missing && !(h.flags & GS_FRAME_SNAPSHOT_FIRST)) {
				e = start_detour(r);
				if (e < 0)
					return e;
				if (r->is_detour)
					continue;
			}
			hand_out(r, &h, ret_batch);
			r->next_off = off + frame_bytes(&h);
			r->next_sequence = h.sequence + 1;
			return 0;
		}
		note_skipped(r, off, 0);
		off = r->next_off = off + frame_bytes(&h);
		r->next_sequence = h.sequence + 1;
	}
}

void gs_recording_position(const struct gs_recording_reader *r, struct gs_recording_place *ret)
{
	*ret = (struct gs_recording_place){r->next_off, r->next_sequence};
}

int gs_recording_seek(struct gs_recording_reader *r, const struct gs_recording_place *place)
{
	if (!r->is_regular)
		return -ESPIPE;
	r->is_detour = r->has_gap = r->has_later = r->is_searched_all = false;
	r->searched_off = 0;
	r->next_off = place->off;
	r->next_sequence = place->sequence;
	return rewind_to(r, place->off);
}

void gs_recording_stats(const struct gs_recording_reader *reader,
			struct gs_recording_stats *ret_stats)
{
	*ret_stats = reader->stats;
}

void gs_recording_reader_close(struct gs_recording_reader **reader)
{
	struct gs_recording_reader *r = *reader;

	if (!r)
		return;
	gs_close_p(&r->fd);
	ZSTD_freeDCtx(r->dctx);
	free(r->window);
	free(r->raw);
	free(r);
	*reader = NULL;
}

/*
 * Take the header of the file. When it is damaged and a frame header stands after it, the file is
 * read all the same: a frame says all that is needed.
 */
static int check_file(struct gs_recording_reader *r, const char *path, struct gs_err *err)
{
	struct gs_recording_header h = {0};
	struct gs_frame_header frame;
	const uint8_t *p;
	bool has_magic;
	size_t n;
	int e;

	e = peek_bytes(r, 0, sizeof(h) + sizeof(frame), &p, &n);
	if (e < 0)
		return gs_err_set(err, e, "cannot read %s: %s", path, strerror(-e));
	if (n == 0)
		return gs_err_set(err, -EBADMSG, "%s is empty, not a .gst file", path);
	memcpy(&h, p, n < sizeof(h) ? n : sizeof(h));
	has_magic = memcmp(h.magic, GS_RECORDING_MAGIC, GS_RECORDING_MAGIC_BYTES) == 0;
	if (n < sizeof(h) && has_magic)
		return gs_err_set(err, -EBADMSG, "%s ends inside its header: nothing to read",
				  path);
	if (n >= sizeof(h) && has_magic &&
	    h.header_crc ==
		    gs_recording_crc32(&h, offsetof(struct gs_recording_header, header_crc)) &&
	    h.major == GS_RECORDING_MAJOR) {
		if (h.record_version != GS_RECORD_VERSION || h.flags)
			return gs_err_set(
				err, -EBADMSG,
				"%s holds records of version %u (flags %#x), this program reads version %u: use the gpuscope that wrote it",
				path, h.record_version, h.flags, GS_RECORD_VERSION);
		if (h.header_bytes < sizeof(h) || h.header_bytes > HEADER_MAX_BYTES)
			return gs_err_set(err, -EBADMSG, "the header of %s is damaged", path);
		r->file_id = h.file_id;
		r->next_off = h.header_bytes;
		return 0;
	}
	if (n >= sizeof(h) + sizeof(frame) && take_header(r, p + sizeof(h), &frame)) {
		r->file_id = frame.file_id;
		r->next_off = sizeof(h);
		r->stats.skipped_bytes = sizeof(h);
		return 0;
	}
	if (has_magic && h.major > GS_RECORDING_MAJOR)
		return gs_err_set(
			err, -EBADMSG,
			"%s is of format version %u, this program reads up to %u: use a later gpuscope",
			path, h.major, GS_RECORDING_MAJOR);
	if (has_magic)
		return gs_err_set(err, -EBADMSG, "the header of %s is damaged", path);
	return gs_err_set(err, -EBADMSG, "%s is not a .gst file", path);
}

int gs_recording_open(const char *path, struct gs_recording_reader **ret_reader, struct gs_err *err)
{
	GS_CLEANUP(gs_recording_reader_close)
	struct gs_recording_reader *r = calloc(1, sizeof(*r));
	const uint8_t *p;
	struct stat st;
	size_t n;
	int e;

	if (!r)
		return gs_err_set(err, -ENOMEM, "cannot read %s: no memory", path);
	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (r->fd < 0 || fstat(r->fd, &st) < 0)
		return gs_err_set(err, -errno, "cannot read %s: %s", path, strerror(errno));
	r->is_regular = S_ISREG(st.st_mode);
	r->dctx = ZSTD_createDCtx();
	r->window = malloc(WINDOW_BYTES);
	r->raw = malloc(GS_FRAME_RAW_MAX_BYTES);
	if (!r->dctx || !r->window || !r->raw)
		return gs_err_set(err, -ENOMEM, "cannot read %s: no memory", path);
	e = check_file(r, path, err);
	if (e < 0)
		return e;
	/* Have the bytes after the header in the window, as peek_bytes() asks. */
	e = peek_bytes(r, 0, r->next_off, &p, &n);
	if (e < 0)
		return gs_err_set(err, e, "cannot read %s: %s", path, strerror(-e));
	if (n < r->next_off)
		return gs_err_set(err, -EBADMSG, "%s ends inside its header: nothing to read",
				  path);
	r->stats.file_bytes = r->is_regular ? (uint64_t)st.st_size : r->window_bytes;
	*ret_reader = gs_take(r);
	return 0;
}
