/*
 * A binary heap of times. A timer lies in whatever waits, and knows its place in the heap, so that
 * it can be moved and taken out.
 */
#ifndef GS_CORE_BASE_TIMER_H
#define GS_CORE_BASE_TIMER_H

#include <stddef.h>
#include <stdint.h>

struct gs_timer {
	uint64_t due_ns; /* of the clock that gs_timers_run() is given */
	size_t index;    /* in the heap + 1; 0: not in it */
	/* Called once, when the timer is out of the heap: it may set it again, or free it. */
	void (*fire)(struct gs_timer *timer);
};

struct gs_timers {
	struct gs_timer **heap; /* owned */
	size_t n, room;         /* timers in it, and how many have room */
};

/* Set or move; UINT64_MAX takes it out. 0 or -ENOMEM (only when it was not in). */
int gs_timer_set(struct gs_timers *timers, struct gs_timer *timer, uint64_t due_ns);
/* When the first one is due. */
uint64_t gs_timers_next_ns(const struct gs_timers *timers); /* UINT64_MAX: none */
/* Fire what is due, in order. One that its own call sets again waits for the next run. */
void gs_timers_run(struct gs_timers *timers, uint64_t now_ns);

#endif
