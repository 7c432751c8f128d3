/*
 * One process's file. Of every slot its positions are read first, then what lies between them. What was taken
 * is known here: the number in the file is for the writer alone, and whatever stands there is written over.
 */
#include "sources/companion/companion.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/foreign.h"
#include "core/base/mem.h"
#include "sources/companion/companion_int.h"

/* The part of a slot that is read each time. */
#define SLOT_HEAD_BYTES offsetof(struct gs_companion_slot, open)

struct slot {
	uint32_t tid; /* as of the last reading; 0: free */
	uint64_t taken;
	uint64_t lost[GS_COMPANION_LOSSES][GS_LAYER_MAX]; /* as reported */
	uint32_t *inner;                                  /* owned; likewise; NULL: none yet */
	struct gs_companion_sum *sums;                    /* owned; likewise */
	uint32_t n_sums;
};

struct gs_companion_file {
	int fd; /* owned */
	uint32_t pid;
	uint64_t number;               /* of this file, from 1 */
	struct gs_companion_head head; /* a copy, checked */
	uint64_t no_slot;              /* as reported */
	uint32_t n_taken;              /* slots with a thread, when they were read last */
	struct slot slots[GS_COMPANION_SLOTS_MAX];
	struct companion_python *python; /* owned; NULL: the file has no such door */
	uint8_t *copy;                   /* owned; of a ring's bytes */
};

static uint64_t n_files; /* that were opened */

int gs_companion_file_open(int *fd, uint32_t pid, struct gs_companion_file **ret_file)
{
	GS_CLOSE int own = gs_take_fd(fd);
	struct gs_companion_head head = {0};
	struct gs_companion_file *f;
	struct stat st;
	int r;

	if (fstat(own, &st) < 0)
		return -errno;
	if (pread(own, &head, sizeof(head), 0) != sizeof(head))
		return -EBADMSG;
	r = gs_companion_head_check(&head, (uint64_t)st.st_size);
	if (r < 0)
		return r;
	f = calloc(1, sizeof(*f));
	if (f)
		f->copy = malloc(head.ring_bytes);
	if (f && head.doors & 1u << GS_COMPANION_PYTHON)
		f->python = companion_python_new();
	if (!f || !f->copy || (head.doors & 1u << GS_COMPANION_PYTHON && !f->python)) {
		if (f)
			free(f->copy);
		free(f);
		return -ENOMEM;
	}
	f->fd = gs_take_fd(&own);
	f->number = __atomic_add_fetch(&n_files, 1, __ATOMIC_RELAXED);
	f->pid = pid;
	f->head = head;
	*ret_file = f;
	return 0;
}

void gs_companion_file_free(struct gs_companion_file **ref)
{
	struct gs_companion_file *f = *ref;

	if (!f)
		return;
	for (uint32_t i = 0; i < f->head.n_slots; i++) {
		free(f->slots[i].inner);
		free(f->slots[i].sums);
	}
	gs_close_p(&f->fd);
	companion_python_free(&f->python);
	free(f->copy);
	free(f);
	*ref = NULL;
}

static off_t slot_at(uint32_t i)
{
	return (off_t)(GS_COMPANION_SLOTS_AT + i * sizeof(struct gs_companion_slot));
}

static struct gs_companion_thread thread_of(const struct gs_companion_file *f, uint32_t i)
{
	return (struct gs_companion_thread){.pid = f->pid,
					    .tid = f->slots[i].tid,
					    .clock = f->head.clock,
					    .doors = f->head.doors,
					    .file = f->number};
}

static bool is_of_operators(const struct gs_companion_file *f)
{
	return f->head.doors >> GS_COMPANION_OPS & 1;
}

enum gs_companion_state gs_companion_file_state(const struct gs_companion_file *f)
{
	uint32_t state;

	if (!is_of_operators(f) ||
	    pread(f->fd, &state, sizeof(state), offsetof(struct gs_companion_head, state)) !=
		    (ssize_t)sizeof(state) ||
	    state >= GS_COMPANION_STATES)
		return GS_COMPANION_WAITS;
	return state;
}

