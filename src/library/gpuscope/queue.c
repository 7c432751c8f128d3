/*
 * Records between the threads of a trace and the caller's. Names and entities always wait, because later records
 * refer to them. Of calls and the like at most max_items wait; further ones are dropped and counted.
 */
#include "library/gpuscope/library_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"

#define USUAL_ITEMS 262144u

struct waiting_batch {
	struct waiting_batch *next; /* owned */
	size_t bytes;
	uint32_t n_items;
	uint64_t lost_before;
	_Alignas(8) char data[];
};

struct record_queue {
	pthread_mutex_t lock;
	pthread_cond_t came;
	struct waiting_batch *first, **last; /* owned */
	struct waiting_batch *lent;          /* owned; the one that was taken last */
	uint64_t n_items, max_items, lost;
	bool ended, discards;
	int fd; /* owned; readable while something waits, or it has ended */
};

int record_queue_new(uint32_t max_items, struct record_queue **ret_queue)
{
	struct record_queue *q = calloc(1, sizeof(*q));
	pthread_condattr_t attr;

	if (!q)
		return -ENOMEM;
	q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->fd < 0) {
		int r = -errno;

		free(q);
		return r;
	}
	q->last = &q->first;
	q->max_items = max_items ? max_items : USUAL_ITEMS;
	pthread_mutex_init(&q->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&q->came, &attr);
	pthread_condattr_destroy(&attr);
	*ret_queue = q;
	return 0;
}

static void drop_batches(struct record_queue *q)
{
	for (struct waiting_batch *b = q->first, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	q->first = NULL;
	q->last = &q->first;
	q->n_items = 0;
}

void record_queue_free(struct record_queue **queue)
{
	struct record_queue *q = *queue;

	if (!q)
		return;
	drop_batches(q);
	free(q->lent);
	gs_close_p(&q->fd);
	pthread_cond_destroy(&q->came);
	pthread_mutex_destroy(&q->lock);
	free(q);
	*queue = NULL;
}

int record_queue_fd(const struct record_queue *q)
{
	return q->fd;
}

enum queued { NOT_NEEDED, NEEDED, COUNTED };

/* Whether items are made of such a record, and whether it counts for max_items. */
static enum queued kind_of_record(const struct gs_record *r)
{
	switch (r->kind) {
	case GS_REC_SESSION:
	case GS_REC_STRING:
	case GS_REC_PROCESS:
	case GS_REC_THREAD:
	case GS_REC_FUNCTION:
	case GS_REC_LOSS:
	case GS_REC_ATTACH:
	case GS_REC_HANG:
	case GS_REC_END:
		return NEEDED;
	case GS_REC_CALL:
	case GS_REC_VALUES:
	case GS_REC_STATS:
	case GS_REC_COUNTER:
	case GS_REC_GPU_WORK:
		return COUNTED;
	default:
		return NOT_NEEDED;
	}
}

static void wake_reader(struct record_queue *q)
{
	const uint64_t one = 1;

	/* Fails only if fd is readable already. */
	(void)!write(q->fd, &one, sizeof(one));
	pthread_cond_broadcast(&q->came);
}

/* Copies the records that are needed; to has room for all of them. */
static void copy_records(struct record_queue *q, const struct gs_batch *from,
			 struct waiting_batch *to)
{
	bool drops_call = false; /* the call that follows values that were dropped */

	gs_records_for_each (from, r) {
		enum queued kind = kind_of_record(r);
		bool is_values = r->kind == GS_REC_VALUES;

		if (kind == NOT_NEEDED)
			continue;
		if (kind == COUNTED && (drops_call || q->n_items + to->n_items >= q->max_items)) {
			drops_call = is_values;
			q->lost += !is_values;
			continue;
		}
		drops_call = false;
		to->n_items += kind == COUNTED && !is_values;
		memcpy(to->data + to->bytes, r, r->bytes);
		to->bytes += r->bytes;
	}
}

int record_queue_push(struct record_queue *q, const struct gs_batch *batch)
{
	struct waiting_batch *b = malloc(sizeof(*b) + batch->bytes), *shorter;

	if (!b)
		return -ENOMEM;
	*b = (struct waiting_batch){0};
	pthread_mutex_lock(&q->lock);
	b->lost_before = q->lost;
	if (!q->discards)
		copy_records(q, batch, b);
	if (!b->bytes) {
		free(b);
	} else {
		q->lost -= b->lost_before;
		shorter = realloc(b, sizeof(*b) + b->bytes);
		b = shorter ? shorter : b;
		*q->last = b;
		q->last = &b->next;
		q->n_items += b->n_items;
		wake_reader(q);
	}
	pthread_mutex_unlock(&q->lock);
	return 0;
}

void record_queue_discard(struct record_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->discards = true;
	drop_batches(q);
	pthread_mutex_unlock(&q->lock);
}

void record_queue_end(struct record_queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->ended = true;
	wake_reader(q);
	pthread_mutex_unlock(&q->lock);
}

/* Waits for a batch. The caller holds the lock. False: the time is over. */
static bool wait_for_batch(struct record_queue *q, uint64_t until_ns)
{
	struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
				 .tv_nsec = (long)(until_ns % 1000000000)};
	uint64_t seen;

	(void)!read(q->fd, &seen, sizeof(seen));
	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&q->came, &q->lock);
	else if (gs_clock_mono_ns() >= until_ns)
		return false;
	else
		pthread_cond_timedwait(&q->came, &q->lock, &until);
	return true;
}

int record_queue_take(struct record_queue *q, uint64_t until_ns, struct gs_batch *ret_batch,
		      uint64_t *ret_lost)
{
	struct waiting_batch *b;
	int r = GS_NEXT_ITEM;

	*ret_lost = 0;
	pthread_mutex_lock(&q->lock);
	while (!q->first && !q->ended && r == GS_NEXT_ITEM)
		if (!wait_for_batch(q, until_ns))
			r = GS_NEXT_TIMEOUT;
	b = q->first;
	if (b) {
		free(q->lent);
		q->lent = b;
		q->first = b->next;
		if (!q->first)
			q->last = &q->first;
		q->n_items -= b->n_items;
		*ret_batch = (struct gs_batch){b->data, b->bytes};
		*ret_lost = b->lost_before;
		r = GS_NEXT_ITEM;
	} else if (q->ended) {
		*ret_lost = q->lost;
		q->lost = 0;
		r = GS_NEXT_END;
	}
	pthread_mutex_unlock(&q->lock);
	return r;
}
