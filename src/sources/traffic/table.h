/*
 * Turns rows of the kernel into peers of applications. Processes with the same name and job are one application, and figures
 * of ended processes and connections are kept. Memory is bounded: a new peer replaces the least recently used one, whose
 * figures stay in the sums of its service.
 *
 * Use a table from one thread at a time.
 */
#ifndef GS_SOURCES_TRAFFIC_TABLE_H
#define GS_SOURCES_TRAFFIC_TABLE_H

#include "model/node/traffic.h"
#include "sources/traffic/traffic.h"

struct gs_traffic_table;

struct gs_traffic_table_options {
	size_t size;        /* of this struct */
	uint32_t max_peers; /* in memory; 0: 4096 */
	uint32_t
		max_named; /* peers with figures of their own; the others are added up by service */
	uint64_t
		linger_ns; /* unused rows without open connections are removed from the kernel after this */
	/* Writes the job id of a process into out (64 bytes); "": none. NULL: jobs are not determined. */
	void (*job_of)(void *ctx, uint32_t pid, char *out, size_t bytes);
	void *ctx;
};

/* Creates a table. now_ns: monotonic. Free *ret with gs_traffic_table_free(). 0 or -ENOMEM. */
int gs_traffic_table_new(const struct gs_traffic_table_options *options, uint64_t now_ns,
			 struct gs_traffic_table **ret);
void gs_traffic_table_free(struct gs_traffic_table **table);

/* Adds the growth of the rows since the last call, and sorts found by key. now_ns: monotonic. 0; -ENOMEM: nothing was
 * added, and the next call adds it. */
int gs_traffic_table_take(struct gs_traffic_table *table, struct gs_traffic_found *found,
			  size_t n_found, uint64_t now_ns);

/* The key of a row that should be removed from the kernel; NULL: there is none. The caller removes it with
 * gs_traffic_take() and passes its last values to gs_traffic_table_end() (row NULL: it was gone already). */
const struct gs_traffic_key *gs_traffic_table_next_idle(struct gs_traffic_table *table,
							uint64_t now_ns);
void gs_traffic_table_end(struct gs_traffic_table *table, const struct gs_traffic_key *key,
			  const struct gs_traffic_row *row);

/* Gets what servers at the port did since the last call, or since the table was created: for at most max_askers clients
 * by address, for the others together. Use the same port in all calls. Sets sends_known to true. Free *ret_growth with
 * gs_traffic_growth_fini(). 0; -ENOMEM: the next call has it. */
int gs_traffic_table_grown(struct gs_traffic_table *table, uint16_t port, uint32_t max_askers,
			   uint64_t now_ns, struct gs_traffic_growth *ret_growth);

/* Copies all figures, peers sorted by requests, then by bytes. The caller fills in full_rows and lost. Free *ret_list with
 * gs_traffic_list_fini(). 0 or -ENOMEM. */
int gs_traffic_table_copy(const struct gs_traffic_table *table, struct gs_traffic_list *ret_list);

#endif
