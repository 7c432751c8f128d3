/*
 * Places of a server, shared out by who asks: at most so many in all, at most so many for one owner
 * (a client's address), and when there is none left, the one that goes first.
 *
 * A place is resting while nothing is done for its holder: a connection that only waits for what
 * its client sends. Resting places can be taken away, the one that has rested longest first, and
 * those of the owner with the most places before those of others. So who opens many connections is
 * in the way of its own, and others still get in. No function here takes a place away: it only
 * names it.
 *
 * Each function takes constant time; gs_shares_ask() over many calls, as it looks through what has
 * become empty since.
 */
#ifndef GS_CORE_BASE_SHARE_H
#define GS_CORE_BASE_SHARE_H

#include "core/base/map.h"

struct gs_share_owner;

/* In whatever holds the place; all zero: it holds none. */
struct gs_share {
	struct gs_share_owner *owner; /* borrowed from gs_shares; NULL: no place is held */
	struct gs_share *next, *prev; /* of the owner's resting ones */
	bool resting;                 /* nothing is done for its holder: it may be taken away */
};

struct gs_shares {
	unsigned max, max_per_owner;  /* places */
	unsigned n;                   /* places that are taken */
	struct gs_map owners;         /* key -> struct gs_share_owner *; owned */
	struct gs_share_owner **by_n; /* owned; [n]: owners with n places of which some rest */
	unsigned n_lists;             /* of by_n */
	unsigned most;                /* the lists above this one are empty */
};

#define GS_SHARES_INIT(most_places, most_per_owner)                                                \
	((struct gs_shares){.max = (most_places),                                                  \
			    .max_per_owner = (most_per_owner),                                     \
			    .owners = GS_MAP_INIT(UINT32_MAX)})

enum gs_share_verdict {
	GS_SHARE_FREE,
	GS_SHARE_EVICT,      /* free when the one that is named has gone */
	GS_SHARE_OWNER_FULL, /* this owner has all that it may have, all in use */
	GS_SHARE_FULL,       /* so have others */
};

/* All places must have been given back. max and max_per_owner may be changed at any time: places
 * above them stay until they are given back. */
void gs_shares_fini(struct gs_shares *shares);

/* Whether an owner can have one more place. *ret_victim: the place to be taken away, of
 * GS_SHARE_EVICT; else NULL. */
enum gs_share_verdict gs_shares_ask(struct gs_shares *shares, uint64_t owner,
				    struct gs_share **ret_victim);

/* Take a place, whatever the limits; it is not resting. 0 or -ENOMEM. */
int gs_share_take(struct gs_shares *shares, uint64_t owner, struct gs_share *share);
/* Give it back; of one that holds none: nothing. */
void gs_share_leave(struct gs_shares *shares, struct gs_share *share);

/* From now on it rests, and is the last of its owner's to go; again: since now.
 * gs_share_work() ends its rest. */
void gs_share_rest(struct gs_shares *shares, struct gs_share *share);
void gs_share_work(struct gs_shares *shares, struct gs_share *share);

#endif
