/* A moment of a machine for programs: JSON with everything in it, CSV with a line for each process.
 */
#ifndef GS_OUTPUT_REPORT_NODE_H
#define GS_OUTPUT_REPORT_NODE_H

#include <stdio.h>

#include "model/node/host.h"

/* What is not known is null (CSV: empty). 0, or what writing returned. */
int gs_report_node_json(FILE *out, const struct gs_node_snapshot *node);
/* Its jobs, a row each, in place of its processes. */
int gs_report_node_jobs_csv(FILE *out, const struct gs_node_snapshot *node);
int gs_report_node_csv(FILE *out, const struct gs_node_snapshot *node);

#endif
