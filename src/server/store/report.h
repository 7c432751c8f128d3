/*
 * Reports of jobs in the store. One comes as a batch of a stream of its own kind, and is stored as
 * it came, beside what lists choose it by. A node that sends a report of the same name again
 * replaces it; so a job that runs for a week has one report.
 */
#ifndef GS_SERVER_STORE_REPORT_H
#define GS_SERVER_STORE_REPORT_H

#include "server/store/store.h"

/* The numbers are stored. */
enum gs_store_report_state {
	GS_STORE_REPORT_RUNNING = 1,
	GS_STORE_REPORT_FINISHED = 2,
	GS_STORE_REPORT_PARTIAL = 3,
};

#define GS_STORE_REPORT_MAX (1u << 20) /* bytes of one, unpacked */

struct gs_store_report {
	int64_t id;        /* in this file, from 1; never used again */
	int64_t node;      /* of whom; in lists also its name: */
	char hostname[65]; /* of the node */
	char report[65];   /* as the node calls it */
	uint32_t state;    /* enum gs_store_report_state */
	/* Out of the report; "" where it has none. */
	char source[16], kind[16], job[64], user[64], name[128], job_class[64];
	double score; /* NAN unknown */
	/* Of the measurement; by the node's clock when it is put, by the head's when it is read. */
	int64_t begin_wall_ns, end_wall_ns;
	int64_t received_wall_ns; /* of the last time that it came */
};

/* In a transaction, instead of gs_store_append(), with the same meaning: -EEXIST the batch's number
 * is stored already, -EINVAL what no node makes. Reports of the same job and source that still said
 * "running" are partial from then on: the program that made them was killed. */
int gs_store_report_put(struct gs_store *store, int64_t stream, const struct gs_store_batch *batch,
			const struct gs_store_report *report);

struct gs_store_report_query {
	const char *user, *job, *kind, *hostname; /* NULL or "": any */
	const char *name;                         /* likewise; a * at its end stands for any text */
	unsigned state;                           /* enum gs_store_report_state; 0 any */
	bool not_running;                         /* leave out those of jobs that go on */
	int64_t from_wall_ns, to_wall_ns;         /* measured after and before; 0 any */
	/* After this one, as of the list's order: that row's begin_wall_ns and id. 0 0: the
	 * newest. */
	int64_t after_begin_wall_ns, after_id;
	bool whole; /* fn gets the report itself, too */
};

/* Newest measurement first, until fn returns other than 0, which is returned. text: the document,
 * lent, or NULL (without `whole`, or when it cannot be unpacked). */
int gs_store_reports(struct gs_store *store, const struct gs_store_report_query *query,
		     int (*fn)(void *ctx, const struct gs_store_report *report, const char *text,
			       size_t bytes),
		     void *ctx);

/* "BEGIN-ID": what a list is to go on after; and back into the query. "" begins it. -EINVAL. */
#define GS_STORE_REPORT_AFTER_BYTES 48
void gs_store_report_newer(const struct gs_store_report *report,
			   char out[GS_STORE_REPORT_AFTER_BYTES]);
int gs_store_report_older(struct gs_store_report_query *query, const char *after);

/* One of them, with its document. -ENOENT; -EBADMSG it cannot be unpacked. */
int gs_store_report_get(struct gs_store *store, int64_t id, struct gs_store_report *ret_report,
			struct gs_buf *ret_text);

/* Remove at most max reports that ended before, and streams of reports that are over. How many
 * reports, or a negative errno. */
int gs_store_report_expire(struct gs_store *store, int64_t before_wall_ns, unsigned max);

#endif
