/* Private to the room. */
#ifndef GS_COMPAT_GSWARM_GSWARM_INT_H
#define GS_COMPAT_GSWARM_GSWARM_INT_H

#include <stdlib.h>

#include "core/base/mem.h"
#include "compat/gswarm/gswarm.h"
#include "gswarm_profiler.pb-c.h"
#include "net/uplink/uplink_line.h"
#include "server/api/endpoint.h"
#include "server/head/session.h"
#include "model/node/record.h"

#define GSWARM_METHODS     10
#define GSWARM_NO_HOSTNAME "a host's name has 1 to 63 bytes and no blanks"

struct gswarm_client;

struct gs_gswarm {
	struct gs_head *head;
	struct gs_grpc_method methods[GSWARM_METHODS];
	struct gswarm_client *clients; /* a list; of the gRPC server's thread */
};

void gswarm_refuse(struct gs_grpc_call *call, const char *text);

/* --- stream.c: StreamMetrics --- */

bool gswarm_hostname_valid(const char *name);
void gswarm_on_update(void *ctx, struct gs_grpc_call *call, const void *data, size_t bytes);
void gswarm_on_updates_end(void *ctx, struct gs_grpc_call *call);
void gswarm_on_closed(void *ctx, struct gs_grpc_call *call, enum gs_grpc_status status);

/* --- sample.c: messages to snapshots --- */

/* A message that came, checked to be one; NULL: it is none. Freed by ..._free_unpacked(). */
GswarmProfiler__MetricsUpdate *gswarm_update(const void *data, size_t bytes);

/* Which bandwidths a client has ever sent as more than 0. It sends 0 for what it does not measure:
 * it looks for what it is asked for every 30 s only, and never sets some of the fields. */
struct gswarm_seen {
	bool pcie, nvlink_rx, nvlink_tx;
};

/* A snapshot of it. now_wall_ns: the time of those that have none. seen: of this client, updated.
 * NULL: no memory. */
struct gs_node_snapshot *gswarm_sample(const GswarmProfiler__MetricsUpdate *update,
				       int64_t now_wall_ns, struct gswarm_seen *seen);

/* --- status.c: answers --- */

void gswarm_status(struct gs_head *h, struct gs_grpc_call *call);
void gswarm_cluster(struct gs_head *h, struct gs_grpc_call *call);
void gswarm_node(struct gs_head *h, struct gs_grpc_call *call, const char *node_id);

#define GSWARM_EXPORT_BYTES 128

/* The URL, without the host, from which a session can be had in gswarm-profiler's form. */
void gswarm_export_of(const struct gs_store_session *session, char out[GSWARM_EXPORT_BYTES]);

/* Where the file of a session is, or will be once it is stopped: its path, or where this head writes none
 * that URL. */
void gswarm_file_of(struct gs_head *h, const struct gs_store_session *session, char *out,
		    size_t bytes);

#define GSWARM_PATH_BYTES 4096

/* --- uplink.c: delivery to its head --- */

extern const struct gs_uplink_protocol gswarm_uplink;

/* --- http.c --- */

extern const struct gs_api_addition gswarm_http;

/* --- gsprof.c --- */

/* The program under the name gsprof: an exit status. */
int gswarm_run_gsprof(int argc, char **argv);

/* gsprof_more.c; command: "http-profile", "http-stop" or "http-status". Exit statuses. */
int gswarm_run_stat(int argc, char **argv);
int gswarm_run_http(int argc, char **argv, const char *command);

#endif
