/*
 * The queue: segments by number, the oldest first. Beside them in the folder:
 *
 *   lock    held while a program has the spool
 *   state   struct queue_state: whose numbers these are, and what is acknowledged
 *
 * The state is written before files that it makes needless are removed. When it cannot be read, the
 * numbers that were used are not known, and a new stream begins after what is still there.
 */
#include "core/queue/queue_int.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <zlib.h>

#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/vec.h"

struct queue_state {
	uint32_t magic, crc; /* of what follows */
	uint64_t stream;
	uint64_t acked_seq;
	uint64_t next_seq; /* at least; entries of files may be further */
	uint64_t lost_batches, lost_samples;
	uint64_t memory_batches,
		memory_samples; /* waiting in memory alone: lost if we are killed */
};

struct gs_queue {
	int dir_fd, lock_fd, state_fd; /* -1: memory alone */
	uint64_t max_bytes, max_memory_bytes;
	uint32_t segment_bytes;
	bool keep_oldest;
	struct queue_state state;
	struct queue_segment *segment; /* owned; oldest first */
	uint32_t n, n_max;
	uint64_t bytes, memory_bytes, n_batches, n_samples;
	uint64_t torn_bytes;
	int disk_error;
	uint64_t disk_retry_ns; /* monotonic: when a disk that failed is tried again */
	uint64_t opened_seq;    /* the first number given since opening */
	uint64_t sent_seq;      /* up to it on the way, as far as not acknowledged */
	struct queue_flying {
		uint64_t seq;
		uint32_t n_samples;
	} * flying; /* owned; dropped while they were on the way: stored or lost, not known yet */
	size_t n_flying, n_flying_max;
	struct gs_buf buffer; /* of what was got last */
};

#define DISK_RETRY_NS 1000000000ull

/* --- state --- */

static uint32_t state_crc(const struct queue_state *s)
{
	const size_t skip = offsetof(struct queue_state, stream);

	return (uint32_t)crc32(0, (const Bytef *)s + skip, (uInt)(sizeof(*s) - skip));
}

static void write_state(struct gs_queue *s)
{
	struct queue_state out = s->state;

	out.magic = SPOOL_MAGIC;
	out.crc = state_crc(&out);
	/* What cannot be written is acknowledged again after the next start: the head knows. */
	if (s->state_fd >= 0 && pwrite(s->state_fd, &out, sizeof(out), 0) != (ssize_t)sizeof(out))
		s->disk_error = errno ? -errno : -ENOSPC;
}

static int new_stream(struct gs_queue *s)
{
	uint64_t id = 0;

	while (id == 0)
		if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
			return -errno;
	s->state = (struct queue_state){.stream = id,
					.acked_seq = s->state.acked_seq,
					.next_seq = s->state.next_seq ? s->state.next_seq : 1,
					.memory_batches = s->state.memory_batches,
					.memory_samples = s->state.memory_samples};
	write_state(s);
	return 0;
}

static bool read_state(struct gs_queue *s)
{
	struct queue_state st;

	if (pread(s->state_fd, &st, sizeof(st), 0) != (ssize_t)sizeof(st) ||
	    st.magic != SPOOL_MAGIC || st.crc != state_crc(&st) || !st.stream || !st.next_seq)
		return false;
	s->state = st;
	return true;
}

/* --- segments --- */

