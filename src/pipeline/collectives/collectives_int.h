/* What is remembered of members and of the groups that they form. Inside the room only. */
#ifndef GS_PIPELINE_COLLECTIVES_COLLECTIVES_INT_H
#define GS_PIPELINE_COLLECTIVES_COLLECTIVES_INT_H

#include <stdbool.h>

#include "pipeline/collectives/collectives.h"
#include "core/base/map.h"
#include "model/trace/hist.h"

struct arrival {
	uint64_t time_ns, what;
};

/* How much time is in one or more of several stretches, which come in order of their ends. */
struct union_time {
	uint64_t ns, until_ns;
};

/* What matched collectives say of a rank. */
struct member_figures {
	uint64_t late[GS_HIST_N_BUCKETS], margin[GS_HIST_N_BUCKETS];
	uint64_t late_max_ns, margin_max_ns, margin_sum_ns, n_last;
	struct union_time late_time, missing; /* as of struct gs_collectives_rank */
};

struct member {
	uint32_t pid;
	int32_t rank;
	uint32_t group; /* index, 0: not known yet */
	bool lost;      /* its calls cannot be numbered */
	uint64_t calls, calls_ns;
	struct arrival *ring; /* owned; n_room places, a power of two */
	uint32_t n_room, head, n;
	uint64_t head_seq;              /* number of the oldest that is kept */
	struct member_figures *figures; /* owned; NULL until one is matched */
};

/* The ranks of one communicator. */
struct group {
	uint64_t id;
	int32_t n_ranks;
	uint32_t next; /* another one of the same id, made later; 0 none */
	uint32_t *members;
	uint32_t n_members, n_filled; /* of them, those that have a call to be matched */
	uint64_t base_seq;            /* number of the next to be matched */
	uint64_t ready_ns;            /* when it may be; 0: to be found out */
	bool broken;
	enum gs_collectives_cause broken_cause;
	uint64_t n_matched, first_ns, last_ns;
};

struct gs_collectives {
	struct member *members; /* owned; [0] is never used */
	uint32_t n_members, n_members_room;
	struct group *groups; /* owned; [0] is never used */
	uint32_t n_groups, n_groups_room;
	struct gs_map by_id; /* -> index of the first group */
	uint64_t n_arrivals; /* kept now */
	uint64_t newest_ns;
	uint64_t n_calls, n_matched;
	uint64_t left_out[GS_COLLECTIVES_N_CAUSES];
};

/* Match what can be, without waiting for newer calls or for ranks that were not seen. */
void collectives_settle_group(struct gs_collectives *collectives, struct group *group);

#endif
