/* The last values of things that are watched: GPUs, processes, the machine. */
#ifndef GS_OUTPUT_TUI_HISTORY_H
#define GS_OUTPUT_TUI_HISTORY_H

#include <stdint.h>

#include "core/base/map.h"

#define TUI_HISTORY_LEN  256  /* snapshots */
#define TUI_HISTORY_MAX  4096 /* things; more have no history */
#define TUI_HISTORY_SETS 3    /* of values of one thing */

struct tui_series {
	uint64_t key;                     /* tui_key_of_gpu() and the like */
	uint64_t first_round, last_round; /* when it was put first and last */
	/* The n-th round at n % TUI_HISTORY_LEN; NAN not there. */
	float value[TUI_HISTORY_SETS][TUI_HISTORY_LEN];
};

struct tui_history {
	uint64_t round;             /* snapshots so far */
	struct gs_map by_key;       /* key -> index in series */
	struct tui_series **series; /* owned, each too */
	size_t n_series, room;      /* in use, and how many have room */
};

/* fini frees what it keeps; it is as after init then. */
void tui_history_init(struct tui_history *h);
void tui_history_fini(struct tui_history *h);

/* A new snapshot begins; what was not seen for TUI_HISTORY_LEN of them is forgotten. */
void tui_history_next(struct tui_history *h);

/* The values of a thing at this snapshot (NAN: not there). Its series, lent until the next snapshot;
 * NULL when there is no room. */
struct tui_series *tui_history_put(struct tui_history *h, uint64_t key,
				   const float value[TUI_HISTORY_SETS]);

/* NULL: not known; lent until the next snapshot. */
const struct tui_series *tui_history_get(const struct tui_history *h, uint64_t key);

/* The last n values of a set, oldest first, NAN for those that are not there. */
void tui_history_read(const struct tui_history *h, const struct tui_series *s, unsigned set,
		      float *ret_values, int n);

#endif