static int by_seq(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Numbers of the folder's files, rising. Owned by the caller. */
static int list_files(int dir_fd, uint64_t **ret_seqs, size_t *ret_n)
{
	GS_FREE uint64_t *seqs = NULL;
	size_t n = 0;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;

	if (!d) {
		r = -errno;
		gs_close_p(&fd);
		return r;
	}
	for (struct dirent *e; (e = readdir(d));) {
		char name[40];
		char *end;
		uint64_t seq = strtoull(e->d_name, &end, 10);

		queue_segment_name(seq, name);
		if (strcmp(end, ".batches") != 0 || strcmp(name, e->d_name) != 0)
			continue;
		if (!gs_vec_reserve_next(&seqs, n)) {
			r = -ENOMEM;
			break;
		}
		seqs[n++] = seq;
	}
	closedir(d);
	if (r == 0 && n)
		qsort(seqs, n, sizeof(*seqs), by_seq);
	if (r == 0) {
		*ret_seqs = gs_take(seqs);
		*ret_n = n;
	}
	return r;
}

static int add_segment(struct gs_queue *s, const struct queue_segment *segment)
{
	if (!gs_vec_reserve(&s->segment, &s->n_max, s->n + 1))
		return -ENOMEM;
	/* What has room is there. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
	s->segment[s->n++] = *segment;
	return 0;
}

/* Entry i of the segment does not wait any more. */
static void count_leaving(struct gs_queue *s, const struct queue_segment *g, uint32_t i)
{
	s->n_batches--;
	s->n_samples -= g->where[i].n_samples;
	if (g->in_memory) {
		s->state.memory_batches--;
		s->state.memory_samples -= g->where[i].n_samples;
	}
}

/* A segment goes, with all that is in it. */
static void remove_segment(struct gs_queue *s, uint32_t at)
{
	struct queue_segment *g = &s->segment[at];
	char name[40];

	for (uint32_t i = g->n_acked; i < g->n; i++)
		count_leaving(s, g, i);
	*(g->in_memory ? &s->memory_bytes : &s->bytes) -= g->bytes;
	if (!g->in_memory) {
		queue_segment_name(g->first_seq, name);
		(void)unlinkat(s->dir_fd, name, 0);
	}
	queue_segment_close(g);
	s->n--;
	memmove(g, g + 1, (s->n - at) * sizeof(*g));
}

static void count_lost(struct gs_queue *s, uint32_t n_samples)
{
	s->state.lost_batches++;
	s->state.lost_samples += n_samples;
}

/* It made room. When it is on its way to the head, only the head knows whether it is lost. */
static void count_dropped(struct gs_queue *s, const struct queue_where *w)
{
	if (w->seq <= s->sent_seq && gs_vec_reserve(&s->flying, &s->n_flying_max, s->n_flying + 1))
		s->flying[s->n_flying++] =
			(struct queue_flying){.seq = w->seq, .n_samples = w->n_samples};
	else
		count_lost(s, w->n_samples);
}

/* Those up to seq have arrived; all: the others have not. */
static void land_entries(struct gs_queue *s, uint64_t seq, bool all)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_flying; i++)
		if (s->flying[i].seq <= seq)
			continue;
		else if (all)
			count_lost(s, s->flying[i].n_samples);
		else
			s->flying[n++] = s->flying[i];
	s->n_flying = n;
}

/* The oldest segment of its kind has to make room: what is in it is lost. False: there is none. */
static bool drop_oldest(struct gs_queue *s, bool in_memory)
{
	for (uint32_t at = 0; at < s->n; at++) {
		const struct queue_segment *g = &s->segment[at];

		if (g->in_memory != in_memory)
			continue;
		for (uint32_t i = g->n_acked; i < g->n; i++)
			count_dropped(s, &g->where[i]);
		write_state(s);
		remove_segment(s, at);
		return true;
	}
	return false;
}

static void forget_acked(struct gs_queue *s)
{
	while (s->n) {
		struct queue_segment *g = &s->segment[0];

		for (; g->n_acked < g->n && g->where[g->n_acked].seq <= s->state.acked_seq;
		     g->n_acked++)
			count_leaving(s, g, g->n_acked);
		/* The last one is written to, as long as it has room; one of memory only as long as
		 * something waits in it. */
		if (g->n_acked < g->n ||
		    (s->n == 1 && g->bytes < s->segment_bytes && !g->in_memory))
			return;
		remove_segment(s, 0);
	}
}

static int read_files(struct gs_queue *s)
{
	GS_FREE uint64_t *seqs = NULL;
	size_t n = 0;
	int r = list_files(s->dir_fd, &seqs, &n);

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct queue_segment g;

		r = queue_segment_open(s->dir_fd, seqs[i], &g, &s->torn_bytes);
		if (r < 0)
			return r;
		/* Numbers must rise from file to file; a file without a whole entry says nothing.
		 */
		if (!g.n || (s->n && s->segment[s->n - 1].where[s->segment[s->n - 1].n - 1].seq >=
					     g.first_seq)) {
			char name[40];

			queue_segment_name(g.first_seq, name);
			(void)unlinkat(s->dir_fd, name, 0);
			s->torn_bytes += g.bytes;
			queue_segment_close(&g);
			continue;
		}
		r = add_segment(s, &g);
		if (r < 0) {
			queue_segment_close(&g);
			return r;
		}
		s->bytes += g.bytes;
		s->n_batches += g.n;
		for (uint32_t k = 0; k < g.n; k++)
			s->n_samples += g.where[k].n_samples;
		if (g.where[g.n - 1].seq >= s->state.next_seq)
			s->state.next_seq = g.where[g.n - 1].seq + 1;
	}
	return r;
}

