/*
 * Communicators: who is rank what of which. Inside the room only.
 */
#ifndef GS_PIPELINE_CORRELATE_COMM_H
#define GS_PIPELINE_CORRELATE_COMM_H

#include "core/base/map.h"
#include "model/trace/record.h"

#define SHRINK_KINDS 4 /* different lists of excluded ranks counted apart by parent */

enum comm_kind {
	COMM_FREE = 0,
	COMM_ROOT, /* made by an init call, or known only as a parent */
	COMM_SPLIT,
	COMM_SHRINK,
};

/* One rank's communicator. Links are indices into comms.items; 0 is none. */
struct comm {
	enum comm_kind kind; /* how it was made */
	bool open;           /* its handle is in the map */
	bool announced;      /* a COMM record was seen */
	uint32_t process;    /* id */
	uint32_t origin_str;
	int32_t rank, n_ranks;  /* -1 unknown */
	int32_t color, key;     /* of a split */
	uint64_t handle;        /* unique in the process while it lives */
	uint64_t id_hash;       /* 0 unknown */
	uint64_t parent_handle; /* 0 none */
	uint32_t n_excluded;
	int32_t excluded[GS_COMM_LIST_MAX]; /* ascending */
	bool busy;                          /* in hand: keeps its place */
	uint32_t generation; /* the how-manieth of its parent, counted in its own rank */

	/* As a parent. */
	uint32_t n_splits;
	struct {
		uint64_t list_hash;
		uint32_t count;
	} shrinks[SHRINK_KINDS];
	uint32_t waiting; /* first child that needs to know more of this one */

	/* As a child that is not known yet: in the parent's waiting list, or in a group's. */
	uint32_t parent; /* while in the waiting list */
	uint32_t group;  /* while in a group */
	uint32_t next;
	int32_t parent_rank; /* while in a group */

	/* In the list of those that became known and whose children are not placed yet. */
	bool listed;
	uint32_t next_listed;
};

/* The ranks of one parent that did their n-th split of it. */
struct group {
	uint64_t parent_hash; /* a number of its own where the parent has none */
	bool has_hash;        /* parent_hash is the parent's own */
	uint32_t generation;  /* as of its members */
	uint32_t n_ranks;     /* of the parent; 0: the group is free */
	uint32_t n_seen;
	uint32_t members;   /* first of the list, by comm.next */
	uint32_t next_free; /* of free ones */
};

struct comms {
	struct comm *items;                   /* owned; [0] is never used */
	uint32_t n_items, n_room, first_free; /* first_free: of a list, by next; 0 none */
	struct group *groups;                 /* owned; [0] is never used */
	uint32_t n_groups, n_groups_room, first_free_group; /* likewise */
	struct gs_map by_handle;                            /* of open ones */
	struct gs_map by_group; /* parent_hash and generation -> group */
	uint32_t current;       /* the communicator of the record in hand */
	/* The run of COMM records of one ncclCommInitAll(). */
	uint32_t all_process;
	int32_t all_next_rank, all_n_ranks;
	uint64_t all_hash;
	uint32_t n_alls;
};

/* fini frees what they hold; they are all zero then. */
void correlate_comms_init(struct comms *comms);
void correlate_comms_fini(struct comms *comms);

/* Take in a COMM record and complete it in place as far as is known now. Communicators of others
 * that became known with it are appended to extra as COMM records. init_all: ncclCommInitAll() made
 * it. */
void correlate_comms_take(struct comms *comms, struct gs_rec_comm *rec, bool init_all,
			  struct gs_buf *extra);

/* The communicator was destroyed. */
void correlate_comms_end(struct comms *comms, uint32_t process, uint64_t handle);

/* The process runs another program: all of its communicators are gone. */
void correlate_comms_end_process(struct comms *comms, uint32_t process);

#endif
