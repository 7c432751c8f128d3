/*
 * What belongs to a moment of this machine beside its GPUs: the machine, the processes on the GPUs
 * or all of them, with names and jobs. Who they are is asked once for each process and now and then
 * again, since that costs more than to read what they do. One thread.
 */
#ifndef GS_MOMENT_MOMENT_H
#define GS_MOMENT_MOMENT_H

#include <stdbool.h>

#include "core/base/err.h"
#include "model/node/host.h"

struct gs_moment;

int gs_moment_new(struct gs_moment **ret_moment, struct gs_err *err);
void gs_moment_free(struct gs_moment **moment);

/* Complete a node of which the GPUs were read: host, times, name. all: every process, not only
 * those on GPUs; names: also who they are. 0, or -ENOMEM and the like. */
int gs_moment_fill(struct gs_moment *moment, bool all, bool names, struct gs_node_snapshot *node);

#endif
