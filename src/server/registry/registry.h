/*
 * The nodes of a cluster as they are now: who is connected, who is silent, the newest snapshot of
 * each. Written by the services of a head, read by everything that shows it. Writers and readers
 * share one lock inside, which is never held for longer than some nodes take to copy: who reads
 * several nodes takes a view, which does not change any more, and makes of it what it wants
 * without holding anybody up.
 *
 * Nodes are known by their number in the store. A node that was seen once stays, so that its
 * absence is shown.
 */
#ifndef GS_SERVER_REGISTRY_REGISTRY_H
#define GS_SERVER_REGISTRY_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/node/host.h"

#define GS_REGISTRY_SILENT_NS 30000000000ull /* without a sample: not healthy */

/* What is remembered of each GPU for a while: the first sample of each second. */
enum gs_registry_value {
	GS_REGISTRY_UTIL = 0, /* shares: 0 to 1 */
	GS_REGISTRY_MEMORY = 1,
	GS_REGISTRY_DRAM = 2,
	GS_REGISTRY_POWER = 3, /* watts */
	GS_REGISTRY_TEMPERATURE = 4,
	GS_REGISTRY_CLOCK = 5, /* of the SMs, Hz */
	GS_REGISTRY_VALUES
};

#define GS_REGISTRY_POINTS   300
#define GS_REGISTRY_GPUS_MAX 16384 /* that have a history: 62 MiB; further ones have none */

/* The row of model/node/gpu_field.h; share of memory: memory_used_bytes. -1: no such value. */
int gs_registry_value_field(unsigned value);

#define GS_REGISTRY_XIDS 16

struct gs_registry_xid {   /* an error of a GPU */
	int64_t wall_ns;   /* by the node's clock */
	uint32_t xid, gpu; /* number; index of the GPU in the snapshot */
};

/* When an event of a snapshot was, by the clock of its node. */
int64_t gs_registry_event_wall_ns(const struct gs_node_snapshot *snapshot,
				  const struct gs_gpu_event *event);

struct gs_registry_node {
	int64_t id;                                      /* of the store */
	char machine_id[64], instance[64], hostname[65]; /* as the node says */
	char address[64];       /* it comes from; "" never connected to this head */
	char version[32];       /* of its program; "gswarm" for those of gswarm-profiler */
	bool name_is_shared;    /* by a node of another machine: gs_node_label() */
	unsigned n_connections; /* now: a node may come back before its old stream has ended */
	bool healthy;           /* connected, and not silent */
	uint64_t received_ns;   /* monotonic, of this machine: its last sample; 0 never */
	int64_t last_wall_ns;   /* of its newest sample, by its clock; 0 none */
	uint64_t n_samples;     /* stored so far */
	uint64_t lost_samples, missed_samples; /* as the node reports, in total */
	bool clock_known;                      /* the next two are there */
	int64_t clock_offset_ns;               /* to add to its times to get ours */
	uint64_t clock_uncertain_ns;           /* at most so wrong: half of the best round trip */
	const struct gs_node_snapshot *latest; /* lent; NULL: nothing in this head's life */
	uint64_t n_gpu_events;                 /* errors of GPUs (XID) in this head's life */
	uint64_t n_xids;                       /* of them, those of GPUs that it has */
	struct gs_registry_xid xid[GS_REGISTRY_XIDS]; /* the last: the n-th at n % their number */
};

struct gs_registry;

struct gs_registry *gs_registry_new(void);           /* NULL: no memory */
void gs_registry_free(struct gs_registry **cluster); /* views that are held stay good */

/* A node is there (again): names are brought up to date. 0 or -ENOMEM. */
int gs_registry_put(struct gs_registry *cluster, const struct gs_registry_node *node);

/* One more stream of it has begun; unknown nodes are passed over, here and below. */
void gs_registry_connected(struct gs_registry *cluster, int64_t id, const char *address,
			   const char *version);

/* A connection of it ended: without another one it is not healthy. */
void gs_registry_gone(struct gs_registry *cluster, int64_t id);

/* A snapshot came, which is taken over; older ones than the newest are only counted as heard. A
 * node's clock may be set back: what was read later is newer. */
void gs_registry_apply(struct gs_registry *cluster, int64_t id, struct gs_node_snapshot **snapshot);

/* What is stored of it. */
void gs_registry_counts(struct gs_registry *cluster, int64_t id, uint64_t n_samples,
			uint64_t lost_samples, uint64_t missed_samples);

/* Offset and uncertainty as in struct gs_registry_node. */
void gs_registry_clock(struct gs_registry *cluster, int64_t id, int64_t offset_ns,
		       uint64_t uncertain_ns);

/* Now and then: who has been silent for too long. fn (may be NULL) is called for each whose health
 * changed since the last time, with the lock held. */
void gs_registry_tick(struct gs_registry *cluster, uint64_t now_mono_ns,
		      void (*fn)(void *ctx, const struct gs_registry_node *node), void *ctx);

/* All nodes, by rising id, each as it was at one time between the call and its return. It stays
 * as it is, for any thread, until the last reference is gone, and so long it keeps the snapshots that
 * it shows in memory. NULL: no memory. */
struct gs_registry_view;
struct gs_registry_view *gs_registry_view(struct gs_registry *cluster);
struct gs_registry_view *gs_registry_view_ref(struct gs_registry_view *view);
void gs_registry_view_unref(struct gs_registry_view **view);

/* Of NULL there are none. */
size_t gs_registry_view_count(const struct gs_registry_view *view);
const struct gs_registry_node *gs_registry_view_at(const struct gs_registry_view *view, size_t i);
const struct gs_registry_node *gs_registry_view_find(const struct gs_registry_view *view,
						     int64_t id);
uint64_t gs_registry_view_version(const struct gs_registry_view *view);

/* The points of a GPU (its number in the latest snapshot) from the oldest on, at most
 * GS_REGISTRY_POINTS: when, by the node's clock, and what (NAN: not known then). How many. */
size_t gs_registry_history(struct gs_registry *cluster, int64_t id, uint32_t gpu,
			   enum gs_registry_value value, int64_t *ret_wall_ns, double *ret_values);

/* The mean of a GPU's value over the last span_ns of its points (by the node's clock), and in how
 * many points it was known. NAN: in none. */
double gs_registry_mean(struct gs_registry *cluster, int64_t id, uint32_t gpu,
			enum gs_registry_value value, uint64_t span_ns, size_t *ret_n);

/* The same of several GPUs of a node as it is kept: the last n_points at most, of each GPU
 * GS_REGISTRY_POINTS places in ret_steps, whole steps of gs_registry_steps() or GS_REGISTRY_UNKNOWN.
 * How many points; 0 also when the node has not these GPUs any more. */
#define GS_REGISTRY_UNKNOWN UINT16_MAX
size_t gs_registry_points(struct gs_registry *cluster, int64_t id, enum gs_registry_value value,
			  uint32_t n_gpus, size_t n_points, int64_t *ret_wall_ns,
			  uint16_t *ret_steps);

/* In one unit of the value (in a share of 1). */
double gs_registry_steps(enum gs_registry_value value);

/* Grows with every change of any node: who shows them need not look again while it stays. */
uint64_t gs_registry_version(const struct gs_registry *cluster);

#endif
