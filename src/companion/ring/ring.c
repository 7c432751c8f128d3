/* The slow ways of writing a record: the first one of a thread, the end of a ring, a ring that is full. */
#include "companion/ring/ring.h"

#include "companion/ring/sys.h"
#include "model/trace/hist.h"

#include <linux/mman.h>
#include <linux/prctl.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define ASK_AGAIN                                                                                  \
	256u /* records that a thread without a slot drops before it looks for one again */
#define PAGE 4096ul

struct companion_live *companion_live;
uint32_t companion_clock;
uint64_t companion_ns_per_tick;
__thread struct companion_self companion_self;

bool companion_fill_pages(void *from, size_t bytes)
{
	uintptr_t at = (uintptr_t)from & ~(PAGE - 1);

	return COMPANION_SYS3(madvise, at, (uintptr_t)from + bytes - at, MADV_POPULATE_WRITE) == 0;
}

/* A thread that may not read the processor's counter (PR_SET_TSC) would be ended by it. */
static bool may_read_counter(void)
{
	int mode = PR_TSC_ENABLE;

	return COMPANION_SYS3(prctl, PR_GET_TSC, &mode, 0) < 0 || mode == PR_TSC_ENABLE;
}

static bool take_slot(struct companion_self *s)
{
	struct companion_live *live = companion_live;
	uint32_t n = live->head->n_slots, ring_bytes = live->head->ring_bytes;
	uint32_t tid = (uint32_t)COMPANION_SYS3(gettid, 0, 0, 0), none;

	if (!may_read_counter())
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct gs_companion_slot *slot = &live->slots[i];

		none = 0;
		if (__atomic_load_n(&slot->tid, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&slot->tid, &none, tid, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		s->ring = live->rings + (uint64_t)i * ring_bytes;
		if (!companion_fill_pages(slot, sizeof(*slot)) ||
		    !companion_fill_pages(s->ring, ring_bytes)) {
			__atomic_store_n(&slot->tid, 0, __ATOMIC_RELEASE);
			return false;
		}
		slot->n_open = 0;
		s->sums = &live->sums[i];
		s->mask = ring_bytes - 1;
		s->reserved = slot->written;
		s->free_to = slot->taken + ring_bytes;
		__asm__ volatile("" ::: "memory");
		s->slot = slot; /* last: what a signal handler finds is whole */
		return true;
	}
	return false;
}

bool companion_join(struct companion_self *s)
{
	if (!companion_live->epoch && !companion_announce())
		return false;
	if (s->epoch == companion_live->epoch && s->n_missed % ASK_AGAIN) {
		s->n_missed++;
		__atomic_fetch_add(&companion_live->head->no_slot, 1, __ATOMIC_RELAXED);
		return false;
	}
	if (s->epoch != companion_live->epoch)
		s->n_missed = 0;
	s->epoch = companion_live->epoch;
	s->slot = NULL;
	/* Counted first: a signal handler that comes now must not take a slot, too, and this one's ring. */
	s->n_missed++;
	__asm__ volatile("" ::: "memory");
	if (take_slot(s))
		return true;
	__atomic_fetch_add(&companion_live->head->no_slot, 1, __ATOMIC_RELAXED);
	return false;
}

bool companion_make_room(struct companion_self *s, size_t bytes, unsigned layer)
{
	uint64_t at = s->reserved, to_end = s->mask + 1 - (at & s->mask),
		 pad = bytes > to_end ? to_end : 0;
	struct gs_companion_record *r = (struct gs_companion_record *)(s->ring + (at & s->mask));

	s->free_to = __atomic_load_n(&s->slot->taken, __ATOMIC_ACQUIRE) + s->mask + 1;
	if (bytes > GS_COMPANION_RECORD_MAX || at + pad + bytes > s->free_to) {
		s->slot->lost[GS_COMPANION_LOST_FULL][layer % GS_LAYER_MAX]++;
		return false;
	}
	if (!pad)
		return true;
	/* What a signal handler has put there meanwhile is as good: the caller looks again. */
	if (companion_swap(&s->reserved, &at, at + pad))
		*r = (struct gs_companion_record){
			.kind = GS_COMPANION_PAD, .bytes = (uint16_t)pad, .at = (uint32_t)(at / 8)};
	return true;
}

struct gs_companion_sum *companion_sum_of(struct companion_self *s, unsigned func, unsigned layer)
{
	struct gs_companion_sums *sums = s->sums;
	struct gs_companion_sum *sum = NULL;

	/* The pages are had when they are first needed, which is seldom. */
	if (!s->slot->has_sums)
		s->slot->has_sums =
			companion_fill_pages(sums, offsetof(struct gs_companion_sums, sum));
	if (s->slot->has_sums && sums->of[func])
		return &sums->sum[sums->of[func] - 1];
	if (s->slot->has_sums && sums->n < GS_COMPANION_SUMS_MAX)
		sum = &sums->sum[sums->n];
	if (!sum || !companion_fill_pages(sum, sizeof(*sum))) {
		s->slot->lost[GS_COMPANION_LOST_SUM][layer % GS_LAYER_MAX]++;
		return NULL;
	}
	sum->func = func;
	sums->of[func] = (uint16_t)(sums->n + 1);
	__atomic_store_n(&sums->n, sums->n + 1, __ATOMIC_RELEASE);
	return sum;
}

static void count_error(struct gs_companion_sum *sum, int32_t code)
{
	sum->errors++;
	for (unsigned i = 0; i < GS_ERR_CODES; i++) {
		if (!sum->err_count[i])
			sum->err_code[i] = code;
		if (sum->err_code[i] != code)
			continue;
		sum->err_count[i]++;
		return;
	}
}

void companion_sum_add(struct gs_companion_sum *sum, uint64_t ticks, int32_t error)
{
	uint64_t ns = (uint64_t)((unsigned __int128)ticks * companion_ns_per_tick >> 32);
	unsigned bucket = gs_hist_bucket(ns);

	sum->calls++;
	sum->total_ns += ns;
	if (ns > sum->max_ns)
		sum->max_ns = ns;
	if (bucket < GS_HIST_N_BUCKETS)
		sum->hist[bucket]++;
	if (error)
		count_error(sum, error);
}

bool companion_lock_take(struct companion_lock *l, uint32_t *ret_left_behind)
{
	uint64_t pid = (uint64_t)COMPANION_SYS3(getpid, 0, 0, 0) << 32,
		 self = pid | (uint64_t)COMPANION_SYS3(gettid, 0, 0, 0), owner = 0;

	if (__atomic_load_n(&l->owner, __ATOMIC_RELAXED) == self)
		return false;
	while (!__atomic_compare_exchange_n(&l->owner, &owner, self, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		/* Its holder was another thread of the process that this one is a copy of: it will not come. */
		if (owner >> 32 << 32 == pid) {
			owner = 0;
			COMPANION_SYS3(sched_yield, 0, 0, 0);
		} else if (owner && ret_left_behind) {
			*ret_left_behind = (uint32_t)(pid >> 32);
		}
	}
	return true;
}

void companion_lock_drop(struct companion_lock *l)
{
	__atomic_store_n(&l->owner, 0, __ATOMIC_RELEASE);
}