/* What is over is left out. */
static void report_ops(const struct gs_companion_file *f, uint32_t i,
		       const struct gs_companion_thread *from, uint32_t n_open,
		       const struct gs_companion_handler *h, bool is_end)
{
	struct gs_companion_scope scopes[GS_COMPANION_OPS_OPEN];
	off_t at = slot_at(i) + (off_t)offsetof(struct gs_companion_slot, scope);
	unsigned n = 0;

	if (!h->ops || !n_open || n_open > GS_COMPANION_OPS_OPEN ||
	    pread(f->fd, scopes, n_open * sizeof(scopes[0]), at) !=
		    (ssize_t)(n_open * sizeof(scopes[0])))
		return;
	for (uint32_t k = 0; k < n_open; k++)
		if (scopes[k].record)
			scopes[n++] = scopes[k];
	h->ops(h->ctx, from, scopes, n, is_end);
}

/* Any slot that was ever used lies before one that never was. */
static bool slot_is_unused(const struct gs_companion_slot *s)
{
	return !s->tid && !s->written && !s->has_sums;
}

static bool read_slot(const struct gs_companion_file *f, uint32_t i, struct gs_companion_slot *ret)
{
	return pread(f->fd, ret, SLOT_HEAD_BYTES, slot_at(i)) == (ssize_t)SLOT_HEAD_BYTES;
}

/* Bytes of the ring between two positions, in their order. */
static bool copy_ring(struct gs_companion_file *f, uint32_t i, uint64_t from, size_t bytes)
{
	uint32_t ring_bytes = f->head.ring_bytes;
	off_t ring = (off_t)(f->head.rings_at + (uint64_t)i * ring_bytes);
	size_t at = from & (ring_bytes - 1), first = bytes;

	if (first > ring_bytes - at)
		first = ring_bytes - at;
	return pread(f->fd, f->copy, first, ring + (off_t)at) == (ssize_t)first &&
	       (first == bytes ||
		pread(f->fd, f->copy + first, bytes - first, ring) == (ssize_t)(bytes - first));
}

static void report_damage(const struct gs_companion_file *f, const struct gs_companion_handler *h,
			  uint64_t bytes)
{
	if (h->damaged && bytes)
		h->damaged(h->ctx, f->pid, bytes);
}

static void move_taken(struct gs_companion_file *f, uint32_t i, uint64_t to)
{
	off_t at = slot_at(i) + (off_t)offsetof(struct gs_companion_slot, taken);

	f->slots[i].taken = to;
	/* A file that was cut short has no such place: then nothing is written there either. */
	if (pwrite(f->fd, &to, sizeof(to), at) < 0)
		return;
}

/* The records that came. Positions that cannot be: what is before them is lost. */
static size_t take_records(struct gs_companion_file *f, uint32_t i, uint64_t written,
			   const struct gs_companion_handler *h, bool *full)
{
	const struct gs_companion_thread from = thread_of(f, i);
	const struct gs_companion_record *r;
	uint64_t taken = f->slots[i].taken, bytes = written - taken;
	size_t at = 0, n = 0;

	if (written % 8 || bytes > f->head.ring_bytes) {
		report_damage(f, h, 8);
		move_taken(f, i, written & ~7ull);
		return 0;
	}
	if (!bytes)
		return 0;
	*full |= bytes > f->head.ring_bytes / 4;
	if (copy_ring(f, i, taken, bytes)) {
		if (f->python)
			companion_python_names(f->python, f->fd, &f->head, h);
		while ((r = gs_companion_next(f->copy, bytes, taken, &at)) != NULL) {
			h->record(h->ctx, &from, r);
			n++;
		}
	}
	report_damage(f, h, bytes - at);
	move_taken(f, i, written);
	return n;
}

