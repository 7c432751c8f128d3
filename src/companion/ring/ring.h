/*
 * Writing records into the file of this process: model/companion/file.h has their layout, and how a door
 * uses this. Everything here may be called from any thread at any time, also in a signal handler, in a
 * child of fork(2), and in a thread that is cancelled; nothing waits, allocates or changes errno.
 *
 * A forked child shares its parent's mapping no more: the word by which a thread knows that its slot is
 * good lies in a page that the kernel clears in children (MADV_WIPEONFORK), whichever way they were
 * made. The child makes a file of its own with its first record.
 */
#ifndef GS_COMPANION_RING_RING_H
#define GS_COMPANION_RING_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/companion/file.h"

#define COMPANION_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Of this process; cleared in a forked child. */
struct companion_live {
	uint64_t epoch;                  /* which of the process's files is written; 0: none */
	uint32_t busy;                   /* a thread is making the file */
	uint32_t failed;                 /* it cannot be made: not tried again */
	struct gs_companion_head *head;  /* in the mapped file, as the next three */
	struct gs_companion_slot *slots; /* head->n_slots */
	uint8_t *rings;                  /* head->ring_bytes of each slot */
	struct gs_companion_sums *sums;  /* of each slot */
};

/* Of a thread. */
struct companion_self {
	uint64_t epoch;                 /* of the file that slot is in; 0: none yet */
	struct gs_companion_slot *slot; /* NULL: there was none, or no memory for it */
	uint8_t *ring;                  /* that of the slot */
	struct gs_companion_sums *sums; /* likewise */
	uint64_t mask;                  /* of positions in it */
	uint64_t reserved;              /* where the next record begins */
	uint64_t free_to;  /* there is room up to here, when the reader was last looked at */
	uint32_t n_missed; /* records without a slot */
};

extern struct companion_live *companion_live; /* NULL: nothing is recorded in this process */
extern __thread struct companion_self companion_self __attribute__((tls_model("initial-exec")));

/* The value of a variable that the program was started with, with its zero: getenv() need not have it yet. False:
 * there is none, or it is too long. */
bool companion_find_variable(const char *name, char *out, size_t bytes);

/* A file of the folder, as long as that at least, and written by this user alone. False: there is none. */
bool companion_read_own(const char *folder, const char *name, void *out, size_t bytes);

/* The head of the plan in the folder; false: there is none that can be believed, or it does not want that door. */
bool companion_read_plan(const char *folder, enum gs_companion_door door,
			 struct gs_companion_plan *ret_plan);

/* What is recorded is to be reported in this folder, as its plan says (clock: of the plan). */
struct companion_setup {
	char folder[256];
	uint32_t clock;
	uint32_t doors; /* that are opened: bits 1 << enum gs_companion_door */
	uint32_t n_slots;
	uint32_t ring_bytes;
	uint64_t ns_per_tick; /* times 2^32, about */
	uint32_t state;       /* enum gs_companion_state, of files that are made from now on */
	uint32_t only_pid;    /* forked children record nothing: the process; 0: they do */
};
/* 0, or a negative errno: nothing is recorded. Called before threads write: once, or again after companion_unmap(). */
int companion_start(const struct companion_setup *setup);

/* Nothing new is recorded from here on in this process. Threads that are recording just now still may write. */
void companion_end(void);
/* When no thread is recording any more: the reader is shown that, and the file is given back. */
void companion_unmap(void);

/* Does who reads this process's file still live? It holds a lock on the folder. */
bool companion_has_reader(void);

/* Remove the folder, from which no reader takes anything any more, and what gpuscope left there. */
void companion_remove_folder(void);

/* Make this process's file now, so that it is known to be looked at from inside before its first record. True:
 * there is one. */
bool companion_announce(void);

/* In this process's file, and in those of its children. */
void companion_set_state(enum gs_companion_state state);

/* The process's clock, as its file says. */
extern uint32_t companion_clock;
extern uint64_t companion_ns_per_tick; /* times 2^32, about */
uint64_t companion_mono_ns(void);
/* The same, and the number of the processor that this thread runs on. */
uint64_t companion_mono_ns_cpu(uint16_t *ret_cpu);
/* Looks up the vDSO's functions, with which the two above need no system call. companion_start()
 * calls it, before threads write. */
void companion_find_vdso(void);

/* In ticks of it. */
static inline uint64_t companion_now(void)
{
	if (COMPANION_UNLIKELY(companion_clock != GS_COMPANION_TSC))
		return companion_mono_ns();
	return __builtin_ia32_rdtsc();
}

/* The same, and the processor that this thread runs on: rdtscp also returns a value in whose low
 * 12 bits Linux puts its number. Where the TSC is not the clock, rdtscp may be missing, too, or
 * return the number of the host's processor. */