/* --- life --- */

static int open_dir(struct gs_queue *s, const char *dir, struct gs_err *err)
{
	int r;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return gs_err_set(err, -errno, "cannot make the folder %s: %s", dir,
				  strerror(errno));
	s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0)
		return gs_err_set(err, -errno, "cannot open the folder %s: %s", dir,
				  strerror(errno));
	s->lock_fd = openat(s->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->lock_fd < 0)
		return gs_err_set(err, -errno, "cannot write into %s: %s", dir, strerror(errno));
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return gs_err_set(
			err, errno == EWOULDBLOCK ? -EBUSY : -errno,
			errno == EWOULDBLOCK
				? "%s is used by another gpuscope: give this one another instance"
				: "cannot lock %s",
			dir);
	s->state_fd = openat(s->dir_fd, "state", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->state_fd < 0)
		return gs_err_set(err, -errno, "cannot write into %s: %s", dir, strerror(errno));
	if (read_state(s)) {
		/* What only a killed program had in its memory. */
		s->state.lost_batches += s->state.memory_batches;
		s->state.lost_samples += s->state.memory_samples;
		s->state.memory_batches = s->state.memory_samples = 0;
		write_state(s);
		r = read_files(s);
		if (r == 0)
			forget_acked(s);
	} else {
		/* Files of numbers whose stream is not known: a new one takes them over, in order.
		 */
		r = new_stream(s);
		if (r == 0)
			r = read_files(s);
	}
	return r < 0 ? gs_err_set(err, r, "cannot read %s: %s", dir, strerror(-r)) : 0;
}

int gs_queue_open(const struct gs_queue_options *options, struct gs_queue **ret_spool,
		  struct gs_err *err)
{
	struct gs_queue *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return gs_err_set(err, -ENOMEM, "no memory");
	s->dir_fd = s->lock_fd = s->state_fd = -1;
	s->max_bytes = options->max_bytes ? options->max_bytes : 256ull << 20;
	s->max_memory_bytes = options->max_memory_bytes ? options->max_memory_bytes : 32ull << 20;
	s->keep_oldest = options->keep_oldest;
	s->segment_bytes = options->segment_bytes ? options->segment_bytes : 4u << 20;
	s->buffer = GS_BUF_INIT(GS_QUEUE_BATCH_MAX);
	r = options->dir ? open_dir(s, options->dir, err) : new_stream(s);
	if (r < 0) {
		gs_queue_close(&s);
		return r;
	}
	s->opened_seq = s->state.next_seq;
	*ret_spool = s;
	return 0;
}

void gs_queue_save(struct gs_queue *s)
{
	for (uint32_t i = 0; s->dir_fd >= 0 && i < s->n; i++) {
		struct queue_segment *g = &s->segment[i];

		if (!g->in_memory || g->is_saved || g->n_acked == g->n ||
		    queue_segment_save(g, s->dir_fd) < 0)
			continue;
		g->is_saved = true;
		for (uint32_t k = g->n_acked; k < g->n; k++) {
			s->state.memory_batches--;
			s->state.memory_samples -= g->where[k].n_samples;
		}
	}
}

void gs_queue_close(struct gs_queue **spool)
{
	struct gs_queue *s = *spool;

	if (!s)
		return;
	land_entries(s, 0, true);
	if (s->state_fd >= 0 && s->state.stream) {
		gs_queue_save(s);
		write_state(s);
	}
	for (uint32_t i = 0; i < s->n; i++)
		queue_segment_close(&s->segment[i]);
	free(s->segment);
	free(s->flying);
	gs_buf_fini(&s->buffer);
	gs_close_p(&s->state_fd);
	gs_close_p(&s->lock_fd);
	gs_close_p(&s->dir_fd);
	gs_free_p(spool);
}

uint64_t gs_queue_stream(const struct gs_queue *spool)
{
	return spool->state.stream;
}