static void report_lost(struct gs_companion_file *f, uint32_t i, const struct gs_companion_slot *s,
			const struct gs_companion_handler *h)
{
	const struct gs_companion_thread from = thread_of(f, i);

	for (unsigned cause = 0; cause < GS_COMPANION_LOSSES; cause++) {
		for (unsigned layer = 0; layer < GS_LAYER_MAX; layer++) {
			uint64_t now = s->lost[cause][layer],
				 *before = &f->slots[i].lost[cause][layer];

			if (now > *before && h->lost)
				h->lost(h->ctx, &from, cause, layer, now - *before);
			*before = now;
		}
	}
}

static void report_inner(struct gs_companion_file *f, uint32_t i,
			 const struct gs_companion_handler *h)
{
	const struct gs_companion_thread from = thread_of(f, i);
	uint32_t now[GS_FUNC_FIXED], **before = &f->slots[i].inner;
	off_t at = slot_at(i) + (off_t)offsetof(struct gs_companion_slot, inner);

	if (!h->inner || is_of_operators(f) || pread(f->fd, now, sizeof(now), at) != sizeof(now))
		return;
	if (!*before)
		*before = calloc(GS_FUNC_FIXED, sizeof(**before));
	for (unsigned func = 0; *before && func < GS_FUNC_FIXED; func++) {
		uint32_t grown = now[func] - (*before)[func];

		/* More than half of what can be counted has gone down. */
		if (grown && grown < 1u << 31)
			h->inner(h->ctx, &from, func, grown);
		(*before)[func] = now[func];
	}
}

/* Room for so many, the new ones zero. */
static bool hold_sums(struct slot *s, uint32_t n)
{
	struct gs_companion_sum *sums;

	if (n <= s->n_sums)
		return true;
	sums = realloc(s->sums, n * sizeof(*sums));
	if (!sums)
		return false;
	memset(&sums[s->n_sums], 0, (n - s->n_sums) * sizeof(*sums));
	s->sums = sums;
	s->n_sums = n;
	return true;
}

static void report_sums(struct gs_companion_file *f, uint32_t i,
			const struct gs_companion_handler *h)
{
	const struct gs_companion_thread from = thread_of(f, i);
	uint64_t rings = (uint64_t)f->head.n_slots * f->head.ring_bytes;
	off_t at = (off_t)(f->head.rings_at + rings + i * sizeof(struct gs_companion_sums));
	struct gs_companion_sum now;
	uint32_t n;

	if (!h->sum || pread(f->fd, &n, sizeof(n), at) != sizeof(n) || n > GS_COMPANION_SUMS_MAX ||
	    !hold_sums(&f->slots[i], n))
		return;
	at += (off_t)offsetof(struct gs_companion_sums, sum);
	for (uint32_t k = 0; k < n && !gs_guard_stopped(); k++, at += (off_t)sizeof(now)) {
		struct gs_companion_sum *before = &f->slots[i].sums[k];

		if (pread(f->fd, &now, sizeof(now), at) != sizeof(now))
			return;
		if (now.calls != before->calls)
			h->sum(h->ctx, &from, before, &now);
		*before = now;
	}
}

/* Of calls that were added up. */
static void report_growth(struct gs_companion_file *f, uint32_t i,
			  const struct gs_companion_slot *s, const struct gs_companion_handler *h)
{
	const struct gs_companion_thread from = thread_of(f, i);

	report_lost(f, i, s, h);
	report_inner(f, i, h);
	if (s->has_sums)
		report_sums(f, i, h);
	if (f->python)
		companion_python_sums(f->python, f->fd, &f->head, i, &from, h);
}

static void report_no_slot(struct gs_companion_file *f, const struct gs_companion_handler *h)
{
	uint64_t now;

	if (pread(f->fd, &now, sizeof(now), offsetof(struct gs_companion_head, no_slot)) !=
	    sizeof(now))
		return;
	if (now > f->no_slot && h->no_slot)
		h->no_slot(h->ctx, f->pid, now - f->no_slot);
	f->no_slot = now;
}

