/*
 * Between the files of this door: NCCL's plug-in for profilers. NCCL loads the library (NCCL_PROFILER_PLUGIN), asks for
 * the newest version of its interface that both know, and says of each operation what it does. plugin.c has the
 * interface in all versions; event.c makes records of what is said; pool.c has what is open; start.c begins, and opens
 * and closes windows.
 *
 * All of this runs in threads of NCCL and of the program, between them and the GPU: nothing waits, allocates or fails
 * loudly. What is handed to NCCL as a handle is a number, never an address: one that is used after its end, or in
 * another process, is known as such. The library is never unloaded (-z nodelete), though NCCL tries to with its last
 * communicator.
 */
#ifndef GS_COMPANION_NCCL_NCCL_INT_H
#define GS_COMPANION_NCCL_NCCL_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "companion/nccl/layout.h"
#include "model/companion/nccl.h"

/* --- pool.c --- */

#define NCCL_EVENTS                                                                                \
	4096u /* open at one time: transfers of a group are all begun before the first ends */

struct nccl_event {
	uint64_t handle; /* 0: it is free, or being ended */
	uint32_t next;   /* of the free ones: index + 1 */
	uint32_t comm;   /* number of its communicator; 0 none */
	union {          /* as it will be written; kind says which */
		struct gs_companion_record head;
		struct gs_companion_nccl_op op;
		struct gs_companion_nccl_channel channel;
	};
};

enum nccl_handle_kind {
	NCCL_HANDLE_OP = 1,
	NCCL_HANDLE_GROUP = 2,
	NCCL_HANDLE_CHANNEL = 3,
};

/* One that is not open; NULL: all are. */
struct nccl_event *nccl_pool_take(void);

/* It is open from here on, under the handle that is returned. number: of its kind, unique in the process. */
void *nccl_pool_open(struct nccl_event *event, enum nccl_handle_kind kind, uint32_t number);

/* The event of a handle; NULL: it is not open (any more), or is none. */
struct nccl_event *nccl_pool_find(const void *handle);

/* The same, and it is the caller's alone then: to be given back. */
struct nccl_event *nccl_pool_close(const void *handle);
void nccl_pool_free(struct nccl_event *event);

/* What is open of a communicator will not be ended. */
void nccl_pool_drop(uint32_t comm);

/* A handle without an event, and the number in a handle of a kind: 0, it is of another. */
void *nccl_pool_handle(enum nccl_handle_kind kind, uint32_t number);
uint32_t nccl_pool_number(uint64_t handle, enum nccl_handle_kind kind);

/* --- event.c --- */

struct nccl_comm_facts {
	uint64_t hash; /* 0 not known */
	int32_t rank, n_ranks, n_nodes;
	const char *name; /* may be NULL */
};

/* A communicator begins: what is to be said of it is set in *mask. version: of the interface. caller: an address in
 * NCCL. */
void *nccl_event_begin_comm(unsigned version, const void *caller, int *mask,
			    const struct nccl_comm_facts *facts);
void nccl_event_end_comm(void *context);

/* descr: as of that version. */
void nccl_event_start(unsigned version, void *context, void **ret_handle, const void *descr);
void nccl_event_stop(void *handle);
void nccl_event_record(void *handle, int state, const void *args);

/* --- start.c --- */

/* Is this process followed now? */
bool nccl_door_is_open(void);

/* Which types of events are wanted by this version, now. caller: an address in NCCL; its version: 0 not known. */
int nccl_door_mask(unsigned version, const void *caller, uint32_t *ret_nccl, bool *ret_no_windows);

/* Open or close a window when it is time to, and have *mask say so: of the copy of NCCL that calls. */
void nccl_door_step(int *mask, uint64_t now);

#endif
