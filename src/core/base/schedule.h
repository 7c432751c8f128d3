/*
 * Turns at equal distances: when the next one is due, and how many did not take place. Turns stay
 * on the grid of the first one, so that a late turn does not move those after it; after a stall the
 * next turn is the next one of the grid, and what fell into the stall is counted once and never
 * made up for. No clock in here: who uses it passes the time.
 */
#ifndef GS_CORE_BASE_SCHEDULE_H
#define GS_CORE_BASE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct gs_schedule {
	uint64_t interval_ns; /* > 0 */
	uint64_t next_ns;     /* when the next turn is due */
	uint64_t last_ns;     /* when the last one that was taken was due */
	bool taken;           /* there was one */
};

/* The first turn is due at once. */
void gs_schedule_start(struct gs_schedule *schedule, uint64_t interval_ns, uint64_t now_ns);

/* Another interval, counted from the last turn on; the same one changes nothing. A turn that the
 * shorter interval would have had before now_ns was never due: it is not counted as missed. */
void gs_schedule_set_interval(struct gs_schedule *schedule, uint64_t interval_ns, uint64_t now_ns);

/* Takes the turn that is due (next_ns <= now_ns). How many turns before it were due and did not
 * take place. */
uint64_t gs_schedule_take(struct gs_schedule *schedule, uint64_t now_ns);

#endif
