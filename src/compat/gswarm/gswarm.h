/*
 * The gRPC interface of gswarm-profiler (proto/gswarm_profiler.proto) on a head, for its clients
 * and scripts: what they send becomes moments like those of our own nodes, and sessions are the
 * same sessions.
 */
#ifndef GS_COMPAT_GSWARM_GSWARM_H
#define GS_COMPAT_GSWARM_GSWARM_H

#include "server/head/head.h"

struct gs_gswarm;

struct gs_gswarm *gs_gswarm_new(void);          /* NULL: no memory */
void gs_gswarm_free(struct gs_gswarm **gswarm); /* after the head has stopped */

/* For the options of one head. */
struct gs_head_service gs_gswarm_service(struct gs_gswarm *gswarm);

#endif
