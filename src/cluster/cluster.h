/*
 * The nodes of a cluster as they are now: who is connected, who is silent, the newest moment of
 * each. Written by the services of a head, read by everything that shows it; one lock inside, held
 * by gs_cluster_lock() for readers that look at several nodes.
 *
 * Nodes are known by their number in the store. A node that was seen once stays, so that its
 * absence is shown.
 */
#ifndef GS_CLUSTER_CLUSTER_H
#define GS_CLUSTER_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/host.h"

#define GS_CLUSTER_SILENT_NS 30000000000ull /* without a sample: not healthy */

/* What is remembered of each GPU for a while: the first sample of each second. */
enum gs_cluster_value {
	GS_CLUSTER_UTIL = 0, /* shares: 0 to 1 */
	GS_CLUSTER_MEMORY = 1,
	GS_CLUSTER_DRAM = 2,
	GS_CLUSTER_POWER = 3, /* watts */
	GS_CLUSTER_TEMPERATURE = 4,
	GS_CLUSTER_CLOCK = 5, /* of the SMs, Hz */
	GS_CLUSTER_VALUES
};

#define GS_CLUSTER_POINTS   300
#define GS_CLUSTER_GPUS_MAX 16384 /* that have a history: 62 MiB; further ones have none */

/* The row of model/gpu_field.h; share of memory: memory_used_bytes. -1: no such value. */
int gs_cluster_value_field(unsigned value);

struct gs_cluster_history;

struct gs_cluster_node {
	int64_t id; /* of the store */
	char machine_id[64], instance[64], hostname[65];
	char address[64];       /* it comes from; "" never connected to this head */
	char version[32];       /* of its program; "gswarm" for those of gswarm-profiler */
	unsigned n_connections; /* now: a node may come back before its old stream has ended */
	bool healthy;           /* connected, and not silent */
	uint64_t heard_ns;      /* monotonic, of this machine: its last sample; 0 never */
	int64_t last_wall_ns;   /* of its newest sample, by its clock; 0 none */
	uint64_t n_samples;     /* stored so far */
	uint64_t lost_samples, missed_samples;
	bool clock_known;
	int64_t clock_offset_ns;            /* to add to its times to get ours */
	uint64_t clock_uncertain_ns;        /* at most so wrong: half of the best round trip */
	struct gs_node_snapshot *latest;    /* owned; NULL: nothing in this head's life */
	struct gs_cluster_history *history; /* owned; NULL: none */
	uint64_t n_gpu_events;              /* errors of GPUs (XID) in this head's life */
	struct gs_gpu_event last_gpu_event; /* when there was one */
	int64_t last_gpu_event_wall_ns;
};

struct gs_cluster;

struct gs_cluster *gs_cluster_new(void); /* NULL: no memory */
void gs_cluster_free(struct gs_cluster **cluster);

/* A node is there (again): names are brought up to date. 0 or -ENOMEM. */
int gs_cluster_put(struct gs_cluster *cluster, const struct gs_cluster_node *node);

void gs_cluster_connected(struct gs_cluster *cluster, int64_t id, const char *address,
			  const char *version);

/* A connection of it ended: without another one it is not healthy. */
void gs_cluster_gone(struct gs_cluster *cluster, int64_t id);

/* A moment came, which is taken over; older ones than the newest are only counted as heard. */
void gs_cluster_apply(struct gs_cluster *cluster, int64_t id, struct gs_node_snapshot **moment);

/* What is stored of it. */
void gs_cluster_counts(struct gs_cluster *cluster, int64_t id, uint64_t n_samples,
		       uint64_t lost_samples, uint64_t missed_samples);

void gs_cluster_clock(struct gs_cluster *cluster, int64_t id, int64_t offset_ns,
		      uint64_t uncertain_ns);

/* Now and then: who has been silent for too long. fn (may be NULL) is called for each whose health
 * changed since the last time, with the lock held. */
void gs_cluster_tick(struct gs_cluster *cluster, uint64_t now_mono_ns,
		     void (*fn)(void *ctx, const struct gs_cluster_node *node), void *ctx);

/* Between these two, what the functions below hand out stays as it is. */
void gs_cluster_lock(struct gs_cluster *cluster);
void gs_cluster_unlock(struct gs_cluster *cluster);

size_t gs_cluster_count(const struct gs_cluster *cluster);
const struct gs_cluster_node *gs_cluster_at(const struct gs_cluster *cluster, size_t i); /* by id */
const struct gs_cluster_node *gs_cluster_find(const struct gs_cluster *cluster, int64_t id);

/* The points of a GPU (its number in the latest snapshot) from the oldest on, at most
 * GS_CLUSTER_POINTS: when, by the node's clock, and what (NAN: not known then). How many. With the
 * lock held. */
size_t gs_cluster_history(const struct gs_cluster_node *node, uint32_t gpu,
			  enum gs_cluster_value value, int64_t *ret_wall_ns, double *ret_values);

/* Grows with every change of any node: who shows them need not look again while it stays. */
uint64_t gs_cluster_version(const struct gs_cluster *cluster);

#endif