static inline uint64_t companion_now_cpu(uint16_t *ret_cpu)
{
	uint64_t now;
	unsigned aux;

	if (COMPANION_UNLIKELY(companion_clock != GS_COMPANION_TSC))
		return companion_mono_ns_cpu(ret_cpu);
	now = __builtin_ia32_rdtscp(&aux);
	*ret_cpu = aux & 0xfff;
	return now;
}

/* The slow ways: of the first record of a thread, process or child; of a ring that looks full, or ends. */
bool companion_join(struct companion_self *self);
bool companion_make_room(struct companion_self *self, size_t bytes, unsigned layer);

/* Have these pages of the file now, with an answer (false) in place of the signal that a full file system would send
 * later. */
bool companion_fill_pages(void *from, size_t bytes);

/* The sum of a function's calls that found no room; NULL: there is none left, counted. */
struct gs_companion_sum *companion_sum_of(struct companion_self *self, unsigned func,
					  unsigned layer);

/* A call of so many ticks that was left out of the ring; error: what it returned, 0 it succeeded. */
void companion_sum_add(struct gs_companion_sum *sum, uint64_t ticks, int32_t error);

/* Held for some us, never while others' code runs. */
struct companion_lock {
	uint64_t owner; /* process << 32 | thread; 0: it is free */
};

/* False: this thread holds it already, in what a signal handler has interrupted. *ret_left_behind: this process, when the
 * lock was held by a thread that it has no copy of; may be NULL. */
bool companion_lock_take(struct companion_lock *lock, uint32_t *ret_left_behind);
void companion_lock_drop(struct companion_lock *lock);

/* The slot of the calling thread; NULL: it has none. */
static inline struct companion_self *companion_thread(void)
{
	struct companion_self *s = &companion_self;

	if (COMPANION_UNLIKELY(!companion_live))
		return NULL;
	if (COMPANION_UNLIKELY(!s->slot || s->epoch != companion_live->epoch) && !companion_join(s))
		return NULL;
	return COMPANION_UNLIKELY(companion_live->head->stopped) ? NULL : s;
}

/* Compare and swap in one instruction, so that no signal handler comes between: without the lock prefix, as only
 * this thread writes there. *old becomes what was found. */
static inline bool companion_swap(uint64_t *at, uint64_t *old, uint64_t new)
{
	bool done;

	__asm__ volatile("cmpxchgq %3, %1"
			 : "=@ccz"(done), "+m"(*at), "+a"(*old)
			 : "r"(new)
			 : "memory");
	return done;
}

/* Room for a record of the thread, its head filled; NULL: there is none, it is counted as lost (layer). A
 * signal handler's record goes after it; one that is left by a jump stays unfinished, and is passed over. */
static inline void *companion_put_in(struct companion_self *s, unsigned kind, size_t bytes,
				     unsigned layer)
{
	uint64_t at = s->reserved;
	struct gs_companion_record *r;

	do {
		/* Looked at again after it: a signal handler may have used the room meanwhile. */
		while (COMPANION_UNLIKELY(at + bytes > s->free_to ||
					  (at & s->mask) + bytes > s->mask + 1)) {
			if (!companion_make_room(s, bytes, layer))
				return NULL;
			at = s->reserved;
		}
	} while (COMPANION_UNLIKELY(!companion_swap(&s->reserved, &at, at + bytes)));
	r = (struct gs_companion_record *)(s->ring + (at & s->mask));
	r->kind = (uint16_t)(kind | GS_COMPANION_UNFINISHED);
	r->bytes = (uint16_t)bytes;
	r->at = (uint32_t)(at / 8);
	return r;
}

/* The record is whole: the reader may have it, and those of signal handlers that came meanwhile. */
static inline void companion_publish_in(struct companion_self *s, void *record)
{
	struct gs_companion_record *r = record;
	uint64_t reserved = s->reserved, off = (uint64_t)((uint8_t *)r - s->ring) + r->bytes;
	uint64_t end = reserved - ((reserved - off) & s->mask);
	uint64_t written = s->slot->written;

	__asm__ volatile("" ::: "memory"); /* stores of this processor are seen in their order */
	r->kind &= (uint16_t)~GS_COMPANION_UNFINISHED;
	__asm__ volatile("" ::: "memory");
	while (written < end && !companion_swap(&s->slot->written, &written, end))
		;
}

/* The same for a thread that need not have written before. bytes: at most GS_COMPANION_RECORD_MAX, a multiple
 * of 8. Losses are of no layer. */
static inline void *companion_put(unsigned kind, size_t bytes)
{
	struct companion_self *s = companion_thread();

	return s ? companion_put_in(s, kind, bytes, 0) : NULL;
}

/* The record that companion_put() returned is whole: it may be read from now on. */
static inline void companion_publish(void *record)
{
	companion_publish_in(&companion_self, record);
}

#endif