int gs_queue_renew(struct gs_queue *spool, uint64_t keep_seq)
{
	land_entries(spool, 0, true);
	spool->sent_seq = 0;
	if (keep_seq > spool->state.next_seq)
		keep_seq = spool->state.next_seq;
	if (keep_seq > 1)
		gs_queue_ack(spool, keep_seq - 1);
	return new_stream(spool);
}

/* --- in and out --- */

static uint64_t *used_by(struct gs_queue *s, bool in_memory, uint64_t *ret_max)
{
	*ret_max = in_memory ? s->max_memory_bytes : s->max_bytes;
	return in_memory ? &s->memory_bytes : &s->bytes;
}

/* Into the last segment, or a new one of its kind; the oldest go while there is no room. */
static int put_where(struct gs_queue *s, const struct gs_queue_batch *batch, bool in_memory)
{
	const uint64_t need = sizeof(struct queue_entry) + batch->bytes;
	struct queue_segment *last;
	uint64_t max, *used = used_by(s, in_memory, &max);
	int r;

	if (need > max)
		return -ENOBUFS;
	while (*used + need > max && !s->keep_oldest && drop_oldest(s, in_memory))
		;
	if (*used + need > max)
		return -ENOBUFS;
	last = s->n ? &s->segment[s->n - 1] : NULL;
	if (!last || last->in_memory != in_memory || last->bytes + need > s->segment_bytes) {
		struct queue_segment g;

		r = queue_segment_new(in_memory ? -1 : s->dir_fd, s->state.next_seq, &g);
		if (r < 0)
			return r;
		r = add_segment(s, &g);
		if (r < 0) {
			queue_segment_close(&g);
			return r;
		}
		last = &s->segment[s->n - 1];
	}
	r = queue_segment_put(last, batch, s->state.next_seq);
	if (r == 0) {
		*used += need;
		if (in_memory) {
			s->state.memory_batches++;
			s->state.memory_samples += batch->n_samples;
		}
	} else if (!last->n) { /* nothing is in it: it must not stay with this number */
		remove_segment(s, s->n - 1);
	}
	return r;
}

/* A disk that failed is left alone for a while, or each batch would begin a file. */
static int put_on_disk(struct gs_queue *s, const struct gs_queue_batch *batch)
{
	uint64_t now = s->disk_error ? gs_clock_mono_ns() : 0;
	int r;

	if (s->dir_fd < 0)
		return -ENODEV;
	if (s->disk_error && now < s->disk_retry_ns)
		return s->disk_error;
	r = put_where(s, batch, false);
	if (r == -ENOBUFS && s->keep_oldest)
		return r; /* the bound, not the disk */
	s->disk_error = r;
	if (s->disk_error)
		s->disk_retry_ns = gs_clock_mono_ns() + DISK_RETRY_NS;
	return s->disk_error;
}

/* The oldest goes: when both are full and it is a file, its room on the disk is what there is. */
static int put_in_memory(struct gs_queue *s, const struct gs_queue_batch *batch)
{
	const bool disk_full = s->disk_error == -ENOSPC || s->disk_error == -EDQUOT;

	if (disk_full && !s->keep_oldest && s->n && !s->segment[0].in_memory &&
	    s->memory_bytes + sizeof(struct queue_entry) + batch->bytes > s->max_memory_bytes) {
		(void)drop_oldest(s, false);
		s->disk_retry_ns = 0;
		if (put_on_disk(s, batch) == 0)
			return 0;
	}
	return put_where(s, batch, true);
}

int gs_queue_put(struct gs_queue *spool, const struct gs_queue_batch *batch)
{
	int r = -EMSGSIZE;

	if (batch->bytes <= GS_QUEUE_BATCH_MAX && batch->raw_bytes <= GS_QUEUE_BATCH_MAX) {
		r = put_on_disk(spool, batch);
		if (r != 0 && !(r == -ENOBUFS && spool->keep_oldest))
			r = put_in_memory(spool, batch);
	}
	if (r != 0) {
		count_lost(spool, batch->n_samples);
		return r;
	}
	spool->n_batches++;
	spool->n_samples += batch->n_samples;
	spool->state.next_seq++;
	/* Numbers of what is in no file must not be given again by the next program. */
	if (spool->segment[spool->n - 1].in_memory)
		write_state(spool);
	return 0;
}

