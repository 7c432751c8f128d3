/*
 * gswarm-profiler's interface, for its clients, heads and scripts: gRPC (proto/gswarm_profiler.proto)
 * and HTTP on a head, delivery to one of its heads, and the command lines of gsprof. What its clients
 * send becomes snapshots like those of our own nodes, and sessions are the same sessions. Nothing below
 * knows it: it sets what rooms below leave open. The build option `gswarm` leaves it out.
 */
#ifndef GS_COMPAT_GSWARM_GSWARM_H
#define GS_COMPAT_GSWARM_GSWARM_H

/* Once, at the start of the program. */
void gs_gswarm_add(void);

#endif
