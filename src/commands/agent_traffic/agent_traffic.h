/*
 * TCP traffic of this node, as the agent serves it. A thread reads sources/traffic every few seconds; metrics and the
 * API read it once more when they are asked. agent_traffic.c has the thread, agent_traffic_show.c metrics and the JSON of
 * the API, agent_traffic_conf.c the configuration.
 */
#ifndef GS_COMMANDS_AGENT_TRAFFIC_AGENT_TRAFFIC_H
#define GS_COMMANDS_AGENT_TRAFFIC_AGENT_TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/conf.h"
#include "model/node/traffic.h"
#include "output/metrics/metrics.h"

struct agent_traffic;

/* The section `traffic`: a field for each of agent_traffic_keys, which has their ranges and defaults. */
struct agent_traffic_conf {
	bool enabled;
	char ports[256];          /* of servers, separated by commas; "": all */
	int64_t peers, max_peers; /* with metrics of their own; in memory */
	uint64_t linger_ns;       /* how long the kernel keeps what was not used */
	int64_t ollama_port;
};

#define AGENT_TRAFFIC_KEYS 6
extern const struct gs_conf_key agent_traffic_keys[AGENT_TRAFFIC_KEYS];

/* Starts counting. Free the result with agent_traffic_stop(). NULL: disabled, or not possible, which is reported on
 * standard error; the functions below accept NULL. */
struct agent_traffic *agent_traffic_start(const struct agent_traffic_conf *conf);

/* Stops counting, waits for the thread, frees *traffic and sets it to NULL. Main thread. */
void agent_traffic_stop(struct agent_traffic **traffic);

/* Gets the figures as of now. False: not counted, or out of memory. Free *ret_list with gs_traffic_list_fini().
 * *ret_missing: what this kernel cannot show, valid as long as traffic, or NULL. Any thread. */
bool agent_traffic_copy(struct agent_traffic *traffic, struct gs_traffic_list *ret_list,
			const char **ret_missing);

/* Gets what the server at ollama_port did since the last call, or since the start. False: as above. Free *ret_growth
 * with gs_traffic_growth_fini(). Call it from one thread only. */
bool agent_traffic_grown(struct agent_traffic *traffic, struct gs_traffic_growth *ret_growth);

/* Writes the metrics gpuscope_traffic_*; none if traffic is not counted. Errors stay in p. Any thread. */
void agent_traffic_metrics(struct agent_traffic *traffic, struct gs_metrics *p);

/* Writes the answer of /api/v1/traffic, one line of JSON. Errors stay in out. Any thread. */
void agent_traffic_document(struct agent_traffic *traffic, struct gs_buf *out);

#endif