size_t gs_companion_file_read(struct gs_companion_file *f, const struct gs_companion_handler *h,
			      bool harvest, bool *ret_full)
{
	struct gs_companion_slot s;
	size_t n = 0;

	f->n_taken = 0;
	/* What calls of the process's other files say, too. */
	if (f->python)
		companion_python_names(f->python, f->fd, &f->head, h);
	for (uint32_t i = 0; i < f->head.n_slots && !gs_guard_stopped(); i++) {
		if (!read_slot(f, i, &s) || slot_is_unused(&s))
			break;
		if (s.tid)
			f->slots[i].tid = s.tid;
		f->n_taken += s.tid != 0;
		/* One that ends meanwhile is among the records: their end is asked for after it. */
		if (is_of_operators(f) && s.n_open) {
			const struct gs_companion_thread from = thread_of(f, i);

			report_ops(f, i, &from, s.n_open, h, false);
			if (!read_slot(f, i, &s))
				break;
		}
		n += take_records(f, i, s.written, h, ret_full);
		if (harvest)
			report_growth(f, i, &s, h);
	}
	if (harvest)
		report_no_slot(f, h);
	return n;
}

void gs_companion_file_open_calls(struct gs_companion_file *f, const struct gs_companion_handler *h)
{
	struct gs_companion_slot s;

	for (uint32_t i = 0; i < f->head.n_slots && (h->open || is_of_operators(f) || f->python);
	     i++) {
		struct gs_companion_thread from;

		if (pread(f->fd, &s, sizeof(s), slot_at(i)) != (ssize_t)sizeof(s) ||
		    slot_is_unused(&s))
			break;
		from = thread_of(f, i);
		from.tid = s.tid;
		if (is_of_operators(f)) {
			report_ops(f, i, &from, s.tid ? s.n_open : 0, h, true);
			continue;
		}
		for (uint32_t depth = 0;
		     h->open && s.tid && depth < s.n_open && depth < GS_COMPANION_OPEN_MAX; depth++)
			h->open(h->ctx, &from, &s.open[depth], depth);
		if (f->python && s.tid)
			companion_python_open(f->python, f->fd, &f->head, i, &from, h);
	}
}

static bool thread_is_gone(uint32_t pid, uint32_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u", pid, tid);
	return access(path, F_OK) < 0 && errno == ENOENT;
}

bool gs_companion_file_is_crowded(const struct gs_companion_file *f)
{
	return f->n_taken > f->head.n_slots / 4;
}

void gs_companion_file_reclaim(struct gs_companion_file *f, const struct gs_companion_handler *h)
{
	const uint32_t none = 0;
	struct gs_companion_slot s;

	for (uint32_t i = 0; i < f->head.n_slots && !gs_guard_stopped(); i++) {
		if (!read_slot(f, i, &s) || slot_is_unused(&s))
			break;
		/* Asked for before its last positions are: what it wrote is all there then. */
		if (!s.tid || !thread_is_gone(f->pid, s.tid) || !read_slot(f, i, &s) ||
		    s.written != f->slots[i].taken ||
		    memcmp(s.lost, f->slots[i].lost, sizeof(s.lost)) != 0)
			continue;
		report_growth(f, i, &s, h); /* since the harvest */
		if (pwrite(f->fd, &none, sizeof(none), slot_at(i)) < 0)
			break;
	}
}

bool gs_companion_file_has_left(const struct gs_companion_file *f)
{
	uint32_t left = 0;

	return pread(f->fd, &left, sizeof(left), offsetof(struct gs_companion_head, left)) ==
		       (ssize_t)sizeof(left) &&
	       left == 1;
}

void gs_companion_file_stop(struct gs_companion_file *f)
{
	const uint32_t one = 1;

	if (pwrite(f->fd, &one, sizeof(one), offsetof(struct gs_companion_head, stopped)) < 0)
		return; /* cut short: nothing can be written there any more */
}
