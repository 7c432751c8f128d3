/*
 * Findings of a head in the store: what it found of jobs over many nodes. One that changes or ends takes its own
 * place again. Times are by the head's clock.
 */
#ifndef GS_SERVER_STORE_FINDING_H
#define GS_SERVER_STORE_FINDING_H

#include "server/store/store.h"

#define GS_STORE_FINDING_MAX (64u << 10) /* bytes of its data */

struct gs_store_finding {
	int64_t id;           /* in this file, from 1; never used again */
	uint64_t run, number; /* its identity: a start of the head, and its number there */
	char kind[16], job[48], node[66]; /* job, node: of whom it is about; "" not known */
	uint64_t communicator;            /* hash */
	int32_t rank, n_ranks; /* the first that it is about, -1: of all; of the communicator */
	int64_t begin_wall_ns, found_wall_ns, end_wall_ns; /* end 0: it holds */
	char text[384];                                    /* one line */
};

/* Put it in, or in its own place again. data: JSON of GS_STORE_FINDING_MAX bytes at most, with all figures. 0 or
 * a negative errno. */
int gs_store_finding_put(struct gs_store *store, const struct gs_store_finding *finding,
			 const char *data);

/* At the head's start: those that hold ended when they were put last. 0 or a negative errno. */
int gs_store_findings_interrupted(struct gs_store *store);

struct gs_store_finding_query {
	const char *job, *kind;           /* NULL or "": any */
	bool holding;                     /* only those that have not ended */
	int64_t from_wall_ns, to_wall_ns; /* that held after and before; 0 any */
	int64_t after_id;                 /* in the list's order, after this one; 0: the newest */
};

/* Newest first, until fn returns other than 0, which is returned. data is lent. */
int gs_store_findings(struct gs_store *store, const struct gs_store_finding_query *query,
		      int (*fn)(void *ctx, const struct gs_store_finding *finding,
				const char *data),
		      void *ctx);

/* Remove at most max that ended before. How many, or a negative errno. */
int gs_store_finding_expire(struct gs_store *store, int64_t before_wall_ns, unsigned max);

#endif
