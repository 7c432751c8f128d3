/*
 * TCP connections of all processes and network namespaces of this machine: peers, bytes, requests and response times.
 * eBPF programs at socket tracepoints add them up in rows (model/trace/traffic_side.h), which this room reads. They see
 * sizes only, never the data.
 *
 * Programs are attached from gs_traffic_open() to gs_traffic_close(), and at no other time.
 */
#ifndef GS_SOURCES_TRAFFIC_TRAFFIC_H
#define GS_SOURCES_TRAFFIC_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "model/trace/traffic_side.h"

struct gs_traffic;

struct gs_traffic_options {
	size_t size;          /* of this struct */
	const uint16_t *port; /* n_ports ports of servers, at most GS_TRAFFIC_PORTS; none: all */
	size_t n_ports;
	uint32_t max_rows;  /* in the kernel; 0: 4096 */
	bool without_sends; /* for tests: behave as before Linux 6.3, without send calls */
};

/* Loads and attaches the programs, and finds the open connections, whose bytes count from now on. Free *ret with
 * gs_traffic_close(). 0, or a negative errno with err; -ENOTSUP: the kernel lacks a tracepoint or type information. */
int gs_traffic_open(const struct gs_traffic_options *options, struct gs_traffic **ret,
		    struct gs_err *err);

/* Detaches everything, frees *traffic and sets it to NULL. */
void gs_traffic_close(struct gs_traffic **traffic);

/* What this kernel cannot show, as one line, valid as long as traffic; NULL: nothing is missing. */
const char *gs_traffic_missing(const struct gs_traffic *traffic);

/* A row of the kernel. */
struct gs_traffic_found {
	struct gs_traffic_key key;
	struct gs_traffic_row row;
};

/* Reads all rows, in no particular order. The array is valid until the next call. 0 or a negative errno. */
int gs_traffic_read(struct gs_traffic *traffic, struct gs_traffic_found **ret_found,
		    size_t *ret_n_found);

/* Removes a row from the kernel; *ret_row: its last values. A row that is used again starts at 0. It must not have open
 * connections. 0; -ENOENT: there is no such row; or another negative errno. */
int gs_traffic_take(struct gs_traffic *traffic, const struct gs_traffic_key *key,
		    struct gs_traffic_row *ret_row);

/* Gets the counts of rows and connections for which there was no memory, so far. walk_phase has no meaning here. */
void gs_traffic_losses(const struct gs_traffic *traffic, struct gs_traffic_state *ret_state);

#endif
