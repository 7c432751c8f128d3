/* One file of batches, or the same in memory. */
#include "core/queue/queue_int.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <zlib.h>

#include "core/base/mem.h"
#include "core/base/vec.h"

void queue_segment_name(uint64_t first_seq, char out[40])
{
	snprintf(out, 40, "%020llu.batches", (unsigned long long)first_seq);
}

static uint32_t crc_of(const struct queue_entry *e, const uint8_t *data)
{
	const size_t skip = offsetof(struct queue_entry, seq);
	uLong crc = crc32(0, (const Bytef *)e + skip, (uInt)(sizeof(*e) - skip));

	/* Without data there may be no buffer, for which zlib answers with a begin's sum. */
	return (uint32_t)(e->bytes ? crc32(crc, data, e->bytes) : crc);
}

static int remember_entry(struct queue_segment *s, const struct queue_entry *e)
{
	if (!gs_vec_reserve(&s->where, &s->n_max, s->n + 1))
		return -ENOMEM;
	s->where[s->n++] = (struct queue_where){
		.seq = e->seq, .off = s->bytes, .bytes = e->bytes, .n_samples = e->n_samples};
	s->bytes += (uint32_t)sizeof(*e) + e->bytes;
	return 0;
}

int queue_segment_new(int dir_fd, uint64_t first_seq, struct queue_segment *ret_segment)
{
	char name[40];
	int fd;

	queue_segment_name(first_seq, name);
	fd = dir_fd < 0 ? memfd_create("batches", MFD_CLOEXEC)
			: openat(dir_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
				 0600);
	if (fd < 0)
		return -errno;
	*ret_segment =
		(struct queue_segment){.fd = fd, .in_memory = dir_fd < 0, .first_seq = first_seq};
	return 0;
}

/* The whole entry at s->bytes: 1 and it is remembered; 0: there is none. */
static int scan_one(struct queue_segment *s, uint64_t file_bytes, uint8_t *buffer)
{
	struct queue_entry e;
	int r;

	if (file_bytes - s->bytes < sizeof(e) ||
	    pread(s->fd, &e, sizeof(e), s->bytes) != (ssize_t)sizeof(e))
		return 0;
	if (e.magic != SPOOL_MAGIC || e.bytes > GS_QUEUE_BATCH_MAX ||
	    e.bytes > file_bytes - s->bytes - sizeof(e))
		return 0;
	if (s->n ? e.seq <= s->where[s->n - 1].seq : e.seq != s->first_seq)
		return 0;
	/* No number comes after the last one, and offsets have 32 bits. */
	if (e.seq == UINT64_MAX || e.bytes > UINT32_MAX - sizeof(e) - s->bytes)
		return 0;
	if (pread(s->fd, buffer, e.bytes, (off_t)(s->bytes + sizeof(e))) != (ssize_t)e.bytes ||
	    crc_of(&e, buffer) != e.crc)
		return 0;
	r = remember_entry(s, &e);
	return r < 0 ? r : 1;
}

int queue_segment_open(int dir_fd, uint64_t first_seq, struct queue_segment *ret_segment,
		       uint64_t *torn_bytes)
{
	struct queue_segment s = {.fd = -1, .first_seq = first_seq};
	GS_FREE uint8_t *buffer = malloc(GS_QUEUE_BATCH_MAX);
	struct stat st;
	char name[40];
	int r = 1;

	if (!buffer)
		return -ENOMEM;
	queue_segment_name(first_seq, name);
	s.fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (s.fd < 0 || fstat(s.fd, &st) < 0)
		r = -errno;
	while (r == 1)
		r = scan_one(&s, (uint64_t)st.st_size, buffer);
	if (r == 0 && (uint64_t)st.st_size > s.bytes) {
		*torn_bytes += (uint64_t)st.st_size - s.bytes;
		if (ftruncate(s.fd, s.bytes) < 0)
			r = -errno;
	}
	if (r < 0) {
		queue_segment_close(&s);
		return r;
	}
	*ret_segment = s;
	return 0;
}

void queue_segment_close(struct queue_segment *segment)
{
	gs_close_p(&segment->fd);
	gs_free_p(&segment->where);
}

int queue_segment_put(struct queue_segment *segment, const struct gs_queue_batch *batch,
		      uint64_t seq)
{
	struct queue_entry e = {
		.magic = SPOOL_MAGIC,
		.seq = seq,
		.first_wall_ns = batch->first_wall_ns,
		.last_wall_ns = batch->last_wall_ns,
		.n_samples = batch->n_samples,
		.raw_bytes = batch->raw_bytes,
		.codec = batch->codec,
		.bytes = (uint32_t)batch->bytes,
		.missed_samples = batch->missed_samples,
	};
	struct iovec part[2] = {{&e, sizeof(e)}, {(void *)batch->data, batch->bytes}};
	const uint32_t before = segment->bytes;
	ssize_t n;
	int r;

	e.crc = crc_of(&e, batch->data);
	n = pwritev(segment->fd, part, 2, before);
	if (n == (ssize_t)(sizeof(e) + batch->bytes)) {
		r = remember_entry(segment, &e);
		if (r == 0)
			return 0;
	} else {
		r = n < 0 ? -errno
			  : -ENOSPC; /* the system takes less than asked when the disk fills */
	}
	if (n > 0 && ftruncate(segment->fd, before) < 0)
		return -errno;
	return r;
}

int queue_segment_read(const struct queue_segment *segment, uint32_t i,
		       struct queue_entry *ret_entry, uint8_t *buffer)
{
	const struct queue_where *w = &segment->where[i];
	struct iovec part[2] = {{ret_entry, sizeof(*ret_entry)}, {buffer, w->bytes}};
	ssize_t n = preadv(segment->fd, part, 2, w->off);

	if (n < 0)
		return -errno;
	if (n != (ssize_t)(sizeof(*ret_entry) + w->bytes) || ret_entry->magic != SPOOL_MAGIC ||
	    ret_entry->bytes != w->bytes || ret_entry->seq != w->seq ||
	    crc_of(ret_entry, buffer) != ret_entry->crc)
		return -EBADMSG;
	return 0;
}

int queue_segment_save(const struct queue_segment *segment, int dir_fd)
{
	struct queue_segment file;
	off_t at = 0;
	int r = queue_segment_new(dir_fd, segment->where[0].seq, &file);

	if (r < 0)
		return r;
	at = segment->where[0].off;
	while (r == 0 && at < (off_t)segment->bytes) {
		ssize_t n = sendfile(file.fd, segment->fd, &at, segment->bytes - (size_t)at);

		if (n <= 0)
			r = n < 0 ? -errno : -ENOSPC;
	}
	if (r < 0) {
		char name[40];

		queue_segment_name(segment->where[0].seq, name);
		(void)unlinkat(dir_fd, name, 0);
	}
	queue_segment_close(&file);
	return r;
}
