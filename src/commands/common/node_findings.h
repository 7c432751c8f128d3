/*
 * Findings of this node while it is followed: a sample a second of its GPUs, which are read anyway, of the machine
 * and of the processes on the GPUs goes to the detectors (output/findings/findings.h). What they find is kept, each
 * change of a finding with a number, so that who asks again gets what is new. The agent and `gpuscope job` keep
 * findings so.
 *
 * One thread takes samples; any may read what is kept, between gs_findings_node_lock() and _unlock().
 */
#ifndef GS_COMMANDS_COMMON_NODE_FINDINGS_H
#define GS_COMMANDS_COMMON_NODE_FINDINGS_H

#include "output/findings/findings.h"
#include "core/base/err.h"
#include "model/node/gpu.h"

#define GS_NODE_FINDINGS_KEPT                                                                      \
	64 /* more take the place of the oldest, of those that are over first */

struct gs_node_findings;

struct gs_kept_finding {
	uint64_t number;                   /* of its last change, from 1; 0: free */
	struct gs_explain_finding finding; /* as it is now, ended or not */
};

/* options: NULL: the defaults. 0 or a negative errno with err; -EINVAL: a wrong option. */
int gs_findings_node_new(const struct gs_findings_options *options, struct gs_node_findings **ret,
			 struct gs_err *err);
void gs_findings_node_free(struct gs_node_findings **findings); /* NULL inside: nothing happens */

/* The GPUs as they are now, lent. Once a second is enough: more often does nothing, unless something has
 * happened. 0 or a negative errno: this sample is missing. */
int gs_findings_node_take(struct gs_node_findings *findings, const struct gs_gpu_snapshot *gpus);

/* Around reading what is kept; not nested. */
void gs_findings_node_lock(struct gs_node_findings *findings);
/* What was lent is void from then on. */
void gs_findings_node_unlock(struct gs_node_findings *findings);

/* While it is locked: the one that changed next after a number (lent); NULL: none. */
const struct gs_kept_finding *gs_findings_node_next(const struct gs_node_findings *findings,
						    uint64_t number);

/* While it is locked: the number of the last change, and how many began so far, by place in gs_detectors. */
uint64_t gs_findings_node_last(const struct gs_node_findings *findings);
uint64_t gs_findings_node_begun(const struct gs_node_findings *findings, size_t detector);

/* By which findings are written: it knows what time of day it was. */
const struct gs_findings *gs_findings_node_run(const struct gs_node_findings *findings);

#endif