/* The entry at or after seq. */
static bool find_entry(const struct gs_queue *s, uint64_t seq, uint32_t *ret_segment,
		       uint32_t *ret_i)
{
	for (uint32_t g = 0; g < s->n; g++) {
		const struct queue_segment *m = &s->segment[g];
		uint32_t low = m->n_acked, high = m->n;

		if (!m->n || m->where[m->n - 1].seq < seq)
			continue;
		while (low < high) {
			uint32_t mid = low + (high - low) / 2;

			if (m->where[mid].seq < seq)
				low = mid + 1;
			else
				high = mid;
		}
		if (low == m->n)
			continue;
		*ret_segment = g;
		*ret_i = low;
		return true;
	}
	return false;
}

/* Entry i is given up. */
static void lose_entry(struct gs_queue *s, struct queue_segment *m, uint32_t i)
{
	count_lost(s, m->where[i].n_samples);
	count_leaving(s, m, i);
	memmove(&m->where[i], &m->where[i + 1], (m->n - i - 1) * sizeof(*m->where));
	m->n--;
	write_state(s);
}

int gs_queue_drop(struct gs_queue *spool, uint64_t seq)
{
	uint32_t g, i;

	if (!find_entry(spool, seq, &g, &i) || spool->segment[g].where[i].seq != seq)
		return -ENOENT;
	lose_entry(spool, &spool->segment[g], i);
	forget_acked(spool);
	return 0;
}

int gs_queue_get(struct gs_queue *spool, uint64_t seq, struct gs_queue_batch *ret_batch)
{
	struct queue_entry e;
	uint32_t g, i;
	int r;

	if (!find_entry(spool, seq, &g, &i))
		return GS_QUEUE_END;
	struct queue_segment *m = &spool->segment[g];
	gs_buf_reset(&spool->buffer);
	r = gs_buf_reserve(&spool->buffer, m->where[i].bytes);
	if (r < 0)
		return r;
	r = queue_segment_read(m, i, &e, spool->buffer.data);
	if (r < 0) {
		lose_entry(spool, m, i);
		return r;
	}
	*ret_batch = (struct gs_queue_batch){
		.seq = e.seq,
		.first_wall_ns = e.first_wall_ns,
		.last_wall_ns = e.last_wall_ns,
		.n_samples = e.n_samples,
		.raw_bytes = e.raw_bytes,
		.codec = e.codec,
		.lost_batches = spool->state.lost_batches,
		.lost_samples = spool->state.lost_samples,
		.missed_samples = e.missed_samples,
		.data = spool->buffer.data,
		.bytes = e.bytes,
	};
	return 0;
}

void gs_queue_ack(struct gs_queue *spool, uint64_t seq)
{
	struct queue_state *st = &spool->state;
	const uint64_t in_memory = st->memory_batches;

	land_entries(spool, seq, false);
	if (seq <= st->acked_seq || seq >= st->next_seq)
		return;
	st->acked_seq = seq;
	write_state(spool); /* before files go */
	forget_acked(spool);
	if (st->memory_batches != in_memory)
		write_state(spool);
}

void gs_queue_sent(struct gs_queue *spool, uint64_t seq)
{
	if (seq > spool->sent_seq)
		spool->sent_seq = seq;
}

void gs_queue_resume(struct gs_queue *spool, uint64_t seq)
{
	gs_queue_ack(spool, seq);
	land_entries(spool, seq, true);
	spool->sent_seq = seq;
}

void gs_queue_stats(const struct gs_queue *spool, struct gs_queue_stats *ret_stats)
{
	uint32_t g, i;

	*ret_stats = (struct gs_queue_stats){
		.first_seq = find_entry(spool, 0, &g, &i) ? spool->segment[g].where[i].seq : 0,
		.next_seq = spool->state.next_seq,
		.opened_seq = spool->opened_seq,
		.n_batches = spool->n_batches,
		.n_samples = spool->n_samples,
		.bytes = spool->bytes + spool->memory_bytes,
		.memory_bytes = spool->memory_bytes,
		.memory_samples = spool->state.memory_samples,
		.lost_batches = spool->state.lost_batches,
		.lost_samples = spool->state.lost_samples,
		.torn_bytes = spool->torn_bytes,
		.disk_error = spool->disk_error,
	};
}
