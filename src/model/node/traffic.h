/*
 * TCP traffic by application, port and peer: plain values, made by sources/traffic. A request is data from the client that
 * follows data from the server, or that starts the connection. So each request on a keep-alive connection counts, with and
 * without TLS; requests sent before the previous response count as one; and a TLS handshake counts, too.
 */
#ifndef GS_MODEL_NODE_TRAFFIC_H
#define GS_MODEL_NODE_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GS_TRAFFIC_BUCKETS                                                                         \
	28 /* of response times: bucket i has those below 2^i us; the last one also all longer ones */

/* Totals of some connections since counting started. Only open can decrease. */
struct gs_traffic_sums {
	uint64_t connections;                /* made or accepted */
	uint64_t failed;                     /* attempts to connect that failed */
	int64_t open;                        /* now */
	uint64_t received_bytes, sent_bytes; /* as read and written by the program */
	uint64_t sends;                      /* calls that sent data */
	uint64_t requests, answers;          /* answers: requests whose response has begun */
	uint64_t answer_ns; /* response times, from the request to the first byte of the response */
	uint64_t answer_log2[GS_TRAFFIC_BUCKETS]; /* number of response times by bucket */
};

/* Figures of one application, port and peer address. */

struct gs_traffic_peer {
	char application[16]; /* name of the process; "": no process has used the connections yet */
	char job[64];         /* id of its job; "": none */
	bool accepted;        /* true: the application is the server */
	uint16_t port;        /* of the server */
	char address[46];     /* of the peer; "": all for which the kernel had no row */
	struct gs_traffic_sums sums;
	/* The part of sums that is exported under the peer's own address: it grows only while is_named is true, so that
	 * exported counters never decrease. */
	struct gs_traffic_sums named;
	bool is_named;    /* the peer has series of its own now */
	uint16_t service; /* index of its service in the list */
	uint64_t used_ns; /* when figures were last added; monotonic */
};

/* All connections of an application to or at a port. */
struct gs_traffic_service {
	char application[16]; /* "" with port 0: all beyond the limit of services */
	bool accepted;
	uint16_t port;
	struct gs_traffic_sums sums;
	struct gs_traffic_sums
		unnamed; /* the part of sums that is under no peer's own address; never decreases */
};

/* All figures at one time. */
struct gs_traffic_list {
	struct gs_traffic_peer *peer; /* owned; n_peers of them */
	size_t n_peers;
	struct gs_traffic_service
		*service; /* owned; n_services; the first is the one without a port */
	size_t n_services;
	uint64_t evicted_peers; /* dropped for new ones; their figures are in their service only */
	uint64_t full_rows;     /* peers for which the kernel had no row of their own */
	uint64_t lost;          /* connections that were not counted at all */
};

/* Frees what it owns, and sets its counts to 0. */
void gs_traffic_list_fini(struct gs_traffic_list *list);

/* Requests of one client. */
struct gs_traffic_asker {
	char address[46]; /* "": all clients that are not listed by address */
	uint64_t requests;
};

/* What servers at one port did during the last ns nanoseconds. */
struct gs_traffic_growth {
	uint16_t port;
	uint64_t ns;
	uint64_t requests, sends;
	bool sends_known; /* false: this kernel shows no send calls */
	struct gs_traffic_asker
		*asker; /* owned; n_askers clients with requests, which sum to requests */
	size_t n_askers;
};

/* Frees what it owns, and sets its counts to 0. */
void gs_traffic_growth_fini(struct gs_traffic_growth *growth);

/* a += b. */
void gs_traffic_sums_add(struct gs_traffic_sums *a, const struct gs_traffic_sums *b);
/* a - b, of the same connections earlier. */
struct gs_traffic_sums gs_traffic_sums_since(const struct gs_traffic_sums *a,
					     const struct gs_traffic_sums *b);

/* The response time, in seconds, that this share (0 to 1) of the answered requests did not exceed: the upper end of its
 * bucket. NAN: no request was answered. */
double gs_traffic_quantile(const struct gs_traffic_sums *sums, double share);

#endif
