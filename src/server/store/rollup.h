/*
 * Several snapshots of a node as one: for what is old enough that its mean is all that is asked of
 * it.
 *
 *   gauges that are amounts (shares, bytes, watts, degrees, clocks, rates)    the mean
 *   counters, and gauges that are states (P-state, link width, limits)        the last
 *   highest of gs_rollup_has_peak() (utilisation, memory, power, ...)         kept beside it
 *   processes                  all that were there, means of their shares; those that are not in
 *                              the last snapshot have ended
 *   events (XID)               all
 *   identity, links, jobs      of the last
 *
 * The new snapshot has the time of the last, and elapsed_ns of its GPUs is what it stands for. Ahead
 * of it is a record COARSE, which says how many snapshots it is made of: so means of means come out
 * as means of what was measured. A snapshot in which GPUs came, went, were lost or found, the driver
 * changed its state, or the machine was restarted begins another one.
 */
#ifndef GS_SERVER_STORE_ROLLUP_H
#define GS_SERVER_STORE_ROLLUP_H

#include "model/node/host.h"
#include "model/node/rollup.h"

/* Whether a mean of it means something; whether its highest is kept beside it. */
bool gs_rollup_is_mean(enum gs_gpu_field field);
bool gs_rollup_has_peak(enum gs_gpu_field field);

struct gs_rollup; /* what gathers */

struct gs_rollup *gs_rollup_new(uint64_t interval_ns); /* NULL: no memory */
void gs_rollup_free(struct gs_rollup **coarse);        /* what it has gathered is lost */

/* Snapshots gathered so far, and how many, as measured, they stand for. */
uint32_t gs_rollup_count(const struct gs_rollup *coarse);
uint32_t gs_rollup_samples(const struct gs_rollup *coarse);

/* Whether the snapshot can be one with those that are there (true of an empty one). */
bool gs_rollup_fits(const struct gs_rollup *coarse, const struct gs_node_snapshot *snapshot);

/* Takes the snapshot over; mark: its own, may be NULL. 0 or -ENOMEM. */
int gs_rollup_add(struct gs_rollup *coarse, struct gs_node_snapshot **snapshot,
		  const struct gs_rollup_mark *mark);

/* Append what was gathered as records and begin again. ret_wall_ns: the time of the snapshot. 0,
 * -ENOBUFS, -ENOMEM. -EINVAL: nothing was gathered. */
int gs_rollup_put(struct gs_rollup *coarse, struct gs_buf *out, int64_t *ret_wall_ns);

#endif
