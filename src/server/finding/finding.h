/* What a head finds of jobs over many nodes (analysis/fleet), into its store and out of it as JSON; and steps of ranks. */
#ifndef GS_SERVER_FINDING_FINDING_H
#define GS_SERVER_FINDING_FINDING_H

#include "analysis/fleet/fleet.h"
#include "core/base/buf.h"
#include "output/metrics/metrics.h"
#include "server/store/finding.h"

/* Put it in, or in its own place again; run: of the head, random. In a transaction. 0 or a negative errno. */
int gs_finding_store(struct gs_store *store, uint64_t run, const struct gs_fleet_finding *finding);

/* One object with all that is known of it; data: as of gs_store_findings(). What the buffer refuses is in its r. */
void gs_finding_put_json(struct gs_buf *out, const struct gs_store_finding *finding,
			 const char *data);

/* Steps of the ranks of a communicator, side by side, as one object. */
void gs_finding_put_steps(struct gs_buf *out, const struct gs_fleet_steps *steps);

/* What the fleet has found that holds, without ids; lent for the calls. */
void gs_finding_each_holding(const struct gs_fleet *fleet, uint64_t run,
			     void (*fn)(void *ctx, const struct gs_store_finding *finding),
			     void *ctx);

/* The metric's head, and one line of a finding that holds; metrics: struct gs_metrics. A rank may be named by several
 * communicators, whose lines differ. */
void gs_finding_begin_metric(struct gs_metrics *metrics);
void gs_finding_put_metric(void *metrics, const struct gs_store_finding *finding);

#endif
